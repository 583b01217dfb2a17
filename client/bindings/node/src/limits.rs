//! Limits of the binding.

use std::time::Duration;

/// Time that cancelled work has to clean up, as in the library.
pub(crate) const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Entries of one page for JavaScript, as of a page of S3.
pub(crate) const PAGE_ENTRIES: usize = 1_000;
