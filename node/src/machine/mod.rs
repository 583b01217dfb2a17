//! The machine under the node: its clock and entropy, its processor, threads, queues and memory.

pub(crate) mod budget;
pub mod cpu;
pub(crate) mod queue;
pub mod reclaim;
pub mod system;
pub mod workers;
