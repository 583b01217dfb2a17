//! Limits of callers, of their signatures and of their rights.

use std::time::Duration;

/// Access keys that S3 looks up at one time which are not remembered and were never good here. Requests with
/// further ones wait: a lookup takes milliseconds, and all clients of a node that starts have such keys.
pub(crate) const S3_KEYS_MAX: usize = 32;
/// Access keys that IAM looks up at one time which are not remembered and were never good here: a quarter of
/// its connections.
pub(crate) const IAM_KEYS_MAX: usize = 64;
/// Registers of buckets that are read at one time for cross-origin and anonymous requests: more than browsers
/// need for buckets of which no view is remembered.
pub(crate) const S3_BUCKETS_MAX: usize = 32;
/// Forms whose fields arrive at one time. Each holds the place of a request: more than browsers need, whose
/// fields come at once, and a quarter of all places.
pub(crate) const S3_FORMS_MAX: usize = 128;
/// Bodies of requests to IAM of at most 64 KiB, at one time: 6 MiB.
pub(crate) const IAM_SHORT_BODIES_MAX: usize = 96;
/// Longer ones, which keep their places until they have a turn: 16 MiB.
pub(crate) const IAM_LONG_BODIES_MAX: usize = 32;
/// How long work that is not proven yet waits for its turn or its place.
pub(crate) const UNPROVEN_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that unproven work counts as moved at its beginning: so the first bytes of a new one, which are on
/// their way, are waited for while older ones that sent as little give way.
pub(crate) const UNPROVEN_CREDIT_BYTES: u64 = 64 << 10;
/// How far a request's clock may be from ours: 15 minutes (AWS, "Common errors").
pub(crate) const SKEW_MS_MAX: u64 = 15 * 60 * 1000;
/// Seconds that the signature of a form holds behind its date: seven days, as a signing key does (AWS,
/// "Amazon S3 Signature Version 4 Authentication Specific Policy Keys").
pub(crate) const FORM_SECONDS_MAX: u64 = 604_800;
/// Bytes of rights that are kept: those of thousands of callers that work in a few buckets each, at a few KiB
/// each.
pub(crate) const RIGHTS_BYTES_MAX: u64 = 32 << 20;
/// Entries that are expected in that.
pub(crate) const RIGHTS_USUAL: usize = 4096;
/// Parts that the memory is divided into, each with a lock. Rights that are larger than a part, 4 MiB, are
/// compiled for each request: there are few parts so that few rights are.
pub(crate) const RIGHTS_PARTS: usize = 8;
