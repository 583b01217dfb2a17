//! One S3 request and its answer, over bytes: signed, written, read, verified.
//!
//! No body is copied or hashed on the way, so that the client costs the machine little.

pub mod ask;
pub mod request;
pub mod response;
pub mod sign;
pub mod checksum;
pub mod payload;
pub mod random;
