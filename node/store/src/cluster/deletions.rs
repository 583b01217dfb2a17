//! Deletions of buckets that this process has under way. `object` begins and ends them; where no other
//! process is a gateway to the volumes, upkeep undoes every other deletion that a register names.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use sherd_core::id::ChangeId;

/// The deletions of this process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Deletions {
    known: Arc<Mutex<KnownDeletion>>,
    suspected: Arc<Notify>,
}

#[derive(Debug, Default)]
struct KnownDeletion {
    under_way: BTreeSet<ChangeId>,
    /// Whether a register may hold a deletion that no gateway works on.
    is_suspected: bool,
}

#[derive(Debug)]
pub(crate) struct DeletionUnderWay {
    deletions: Deletions,
    deletion: ChangeId,
    has_ended: bool,
}

impl Deletions {
    /// Notes a deletion, before any register names it.
    pub(crate) fn begin(&self, deletion: ChangeId) -> DeletionUnderWay {
        self.known.lock().under_way.insert(deletion);
        DeletionUnderWay { deletions: self.clone(), deletion, has_ended: false }
    }

    /// Asks upkeep to look for deletions that do not come to their end.
    pub(crate) fn suspect(&self) {
        self.keep_suspicion();
        self.suspected.notify_one();
    }

    /// Keeps what [`Self::take_suspicion`] gave for the next look, as this one did not reach all buckets.
    pub(crate) fn keep_suspicion(&self) {
        self.known.lock().is_suspected = true;
    }

    /// Waits for [`Self::suspect`]; returns at once where it was called since the last wait.
    pub(crate) async fn suspected(&self) {
        self.suspected.notified().await;
    }

    pub(crate) fn is_under_way(&self, deletion: ChangeId) -> bool {
        self.known.lock().under_way.contains(&deletion)
    }

    /// Whether [`Self::suspect`] was called since the last look.
    pub(crate) fn take_suspicion(&self) -> bool {
        std::mem::take(&mut self.known.lock().is_suspected)
    }
}

impl DeletionUnderWay {
    /// Ends it: no register names it any more.
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
