//! Unsettled rows: what a volume does not know to be committed, settled soon, so that few keys ever
//! depend on more than P volumes.
//!
//! ```text
//! accepted --> unsettled --the hint says: everywhere--> no more listed
//!                        --the hint says: missed------> listed as missed (`missed`)
//! ```
//! So a gateway that dies after its answer leaves a memory of what a volume missed, on all those that did
//! not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message::{UnsettledKind, UnsettledRow};
use sherd_core::register::{CommitHint, Positions};

use super::bring::{HealOutcome, Obstacle, heal_row};
use super::{rows_of, tell_committed};
use crate::peer::VolumeRoute;
use crate::register::Failure;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{PAGE_PATIENCE, ROWS_AHEAD_MAX, UNSETTLED_PAGE};
use crate::upkeep::pages::ask;
use crate::upkeep::queue::HealQueue;
use crate::upkeep::queue::entries::Spare;

/// The unsettled rows of one volume whose ballots are ahead of the clock, and since when they are known,
/// by a clock that never steps. The clock that made such a ballot was set back, or is wrong: the row's
/// age cannot be read off it.
#[derive(Debug, Default)]
pub(crate) struct RowsAhead {
    since_ms: HashMap<(RegisterKey, Ballot), u64>,
}

impl RowsAhead {
    /// For how long a row is known, by the rows of the look before this one.
    fn age_ms(&mut self, known: &Self, (key, ballot): (&RegisterKey, Ballot), now_ms: u64) -> u64 {
        let row = (key.clone(), ballot);
        let since_ms = known.since_ms.get(&row).copied().unwrap_or(now_ms);
        if self.since_ms.len() < ROWS_AHEAD_MAX {
            self.since_ms.insert(row, since_ms);
        }
        now_ms.saturating_sub(since_ms)
    }
}

#[derive(Debug)]
pub(crate) struct Settler {
    deps: Deps,
    queue: Arc<HealQueue>,
}

impl Settler {
    pub(crate) fn new(deps: &Deps, queue: &Arc<HealQueue>) -> Self {
        Self { deps: deps.clone(), queue: Arc::clone(queue) }
    }

    pub(crate) async fn settle_rows(&self) {
        let mut ahead: HashMap<VolumeId, RowsAhead> = HashMap::new();
        loop {
            for volume in self.deps.volumes.all() {
                if volume.state().votes() {
                    self.settle_volume(volume.id(), ahead.entry(volume.id()).or_default()).await;
                }
            }
            tokio::time::sleep(self.deps.settings.settle_every).await;
        }
    }

    /// Settles what one volume of this node does not know to be committed.
    pub(crate) async fn settle_volume(&self, volume: VolumeId, ahead: &mut RowsAhead) {
        let Some(route) = self.deps.route_to(volume) else { return };
        let known = std::mem::take(ahead);
        let mut after = None;
        loop {
            let page =
                route.peer.unsettled(volume, UnsettledKind::Uncommitted, after.as_ref(), UNSETTLED_PAGE);
            let Ok(page) = ask(page, PAGE_PATIENCE).await else { return };
            for UnsettledRow { key, ballot } in page.rows {
                let age_ms = match self.deps.wall_ms().checked_sub(ballot.time.as_ms()) {
                    Some(age_ms) => age_ms,
                    None => ahead.age_ms(&known, (&key, ballot), self.deps.now_ms()),
                };
                // By then the row's writer has finished or gone, and so has the node whose turn is before.
                let patience = self.deps.settings.settle_after
                    + self.deps.settings.settle_every * self.deps.turns_before(&key);
                if Duration::from_millis(age_ms) >= patience {
                    self.settle_row(&route, &key, ballot).await;
                }
            }
            after = page.next;
            if after.is_none() {
                return;
            }
        }
    }

    pub(crate) async fn settle_row(&self, route: &VolumeRoute, key: &RegisterKey, ballot: Ballot) {
        let rows = rows_of(&self.deps, key).await;
        if rows.are_settled(self.deps.cluster.set_of(key).quorums()) {
            return tell_committed(&self.deps, key, &rows);
        }
        let behind = |spare| (HealEntry { key: key.clone(), data: None, since_ms: 0 }, spare);
        // A volume that did not get the row would wait for the scrubber, with one copy less until then.
        let to_queue = if !(rows.without.is_empty() && rows.rotten.is_empty()) {
            match heal_row(&self.deps, key).await {
                HealOutcome::Whole
                | HealOutcome::Unnamed
                | HealOutcome::Later { obstacle: Obstacle::Absence, .. } => {
                    return;
                }
                HealOutcome::Later { spare, .. } => Some(behind(spare)),
            }
        } else if rows.held.iter().any(|(_, held, _)| *held < ballot) {
            // So would a volume that has an older row. Not at once: another ballot would stand in the way of
            // a volume that is about to bring it.
            Some(behind(Spare(1)))
        } else {
            None
        };
        // After the hint no volume looks at the row again: where no log takes the entry, the row stays
        // unsettled.
        if let Some((entry, spare)) = to_queue
            && !self.queue.put(entry, spare).await
        {
            return;
        }
        // A read finishes what it finds; a row that it does not find is below a later one.
        match self.deps.registers.read(key).await {
            Ok(Some(found)) if found.ballot == ballot => {
                let target = self.deps.cluster.target(key.clone());
                // A volume that does not have it, or does not say, is looked for until it does.
                let commit = CommitHint { ballot, is_everywhere: false, positions: Positions::default() };
                route.peer.commit(route.volume, &target, &commit);
            }
            Ok(_) => match self.deps.registers.finish(key).await {
                Ok(_) | Err(Failure::Sealed) => {}
                Err(failure) => tracing::debug!(?key, %failure, "row not settled yet"),
            },
            Err(Failure::Sealed) => {}
            Err(failure) => tracing::debug!(?key, %failure, "row not settled yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::{BucketId, ObjectKey, ProposerId, Timestamp};

    use super::*;

    #[test]
    fn a_row_ahead_of_the_clock_ages_from_when_it_was_first_seen() {
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a".to_owned()).expect("a key"));
        let ballot = |time| Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) };
        let (mut first, mut second, mut third) =
            (RowsAhead::default(), RowsAhead::default(), RowsAhead::default());
        assert_eq!(first.age_ms(&RowsAhead::default(), (&key, ballot(9_000)), 1_000), 0);
        assert_eq!(second.age_ms(&first, (&key, ballot(9_000)), 3_000), 2_000);
        assert_eq!(third.age_ms(&second, (&key, ballot(9_000)), 5_000), 4_000);
        assert_eq!(third.age_ms(&second, (&key, ballot(9_001)), 5_000), 0, "another write");
    }
}
