//! The start and the end of a process: its arguments and settings (`cli`, `config`), its life (`run`), and
//! where the parts below meet (`open`, `store`).

pub mod ca;
pub mod cli;
pub mod ci;
pub mod config;
pub mod convert;
pub mod dev;
pub mod exit;
pub mod health;
pub mod import;
pub mod inspect;
pub mod node_client;
pub mod copies;
pub mod parent;
pub mod probe;
pub mod serve;
pub mod status;
pub mod user;
pub mod working_directory;
