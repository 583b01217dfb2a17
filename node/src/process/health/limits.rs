//! How long a node is asked for its health.

use std::time::Duration;

/// How long an answer may take: less than the 30 s that Docker gives a health check.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions while the node is not ready.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(50);
