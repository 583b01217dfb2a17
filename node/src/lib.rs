//! The node: modules stand in the order in which a PUT meets them, behind what starts a process.
//!
//! `cli` and `config` say what is wanted, `run` is the process from start to end, `server` the
//! listeners, `open` the place where the parts below meet.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cli;
pub mod config;
pub mod dev;
pub mod run;
pub mod open;
pub mod server;
mod descriptors;
pub mod s3;

pub mod object;
pub mod stripe;
pub mod register;
pub mod peer;
pub mod cluster;
pub mod volumes;
mod queue;
mod budget;
pub mod reclaim;
pub mod workers;
pub mod formation;
pub mod upkeep;
pub mod inspect;
pub mod store;
pub mod admin;
pub mod health;
pub mod metrics;
pub mod telemetry;
pub mod cpu;
pub mod system;
pub mod working_directory;
