//! Logs refused handshakes of one listener, at most one a second.
//!
//! A line says how many were refused since the line before, so a scanner is seen and does not fill the log.

use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::tls::error::{AcceptError, ClientRefusal, HandshakeFailure};
use crate::tls::limits;

/// Logs the refusals of one listener.
#[derive(Debug, Default)]
pub struct RefusalLog {
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    last: Option<Instant>,
    unlogged: u64,
}

impl RefusalLog {
    /// Logs why a connection was not accepted, unless a line was written within the last second. A connection
    /// that was closed without a handshake, as a probe of the port does, is worth a debug line only.
    pub fn log(&self, from: SocketAddr, error: &AcceptError) {
        if let AcceptError::Handshake(HandshakeFailure::Closed) = error {
            tracing::debug!(%from, "connection closed before its handshake ended");
            return;
        }
        if let Some(unlogged) = self.take_line() {
            tracing::warn!(%from, %error, unlogged, "connection of a peer refused");
        }
    }

    /// Logs why a client of S3 has no connection, as [`Self::log`] does for a peer.
    pub fn log_client(&self, from: SocketAddr, error: &ClientRefusal) {
        if let ClientRefusal::Closed = error {
            tracing::debug!(%from, "connection closed before its handshake ended");
        } else if let Some(unlogged) = self.take_line() {
            tracing::warn!(%from, %error, unlogged, "connection of a client refused");
        }
    }

    /// Returns how many refusals have no line since the last one; `None` where this one gets none.
    fn take_line(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_quiet = |last: Instant| now.duration_since(last) < limits::REFUSAL_LOG_INTERVAL;
        if state.last.is_some_and(is_quiet) {
            state.unlogged += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.unlogged))
    }
}
