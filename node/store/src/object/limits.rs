//! How long the verbs wait, and how often they try again.

use std::time::Duration;

/// How long a volume may take for a page of a scan, before another is asked. A list holds room in memory
/// meanwhile, and a disk may hang for ever.
pub(super) const SCAN_PATIENCE: Duration = Duration::from_secs(15);
/// How long a page of the parts of an upload is waited for, before another volume is asked too. They are few.
pub(super) const SCAN_HEDGE: Duration = Duration::from_millis(500);
