//! Deletions of buckets that lost their gateway.
//!
//! ```text
//! every 2 s    deleting, and nobody works on it     -> active, by CAS
//!              seals that they left                 -> `seals`
//! ```
//! A bucket with a seal on A volumes answers nobody, so this does not wait for a sweep. Where all volumes
//! are this node's, nobody but this process works on a deletion; elsewhere one counts as left behind that
//! is seen for 30 s and not written anew. What is seen here is a hint only: the CAS and a register read decide
//! (`core::register::seal`). Rows are looked through once for each opening of a volume, and when a seal or
//! a gateway tells of a deletion.
//!
//! Each node looks through its own volumes at their opening, so all are. Of what others hold, P volumes of each set
//! are read where a gateway of this node met a deletion, until it has gone: the volumes here may be of other sets than
//! the bucket's register, or may have missed it, and other nodes were told of nothing. Where seals here are
//! of a bucket that no register names which is known here, all of them are read. Guards I-15.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;

use sherd_core::id::{Ballot, BucketId, ChangeId, ObjectKey, RegisterKey, VolumeId};
use sherd_core::message::{RowScan, ScannedRow};
use sherd_core::record::{Bucket, BucketPhase, State, Value};
use sherd_core::register::quorum::{Order, Reply};

use super::{Context, ask};
use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::register::{ChangeError, Proposal, Writer};
use crate::volumes::LocalVolume;

/// How long a volume may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Rows of one page.
const PAGE: usize = 256;
/// A look at very many buckets is followed by a pause this many times as long.
const PAUSE_FACTOR: u32 = 100;
/// The longest pause: a look may also have waited for a volume that hangs.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A bucket as a volume's row shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketRow {
    pub(super) name: ObjectKey,
    phase: BucketPhase,
    ballot: Ballot,
}

/// What the rows of volumes say of buckets.
#[derive(Debug, Default)]
pub(super) struct BucketRows {
    /// The bucket that each row holds.
    pub(super) by_id: BTreeMap<BucketId, BucketRow>,
    /// The names of all rows, whatever they hold.
    pub(super) names: BTreeSet<ObjectKey>,
    /// The volumes that were read through.
    pub(super) told: Vec<Reply<()>>,
}

impl BucketRows {
    /// The volumes of a set that were read through.
    pub(super) fn told_by(&self, set: &SetView) -> Vec<Reply<()>> {
        self.told.iter().filter(|told| set.place_of(told.volume).is_some()).cloned().collect()
    }

    fn add(&mut self, row: ScannedRow) {
        self.names.insert(row.key.key.clone());
        let ballot = row.row.head.ballot;
        let value = row.row.value.and_then(|head| Value::decode(head).ok());
        if let Some(State::Bucket(Bucket { id, phase, .. })) = value.map(|value| value.state) {
            let found = BucketRow { name: row.key.key, phase, ballot };
            let rank = |row: &BucketRow| (matches!(row.phase, BucketPhase::Deleting { .. }), row.ballot);
            if self.by_id.get(&id).is_none_or(|known| rank(known) < rank(&found)) {
                self.by_id.insert(id, found);
            }
        }
    }
}

/// Deletions that were seen under way, each with the highest ballot that showed it and when that was seen
/// first, in monotonic milliseconds: no clock but this node's own says how old one is. A gateway that works
/// on a deletion writes its row anew.
#[derive(Debug, Default)]
struct DeletionAges(BTreeMap<ChangeId, (Ballot, u64)>);

impl DeletionAges {
    /// Takes note of the deletions under way now. Gives those that nobody wrote anew for `after_ms`.
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

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub(crate) struct BucketWatch {
    ages: Mutex<DeletionAges>,
    /// In which opening the buckets of each volume were last looked through.
    looked_through: Mutex<BTreeMap<VolumeId, u32>>,
}

impl BucketWatch {
    fn knows_deletions(&self) -> bool {
        !self.ages.lock().0.is_empty()
    }

    fn has_looked_through(&self, volume: &LocalVolume) -> bool {
        self.looked_through.lock().get(&volume.id()) == Some(&volume.opened_count())
    }
}

/// How much longer than usual the pause behind a look is that took so long.
fn more_pause(took: Duration, usual: Duration) -> Duration {
    took.saturating_mul(PAUSE_FACTOR).min(PAUSE_MAX).saturating_sub(usual)
}

impl Context {
    /// Looks after buckets until told to stop.
    pub(super) async fn watch_buckets(&self) {
        loop {
            let began_ms = self.now_ms();
            self.look_after_buckets().await;
            let took = Duration::from_millis(self.now_ms().saturating_sub(began_ms));
            tokio::time::sleep(self.settings.buckets_every).await;
            let more = more_pause(took, self.settings.buckets_every);
            // Whoever met a deletion that does not end waits for this.
            drop(tokio::time::timeout(more, self.deletions.suspected()).await);
        }
    }

