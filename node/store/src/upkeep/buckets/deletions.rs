//! Deletions of buckets that lost their gateway.
//!
//! ```text
//! every 2 s    deleting, and no gateway works on it  -> active, by CAS
//!              seals that they left                 -> `seals`
//! ```
//! A bucket with a seal on A volumes answers no request, so this does not wait for a sweep. Where all volumes
//! are this node's, only this process works on a deletion; elsewhere a deletion counts as left behind once it
//! was seen for 30 s without a write. A row seen here is a hint only: the CAS and a register read decide
//! (`core::register::seal`). Rows are read through once for each opening of a volume, and when a seal or a
//! gateway reports a deletion.
//!
//! Each node looks through its own volumes at their opening, so all are. Of other nodes' volumes, P of each
//! set are read when a gateway of this node reported a deletion, until it has gone: the volumes here may be
//! of other sets than the bucket's register, or may have missed it, and other nodes got no report of it. If
//! no register that is known here names the bucket of a seal, all of them are read. Guards I-15.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;

use sherd_core::id::{Ballot, BucketId, ChangeId, RegisterKey, VolumeId};
use sherd_core::record::{Bucket, BucketPhase, State};

use super::rows::{BucketRow, BucketRows, add_other_nodes, buckets_on};
use super::seals::{held_seals, judge_held_seals};
use crate::register::{ChangeError, Proposal, Writer};
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{BUCKETS_PAUSE_FACTOR, BUCKETS_PAUSE_MAX};
use crate::volumes::LocalVolume;

/// Deletions that were seen under way, each with the highest ballot that showed it and when that was seen
/// first, in monotonic milliseconds: no clock but this node's own says how old one is. A gateway that works
/// on a deletion writes its row again.
#[derive(Debug, Default)]
struct DeletionAges(BTreeMap<ChangeId, (Ballot, u64)>);

impl DeletionAges {
    /// Takes note of the deletions under way now. Gives those that no gateway wrote again for `after_ms`.
    fn left_behind(
        &mut self,
        seen: &BTreeMap<ChangeId, Ballot>,
        now_ms: u64,
        after_ms: u64,
    ) -> BTreeSet<ChangeId> {
        self.0.retain(|deletion, _| seen.contains_key(deletion));
        let is_old = |(deletion, ballot): (&ChangeId, &Ballot)| {
            let known = self.0.entry(*deletion).or_insert((*ballot, now_ms));
            if known.0 < *ballot {
                *known = (*ballot, now_ms);
            }
            (now_ms.saturating_sub(known.1) >= after_ms).then_some(*deletion)
        };
        seen.iter().filter_map(is_old).collect()
    }
}

/// How much longer than usual the pause behind a look that took this long is.
fn more_pause(took: Duration, usual: Duration) -> Duration {
    took.saturating_mul(BUCKETS_PAUSE_FACTOR).min(BUCKETS_PAUSE_MAX).saturating_sub(usual)
}

#[derive(Debug)]
pub(crate) struct DeletionWatcher {
    pub(crate) deps: Deps,
    ages: Mutex<DeletionAges>,
    /// In which opening the buckets of each volume were last looked through.
    looked_through: Mutex<BTreeMap<VolumeId, u32>>,
}

