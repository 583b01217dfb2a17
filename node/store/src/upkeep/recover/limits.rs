//! How much the recovery of a volume takes at one time, how long it waits, and how often it tries again.

use std::time::Duration;

use sherd_core::limits::{BOUND_AHEAD_MS, SET_VOLUMES_MAX};

/// How long an order holds: what it was given for may have changed by then.
pub(crate) const ORDER_MAX: Duration = Duration::from_mins(10);
/// How long a peer may take to make a change durable.
pub(crate) const CONTROL_PATIENCE: Duration = Duration::from_secs(10);
/// How long a volume may take to make what it takes over durable: a million seals are some 40 batches.
pub(crate) const TAKE_PATIENCE: Duration = Duration::from_mins(1);
/// Rows of one page of a voter.
pub(crate) const ADOPT_PAGE: usize = 200;
pub(crate) const BATCH_ROWS: usize = 128;
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// Times that a row which moved on while it was read is read.
pub(crate) const ADOPT_TRIES: usize = 5;
/// Missing shards of one pass over a recovered volume: about 300 bytes each.
pub(crate) const SHARDS_IN_PASS_MAX: usize = 50_000;
pub(crate) const SHARDS_PAGE: usize = 200;
/// The longest pause between two walks over a recovered volume whose shards could not all be rebuilt, unless
/// a walk takes longer.
pub(crate) const SHARD_RETRY_MAX: Duration = Duration::from_mins(10);
/// Before a busy volume is asked for a shard again.
pub(crate) const BUSY_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Missing shards rebuilt at one time.
pub(crate) const SHARDS_AT_ONCE: usize = 4;
/// Between two looks whether the rows that an opening found are settled.
pub(crate) const FOUND_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Rows of an opening that are waited for at one time; of more, those behind them after these.
pub(crate) const FOUND_ROWS_MAX: usize = 4096;
/// For how much longer than other rows those are waited for whose volumes are there and do not answer in
/// time. A volume that hangs for longer counts as away, although no keeper has failed it yet.
pub(crate) const LATE_PATIENCE: Duration = Duration::from_secs(30);
/// Keys of one page of a peer that a volume is compared with.
pub(crate) const COMPARE_PAGE: usize = 500;
/// Keys of such a page that are compared at one time: each waits for answers of all volumes, and for little
/// else.
pub(crate) const KEYS_AT_ONCE: usize = 16;
/// How long a peer may take to say how far its log is: nothing is read for that.
pub(crate) const POSITION_PATIENCE: Duration = Duration::from_secs(5);
/// Before a page that failed is asked for again: a volume that went away is opened again each second, and
/// votes some seconds later.
pub(crate) const PAGE_PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];
/// A volume that was just opened refuses ballots up to what it may have promised before, which is this far
/// ahead of the clock: rows written again would pass it by. A new one refuses none.
pub(crate) const AFTER_OPENING: Duration = Duration::from_millis(BOUND_AHEAD_MS + 500);
/// By how many records a peer's log grows before that is noted: more than the notes of a whole set.
pub(crate) const NOTE_RECORDS: u64 = 4 * SET_VOLUMES_MAX as u64;
/// Between two notes of how far the peers' logs are durable.
pub(crate) const NOTE_EVERY: Duration = Duration::from_secs(10);
/// When everything that a volume missed up to a position is queued: a round of accepts is over, the volumes
/// that refused were looked at once more, and what came of it is in the logs.
pub(crate) const NOTED_AFTER: Duration = Duration::from_secs(20);
/// Notes of peers' positions that wait for that at one time.
pub(crate) const NOTES_MAX: usize = 8;
/// Looks at a volume between two comparisons of it for lost reports.
pub(crate) const ROUNDS_BETWEEN: u32 = 5;
/// How long an orderly end tries to log damage that no log took.
pub(crate) const LOG_AT_END: Duration = Duration::from_secs(10);
