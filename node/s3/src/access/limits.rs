//! Bounds of access control, and where their numbers come from.

/// Actions that a request has: that of its operation, a read, an access control list, ownership.
pub(crate) const ACTIONS_MAX: usize = 4;
/// Times that a request is judged whose object gets other tags meanwhile. One lasts a few milliseconds: after
/// eight its client is asked to try again.
pub(super) const JUDGEMENTS_MAX: usize = 8;
