//! How long requests that were turned away are shown.

use std::time::Duration;

/// How long a refusal is shown, and how long no request was let in where the node is shut: as long as a
/// request waits for a place.
pub(super) const SHOWN_FOR: Duration = Duration::from_secs(5);
