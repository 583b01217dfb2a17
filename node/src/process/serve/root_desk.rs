//! Answers HTTP requests of operators and admins that come as calls: as the root user's, by the protocol that
//! also answers clients, and with the answer whole in memory.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Extensions, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};

use sherd_iam::QueryApi;
use sherd_net::rpc::{NoAnswer, RequestDesk};
use sherd_net::tls::ConnectedPeer;
use sherd_proto::convert::http_call::HttpService;
use sherd_proto::limits::CALL_BODY_BYTES_MAX;
use sherd_s3::protocol::Protocol;
use sherd_s3::source::Source;

/// Answers for an open store.
#[derive(Debug)]
pub(crate) struct RootDesk {
    s3: Protocol,
    iam: QueryApi,
}

impl RootDesk {
    /// Answers by these.
    pub(crate) const fn new(s3: Protocol, iam: QueryApi) -> Self {
        Self { s3, iam }
    }
}

impl RequestDesk for RootDesk {
    fn answer(
        &self,
        service: HttpService,
        mut request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let source = source_of(request.extensions());
        request.extensions_mut().insert(source);
        let request = request.map(Full::new);
        match service {
            HttpService::S3 => {
                let s3 = self.s3.clone();
                async move { whole(s3.call_as_root(request).await).await }.boxed()
            }
            HttpService::Iam => {
                let iam = self.iam.clone();
                async move { whole(iam.call_as_root(request).await).await }.boxed()
            }
        }
    }
}

/// The place that a call came from: the other end of its connection, which is always encrypted.
pub(super) fn source_of(extensions: &Extensions) -> Source {
    let address = extensions.get::<ConnectedPeer>().and_then(ConnectedPeer::address);
    let unknown = Source::of(extensions);
    Source { address: address.unwrap_or(unknown.address), is_secure: true, tls_version: None }
}

/// An answer with all of its body.
async fn whole<B>(answer: Response<B>) -> Result<Response<Bytes>, NoAnswer>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = answer.into_parts();
    let collected = Limited::new(body, CALL_BODY_BYTES_MAX).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { NoAnswer::TooLong } else { NoAnswer::BrokeOff }
    })?;
    Ok(Response::from_parts(head, collected.to_bytes()))
}
