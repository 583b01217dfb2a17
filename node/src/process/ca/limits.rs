//! How much of a file the authority's commands read.

/// Bytes of a file that are read: a certificate or key of this scheme has about 1 KiB.
pub(crate) const PEM_BYTES_MAX: u64 = 64 << 10;
