//! How long the writer of audit lines waits. Each with where its number comes from.

use std::time::Duration;

/// Between two tries to write what could not be written: a disk that is full stays so for a while.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Between two lines of the log that say so.
pub(crate) const FAILURE_LOGGED_EVERY: Duration = Duration::from_mins(1);
/// How long the end of the process waits for the last lines: nothing reads a pipe that is full for longer.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
