//! Answers HTTP requests of operators and admins that come as calls: as the root user's, by the protocol that
//! also answers clients, and with the answer whole in memory.
//!
//! A caller that had no answer from a process that stood still asks another node. So a request that is read
//! right after a long standstill is not begun, and one that was read before it changes nothing any more, as
//! at the listeners of S3 and IAM (see [`ProcessPulse`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Extensions, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};

use sherd_front::source::Source;
use sherd_iam::QueryApi;
use sherd_net::rpc::{AdminHttpHandler, NoAnswer};
use sherd_net::tls::ConnectedPeer;
use sherd_proto::convert::http_call::HttpService;
use sherd_proto::limits::CALL_BODY_BYTES_MAX;
use sherd_s3::service::Protocol;
use sherd_store::machine::pulse::{ClientDoubt, ProcessPulse, WholeWrite};
use sherd_store::observe::trace::{self, RequestTrace, SlowRequests};

use crate::server::limits::LOOK_AFTER;

/// Answers for an open store.
#[derive(Debug)]
pub(crate) struct RootHttp {
    s3: Protocol,
    iam: QueryApi,
    pulse: Arc<ProcessPulse>,
}

impl RootHttp {
    /// Answers by these, and judges callers by a pulse that goes on.
    pub(crate) const fn new(s3: Protocol, iam: QueryApi, pulse: Arc<ProcessPulse>) -> Self {
        Self { s3, iam, pulse }
    }
}

/// Works on a request that is read at this moment, unless its caller has given up.
fn begun_by_caller<T>(
    pulse: Arc<ProcessPulse>,
    work: impl Future<Output = Result<T, NoAnswer>> + Send + 'static,
) -> BoxFuture<'static, Result<T, NoAnswer>>
where
    T: Send + 'static,
{
    let doubt = pulse.doubt();
    let whole = WholeWrite::new(pulse);
    let begun = async move {
        trace::is_whole(whole);
        match doubt {
            ClientDoubt::None => {}
            // The end of a caller's stream or connection may be an event behind its request. It ends this
            // future.
            ClientDoubt::WhereEnded => tokio::time::sleep(LOOK_AFTER).await,
            ClientDoubt::Always => return Err(NoAnswer::StoodStill),
        }
        work.await
    };
    let request = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
    async move { request.scope(begun).await }.boxed()
}

impl AdminHttpHandler for RootHttp {
    fn answer(
        &self,
        service: HttpService,
        mut request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let source = source_of(request.extensions());
        request.extensions_mut().insert(source);
        let request = request.map(Full::new);
        let pulse = Arc::clone(&self.pulse);
        match service {
            HttpService::S3 => {
                let s3 = self.s3.clone();
                begun_by_caller(pulse, async move { whole(s3.call_as_root(request).await).await })
            }
            HttpService::Iam => {
                let iam = self.iam.clone();
                begun_by_caller(pulse, async move { whole(iam.call_as_root(request).await).await })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_of_a_caller_that_gave_up_is_not_begun_or_changes_nothing() {
        // Longer than callers wait.
        const LONG: Duration = Duration::from_secs(5);
        let pulse = Arc::new(ProcessPulse::new());
        let beating = tokio::spawn({
            let pulse = Arc::clone(&pulse);
            async move { pulse.go_on().await }
        });
        let ask = || {
            begun_by_caller(Arc::clone(&pulse), async {
                Ok(trace::current().is_some_and(|request| request.is_given_up()))
            })
        };
        assert_eq!(ask().await, Ok(false), "its client waits");
        let read_before = ask();
        tokio::time::advance(LONG).await;
        assert_eq!(read_before.await, Ok(true), "the register refuses its proposals");
        assert_eq!(ask().await, Err(NoAnswer::StoodStill), "it lay in the socket");
        tokio::time::sleep(LONG).await;
        assert_eq!(ask().await, Ok(false), "the caller has not ended its call within the look");
        beating.abort();
    }
}
