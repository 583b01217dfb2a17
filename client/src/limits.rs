//! Limits of the client, each with where its number comes from.

use std::time::Duration;

/// Requests at one time when nothing else is asked. With two frames and a buffer each they hold about 12 MiB.
pub const WORKERS: usize = 32;
/// Requests at one time at most: descriptors of a process are often limited to 1,024.
pub const WORKERS_MAX: usize = 512;
/// Bytes that are read from and written to a file at once.
pub(crate) const FRAME_BYTES: usize = 128 << 10;
/// Buffers of frames that are kept for the next ones: 8 MiB.
pub(crate) const SPARE_FRAMES_MAX: usize = 64;
/// Bytes up to which hyper's buffers of a connection grow.
pub(crate) const CONNECTION_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Files up to this size are read into memory once and sent from there.
pub(crate) const WHOLE_BYTES_MAX: u64 = 128 << 10;
/// Objects up to this size are one request, up and down: half of what two parts would be.
pub(crate) const SINGLE_BYTES_MAX: u64 = 16 << 20;
/// The smallest part that the planner chooses.
pub(crate) const PART_BYTES_MIN: u64 = 8 << 20;
/// The largest part that the planner chooses, as long as its count allows it.
pub(crate) const PART_BYTES_MAX: u64 = 256 << 20;
/// The smallest part that S3 takes, but for the last one (AWS, "Amazon S3 multipart upload limits").
pub(crate) const S3_PART_BYTES_MIN: u64 = 5 << 20;
/// The largest part and the largest object of one request (same page).
pub(crate) const S3_PART_BYTES_MAX: u64 = 5 << 30;
/// Parts of an upload (same page).
pub(crate) const PARTS_MAX: u64 = 10_000;
/// Parts of one file at one time, beside one more for each [`BYTES_A_PART_IN_FLIGHT`].
pub(crate) const PARTS_IN_FLIGHT_MIN: usize = 4;
/// Bytes of a file that add one part at one time.
pub(crate) const BYTES_A_PART_IN_FLIGHT: u64 = 32 << 20;
/// Bytes of an object that is read into memory: as much as one request may store.
pub(crate) const HELD_BYTES_MAX: u64 = S3_PART_BYTES_MAX;
/// Frames of 256 KiB that a reader of an object is behind at most.
pub(crate) const FRAMES_AHEAD_MAX: usize = 4;
/// Pieces that a writer of an object is ahead at most, each as large as its user makes it.
pub(crate) const PIECES_AHEAD_MAX: usize = 4;
/// Parts that are held in memory at one time: those of a pipe, and of a copy from one endpoint to another.
pub(crate) const HELD_PARTS_MAX: usize = 3;
/// Parts of a pipe after which the next ones are twice as large: 10,000 parts hold more than 5 TiB.
pub(crate) const PIPE_PARTS_A_SIZE: u64 = 1_000;
/// Attempts of a request when nothing else is asked. Pauses in between are about 12 s in all.
pub const ATTEMPTS: u32 = 8;
/// Attempts of a request at most.
pub const ATTEMPTS_MAX: u32 = 100;
/// The first pause before another attempt.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause before another attempt, also when the service asks for more.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(20);
/// Corrections that one call takes from answers: one of the region and one of the clock.
pub(crate) const CORRECTIONS_MAX: u32 = 2;
/// A difference of clocks that may be why a request was refused: services allow 15 minutes.
pub(crate) const SKEW_MIN: Duration = Duration::from_mins(5);
/// Time that a journal or temporary file may still be locked by a process that was killed.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two attempts to take such a lock.
pub(crate) const LOCK_EVERY: Duration = Duration::from_millis(20);
/// Time to connect, TLS excluded.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a request or an answer moves no byte, after which the attempt counts as broken.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Time that an unused connection is kept. Servers close theirs after 60 s or more.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for requests that clean up after a transfer that was cancelled.
pub(crate) const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Times that one body is resumed after a break that followed progress.
pub(crate) const RESUMES_MAX: u32 = 1_000;
/// Bytes of an answer that is a document. A page of 1,000 keys of 1,024 characters is about 5 MiB encoded.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Keys of one request that deletes (AWS, DeleteObjects).
pub(crate) const DELETE_KEYS_MAX: usize = 1_000;
/// Requests that delete at one time: each is a thousand writes for the service.
pub(crate) const DELETES_IN_FLIGHT_MAX: usize = 4;
/// Entries that a listing reads ahead: two pages.
pub(crate) const ENTRIES_AHEAD_MAX: usize = 2_000;
/// Names to be removed that a sync holds in memory: of 100 bytes each, 1 MiB.
pub(crate) const DOOMED_IN_MEMORY_MAX: usize = 10_000;
/// Jobs that are planned ahead of the workers.
pub(crate) const JOBS_AHEAD_MAX: usize = 1_024;
/// Events that wait for their reader.
pub(crate) const EVENTS_AHEAD_MAX: usize = 1_024;
/// Bytes of a key (AWS, "Naming Amazon S3 objects").
pub(crate) const KEY_BYTES_MAX: usize = 1_024;
/// Seconds that a presigned URL may hold: seven days (AWS, "Authenticating Requests").
pub(crate) const PRESIGN_SECONDS_MAX: u64 = 604_800;
/// Folders below each other, after which a tree counts as endless.
pub(crate) const DEPTH_MAX: usize = 256;
/// Time between two lines of progress on a terminal.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// Bytes of the first range that `head` reads.
pub(crate) const HEAD_BYTES: u64 = 64 << 10;
/// Bytes of an object of `bench`, which all workers send from one buffer.
pub(crate) const BENCH_BYTES_MAX: u64 = 1 << 30;
/// Objects of `bench`: each start in the random data is another one.
pub(crate) const BENCH_OBJECTS_MAX: usize = 1_000_000;
/// Faults in a row after which a worker of `bench` stops: an endpoint that is gone is not asked in a loop.
pub(crate) const BENCH_FAULTS_IN_A_ROW_MAX: u32 = 10;
/// Seconds around an object's time within which a file counts as of the same time: S3 has whole seconds.
pub(crate) const SAME_TIME: Duration = Duration::from_secs(1);

const _: () = assert!(PART_BYTES_MIN >= S3_PART_BYTES_MIN && PART_BYTES_MAX <= S3_PART_BYTES_MAX);
const _: () = assert!(SINGLE_BYTES_MAX <= 2 * PART_BYTES_MIN);
const _: () = assert!(WHOLE_BYTES_MAX <= FRAME_BYTES as u64);
/// Microseconds up to which `sherd bench` shows latencies, an hour: a histogram that saturates does not grow.
pub(crate) const LATENCY_US_MAX: u64 = 3_600_000_000;
