//! How often requests that wait for memory ask for it, and how the pace of those that hold it, and
//! of work for unproven senders, is measured.

use std::time::Duration;

/// The time between two requests of one waiting request for the buffers of slow connections.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(250);
/// The time between two looks at the pace of a client that is waited for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The waits over which a client's pace is measured: a slow one takes a whole window at once and then nothing
/// for a second or two.
pub(super) const PACE_OVER: Duration = Duration::from_secs(3);
/// Between the last byte and a wait that is of another request, or of one that the node itself held up.
pub(super) const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Bytes that unproven work counts as moved at its beginning: so the first bytes of a new one, which are on
/// their way, are waited for while older ones that sent as little give way.
pub(super) const UNPROVEN_CREDIT_BYTES: u64 = 64 << 10;
