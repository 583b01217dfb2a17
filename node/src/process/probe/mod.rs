//! `sherd-node probe`: asks an S3 endpoint to keep an object, and looks whether it comes back.
//!
//! ```text
//! PUT bucket -> PUT object -> GET object, compare -> DELETE object -> DELETE bucket
//! ```
//!
//! With `--bucket` the bucket is there and stays: what a user who may not make buckets can ask for.
//!
//! Each step is one request of its own connection, in clear or over TLS, signed with SigV4, path style. After
//! a failed step the probe still tries to remove what it made. All together ends within 30 s: it is what a
//! rollout or a cron job waits for, and its exit code is the answer.

mod limits;

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONNECTION, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use sherd_core::env::{Clock, Rng};
use sherd_signature::Secret;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::canonical::{CanonicalRequest, PathForm};
use sherd_signature::query::Query;
use sherd_signature::signing_key::SigningKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use self::limits::{ANSWER_BYTES_MAX, CLEANUP_TIMEOUT, OBJECT_BYTES, TIMEOUT, WORDS_MAX};
use crate::process::config::REGION;
use crate::process::config::credentials::{ACCESS_KEY_LINE, SECRET_KEY_LINE};
use sherd_net::tls::TrustError;
use sherd_net::tls::https::{EndpointName, HttpsConnector};

/// The headers that each request signs.
const SIGNED_HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";
const KEY: &str = "object";

/// `sherd-node probe`.
#[derive(Debug, Args)]
#[command(
    after_help = "The credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment.\n\n\
    Exit codes: 0 the object came back as it was put, 1 a step failed, 2 the command line was refused"
)]
pub struct ProbeArgs {
    /// The S3 endpoint, as in http://127.0.0.1:9000, or with https
    #[arg(long, value_name = "URL", value_parser = Endpoint::parse)]
    pub endpoint: Endpoint,
    /// Certificates of the authorities that an https endpoint is trusted by, in PEM [default: those that the
    /// system trusts]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Region that requests are signed for
    #[arg(long, default_value = REGION)]
    pub region: String,
    /// A bucket that is there, for the object [default: one that is made and deleted]
    #[arg(long, value_name = "NAME", value_parser = bucket_name)]
    pub bucket: Option<String>,
}

/// The name of a bucket, as a path has it without an escape.
fn bucket_name(text: &str) -> Result<String, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let named = (3..=63).contains(&text.len()) && text.bytes().all(is_plain);
    if named {
        Ok(text.to_owned())
    } else {
        Err("a bucket's name is 3 to 63 lower-case letters, digits, '-' and '.'")
    }
}

/// Host and port of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The endpoint as the `Host` header has it.
    authority: String,
    /// The endpoint as a connection needs it: with a port.
    address: String,
    /// The name that its certificate must have; `None` in clear text.
    tls_name: Option<EndpointName>,
}

/// The URL is not that of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an endpoint is http://HOST[:PORT] or https://HOST[:PORT], without path, query or user")]
pub struct InvalidEndpoint;

impl Endpoint {
    fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let uri: Uri = text.parse().map_err(|_| InvalidEndpoint)?;
        let authority = uri.authority().ok_or(InvalidEndpoint)?;
        let is_bare = uri.path() == "/" && uri.query().is_none() && !authority.as_str().contains('@');
        let host = authority.host();
        if !is_bare || host.is_empty() {
            return Err(InvalidEndpoint);
        }
        let (port, tls_name) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => {
                let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
                let name = EndpointName::parse(bare).ok_or(InvalidEndpoint)?;
                (443, Some(name))
            }
            _ => return Err(InvalidEndpoint),
        };
        let address = format!("{host}:{}", authority.port_u16().unwrap_or(port));
        Ok(Self { authority: authority.to_string(), address, tls_name })
    }
}

/// A step of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeStep {
    /// Makes the bucket.
    CreateBucket,
    /// Stores the object.
    PutObject,
    /// Reads it back.
    GetObject,
    /// Removes it.
    DeleteObject,
    /// Removes the bucket.
    DeleteBucket,
}

