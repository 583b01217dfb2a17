//! Looks: a volume that votes asks each of its peers for the rows that it may lack, and pulls those. No
//! report is needed for that.
//!
//! ```text
//! V, of this node                              p, a peer
//!   | -- rows behind (V's cursor for p) -----> |
//!   | <-- D, life, horizon; heads of rows ---- |  listed ones, or all in a walk
//!   |  each: passed | pulled | known to be committed by now
//!   |  those not passed: judged again for 10 s, then brought by a write
//!   |  cursor := D, or just below the lowest row that was not passed
//! ```
//! So a volume that was cut off and not opened again finds what it missed, and so do rows that found no place
//! in a peer's list. Cursors are in memory: each opening begins with a walk over the rows of each peer. Walks
//! come after all looks by lists, one at a time a node. Guards I-23.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, stream};
use tokio::time::Instant;

use sherd_core::id::{BucketId, Life, RegisterKey, Sequence, VolumeId};
use sherd_core::limits::LOOK_ROWS_MAX;
use sherd_core::message::{LookPage, LookScan, ShownHead, ValueLimit};
use sherd_core::register::heal::look::{
    PeerCursor, ShownRow, continues_look, cursor_after, is_passed, needs_walk, treat_shown,
};
use sherd_core::register::position::OpeningId;
use sherd_core::register::{Answerer, CommitHint, Positions, RowHead};

use super::bring::heal_row;
use super::look_pace::LookPace;
use super::pull::read_row;
use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::{is_sealed_for_ever_on, take_final_seal, take_final_seals};
use crate::upkeep::limits::{
    FINISH_TIME_MAX, LEFT_ROWS_EVERY, LEFT_ROWS_MAX, LOOK_DUE_EVERY, LOOK_PAGE_PAUSES, PAGE_PATIENCE,
    ROW_COST_BYTES, ROW_PATIENCE, SHOWN_ROWS_AT_ONCE, WALK_AGAIN_MS, WALK_PAUSE_MAX, WALK_REST_FACTOR,
};
use crate::upkeep::pages::ask;

/// Rows of looks since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LookStatus {
    /// Rows of peers whose heads were compared with a volume's own.
    pub rows_count: u64,
    /// Rows that a volume lacked and took from a peer.
    pub pulled_count: u64,
}

/// Looks of this node's volumes at their peers.
#[derive(Debug)]
pub(crate) struct Looker {
    deps: Deps,
    /// Held while all rows of a peer are walked: one walk at a time.
    walks: tokio::sync::Mutex<()>,
    rows_count: AtomicU64,
    pulled_count: AtomicU64,
}

/// How far one volume has the rows of each of its peers.
#[derive(Debug, Default)]
pub(crate) struct VolumeLooks {
    /// The opening that this belongs to, and the life in it.
    since: Option<(u32, Life)>,
    cursors: HashMap<VolumeId, PeerCursor>,
    /// When the next walk over a peer's rows may be.
    walk_due_ms: HashMap<VolumeId, u64>,
}

impl VolumeLooks {
    /// Begins without cursors where another opening began, or another life.
    fn follow(&mut self, since: (u32, Life)) {
        if self.since != Some(since) {
            *self = Self { since: Some(since), ..Self::default() };
        }
    }

    pub(crate) fn cursor(&self, peer: VolumeId) -> Option<PeerCursor> {
        self.cursors.get(&peer).copied()
    }
}

/// A look at one peer, whose pages all came.
#[derive(Debug)]
pub(crate) struct PeerLook {
    peer: VolumeId,
    life: Life,
    /// The peer's durable sequence, read before its rows.
    durable: Sequence,
    /// Rows that are not passed yet.
    left: Vec<ShownHead>,
    /// The lowest sequence of further ones, which the next look shows again.
    lowest_beyond: Option<Sequence>,
}

