//! What changes a volume: one thread turns what is queued into durable batches.
//!
//! ```text
//! submit -> judge, control -> plan (+ what rides along) -> the log, a sync -> view -> told
//! ```

pub mod compact;
pub(crate) mod compaction;
pub(crate) mod control;
pub(crate) mod judge;
pub(crate) mod lazy;
pub(crate) mod plan;
pub(crate) mod ride_along;
pub mod step;
pub mod upkeep;
pub mod volume;
