//! What a node says of itself: metrics, health, its log, and where the time of its requests goes.

pub mod health;
mod limits;
pub mod log;
pub mod metrics;
pub(crate) mod peer_calls;
pub mod trace;
