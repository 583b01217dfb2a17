//! Limits of views: how old they may be, how many reads refresh them, how long a change waits for nodes.

use std::time::Duration;

/// How long a view may be remembered, from the beginning of its read.
pub(crate) const VIEW_PERIOD: Duration = Duration::from_secs(2);
/// Age of a view from which on a request that takes it has it refreshed: the read may take a second.
pub(crate) const REFRESH_AFTER: Duration = Duration::from_secs(1);
/// Views of one kind that are refreshed at one time: 10,000 of them a second where a read takes a few
/// milliseconds.
pub(super) const REFRESHES_MAX: usize = 64;
/// Parts of the names of views: a read under way fills nothing where a view of its part was forgotten
/// meanwhile. A view fits in one, or is not remembered.
pub(super) const VIEW_PARTS: usize = 16;
/// Calls to other nodes that have them forget views of one kind, at one time.
pub(super) const FORGET_CALLS_MAX: usize = 1024;
/// How long a change waits beyond [`VIEW_PERIOD`] for a node that did not say that it forgot. No view from
/// before the change is young enough by then; this is for clocks that do not run alike.
pub(crate) const FORGET_MARGIN: Duration = Duration::from_millis(500);
/// Pause before a node that was not reached is asked again to forget.
pub(crate) const FORGET_PAUSE: Duration = Duration::from_millis(100);
