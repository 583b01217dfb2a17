//! How much an inspection reads at a time, remembers and names.

/// Rows or shards of one page.
pub(crate) const PAGE: usize = 500;
/// Problems that are named; what is more is only counted.
pub(crate) const PROBLEMS_MAX: usize = 1000;
/// Memory for reads.
pub(crate) const BUFFER_BYTES: usize = 64 << 20;
/// Keys whose data is remembered: shards of one object lie beside each other in no order, its parts among
/// them.
pub(crate) const KEYS_MAX: usize = 256;
/// Data ids that a report lists.
pub(crate) const LISTED_MAX: usize = 1000;
/// Bytes of a shard that are compared at one time.
pub(crate) const WINDOW_BYTES: u64 = 256 << 10;
/// Bytes of a shard file verified in one step.
pub(crate) const STEP_BYTES: u64 = 1 << 20;
/// Bytes of the largest manifest page that is read: one of every limit fits several times.
pub(crate) const PAGE_BYTES_MAX: u64 = 16 << 20;
