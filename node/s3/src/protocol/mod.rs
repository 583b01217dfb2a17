//! What stands between the wire and s3s.
//!
//! ```text
//! hyper -> limits -> CORS preflight -> signature -> address, operation, features -> body -> s3s
//! client <- ids, one error form, body faults named <-------------------------------------------'
//! ```
//! s3s turns a request into an operation's input, and by itself believes and holds too much. Here
//! a request is limited, believed, named and unframed first; s3s sees path style, no signature and
//! a plain body. It runs with a stub that lets nothing pass that did not come this way.

pub mod address;
mod auth_refusal;
pub mod aws_chunked;
pub mod body;
pub mod checksum;
pub mod code;
pub mod context;
mod cors;
pub mod feature;
mod gate;
mod hoisted;
mod intake;
mod lacking;
pub mod operation;
pub mod query;
pub mod refusal;
mod respond;
mod room;
mod xml;

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use s3s::service::S3Service;
use s3s::{Body, S3};
use sherd_core::env::Clock;
use sherd_core::limits::BODY_MS_MAX;
use tracing::Instrument as _;

use crate::auth::Credentials;
use crate::auth::verifier::Verifier;
use sherd_store::observe::metrics::ApiName;
use sherd_store::observe::trace;

use body::{BodyTimeouts, TransportError};
use context::RequestId;
use lacking::LackingFeatures;
use operation::Operation;
use refusal::Refusal;
use respond::RespondContext;
use room::XmlRoom;

/// Says where a bucket is. An SDK that signed for another region looks for it, and signs again: in the answer of
/// HeadBucket, and in that of a HEAD, which has no document to say it in.
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

/// What one request may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Headers of a request. hyper refuses more than 100 by itself.
    pub header_count_max: usize,
    /// Bytes of names and values of all headers. AWS allows 8 KiB; room for proxies is added.
    pub header_bytes_max: usize,
    /// Bytes of path and query: a key, a prefix, a marker and a token, each escaped whole.
    pub uri_bytes_max: usize,
    /// Bytes of an XML document: 1,000 keys of 1,024 bytes, each escaped at its worst.
    pub xml_bytes_max: u64,
    /// Bytes that the XML documents of all requests, with what is made of them, and lists take together.
    pub xml_room_bytes: usize,
    /// Bytes of one signed aws-chunked frame.
    pub signed_frame_bytes_max: u64,
    /// How long a body may stand still.
    pub body_idle: Duration,
    /// How long a whole body may take.
    pub body_whole: Duration,
    /// How long the shortest XML document may take; a longer one has a second more for each 32 KiB. Who trickles
    /// keeps from others the room in which long ones arrive.
    pub document_whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_count_max: 100,
            header_bytes_max: 16 << 10,
            uri_bytes_max: 16 << 10,
            xml_bytes_max: 8 << 20,
            xml_room_bytes: 64 << 20,
            signed_frame_bytes_max: 16 << 20,
            body_idle: Duration::from_secs(20),
            body_whole: Duration::from_millis(BODY_MS_MAX),
            document_whole: Duration::from_secs(10),
        }
    }
}

/// What the layer is told at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The region that requests are signed for, beside `us-east-1`.
    pub region: String,
    /// Domains under which a bucket may be a host: `s3.example.com` for `b.s3.example.com`.
    pub domains: Vec<String>,
    /// Which node answers; shown as `x-amz-id-2` and HostId. Visible ASCII.
    pub host_id: String,
    /// A random number, different in every run: request ids start from it.
    pub request_id_seed: u64,
    /// Whether URLs that are presigned with Signature Version 2 are taken.
    pub sigv2_presigned: bool,
    /// Whether clients reach the layer over TLS.
    pub is_tls: bool,
    /// Limits of a request.
    pub limits: Limits,
}

/// What operations may want done around s3s, where s3s stands between them and the request.
#[derive(Debug, Clone, Copy)]
pub struct Adapter {
    /// Changes the head that s3s is shown; the request is authenticated and its body described.
    pub before: fn(&mut http::request::Parts),
    /// Takes off an error's headers what belongs into its document: element names and texts.
    pub error_details: fn(&mut http::HeaderMap) -> Vec<(String, String)>,
}

impl Default for Adapter {
    /// Changes nothing.
    fn default() -> Self {
        Self { before: |_| {}, error_details: |_| Vec::new() }
    }
}

/// The layer. Cheap to clone; one for all connections.
#[derive(Clone)]
pub struct Protocol {
    inner: Arc<Inner>,
}

struct Inner {
    domains: Vec<String>,
    region: HeaderValue,
    host_id: HeaderValue,
    limits: Limits,
    timeouts: BodyTimeouts,
    verifier: Verifier,
    service: S3Service,
    adapter: Adapter,
    lacking: LackingFeatures,
    xml_room: XmlRoom,
    request_number: AtomicU64,
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protocol").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}

impl Protocol {
    /// Builds the layer over the operations.
    pub fn new(
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
        s3: impl S3,
    ) -> Self {
        Self::with_adapter(config, credentials, clock, s3, Adapter::default())
    }

