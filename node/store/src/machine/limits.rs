//! How often requests that wait for memory ask for it, how the pace of those that hold it is measured, how
//! much budgets of bytes lend, and from when on a process stood still.

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
/// Between two beats of a process that runs.
pub(super) const BEAT_EVERY: Duration = Duration::from_millis(250);
/// Without a beat for this time a process stood still: three times the pause between two, for busy machines.
pub(super) const STANDSTILL_MIN: Duration = Duration::from_millis(750);
/// Clients of a process that stood still for longer have asked another node: load balancers and clients take
/// a node for down within 5 s.
pub(super) const ABSENCE_MAX: Duration = Duration::from_secs(5);
/// How long after such a standstill no write is begun that may have lain in a socket: a process reads what
/// lies there at once, in the order of its tasks.
pub(super) const DOUBT: Duration = Duration::from_secs(2);
/// How long after any standstill a client that has ended its side counts as gone.
pub const LONG_DOUBT: Duration = Duration::from_secs(10);
/// The longest silence that background work is credited for.
pub(super) const CREDIT_MAX: Duration = Duration::from_millis(100);