impl PeerLook {
    fn leave(&mut self, shown: ShownHead) {
        if self.left.len() < LEFT_ROWS_MAX {
            self.left.push(shown);
        } else {
            self.lowest_beyond =
                Some(self.lowest_beyond.map_or(shown.sequence, |lowest| lowest.min(shown.sequence)));
        }
    }

    /// Whether every row that the peer showed was passed.
    pub(crate) fn is_through(&self) -> bool {
        self.left.is_empty() && self.lowest_beyond.is_none()
    }

    /// How far the volume has the peer's rows by this look.
    pub(crate) fn cursor(&self) -> PeerCursor {
        let left = self.left.iter().map(|shown| shown.sequence);
        let lowest = left.chain(self.lowest_beyond).min();
        PeerCursor { life: self.life, sequence: cursor_after(self.durable, lowest) }
    }
}

/// The volume's own row of a key.
enum OwnHead {
    Known(Option<RowHead>),
    /// The bucket is deleted for ever: no row of it is missed.
    Gone,
    /// The volume does not say.
    Unknown,
}

impl Looker {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self {
            deps: deps.clone(),
            walks: tokio::sync::Mutex::default(),
            rows_count: AtomicU64::new(0),
            pulled_count: AtomicU64::new(0),
        }
    }

    pub(crate) fn status(&self) -> LookStatus {
        LookStatus {
            rows_count: self.rows_count.load(Ordering::Relaxed),
            pulled_count: self.pulled_count.load(Ordering::Relaxed),
        }
    }

    /// Lets each volume of this node that votes look at its peers, again and again.
    pub(crate) async fn look_at_peers(&self) {
        let looking = self.deps.volumes.all().iter().map(|volume| self.follow(volume.id()));
        futures::future::join_all(looking).await;
    }

    async fn follow(&self, volume: VolumeId) {
        let (mut looks, mut pace) = (VolumeLooks::default(), LookPace::default());
        loop {
            tokio::time::sleep(LOOK_DUE_EVERY).await;
            let local = self.deps.volumes.get(volume).filter(|local| local.state().votes());
            let (Some(local), Some(set)) = (local, self.deps.set_with(volume)) else {
                pace.does_not_vote();
                continue;
            };
            if pace.is_due(local.opened_count(), self.voting_peers(&set), self.deps.now_ms()) {
                let looked = self.deps.panics.contain("looks", self.look_of(volume, &mut looks)).await;
                let is_through = looked.is_some_and(|through| through + 1 >= set.quorums().prepare());
                pace.looked(is_through, self.deps.now_ms());
            }
        }
    }

    /// The volumes of a set that vote, as this node sees it.
    fn voting_peers(&self, set: &SetView) -> BTreeSet<VolumeId> {
        let local = self.deps.volumes.all().iter().filter(|volume| volume.state().votes());
        let remote = self.deps.cluster.remote().all().into_iter().filter(|volume| volume.report.votes());
        let voting = local.map(|volume| volume.id()).chain(remote.map(|volume| volume.id));
        voting.filter(|volume| set.place_of(*volume).is_some()).collect()
    }

    /// A look of a volume at each of its peers; how many of them it looked through.
    pub(crate) async fn look_of(&self, volume: VolumeId, looks: &mut VolumeLooks) -> usize {
        let Some(local) = self.deps.volumes.get(volume) else { return 0 };
        let (Ok(serving), Some(set)) = (local.serving(), self.deps.set_with(volume)) else { return 0 };
        looks.follow((local.opened_count(), serving.reader.answerer().life));
        let Some(own) = set.routes.iter().find(|route| route.volume == volume) else { return 0 };
        let peers = || set.routes.iter().filter(|route| route.volume != volume);
        let mut ended = Vec::new();
        for peer in peers() {
            if let Some(cursor) = looks.cursor(peer.volume) {
                ended.extend(self.look_at(own, peer, Some(cursor), None).await);
            }
        }
        for peer in peers() {
            let walk_due_ms = looks.walk_due_ms.entry(peer.volume).or_default();
            let is_due = self.deps.now_ms() >= *walk_due_ms;
            if !is_due || ended.iter().any(|look: &PeerLook| look.peer == peer.volume) {
                continue;
            }
            // While another volume of this node walks, this one waits for a later look.
            let Ok(_turn) = self.walks.try_lock() else { break };
            let cursor = looks.cursors.get(&peer.volume).copied();
            ended.extend(self.look_at(own, peer, cursor, Some(walk_due_ms)).await);
        }
        self.follow_left(own, &mut ended).await;
        looks.cursors.extend(ended.iter().map(|look| (look.peer, look.cursor())));
        ended.iter().filter(|look| look.is_through()).count()
    }

    /// Looks at one peer, and pulls what it shows and the volume lacks. `None` where the look is void: the
    /// peer does not answer, does not vote, began another life, or its list lost rows meanwhile; and where it
    /// needs a walk, for which the caller notes no time of the next one.
    pub(crate) async fn look_at(
        &self,
        own: &VolumeRoute,
        peer: &VolumeRoute,
        cursor: Option<PeerCursor>,
        walk_due_ms: Option<&mut u64>,
    ) -> Option<PeerLook> {
        let epoch = self.deps.cluster.epoch();
        let mut scan = LookScan { cursor, epoch, after: None, limit: LOOK_ROWS_MAX };
        let began_ms = self.deps.now_ms();
        let (from, mut page) = self.page(peer, &scan).await?;
        // A volume whose log does not name its opening says nothing of how far it is durable.
        if from.opening == OpeningId::NONE {
            return None;
        }
        let is_walk = needs_walk(cursor, from.life, page.horizon);
        let mut walk_due_ms = walk_due_ms.filter(|_| is_walk);
        match &mut walk_due_ms {
            Some(due_ms) => **due_ms = began_ms + WALK_AGAIN_MS,
            None if is_walk => return None,
            None => {}
        }
        if is_walk {
            // A volume that was away may have missed that buckets are deleted, of which it needs no row.
            take_final_seals(&self.deps, own.volume).await;
        }
        let Answerer { life, durable, .. } = from;
        let mut look = PeerLook { peer: peer.volume, life, durable, left: Vec::new(), lowest_beyond: None };
        loop {
            let began = Instant::now();
            self.take_page(own, peer, page.rows, &mut look).await;
            let Some(next) = page.next else { break };
            if is_walk {
                tokio::time::sleep(began.elapsed().min(WALK_PAUSE_MAX)).await;
            }
            scan.after = Some(next);
            let (from, further) = self.further_page(peer, &scan).await?;
            let goes_on = continues_look(life, &from) && needs_walk(cursor, life, further.horizon) == is_walk;
            if !goes_on {
                return None;
            }
            page = further;
        }
        if let Some(due_ms) = walk_due_ms {
            let took_ms = self.deps.now_ms().saturating_sub(began_ms);
            *due_ms = began_ms + WALK_AGAIN_MS.max(WALK_REST_FACTOR * took_ms);
        }
        Some(look)
    }

    /// A page of a peer that counts; heads of rows cost the throttle nothing.
    async fn page(&self, peer: &VolumeRoute, scan: &LookScan) -> Option<(Answerer, LookPage)> {
        self.deps.throttle.wait_while_paused().await;
        let answer = match ask(peer.peer.rows_behind(peer.volume, scan), PAGE_PATIENCE).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(volume = %peer.volume, %error, "a peer shows no rows");
                return None;
            }
        };
        self.deps.registers.learn(peer.volume, &answer.from);
        if !self.deps.registers.known_lives().counts(peer.volume, &answer.from) {
            return None;
        }
        Some((answer.from, answer.result.ok()?))
    }

    /// A page behind others, which are not asked for again where the peer is busy, or away for a moment.
    async fn further_page(&self, peer: &VolumeRoute, scan: &LookScan) -> Option<(Answerer, LookPage)> {
        for pause in LOOK_PAGE_PAUSES {
            let page = self.page(peer, scan).await;
            if page.is_some() {
                return page;
            }
            tokio::time::sleep(pause).await;
        }
        self.page(peer, scan).await
    }

    async fn take_page(
        &self,
        own: &VolumeRoute,
        peer: &VolumeRoute,
        rows: Vec<ShownHead>,
        look: &mut PeerLook,
    ) {
        self.rows_count.fetch_add(rows.len() as u64, Ordering::Relaxed);
        let taken =
            stream::iter(rows).map(|shown| async move { (self.take(own, peer, &shown).await, shown) });
        let mut taken = taken.buffer_unordered(SHOWN_ROWS_AT_ONCE);
        while let Some((is_passed, shown)) = taken.next().await {
            if !is_passed {
                look.leave(shown);
            }
        }
    }

    /// Whether a row that the peer shows is passed, after what it takes to get it here. A row that the peer
    /// does not know committed is settled first, where it is listed.
    async fn take(&self, own: &VolumeRoute, peer: &VolumeRoute, shown: &ShownHead) -> bool {
        let held = match self.held(own, &shown.key).await {
            OwnHead::Known(held) => held,
            OwnHead::Gone => return true,
            OwnHead::Unknown => return false,
        };
        if is_passed(held.as_ref(), shown.head.ballot) {
            return true;
        }
        match treat_shown(held.as_ref(), &shown.head) {
            ShownRow::Pull if shown.head.committed && !own.peer.is_full(own.volume) => {
                self.pull(own, peer, shown).await;
                self.has_passed(own, shown).await
            }
            ShownRow::LearnCommitted => {
                let (ballot, positions) = (shown.head.ballot, Positions::default());
                let commit = CommitHint { ballot, is_everywhere: false, positions };
                own.peer.commit(own.volume, &self.deps.cluster.target(shown.key.clone()), &commit);
                false
            }
            ShownRow::Pull | ShownRow::Keep => false,
        }
    }

    async fn pull(&self, own: &VolumeRoute, peer: &VolumeRoute, shown: &ShownHead) {
        let Some(row) = read_row(&self.deps, peer, &shown.key, shown.head.ballot).await else { return };
        let bytes = row.value.head.len() + row.value.inline.len();
        self.deps.throttle.take(bytes as u64).await;
        let target = self.deps.cluster.target(shown.key.clone());
        match ask(own.peer.pull(own.volume, &target, &row), ROW_PATIENCE).await.map(|answer| answer.result) {
            Ok(Ok(())) => {
                self.pulled_count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Err(refusal)) => {
                tracing::debug!(key = ?shown.key, volume = %own.volume, %refusal, "a volume does not take a row");
            }
            Err(error) => {
                tracing::debug!(key = ?shown.key, volume = %own.volume, %error, "a volume does not take a row");
            }
        }
    }

    async fn held(&self, own: &VolumeRoute, key: &RegisterKey) -> OwnHead {
        if is_sealed_for_ever_on(&self.deps, own.volume, key.bucket) {
            return OwnHead::Gone;
        }
        let target = self.deps.cluster.target(key.clone());
        let read = ask(own.peer.read(own.volume, &target, ValueLimit::NOTHING), ROW_PATIENCE).await;
        match read.map(|answer| answer.result) {
            Ok(Ok(vote)) => OwnHead::Known(vote.row.map(|row| row.head)),
            // Under a seal that is not final, too: its rows are looked at again when it has gone.
            Ok(Err(_)) | Err(_) => OwnHead::Unknown,
        }
    }

    async fn has_passed(&self, own: &VolumeRoute, shown: &ShownHead) -> bool {
        match self.held(own, &shown.key).await {
            OwnHead::Known(held) => is_passed(held.as_ref(), shown.head.ballot),
            OwnHead::Gone => true,
            OwnHead::Unknown => false,
        }
    }

    /// Rows that were not passed are judged again by the volume's own, which may move on: a write was under
    /// way. Those that are left after a while are brought.
    async fn follow_left(&self, own: &VolumeRoute, looks: &mut [PeerLook]) {
        let (began, patience) = (Instant::now(), self.deps.settings.finish_after);
        while looks.iter().any(|look| !look.left.is_empty()) && began.elapsed() < patience {
            tokio::time::sleep(LEFT_ROWS_EVERY.min(patience)).await;
            self.judge_left(own, looks).await;
        }
        let mut asked = BTreeSet::new();
        let mut left: Vec<_> = looks.iter().flat_map(|look| &look.left).collect();
        // Where some rows take long, others come first in the next look.
        let first = self.deps.now_ms() % (left.len() as u64).max(1);
        left.rotate_left(usize::try_from(first).unwrap_or(0));
        let until = Instant::now() + FINISH_TIME_MAX;
        for shown in left {
            if Instant::now() >= until {
                break;
            }
            self.finish(own, shown, &mut asked).await;
        }
        self.judge_left(own, looks).await;
    }

    async fn judge_left(&self, own: &VolumeRoute, looks: &mut [PeerLook]) {
        for look in looks {
            for shown in std::mem::take(&mut look.left) {
                if !self.has_passed(own, &shown).await {
                    look.left.push(shown);
                }
            }
        }
    }

    /// Brings a row that is not passed to all volumes, by a write where it takes one: that is above the bound
    /// of a volume that refused it. `asked` are buckets whose final seals were asked for.
    async fn finish(&self, own: &VolumeRoute, shown: &ShownHead, asked: &mut BTreeSet<BucketId>) {
        if own.peer.is_full(own.volume) {
            return;
        }
        if asked.insert(shown.key.bucket) {
            take_final_seal(&self.deps, own.volume, shown.key.bucket).await;
        }
        // A row of its own at that ballot or above is settled by its node: it lists the row until then.
        match self.held(own, &shown.key).await {
            OwnHead::Known(held) if held.is_none_or(|held| held.ballot < shown.head.ballot) => {}
            OwnHead::Known(_) | OwnHead::Gone | OwnHead::Unknown => return,
        }
        self.deps.throttle.take(ROW_COST_BYTES).await;
        let outcome = heal_row(&self.deps, &shown.key).await;
        tracing::debug!(key = ?shown.key, volume = %own.volume, ?outcome, "a row that a peer has was not passed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use sherd_core::id::{Ballot, ObjectKey};

    fn shown(sequence: u64) -> ShownHead {
        let key = ObjectKey::new(format!("{sequence}")).expect("a key");
        let head = RowHead { ballot: Ballot::ZERO, digest: [0; 32], committed: true };
        let key = RegisterKey::object(BucketId([1; 16]), key);
        ShownHead { key, head, sequence: Sequence(sequence) }
    }

    #[test]
    fn a_cursor_stays_below_rows_that_found_no_place_among_those_left() {
        let (peer, life, durable) = (VolumeId([2; 16]), Life(3), Sequence(10_000));
        let mut look = PeerLook { peer, life, durable, left: Vec::new(), lowest_beyond: None };
        assert_eq!((look.is_through(), look.cursor().sequence), (true, Sequence(10_000)));
        (0..LEFT_ROWS_MAX as u64).for_each(|n| look.leave(shown(5_000 + n)));
        assert_eq!((look.is_through(), look.cursor().sequence), (false, Sequence(4_999)));
        look.leave(shown(700));
        look.leave(shown(9_000));
        assert_eq!((look.left.len(), look.cursor().sequence), (LEFT_ROWS_MAX, Sequence(699)));
        look.left.clear();
        assert_eq!((look.is_through(), look.cursor().sequence), (false, Sequence(699)));
    }
}
