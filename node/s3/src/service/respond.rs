//! The answer's last step: ids, one form for every error, no body where none belongs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};
use s3s::Body;
use sherd_core::env::Clock;
use sherd_front::audit::record::AuditRecord;

use crate::service::lacking::LackingFeatures;
use crate::wire::aws_chunked::FramingError;
use crate::wire::body::BodyError;
use crate::wire::context::RequestId;
use crate::wire::form::FormError;
use crate::wire::limits::{FORM_FIELDS_BYTES_MAX, FORM_REST_BYTES_MAX, FRAME_BYTES_MIN};
use crate::wire::refusal::{Code, Refusal, Side, element};
use crate::wire::{address, checksum};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const ERROR_CODE: HeaderName = HeaderName::from_static("x-amz-error-code");
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("x-amz-error-message");
const APPLICATION_XML: HeaderValue = HeaderValue::from_static("application/xml");
/// The region of a bucket. An SDK that signed for another region looks for it, and signs again: in the answer
/// of HeadBucket, and in that of a HEAD, which has no document.
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");
/// Seconds after which a client may try again when the node is overloaded.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The stage that completes answers: ids, and the log of features that are asked for and lacking.
pub(super) struct Responder {
    region: HeaderValue,
    host_id: HeaderValue,
    lacking: LackingFeatures,
    request_number: AtomicU64,
}

impl Responder {
    /// Completes the answers of the node `host_id`, visible ASCII, in a region. Request ids start from
    /// `request_id_seed`.
    pub(super) fn new(region: &str, host_id: &str, request_id_seed: u64, clock: Arc<dyn Clock>) -> Self {
        let visible: String = host_id.chars().filter(char::is_ascii_graphic).collect();
        Self {
            region: HeaderValue::try_from(region).expect("a region is letters, digits and hyphens"),
            host_id: HeaderValue::try_from(visible).expect("visible ASCII is a header value"),
            lacking: LackingFeatures::new(clock),
            request_number: AtomicU64::new(request_id_seed),
        }
    }

    /// Ids that neither repeat in a run nor show how many requests there were: a counter through
    /// the finaliser of SplitMix64, which is a bijection.
    pub(super) fn next_request_id(&self) -> RequestId {
        let mut number = self.request_number.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId::from_u64(number ^ (number >> 31))
    }

    /// The context of an answer to a request that cannot be read, or that has no place.
    pub(super) fn to_no_request(&self) -> RespondContext<'_> {
        RespondContext {
            request_id: self.next_request_id(),
            host_id: &self.host_id,
            path: "",
            is_head: false,
            is_of_account: false,
            audit: None,
        }
    }

    /// The context of the answer to a request with this head.
    pub(super) fn to<'a>(
        &'a self,
        parts: &Parts,
        uri: &'a Uri,
        request_id: RequestId,
        audit: Option<AuditRecord>,
    ) -> RespondContext<'a> {
        RespondContext {
            request_id,
            host_id: &self.host_id,
            path: uri.path(),
            is_head: parts.method == Method::HEAD,
            is_of_account: address::is_of_account(parts),
            audit,
        }
    }

    /// Answers a request that was refused before it was admitted; `says_region` where its answer says the
    /// bucket's region.
    pub(super) fn refuse(
        &self,
        refusal: &Refusal,
        says_region: bool,
        asked: &RespondContext<'_>,
    ) -> Response<Body> {
        if let Some((kind, name)) = refusal.lacking() {
            self.lacking.asked(kind, name);
        } else {
            tracing::debug!(code = refusal.code.name(), "refused");
        }
        let mut response = asked.refuse(refusal, Side::Layer);
        if refusal.is_for_region() || says_region {
            response.headers_mut().insert(BUCKET_REGION, self.region.clone());
        }
        response
    }

    /// Counts and logs the answer of an operation.
    pub(super) fn note(&self, operation: &str, status: StatusCode, code: Option<&str>) {
        if status == StatusCode::NOT_IMPLEMENTED {
            // The operation is here; some of what it was asked for is not.
            self.lacking.asked("Operation", operation);
        } else if status.is_server_error() {
            tracing::warn!(status = status.as_u16(), code, "request failed");
        } else {
            tracing::debug!(status = status.as_u16(), code, "answered");
        }
    }
}

/// The parts of a request that its answer needs.
#[derive(Debug)]
pub(super) struct RespondContext<'a> {
    pub(super) request_id: RequestId,
    pub(super) host_id: &'a HeaderValue,
    pub(super) path: &'a str,
    pub(super) is_head: bool,
    /// Whether it is one of S3 Control, whose errors stand in an element more.
    pub(super) is_of_account: bool,
    /// The record of the request, where there is an audit log.
    pub(super) audit: Option<AuditRecord>,
}

