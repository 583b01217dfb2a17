//! Bounds of what `user` reads and asks.

/// Elements within each other, at most: a result's are five deep.
pub(super) const DEPTH_MAX: usize = 16;
/// Times that the keys of a user are listed until all have the status that they are to have.
pub(super) const LISTINGS_MAX: usize = 64;
/// Bytes of the document of a policy, at most.
pub(super) const DOCUMENT_BYTES_MAX: usize = sherd_core::limits::IAM_DOCUMENT_BYTES_MAX;
