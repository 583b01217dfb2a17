//! Bounds and intervals of the bench, each with where its number comes from, in the order of its rooms.
//!
//! Lengths of measurements are here, too. Sizes and counts that a page compares stand with the page.

use std::time::Duration;

/// Length of a run of the load generator for a moment: a few operations of every client.
pub const MOMENT_RUN: Duration = Duration::from_millis(300);
/// Length of one measurement of a question for a moment.
pub const MOMENT_WINDOW: Duration = Duration::from_millis(20);
/// Objects larger than this are scaled down for a moment, so that a debug build ends soon.
pub const MOMENT_BYTES_MAX: u64 = 2 << 20;
/// Objects of a page, for a moment of a bucket that grows: 1 % of its 3,000 keys fill one.
pub const MOMENT_PAGE: u64 = 20;

// host

/// Syncs that take longer are recorded as this, in nanoseconds: a minute.
pub const SYNC_NS_MAX: u64 = 60_000_000_000;

// subject

/// Folders of a started store, the disks of one node; also the most processes of a store.
pub const STORE_FOLDERS: usize = 4;
/// How long a store may take until it answers.
pub const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// Between two attempts to reach a store that starts: short beside the start, which is measured with it.
pub const READY_POLL: Duration = Duration::from_millis(2);
/// How long a store may take to stop before it is killed: a node gives its requests 30 s.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(40);
/// Between two looks at a process that stops.
pub const STOP_POLL: Duration = Duration::from_millis(10);
/// Between two readings of a store's memory: a peak that lasts a twentieth of a second is seen.
pub const MEMORY_SAMPLE: Duration = Duration::from_millis(50);
/// For each of connecting to a node's admin listener, sending and receiving.
pub const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

// load

/// For each of connecting, sending and receiving of a request around a run.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that one call takes from the connection of such a request: as many as a socket holds by default.
pub const ASK_READ_BYTES: usize = 64 << 10;
/// Bytes that are kept of an answer to a request around a run: error documents are below 1 KiB.
pub const ASK_TEXT_BYTES_MAX: usize = 64 << 10;
/// Between two requests to a node that does not take writes yet.
pub const BUCKET_POLL: Duration = Duration::from_millis(100);
/// How long a connection of the generator may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a thread begins nothing after a connection could not be made, or after a series of faults.
pub const FAULT_PAUSE: Duration = Duration::from_millis(100);
/// Between two searches for connections that stand still: short beside the minute that they may.
pub const STALL_SWEEP: Duration = Duration::from_secs(1);
/// How long after its end an open loop waits for operations that it could not send in time.
pub const DRAIN: Duration = Duration::from_secs(10);
/// Longer latencies are recorded as this one.
pub const LATENCY_MAX: Duration = Duration::from_hours(1);
/// Between two updates of the line of progress.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The largest object that S3 takes in one PUT.
pub const OBJECT_BYTES_MAX: u64 = 5 << 30;
/// Bytes that are kept of an answer's text: a listing of 1,000 takes about 300 KiB.
pub const ANSWER_TEXT_BYTES_MAX: usize = 8 << 20;
/// A longer head of an answer is refused.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Headers of an answer.
pub const HEADERS_MAX: usize = 64;
/// Bytes of a size line of the chunked coding, its extension included.
pub const SIZE_LINE_BYTES_MAX: usize = 256;

// race

/// A tool that takes longer for one run of a race is out: a hundred times the slowest row of `sherd`.
pub const RACE_RUN_LIMIT: Duration = Duration::from_mins(20);
/// How long a store may take to become idle before a run; a store that is still busy is measured so.
pub const RACE_REST: Duration = Duration::from_secs(10);
/// Connections that verify, store and remove objects around a run: below what any store refuses.
pub const WITNESS_CONNECTIONS: usize = 8;
/// Objects of a page that such a connection lists or removes: the most that S3 gives.
pub const WITNESS_PAGE: usize = 1_000;
/// Room beside the files of a race: what the device is measured with, and logs of the store.
pub const RACE_ROOM_BYTES: u64 = 2 << 30;
/// Bytes of a line in which a tool names an object: a key has at most 1,024.
pub const RACE_LINE_BYTES_MAX: u64 = 4 << 10;

// compare, quick

/// Time before the measured window of a compared run, for operations that do not use objects up.
pub const COMPARE_WARM_UP: Duration = Duration::from_secs(1);
/// Descendants of a command that are stopped with it.
pub const DESCENDANTS_MAX: usize = 4096;
/// Time before the measured window of a row of the quick benchmark.
pub const QUICK_WARM_UP: Duration = Duration::from_millis(500);

// question

/// Keys of a page of a listing: the most that S3 gives.
pub const PAGE: u64 = 1000;
/// Rounds of computations on one thread, even of slow ones: the median of fewer rounds follows single
/// outliers.
pub const ROUNDS_MIN: usize = 5;
/// Rounds that the time for computations on one thread is divided into: more time makes longer samples.
pub const ROUNDS_MAX: u32 = 51;
/// A shorter sample of processor time measures the clock more than the work.
pub const SAMPLE_MIN: Duration = Duration::from_micros(200);
/// Between two looks at a node's metrics.
pub const METRICS_POLL: Duration = Duration::from_millis(25);
/// How long a node may take to see that a volume is gone.
pub const CHANGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval over which a node's processor time is read to see whether it is idle.
pub const IDLE_SAMPLE: Duration = Duration::from_millis(500);
/// How long a node may take to become idle after a bucket's fill, before the next measurement.
pub const REST_AFTER_FILL: Duration = Duration::from_mins(2);
/// How long a node may take to become idle before clients are measured on the whole node.
pub const REST_BEFORE_CLIENTS: Duration = Duration::from_mins(1);
/// How long a node may take to become idle after a heal, before the next one: it compares all rows meanwhile.
pub const REST_AFTER_HEAL: Duration = Duration::from_mins(5);
/// The longest heal.
pub const HEAL_TIMEOUT: Duration = Duration::from_mins(30);
/// One window of one operation beside a heal; GET and PUT take turns.
pub const FOREGROUND_WINDOW: Duration = Duration::from_secs(1);
/// `FOREGROUND_WINDOW` for a moment.
pub const MOMENT_FOREGROUND_WINDOW: Duration = Duration::from_millis(200);
/// Time before the measured window of requests with volumes gone.
pub const DEGRADED_WARM_UP: Duration = Duration::from_millis(500);
/// How long certificates of a run are valid, and how old its connections become: longer than any run.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_hours(24);
/// How long the volume of two nodes in this process may take to open, and they to connect.
pub const PAIR_READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks whether they are connected.
pub const PAIR_LOOK: Duration = Duration::from_millis(2);
