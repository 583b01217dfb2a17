//! Unsettled rows: what a volume does not know to be committed, settled soon, so that few keys ever
//! depend on more than P volumes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use sherd_core::id::{Ballot, BucketId, RegisterKey, VolumeId};
use sherd_core::register::Positions;

use super::heal::Healed;
use super::{Context, ask};
use crate::peer::Peer;
use crate::register::Failure;

/// Rows of one page.
const PAGE: usize = 256;
/// Rows ahead of the clock that are remembered of one volume; of more, the others are settled first.
const ROWS_AHEAD_MAX: usize = 16_384;
/// Between two looks whether the rows that an opening found are settled.
const FOUND_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Rows of an opening that are waited for at one time; of more, those behind them after these.
const FOUND_ROWS_MAX: usize = 4096;
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The unsettled rows of one volume whose ballots are ahead of the clock, and since when they are known,
/// by a clock that never steps. The clock that made such a ballot was set back, or is wrong: the row's
/// age cannot be read off it.
#[derive(Debug, Default)]
pub(super) struct RowsAhead {
    since_ms: HashMap<(RegisterKey, Ballot), u64>,
}

/// Unsettled rows of a stretch of a volume's keys, as they were found.
#[derive(Debug, Default)]
pub(super) struct FoundRows {
    behind: Option<RegisterKey>,
    pub(super) rows: HashMap<RegisterKey, Ballot>,
    /// Where the stretch ends; `None` for the end of the volume.
    pub(super) last: Option<RegisterKey>,
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

    /// Waits until the rows are settled that a volume did not know to be committed when this began. `false` where
    /// that takes too long although it can be done, or the volume does not say: it has to be tried again.
    ///
    /// What is asked is whether those very rows are still there, and no clock: ballots are ahead of it for 2 s
    /// after an opening, and by what it was set back. A write in the place of a row is its writer's, as any other.
    ///
    /// Nobody waits for what cannot be settled now, or a set with too many volumes away, and a bucket whose
    /// deletion was cut short, would keep a volume from `online` for as long: these are rows for which fewer
    /// than A volumes vote, since the others are away, recover, or are sealed. (Seals go with their deletion, or
    /// the rows do.) With A votes any row is settled, of whatever age and life, by an identity write; a volume whose
    /// own life is over is told so before it comes here.
    pub(super) async fn found_rows_settled(&self, volume: VolumeId) -> bool {
        let soon = self.settings.settle_after + self.settings.settle_every + self.settings.found_patience;
        let deadline = Instant::now() + soon;
        let mut behind = None;
        loop {
            let Some(found) = self.find_rows(volume, behind.as_ref(), deadline).await else { return false };
            while !found.rows.is_empty() {
                let left = self.rows_left(volume, &found, 1).await;
                if left.is_some_and(|left| left.is_empty()) {
                    break;
                }
                if Instant::now() >= deadline {
                    if self.can_be_settled(volume, &found).await {
                        return false;
                    }
                    tracing::info!(%volume, "rows that its opening found wait for other volumes of the set");
                    break;
                }
                tokio::time::sleep(FOUND_LOOK_EVERY).await;
            }
            let Some(last) = found.last else { return true };
            behind = Some(last);
        }
    }

