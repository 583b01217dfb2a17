//! Limits of callers and of their signatures.

use std::time::Duration;

/// Keys that are looked up at one time of which this node does not know that they were good. No signature
/// vouches for them yet.
pub(crate) const STRANGE_KEYS_MAX: usize = 32;
/// How long such a key waits for its turn.
pub(crate) const STRANGE_KEY_PATIENCE: Duration = Duration::from_secs(5);
/// How far a request's clock may be from ours: 15 minutes (AWS, "Common errors").
pub(crate) const SKEW_MS_MAX: u64 = 15 * 60 * 1000;
/// Seconds that the signature of a form holds behind its date: seven days, as a signing key does (AWS,
/// "Amazon S3 Signature Version 4 Authentication Specific Policy Keys").
pub(crate) const FORM_SECONDS_MAX: u64 = 604_800;
