//! Superseded data: gone after its grace and its last reader's pin.
//!
//! ```text
//! a commit without it --> report --> note in two logs, and here --> grace --> read --> deleted, note too
//!                                       a start, or room here ------^
//!                                       overdue in a log of this node: its gateway is gone
//! ```
//! The writer that replaced a value reports what the new, committed one no longer names: that is proof enough
//! (`core::register::release`), and is looked at once more here. The logs are the truth: a start reads the
//! notes again, and so is read again what did not fit into memory. Data that is lost of it (what no volume
//! noted, a volume that stays away) is an orphan, which the sweeper finds. Guards I-8.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use futures::future::join_all;
use parking_lot::Mutex;
use smallvec::SmallVec;

use sherd_core::id::{RegisterKey, ShardId, VolumeId};
use sherd_core::limits::{RELEASE_GRACE_MS_MIN, RELEASES_MAX};
use sherd_core::placement;
use sherd_core::record::DataRef;
use sherd_core::register::release::grace_left_ms;
use sherd_core::release::{ReleaseEntry, ReleaseId, ReplacedData};

use crate::peer::VolumeRoute;
use crate::register::Failure;
use crate::register::refs::{RefsError, listed_on, reference};
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_gone_for_ever;
use crate::upkeep::limits::{
    LOG_PAGE, OVERDUE_AFTER_MS, OVERDUE_LOOK_MS, PAGE_PATIENCE, RELEASE_AGAIN_MS, RELEASE_AGAIN_MS_MAX,
    RELEASE_LOOK_EVERY, RELEASE_NOTED_ON, RELEASE_TRIES_MAX, RELEASES_AT_ONCE, VOLUME_PATIENCE,
};
use crate::upkeep::pages::ask;
use crate::upkeep::shards::parts::is_open;

/// Volumes that noted an entry.
type NoteHolders = SmallVec<[VolumeId; RELEASE_NOTED_ON]>;

#[derive(Debug, Clone)]
struct WaitingRelease {
    /// The part of it that is left.
    entry: ReleaseEntry,
    holders: NoteHolders,
    /// Where it was read from the log of this volume: another node may release it first, and takes the note
    /// away then.
    read_from: Option<VolumeId>,
    tries: u32,
}

/// The entries that wait to be released, in memory. Time is handed in, in monotonic milliseconds.
#[derive(Debug)]
struct ReleaseQueue {
    /// In the order in which they become due.
    waiting: BTreeMap<(u64, ReleaseId), WaitingRelease>,
    /// The entries that wait, with when each is due, and those in hand.
    held: HashMap<ReleaseId, u64>,
    capacity: usize,
    overflowed: bool,
}

impl ReleaseQueue {
    fn new(capacity: usize) -> Self {
        Self { waiting: BTreeMap::new(), held: HashMap::new(), capacity, overflowed: false }
    }

    /// Takes an entry in, or only another volume that noted it; `false` when it is full.
    fn add(&mut self, id: ReleaseId, release: WaitingRelease, due_ms: u64) -> bool {
        if let Some(due_ms) = self.held.get(&id) {
            if let Some(known) = self.waiting.get_mut(&(*due_ms, id)) {
                let is_news = |volume: &VolumeId| !known.holders.contains(volume);
                let news: NoteHolders = release.holders.into_iter().filter(is_news).collect();
                known.holders.extend(news);
            }
            return true;
        }
        if self.held.len() >= self.capacity {
            self.overflowed = true;
            return false;
        }
        self.held.insert(id, due_ms);
        self.waiting.insert((due_ms, id), release);
        true
    }

    /// Whether what was only read from logs may come in: half of the room is for what this node's requests
    /// replace.
    fn has_room_for_notes(&self) -> bool {
        self.held.len() < self.capacity / 2
    }

