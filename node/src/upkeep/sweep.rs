//! What nobody needs any more: orphaned shards, old tombstones, parts of closed uploads.
//!
//! Nothing is deleted on suspicion. A suspect goes only when all N volumes of its set vote, refuse
//! accepts that introduce data as old, and a value committed after that does not name it
//! (`core::register::sweep`); a tombstone only when all N hold it or nothing (`core::register::drop`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;

use sherd_core::id::{Ballot, DataId, RegisterKey, Sequence, ShardId, Timestamp, UploadId};
use sherd_core::limits::TOMBSTONE_AGE_MS;
use sherd_core::record::{Home, State};
use sherd_core::register::Vote;
use sherd_core::register::drop::may_drop;
use sherd_core::register::quorum::{Lives, Order, Reply};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::sweep::{horizon, is_orphan, may_sweep};
use sherd_volume::request::{Answer, Control};

use super::{Context, ask};
use crate::cluster::SetView;
use crate::peer::{Pending, Reach, RowScan};
use crate::register::{Failure, Found, Inline, Proposal};

/// How long a volume may take to make a change durable.
const PATIENCE: Duration = Duration::from_secs(10);
/// Suspects held; what is more is found again by the next pass.
const SUSPECTS_MAX: usize = 10_000;
/// Rows of one page, and tombstones of one batch.
const PAGE: usize = 256;
/// A part this old that belongs to no open upload came after its upload was closed.
const PART_AGE_MS: u64 = 24 * 3600 * 1000;

/// Data that no register seems to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    /// The register that its shards say should name it.
    pub(super) key: RegisterKey,
    /// The data.
    pub(super) data: DataId,
    /// Where its shards live.
    pub(super) home: Home,
}

/// What was swept since the start, for metrics.
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

/// The sweeper's own things.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    suspects: Mutex<BTreeMap<DataId, Suspect>>,
    orphans: AtomicU64,
    tombstones: AtomicU64,
    parts: AtomicU64,
}

impl Swept {
    pub(super) fn suspect(&self, suspect: Suspect) {
        let mut suspects = self.suspects.lock();
        if suspects.len() < SUSPECTS_MAX {
            suspects.insert(suspect.data, suspect);
        }
    }

    pub(super) fn status(&self) -> SweepStatus {
        SweepStatus {
            suspects_len: self.suspects.lock().len(),
            orphans_count: self.orphans.load(Ordering::Relaxed),
            tombstones_count: self.tombstones.load(Ordering::Relaxed),
            parts_count: self.parts.load(Ordering::Relaxed),
        }
    }
}

/// Asks every volume of a set, all at one time. Replies carry the order of a first or a later round.
async fn ask_all<R: Unpin>(
    set: &SetView,
    round: u32,
    question: impl Fn(&Reach) -> Pending<Answer<R>>,
) -> Vec<Reply<R>> {
    let asked = join_all(set.reach.iter().map(|reach| ask(question(reach), PATIENCE))).await;
    let order = Order { asked: round * 64, arrived: round * 64 + 63 };
    set.reach
        .iter()
        .zip(asked)
        .filter_map(|(reach, answer)| answer.ok().map(|answer| (reach.volume, answer)))
        .map(|(volume, Answer { from, result })| Reply { volume, from, order, result })
        .collect()
}

/// What replies say about lives.
fn lives_of<R>(replies: &[Reply<R>]) -> Lives {
    let mut lives = Lives::default();
    for reply in replies {
        lives.learn_from(reply.volume, &reply.from);
    }
    lives
}

impl Context {
    /// Sweeps until it is told to stop; never at once after the start.
    pub(super) async fn sweep_sets(&self) {
        loop {
            tokio::time::sleep(self.settings.sweep_every).await;
            self.sweep().await;
        }
    }

    /// One sweep of every set that has a volume here.
    pub(crate) async fn sweep(&self) {
        for set in self.cluster.sets() {
            let local = set.reach.iter().any(|reach| self.volumes.get(reach.volume).is_some());
            if local && self.all_vote(set).await {
                self.sweep_orphans(set).await;
                self.drop_tombstones(set).await;
            }
        }
    }

    /// Whether every volume of the set is there and votes.
    async fn all_vote(&self, set: &SetView) -> bool {
        let replies = ask_all(set, 0, |reach| reach.peer.guarantees(reach.volume)).await;
        replies.len() == set.reach.len()
            && replies.iter().all(|reply| reply.from.votes && reply.result.is_ok())
    }

    /// Whether data is old enough to be an orphan.
    pub(super) fn is_older_than_orphans(&self, data: DataId) -> bool {
        data.birth < horizon(self.now())
    }