impl RespondContext<'_> {
    /// Answers a refused request.
    pub(super) fn refuse(&self, refusal: &Refusal, side: Side) -> Response<Body> {
        if let Some(audit) = &self.audit {
            audit.fail(refusal.code.name());
        }
        let mut xml = refusal.open(side);
        self.close(&mut xml);
        if self.is_of_account {
            xml = xml.replacen("<Error>", "<ErrorResponse><Error>", 1) + "</ErrorResponse>";
        }
        let mut response = Response::new(Body::from(xml));
        *response.status_mut() = refusal.code.status();
        response.headers_mut().extend(refusal.headers.iter().cloned());
        if side == Side::Operation && refusal.code != Code::NotModified {
            response.headers_mut().insert(CONTENT_TYPE, APPLICATION_XML);
        }
        if let Some((kind, name)) = refusal.lacking().filter(|_| self.is_head) {
            say_in_header(&mut response, refusal.code.name(), &format!("{}: {kind} {name}", refusal.message));
        }
        if refusal.code == Code::RequestTimeout {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.finish(&mut response);
        response
    }

    fn close(&self, xml: &mut String) {
        element(xml, "Resource", self.path);
        element(xml, "RequestId", self.request_id.as_str());
        element(xml, "HostId", self.host_id.to_str().unwrap_or_default());
        xml.push_str("</Error>");
    }

    /// Completes an answer: its ids, and no body where none belongs.
    pub(super) fn finish(&self, response: &mut Response<Body>) {
        let status = response.status();
        let bodiless = self.is_head || matches!(status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
        let is_error = status.is_client_error() || status.is_server_error();
        if bodiless {
            *response.body_mut() = Body::empty();
        }
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.request_id.header());
        headers.insert(HOST_ID, self.host_id.clone());
        if is_error {
            headers.insert(CONTENT_TYPE, APPLICATION_XML);
            headers.remove(CONTENT_LENGTH);
        }
        if bodiless && (is_error || status == StatusCode::NOT_MODIFIED) {
            headers.remove(CONTENT_LENGTH);
            headers.remove(TRANSFER_ENCODING);
        }
        if status == StatusCode::NOT_MODIFIED {
            headers.remove(CONTENT_TYPE);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE && !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
    }
}

/// Says in headers what a HEAD's answer has no document for, in those that AWS uses for websites.
fn say_in_header(response: &mut Response<Body>, code: &'static str, message: &str) {
    let visible: String = message
        .chars()
        .map(|character| if matches!(character, ' '..='~') { character } else { '?' })
        .collect();
    response.headers_mut().insert(ERROR_CODE, HeaderValue::from_static(code));
    if let Ok(message) = HeaderValue::try_from(visible) {
        response.headers_mut().insert(ERROR_MESSAGE, message);
    }
}

impl From<&BodyError> for Refusal {
    fn from(error: &BodyError) -> Self {
        match error {
            BodyError::Broken { .. } | BodyError::Truncated { .. } => Self::new(Code::IncompleteBody),
            BodyError::TooLong => {
                Self::says(Code::IncompleteBody, "The request body is longer than it was declared to be")
            }
            BodyError::GaveWay(_) => Self::new(Code::SlowDown),
            BodyError::Slow => Self::new(Code::RequestTimeout),
            BodyError::Revoked => Self::new(Code::InvalidAccessKeyId),
            BodyError::Digest { declared, computed } => Self::new(Code::XAmzContentSHA256Mismatch)
                .with("ClientComputedContentSHA256", hex::encode(declared))
                .with("S3ComputedContentSHA256", hex::encode(computed)),
            BodyError::Framing(error) => framing(*error),
            BodyError::Form(error) => form(*error),
        }
    }
}

fn form(error: FormError) -> Refusal {
    match error {
        FormError::Malformed => Refusal::new(Code::MalformedPOSTRequest),
        FormError::FieldsTooLong => Refusal::new(Code::MaxPostPreDataLengthExceeded)
            .with("MaxPostPreDataLengthBytes", FORM_FIELDS_BYTES_MAX.to_string()),
        FormError::FileCount { count } => Refusal::new(Code::IncorrectNumberOfFilesInPostRequest)
            .with("ArgumentName", "file")
            .with("ArgumentValue", count.to_string()),
        FormError::RestTooLong { bytes } => Refusal::new(Code::MaxMessageLengthExceeded)
            .with("MessageLength", bytes.to_string())
            .with("MaxMessageLengthBytes", FORM_REST_BYTES_MAX.to_string()),
        FormError::FileTooSmall { size, min } => Refusal::new(Code::EntityTooSmall)
            .with("ProposedSize", size.to_string())
            .with("MinSizeAllowed", min.to_string()),
        FormError::FileTooLarge { size, max } => Refusal::new(Code::EntityTooLarge)
            .with("ProposedSize", size.to_string())
            .with("MaxSizeAllowed", max.to_string()),
    }
}

fn framing(error: FramingError) -> Refusal {
    match error {
        FramingError::Malformed => Refusal::new(Code::IncompleteBody),
        FramingError::Trailing => {
            Refusal::says(Code::InvalidRequest, "Bytes follow the end of the aws-chunked request body")
        }
        FramingError::FrameTooLong { bytes } => Refusal::says(
            Code::InvalidChunkSizeError,
            "A signed chunk is longer than the maximum allowed size",
        )
        .with("BadChunkSize", bytes.to_string()),
        FramingError::FrameTooShort => {
            Refusal::new(Code::InvalidChunkSizeError).with("MinChunkSize", FRAME_BYTES_MIN.to_string())
        }
        FramingError::Signature => Refusal::new(Code::SignatureDoesNotMatch),
        FramingError::Trailer => Refusal::new(Code::MalformedTrailerError),
        FramingError::TrailerValue { algorithm } => Refusal::says(
            Code::InvalidRequest,
            format!("Value for {} trailing header is invalid.", checksum::header(algorithm)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;

    static HOST: HeaderValue = HeaderValue::from_static("node-0");

    fn asked(is_head: bool) -> RespondContext<'static> {
        RespondContext {
            request_id: RequestId::from_u64(0xab),
            host_id: &HOST,
            path: "/b/<k>",
            is_head,
            is_of_account: false,
            audit: None,
        }
    }

    fn answer(status: u16, body: &'static str) -> Response<Body> {
        let mut response = Response::new(Body::from(bytes::Bytes::from_static(body.as_bytes())));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        response
    }

    fn text(response: &Response<Body>) -> String {
        String::from_utf8(response.body().bytes().expect("in memory").to_vec()).expect("text")
    }

    #[test]
    fn a_refusal_is_a_document_with_ids() {
        let refusal = Refusal::new(Code::PreconditionFailed).with("Condition", "If-<Match>");
        let response = asked(false).refuse(&refusal, Side::Operation);
        assert_eq!(
            text(&response),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>PreconditionFailed</Code>\
             <Message>At least one of the pre-conditions you specified did not hold</Message>\
             <Condition>If-&lt;Match&gt;</Condition><Resource>/b/&lt;k&gt;</Resource>\
             <RequestId>00000000000000AB</RequestId><HostId>node-0</HostId></Error>"
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/xml");
        assert_eq!(response.headers()[REQUEST_ID], "00000000000000AB");
    }

    #[test]
    fn errors_of_s3_control_stand_in_an_element_more() {
        let asked = RespondContext { is_of_account: true, ..asked(false) };
        let response = asked.refuse(&Refusal::new(Code::AccessDenied), Side::Layer);
        let document = text(&response);
        assert!(document.contains("<ErrorResponse><Error><Code>AccessDenied</Code>"), "{document}");
        assert!(document.ends_with("</Error></ErrorResponse>"), "{document}");
    }

    #[test]
    fn heads_and_unmodified_answers_have_no_body() {
        let head = asked(true).refuse(&Refusal::new(Code::NoSuchKey), Side::Operation);
        assert!(head.body().is_end_stream());
        let unmodified = asked(false).refuse(&Refusal::new(Code::NotModified), Side::Operation);
        assert!(unmodified.body().is_end_stream());
        assert!(!unmodified.headers().contains_key(CONTENT_LENGTH));
        assert!(!unmodified.headers().contains_key(CONTENT_TYPE));
        let mut found = answer(200, "");
        found.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(7));
        asked(true).finish(&mut found);
        assert_eq!(found.headers()[CONTENT_LENGTH], "7", "a HEAD says how long the object is");
    }

    #[test]
    fn overload_says_when_to_come_back() {
        let response = asked(false).refuse(&Refusal::new(Code::SlowDown), Side::Operation);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        let later = Refusal::new(Code::SlowDown).with_header(RETRY_AFTER, HeaderValue::from(9));
        assert_eq!(asked(false).refuse(&later, Side::Operation).headers()[RETRY_AFTER], "9");
    }

    #[test]
    fn slow_bodies_close_the_connection() {
        let response = asked(false).refuse(&Refusal::from(&BodyError::Slow), Side::Layer);
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()[CONNECTION], "close");
    }
}