    /// The next rows that a volume does not know to be committed; `None` where it does not say in time.
    pub(super) async fn find_rows(
        &self,
        volume: VolumeId,
        behind: Option<&RegisterKey>,
        deadline: Instant,
    ) -> Option<FoundRows> {
        let sealed = self.sealed_in_set(volume);
        loop {
            let mut found = FoundRows { behind: behind.cloned(), ..FoundRows::default() };
            let said = self.walk_unsettled(volume, behind, |key, ballot| {
                if !sealed.contains(&key.bucket) {
                    found.rows.insert(key.clone(), ballot);
                }
                found.last = (found.rows.len() >= FOUND_ROWS_MAX).then_some(key);
                found.last.is_none()
            });
            if said.await {
                return Some(found);
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(FOUND_LOOK_EVERY).await;
        }
    }

    /// At most so many of the rows that were found and are still not known to be committed; `None` where the volume
    /// does not say.
    pub(super) async fn rows_left(
        &self,
        volume: VolumeId,
        found: &FoundRows,
        limit: usize,
    ) -> Option<Vec<RegisterKey>> {
        let mut left = Vec::new();
        let said = self.walk_unsettled(volume, found.behind.as_ref(), |key, ballot| {
            if found.rows.get(&key) == Some(&ballot) {
                left.push(key);
            }
            left.len() < limit
        });
        said.await.then_some(left)
    }

    /// Whether A volumes vote for any of the rows that are left of what was found, or it is not known what is left.
    async fn can_be_settled(&self, volume: VolumeId, found: &FoundRows) -> bool {
        let Some(left) = self.rows_left(volume, found, usize::MAX).await else { return true };
        // All rows of a volume are its set's: away and sealed volumes are so for the whole bucket.
        let mut hopeless = HashSet::new();
        for key in left {
            if hopeless.contains(&key.bucket) {
                continue;
            }
            let (rows, needed) = (self.rows_of(&key).await, self.cluster.set_of(&key).quorums().accept());
            let votes = rows.held.len() + rows.without.len();
            if votes >= needed {
                return true;
            }
            if votes + rows.rotten.len() < needed {
                hopeless.insert(key.bucket);
            }
        }
        false
    }

    /// The buckets that so many volumes of a set have sealed that too few are left to settle a row. Counts the
    /// volumes of this node only: the seals of others show in their answers.
    fn sealed_in_set(&self, volume: VolumeId) -> HashSet<BucketId> {
        let Some(set) = self.set_with(volume) else { return HashSet::new() };
        let local = set.reach.iter().filter_map(|reach| self.volumes.get(reach.volume)?.serving().ok());
        let mut counts: HashMap<BucketId, usize> = HashMap::new();
        for (bucket, _) in local.flat_map(|serving| serving.reader.seals()) {
            *counts.entry(bucket).or_default() += 1;
        }
        let is_sealed = |sealed: usize| set.reach.len() - sealed < set.quorums().accept();
        counts.into_iter().filter(|(_, sealed)| is_sealed(*sealed)).map(|(bucket, _)| bucket).collect()
    }

    /// Shows the rows behind a key that a volume does not know to be committed, until there are no more or
    /// `show` has seen enough; `false` where the volume does not say.
    async fn walk_unsettled(
        &self,
        volume: VolumeId,
        behind: Option<&RegisterKey>,
        mut show: impl FnMut(RegisterKey, Ballot) -> bool,
    ) -> bool {
        let Some(peer) = self.peer_of(volume) else { return true };
        let mut after = behind.cloned();
        loop {
            let Ok(page) = ask(peer.unsettled(volume, after.as_ref(), PAGE), PATIENCE).await else {
                return false;
            };
            let is_full = page.len() >= PAGE;
            after = page.last().map(|(key, _)| key.clone());
            for (key, ballot) in page {
                if !show(key, ballot) {
                    return true;
                }
            }
            if !is_full {
                return true;
            }
        }
    }

    /// Settles what one volume of this node does not know to be committed.
    pub(super) async fn settle_volume(&self, volume: VolumeId, ahead: &mut RowsAhead) {
        let Some(peer) = self.peer_of(volume) else { return };
        let known = std::mem::take(ahead);
        let mut after: Option<RegisterKey> = None;
        loop {
            let page = peer.unsettled(volume, after.as_ref(), PAGE);
            let Ok(page) = ask(page, PATIENCE).await else { return };
            let full = page.len() >= PAGE;
            after = page.last().map(|(key, _)| key.clone());
            for (key, ballot) in page {
                let age_ms = match self.wall_ms().checked_sub(ballot.time.as_ms()) {
                    Some(age_ms) => age_ms,
                    None => ahead.age_ms(&known, (&key, ballot), self.now_ms()),
                };
                // Its writer has either finished or gone.
                if Duration::from_millis(age_ms) >= self.settings.settle_after {
                    self.settle_row(volume, &*peer, &key, ballot).await;
                }
            }
            if !full {
                return;
            }
        }
    }

    pub(super) async fn settle_row(
        &self,
        volume: VolumeId,
        peer: &dyn Peer,
        key: &RegisterKey,
        ballot: Ballot,
    ) {
        let rows = self.rows_of(key).await;
        if rows.are_same() && rows.held.len() >= self.cluster.set_of(key).quorums().accept() {
            return self.tell_committed(key, &rows);
        }
        // A volume that did not get the row would wait for the scrubber, with one copy less until then.
        if !(rows.without.is_empty() && rows.rotten.is_empty()) && self.heal_row(key).await == Healed::Whole {
            return;
        }
        // A read finishes what it finds; a row that it does not find is below a later one.
        match self.registers.read(key).await {
            Ok(Some(found)) if found.ballot == ballot => {
                peer.commit(volume, &self.cluster.target(key.clone()), ballot, &Positions::default());
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
    pub(super) fn peer_of(&self, volume: VolumeId) -> Option<std::sync::Arc<dyn Peer>> {
        let mut reaches = self.cluster.sets().iter().flat_map(|set| set.reach.iter());
        reaches.find(|reach| reach.volume == volume).map(|reach| std::sync::Arc::clone(&reach.peer))
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::{ObjectKey, ProposerId, Timestamp};

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
