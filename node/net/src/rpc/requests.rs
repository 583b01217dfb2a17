//! HTTP requests that come as calls: S3's and IAM's, of operators and admins, answered as the root user's.
//!
//! The certificate of the connection proves the role of the caller, so the requests have no signature. They
//! are answered once the store is open, and no listener of S3 leads here.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::Status;

use sherd_proto::convert::http_call::{HttpService, request_from_wire};
use sherd_proto::limits::CALL_BODY_BYTES_MAX;
use sherd_proto::v1::CallRequest;

use super::error;
use super::limits::{REQUEST_TIMEOUT, REQUESTS_MAX};
use crate::tls::ConnectedPeer;

/// Answers requests of the root user.
pub trait AdminHttpHandler: Debug + Send + Sync {
    /// Answers a request that a certificate proves to be the root user's, all of which is read at the moment
    /// of the call. The [`ConnectedPeer`] that sent it is among the request's extensions.
    ///
    /// # Errors
    /// [`NoAnswer`] where the request has no answer that fits a call.
    fn answer(
        &self,
        service: HttpService,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>>;
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The answer's body is longer than a call carries.
    #[error("the answer is longer than the {CALL_BODY_BYTES_MAX} bytes that a call carries")]
    TooLong,
    /// The answer's body broke off.
    #[error("the answer broke off")]
    BrokeOff,
    /// Nothing was begun: the process stood still for longer than callers wait.
    #[error("the node stood still, and its caller may have asked another one")]
    StoodStill,
}

/// The handler of the requests, once the store is open, and their bound. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AdminHttp {
    handler: Arc<RwLock<Option<Arc<dyn AdminHttpHandler>>>>,
    places: Arc<Semaphore>,
}

impl Default for AdminHttp {
    fn default() -> Self {
        Self { handler: Arc::default(), places: Arc::new(Semaphore::new(REQUESTS_MAX)) }
    }
}

impl AdminHttp {
    /// Answers requests by `handler` from here on: the store is open.
    pub fn open(&self, handler: Arc<dyn AdminHttpHandler>) {
        *self.handler.write() = Some(handler);
    }

    /// Answers no further request.
    pub fn close(&self) {
        *self.handler.write() = None;
    }

    /// Answers the request of a call whose sender is checked.
    pub(super) async fn answer(
        &self,
        call: CallRequest,
        peer: ConnectedPeer,
    ) -> Result<Response<Bytes>, Status> {
        let (service, mut request) = request_from_wire(call).map_err(|error| error::invalid(&error))?;
        request.extensions_mut().insert(peer.clone());
        let handler = self.handler.read().clone();
        let handler = handler.ok_or_else(|| Status::unavailable("the store of this node is not open"))?;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        // All of it is read, also where it waits for a place.
        let answer = handler.answer(service, request);
        let answered = timeout(REQUEST_TIMEOUT, async {
            let _place = self.places.acquire().await;
            answer.await
        });
        let answered = answered.await.map_err(|_| {
            Status::deadline_exceeded(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()))
        })?;
        let status = answered.as_ref().map_or(0, |answer| answer.status().as_u16());
        // The root user's rights are in use: the log keeps by whose certificate.
        let by = peer.identity();
        tracing::info!(?service, %method, path, status, by = by.name, role = %by.role, "request over a call");
        answered.map_err(|error| match error {
            NoAnswer::TooLong => Status::out_of_range(error.to_string()),
            NoAnswer::BrokeOff | NoAnswer::StoodStill => Status::unavailable(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use sherd_core::id::ClusterId;
    use sherd_proto::convert::http_call::request_to_wire;
    use sherd_proto::sender::sender;

    use super::*;
    use crate::tls::{PeerIdentity, Role};

    #[derive(Debug)]
    struct Echo;

    impl AdminHttpHandler for Echo {
        fn answer(
            &self,
            _: HttpService,
            request: Request<Bytes>,
        ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
            let body = request.into_body();
            async move { if body.is_empty() { Err(NoAnswer::BrokeOff) } else { Ok(Response::new(body)) } }
                .boxed()
        }
    }

    async fn asked(http: &AdminHttp, body: &'static str) -> Result<Bytes, tonic::Code> {
        let cluster = ClusterId([1; 16]);
        let by = PeerIdentity { name: "anna".to_owned(), role: Role::Admin, cluster };
        let call = request_to_wire(sender(cluster, None), HttpService::S3, Request::new(Bytes::from(body)));
        let answer = http.answer(call.expect("it is short"), ConnectedPeer::new(by, None)).await;
        answer.map(Response::into_body).map_err(|status| status.code())
    }

    #[tokio::test]
    async fn requests_are_answered_while_the_store_is_open() {
        let http = AdminHttp::default();
        assert_eq!(asked(&http, "text").await, Err(tonic::Code::Unavailable));
        http.open(Arc::new(Echo));
        assert_eq!(asked(&http, "text").await, Ok(Bytes::from("text")));
        assert_eq!(asked(&http, "").await, Err(tonic::Code::Unavailable));
        http.close();
        assert_eq!(asked(&http, "text").await, Err(tonic::Code::Unavailable));
    }
}
