//! Limits of signatures, and of what is remembered of them.

use std::time::Duration;

/// Seconds that a presigned URL may live: seven days (AWS, "Authenticating Requests: Using Query
/// Parameters").
pub(super) const EXPIRES_SECONDS_MAX: u64 = 604_800;
/// Access keys whose signing keys are remembered at most; one more empties the cache.
pub(super) const ACCESS_KEYS_MAX: usize = 4096;
/// Keys remembered per access key: two regions around midnight.
pub(super) const KEYS_EACH_MAX: usize = 4;
/// Keys that are looked up at one time of which this node does not know that they were good. No signature
/// vouches for them yet.
pub(super) const STRANGE_KEYS_MAX: usize = 32;
/// How long such a key waits for its turn.
pub(super) const STRANGE_KEY_PATIENCE: Duration = Duration::from_secs(5);
/// How far a request's clock may be from ours: 15 minutes (AWS, "Common errors").
pub(super) const SKEW_MS_MAX: u64 = 15 * 60 * 1000;
/// Seconds that the signature of a form holds behind its date: seven days, as a signing key does (AWS,
/// "Amazon S3 Signature Version 4 Authentication Specific Policy Keys").
pub(super) const FORM_SECONDS_MAX: u64 = 604_800;
