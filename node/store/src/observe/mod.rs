//! What a node counts and traces: metrics, the words for a volume's state, and where the time of its requests goes.

mod limits;
pub mod metrics;
pub mod peer_calls;
pub mod trace;
pub mod volume_state;
