//! The layer between the wire and the operations.
//!
//! ```text
//! hyper -> limits -> CORS preflight -> signature -> operation -> access, features -> body -> operation
//! client <- ids, one error form, body faults named <--------------------------------------------'
//! ```
//! A request is limited, believed, named and unframed before an operation reads it.

mod actions;
mod admitted;
mod audited;
mod auth_refusal;
mod cors;
mod form;
mod intake;
mod judge;
mod lacking;
mod pipeline;
mod prove;
mod respond;
mod room;

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use s3s::Body;
use sherd_core::env::Clock;
use sherd_front::callers::{Credentials, Proof};
use tracing::Instrument as _;

use crate::operation::Operations;
use sherd_store::observe::metrics::ApiName;
use sherd_store::observe::trace;

use crate::wire::address::Address;
use crate::wire::body::ClientBody;
use crate::wire::refusal::{Refusal, Side};
use pipeline::Pipeline;

pub use crate::head::acl::UnsupportedAcl;
pub use crate::wire::limits::Limits;
pub use pipeline::Config;

/// The layer. Cheap to clone; one for all connections.
#[derive(Clone)]
pub struct Protocol {
    pipeline: Arc<Pipeline>,
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protocol").field("limits", &self.pipeline.intake.limits).finish_non_exhaustive()
    }
}

impl Protocol {
    /// Builds the layer over the operations.
    pub fn new(
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
        operations: Arc<dyn Operations>,
    ) -> Self {
        Self { pipeline: Arc::new(Pipeline::new(config, credentials, clock, operations)) }
    }

    /// Lets a page of another origin read an answer that is given in place of the layer's, where its bucket's
    /// rules allow that and a view of the bucket is remembered.
    pub fn allow_page(&self, head: &Parts, headers: &mut HeaderMap) {
        let address = Address::of(head, &self.pipeline.domains);
        if let Some(cors) = cors::remembered(self.pipeline.operations.as_ref(), head, &address) {
            cors.add_to(headers);
        }
    }

    /// Whether the host of a request names a bucket, or the address of the request is malformed.
    pub fn names_bucket(&self, head: &Parts) -> bool {
        !Address::of(head, &self.pipeline.domains).is_ok_and(|address| address.host_bucket.is_none())
    }

    /// The answer to a head that cannot be read as a request, or to a request that has no place. It has an id
    /// of its own, as every answer has.
    pub fn refuse(&self, refusal: &Refusal) -> Response<Bytes> {
        let asked = self.pipeline.responder.to_no_request();
        asked.refuse(refusal, Side::Layer).map(|body| body.bytes().unwrap_or_default())
    }

    /// Answers a request, and says which operation it was.
    pub async fn call<B: ClientBody>(&self, request: Request<B>) -> (ApiName, Response<Body>) {
        self.answer(request, Proof::Signature).await
    }

    /// Answers a request as the root user's, without a signature. Its caller has proven who sends it: no
    /// listener of S3 calls this.
    pub async fn call_as_root(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        self.answer(request, Proof::RootCertificate).await.1
    }

    /// Has each body that begins from here on stand still for another time at most.
    pub fn set_body_idle(&self, idle: Duration) {
        self.pipeline.intake.set_body_idle(idle);
    }

    async fn answer<B: ClientBody>(&self, request: Request<B>, proof: Proof) -> (ApiName, Response<Body>) {
        let request_id = self.pipeline.responder.next_request_id();
        trace::identify(request_id.number());
        let span = tracing::info_span!(
            "s3",
            request_id = %request_id,
            method = %request.method(),
            path = request.uri().path(),
            operation = tracing::field::Empty,
        );
        self.pipeline.answer(request, request_id, proof).instrument(span).await
    }
}

impl<B: ClientBody> hyper::service::Service<Request<B>> for Protocol {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let protocol = self.clone();
        Box::pin(async move { Ok(Self::call(&protocol, request).await.1) })
    }
}
