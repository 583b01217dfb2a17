//! Bounds of access control, and where their numbers come from.

/// Rights that are kept: those of as many callers that work in a few buckets each, at a few KiB each.
pub(super) const RIGHTS_MAX: usize = 4096;
/// Actions that a request has: that of its operation, a read, an access control list, ownership.
pub(crate) const ACTIONS_MAX: usize = 4;
