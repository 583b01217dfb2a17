//! How much of a request its line keeps, and how many lines wait. Each with where its number comes from.

/// Bytes of a key: the longest that S3 has.
pub(crate) const KEY_BYTES_MAX: usize = 1024;
/// Bytes of a bucket's name, as it was written: no bucket has more than 63.
pub(crate) const BUCKET_BYTES_MAX: usize = 255;
/// Bytes of an ARN, or of the name in a certificate: an ARN has a path of 512 and a name of 64.
pub(crate) const CALLER_BYTES_MAX: usize = 640;
/// Bytes of an access key's id: the longest that there can be.
pub(crate) const ACCESS_KEY_BYTES_MAX: usize = 128;
/// Bytes of a request id: a UUID, or 16 hex digits.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 64;
/// Bytes of a user agent: those of the SDKs have about 200.
pub(crate) const USER_AGENT_BYTES_MAX: usize = 256;
/// Bytes of a method: the longest that HTTP's registry has is 17.
pub(crate) const METHOD_BYTES_MAX: usize = 32;
/// Bytes that a line has room for from its beginning: that of most requests is shorter.
pub(crate) const LINE_BYTES: usize = 640;
/// Lines that wait: a second of the most requests that a node answers.
pub(crate) const QUEUE_LINES_MAX: usize = 65_536;
/// Bytes of the lines that wait: about 16,000 lines.
pub(crate) const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes of lines that are taken at one time: one write of them costs a hundredth of a write for each.
pub(crate) const BATCH_BYTES: usize = 64 << 10;
