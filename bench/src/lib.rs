//! Sherd's benchmark: it measures stores, judges differences and writes reports.
//!
//! `result` is the form of every measurement: a table of labelled rows beside the machine that it was taken
//! on. The measuring modules fill it and `report` reads it, so that a table in docs/performance.md can always
//! be traced to a file in bench/results/.

pub mod cli;
pub mod limits;
pub mod result;
pub mod figure;
pub mod host;
mod blocking;
pub mod tls;
pub mod client;
pub mod subject;
pub mod load;
pub mod quick;
pub mod alloc;
pub mod question;
pub mod stats;
pub mod race;
pub mod compare;
pub mod report;
