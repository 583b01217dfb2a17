//! The services whose calls are numbered, for this node's peers: registers, and what volumes keep for
//! upkeep.
//!
//! They differ in their messages alone ([`CallReplies`] does the work of each); the stream of small calls
//! for shards stands beside their bytes in [`super::shard_service`]. The other end is `peer::grpc`.

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use sherd_proto::convert::call::{RegisterStream, UpkeepStream};
use sherd_proto::v1::register_service_server::RegisterService;
use sherd_proto::v1::upkeep_service_server::UpkeepService;
use sherd_proto::v1::{RegisterCalls, UpkeepCalls};

use super::calls::CallReplies;
use super::node::RpcNode;
use sherd_store::observe::metrics::RpcCallMetrics;

#[derive(Debug)]
pub(super) struct CallRpc {
    node: RpcNode,
    metrics: RpcCallMetrics,
    stop: CancellationToken,
}

impl CallRpc {
    pub(super) const fn new(node: RpcNode, metrics: RpcCallMetrics, stop: CancellationToken) -> Self {
        Self { node, metrics, stop }
    }
}

#[async_trait::async_trait]
impl RegisterService for CallRpc {
    type CallsStream = CallReplies<RegisterStream>;

    async fn calls(
        &self,
        request: Request<Streaming<RegisterCalls>>,
    ) -> Result<Response<Self::CallsStream>, Status> {
        let (node, metrics, stop) = (self.node.for_peer(), self.metrics.clone(), self.stop.clone());
        Ok(Response::new(CallReplies::new(node, request.into_inner(), metrics, stop)))
    }
}

#[async_trait::async_trait]
impl UpkeepService for CallRpc {
    type CallsStream = CallReplies<UpkeepStream>;

    async fn calls(
        &self,
        request: Request<Streaming<UpkeepCalls>>,
    ) -> Result<Response<Self::CallsStream>, Status> {
        let (node, metrics, stop) = (self.node.clone(), self.metrics.clone(), self.stop.clone());
        Ok(Response::new(CallReplies::new(node, request.into_inner(), metrics, stop)))
    }
}
