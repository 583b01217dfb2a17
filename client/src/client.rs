//! A client of one service: sends a call until it is answered.
//!
//! Each attempt is signed again; all attempts of a call carry one `amz-sdk-invocation-id`. Answers of 5xx and
//! 429 and broken connections are tried again with equal jitter, refusals are not. A wrong region and a clock
//! that is off are corrected by the answer once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::payload::{EMPTY_SHA256_HEX, PayloadForm};
use sherd_signature::signer::{Signer, encode_query};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::credentials::source::Account;
use crate::document::refusal_of;
use crate::error::{EndpointError, Error, ExchangeFailure, Refusal};
use crate::limits::{CLEANUP_TIMEOUT, CORRECTIONS_MAX, DOCUMENT_BYTES_MAX, PAUSE_MAX, PAUSE_MIN, SKEW_MIN};
use crate::payload::{Meter, Payload, SourceFault};
use crate::transport::{Transport, causes, within_progress};

/// A client of one service. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<ClientState>,
    cancelled: CancellationToken,
}

#[derive(Debug)]
struct ClientState {
    account: Account,
    signer: Option<Signer>,
    transport: Transport,
    attempts: u32,
    /// Regions of buckets that are not in the account's.
    regions: Mutex<HashMap<String, String>>,
    /// Milliseconds that the service's clock is ahead of this machine's.
    ahead_ms: AtomicI64,
    tasks: TaskTracker,
}

/// One call of S3.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) bucket: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Headers whose names are of the caller, in lower case.
    pub(crate) more_headers: Vec<(String, String)>,
    pub(crate) payload: Payload,
    /// Counts the bytes of the body as they go out.
    pub(crate) meter: Meter,
    pub(crate) on_cancel: OnCancel,
}

/// The effect of a cancellation on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// The call ends at once.
    End,
    /// The attempt that is under way is the last one, and is waited for: its answer names what must be
    /// removed.
    Answer,
    /// The call is sent nevertheless: it cleans up.
    GoOn,
}

impl Call {
    /// A call of the service.
    pub(crate) fn new(method: Method) -> Self {
        Self {
            method,
            bucket: None,
            key: None,
            query: Vec::new(),
            headers: Vec::new(),
            more_headers: Vec::new(),
            payload: Payload::EMPTY,
            meter: Meter::default(),
            on_cancel: OnCancel::End,
        }
    }

    /// A call of a bucket.
    pub(crate) fn bucket(method: Method, bucket: &str) -> Self {
        Self { bucket: Some(bucket.to_owned()), ..Self::new(method) }
    }

    /// A call of an object.
    pub(crate) fn object(method: Method, bucket: &str, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::bucket(method, bucket) }
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    fn query_text(&self) -> String {
        let pairs: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{name}={}", encode_query(value))).collect();
        pairs.join("&")
    }
}

/// The head of a success, with a body to come.
pub(crate) type Answer = Response<Incoming>;

/// The outcome of an attempt.
enum Verdict {
    Success(Answer),
    /// Worth another attempt; after a pause that the service asked for.
    Again(ExchangeFailure, Option<Duration>),
    /// Worth one more attempt, at once: the answer said what was wrong.
    Corrected,
    Refused(Refusal),
}

impl Client {
    /// Makes a client. Requests are tried `attempts` times; `cancelled` ends them.
    ///
    /// # Errors
    /// [`EndpointError::Certificates`].
    pub fn new(account: Account, attempts: u32, cancelled: CancellationToken) -> Result<Self, EndpointError> {
        let transport = Transport::new(account.endpoint.is_tls(), account.ca.as_deref())?;
        let signer = account.keys.clone().map(|pair| Signer::new(pair, "s3"));
        let shared = ClientState {
            account,
            signer,
            transport,
            attempts: attempts.max(1),
            regions: Mutex::default(),
            ahead_ms: AtomicI64::new(0),
            tasks: TaskTracker::new(),
        };
        Ok(Self { shared: Arc::new(shared), cancelled })
    }

    /// The service's account.
    pub fn account(&self) -> &Account {
        &self.shared.account
    }

    /// Whether both ask the same service with the same keys.
    pub fn is_same_service(&self, other: &Self) -> bool {
        let (one, other) = (self.account(), other.account());
        one.endpoint == other.endpoint && one.keys == other.keys
    }

    /// The same client, whose requests another token ends.
    #[must_use]
    pub fn cancelled_by(&self, cancelled: CancellationToken) -> Self {
        Self { shared: Arc::clone(&self.shared), cancelled }
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Runs a request that cleans up behind a transfer that was dropped.
    pub(crate) fn clean_up(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn(async move {
            let _left_behind = tokio::time::timeout(CLEANUP_TIMEOUT, work).await;
        });
    }

    /// Runs a task that reads ahead. It ends with its reader.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn(work);
    }

