//! The transfer engine of S3 and the command line `sherd` over it, in rooms, from top to bottom.

pub mod cli;
mod sync;
pub mod transfer;
mod local;
pub mod s3;
pub mod client;
mod document;
mod transport;
mod payload;
pub mod credentials;
pub mod endpoint;
pub mod checksum;
pub mod glob;
pub mod error;
pub mod limits;
