//! Times and sizes of a process. Each with where its number comes from.

use std::time::Duration;

/// Between two looks at the file of root credentials: as often as certificates are looked at.
pub(crate) const CREDENTIALS_FOLLOWED_EACH: Duration = Duration::from_secs(10);
/// Between two looks at the files of the configuration: as often as certificates are looked at.
pub(crate) const CONFIG_LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long a volume has to be well, and every node up, before it may count as healed: several pings, and by
/// then the writes that began before have reported what they missed.
pub(crate) const HEALED_AFTER: Duration = Duration::from_secs(10);
/// Damage that waits for this time is old: its heal does not follow at once.
pub(crate) const DAMAGE_OLD_AFTER: Duration = Duration::from_secs(10);
/// How long a volume has to be well before younger damage no longer counts: until what was reported within
/// [`HEALED_AFTER`] is old on every node, and was so for several pings.
pub(crate) const STEADY_AFTER: Duration = Duration::from_secs(30);
/// Characters of the reason why a configuration was refused, in an answer about the node.
pub(crate) const REFUSAL_CHARACTERS_MAX: usize = 512;
/// Between two moments of a node that nothing happens to: as often as pings carry them to the others.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Between a moment and the next one, however often the node changes: one takes some 50 us for eight volumes,
/// so that a storm of changes takes less than 1 % of a core.
pub(crate) const REPORT_GAP: Duration = Duration::from_millis(10);
/// How old the last moment of a node may be before its state counts as not known. A busy node computes one
/// within seconds; a reporter that takes this long is blocked.
pub(crate) const MOMENT_AGE_MAX: Duration = Duration::from_secs(30);
/// `MOMENT_AGE_MAX` in turns of the task that watches it, of [`REPORT_EVERY`] each.
pub(crate) const MOMENT_TURNS_MAX: u32 = 30;
/// Bytes of buffers that an idle node keeps committed.
pub(crate) const IDLE_BUFFER_BYTES: usize = 4 << 20;
/// Files that the indexes of all volumes keep open together.
pub(crate) const INDEX_FILES_MAX: usize = 1024;
/// How long the start waits for volumes that replay their logs; a volume that takes longer is offline
/// until it is done.
pub(crate) const OPEN_PATIENCE: Duration = Duration::from_mins(10);
/// How long volumes may take to sync and close.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for unused memory.
pub(crate) const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Threads for blocking calls at most: a few per volume that reads from its disk.
pub(crate) const BLOCKING_THREADS_MAX: usize = 64;
/// How long blocking calls may take to end after everything else did: one that hangs on a dead
/// disk must not hold the process.
pub(crate) const BLOCKING_PATIENCE: Duration = Duration::from_secs(2);

const _: () = {
    assert!(MOMENT_AGE_MAX.as_millis() == REPORT_EVERY.as_millis() * MOMENT_TURNS_MAX as u128);
    assert!(HEALED_AFTER.as_millis() < MOMENT_AGE_MAX.as_millis());
    assert!(HEALED_AFTER.as_millis() + DAMAGE_OLD_AFTER.as_millis() < STEADY_AFTER.as_millis());
};

/// The time between two reads of a followed file whose text is new: a write in place ends within it.
pub(crate) const FILE_SETTLES_AFTER: Duration = Duration::from_secs(1);
