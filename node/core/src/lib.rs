//! The vocabulary and the decisions of Sherd: values in, values out.
//!
//! Nothing here touches a clock, a socket, a file, a thread or a source of entropy; facts of the outside
//! world arrive as arguments, decisions leave as values. The node, the volume, the models and the simulator
//! all call these same functions, so what the models prove is what production runs.
//!
//! Modules stand in reading order: names first, then where things live, then what is stored, then the rules
//! for changing it and a volume's answers.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod env;
pub mod limits;
pub mod id;
pub mod sender;
pub mod codec;
pub mod checksum;
pub mod md5;
pub mod topology;
pub mod placement;
pub mod stripe;
pub mod erasure;
pub mod record;
pub mod config;
pub mod iam;
pub mod release;
pub mod heal;
pub mod register;
pub mod message;
pub mod report;
