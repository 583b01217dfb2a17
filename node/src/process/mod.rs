//! The start and the end of a process: its arguments and settings (`cli`, `config`), its life (`run`), and
//! where the parts below meet (`open`, `store`).

pub mod ca;
pub mod cli;
pub mod cluster;
pub mod config;
pub(crate) mod descriptors;
pub mod dev;
pub mod exit;
pub mod inspect;
pub(crate) mod limits;
pub mod open;
pub mod parent;
pub mod probe;
pub mod report;
pub mod run;
pub mod status;
pub mod store;
pub mod working_directory;
