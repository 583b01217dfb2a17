//! Limits of one volume: lengths of records, queues in memory, and the size of steps. Each with where its
//! number comes from.

/// Bytes of a subject at most: a row of the longest key.
pub(crate) const SUBJECT_BYTES_MAX: usize = 2048;
/// Bytes of an MRF entry at most: the longest key, a data reference, and room.
pub(crate) const HEAL_ENTRY_BYTES_MAX: usize = 4096;
/// Bytes of a note of replaced data at most: the longest key, its data references, and room.
pub(crate) const RELEASE_ENTRY_BYTES_MAX: usize = 4096;
/// The highest number of a segment. No log comes to it, so a file with a higher one in its name was not
/// written by one; and behind every number up to here there is a next one.
pub const SEGMENT_NUMBER_MAX: u64 = 1 << 62;
/// Bytes of the longest payload that is copied behind its header, and hashed there in one piece.
pub(crate) const COPIED_PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of the longest volume.json that is read: a topology of every limit fits many times.
pub(crate) const IDENTITY_BYTES_MAX: u64 = 16 << 20;
/// Ranges of lost log that are remembered. Further ones are found again, and cost a recovery.
pub(crate) const LOST_RANGES_MAX: usize = 256;
/// Changes that a rebuild gathers before it applies them to the index: as many as a running volume gathers.
pub(crate) const REBUILD_CHANGES_MAX: usize = 1024;
/// Segments whose records an opening writes again: as many as one frame holds in any case. Each lost one
/// takes two records.
pub(crate) const REWRITTEN_SEGMENTS_MAX: usize = 256;
/// Merges that follow a flush: enough to empty all levels once, and an end in any case.
pub(crate) const MERGES_MAX: u32 = 16;
/// Bytes of an encoded value that an index row keeps; a larger one is read from the log.
pub(crate) const HEAD_IN_INDEX_MAX: usize = 4096;
/// Bytes of values after which one call returns its page: a value may have some mebibytes, and a page is in
/// memory as a whole.
pub(crate) const PAGE_VALUES_BYTES_MAX: usize = 1 << 20;
/// How often a lookup that ran into a new batch is tried again before it goes through the log's order.
pub(crate) const LOOKUP_TRIES: usize = 4;
/// Entries that a jump ahead passes before it seeks: a seek costs as much as about ten of them.
pub(crate) const PASSED_BEFORE_SEEK_MAX: usize = 8;
/// Entries of the overlay that are taken at one time, under the view's lock: about 50 us.
pub(crate) const OVERLAY_TAKEN_MAX: usize = 512;
/// Bytes of the longest shard: far above what one PUT can make, so that no sum overflows.
pub const SHARD_BYTES_MAX: u64 = 1 << 40;
/// Bytes of the tables that are kept with open shard files.
pub(crate) const KEPT_TABLES_BYTES_MAX: u64 = 8 << 20;
/// Large shards of a volume whose blocks that were read are remembered: sixteen times as many as are kept
/// open.
pub(crate) const READ_SHARDS_MAX: usize = 4096;
/// Words of 64 blocks that are remembered for all shards of a volume together: 128 KiB of memory for 64 GiB,
/// about as much as the page cache of a large node holds of one volume.
pub(crate) const READ_WORDS_MAX: usize = 16 << 10;
/// Bytes of hints that wait for a frame, as their records count: in memory they take three times that. Beyond
/// it they are dropped, and upkeep settles those rows. Some 15,000 for keys of usual length.
pub(crate) const HINTS_BYTES_MAX: usize = 2 << 20;
/// Ends of MRF entries, and of release notes, that wait for a frame; beyond it they are dropped, and those
/// entries are looked at once more.
pub(crate) const ENDS_WAITING_MAX: usize = 65_536;
/// Release notes that wait for a frame; beyond it they are dropped, and their data is left to the sweep.
/// Under load a frame takes them along every few milliseconds.
pub(crate) const RELEASES_WAITING_MAX: usize = 4096;
/// Records and keys for which an emptied plan keeps its room.
pub(crate) const PLAN_ROOM_MAX: usize = 1024;
/// How many flushes' bytes may wait in memory until the writing thread has to flush.
pub(crate) const FLUSHES_PENDING_MAX: u64 = 3;
/// How many flushed files may wait until the writing thread has to merge.
pub(crate) const FILES_UNMERGED_MAX: usize = 20;
/// Bytes of the stripe class at least.
pub(crate) const STRIPE_CLASS_BYTES_MIN: usize = 1 << 20;
/// Buckets of a histogram at most, beside the last one that takes everything larger.
pub(crate) const HISTOGRAM_BUCKETS_MAX: usize = 16;
/// Bytes that a measurement of the device writes, and reads, at most: 4 ms of a fast flash disk.
pub(crate) const MEASURED_BYTES_MAX: u64 = 8 << 20;
/// Time after which a measurement begins no other step, in each direction: with both a tenth of a second.
pub(crate) const MEASURED_US_MAX: u64 = 50_000;
