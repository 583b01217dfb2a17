//! What a node says of itself: metrics, health, and its log.

pub mod health;
pub mod log;
pub mod metrics;
