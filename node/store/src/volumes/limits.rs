//! Queues and waits of local volumes. Each with where its number comes from.

use std::time::Duration;

/// Reads of a volume that may wait for a thread; a further one is refused as busy.
pub(super) const READ_QUEUE_MAX: usize = 1024;
/// Scans that may wait for a thread: each of 256 lists keeps at most four pages of a volume waiting.
pub(super) const SCAN_QUEUE_MAX: usize = 1024;
/// Shard file operations of a volume that may wait for a thread; a further one is refused as busy.
pub(super) const WRITE_QUEUE_MAX: usize = 512;
/// Operations that the log thread takes from its queue before one step: a batch is also bounded by its bytes.
pub(super) const TAKE_MAX: usize = 1024;
/// The longest wait of a log thread without work.
pub(super) const LOG_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long the log thread may sleep on operations that wait for a later frame. Behind a frame that a caller
/// waited for it sleeps a tenth of a second.
pub(super) const LAZY_PATIENCE: Duration = Duration::from_millis(200);
/// Orders that may wait for a keeper.
pub(super) const ORDERS_MAX: usize = 64;
/// Data ids that a volume holds for the sweep: with the longest keys a megabyte.
pub(super) const ABANDONED_MAX: usize = 1_000;
/// Bytes that a heal is charged on a volume at least: it looks up, syncs and seeks, however small its shard
/// is. At 8 MiB/s these are 128 a second.
pub(super) const HEAL_COST_MIN: u64 = 64 << 10;
/// How long bytes of a heal wait for their turn: its window is waited for for 20 s, with those before it.
pub(crate) const HEAL_TURN_MAX: Duration = Duration::from_secs(5);
/// Bytes of the longest volume.json that is read: a topology of every limit fits many times.
pub(in crate::volumes) const IDENTITY_BYTES_MAX: u64 = 16 << 20;
