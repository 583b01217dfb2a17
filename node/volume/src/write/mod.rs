//! Changes of a volume: one thread turns queued operations into durable batches.
//!
//! ```text
//! submit -> judge, control -> plan (+ piggyback) -> the log, a sync -> view -> answers
//! ```

pub mod compact;
pub(crate) mod compaction;
pub(crate) mod control;
pub(crate) mod judge;
pub(crate) mod piggyback;
pub(crate) mod piggyback_queue;
pub(crate) mod plan;
pub mod step;
pub mod upkeep;
pub mod volume;
pub(crate) mod wants;
