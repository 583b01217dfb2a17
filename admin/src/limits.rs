//! Bounds of time.

use std::time::Duration;

/// How long a call may take: the node's own deadline, and some for the way.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(70);
