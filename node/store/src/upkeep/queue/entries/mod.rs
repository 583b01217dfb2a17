//! The queue in memory: a bounded, deduplicated view of what the volumes' logs hold, the most endangered
//! first. Values alone: time is handed in, in monotonic milliseconds.
//!
//! The logs are the truth. An entry that does not fit here stays there, and is loaded again when there is
//! room; a restart loses none.

mod forgotten;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::time::Instant;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::VolumeId;

use self::forgotten::ForgottenEntries;
use crate::upkeep::limits::{
    FORGOTTEN_MS, HEAL_PAUSE_MS, HEAL_PAUSE_MS_MAX, HEAL_TRIES_KEPT, ROOM_TRIES_AT_ONCE, ROOM_TURN_MS,
};

/// How many more losses an entry's data can take; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spare(pub(crate) u8);

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    entries: HashMap<HealId, HeldEntry>,
    due: BTreeSet<(Spare, u64, HealId)>,
    later: BTreeSet<(u64, HealId)>,
    /// The entries that wait for room, under each full volume that they wait for.
    for_room: BTreeMap<VolumeId, BTreeSet<(Spare, u64, HealId)>>,
    /// Entries that wait and can be loaded again from the logs, the least urgent last.
    loadable: BTreeSet<(Spare, u64, HealId)>,
    unlogged: BTreeSet<HealId>,
    forgotten: ForgottenEntries,
    capacity: usize,
    /// The logged ones among those that wait for room, by the time since when, the longest first.
    for_room_since: BTreeSet<(u64, HealId)>,
    /// Since when an entry is in the logs alone for want of room.
    overflowed: Option<Instant>,
    /// The same for entries that were turned away since the loads under way began.
    overflowed_in_load: Option<Instant>,
    loads_under_way: usize,
}

