//! How much background work takes at one time, how long it waits, and how often it tries again. The
//! pauses and rates that a node sets are in `settings`, the limits of recovery in `recover/limits.rs`.

use std::time::Duration;

use sherd_core::limits::BOUND_AHEAD_MS;

/// How long a page of rows, or of what a log holds, may take.
pub(crate) const PAGE_PATIENCE: Duration = Duration::from_secs(30);
/// Rows of one page of those that a volume lists as unsettled, or as missed by others.
pub(crate) const UNSETTLED_PAGE: usize = 256;
/// How long a volume may take for a short question or a page of it, or to make a change durable.
pub(crate) const VOLUME_PATIENCE: Duration = Duration::from_secs(10);
/// Final seals that are sent to a volume at one time.
pub(crate) const SEALS_AT_ONCE: usize = 64;
/// For how many looks a node leaves a row, or a suspect, to the nodes whose turn is before its own, at most:
/// the last node of a wide set must not wait for minutes.
pub(crate) const TURNS_MAX: u32 = 4;
/// The pause after a first panic of a task; each further one is twice as long.
pub(crate) const PANIC_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause, and how long a task has to run for its next panic to be a first one.
pub(crate) const PANIC_PAUSE_MAX: Duration = Duration::from_mins(1);
/// Bytes of the longest file of what is remembered of a volume that is read.
pub(crate) const PROGRESS_BYTES_MAX: u64 = 64 << 10;
/// Entries of the heal queue in memory: about 400 bytes each, 40 MB at the limit.
pub(crate) const HEALS_MAX: usize = 100_000;
/// The pause after a first failed heal: several tries fit the ten seconds after which damage keeps nodes from
/// being taken away.
pub(crate) const HEAL_PAUSE_MS: u64 = 1_000;
/// Damage that is known for longer is as old as that.
pub(crate) const OLD_ENOUGH: Duration = Duration::from_mins(1);
/// Entries that wait for room on one volume which are tried at one look, a second apart: as many as a node
/// heals in about a second.
pub(crate) const ROOM_TRIES_AT_ONCE: usize = 256;
/// The longest time between two walks of a list of missed rows that all wait for room: an hour, in which a
/// row may have gone from it and another one come.
pub(crate) const ROOM_WAIT_MS_MAX: u64 = 3_600_000;
/// The longest pause between two heals of an entry: 10 minutes. A volume that comes back ends all pauses.
pub(crate) const HEAL_PAUSE_MS_MAX: u64 = 600_000;
/// Failed tries that an entry counts at most once a volume came back: the next pause is 8 s at most, for the
/// connections to its node may be behind its report.
pub(crate) const HEAL_TRIES_KEPT: u32 = 3;
/// Between two looks which volumes of other nodes vote.
pub(crate) const RETURN_LOOK_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two wakes of heals as a volume of another node came back. It doubles with
/// each wake up to [`HEAL_PAUSE_MS_MAX`], so that one that comes and goes takes no turn from the heals
/// that can succeed, and is the shortest again after twice that without one.
pub(crate) const RETURNS_WAKE_EVERY: Duration = Duration::from_secs(30);
/// How long an entry that waits for room on full volumes keeps its place in a full queue from entries that
/// the logs alone have: as long as the longest pause.
pub(crate) const ROOM_TURN_MS: u64 = HEAL_PAUSE_MS_MAX;
/// How long a log may still show an entry that it has to forget: it writes that with what comes next, or
/// after a second. Ten times that.
pub(crate) const FORGOTTEN_MS: u64 = 10_000;
pub(crate) const HEAL_PUT_PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const LOG_PAGE: usize = 500;
/// Entries that no log took which are put again at one time.
pub(crate) const UNLOGGED_AT_ONCE: usize = 64;
/// Logs that are read through at one time, each with a page in memory.
pub(crate) const LOGS_READ_AT_ONCE: usize = 32;
/// How long a volume may take to say what its row is.
pub(crate) const ROW_PATIENCE: Duration = Duration::from_secs(5);
/// How far ahead of the own clock the bound of a volume is passed for a row that it refused: what a restart
/// leaves it ahead of its clock, and as much for the difference of two clocks.
pub(crate) const FOLLOW_RESTART_MS_MAX: u64 = 2 * BOUND_AHEAD_MS;
/// How long the volumes beyond a quorum get for an accept that was sent to all of them.
pub(crate) const STRAGGLER_PAUSES: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
];
/// Unsettled rows ahead of the clock that are remembered of one volume; of more, the others are settled
/// first.
pub(crate) const ROWS_AHEAD_MAX: usize = 16_384;
/// Bytes of a shard that are rebuilt at one time: with k columns of it, a few mebibytes.
pub(crate) const REBUILD_WINDOW_BYTES: u64 = 512 << 10;
/// How long one shard may take to be verified where it is: a minute of a slow disk, and its turns between
/// clients ([`VERIFY_TURNS_MAX`](crate::peer::VERIFY_TURNS_MAX)).
pub(crate) const SHARD_VERIFY_PATIENCE: Duration = Duration::from_mins(5);
/// How long a volume may take to say whether it has a shard.
pub(crate) const SHARD_LOOK_PATIENCE: Duration = Duration::from_secs(10);
/// How long a window's read or write may take.
pub(crate) const REBUILD_WINDOW_PATIENCE: Duration = Duration::from_secs(20);
/// The cost of a row for the pace of a walk, beside its bytes.
pub(crate) const ROW_COST_BYTES: u64 = 4 << 10;
/// Between two looks which volumes of this node logged wants.
pub(crate) const WANTS_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Wants of one page: a few hundred kibibytes with the longest keys.
pub(crate) const WANTS_PAGE: usize = 256;
/// The pause after a pass over the wants of a volume, and the longest one after passes that end nothing.
pub(crate) const WANT_PAUSE_MS: u64 = 1_000;
pub(crate) const WANT_PAUSE_MS_MAX: u64 = HEAL_PAUSE_MS_MAX;
/// Between two looks of a volume at its peers, where nothing happened.
pub(crate) const LOOK_AT_PEERS_EVERY_MS: u64 = 60_000;
/// Between two of them otherwise: where too few peers answered, or one came back.
pub(crate) const LOOK_AGAIN_MS: u64 = 10_000;
/// A volume that was just opened refuses rows up to what it may have promised before.
pub(crate) const LOOK_AFTER_OPENING_MS: u64 = BOUND_AHEAD_MS + 500;
/// Between two judgements whether a look is due.
pub(crate) const LOOK_DUE_EVERY: Duration = Duration::from_secs(1);
/// How much later than that one comes where the process, or its machine, stood still: its volumes may have
/// missed rows, and no link noticed it.
pub(crate) const STOOD_STILL_MS: u64 = 5_000;
/// Rows of a peer's page that a volume compares at one time: most are compared in memory, and those that it
/// lacks wait for the peer.
pub(crate) const SHOWN_ROWS_AT_ONCE: usize = 16;
/// Rows of a look at one peer that are followed until they are passed; of more, the next look sees the
/// others.
pub(crate) const LEFT_ROWS_MAX: usize = 4096;
/// Between two judgements of those: commit hints ride with the next frame, or come after a second.
pub(crate) const LEFT_ROWS_EVERY: Duration = Duration::from_secs(1);
/// How long a look brings such rows at most, one after the other: its volume looks at no peer meanwhile.
pub(crate) const FINISH_TIME_MAX: Duration = Duration::from_secs(30);
/// Before a page of a look that failed is asked for again, where others came before.
pub(crate) const LOOK_PAGE_PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];
/// The longest pause behind a page of a walk over all rows of a peer; it is as long as the page took.
pub(crate) const WALK_PAUSE_MAX: Duration = Duration::from_secs(1);
/// From the beginning of a walk over a peer's rows to that of the next: while a list is full, each further
/// row that a volume misses raises the horizon, and the peer would be walked all the time.
pub(crate) const WALK_AGAIN_MS: u64 = 600_000;
/// How many times as long as a walk that time is at least.
pub(crate) const WALK_REST_FACTOR: u64 = 20;
/// How often the logs are looked through for entries that came with a write.
pub(crate) const RELOAD_EVERY: Duration = Duration::from_mins(1);
/// How old a part that belongs to no open upload is to have come after its upload was closed. Attributes this
/// old did, too, or their upload was never begun: a request that begins one has 20 s for its row.
pub(crate) const PART_AGE_MS: u64 = 24 * 3600 * 1000;
/// Between two looks for superseded data that is due.
pub(crate) const RELEASE_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long pinned data, or data that cannot be judged or removed now, waits for the next try; twice as long
/// after each further one.
pub(crate) const RELEASE_AGAIN_MS: u64 = 60_000;
/// The longest such pause: what a volume that was away still holds goes that soon after it is back.
pub(crate) const RELEASE_AGAIN_MS_MAX: u64 = 600_000;
/// Tries to release an entry before it leaves memory. Its note stays, and is read again as an overdue one.
pub(crate) const RELEASE_TRIES_MAX: u32 = 10;
/// Between two looks for overdue notes.
pub(crate) const OVERDUE_LOOK_MS: u64 = 10_000;
/// How long after its grace data is released by a node that only noted it: until then its gateway does it.
pub(crate) const OVERDUE_AFTER_MS: u64 = 20_000;
pub(crate) const RELEASES_AT_ONCE: usize = 32;
/// Volumes that note an entry of superseded data: one may be lost together with the process.
pub(crate) const RELEASE_NOTED_ON: usize = 2;
/// How many times as long as a look at buckets the pause after it is, where it is longer than usual.
pub(crate) const BUCKETS_PAUSE_FACTOR: u32 = 100;
/// The longest such pause: a look may also have waited for a volume that hangs.
pub(crate) const BUCKETS_PAUSE_MAX: Duration = Duration::from_secs(30);
pub(crate) const BUCKETS_PAGE: usize = 256;
/// Registers that are read at one time to find out whether any names a bucket.
pub(crate) const BUCKET_READS_AT_ONCE: usize = 16;
/// Between two looks for seals that became final.
pub(crate) const REMAINS_LOOK_EVERY: Duration = Duration::from_secs(10);
/// Before a bucket of which something could not go is looked through again.
pub(crate) const REMAINS_AGAIN_MS: u64 = 60_000;
/// How long a row of a deleted bucket may wait for a volume before the walk of its bucket ends: each further
/// row would wait as long.
pub(crate) const SILENCE_MS: u64 = 5_000;
/// Deleted buckets that one look clears on a volume: after a start those of years may be due at one time.
pub(crate) const BUCKETS_PER_LOOK: usize = 1_000;
pub(crate) const REMAINS_PAGE: usize = 64;
pub(crate) const SCRUB_PAGE: usize = 64;
/// How long a page or a question of the scrubber may take: bytes are read from the device.
pub(crate) const SCRUB_PATIENCE: Duration = Duration::from_mins(1);
/// The slowest pace: small volumes are done early and wait for the next pass.
pub(crate) const SCRUB_PACE_MIN: u64 = 256 << 10;
/// How young an unsettled row is that the scrubber leaves to its writer and to the settle worker.
pub(crate) const UNSETTLED_MS: u64 = 60_000;
/// How young a committed row is that the scrubber comes back to: its last shards and rows may be on their
/// way.
pub(crate) const YOUNG_MS: u64 = 10_000;
/// Such rows of a pass, at most; more are left to the next pass.
pub(crate) const POSTPONED_MAX: usize = 10_000;
/// How long the scrubber leaves a volume that is not online.
pub(crate) const SCRUB_AWAY: Duration = Duration::from_secs(30);
/// Suspects held; what is more is found again by the next pass.
pub(crate) const SUSPECTS_MAX: usize = 10_000;
/// Times that a suspect is judged in vain, a minute apart, before it is left to the scrubber's next pass.
pub(crate) const SUSPECT_TRIES_MAX: u32 = 10;
/// Rows of one page of the sweeper, and tombstones of one batch.
pub(crate) const SWEEP_PAGE: usize = 256;
/// Between two notes of where the sweeper's walk stands.
pub(crate) const SWEEP_NOTE_EVERY_MS: u64 = 60_000;
/// How old data is that its gateway has named or removed by then, as a rule: a request has 20 s for its row.
pub(crate) const ABANDONED_AFTER_MS: u64 = 60_000;
pub(crate) const REPORTS_AT_ONCE: usize = 128;
pub(crate) const REMOVALS_MAX: usize = 256;
pub(crate) const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks which volumes are full.
pub(crate) const SPACE_LOOK_EVERY: Duration = Duration::from_secs(1);
pub(crate) const LEASE_PATIENCE: Duration = Duration::from_secs(5);
/// How often the pace of healing is set: a percentile needs some calls.
pub(crate) const PACE_EVERY: Duration = Duration::from_secs(1);
/// A time of a call that healing may cost on any device: a few syncs of a flash disk, half a turn of a slow
/// one. Twice a p99 of 200 microseconds is nothing that a client notices.
pub(crate) const CALL_TIME_UNHARMED: Duration = Duration::from_millis(3);
/// Calls of a whole judgement: a hundredth of fewer is less than one.
pub(crate) const CALLS_JUDGED: u64 = 100;
/// Seconds that fewer calls are gathered over, until they are judged afresh.
pub(crate) const JUDGED_SECONDS: u64 = 10;
/// Calls whose p99 is a figure of how the volumes answer without healing.
pub(crate) const QUIET_CALLS: u64 = 20;
/// How long such a figure counts, in seconds: load changes within minutes.
pub(crate) const QUIET_FIGURE_SECONDS: u64 = 180;
/// Figures that are kept when they are older: an hour of healing may leave no other.
pub(crate) const QUIET_FIGURES_MIN: usize = 3;
/// Bytes of heals on a volume in a second without healing: a report of damage now and then.
pub(crate) const QUIET_BYTES: u64 = 256 << 10;
/// Seconds without a call that make the volumes idle.
pub(crate) const IDLE_SECONDS: u64 = 5;
/// Seconds of the wall clock between two rests of healing beside clients; all nodes rest together, as far as
/// their clocks agree. Two of thirty are a fifteenth of the time.
pub(crate) const REST_EVERY_SECONDS: u64 = 30;
/// Seconds of a rest: in the first one bytes under way come to their end, in the second clients are measured.
pub(crate) const REST_SECONDS: u64 = 2;
/// Seconds without healing after which it begins gently beside clients.
pub(crate) const FRESH_SECONDS: u64 = 10;
/// The part of the pace of a device that healing keeps beside clients, however slow they are: a tenth.
pub(crate) const HEAL_FLOOR_PART: u64 = 10;
/// Bytes per second and volume that healing keeps on any device: it ends at some time.
pub(crate) const HEAL_FLOOR_MIN: u64 = 1 << 20;
/// Bytes per second and volume that healing keeps on a device that was not measured: a tenth of a slow one.
pub(crate) const HEAL_FLOOR_UNMEASURED: u64 = 8 << 20;
