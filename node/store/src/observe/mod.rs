//! Metrics, and traces of where the time of requests goes.

mod limits;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod log_buffer;
pub mod metrics;
pub mod peer_calls;
pub mod trace;