    /// Hands out what is due, at most [`RELEASES_AT_ONCE`] entries.
    fn due(&mut self, now_ms: u64) -> Vec<(ReleaseId, WaitingRelease)> {
        let mut due = Vec::new();
        while due.len() < RELEASES_AT_ONCE
            && let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now_ms
        {
            let ((_, id), release) = first.remove_entry();
            due.push((id, release));
        }
        due
    }

    /// An entry that was handed out is done with.
    fn done(&mut self, id: ReleaseId) {
        self.held.remove(&id);
    }

    /// An entry that was handed out comes again.
    fn again(&mut self, id: ReleaseId, release: WaitingRelease, due_ms: u64) {
        self.held.insert(id, due_ms);
        self.waiting.insert((due_ms, id), release);
    }

    /// Whether entries were turned away since this last said so, and there is room by now.
    fn may_reload(&mut self) -> bool {
        let reload = self.overflowed && self.held.len() < self.capacity / 2;
        self.overflowed &= !reload;
        reload
    }
}

#[derive(Debug)]
pub(crate) struct Releaser {
    deps: Deps,
    queue: Mutex<ReleaseQueue>,
    /// How often each volume of this node was opened when its notes were read.
    read_at: Mutex<HashMap<VolumeId, u32>>,
    /// When overdue notes are looked for next, in monotonic milliseconds.
    overdue_look_ms: AtomicU64,
    released_count: AtomicU64,
    dropped_count: AtomicU64,
}

/// Superseded data on its way out, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReleaseStatus {
    /// Entries that wait in memory.
    pub len: usize,
    /// Data ids released since the start.
    pub released_count: u64,
    /// Reports that no volume noted and memory had no room for, which are left to the sweeper.
    pub dropped_count: u64,
}

/// The outcome for data that was to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseOutcome {
    /// Deleted, or owned by an object that goes later: nothing is left to do.
    Done,
    /// A committed value names it: it stays.
    Named,
    /// A reader here or on another node holds it, or an upload that is open may: it is tried again for as
    /// long as that lasts.
    InUse,
    /// Undecided, or a volume does not answer: tried again later.
    Later,
}

