//! How long the rounds of registers wait, how often they try again, and how much may wait. Each with where
//! its number comes from.

use std::time::Duration;

/// The first pause of a read before all volumes are asked again; each further one is twice as long.
pub(super) const READ_PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest pause before volumes without room for an answer are asked again.
pub(super) const READ_PAUSE_MAX: Duration = Duration::from_millis(100);
/// The pause between two rounds while connections are made again: 50 ms, as long as the keeper of one pauses
/// before it dials.
pub(super) const LINK_PAUSE: Duration = Duration::from_millis(50);
/// How long a key counts as written by others after they were last noticed: several rounds of a slow disk,
/// and short enough that a writer that is alone again soon pays for no read.
pub(super) const MARKED_FOR: Duration = Duration::from_secs(1);
/// The shortest time that is assumed for a prepare round: below a millisecond the wake-ups of tasks take as
/// long as the pause.
pub(super) const ROUND_MIN: Duration = Duration::from_millis(1);
/// The longest pause between two tries, about: a request has 20 s for all of them.
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(200);
/// The longest that a read waits for a commit, however slow commits are: after it the writer is taken for
/// gone.
pub(super) const PATIENCE_MAX: Duration = Duration::from_millis(500);
/// How often the pause doubles once an accept was sent: sixteen changes later its outcome is unknown.
pub(super) const PAUSES_WITH_ACCEPT_MAX: u32 = 1;
/// The time after which a faster proposer has brought a newer row to a volume that refused ours for it.
pub(super) const FASTER_ONE_ENDS: Duration = Duration::from_secs(1);
/// How long the hint of a commit waits for the answers that the quorum did not need, so that one hint says
/// whether every volume took the row; for late volumes it does not wait. A volume writes a hint with its next
/// frame, and one that gets no other writes within about a second: until then readers ask whether the row is
/// committed.
pub(super) const HINT_PATIENCE: Duration = Duration::from_millis(100);
/// Rounds that wait at one time to look once more at volumes that refused a value which others stored: of a
/// few hundred bytes each, a megabyte.
pub(super) const SECOND_LOOKS_MAX: usize = 4096;
/// The least time between two log lines about one volume whose clock is far from this node's.
pub(super) const SKEW_LOG_EVERY: Duration = Duration::from_mins(1);
/// How long a caller waits for room for a long value, as for a share of the buffers.
pub(super) const VALUE_PATIENCE: Duration = Duration::from_secs(15);
/// The least time between two log lines that ballots start over at the wall clock, in microseconds: while a
/// clock is wrong that happens with each write.
pub(super) const RESTART_LOG_EVERY_US: u64 = 60_000_000;
/// Bytes of the manifest page of an object of 10,000 parts about: the room that its bytes are gathered in at
/// first.
pub(super) const MANIFEST_PAGE_BYTES_USUAL: usize = 1 << 20;