    /// Waits until all that dropped transfers left behind is cleaned up.
    pub async fn finish(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// The name of what a call is about, for errors.
    fn resource(&self, call: &Call) -> String {
        match (&call.bucket, &call.key) {
            (Some(bucket), Some(key)) => format!("s3://{bucket}/{key}"),
            (Some(bucket), None) => format!("s3://{bucket}"),
            (None, _) => self.account().endpoint.url(),
        }
    }

    /// Sends a call until it succeeds, is refused, or its attempts are used up.
    ///
    /// # Errors
    /// Errors of the service, the connection, and the body's source.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let attempts = self.attempt_all(call);
        match call.on_cancel {
            OnCancel::GoOn => return attempts.await,
            OnCancel::Answer if !self.cancelled.is_cancelled() => return attempts.await,
            OnCancel::End | OnCancel::Answer => {}
        }
        tokio::select! {
            // A call that is dropped is not answered; what it did on the service may be done.
            biased;
            () = self.cancelled.cancelled() => Err(Error::Cancelled),
            answer = attempts => answer,
        }
    }

    /// Sends a call, and reads the document that answers it. A document that is an error counts as one.
    ///
    /// # Errors
    /// As [`Self::send`], and [`Error::Malformed`] where it is too long.
    pub(crate) async fn document(&self, call: &Call) -> Result<Bytes, Error> {
        let mut left = self.shared.attempts;
        loop {
            let answer = self.send(call).await?;
            let failure = match read_document(answer).await {
                Ok(Some(body)) => match refusal_of(StatusCode::OK, &body) {
                    None => return Ok(body),
                    Some(refusal) if is_worth_another_attempt(&refusal) => {
                        ExchangeFailure::Busy(Box::new(refusal))
                    }
                    Some(refusal) => {
                        let refusal = Box::new(refusal);
                        return Err(Error::Refused { resource: self.resource(call), refusal });
                    }
                },
                Ok(None) => {
                    return Err(Error::Malformed { resource: self.resource(call), what: "it is too long" });
                }
                Err(failure) => failure,
            };
            left -= 1;
            if left == 0 {
                return Err(self.no_answer(call, failure));
            }
            self.pause(self.shared.attempts - left, None).await;
        }
    }