    /// Undoes the deletions that lost their gateway, and judges the seals of this node's volumes.
    pub(crate) async fn look_after_buckets(&self) {
        let held = self.held_seals();
        let is_suspected = self.deletions.take_suspicion();
        let is_met = is_suspected || self.bucket_watch.knows_deletions();
        let is_due = is_met || !held.is_empty();
        let mut buckets = BucketRows::default();
        for route in self.cluster.sets().iter().flat_map(|set| &set.routes) {
            let Some(volume) = self.volumes.get(route.volume) else { continue };
            let opening = volume.opened_count();
            if !is_due && self.bucket_watch.has_looked_through(volume) {
                continue;
            }
            if self.buckets_on(route, &mut buckets).await {
                self.bucket_watch.looked_through.lock().insert(route.volume, opening);
            } else if is_suspected {
                // What was told of may be on this one alone.
                self.deletions.keep_suspicion();
            }
        }
        if is_met && !self.add_other_nodes(&mut buckets, |set| set.quorums().prepare()).await && is_suspected
        {
            self.deletions.keep_suspicion();
        }
        if held.keys().any(|id| !buckets.by_id.contains_key(id)) {
            self.add_other_nodes(&mut buckets, |set| set.routes.len()).await;
        }
        self.undo_deletions(&buckets.by_id).await;
        self.judge_held_seals(&held, &mut buckets).await;
    }

    /// Adds the buckets that volumes of other nodes know, until as many of each set were read through as are
    /// `wanted`; whether they were. Those that were read before count.
    pub(super) async fn add_other_nodes(
        &self,
        buckets: &mut BucketRows,
        wanted: impl Fn(&SetView) -> usize,
    ) -> bool {
        let mut are_enough = true;
        for set in self.cluster.sets() {
            for route in set.routes.iter().filter(|route| self.volumes.get(route.volume).is_none()) {
                let is_known = buckets.told.iter().any(|told| told.volume == route.volume);
                if !is_known && buckets.told_by(set).len() < wanted(set) {
                    self.buckets_on(route, buckets).await;
                }
            }
            are_enough &= buckets.told_by(set).len() >= wanted(set);
        }
        are_enough
    }

    /// Adds the buckets that a volume knows; `false` where it cannot be read through. A bucket that any
    /// volume knows to be deleting counts as that.
    async fn buckets_on(&self, route: &VolumeRoute, buckets: &mut BucketRows) -> bool {
        let mut after = None;
        let (mut life, mut all_there) = (None, true);
        loop {
            let request = RowScan::all(self.cluster.epoch(), after, PAGE);
            let Ok(answer) = ask(route.registers.rows(route.volume, &request), PATIENCE).await else {
                return false;
            };
            let from = answer.from;
            self.registers.learn(route.volume, &from);
            let Ok(page) = answer.result else { return false };
            // Pages of two lives are no walk through, nor are those of one that still gets its rows.
            all_there &= from.votes && *life.get_or_insert(from.incarnation) == from.incarnation;
            let mut is_last = page.next.is_none();
            for row in page.rows {
                // The system's own namespace comes first.
                if row.key.bucket != BucketId::SYSTEM || row.key.part.is_some() {
                    is_last = true;
                    break;
                }
                buckets.add(row);
            }
            if is_last {
                let order = Order { asked: 0, arrived: 0 };
                let told = Reply { volume: route.volume, from, order, result: Ok(()) };
                buckets.told.extend(all_there.then_some(told));
                return all_there;
            }
            after = page.next;
        }
    }

    async fn undo_deletions(&self, buckets: &BTreeMap<BucketId, BucketRow>) {
        let deletions = buckets.iter().filter_map(|(id, row)| match row.phase {
            BucketPhase::Deleting { deletion } => Some((*id, row, deletion)),
            BucketPhase::Active | BucketPhase::Deleted => None,
        });
        // Asked after the rows were read: a deletion that begins is known here before any row names it.
        let foreign: Vec<_> =
            deletions.filter(|(_, _, deletion)| !self.deletions.is_under_way(*deletion)).collect();
        let seen = foreign.iter().map(|(_, row, deletion)| (*deletion, row.ballot)).collect();
        let after = if self.is_alone() { Duration::ZERO } else { self.settings.deletion_after };
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let old = self.bucket_watch.ages.lock().left_behind(&seen, self.now_ms(), after_ms);
        for (id, row, deletion) in foreign {
            if old.contains(&deletion) {
                self.undo_deletion(&RegisterKey::bucket(row.name.clone()), id, deletion).await;
            }
        }
    }

    /// Whether no other process is a gateway: all volumes of the cluster are this node's.
    fn is_alone(&self) -> bool {
        let mut routes = self.cluster.sets().iter().flat_map(|set| &set.routes);
        routes.all(|route| self.volumes.get(route.volume).is_some())
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
        let ticket = self.registers.begin(key);
        match self.registers.change(ticket, Writer::new(active)).await {
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
        assert_eq!(more_pause(Duration::from_hours(1), usual) + usual, PAUSE_MAX);
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
