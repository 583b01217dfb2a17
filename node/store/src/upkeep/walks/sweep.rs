//! Removes what no register needs any more: orphaned shards, old tombstones, parts of closed uploads.
//!
//! Orphans are judged soon after the scrubber found them; until then its durable place stays before them, so
//! that a restart finds them again. Data whose writer went away is a suspect as soon as it is old enough. The
//! walk of a volume's tombstones has a place of its own. Nothing is deleted on suspicion. A suspect goes only
//! when all N volumes of its set vote, refuse accepts that introduce data as old, and a value committed after
//! that does not name it (`core::register::sweep`); a tombstone only when all N hold it or nothing
//! (`core::register::drop`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;

use sherd_core::codec::{Reader, Writer};
use sherd_core::id::{Ballot, RegisterKey, ShardId, Timestamp, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, Control, RowScan, ValueLimit};
use sherd_core::placement;
use sherd_core::record::{Home, put_register_key, take_register_key};
use sherd_core::register::Vote;
use sherd_core::register::drop::{is_old_enough, may_drop};
use sherd_core::register::quorum::{Lives, Order, Reply};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::sweep::{horizon, is_orphan, may_sweep};

use super::suspects::{Suspect, Suspects};
use crate::cluster::SetView;
use crate::peer::{Pending, VolumeRoute};
use crate::register::Failure;
use crate::register::refs::{kept_by, reference};
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_gone_for_ever;
use crate::upkeep::limits::{ABANDONED_AFTER_MS, SWEEP_NOTE_EVERY_MS, SWEEP_PAGE, VOLUME_PATIENCE};
use crate::upkeep::pages::ask;
use crate::upkeep::progress::{ProgressFiles, SweepProgress};
use crate::upkeep::shards::parts::{PartCloser, is_open};

/// The sweeper's figures since the start, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepStatus {
    /// Data ids that wait to be judged.
    pub suspects_len: usize,
    /// Orphaned data ids removed.
    pub orphans_count: u64,
    /// Tombstones dropped.
    pub tombstones_count: u64,
    /// Parts of closed uploads removed.
    pub parts_count: u64,
}

/// Asks every volume of a set, all at one time. Replies carry the order of a first or a later round.
async fn ask_all<R: Unpin>(
    set: &SetView,
    round: u32,
    question: impl Fn(&VolumeRoute) -> Pending<Answer<R>>,
) -> Vec<Reply<R>> {
    let asked = join_all(set.routes.iter().map(|route| ask(question(route), VOLUME_PATIENCE))).await;
    let order = Order { asked: round * 64, arrived: round * 64 + 63 };
    set.routes
        .iter()
        .zip(asked)
        .filter_map(|(route, answer)| answer.ok().map(|answer| (route.volume, answer)))
        .map(|(volume, Answer { from, result })| Reply { volume, from, order, result })
        .collect()
}

fn lives_of<R>(replies: &[Reply<R>]) -> Lives {
    let mut lives = Lives::default();
    for reply in replies {
        lives.learn_from(reply.volume, &reply.from);
    }
    lives
}

/// Whether a volume may still have a shard of a suspect.
async fn is_held(set: &SetView, suspect: &Suspect) -> bool {
    let asked = set.routes.iter().enumerate().map(|(place, route)| {
        let shard = shard_at(set, suspect, place);
        ask(route.peer.shard_bytes(route.volume, shard, suspect.home), VOLUME_PATIENCE)
    });
    join_all(asked).await.iter().any(|found| !matches!(found, Err(message::Error::NotFound)))
}

/// The suspect's shard that belongs on the volume at a place of its set.
fn shard_at(set: &SetView, suspect: &Suspect, place: usize) -> ShardId {
    ShardId { data: suspect.data, index: placement::shard_at(suspect.data, place, set.routes.len()) }
}

