//! The node's listener in this process: what answers is given, how it listens is the node's.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use sherd_node::machine::reclaim::Reclaim;
use sherd_node::observe::metrics::{ApiName, Metrics};
use sherd_node::process::config::Config;
use sherd_node::process::open::refuse;
use sherd_node::server::{Admission, Life, Listener, RequestBody, guard, serve};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::error::Error;

/// A listener that serves.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    life: Life,
    serving: JoinHandle<()>,
}

impl Served {
    /// Serves `service` on `runtime`, on a free port of the loopback, within a node's limits.
    pub(super) fn start<S, F, B>(
        runtime: &Runtime,
        config: &Config,
        metrics: &Arc<Metrics>,
        service: S,
    ) -> Result<Self, Error>
    where
        S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = (ApiName, Response<B>)> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let listener = runtime.block_on(Listener::bind("bench", config.listen));
        let listener = listener.map_err(Error::setup("listen"))?;
        let (address, life) = (listener.address(), Life::new());
        let limits = config.limits;
        let admission = Admission::new(limits.requests_max, limits.queue_max, metrics.s3.clone());
        let service = guard(service, admission, refuse);
        let traffic = metrics.s3.traffic.clone();
        let reclaim = Reclaim::default();
        let serving = runtime.spawn(serve(listener, limits.into(), life.clone(), traffic, reclaim, service));
        Ok(Self { address, life, serving })
    }

    /// Stops listening, and waits for the last connection.
    pub(super) async fn stop(self) {
        self.life.stop();
        self.life.abort();
        // It has served what was measured; how it ends is the node's own tests' business.
        let _ = self.serving.await;
    }
}
