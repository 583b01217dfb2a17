//! Limits of the listing of buckets.

/// Buckets on one page of ListBuckets (AWS, "ListBuckets").
pub(super) const BUCKETS_MAX: u32 = 10_000;
/// Buckets asked of the store at a time.
pub(super) const BUCKETS_AT_ONCE: usize = 1000;
