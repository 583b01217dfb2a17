//! Every bound of a policy and where its number comes from.

/// Bytes of a bucket's policy (AWS, "Bucket policies for Amazon S3": 20 KB). The caller checks it.
pub const BUCKET_POLICY_BYTES_MAX: usize = 20 << 10;
/// Bytes of a document that is parsed at all: several times the longest of AWS, so that work and memory stay
/// bounded where a caller has no bound of its own.
pub const DOCUMENT_BYTES_MAX: usize = 128 << 10;
/// Arrays and objects within each other: the deepest element of a policy (a value of a condition) lies at 6.
pub const DEPTH_MAX: usize = 16;
/// Bytes of a text that holds the values of an identity's variables: longer than any text that it is compared
/// with (headers are 8 KiB).
pub const EXPANDED_BYTES_MAX: usize = 64 << 10;
/// Bytes of the values of a request that the reason of a condition names.
pub const SHOWN_BYTES_MAX: usize = 256;
/// Bits of a network of addresses from which on S3 takes it for a fixed value (AWS, "The meaning of public").
pub const PUBLIC_IPV4_BITS: u8 = 8;
/// `PUBLIC_IPV4_BITS` for IPv6.
pub const PUBLIC_IPV6_BITS: u8 = 32;
/// Bytes of a name of an action of S3, at most: a match has a bit for each of them and one more.
pub(crate) const NAME_BYTES_MAX: usize = 63;
