//! The process of a node, in rooms, from top to bottom:
//!
//! ```text
//! process    the parts of a process: arguments, configuration, where the rooms meet
//! server     listeners, admission, ordered shutdown
//! health     live, ready, and the reasons for not
//! audit      lines about requests, and their writer
//! log        lines of the log, and what none may carry
//! ```
//!
//! A room uses those below it, never one above. S3 is the crate `sherd-s3`, the network between nodes is
//! `sherd-net`; both work on `sherd-store`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod health;
pub mod log;
pub mod process;
pub mod server;