/// Why the probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A variable with half of the credentials is not set.
    #[error("{0} is not set")]
    Credentials(&'static str),
    /// The authorities cannot be read, or the file has not one.
    #[error(transparent)]
    Authorities(#[from] TrustError),
    /// An authority for an endpoint in clear text.
    #[error("--ca is for an endpoint of https://")]
    CaInClear,
    /// No answer.
    #[error("{step:?}: {failure}")]
    Exchange {
        /// The step.
        step: ProbeStep,
        /// The step that failed.
        failure: ExchangeFailure,
    },
    /// An answer that refuses.
    #[error("{step:?} was answered {status}: {words}")]
    Refused {
        /// The step.
        step: ProbeStep,
        /// The answer's status.
        status: StatusCode,
        /// S3's code and message, or the beginning of the answer.
        words: String,
    },
    /// The object came back and is another one.
    #[error("GetObject returned {got} bytes that are not the {put} that were put")]
    Different {
        /// Bytes that came back.
        got: usize,
        /// Bytes that were put.
        put: usize,
    },
    /// The system gives no runtime.
    #[error("start a runtime: {0}")]
    Runtime(#[source] io::Error),
    /// The time is over.
    #[error("not done within {} s", TIMEOUT.as_secs())]
    TimedOut,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeFailure {
    /// The endpoint takes no connection.
    #[error("connect to {address}: {source}")]
    Connect {
        /// Of the endpoint.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The endpoint does not speak TLS, or its certificate is not trusted.
    #[error("TLS with {address}: {source}")]
    Handshake {
        /// Of the endpoint.
        address: String,
        /// The error of TLS.
        source: io::Error,
    },
    /// The connection breaks, or it is not HTTP.
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The answer's body breaks, or is longer than any of these steps.
    #[error("read the answer: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The region or key id does not fit into a header.
    #[error("make the request: {0}")]
    Request(#[from] http::Error),
}

struct Client<'a> {
    endpoint: &'a Endpoint,
    tls: Option<(HttpsConnector, &'a EndpointName)>,
    region: &'a str,
    access_key_id: String,
    secret: Secret,
    clock: &'a dyn Clock,
    /// Whether the bucket is made and deleted.
    makes_bucket: bool,
}

/// Probes the endpoint on a runtime of its own, with the credentials that `variable` returns.
///
/// # Errors
/// [`ProbeError`] names the step that failed and why.
pub fn probe(
    arguments: &ProbeArgs,
    variable: &(dyn Fn(&str) -> Option<String> + Sync),
    clock: &dyn Clock,
    rng: &dyn Rng,
) -> Result<(), ProbeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ProbeError::Runtime)?.block_on(ask(arguments, variable, clock, rng))
}

async fn ask(
    arguments: &ProbeArgs,
    variable: &(dyn Fn(&str) -> Option<String> + Sync),
    clock: &dyn Clock,
    rng: &dyn Rng,
) -> Result<(), ProbeError> {
    let read = |name| variable(name).filter(|text| !text.is_empty()).ok_or(ProbeError::Credentials(name));
    let access_key_id = read(ACCESS_KEY_LINE)?;
    let secret = Secret::new(read(SECRET_KEY_LINE)?);
    let ProbeArgs { endpoint, ca, region, bucket } = arguments;
    let tls = match &endpoint.tls_name {
        Some(name) => Some((HttpsConnector::new(ca.as_deref())?, name)),
        None if ca.is_some() => return Err(ProbeError::CaInClear),
        None => None,
    };
    let makes_bucket = bucket.is_none();
    let client = Client { endpoint, tls, region, access_key_id, secret, clock, makes_bucket };
    let name = format!("probe-{}", hex::encode(rng.next_id()));
    let (bucket, object) = match bucket {
        Some(bucket) => (format!("/{bucket}"), format!("/{bucket}/{name}")),
        None => (format!("/{name}"), format!("/{name}/{KEY}")),
    };
    let mut bytes = vec![0; OBJECT_BYTES];
    rng.fill(&mut bytes);
    let outcome = tokio::time::timeout(TIMEOUT, client.steps(&bucket, &object, bytes.into())).await;
    let outcome = outcome.unwrap_or(Err(ProbeError::TimedOut));
    if outcome.is_err() {
        // The first failure is the answer: what these two meet adds nothing.
        let _left_behind = tokio::time::timeout(CLEANUP_TIMEOUT, client.clean_up(&bucket, &object)).await;
    }
    outcome
}

impl Client<'_> {
    async fn steps(&self, bucket: &str, object: &str, bytes: Bytes) -> Result<(), ProbeError> {
        if self.makes_bucket {
            self.step(ProbeStep::CreateBucket, bucket, Bytes::new()).await?;
        }
        self.step(ProbeStep::PutObject, object, bytes.clone()).await?;
        let got = self.step(ProbeStep::GetObject, object, Bytes::new()).await?;
        if got != bytes {
            return Err(ProbeError::Different { got: got.len(), put: bytes.len() });
        }
        self.clean_up(bucket, object).await
    }

    async fn clean_up(&self, bucket: &str, object: &str) -> Result<(), ProbeError> {
        self.step(ProbeStep::DeleteObject, object, Bytes::new()).await?;
        if self.makes_bucket {
            self.step(ProbeStep::DeleteBucket, bucket, Bytes::new()).await?;
        }
        Ok(())
    }

    async fn step(&self, step: ProbeStep, path: &str, body: Bytes) -> Result<Bytes, ProbeError> {
        let method = match step {
            ProbeStep::CreateBucket | ProbeStep::PutObject => Method::PUT,
            ProbeStep::GetObject => Method::GET,
            ProbeStep::DeleteObject | ProbeStep::DeleteBucket => Method::DELETE,
        };
        let exchanged = self.exchange(method, path, body).await;
        let (status, body) = exchanged.map_err(|failure| ProbeError::Exchange { step, failure })?;
        if !status.is_success() {
            return Err(ProbeError::Refused { step, status, words: words_of(&body) });
        }
        Ok(body)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ExchangeFailure> {
        let request = self.sign(method, path, body)?;
        let address = &self.endpoint.address;
        let connected = TcpStream::connect(address).await;
        let stream =
            connected.map_err(|source| ExchangeFailure::Connect { address: address.clone(), source })?;
        let Some((connector, name)) = &self.tls else { return send(stream, request).await };
        let stream = connector.connect(name, stream).await;
        let stream =
            stream.map_err(|source| ExchangeFailure::Handshake { address: address.clone(), source })?;
        send(stream, request).await
    }

    /// Makes a request whose signature covers its body.
    fn sign(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
        let date = AmzDate::from_ms(self.clock.wall_ms());
        let payload = hex::encode(Sha256::digest(&body));
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&self.endpoint.authority)?);
        headers.insert("x-amz-content-sha256", HeaderValue::from_str(&payload)?);
        headers.insert("x-amz-date", HeaderValue::from_str(date.as_str())?);
        let canonical = CanonicalRequest {
            method: method.as_str(),
            path,
            path_form: PathForm::Canonical,
            query: &Query::default(),
            query_without: None,
            headers: &headers,
            authority: None,
            signed_headers: SIGNED_HEADERS,
            payload: &payload,
        };
        let mut written = Vec::new();
        canonical.write(&mut written).expect("the path is of letters, digits, '-' and '/'");
        let scope = format!("{}/{}/s3/aws4_request", date.day(), self.region);
        let context = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n", date.as_str());
        let key = SigningKey::derive(&self.secret, date.day(), self.region, "s3");
        let hash = hex::encode(Sha256::digest(&written));
        let signature = key.sign(&[context.as_bytes(), hash.as_bytes()]);
        let signature = String::from_utf8_lossy(signature.as_bytes()).into_owned();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={SIGNED_HEADERS}, Signature={signature}",
            self.access_key_id
        );
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&authorization)?);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let mut request = Request::builder().method(method).uri(path).body(Full::new(body))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Sends the only request of a connection and reads its answer.
pub(crate) async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), ExchangeFailure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(ExchangeFailure::Body)?.to_bytes();
        Ok((status, body))
    };
    // The connection moves the bytes of the exchange, and ends with it.
    let (exchanged, _ended) = tokio::join!(exchange, connection);
    exchanged
}

/// Returns S3's code and message of an error, or the beginning of another answer, as one printable line.
fn words_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let between = |begin: &str, end: &str| Some(text.split_once(begin)?.1.split_once(end)?.0.to_owned());
    let words = match (between("<Code>", "</Code>"), between("<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        (None, _) if text.trim().is_empty() => "no reason given".to_owned(),
        (None, _) => text.into_owned(),
    };
    words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests;
