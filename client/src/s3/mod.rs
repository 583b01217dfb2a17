//! The operations of S3 that the engine uses, as methods of `Client`: a file each for buckets, objects,
//! multipart uploads and lists.

pub mod buckets;
pub mod listing;
pub mod objects;
pub mod uploads;