/// Removes what no register names: orphaned data, and old tombstones.
#[derive(Debug)]
pub(crate) struct Sweeper {
    deps: Deps,
    progress: Arc<ProgressFiles>,
    suspects: Arc<Suspects>,
    parts: Arc<PartCloser>,
    orphans_count: AtomicU64,
    tombstones_count: AtomicU64,
}

impl Sweeper {
    pub(crate) fn new(
        deps: &Deps,
        progress: &Arc<ProgressFiles>,
        suspects: &Arc<Suspects>,
        parts: &Arc<PartCloser>,
    ) -> Self {
        Self {
            deps: deps.clone(),
            progress: Arc::clone(progress),
            suspects: Arc::clone(suspects),
            parts: Arc::clone(parts),
            orphans_count: AtomicU64::new(0),
            tombstones_count: AtomicU64::new(0),
        }
    }

    pub(crate) fn status(&self) -> SweepStatus {
        SweepStatus {
            suspects_len: self.suspects.len(),
            orphans_count: self.orphans_count.load(Ordering::Relaxed),
            tombstones_count: self.tombstones_count.load(Ordering::Relaxed),
            parts_count: self.parts.closed_count(),
        }
    }

    /// Sweeps until it is stopped; never at once after the start.
    pub(crate) async fn sweep_sets(&self) {
        loop {
            tokio::time::sleep(self.deps.settings.sweep_look_every).await;
            self.sweep().await;
        }
    }

    pub(crate) async fn sweep(&self) {
        self.look_after_abandoned().await;
        for set in self.deps.cluster.sets() {
            let due = self.tombstone_walks_due(set).await;
            if (due.is_empty() && !self.suspects.has_any_of(set)) || !self.all_vote(set).await {
                continue;
            }
            self.sweep_orphans(set).await;
            for route in due {
                if let Err(reason) = self.drop_tombstones(set, route).await {
                    tracing::debug!(volume = %route.volume, reason, "a sweep of tombstones goes on later");
                }
            }
        }
    }

    /// Data whose writers went away is suspect once it is old. Data that was named in the end, or removed by
    /// its writer, is forgotten long before.
    async fn look_after_abandoned(&self) {
        let done_by_now = self.deps.now().minus_ms(ABANDONED_AFTER_MS);
        for volume in self.deps.volumes.all() {
            let abandoned = volume.abandoned();
            for (data, key) in abandoned.unseen_before(done_by_now) {
                self.deps.throttle.take(0).await;
                let is_named = matches!(
                    reference(&self.deps.registers, &self.deps.stripes, &key, data).await,
                    Ok(Some(_))
                );
                let suspect = Suspect { key, data, home: Home::File };
                let set = self.deps.cluster.set_of(&suspect.key);
                abandoned.seen(data, !is_named && is_held(&set, &suspect).await);
            }
            for (data, key) in abandoned.take_older(horizon(self.deps.now())) {
                if !matches!(
                    reference(&self.deps.registers, &self.deps.stripes, &key, data).await,
                    Ok(Some(_))
                ) {
                    self.suspects.add(Suspect { key, data, home: Home::File });
                }
            }
        }
    }

