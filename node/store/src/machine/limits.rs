//! How often a read that waits for memory asks for it.

use std::time::Duration;

/// The time between two requests of one waiting read for the buffers of slow connections.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(250);
