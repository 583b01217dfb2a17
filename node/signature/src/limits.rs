//! Limits of signatures, and of what is remembered of them.

/// Seconds that a presigned URL may live: seven days (AWS, "Authenticating Requests: Using Query
/// Parameters").
pub(crate) const EXPIRES_SECONDS_MAX: u64 = 604_800;
/// Access keys whose signing keys are remembered at most; one more empties the cache.
pub(crate) const ACCESS_KEYS_MAX: usize = 4096;
/// Keys remembered per access key: two regions around midnight.
pub(crate) const KEYS_EACH_MAX: usize = 4;