    /// Volumes of this node whose tombstones were not walked for long, or not to the end.
    async fn tombstone_walks_due<'a>(&self, set: &'a SetView) -> Vec<&'a VolumeRoute> {
        let mut due = Vec::new();
        for route in set.routes.iter().filter(|route| self.deps.volumes.get(route.volume).is_some()) {
            if let Ok(progress) = self.progress.read(route.volume).await
                && is_walk_due(progress.sweep.as_ref(), self.deps.wall_ms(), self.deps.settings.sweep_every)
            {
                due.push(route);
            }
        }
        due
    }

    /// Whether every volume of the set is there and votes.
    async fn all_vote(&self, set: &SetView) -> bool {
        let replies = ask_all(set, 0, |route| route.peer.guarantees(route.volume)).await;
        replies.len() == set.routes.len()
            && replies.iter().all(|reply| reply.from.votes && reply.result.is_ok())
    }

    async fn sweep_orphans(&self, set: &Arc<SetView>) {
        let suspects = self.suspects.of(set);
        if suspects.is_empty() {
            return;
        }
        let horizon = horizon(self.deps.now());
        let raise = Control::RaiseDataFloor { floor: horizon };
        let raised = ask_all(set, 0, |route| route.peer.control(route.volume, raise.clone())).await;
        let lives = lives_of(&raised);
        let floors: Vec<Reply<Timestamp>> = raised.into_iter().map(data_floor).collect();
        for floor in floors.iter().filter_map(|reply| reply.result.as_ref().ok()) {
            self.deps.registers.note_data_floor(*floor);
        }
        if !may_sweep(horizon, &floors, set.quorums(), &lives) {
            return;
        }
        for (suspect, looks) in suspects {
            self.deps.throttle.take(0).await;
            let is_settled = self.judge_suspect(set, &suspect, looks, horizon).await;
            self.suspects.judged(suspect.data, is_settled);
        }
    }

    /// Judges a suspect on its `looks`-th pass; `true` when it needs no further look. Each node that has a
    /// shard of it finds it, and one judgement is enough: the next node judges it where the shards are still
    /// there a look later.
    async fn judge_suspect(&self, set: &SetView, suspect: &Suspect, looks: u32, horizon: Timestamp) -> bool {
        if looks < self.deps.turns_before(&suspect.key) {
            return false;
        }
        if !is_held(set, suspect).await {
            return true;
        }
        match self.is_orphan(suspect, horizon).await {
            Some(true) => self.remove_orphan(set, suspect).await,
            Some(false) => true,
            None => false,
        }
    }

    /// Settles every register that could name the suspect, and judges it by what was committed;
    /// `None` where that is not known now.
    async fn is_orphan(&self, suspect: &Suspect, horizon: Timestamp) -> Option<bool> {
        let Suspect { key, data, .. } = suspect;
        if self.deps.pins.is_held(*data) {
            return None;
        }
        let mut keys = vec![key.clone()];
        if key.part.is_some() {
            keys.push(RegisterKey::object(key.bucket, key.key.clone()));
        }
        let mut named = false;
        for key in &keys {
            // At a fresh ballot: what was sent before and lies on a minority can win no more.
            let found = match self.deps.registers.finish(key).await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(Failure::Sealed) if is_gone_for_ever(&self.deps, key) => continue,
                Err(_) => return None,
            };
            let kept = kept_by(&self.deps.stripes, key, &found.value).await.ok()?;
            named |= kept.iter().any(|kept| kept.id == *data);
            // A Complete under way may carry a part that was replaced since: what was written for an
            // upload counts as named while the upload is open.
            named |= suspect.key.part.is_some_and(|part| is_open(&found, part.upload));
        }
        Some(is_orphan(*data, horizon, named))
    }

    /// Removes every shard of an orphan; `false` when some volume did not, or a reader still holds it.
    async fn remove_orphan(&self, set: &SetView, suspect: &Suspect) -> bool {
        let Suspect { key, data, home } = suspect;
        let deletes = set.routes.iter().enumerate().map(|(place, route)| {
            let shard = shard_at(set, suspect, place);
            ask(route.peer.release_shard(route.volume, shard, *home), VOLUME_PATIENCE)
        });
        let is_removed = join_all(deletes).await.iter().all(|removed| *removed == Ok(true));
        if is_removed {
            self.orphans_count.fetch_add(1, Ordering::Relaxed);
            tracing::info!(?key, %data, "orphaned data removed");
        }
        is_removed
    }

    /// Drops the old tombstones that a volume of this node holds, from where the last walk was cut short.
    async fn drop_tombstones(&self, set: &Arc<SetView>, route: &VolumeRoute) -> Result<(), String> {
        let remembered = self.progress.read(route.volume).await?.sweep.filter(|sweep| sweep.place.is_some());
        let began_ms = remembered.as_ref().map_or_else(|| self.deps.wall_ms(), |sweep| sweep.began_ms);
        let mut after = remembered.and_then(|sweep| sweep.place).and_then(|place| decode_place(&place));
        let mut noted_ms = self.deps.now_ms();
        while let Some(next) = self.drop_page(set, route, after).await? {
            if self.deps.now_ms().saturating_sub(noted_ms) >= SWEEP_NOTE_EVERY_MS {
                noted_ms = self.deps.now_ms();
                self.note_sweep(route.volume, began_ms, Some(encode_place(&next))).await?;
            }
            after = Some(next);
        }
        self.note_sweep(route.volume, began_ms, None).await
    }

    async fn note_sweep(&self, volume: VolumeId, began_ms: u64, place: Option<String>) -> Result<(), String> {
        let sweep = SweepProgress { began_ms, place };
        self.progress.change(volume, |progress| progress.sweep = Some(sweep)).await
    }

    /// Drops the old tombstones of one page. Gives where the walk goes on.
    async fn drop_page(
        &self,
        set: &Arc<SetView>,
        route: &VolumeRoute,
        after: Option<RegisterKey>,
    ) -> Result<Option<RegisterKey>, String> {
        let request =
            RowScan { want_value: false, ..RowScan::all(self.deps.cluster.epoch(), after, SWEEP_PAGE) };
        let answer = ask(route.peer.rows(route.volume, &request), VOLUME_PATIENCE).await;
        let page = answer.map_err(|error| error.to_string())?.result.map_err(|error| error.to_string())?;
        let old: Vec<(RegisterKey, Ballot)> = page
            .rows
            .iter()
            .filter(|row| row.tombstone && row.row.head.committed)
            .filter(|row| is_old_enough(row.row.head.ballot, self.deps.now()))
            .map(|row| (row.key.clone(), row.row.head.ballot))
            .collect();
        if !old.is_empty() && !self.drop_batch(set, &old).await {
            return Err("a volume of the set does not answer".to_owned());
        }
        Ok(page.next)
    }

    /// Drops a batch of tombstones; `false` when some volume does not answer any more.
    async fn drop_batch(&self, set: &Arc<SetView>, tombstones: &[(RegisterKey, Ballot)]) -> bool {
        let Some(floor) = tombstones.iter().map(|(_, ballot)| *ballot).max() else { return true };
        let raise = Control::RaiseFloor { floor };
        let raised = ask_all(set, 0, |route| route.peer.control(route.volume, raise.clone())).await;
        if raised.len() < set.routes.len() || raised.iter().any(|reply| reply.result.is_err()) {
            return false;
        }
        for (key, ballot) in tombstones {
            self.deps.throttle.take(0).await;
            let target = self.deps.cluster.target(key.clone());
            let votes: Vec<Reply<Vote>> =
                ask_all(set, 1, |route| route.peer.read(route.volume, &target, ValueLimit::NOTHING)).await;
            let mut lives = lives_of(&raised);
            for vote in &votes {
                lives.learn_from(vote.volume, &vote.from);
            }
            if may_drop(*ballot, &votes, set.quorums(), &lives) {
                let target = self.deps.cluster.target(key.clone());
                let drops = set
                    .routes
                    .iter()
                    .map(|route| ask(route.peer.drop_row(route.volume, &target, *ballot), VOLUME_PATIENCE));
                join_all(drops).await;
                self.tombstones_count.fetch_add(1, Ordering::Relaxed);
            } else if votes.len() == set.routes.len() && is_behind(&votes, *ballot) {
                // An older row stands somewhere, and the floor keeps this tombstone from it: a fresh
                // one replaces it, and is dropped in its turn.
                drop(self.deps.registers.finish(key).await);
            }
        }
        true
    }
}

