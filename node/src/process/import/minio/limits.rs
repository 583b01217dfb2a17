//! Bounds of what is read of an export.

/// Bytes of a zip file, at most.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Entries of a zip file: ten files of each of 10,000 buckets.
pub(super) const ENTRIES_MAX: usize = 100_000;
/// Bytes of an entry, inflated: 30,000 policies or service accounts of 1 KiB each. In memory its JSON takes
/// up to 16 times as many.
pub(super) const ENTRY_BYTES_MAX: u64 = 32 << 20;
/// Bytes of all entries, inflated: 6 KiB of each of 10,000 buckets.
pub(super) const INFLATED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a policy: ten times those of a managed policy here, for what is left out of it.
pub(super) const POLICY_BYTES_MAX: usize = 64 << 10;
/// Resources of a statement: more than the 20 KiB of a bucket's policy have room for.
pub(super) const RESOURCES_MAX: usize = 1_500;
/// Bytes of a resource: almost twice those of a bucket's and an object's name.
pub(super) const RESOURCE_BYTES_MAX: usize = 2_000;
/// Letters of a name or a reason in a line of the output.
pub(super) const LETTERS_MAX: usize = 500;
