//! Limits of a configuration. Each with where its number comes from.

/// Bytes of a file of settings: 1,024 nodes that are written one by one are 200 KiB.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a credentials file that are read; two lines and some comments are under 1 KiB.
pub(crate) const CREDENTIALS_BYTES_MAX: u64 = 64 << 10;
/// The longest label of a DNS name (RFC 1035).
pub(crate) const LABEL_BYTES_MAX: usize = 63;
/// The longest DNS name (RFC 1035).
pub(crate) const HOST_BYTES_MAX: usize = 253;
/// Networks of trusted proxies: each request from a proxy is compared with all, up to 33 times.
pub(crate) const PROXY_NETWORKS_MAX: usize = 256;
/// Buckets that a node makes at its start: some tens of milliseconds each, before S3 is served.
pub(crate) const FIRST_BUCKETS_MAX: usize = 256;
/// Volumes of one node at most; a machine with more disks than this is not built, a typing
/// mistake in a range is.
pub(crate) const VOLUMES_MAX: usize = 1024;

/// Certificates for clients beside the first: a handshake compares its name with each.
pub(super) const FURTHER_CERTIFICATES_MAX: usize = 16;