    async fn sweep_orphans(&self, set: &Arc<SetView>) {
        let suspects: Vec<Suspect> = {
            let mut held = self.swept.suspects.lock();
            let of_set = |suspect: &Suspect| self.cluster.set_of(&suspect.key).id == set.id;
            let (ours, others) = std::mem::take(&mut *held).into_iter().partition(|(_, s)| of_set(s));
            *held = others;
            let ours: BTreeMap<DataId, Suspect> = ours;
            ours.into_values().collect()
        };
        if suspects.is_empty() {
            return;
        }
        let horizon = horizon(self.now());
        let raise = Control::RaiseDataFloor { floor: horizon };
        let raised = ask_all(set, 0, |reach| reach.peer.control(reach.volume, raise.clone())).await;
        let lives = lives_of(&raised);
        let floors: Vec<Reply<Timestamp>> = raised.into_iter().map(data_floor).collect();
        if !may_sweep(horizon, &floors, set.quorums(), &lives) {
            return;
        }
        for suspect in suspects {
            self.throttle.take(0).await;
            if self.is_orphan(&suspect, horizon).await {
                self.remove_orphan(set, &suspect).await;
            }
        }
    }

    /// Settles every register that could name the suspect, and judges it by what was committed.
    async fn is_orphan(&self, suspect: &Suspect, horizon: Timestamp) -> bool {
        let Suspect { key, data, .. } = suspect;
        if self.pins.is_held(*data) {
            return false;
        }
        let mut keys = vec![key.clone()];
        if key.part.is_some() {
            keys.push(RegisterKey::object(key.bucket, key.key.clone()));
        }
        let mut named = false;
        for key in &keys {
            // At a fresh ballot: what was sent before and lies on a minority can win no more.
            let found = match self.registers.settle(key).await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(Failure::Sealed) if self.is_gone_for_ever(key) => continue,
                Err(_) => return false,
            };
            let Ok(kept) = self.kept_by(key, &found.value).await else { return false };
            named |= kept.iter().any(|kept| kept.id == *data);
            // A Complete under way may carry a part that was replaced since: what was written for an
            // upload counts as named while the upload is open.
            named |= suspect.key.part.is_some_and(|part| is_open(&found, part.upload));
        }
        is_orphan(*data, horizon, named)
    }

    async fn remove_orphan(&self, set: &SetView, suspect: &Suspect) {
        let Suspect { key, data, home } = suspect;
        let volumes = set.reach.len();
        let deletes = set.reach.iter().enumerate().map(|(place, reach)| {
            let index = sherd_core::placement::shard_at(*data, place, volumes);
            ask(reach.peer.delete_shard(reach.volume, ShardId { data: *data, index }, *home), PATIENCE)
        });
        if join_all(deletes).await.iter().all(Result::is_ok) {
            self.swept.orphans.fetch_add(1, Ordering::Relaxed);
            tracing::info!(?key, %data, "orphaned data removed");
        }
    }

    /// Drops tombstones older than a day that the local volumes of a set hold.
    async fn drop_tombstones(&self, set: &Arc<SetView>) {
        for reach in set.reach.iter().filter(|reach| self.volumes.get(reach.volume).is_some()) {
            let mut after = None;
            loop {
                let request = RowScan {
                    after,
                    since: Sequence(0),
                    until: Sequence::MAX,
                    limit: PAGE,
                    want_value: false,
                };
                let Ok(answer) = ask(reach.peer.rows(reach.volume, &request), PATIENCE).await else { return };
                let Ok(page) = answer.result else { return };
                let before = self.wall_ms().saturating_sub(TOMBSTONE_AGE_MS);
                let old: Vec<(RegisterKey, Ballot)> = page
                    .rows
                    .iter()
                    .filter(|row| row.tombstone && row.row.head.committed)
                    .filter(|row| row.row.head.ballot.time.as_ms() < before)
                    .map(|row| (row.key.clone(), row.row.head.ballot))
                    .collect();
                if !old.is_empty() && !self.drop_batch(set, &old).await {
                    return;
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
    }

    /// Drops a batch of tombstones; `false` when some volume does not answer any more.
    async fn drop_batch(&self, set: &Arc<SetView>, tombstones: &[(RegisterKey, Ballot)]) -> bool {
        let Some(floor) = tombstones.iter().map(|(_, ballot)| *ballot).max() else { return true };
        let raise = Control::RaiseFloor { floor };
        let raised = ask_all(set, 0, |reach| reach.peer.control(reach.volume, raise.clone())).await;
        if raised.len() < set.reach.len() || raised.iter().any(|reply| reply.result.is_err()) {
            return false;
        }
        for (key, ballot) in tombstones {
            self.throttle.take(0).await;
            let target = self.cluster.target(key.clone());
            let votes: Vec<Reply<Vote>> =
                ask_all(set, 1, |reach| reach.peer.read(reach.volume, &target, false)).await;
            let mut lives = lives_of(&raised);
            for vote in &votes {
                lives.learn_from(vote.volume, &vote.from);
            }
            if may_drop(*ballot, &votes, set.quorums(), &lives) {
                let drops = set
                    .reach
                    .iter()
                    .map(|reach| ask(reach.peer.drop_row(reach.volume, key, *ballot), PATIENCE));
                join_all(drops).await;
                self.swept.tombstones.fetch_add(1, Ordering::Relaxed);
            } else if votes.len() == set.reach.len() && is_behind(&votes, *ballot) {
                // An older row stands somewhere, and the floor keeps this tombstone from it: a fresh
                // one replaces it, and is dropped in its turn.
                drop(self.registers.settle(key).await);
            }
        }
        true
    }

    /// Tombstones a part that came after its upload was closed.
    pub(super) async fn close_part(&self, key: &RegisterKey) {
        let Some(part_key) = key.part else { return };
        let Ok(Some(part)) = self.registers.read(key).await else { return };
        let before = self.wall_ms().saturating_sub(PART_AGE_MS);
        if part.ballot.time.as_ms() > before || !matches!(part.value.state, State::Part(_)) {
            return;
        }
        // Read after the part was: an upload that is closed then never opens again.
        let object = RegisterKey::object(key.bucket, key.key.clone());
        let Ok(found) = self.registers.read(&object).await else { return };
        if found.as_ref().is_some_and(|found| is_open(found, part_key.upload)) {
            return;
        }
        // What a Complete made the object's goes when the object does. Only an open upload gives a part
        // to its object, so a later value names no part that this one does not.
        let kept = match &found {
            Some(found) => self.kept_by(&object, &found.value).await,
            None => Ok(Vec::new()),
        };
        let Ok(kept) = kept else { return };
        let gone = |found: Option<&Found>| match found {
            Some(found) if matches!(found.value.state, State::Part(_)) => Ok(tombstone()),
            _ => Err(()),
        };
        let begun = self.registers.begin(key);
        if let Ok(changed) = self.registers.change(begun, &mut None, gone).await {
            self.swept.parts.fetch_add(1, Ordering::Relaxed);
            let mut data = changed.replaced.map(|found| found.value.data_refs()).unwrap_or_default();
            data.retain(|data| !kept.contains(data));
            if !data.is_empty() {
                self.release.add(key.clone(), data, Vec::new(), self.now_ms());
            }
        }
    }
}

fn data_floor(reply: Reply<Guarantees>) -> Reply<Timestamp> {
    let Reply { volume, from, order, result } = reply;
    Reply { volume, from, order, result: result.map(|guarantees| guarantees.data_floor) }
}

/// Whether an upload is open in an object's register.
pub(super) fn is_open(found: &Found, upload: UploadId) -> bool {
    found.object().is_some_and(|object| object.uploads.iter().any(|open| open.id == upload))
}

fn tombstone() -> Proposal {
    Proposal { state: State::Tombstone, inline: Inline::Nothing, carried: Vec::new(), heal: None }
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
    use sherd_core::id::{Incarnation, ProposerId, VolumeId};
    use sherd_core::register::{Answerer, Row, RowHead};

    fn vote(n: u8, time: Option<u64>) -> Reply<Vote> {
        let ballot = |time| Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) };
        let from =
            Answerer { incarnation: Incarnation(1), votes: true, peers: [].into(), durable: Sequence(0) };
        let row = time.map(|time| Row {
            head: RowHead { ballot: ballot(time), digest: [0; 32], committed: true },
            value: None,
        });
        let result = Ok(Vote { row, floor: Ballot::ZERO });
        Reply { volume: VolumeId([n; 16]), from, order: Order::default(), result }
    }

    #[test]
    fn a_tombstone_is_renewed_only_where_an_older_row_stands() {
        let ballot = Ballot { time: Timestamp::from_ms(5), proposer: ProposerId(1) };
        assert!(is_behind(&[vote(1, Some(5)), vote(2, Some(3))], ballot));
        assert!(!is_behind(&[vote(1, Some(5)), vote(2, None)], ballot), "nothing is not behind");
        assert!(!is_behind(&[vote(1, Some(9)), vote(2, Some(3))], ballot), "a newer write goes on by itself");
    }
}