impl Releaser {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self {
            deps: deps.clone(),
            queue: Mutex::new(ReleaseQueue::new(RELEASES_MAX)),
            read_at: Mutex::default(),
            overdue_look_ms: AtomicU64::new(0),
            released_count: AtomicU64::new(0),
            dropped_count: AtomicU64::new(0),
        }
    }

    pub(crate) fn status(&self) -> ReleaseStatus {
        ReleaseStatus {
            len: self.queue.lock().waiting.len(),
            released_count: self.released_count.load(Ordering::Relaxed),
            dropped_count: self.dropped_count.load(Ordering::Relaxed),
        }
    }

    /// Notes what a committed value of `key` no longer names, and queues it; `pages` says which of it
    /// are manifest pages.
    pub(crate) fn queue_release(&self, key: &RegisterKey, data: &[DataRef], pages: &[DataRef]) {
        let replaced = |data: &DataRef| ReplacedData { data: *data, is_page: pages.contains(data) };
        let replaced: Vec<ReplacedData> = data.iter().map(replaced).collect();
        let wall_ms = self.deps.wall_ms();
        let due_ms = self.deps.now_ms().saturating_add(self.deps.tuning.grace_ms_of(wall_ms));
        for entry in ReleaseEntry::of(key, &replaced, wall_ms) {
            let id = entry.id();
            let holders = self.note_release(&entry, id);
            let is_noted = !holders.is_empty();
            let release = WaitingRelease { entry, holders, read_from: None, tries: 0 };
            if !self.queue.lock().add(id, release, due_ms) && !is_noted {
                self.dropped_count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Notes an entry in the logs of volumes that serve: each time of the same ones first, spread by its id.
    fn note_release(&self, entry: &ReleaseEntry, id: ReleaseId) -> NoteHolders {
        let set = self.deps.cluster.set_of(&entry.key);
        let [.., spread] = id.0;
        let start = usize::from(spread) % set.routes.len();
        let serves = |route: &&VolumeRoute| {
            self.deps.volumes.get(route.volume).is_none_or(|local| local.state().votes())
        };
        let (before, from) = set.routes.split_at(start);
        let chosen = from.iter().chain(before).filter(serves).take(RELEASE_NOTED_ON);
        let note = |route: &VolumeRoute| {
            route.peer.release_put(route.volume, entry);
            route.volume
        };
        chosen.map(note).collect()
    }

    pub(crate) async fn release_data(&self) {
        loop {
            self.read_notes().await;
            self.read_overdue_notes().await;
            if !self.release_what_is_due().await {
                tokio::time::sleep(RELEASE_LOOK_EVERY).await;
            }
        }
    }

    /// Releases some of what is due; `false` when nothing is.
    pub(crate) async fn release_what_is_due(&self) -> bool {
        let due = self.queue.lock().due(self.deps.now_ms());
        if due.is_empty() {
            return false;
        }
        self.deps.throttle.take(0).await;
        let releasing = due.into_iter().map(|(id, release)| self.release_one(id, release));
        futures::stream::iter(releasing).buffer_unordered(RELEASES_AT_ONCE).for_each(|()| async {}).await;
        true
    }

    /// Reads the notes of this node's volumes, when one of them was opened, or when entries did not fit
    /// into memory and others have left it.
    pub(crate) async fn read_notes(&self) {
        let voting = || self.deps.volumes.all().iter().filter(|volume| volume.state().votes());
        let opened: HashMap<VolumeId, u32> =
            voting().map(|volume| (volume.id(), volume.opened_count())).collect();
        // A volume that comes back can remove what the others could not: all notes are looked at.
        let is_news = {
            let known = self.read_at.lock();
            opened.iter().any(|(volume, count)| known.get(volume) != Some(count))
        };
        if !is_news && !self.queue.lock().may_reload() {
            return;
        }
        let mut are_read = true;
        for volume in opened.keys() {
            are_read &= self.read_notes_of(*volume, u64::MAX).await;
        }
        if are_read {
            *self.read_at.lock() = opened;
        }
    }

    /// Reads overdue notes of replaced data from the logs of this node's volumes, of every gateway: the one
    /// that replaced it may be gone, or have dropped the entry.
    pub(crate) async fn read_overdue_notes(&self) {
        let now_ms = self.deps.now_ms();
        if now_ms < self.overdue_look_ms.load(Ordering::Relaxed) {
            return;
        }
        self.overdue_look_ms.store(now_ms.saturating_add(OVERDUE_LOOK_MS), Ordering::Relaxed);
        // A note that is read waits for the shortest grace in any case.
        let wall_ms = self.deps.wall_ms();
        let grace_ms = self.deps.tuning.longest_grace_ms(wall_ms);
        let age_ms = grace_ms.saturating_sub(RELEASE_GRACE_MS_MIN).saturating_add(OVERDUE_AFTER_MS);
        let Some(until_ms) = wall_ms.checked_sub(age_ms) else { return };
        for volume in self.deps.volumes.all().iter().filter(|volume| volume.state().votes()) {
            if !self.queue.lock().has_room_for_notes() {
                return;
            }
            self.read_notes_of(volume.id(), until_ms).await;
        }
    }

    /// Reads a volume's notes of what was replaced until then, as far as there is room; `false` when it does
    /// not answer.
    async fn read_notes_of(&self, volume: VolumeId, until_ms: u64) -> bool {
        let Some(route) = self.deps.route_to(volume) else { return true };
        let mut after = None;
        loop {
            let Ok(page) = ask(route.peer.releases(volume, after, LOG_PAGE), PAGE_PATIENCE).await else {
                return false;
            };
            let is_last = page.len() < LOG_PAGE;
            after = page.last().map(|(id, _)| *id);
            for (id, stored) in page {
                let entry = match ReleaseEntry::decode(stored) {
                    Ok(entry) => entry,
                    Err(error) => {
                        tracing::warn!(?error, "a note of replaced data does not decode and is dropped");
                        route.peer.release_done(volume, id);
                        continue;
                    }
                };
                // Entries come in the order of their times.
                if entry.since_ms > until_ms {
                    return true;
                }
                let grace_ms = self.deps.tuning.grace_ms_of(entry.since_ms);
                let left_ms = grace_left_ms(entry.since_ms, self.deps.wall_ms(), grace_ms);
                let holders = std::iter::once(volume).collect();
                let release = WaitingRelease { entry, holders, read_from: Some(volume), tries: 0 };
                let mut queue = self.queue.lock();
                if !queue.add(id, release, self.deps.now_ms().saturating_add(left_ms)) {
                    return true;
                }
            }
            if is_last {
                return true;
            }
        }
    }

    /// Whether the note that an entry was read from is still there.
    async fn is_still_noted(&self, id: ReleaseId, release: &WaitingRelease) -> bool {
        let Some(volume) = release.read_from else { return true };
        let Some(route) = self.deps.route_to(volume) else { return true };
        let before = u128::from_be_bytes(id.0).checked_sub(1).map(|before| ReleaseId(before.to_be_bytes()));
        match ask(route.peer.releases(volume, before, 1), PAGE_PATIENCE).await {
            Ok(found) => found.first().is_some_and(|(found, _)| *found == id),
            // A second release does no harm.
            Err(_) => true,
        }
    }

    async fn release_one(&self, id: ReleaseId, mut release: WaitingRelease) {
        let key = release.entry.key.clone();
        let work = async {
            if !self.is_still_noted(id, &release).await {
                return ReleaseOutcome::Done;
            }
            if self.may_be_carried(&key).await {
                return ReleaseOutcome::InUse;
            }
            self.release_entry(&mut release.entry).await
        };
        match self.deps.panics.contain("release", work).await {
            Some(ReleaseOutcome::Done | ReleaseOutcome::Named) => {
                self.queue.lock().done(id);
                let set = self.deps.cluster.set_of(&key);
                for route in set.routes.iter().filter(|route| release.holders.contains(&route.volume)) {
                    route.peer.release_done(route.volume, id);
                }
                return;
            }
            Some(ReleaseOutcome::InUse) => {}
            Some(ReleaseOutcome::Later) | None => release.tries += 1,
        }
        if release.tries >= RELEASE_TRIES_MAX {
            return self.queue.lock().done(id);
        }
        let pause_ms = (RELEASE_AGAIN_MS << release.tries.saturating_sub(1)).min(RELEASE_AGAIN_MS_MAX);
        self.queue.lock().again(id, release, self.deps.now_ms().saturating_add(pause_ms));
    }

    /// Releases what can be released of an entry, and leaves the rest in it: [`ReleaseOutcome::Done`] where
    /// nothing is left.
    async fn release_entry(&self, entry: &mut ReleaseEntry) -> ReleaseOutcome {
        let (mut kept, mut outcome) = (HashSet::new(), ReleaseOutcome::Done);
        for ReplacedData { data, is_page } in &entry.data {
            match self.release_data_id(&entry.key, *data, *is_page).await {
                ReleaseOutcome::Done | ReleaseOutcome::Named => {}
                why @ (ReleaseOutcome::InUse | ReleaseOutcome::Later) => {
                    kept.insert(data.id);
                    if outcome != ReleaseOutcome::Later {
                        outcome = why;
                    }
                }
            }
        }
        entry.data.retain(|replaced| kept.contains(&replaced.data.id));
        outcome
    }

    /// Whether a Complete under way may carry what a part's register does not name any more: while the
    /// upload is open. Where that is not known, too.
    pub(crate) async fn may_be_carried(&self, key: &RegisterKey) -> bool {
        let Some(part) = key.part else { return false };
        let object = RegisterKey::object(key.bucket, key.key.clone());
        match self.deps.registers.read(&object).await {
            Ok(found) => found.is_some_and(|found| is_open(&found, part.upload)),
            // No Complete comes to an end in a bucket that is gone; a deletion under way may be undone.
            Err(Failure::Sealed) => !is_gone_for_ever(&self.deps, &object),
            Err(_) => true,
        }
    }

    /// Releases one data id, and for a page first what it lists.
    pub(crate) async fn release_data_id(
        &self,
        key: &RegisterKey,
        data: DataRef,
        is_page: bool,
    ) -> ReleaseOutcome {
        if key.part.is_some() && self.is_carried(key, data).await {
            return ReleaseOutcome::Done;
        }
        let judged = match self.judge_release(key, data).await {
            ReleaseOutcome::Done if is_page => self.release_listed(key, data).await,
            judged => judged,
        };
        if judged == ReleaseOutcome::Done { self.delete_data(data).await } else { judged }
    }

    /// Releases what a page lists, unless it is named: [`ReleaseOutcome::Done`] where nothing else of it is
    /// left.
    async fn release_listed(&self, key: &RegisterKey, page: DataRef) -> ReleaseOutcome {
        let Ok(listed) = listed_on(&self.deps.stripes, key, page).await else { return ReleaseOutcome::Later };
        for part in listed {
            let judged = match self.judge_release(key, part).await {
                ReleaseOutcome::Done => self.delete_data(part).await,
                judged => judged,
            };
            match judged {
                ReleaseOutcome::Done | ReleaseOutcome::Named => {}
                kept @ (ReleaseOutcome::InUse | ReleaseOutcome::Later) => return kept,
            }
        }
        ReleaseOutcome::Done
    }

    /// Whether a Complete made a replaced part the object's: then it goes when the object does.
    async fn is_carried(&self, key: &RegisterKey, data: DataRef) -> bool {
        let object = RegisterKey::object(key.bucket, key.key.clone());
        matches!(reference(&self.deps.registers, &self.deps.stripes, &object, data.id).await, Ok(Some(_)))
    }

    /// Whether no reader holds data and no committed value names it any more: [`ReleaseOutcome::Done`] then.
    /// A sealed bucket's registers cannot be read: only a final seal says that none of them ever names
    /// anything again. One of a deletion under way may be taken back.
    async fn judge_release(&self, key: &RegisterKey, data: DataRef) -> ReleaseOutcome {
        if self.deps.pins.is_held(data.id) {
            return ReleaseOutcome::InUse;
        }
        match reference(&self.deps.registers, &self.deps.stripes, key, data.id).await {
            Ok(None) => ReleaseOutcome::Done,
            Ok(Some(_)) => {
                tracing::error!(?key, data = %data.id, "data reported as superseded is still named, and stays");
                ReleaseOutcome::Named
            }
            Err(RefsError::Register(Failure::Sealed)) if is_gone_for_ever(&self.deps, key) => {
                ReleaseOutcome::Done
            }
            Err(_) => ReleaseOutcome::Later,
        }
    }

    /// Removes every shard of data, unless a reader of another node holds it.
    pub(crate) async fn delete_data(&self, data: DataRef) -> ReleaseOutcome {
        let Some(set) = self.deps.cluster.set(data.set) else { return ReleaseOutcome::Later };
        let volumes = set.routes.len();
        if usize::from(data.data_shards) + usize::from(data.parity_shards) != volumes {
            return ReleaseOutcome::Done;
        }
        let removals = (0..data.data_shards + data.parity_shards).map(|index| {
            let route = &set.routes[placement::home(data.id, index, volumes)];
            let shard = ShardId { data: data.id, index };
            ask(route.peer.release_shard(route.volume, shard, data.home), VOLUME_PATIENCE)
        });
        let deleted = join_all(removals).await;
        if deleted.contains(&Ok(false)) {
            return ReleaseOutcome::InUse;
        }
        if deleted.iter().any(Result::is_err) {
            return ReleaseOutcome::Later;
        }
        self.released_count.fetch_add(1, Ordering::Relaxed);
        ReleaseOutcome::Done
    }
}

#[cfg(test)]
mod tests;