#[derive(Debug)]
struct HeldEntry {
    entry: HealEntry,
    /// When this process found its damage.
    found: Instant,
    spare: Spare,
    tries: u32,
    /// The full volumes that the last try was stopped by, and by nothing else.
    full: Vec<VolumeId>,
    place: QueuePlace,
    is_logged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueuePlace {
    Due,
    Later {
        due_ms: u64,
    },
    /// Waits until a full volume has room. A further report of the damage puts the entry back among the
    /// others, with the pause that it would have had.
    ForRoom {
        due_ms: u64,
        since_ms: u64,
    },
    /// Being healed; `again` is when the damage was first found again meanwhile.
    InHand {
        again: Option<Instant>,
    },
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            due: BTreeSet::new(),
            later: BTreeSet::new(),
            for_room: BTreeMap::new(),
            loadable: BTreeSet::new(),
            unlogged: BTreeSet::new(),
            forgotten: ForgottenEntries::default(),
            capacity,
            for_room_since: BTreeSet::new(),
            overflowed: None,
            overflowed_in_load: None,
            loads_under_way: 0,
        }
    }

    /// Whether an entry is held.
    #[cfg(test)]
    pub(super) fn contains(&self, id: HealId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Whether an entry is held and in the logs.
    pub(super) fn is_logged(&self, id: HealId) -> bool {
        self.entries.get(&id).is_some_and(|held| held.is_logged)
    }

    /// Whether the logs have all that is held.
    pub(super) fn are_all_logged(&self) -> bool {
        self.unlogged.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes that the damage of an entry that is held was found again; whether the logs have it, too.
    pub(super) fn found_again(&mut self, entry: &HealEntry, spare: Spare, found: Instant) -> bool {
        let is_logged = self.entries.get(&entry.id()).map(|held| held.is_logged);
        if is_logged.is_some() {
            self.insert(entry.clone(), spare, found, false);
            self.end_wait_for_room(entry.id());
        }
        is_logged == Some(true)
    }

    /// Up to `limit` entries that no log has.
    pub(super) fn unlogged(&self, limit: usize) -> Vec<(HealEntry, Spare)> {
        let held = self.unlogged.iter().filter_map(|id| self.entries.get(id));
        held.take(limit).map(|held| (held.entry.clone(), held.spare)).collect()
    }

    /// Whether a load of the logs is worth while at once: they alone have entries, and there is much room.
    /// Where entries that wait for room on their volumes take it, the next load in turn takes in what fits.
    pub(super) fn may_reload(&self) -> bool {
        self.overflowed.is_some() && self.loads_under_way == 0 && self.entries.len() < self.capacity / 2
    }

    /// A load of all logs begins.
    pub(super) fn begin_load(&mut self) {
        if self.loads_under_way == 0 {
            self.overflowed_in_load = None;
        }
        self.loads_under_way += 1;
    }

    /// A load of all logs has come to its end: what they alone have was turned away meanwhile.
    pub(super) fn end_load(&mut self) {
        self.loads_under_way = self.loads_under_way.saturating_sub(1);
        if self.loads_under_way == 0 {
            self.overflowed = self.overflowed_in_load.take();
        }
    }

    /// Notes that entries are in the logs alone whose damage was found then.
    fn overflow(&mut self, found: Option<Instant>) {
        self.overflowed = self.overflowed.into_iter().chain(found).min();
        self.overflowed_in_load = self.overflowed_in_load.into_iter().chain(found).min();
    }

    /// When the oldest entry was first seen, in milliseconds since the Unix epoch.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        self.entries.values().map(|held| held.entry.since_ms).min()
    }

    /// When the oldest damage was found. Damage that was found again while it was healed is as old as that.
    pub(super) fn oldest_found(&self) -> Option<Instant> {
        self.entries.values().map(|held| held.found).chain(self.overflowed).min()
    }

    /// Adds an entry that is in the logs. A known entry keeps its pause, and its position unless it is more
    /// endangered than before. `false` when the queue is full.
    pub(super) fn add(&mut self, entry: HealEntry, spare: Spare, found: Instant) -> bool {
        let id = entry.id();
        self.forgotten.since.remove(&id);
        let is_held = self.insert(entry, spare, found, true);
        self.end_wait_for_room(id);
        is_held
    }

    /// Loads an entry that a log lists. If its removal was sent in the last 10 s it counts as unlogged; at
    /// worst it is healed twice.
    pub(super) fn load(&mut self, entry: HealEntry, spare: Spare, found: Instant, now_ms: u64) -> bool {
        self.forgotten.drop_older_than(now_ms.saturating_sub(FORGOTTEN_MS));
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&entry.id()) {
            self.turn_a_waiting_one_away(now_ms);
        }
        let is_logged = !self.forgotten.since.contains_key(&entry.id());
        self.insert(entry, spare, found, is_logged)
    }

    pub(super) fn insert(&mut self, entry: HealEntry, spare: Spare, found: Instant, is_logged: bool) -> bool {
        let id = entry.id();
        if self.entries.contains_key(&id) {
            self.change(id, |held| {
                held.is_logged |= is_logged;
                match &mut held.place {
                    QueuePlace::InHand { again } => *again = again.or(Some(found)),
                    QueuePlace::Due | QueuePlace::Later { .. } | QueuePlace::ForRoom { .. } => {
                        held.spare = held.spare.min(spare);
                        held.found = held.found.min(found);
                    }
                }
            });
            return true;
        }
        if self.entries.len() >= self.capacity {
            self.overflow(Some(found));
            // An entry that no log has is nowhere else.
            if is_logged || !self.turn_a_logged_one_away() {
                return false;
            }
        }
        let (place, full) = (QueuePlace::Due, Vec::new());
        self.entries.insert(id, HeldEntry { entry, found, spare, tries: 0, full, place, is_logged });
        self.link(id);
        true
    }

    /// Makes room: the least urgent entry that is in the logs is loaded again from there. `false` where no
    /// entry is.
    fn turn_a_logged_one_away(&mut self) -> bool {
        let Some((_, _, id)) = self.loadable.last().copied() else { return false };
        self.unlink(id);
        let found = self.entries.remove(&id).map(|held| held.found);
        self.overflow(found);
        true
    }

    /// Makes room for an entry that the logs alone have: the one that has waited longest for room on its
    /// volumes, and for long enough, takes its turn in the logs. So however many wait, all others are healed,
    /// and each of those that wait is tried.
    fn turn_a_waiting_one_away(&mut self, now_ms: u64) {
        let longest = self.for_room_since.first().copied();
        let Some((_, id)) = longest.filter(|(since_ms, _)| now_ms.saturating_sub(*since_ms) >= ROOM_TURN_MS)
        else {
            return;
        };
        self.unlink(id);
        let found = self.entries.remove(&id).map(|held| held.found);
        self.overflow(found);
    }

    /// Changes an entry that is held, and where it stands.
    fn change<R>(&mut self, id: HealId, change: impl FnOnce(&mut HeldEntry) -> R) -> Option<R> {
        self.unlink(id);
        let changed = self.entries.get_mut(&id).map(change);
        self.link(id);
        changed
    }

    fn link(&mut self, id: HealId) {
        let Some(held) = self.entries.get(&id) else { return };
        let by_need = held.by_need(id);
        match held.place {
            QueuePlace::Due => drop(self.due.insert(by_need)),
            QueuePlace::Later { due_ms } => drop(self.later.insert((due_ms, id))),
            QueuePlace::ForRoom { since_ms, .. } => {
                for volume in &held.full {
                    self.for_room.entry(*volume).or_default().insert(by_need);
                }
                if held.is_logged {
                    self.for_room_since.insert((since_ms, id));
                }
            }
            QueuePlace::InHand { .. } => {}
        }
        if !held.is_logged {
            self.unlogged.insert(id);
        } else if !matches!(held.place, QueuePlace::InHand { .. }) {
            self.loadable.insert(by_need);
        }
    }

    fn unlink(&mut self, id: HealId) {
        let Some(held) = self.entries.get(&id) else { return };
        let by_need = held.by_need(id);
        match held.place {
            QueuePlace::Due => drop(self.due.remove(&by_need)),
            QueuePlace::Later { due_ms } => drop(self.later.remove(&(due_ms, id))),
            QueuePlace::ForRoom { since_ms, .. } => {
                self.for_room_since.remove(&(since_ms, id));
                for volume in &held.full {
                    if let Some(waiting) = self.for_room.get_mut(volume) {
                        waiting.remove(&by_need);
                        if waiting.is_empty() {
                            self.for_room.remove(volume);
                        }
                    }
                }
            }
            QueuePlace::InHand { .. } => {}
        }
        self.loadable.remove(&by_need);
        self.unlogged.remove(&id);
    }

    /// Hands out the most endangered entry that is due.
    pub(super) fn take(&mut self, now_ms: u64) -> Option<HealEntry> {
        while let Some((_, id)) = self.later.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.make_due(id);
        }
        let (_, _, id) = self.due.first().copied()?;
        self.change(id, |held| {
            held.place = QueuePlace::InHand { again: None };
            held.entry.clone()
        })
    }

    /// When the next entry becomes due, in monotonic milliseconds; `None` when none waits.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        if self.due.is_empty() { self.later.first().map(|(due_ms, _)| *due_ms) } else { Some(0) }
    }

    /// An entry that was handed out is healed. `false` when it was reported again meanwhile: then it
    /// is due again, and must stay in the logs.
    pub(super) fn healed(&mut self, id: HealId, now_ms: u64) -> bool {
        match self.entries.get(&id).map(|held| held.place) {
            Some(QueuePlace::InHand { again: Some(found) }) => {
                self.change(id, |held| (held.found, held.place) = (found, QueuePlace::Due));
                return false;
            }
            Some(_) => {
                self.unlink(id);
                self.entries.remove(&id);
            }
            None => {}
        }
        self.forgotten.add(id, now_ms, self.capacity);
        true
    }

    /// An entry that was handed out could not be healed: it comes again after a pause, `jitter` of
    /// which (0 to 255 of 255) is random. Where full volumes alone were in its way it waits for room on one
    /// of them, unless its damage was reported again meanwhile.
    pub(super) fn failed(&mut self, id: HealId, spare: Spare, full: Vec<VolumeId>, now_ms: u64, jitter: u8) {
        self.change(id, |held| {
            let longest = HEAL_PAUSE_MS.saturating_mul(1 << held.tries.min(16)).min(HEAL_PAUSE_MS_MAX);
            let pause = longest / 2 + longest / 2 * u64::from(jitter) / 255;
            held.tries = held.tries.saturating_add(1);
            held.spare = spare;
            let due_ms = now_ms.saturating_add(pause);
            let is_reported_again = matches!(held.place, QueuePlace::InHand { again: Some(_) });
            held.place = if full.is_empty() || is_reported_again {
                QueuePlace::Later { due_ms }
            } else {
                QueuePlace::ForRoom { due_ms, since_ms: now_ms }
            };
            held.full = full;
        });
    }

    /// Ends the pauses after failures, and lets short ones follow: a volume came back. Entries in hand, too,
    /// have only short ones before them.
    pub(super) fn wake_paused(&mut self) {
        while let Some((_, id)) = self.later.first().copied() {
            self.begin_again(id);
        }
        let in_hand = |held: &&mut HeldEntry| matches!(held.place, QueuePlace::InHand { .. });
        for held in self.entries.values_mut().filter(in_hand) {
            held.tries = held.tries.min(HEAL_TRIES_KEPT);
        }
    }

    /// As [`Self::wake_paused`], those that wait for room among them.
    pub(super) fn wake_all(&mut self) {
        self.wake_paused();
        while let Some((_, _, id)) = self.for_room.values().find_map(|waiting| waiting.first().copied()) {
            self.begin_again(id);
        }
    }

    fn begin_again(&mut self, id: HealId) {
        self.change(id, |held| {
            held.place = QueuePlace::Due;
            held.tries = held.tries.min(HEAL_TRIES_KEPT);
        });
    }

    /// Makes entries due that wait for a volume which is not full, the most endangered first, and few at a
    /// time: a volume that refuses the first of them is full again at the next look. Whether any was.
    pub(super) fn wake_for_room(&mut self, is_full: impl Fn(&VolumeId) -> bool) -> bool {
        let has_room: Vec<VolumeId> =
            self.for_room.keys().filter(|volume| !is_full(volume)).copied().collect();
        for volume in &has_room {
            let waiting = self.for_room.get(volume).into_iter().flatten();
            let ids: Vec<HealId> = waiting.take(ROOM_TRIES_AT_ONCE).map(|(_, _, id)| *id).collect();
            for id in ids {
                self.make_due(id);
            }
        }
        !has_room.is_empty()
    }

    /// Damage that waits for room was reported again, and may be another one on a volume that is not full.
    fn end_wait_for_room(&mut self, id: HealId) {
        if let Some(QueuePlace::ForRoom { due_ms, .. }) = self.entries.get(&id).map(|held| held.place) {
            self.change(id, |held| held.place = QueuePlace::Later { due_ms });
        }
    }

    fn make_due(&mut self, id: HealId) {
        self.change(id, |held| held.place = QueuePlace::Due);
    }
}

impl HeldEntry {
    /// The most endangered first, and then the oldest.
    fn by_need(&self, id: HealId) -> (Spare, u64, HealId) {
        (self.spare, self.entry.since_ms, id)
    }
}
