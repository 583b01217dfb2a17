//! Which deletions of buckets this process has under way: upkeep takes no other for alive than these,
//! where no other process is a gateway to the volumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use sherd_core::id::ChangeId;

/// The deletions of this process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletions {
    known: Arc<Mutex<KnownDeletion>>,
    suspected: Arc<Notify>,
}

#[derive(Debug, Default)]
struct KnownDeletion {
    under_way: BTreeSet<ChangeId>,
    /// Whether a register may hold a deletion that nobody works on.
    is_suspected: bool,
}

/// A deletion under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct DeletionUnderWay {
    deletions: Deletions,
    deletion: ChangeId,
    has_ended: bool,
}

impl Deletions {
    /// Takes note of a deletion, before any register names it.
    pub(crate) fn begin(&self, deletion: ChangeId) -> DeletionUnderWay {
        self.known.lock().under_way.insert(deletion);
        DeletionUnderWay { deletions: self.clone(), deletion, has_ended: false }
    }

    /// Somebody met a deletion that does not come to its end.
    pub(crate) fn suspect(&self) {
        self.keep_suspicion();
        self.suspected.notify_one();
    }

    /// What [`Self::take_suspicion`] gave was not looked into as far as it goes: the next look does.
    pub(super) fn keep_suspicion(&self) {
        self.known.lock().is_suspected = true;
    }

    /// Waits until [`Self::suspect`] is said, or was since the last call.
    pub(super) async fn suspected(&self) {
        self.suspected.notified().await;
    }

    /// Whether this process works on it.
    pub(super) fn is_under_way(&self, deletion: ChangeId) -> bool {
        self.known.lock().under_way.contains(&deletion)
    }

    /// Whether [`Self::suspect`] was said since the last call.
    pub(super) fn take_suspicion(&self) -> bool {
        std::mem::take(&mut self.known.lock().is_suspected)
    }
}

impl DeletionUnderWay {
    /// No register names it any more.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for DeletionUnderWay {
    fn drop(&mut self) {
        self.deletions.known.lock().under_way.remove(&self.deletion);
        if !self.has_ended {
            self.deletions.suspect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{ProposerId, Timestamp};

    #[test]
    fn a_deletion_that_is_dropped_before_its_end_is_looked_for() {
        let deletion = |n| ChangeId { made: Timestamp::from_ms(n), proposer: ProposerId(1) };
        let deletions = Deletions::default();
        let (first, second) = (deletions.begin(deletion(1)), deletions.begin(deletion(2)));
        first.end();
        assert!(!deletions.is_under_way(deletion(1)));
        assert!(!deletions.take_suspicion());
        assert!(deletions.is_under_way(deletion(2)));
        drop(second);
        assert!(!deletions.is_under_way(deletion(2)));
        assert!(deletions.take_suspicion());
        assert!(!deletions.take_suspicion(), "once");
    }
}
