//! The machine under the node: its clock and entropy, its processor, threads, queues and memory, and how
//! much there is of each, as people write it.

pub mod budget;
pub mod call_times;
pub mod cpu;
pub mod heap;
pub mod host;
pub mod quantity;
mod limits;
pub mod pace;
pub mod pulse;
pub(crate) mod queue;
pub mod reclaim;
pub mod system;
pub(crate) mod throttle;
pub mod workers;
