//! The connections to other nodes: how often they were renewed, and until when the peers' certificates are
//! valid.
//!
//! The links of `peer::grpc` count through these handles, one set a configured node.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::declare::MetricDeclarer;

#[derive(Debug)]
pub(super) struct LinkFamilies {
    renewed: IntCounterVec,
    peer_certificate_expiry_s: IntGaugeVec,
}

/// The connections to one node.
#[derive(Debug, Clone)]
pub struct LinkMetrics {
    /// Connections of small calls that another one replaced before they ended.
    pub calls_renewed: IntCounter,
    /// Connections of the bytes of shards that another one replaced before they ended.
    pub bytes_renewed: IntCounter,
    /// When the certificate that the node showed last expires, in seconds since the Unix epoch.
    pub peer_certificate_expiry_s: IntGauge,
}

impl LinkFamilies {
    pub(super) fn new(declare: &MetricDeclarer<'_>) -> Self {
        Self {
            renewed: declare.counters(
                "sherd_peer_connections_renewed_total",
                "Connections to a node that another one replaced before they ended.",
                &["node", "carries"],
            ),
            peer_certificate_expiry_s: declare.gauges(
                "sherd_peer_certificate_expiry_timestamp_seconds",
                "When the certificate that a node showed last expires, since the Unix epoch; 0 for none yet.",
                &["node"],
            ),
        }
    }

    pub(super) fn of(&self, node: &str) -> LinkMetrics {
        LinkMetrics {
            calls_renewed: self.renewed.with_label_values(&[node, "calls"]),
            bytes_renewed: self.renewed.with_label_values(&[node, "bytes"]),
            peer_certificate_expiry_s: self.peer_certificate_expiry_s.with_label_values(&[node]),
        }
    }
}
