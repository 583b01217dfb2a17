//! Bounds of access control, and where their numbers come from.

/// Bytes of rights that are kept: those of thousands of callers that work in a few buckets each, at a few KiB
/// each.
pub(super) const RIGHTS_BYTES_MAX: u64 = 32 << 20;
/// Entries that are expected in that.
pub(super) const RIGHTS_USUAL: usize = 4096;
/// Parts that the memory is divided into, each with a lock. Rights that are larger than a part, 4 MiB, are
/// compiled for each request: there are few parts so that few rights are.
pub(super) const RIGHTS_PARTS: usize = 8;
/// Actions that a request has: that of its operation, a read, an access control list, ownership.
pub(crate) const ACTIONS_MAX: usize = 4;
/// Times that a request is judged whose object gets other tags meanwhile. One lasts a few milliseconds: after
/// eight its client is asked to try again.
pub(super) const JUDGEMENTS_MAX: usize = 8;
