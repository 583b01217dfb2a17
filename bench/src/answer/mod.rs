//! The questions that were put to the store, each answered by a measurement of its own.

pub mod checksums;
pub mod erasure;
mod interleaved;
pub mod md5_lanes;
