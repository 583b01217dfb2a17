//! Bounds of what a node says of itself.

/// Slow requests that are logged in a second, and slow calls beside them. In an outage every request is one,
/// and the first of them say why.
pub(super) const SLOW_LINES_PER_SECOND: u32 = 10;
/// Bytes of a bucket's name that a line shows: S3 allows no more.
pub(super) const BUCKET_BYTES_MAX: usize = 63;