fn data_floor(reply: Reply<Guarantees>) -> Reply<Timestamp> {
    let Reply { volume, from, order, result } = reply;
    Reply { volume, from, order, result: result.map(|guarantees| guarantees.data_floor) }
}

fn is_walk_due(last: Option<&SweepProgress>, now_ms: u64, every: Duration) -> bool {
    let Some(SweepProgress { began_ms, place }) = last else { return true };
    // A later beginning was noted by a clock that was ahead.
    let passed = now_ms.checked_sub(*began_ms).map(Duration::from_millis);
    place.is_some() || passed.is_none_or(|passed| passed >= every)
}

/// The stored form of a walk's place: a register key, as hex.
pub(crate) fn encode_place(after: &RegisterKey) -> String {
    let mut writer = Writer::new();
    put_register_key(&mut writer, after);
    hex::encode(writer.finish())
}

/// From the stored form; the beginning for anything else.
fn decode_place(stored: &str) -> Option<RegisterKey> {
    take_register_key(&mut Reader::new(hex::decode(stored).ok()?.into())).ok()
}

/// Whether some volume holds an older row than the tombstone at `ballot`, and none a newer one.
fn is_behind(votes: &[Reply<Vote>], ballot: Ballot) -> bool {
    let ballots = || {
        let held = votes.iter().filter_map(|reply| reply.result.as_ref().ok()?.row.as_ref());
        held.map(|row| row.head.ballot)
    };
    ballots().any(|held| held < ballot) && ballots().all(|held| held <= ballot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{Life, ProposerId, Sequence, VolumeId};
    use sherd_core::register::position::OpeningId;
    use sherd_core::register::{Answerer, Row, RowHead};

    fn vote(n: u8, time: Option<u64>) -> Reply<Vote> {
        let ballot = |time| Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) };
        let from = Answerer {
            life: Life(1),
            votes: true,
            peers: [].into(),
            opening: OpeningId::NONE,
            durable: Sequence(0),
        };
        let row = time.map(|time| Row {
            head: RowHead { ballot: ballot(time), digest: [0; 32], committed: true },
            value_bytes: 1,
            value: None,
        });
        let result = Ok(Vote { row, floor: Ballot::ZERO });
        Reply { volume: VolumeId([n; 16]), from, order: Order::default(), result }
    }

    #[test]
    fn a_walk_is_due_after_its_period_or_when_it_was_cut_short() {
        let every = Duration::from_secs(10);
        let due = |last: Option<(u64, Option<&str>)>, now_ms| {
            let last = last.map(|(began_ms, place)| {
                let place = place.map(str::to_owned);
                SweepProgress { began_ms, place }
            });
            is_walk_due(last.as_ref(), now_ms, every)
        };
        assert!(due(None, 5));
        assert!(!due(Some((1_000, None)), 10_999));
        assert!(due(Some((1_000, None)), 11_000));
        assert!(due(Some((1_000, Some("ab"))), 1_001));
        assert!(due(Some((5_000, None)), 4_999), "a clock was set back");
    }

    #[test]
    fn the_place_of_a_walk_comes_back() {
        let name = sherd_core::id::ObjectKey::new("k").expect("a key");
        let key = RegisterKey::object(sherd_core::id::BucketId([1; 16]), name);
        assert_eq!(encode_place(&key), format!("{}010000006b00", "01".repeat(16)));
        assert_eq!(decode_place(&encode_place(&key)), Some(key));
        assert_eq!(decode_place("nonsense"), None);
    }

    #[test]
    fn a_tombstone_is_renewed_only_where_an_older_row_stands() {
        let ballot = Ballot { time: Timestamp::from_ms(5), proposer: ProposerId(1) };
        assert!(is_behind(&[vote(1, Some(5)), vote(2, Some(3))], ballot));
        assert!(!is_behind(&[vote(1, Some(5)), vote(2, None)], ballot), "nothing is not behind");
        assert!(!is_behind(&[vote(1, Some(9)), vote(2, Some(3))], ballot), "a newer write goes on by itself");
    }
}