    async fn attempt_all(&self, call: &Call) -> Result<Answer, Error> {
        let invocation = invocation_id();
        let (mut attempt, mut corrections) = (1, 0);
        loop {
            let fault = SourceFault::default();
            call.meter.restart();
            let request = self.request(call, &invocation, attempt, &fault)?;
            let exchanged = self.shared.transport.exchange(request, &call.meter).await;
            let verdict = match exchanged {
                Ok(answer) if answer.status().is_success() => Verdict::Success(answer),
                Ok(answer) => self.judge(call, answer, corrections).await,
                Err(failure) => match fault.take() {
                    Some(error) => return Err(error),
                    None => Verdict::Again(failure, None),
                },
            };
            match verdict {
                Verdict::Success(answer) => return Ok(answer),
                Verdict::Refused(refusal) => {
                    return Err(Error::Refused { resource: self.resource(call), refusal: Box::new(refusal) });
                }
                Verdict::Corrected => corrections += 1,
                Verdict::Again(failure, _) if attempt >= self.shared.attempts => {
                    return Err(self.no_answer(call, failure));
                }
                Verdict::Again(_, asked) => {
                    if call.on_cancel == OnCancel::GoOn {
                        tokio::time::sleep(pause_time(attempt, asked)).await;
                    } else {
                        self.pause(attempt, asked).await;
                    }
                    if call.on_cancel == OnCancel::Answer && self.cancelled.is_cancelled() {
                        return Err(Error::Cancelled);
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// Waits before another attempt: as long as the service asked, or half of what doubles with each attempt
    /// and a random share of the other half.
    pub(crate) async fn pause(&self, attempt: u32, asked: Option<Duration>) {
        tokio::select! {
            // The attempt behind a pause that was cut short is refused.
            biased;
            () = self.cancelled.cancelled() => {}
            () = tokio::time::sleep(pause_time(attempt, asked)) => {}
        }
    }

    /// Attempts that a call has.
    pub(crate) fn attempts(&self) -> u32 {
        self.shared.attempts
    }

    pub(crate) fn no_answer(&self, call: &Call, failure: ExchangeFailure) -> Error {
        Error::NoAnswer {
            resource: self.resource(call),
            endpoint: self.account().endpoint.url(),
            attempts: self.shared.attempts,
            failure,
        }
    }

    fn region(&self, call: &Call) -> String {
        let regions = self.shared.regions.lock();
        let known = call.bucket.as_ref().and_then(|bucket| regions.get(bucket));
        known.unwrap_or(&self.account().region).clone()
    }

    fn now(&self) -> AmzDate {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        AmzDate::from_ms(ms.saturating_add_signed(self.shared.ahead_ms.load(Ordering::Relaxed)))
    }

    fn request(
        &self,
        call: &Call,
        invocation: &str,
        attempt: u32,
        fault: &SourceFault,
    ) -> Result<Request<crate::payload::PayloadBody>, Error> {
        let place = self.account().endpoint.place(call.bucket.as_deref(), call.key.as_deref());
        let query = call.query_text();
        let separator = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{}{separator}{query}", self.account().endpoint.origin(&place.host), place.path);
        let unsignable = || EndpointError::Sign(sherd_signature::signer::SignError::Header);
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| unsignable());
        let mut request = Request::builder().method(call.method.clone()).uri(uri).body(()).map_err(|_| {
            EndpointError::Url { url: self.account().endpoint.url(), reason: "no bucket may have this name" }
        })?;
        let headers = request.headers_mut();
        headers.insert(HOST, value(&place.host)?);
        headers.insert("amz-sdk-invocation-id", value(invocation)?);
        headers.insert("amz-sdk-request", value(&format!("attempt={attempt}; max={}", self.attempts()))?);
        headers.insert("user-agent", HeaderValue::from_static(concat!("sherd/", env!("CARGO_PKG_VERSION"))));
        let own = call.headers.iter().map(|(name, text)| (*name, text));
        for (name, text) in own.chain(call.more_headers.iter().map(|(name, text)| (name.as_str(), text))) {
            // Values of users, as metadata, may be UTF-8; S3 takes their bytes.
            let text = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| unsignable())?;
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsignable())?, text);
        }
        if call.method == Method::PUT || call.method == Method::POST {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(call.payload.len()));
        }
        let (mut head, ()) = request.into_parts();
        if let Some(signer) = &self.shared.signer {
            let payload = if call.payload.len() == 0 { EMPTY_SHA256_HEX } else { PayloadForm::UNSIGNED };
            signer.sign(&mut head, &self.region(call), payload, self.now()).map_err(EndpointError::from)?;
        }
        Ok(Request::from_parts(head, call.payload.body(&call.meter, fault)))
    }

    /// Judges an answer without success.
    async fn judge(&self, call: &Call, answer: Answer, corrections: u32) -> Verdict {
        let status = answer.status();
        let header =
            |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (region, date) = (header("x-amz-bucket-region"), header("date"));
        let (after, request_id) = (header("retry-after"), header("x-amz-request-id"));
        let body = match read_document(answer).await {
            Ok(body) => body.unwrap_or_default(),
            Err(failure) => return Verdict::Again(failure, None),
        };
        let mut refusal = refusal_of(status, &body).unwrap_or_else(|| of_status(status));
        refusal.request_id = request_id.unwrap_or_default();
        if corrections < CORRECTIONS_MAX && self.correct(call, &refusal, region, date) {
            return Verdict::Corrected;
        }
        if is_worth_another_attempt(&refusal) {
            let asked = after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            return Verdict::Again(ExchangeFailure::Busy(Box::new(refusal)), asked);
        }
        Verdict::Refused(refusal)
    }

    /// Takes the region or the time from an answer that complains of ours.
    fn correct(&self, call: &Call, refusal: &Refusal, region: Option<String>, date: Option<String>) -> bool {
        if let (Some(region), Some(bucket)) = (region, &call.bucket)
            && region != self.region(call)
        {
            self.shared.regions.lock().insert(bucket.clone(), region);
            return matches!(refusal.status, 301 | 307 | 400 | 403);
        }
        // The answer to a HEAD has no code.
        let may_be_skewed =
            refusal.code == "RequestTimeTooSkewed" || (call.method == Method::HEAD && refusal.status == 403);
        let theirs = date.and_then(|date| httpdate::parse_http_date(&date).ok());
        let Some(theirs) = theirs.filter(|_| may_be_skewed) else { return false };
        let ahead = theirs.duration_since(SystemTime::now()).map_or_else(
            |behind| -i64::try_from(behind.duration().as_millis()).unwrap_or(0),
            |ahead| i64::try_from(ahead.as_millis()).unwrap_or(0),
        );
        let before = self.shared.ahead_ms.swap(ahead, Ordering::Relaxed);
        Duration::from_millis(before.abs_diff(ahead)) > SKEW_MIN
    }

