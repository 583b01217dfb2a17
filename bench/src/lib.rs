//! Sherd's benchmark: what it measures, how it judges, and how it tells.
//!
//! `result` is what every measurement leaves behind, a table of labelled rows beside the machine it was
//! taken on. The measuring modules fill it; `report` and `compare` only read it, so a table in
//! docs/performance.md can always be traced to a file in bench/results/.

pub mod cli;
pub mod result;
pub mod figure;
pub mod host;
pub mod subject;
mod blocking;
pub mod load;
pub mod quick;
pub mod alloc;
pub mod question;
pub mod stats;
pub mod compare;
pub mod report;
