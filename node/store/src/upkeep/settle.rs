//! Unsettled rows: what a volume does not know to be committed, settled soon, so that few keys ever
//! depend on more than P volumes.
//!
//! ```text
//! accepted --> unsettled --the hint says: everywhere--> no more listed
//!                        --the hint says: missed------> listed as missed (`missed`)
//! ```
//! So a gateway that dies after its answer leaves a memory of what a volume missed, on all those that did not.

use std::collections::HashMap;
use std::time::Duration;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message::{UnsettledKind, UnsettledRow};
use sherd_core::register::{CommitHint, Positions};

use super::heal::HealOutcome;
use super::mrf::Spare;
use super::{Context, ask};
use crate::peer::VolumeRoute;
use crate::register::Failure;

/// Rows of one page.
const PAGE: usize = 256;
/// Rows ahead of the clock that are remembered of one volume; of more, the others are settled first.
const ROWS_AHEAD_MAX: usize = 16_384;
/// Turns that a node waits at most, so that the last node of a wide set does not wait for minutes.
const TURNS_MAX: u32 = 4;
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The unsettled rows of one volume whose ballots are ahead of the clock, and since when they are known,
/// by a clock that never steps. The clock that made such a ballot was set back, or is wrong: the row's
/// age cannot be read off it.
#[derive(Debug, Default)]
pub(super) struct RowsAhead {
    since_ms: HashMap<(RegisterKey, Ballot), u64>,
}

impl RowsAhead {
    /// How long a row is known, by what the look before this one knew.
    fn age_ms(&mut self, known: &Self, (key, ballot): (&RegisterKey, Ballot), now_ms: u64) -> u64 {
        let row = (key.clone(), ballot);
        let since_ms = known.since_ms.get(&row).copied().unwrap_or(now_ms);
        if self.since_ms.len() < ROWS_AHEAD_MAX {
            self.since_ms.insert(row, since_ms);
        }
        now_ms.saturating_sub(since_ms)
    }
}

impl Context {
    /// Settles rows until it is told to stop.
    pub(super) async fn settle_rows(&self) {
        let mut ahead: HashMap<VolumeId, RowsAhead> = HashMap::new();
        loop {
            for volume in self.volumes.all() {
                if volume.state().votes() {
                    self.settle_volume(volume.id(), ahead.entry(volume.id()).or_default()).await;
                }
            }
            tokio::time::sleep(self.settings.settle_every).await;
        }
    }

    /// Shows the rows behind a key that a volume does not know to be committed, until there are no more or
    /// `show` has seen enough; `false` where the volume does not say.
    pub(super) async fn walk_unsettled(
        &self,
        volume: VolumeId,
        behind: Option<&RegisterKey>,
        mut show: impl FnMut(RegisterKey, Ballot) -> bool,
    ) -> bool {
        let Some(route) = self.route_to(volume) else { return true };
        let mut after = behind.cloned();
        loop {
            let page = route.registers.unsettled(volume, UnsettledKind::Uncommitted, after.as_ref(), PAGE);
            let Ok(page) = ask(page, PATIENCE).await else { return false };
            for UnsettledRow { key, ballot } in page.rows {
                if !show(key, ballot) {
                    return true;
                }
            }
            after = page.next;
            if after.is_none() {
                return true;
            }
        }
    }

    /// Settles what one volume of this node does not know to be committed.
    pub(super) async fn settle_volume(&self, volume: VolumeId, ahead: &mut RowsAhead) {
        let Some(route) = self.route_to(volume) else { return };
        let known = std::mem::take(ahead);
        let mut after = None;
        loop {
            let page = route.registers.unsettled(volume, UnsettledKind::Uncommitted, after.as_ref(), PAGE);
            let Ok(page) = ask(page, PATIENCE).await else { return };
            for UnsettledRow { key, ballot } in page.rows {
                let age_ms = match self.wall_ms().checked_sub(ballot.time.as_ms()) {
                    Some(age_ms) => age_ms,
                    None => ahead.age_ms(&known, (&key, ballot), self.now_ms()),
                };
                // Its writer has either finished or gone, and so has the node whose turn is before.
                let patience =
                    self.settings.settle_after + self.settings.settle_every * self.turns_before(&key);
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

    /// How many looks longer this node leaves a row to the nodes whose turn is before its own: of the nodes that hold
    /// it one is enough, and the next one sees to it where that one does not.
    pub(super) fn turns_before(&self, key: &RegisterKey) -> u32 {
        u32::try_from(self.cluster.turn_of(key)).unwrap_or(TURNS_MAX).min(TURNS_MAX)
    }

    pub(super) async fn settle_row(&self, route: &VolumeRoute, key: &RegisterKey, ballot: Ballot) {
        let rows = self.rows_of(key).await;
        if rows.are_settled(self.cluster.set_of(key).quorums()) {
            return self.tell_committed(key, &rows);
        }
        let behind = |spare| (HealEntry { key: key.clone(), data: None, since_ms: 0 }, spare);
        // A volume that did not get the row would wait for the scrubber, with one copy less until then.
        let to_queue = if !(rows.without.is_empty() && rows.rotten.is_empty()) {
            match self.heal_row(key).await {
                HealOutcome::Whole | HealOutcome::Unnamed | HealOutcome::Later { is_damaged: false, .. } => {
                    return;
                }
                HealOutcome::Later { spare, .. } => Some(behind(spare)),
            }
        } else if rows.held.iter().any(|(_, held, _)| *held < ballot) {
            // So would one that has an older row. Not at once: another ballot would stand in the way of whoever is
            // about to bring it.
            Some(behind(Spare(1)))
        } else {
            None
        };
        // Once the others know that it is committed nobody here would look at it again: where no log takes that, it is
        // left as it is.
        if let Some((entry, spare)) = to_queue
            && !self.queue_heal(entry, spare).await
        {
            return;
        }
        // A read finishes what it finds; a row that it does not find is below a later one.
        match self.registers.read(key).await {
            Ok(Some(found)) if found.ballot == ballot => {
                let target = self.cluster.target(key.clone());
                // A volume that does not have it, or does not say, is looked for until it does.
                let commit = CommitHint { ballot, is_everywhere: false, positions: Positions::default() };
                route.registers.commit(route.volume, &target, &commit);
            }
            Ok(_) => match self.registers.finish(key).await {
                Ok(_) | Err(Failure::Sealed) => {}
                Err(failure) => tracing::debug!(?key, %failure, "row not settled yet"),
            },
            Err(Failure::Sealed) => {}
            Err(failure) => tracing::debug!(?key, %failure, "row not settled yet"),
        }
    }

    /// How a volume is reached, by its set.
    pub(super) fn route_to(&self, volume: VolumeId) -> Option<VolumeRoute> {
        let mut routes = self.cluster.sets().iter().flat_map(|set| set.routes.iter());
        routes.find(|route| route.volume == volume).cloned()
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
