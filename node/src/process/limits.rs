//! Times and sizes of a process. Each with where its number comes from.

use std::time::Duration;

/// How long no damage may have waited before a volume counts as healed: several pings of every node.
pub(crate) const HEALED_AFTER: Duration = Duration::from_secs(10);
/// Between two moments of a node that nothing happens to: as often as pings carry them to the others.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Between a moment and the next one, however often the node changes: one takes some 50 us for eight volumes,
/// so that a storm of changes takes less than 1 % of a core.
pub(crate) const REPORT_GAP: Duration = Duration::from_millis(10);
