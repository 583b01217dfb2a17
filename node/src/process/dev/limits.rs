//! How long the nodes of `dev --nodes` are waited for, and how much is kept of their lines.

use std::time::Duration;

/// How long a dead node stays dead: long enough that its peers find it down.
pub(crate) const RESTART_AFTER: Duration = Duration::from_secs(2);
/// How often a node that is held down is looked at.
pub(crate) const HOLD_EVERY: Duration = Duration::from_millis(200);
/// How long nodes may take to end in order; all of it is over 45 s after the signal.
pub(crate) const END_PATIENCE: Duration = Duration::from_secs(43);
/// Bytes of the longest line that stays in one piece.
pub(crate) const LINE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a node's log before another file begins, of which one more is kept: 40,000 lines.
pub(crate) const LOG_BYTES_MAX: u64 = 8 << 20;
/// How long the last lines of a process that ended may take to be printed.
pub(crate) const LAST_LINES_PATIENCE: Duration = Duration::from_secs(1);
