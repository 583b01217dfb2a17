//! How long a probe may take, and how much it sends and reads.

use std::time::Duration;

/// How long all steps may take together.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(25);
/// How long removing what was made may take after a failure: 30 s for all.
pub(crate) const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the object: enough that each shard is a file of its own.
pub(crate) const OBJECT_BYTES: usize = 1 << 20;
/// Bytes of an answer that are read: the object, or an error.
pub(crate) const ANSWER_BYTES_MAX: usize = 2 * OBJECT_BYTES;
/// Characters of a server's words that are repeated.
pub(crate) const WORDS_MAX: usize = 200;