    /// Signs a GET or PUT of an object in its query, valid for `seconds`.
    ///
    /// # Errors
    /// [`Error::Endpoint`], [`Error::Credentials`] without keys.
    pub fn presign(&self, method: &str, bucket: &str, key: &str, seconds: u64) -> Result<String, Error> {
        let signer = self.shared.signer.as_ref().ok_or(crate::error::CredentialsError::Nowhere)?;
        let place = self.account().endpoint.place(Some(bucket), Some(key));
        let request = sherd_signature::signer::PresignRequest {
            method,
            path_and_query: &place.path,
            host: &place.host,
            expires_seconds: seconds,
        };
        let path = signer.presign(request, &self.account().region, self.now());
        Ok(format!("{}{}", self.account().endpoint.origin(&place.host), path.map_err(EndpointError::from)?))
    }
}

/// Reads an answer's body; nothing if it is longer than a document may be.
async fn read_document(answer: Answer) -> Result<Option<Bytes>, ExchangeFailure> {
    let mut body = answer.into_body();
    let mut read = BytesMut::new();
    while let Some(frame) = within_progress(body.frame(), &Meter::default()).await? {
        let frame = frame.map_err(|error| ExchangeFailure::Connection(causes(&error)))?;
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > DOCUMENT_BYTES_MAX {
                return Ok(None);
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(Some(read.freeze()))
}

/// Codes of what passes, with whichever status they come: an answer that began as a success may end in one.
const PASSING: [&str; 7] = [
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    "OperationAborted",
    "Throttling",
    "ThrottlingException",
];

/// Whether the service could not serve a request that it may serve later.
fn is_worth_another_attempt(refusal: &Refusal) -> bool {
    matches!(refusal.status, 408 | 429 | 500 | 502 | 503 | 504) || PASSING.contains(&refusal.code.as_str())
}

/// A refusal without a body, as HEAD has it.
fn of_status(status: StatusCode) -> Refusal {
    let code = match status {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::FORBIDDEN => "AccessDenied",
        StatusCode::PRECONDITION_FAILED => "PreconditionFailed",
        StatusCode::NOT_MODIFIED => "NotModified",
        _ => status.canonical_reason().unwrap_or("Unknown"),
    };
    let code = code.replace(' ', "");
    Refusal { status: status.as_u16(), code, message: String::new(), request_id: String::new() }
}

fn pause_time(attempt: u32, asked: Option<Duration>) -> Duration {
    asked.map_or_else(|| jittered(attempt, random_u64()), |asked| asked.min(PAUSE_MAX))
}

/// Equal jitter: half of a pause that doubles, and a random share of the other half.
fn jittered(attempt: u32, random: u64) -> Duration {
    let whole = PAUSE_MIN.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(PAUSE_MAX);
    let half = whole / 2;
    let range = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_micros(random % range)
}

pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    // Without entropy all clients pause equally long.
    let _equal = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// A random id in the form of a UUID of version 4.
fn invocation_id() -> String {
    let mut bytes = [0; 16];
    let _without_entropy = getrandom::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let text = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_never_below_half() {
        for attempt in 1..40 {
            let whole = PAUSE_MIN.saturating_mul(1 << (attempt - 1).min(16)).min(PAUSE_MAX);
            for random in [0, 1, u64::MAX / 3, u64::MAX] {
                let pause = jittered(attempt, random);
                assert!(pause >= whole / 2 && pause <= whole, "{attempt} {random} {pause:?}");
            }
        }
    }

    #[test]
    fn an_invocation_is_a_uuid() {
        let id = invocation_id();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'));
        assert_ne!(id, invocation_id());
    }

    #[test]
    fn only_what_may_be_served_later_is_tried_again() {
        let refusal = |status, code: &str| Refusal {
            status,
            code: code.to_owned(),
            message: String::new(),
            request_id: String::new(),
        };
        for (status, code, expected) in [
            (503, "SlowDown", true),
            (500, "InternalError", true),
            (429, "TooManyRequests", true),
            (400, "RequestTimeout", true),
            (501, "NotImplemented", false),
            (408, "RequestTimeout", true),
            (200, "InternalError", true),
            (200, "AccessDenied", false),
            (400, "BadDigest", false),
            (403, "AccessDenied", false),
            (404, "NoSuchKey", false),
            (412, "PreconditionFailed", false),
        ] {
            assert_eq!(is_worth_another_attempt(&refusal(status, code)), expected, "{status} {code}");
        }
    }
}
