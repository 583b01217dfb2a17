//! Answers HTTP requests of operators and admins that come as calls: as the root user's, by the protocol that
//! also answers clients, and with the answer whole in memory.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};

use sherd_net::rpc::{NoAnswer, RequestDesk};
use sherd_proto::convert::http_call::HttpService;
use sherd_proto::limits::CALL_BODY_BYTES_MAX;
use sherd_s3::protocol::Protocol;

/// Answers for an open store.
#[derive(Debug)]
pub(crate) struct RootDesk {
    s3: Protocol,
}

impl RootDesk {
    /// Answers by this protocol.
    pub(crate) const fn new(s3: Protocol) -> Self {
        Self { s3 }
    }
}

impl RequestDesk for RootDesk {
    fn answer(
        &self,
        service: HttpService,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let request = request.map(Full::new);
        match service {
            HttpService::S3 => {
                let s3 = self.s3.clone();
                async move { whole(s3.call_as_root(request).await).await }.boxed()
            }
            HttpService::Iam => async { Err(NoAnswer::NotServed) }.boxed(),
        }
    }
}

/// An answer with all of its body.
async fn whole(answer: Response<s3s::Body>) -> Result<Response<Bytes>, NoAnswer> {
    let (head, body) = answer.into_parts();
    let collected = Limited::new(body, CALL_BODY_BYTES_MAX).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { NoAnswer::TooLong } else { NoAnswer::BrokeOff }
    })?;
    Ok(Response::from_parts(head, collected.to_bytes()))
}
