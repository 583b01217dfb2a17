//! A line at debug for each call to another node that a client's request makes.
//!
//! A request's id leads from its own line to the calls that it waited for, and by the same id to the lines of
//! the other node. `peer::grpc` begins and ends them. Where the target `TARGET` is not logged at debug a call
//! costs a look at that, and is not noted.

use std::sync::Arc;

use tokio::time::Instant;

use sherd_core::id::VolumeId;
use sherd_core::message::{Error, Result};

use super::trace;

/// Target of these lines, for the filter of the log.
pub(crate) const TARGET: &str = "peer_calls";

/// A call under way that is logged when it ends; dropped before its answer, as one that was dropped.
#[derive(Debug)]
pub struct LoggedCall {
    request: u64,
    node: Arc<str>,
    volume: VolumeId,
    call: &'static str,
    begun: Instant,
    outcome: &'static str,
}

impl LoggedCall {
    /// Begins now; `None` where it is not logged.
    pub fn begin(call: &'static str, node: &str, volume: VolumeId) -> Option<Box<Self>> {
        if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
            return None;
        }
        let (request, begun) = (trace::current_id(), Instant::now());
        let logged = || Self { request, node: node.into(), volume, call, begun, outcome: "dropped" };
        (request != 0).then(|| Box::new(logged()))
    }

    pub(crate) fn ended<R>(&mut self, result: &Result<R>) {
        self.outcome = match result {
            Ok(_) => "answered",
            Err(Error::Unreachable { .. }) => "unreachable",
            Err(_) => "failed",
        };
    }
}

impl Drop for LoggedCall {
    fn drop(&mut self) {
        tracing::debug!(
            target: TARGET,
            request_id = format_args!("{:016X}", self.request),
            node = &*self.node,
            volume = %self.volume,
            call = self.call,
            took_us = self.begun.elapsed().as_micros(),
            outcome = self.outcome,
            "call to another node"
        );
    }
}