    /// Builds the layer over operations that want something done around s3s.
    pub fn with_adapter(
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
        s3: impl S3,
        adapter: Adapter,
    ) -> Self {
        let Config { region, domains, host_id, request_id_seed, sigv2_presigned, is_tls: _, limits } = config;
        let visible: String = host_id.chars().filter(char::is_ascii_graphic).collect();
        let inner = Inner {
            domains,
            region: HeaderValue::try_from(&region).expect("a region is letters, digits and hyphens"),
            host_id: HeaderValue::try_from(visible).expect("visible ASCII is a header value"),
            timeouts: BodyTimeouts { idle: limits.body_idle, whole: limits.body_whole },
            lacking: LackingFeatures::new(Arc::clone(&clock)),
            xml_room: XmlRoom::new(limits.xml_room_bytes),
            verifier: Verifier::new(&region, credentials, clock).with_sigv2_presigned(sigv2_presigned),
            service: gate::service(s3, &limits),
            adapter,
            request_number: AtomicU64::new(request_id_seed),
            limits,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Answers a request, and says which operation it was.
    pub async fn call<B>(&self, request: Request<B>) -> (ApiName, Response<Body>)
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let request_id = self.inner.next_request_id();
        trace::identify(request_id.number());
        let span = tracing::info_span!(
            "s3",
            request_id = %request_id,
            method = %request.method(),
            path = request.uri().path(),
            operation = tracing::field::Empty,
        );
        self.inner.answer(request, request_id).instrument(span).await
    }
}

impl Inner {
    /// Ids that neither repeat in a run nor show how many requests there were: a counter through
    /// the finaliser of SplitMix64, which is a bijection.
    fn next_request_id(&self) -> RequestId {
        let mut number = self.request_number.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId::from_u64(number ^ (number >> 31))
    }

    async fn answer<B>(&self, request: Request<B>, request_id: RequestId) -> (ApiName, Response<Body>)
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let is_head = request.method() == Method::HEAD;
        let expects_continue = request.headers().contains_key(EXPECT);
        let uri = request.uri().clone();
        let asked = RespondContext { request_id, host_id: &self.host_id, path: uri.path(), is_head };
        let mut api = ApiName::default();
        let admitted = match self.admit(request, request_id, &mut api).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                if let Some((kind, name)) = refusal.lacking() {
                    self.lacking.asked(kind, name);
                } else {
                    tracing::debug!(code = refusal.code.name(), "refused");
                }
                let mut response = asked.refuse(&refusal);
                if refusal.is_for_region() || api.0 == Operation::HeadBucket.name() {
                    response.headers_mut().insert(BUCKET_REGION, self.region.clone());
                }
                close_if(expects_continue, &mut response);
                return (api, response);
            }
        };
        let outcome = admitted.outcome.clone();
        let mut response = self.perform(admitted, &asked).await;
        let is_asked_for = outcome.is_some_and(|outcome| outcome.is_asked_for());
        close_if(expects_continue && !is_asked_for, &mut response);
        (api, response)
    }

    /// Runs the operation of an admitted request.
    async fn perform(&self, admitted: intake::AdmittedRequest, asked: &RespondContext<'_>) -> Response<Body> {
        let intake::AdmittedRequest { request, operation, outcome, room } = admitted;
        let answer = self.service.call(request).await;
        // What is wrong with the body is the client's to know, whatever the operation made of it.
        if let Some(fault) = outcome.as_ref().and_then(|outcome| outcome.fault()) {
            tracing::debug!(error = %fault, "body failed");
            return asked.refuse(&Refusal::from(fault));
        }
        match answer {
            Ok(mut response) => {
                let details = (self.adapter.error_details)(response.headers_mut());
                let code = asked.complete(&mut response, operation, &details);
                let status = response.status();
                if status == StatusCode::NOT_IMPLEMENTED {
                    // The operation is here; some of what it was asked for is not.
                    self.lacking.asked("Operation", operation.name());
                } else if status.is_server_error() {
                    tracing::warn!(status = status.as_u16(), code = code.as_deref(), "request failed");
                } else {
                    tracing::debug!(status = status.as_u16(), code = code.as_deref(), "answered");
                }
                self.xml_room.hold(&mut response, room);
                response
            }
            Err(error) => {
                tracing::error!(error = ?TransportError::from(error), "the answer could not be written");
                asked.refuse(&Refusal::new(code::Code::InternalError))
            }
        }
    }
}

/// Ends the connection behind an answer.
///
/// hyper says `100 Continue` when a body is asked for, so it never does for an empty one, and not
/// for a request that is refused before. A client may take such an early answer for that of its next request on
/// the connection, as botocore does, and wait for a body that never comes.
fn close_if(condition: bool, response: &mut Response<Body>) {
    if condition {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

impl<B> hyper::service::Service<Request<B>> for Protocol
where
    B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
    B::Error: Into<TransportError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let protocol = self.clone();
        Box::pin(async move { Ok(Self::call(&protocol, request).await.1) })
    }
}
