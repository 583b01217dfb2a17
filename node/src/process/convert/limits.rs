//! Limits of a file and of the resources that it becomes. Those of resources are in the resource definitions.

/// Bytes of a file: a Tenant with its Secrets has some KiB.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
/// Characters of the name of a StorageCluster.
pub(super) const NAME_CHARACTERS_MAX: usize = 30;
/// Characters of the name of a pool.
pub(super) const POOL_NAME_CHARACTERS_MAX: usize = 16;
/// Domains of a StorageCluster.
pub(super) const DOMAINS_MAX: usize = 16;
/// Characters of a region.
pub(super) const REGION_CHARACTERS_MAX: usize = 63;
/// Further certificates of a StorageCluster.
pub(super) const FURTHER_CERTIFICATES_MAX: usize = 8;
/// Further names of a certificate.
pub(super) const CERTIFICATE_NAMES_MAX: usize = 32;
/// Buckets that a BucketUser has rights to.
pub(super) const RIGHTS_MAX: usize = 64;