impl DeletionWatcher {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone(), ages: Mutex::default(), looked_through: Mutex::default() }
    }

    fn has_deletions(&self) -> bool {
        !self.ages.lock().0.is_empty()
    }

    fn has_looked_through(&self, volume: &LocalVolume) -> bool {
        self.looked_through.lock().get(&volume.id()) == Some(&volume.opened_count())
    }

    pub(crate) async fn watch_buckets(&self) {
        loop {
            let began_ms = self.deps.now_ms();
            self.look_after_buckets().await;
            let took = Duration::from_millis(self.deps.now_ms().saturating_sub(began_ms));
            tokio::time::sleep(self.deps.settings.buckets_every).await;
            let more = more_pause(took, self.deps.settings.buckets_every);
            // A gateway that a deletion in its way keeps waiting waits for this.
            drop(tokio::time::timeout(more, self.deps.deletions.suspected()).await);
        }
    }

    /// Undoes the deletions that lost their gateway, and judges the seals of this node's volumes.
    pub(crate) async fn look_after_buckets(&self) {
        let held = held_seals(&self.deps);
        let is_suspected = self.deps.deletions.take_suspicion();
        let is_met = is_suspected || self.has_deletions();
        let is_due = is_met || !held.is_empty();
        let mut buckets = BucketRows::default();
        for route in self.deps.cluster.sets().iter().flat_map(|set| &set.routes) {
            let Some(volume) = self.deps.volumes.get(route.volume) else { continue };
            let opening = volume.opened_count();
            if !is_due && self.has_looked_through(volume) {
                continue;
            }
            if buckets_on(&self.deps, route, &mut buckets).await {
                self.looked_through.lock().insert(route.volume, opening);
            } else if is_suspected {
                // The deletion that was reported may be on this one alone.
                self.deps.deletions.keep_suspicion();
            }
        }
        if is_met
            && !add_other_nodes(&self.deps, &mut buckets, |set| set.quorums().prepare()).await
            && is_suspected
        {
            self.deps.deletions.keep_suspicion();
        }
        if held.keys().any(|id| !buckets.by_id.contains_key(id)) {
            add_other_nodes(&self.deps, &mut buckets, |set| set.routes.len()).await;
        }
        self.undo_deletions(&buckets.by_id).await;
        judge_held_seals(&self.deps, &held, &mut buckets).await;
    }

    async fn undo_deletions(&self, buckets: &BTreeMap<BucketId, BucketRow>) {
        let deletions = buckets.iter().filter_map(|(id, row)| match row.phase {
            BucketPhase::Deleting { deletion } => Some((*id, row, deletion)),
            BucketPhase::Active | BucketPhase::Deleted => None,
        });
        // Asked after the rows were read: a deletion that begins is known here before any row names it.
        let foreign: Vec<_> =
            deletions.filter(|(_, _, deletion)| !self.deps.deletions.is_under_way(*deletion)).collect();
        let seen = foreign.iter().map(|(_, row, deletion)| (*deletion, row.ballot)).collect();
        let after = if self.is_alone() { Duration::ZERO } else { self.deps.settings.deletion_after };
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let old = self.ages.lock().left_behind(&seen, self.deps.now_ms(), after_ms);
        for (id, row, deletion) in foreign {
            if old.contains(&deletion) {
                self.undo_deletion(&RegisterKey::bucket(row.name.clone()), id, deletion).await;
            }
        }
    }

    /// Whether no other process is a gateway: all volumes of the cluster are this node's.
    fn is_alone(&self) -> bool {
        let mut routes = self.deps.cluster.sets().iter().flat_map(|set| &set.routes);
        routes.all(|route| self.deps.volumes.get(route.volume).is_some())
    }

    /// Takes a bucket whose deletion lost its gateway back to active. Its seals go after that. A
    /// gateway that is only slow cannot end the deletion any more.
    async fn undo_deletion(&self, key: &RegisterKey, id: BucketId, deletion: ChangeId) {
        let active = move |state: Option<&State>| match state {
            Some(State::Bucket(bucket))
                if bucket.id == id && bucket.phase == BucketPhase::Deleting { deletion } =>
            {
                Ok(Proposal::of(State::Bucket(Bucket { phase: BucketPhase::Active, ..bucket.clone() })))
            }
            _ => Err(()),
        };
        let ticket = self.deps.registers.begin(key);
        match self.deps.registers.change(ticket, Writer::new(active)).await {
            Ok(()) => {
                tracing::info!(?key, "bucket deletion left behind was undone");
            }
            Err(ChangeError::Refused(()) | ChangeError::Sealed(_) | ChangeError::Failed(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{ProposerId, Timestamp};

    #[test]
    fn a_slow_look_is_followed_by_a_longer_pause_but_not_by_a_very_long_one() {
        let [usual, second] = [2, 1].map(Duration::from_secs);
        assert_eq!(more_pause(Duration::from_millis(20), usual), Duration::ZERO);
        assert_eq!(more_pause(Duration::from_millis(100), usual), 8 * second);
        assert_eq!(more_pause(Duration::from_hours(1), usual) + usual, BUCKETS_PAUSE_MAX);
    }

    #[test]
    fn a_deletion_is_left_behind_when_nobody_wrote_it_anew_for_long_enough() {
        let deletion = |n| ChangeId { made: Timestamp::from_ms(n), proposer: ProposerId(1) };
        let at = |n| Ballot { time: Timestamp::from_ms(n), proposer: ProposerId(1) };
        let mut ages = DeletionAges::default();
        let (one, two) = (deletion(1), deletion(2));
        let mut left = |seen: &[(ChangeId, Ballot)], now_ms| {
            let left = ages.left_behind(&seen.iter().copied().collect(), now_ms, 30_000);
            left.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(left(&[(one, at(5))], 1_000), []);
        assert_eq!(left(&[(one, at(5)), (two, at(6))], 20_000), []);
        assert_eq!(left(&[(one, at(5)), (two, at(6))], 31_000), [one]);
        assert_eq!(left(&[(one, at(40)), (two, at(6))], 50_000), [two], "the first was written anew");
        // A volume that is behind shows an older row.
        assert_eq!(left(&[(one, at(5))], 80_000), [one]);
        assert_eq!(left(&[], 82_000), []);
        assert_eq!(left(&[(one, at(5))], 140_000), [], "seen anew");
    }
}
