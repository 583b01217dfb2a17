//! Calls that the node gets from its peers: counts by service and result, and connections.
//!
//! The services of `rpc` count through these handles, one set a service.

use prometheus::{IntCounter, IntCounterVec, IntGauge};

use super::declare::MetricDeclarer;

/// Calls of other nodes.
#[derive(Debug, Clone)]
pub struct RpcMetrics {
    /// Connections of peers, operators and admins.
    pub connections: IntGauge,
    /// Calls about registers.
    pub register: RpcCallMetrics,
    /// Calls about shards.
    pub shard: RpcCallMetrics,
    /// Calls about what volumes keep for upkeep.
    pub upkeep: RpcCallMetrics,
}

/// The calls of one service.
#[derive(Debug, Clone)]
pub struct RpcCallMetrics {
    /// Answered by a volume, be it with a refusal.
    pub answered: IntCounter,
    /// Failed: not found, corrupt, busy, full, unreachable.
    pub failed: IntCounter,
    /// Not answered in the time that their callers waited.
    pub expired: IntCounter,
    /// Given up unanswered since their callers dropped them.
    pub dropped: IntCounter,
}

impl RpcMetrics {
    pub(super) fn new(declare: &MetricDeclarer<'_>) -> Self {
        let calls = declare.counters(
            "sherd_rpc_calls_total",
            "Calls of other nodes, by service and result.",
            &["service", "result"],
        );
        Self {
            connections: declare
                .gauge("sherd_rpc_connections", "Connections of peers, operators and admins open."),
            register: RpcCallMetrics::new(&calls, "register"),
            shard: RpcCallMetrics::new(&calls, "shard"),
            upkeep: RpcCallMetrics::new(&calls, "upkeep"),
        }
    }
}

impl RpcCallMetrics {
    fn new(calls: &IntCounterVec, service: &str) -> Self {
        let of = |result| calls.with_label_values(&[service, result]);
        let (answered, failed) = (of("answered"), of("failed"));
        Self { answered, failed, expired: of("expired"), dropped: of("dropped") }
    }
}
