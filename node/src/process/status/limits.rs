//! How often and how long `status` asks.

use std::time::Duration;

/// Between two looks with `--watch`.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long a connected node may take to answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
