//! How many clients are served, how long they are waited for, and how much is read and kept of them. Each
//! with where its number comes from.

use std::time::Duration;

/// Bytes that hyper keeps per connection at most, once a body came by it; before, 16 KiB.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Connections beside which one with such a buffer is kept for a further request: together 64 MiB.
pub(crate) const ROOMY_CONNECTIONS_MAX: usize = 1024;
/// Connections whose close lingers, at one time: with their buffers 36 MiB at most. Further
/// ones may lose the answer to what they went on sending.
pub(crate) const LINGERS_MAX: usize = 512;
/// Bytes of a request head; AWS allows 8 KiB of headers, and 2 KiB of metadata in them.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long a client of S3 may take for a request head: one is 1 KiB on average, and comes at once.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long accepting pauses when the system has no descriptor or memory left for a connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Between two lines.
pub(crate) const LOGGED_EVERY: Duration = Duration::from_mins(1);
/// Handshakes under way at one time: with their buffers 32 MiB.
pub(crate) const HANDSHAKES_MAX: usize = 1024;
/// Pause between two tries to take back a spare descriptor: a freed descriptor raises no event.
pub(crate) const REFILL_EVERY: Duration = Duration::from_secs(1);
/// How long a close lingers after an early answer; then the client may lose it.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(30);
/// How long it may be silent meanwhile.
pub(crate) const LINGER_IDLE: Duration = Duration::from_secs(5);
/// Bytes that are dropped at a time: on the stack, for hundreds of closes linger at one time.
pub(crate) const LINGER_BYTES: usize = 4 << 10;
/// How long a reader of an object may take nothing: a restore that works on what it has read takes minutes.
pub(crate) const READER_PAUSE_MAX: Duration = Duration::from_hours(1);
/// Readers of objects that pause at one time: each keeps the data of a version that may be gone otherwise.
pub(crate) const READERS_PAUSED_MAX: usize = 256;
/// How long a request waits for a place: below the read timeout of every SDK, so that the client
/// gets 503 and backs off rather than giving up on a connection.
pub(crate) const QUEUE_WAIT: Duration = Duration::from_secs(5);
/// How long a body that waits for its client keeps its place: longer than the pauses of one that sends.
pub(crate) const CLIENT_WAIT_MAX: Duration = Duration::from_secs(1);
/// Below it a body has a place only while its bytes are worked on. Uploads below it give way for memory, too.
pub(crate) const SLOW_BODY_BYTES_PER_SECOND: u64 = 256 << 10;
/// Bodies that wait for their clients without a place, for each place: 1,024 at 512 places, whose buffers are
/// 64 MiB at most.
pub(crate) const BODIES_WAITING_PER_PLACE: usize = 2;
/// How long a write in doubt waits for the event that its client has ended its side.
pub(crate) const LOOK_AFTER: Duration = Duration::from_millis(10);
/// Bytes that are read at most behind the head of a request that is worked on, to see whether its client has
/// gone.
pub(crate) const AHEAD_BYTES_MAX: usize = 512;
/// Proxies between a client and us whose addresses are read: more than two or three are a mistake.
pub(crate) const PROXIES_MAX: usize = 32;
/// Probes and a few scrapers: more connections than that are a mistake.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Tools that change users and policies: a connection each, and an operator's few.
pub(crate) const IAM_CONNECTIONS_MAX: usize = 256;
/// Scrapes of one second that are made; further ones get the last. One costs 0.2 ms, so these take 2 % of a
/// core.
pub(crate) const SCRAPES_PER_SECOND: u32 = 100;
/// Bytes that are read at a time while no body is: hyper's smallest buffer. A longer head comes in pieces.
pub(crate) const HEAD_READ_BYTES: usize = 8 << 10;
