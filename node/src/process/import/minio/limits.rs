//! Bounds of what is read of an export.

/// Bytes of a zip file, at most.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 256 << 20;
/// Entries of a zip file: ten files of each of 10,000 buckets.
pub(super) const ENTRIES_MAX: usize = 100_000;
/// Bytes of an entry, inflated: 100,000 users with a policy of 1 KiB each.
pub(super) const ENTRY_BYTES_MAX: u64 = 128 << 20;
/// Bytes of all entries, inflated.
pub(super) const INFLATED_BYTES_MAX: u64 = 256 << 20;
/// Letters of a name or a reason in a line of the output.
pub(super) const LETTERS_MAX: usize = 500;
