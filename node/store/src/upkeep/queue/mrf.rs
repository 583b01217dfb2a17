//! The MRF queue in memory: a bounded, deduplicated view of what the volumes' logs hold, the most
//! endangered first.
//!
//! The logs are the truth. An entry that does not fit here stays there, and is loaded again when there is
//! room; a restart loses none.

use crate::upkeep::limits::{FORGOTTEN_MS, HEAL_PAUSE_MS, HEAL_PAUSE_MS_MAX, HEALS_MAX, ROOM_TRIES_AT_ONCE};

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::VolumeId;

/// How many more losses an entry's data can take; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spare(pub(crate) u8);

/// The queue. Time is handed in, in monotonic milliseconds.
#[derive(Debug)]
pub(crate) struct Queue {
    entries: HashMap<HealId, HeldEntry>,
    due: BTreeSet<(Spare, u64, HealId)>,
    later: BTreeSet<(u64, HealId)>,
    /// The entries that wait for room, under each full volume that they wait for.
    for_room: BTreeMap<VolumeId, BTreeSet<(Spare, u64, HealId)>>,
    /// Those that wait and can be loaded again from the logs, the least urgent last.
    loadable: BTreeSet<(Spare, u64, HealId)>,
    unlogged: BTreeSet<HealId>,
    forgotten: ForgottenEntries,
    capacity: usize,
    /// Since when an entry is in the logs alone for want of room.
    overflowed: Option<Instant>,
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
    /// One of its full volumes has to get room. A further report of the damage puts it back among the
    /// others, with the pause that it would have had.
    ForRoom {
        due_ms: u64,
    },
    /// Being healed; `again` is when the damage was first found again meanwhile.
    InHand {
        again: Option<Instant>,
    },
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            due: BTreeSet::new(),
            later: BTreeSet::new(),
            for_room: BTreeMap::new(),
            loadable: BTreeSet::new(),
            unlogged: BTreeSet::new(),
            forgotten: ForgottenEntries::default(),
            capacity,
            overflowed: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes that the damage of an entry that is held was met again; whether the logs have it, too.
    pub(crate) fn met_again(&mut self, entry: &HealEntry, spare: Spare, found: Instant) -> bool {
        let is_logged = self.entries.get(&entry.id()).map(|held| held.is_logged);
        if is_logged.is_some() {
            self.insert(entry.clone(), spare, found, false);
            self.end_wait_for_room(entry.id());
        }
        is_logged == Some(true)
    }

    /// Up to `limit` entries that no log has.
    fn unlogged(&self, limit: usize) -> Vec<(HealEntry, Spare)> {
        let held = self.unlogged.iter().filter_map(|id| self.entries.get(id));
        held.take(limit).map(|held| (held.entry.clone(), held.spare)).collect()
    }

    /// Whether entries were turned away since the last [`Self::may_reload`].
    pub(crate) fn may_reload(&mut self) -> bool {
        let reload = self.overflowed.is_some() && self.entries.len() < self.capacity / 2;
        if reload {
            self.overflowed = None;
        }
        reload
    }

    /// When the oldest entry was first seen, in milliseconds since the Unix epoch.
    pub(crate) fn oldest_ms(&self) -> Option<u64> {
        self.entries.values().map(|held| held.entry.since_ms).min()
    }

    /// When the oldest damage was found. Damage that was found again while it was healed is as old as that.
    fn oldest_found(&self) -> Option<Instant> {
        self.entries.values().map(|held| held.found).chain(self.overflowed).min()
    }

    /// Takes an entry in that is in the logs. One that is known keeps its pause, and its place unless it
    /// turns out to be more endangered. `false` when there is no room.
    pub(crate) fn add(&mut self, entry: HealEntry, spare: Spare, found: Instant) -> bool {
        let id = entry.id();
        self.forgotten.since.remove(&id);
        let is_held = self.insert(entry, spare, found, true);
        self.end_wait_for_room(id);
        is_held
    }

    /// Takes an entry in that a log shows. One that it was told to forget a moment ago goes from there, and
    /// was met again since all the same, or will be healed once too often.
    fn load(&mut self, entry: HealEntry, spare: Spare, found: Instant, now_ms: u64) -> bool {
        self.forgotten.drop_older_than(now_ms.saturating_sub(FORGOTTEN_MS));
        let is_logged = !self.forgotten.since.contains_key(&entry.id());
        self.insert(entry, spare, found, is_logged)
    }

    fn insert(&mut self, entry: HealEntry, spare: Spare, found: Instant, is_logged: bool) -> bool {
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
            self.overflowed = self.overflowed.into_iter().chain([found]).min();
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

    /// Makes room: the least urgent entry that is in the logs is loaded again from there. `false` where there
    /// is none.
    fn turn_a_logged_one_away(&mut self) -> bool {
        let Some((_, _, id)) = self.loadable.last().copied() else { return false };
        self.unlink(id);
        let found = self.entries.remove(&id).map(|held| held.found);
        self.overflowed = self.overflowed.into_iter().chain(found).min();
        true
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
            QueuePlace::ForRoom { .. } => {
                for volume in &held.full {
                    self.for_room.entry(*volume).or_default().insert(by_need);
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
            QueuePlace::ForRoom { .. } => {
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
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<HealEntry> {
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
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        if self.due.is_empty() { self.later.first().map(|(due_ms, _)| *due_ms) } else { Some(0) }
    }

    /// An entry that was handed out is healed. `false` when it was reported again meanwhile: then it
    /// is due again, and must stay in the logs.
    pub(crate) fn healed(&mut self, id: HealId, now_ms: u64) -> bool {
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
    pub(crate) fn failed(&mut self, id: HealId, spare: Spare, full: Vec<VolumeId>, now_ms: u64, jitter: u8) {
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
                QueuePlace::ForRoom { due_ms }
            };
            held.full = full;
        });
    }

    /// Ends all pauses: a volume came back.
    pub(crate) fn wake_all(&mut self) {
        while let Some((_, id)) = self.later.first().copied() {
            self.make_due(id);
        }
        while let Some((_, _, id)) = self.for_room.values().find_map(|waiting| waiting.first().copied()) {
            self.make_due(id);
        }
    }

    /// Makes entries due that wait for a volume which is not full, the most endangered first, and few at a
    /// time: a volume that refuses the first of them is full again at the next look. Whether any was.
    fn wake_for_room(&mut self, is_full: impl Fn(&VolumeId) -> bool) -> bool {
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
        if let Some(QueuePlace::ForRoom { due_ms }) = self.entries.get(&id).map(|held| held.place) {
            self.change(id, |held| held.place = QueuePlace::Later { due_ms });
        }
    }

    fn make_due(&mut self, id: HealId) {
        self.change(id, |held| held.place = QueuePlace::Due);
    }
}

/// The entries that the logs were to forget of late: a page of one may still show it.
#[derive(Debug, Default)]
struct ForgottenEntries {
    since: HashMap<HealId, u64>,
    /// The oldest first. One that was put again since is no longer in `since`.
    order: VecDeque<(u64, HealId)>,
}

impl ForgottenEntries {
    fn add(&mut self, id: HealId, now_ms: u64, capacity: usize) {
        if self.order.len() >= capacity {
            self.drop_oldest();
        }
        self.since.insert(id, now_ms);
        self.order.push_back((now_ms, id));
    }

    fn drop_older_than(&mut self, ms: u64) {
        while self.order.front().is_some_and(|(since, _)| *since <= ms) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((since, id)) = self.order.pop_front()
            && self.since.get(&id) == Some(&since)
        {
            self.since.remove(&id);
        }
    }
}

impl HeldEntry {
    /// The most endangered first, and then the oldest.
    fn by_need(&self, id: HealId) -> (Spare, u64, HealId) {
        (self.spare, self.entry.since_ms, id)
    }
}

/// The state of the queue, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MrfStatus {
    /// Entries in memory.
    pub len: usize,
    /// When the oldest of them was first seen, in milliseconds since the Unix epoch.
    pub oldest_ms: Option<u64>,
    /// When this process found the oldest damage that is not healed.
    pub oldest_found: Option<Instant>,
    /// Entries healed since the start.
    pub healed_count: u64,
    /// Tries that failed since the start.
    pub failed_count: u64,
    /// Bytes of shards and rows written by heals since the start.
    pub healed_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Mrf {
    queue: Mutex<Queue>,
    added: Notify,
    healed_count: AtomicU64,
    failed_count: AtomicU64,
    healed_bytes: AtomicU64,
}

impl Mrf {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(Queue::new(HEALS_MAX)),
            added: Notify::new(),
            healed_count: AtomicU64::new(0),
            failed_count: AtomicU64::new(0),
            healed_bytes: AtomicU64::new(0),
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, id: HealId) -> bool {
        self.queue.lock().entries.contains_key(&id)
    }

    /// Whether the entry is held, and in the logs; then it is not healed before what was met now is looked
    /// at.
    pub(crate) fn met_again(&self, entry: &HealEntry, spare: Spare, found: Instant) -> bool {
        let is_logged = self.queue.lock().met_again(entry, spare, found);
        if is_logged {
            self.added.notify_one();
        }
        is_logged
    }

    pub(crate) fn is_logged(&self, id: HealId) -> bool {
        self.queue.lock().entries.get(&id).is_some_and(|held| held.is_logged)
    }

    /// Takes an entry in that no log took: a kill forgets it.
    pub(crate) fn add_unlogged(&self, entry: HealEntry, spare: Spare, found: Instant) {
        if self.queue.lock().insert(entry, spare, found, false) {
            self.added.notify_one();
        }
    }

    /// Takes an entry in that a log took just now.
    pub(crate) fn add(&self, entry: HealEntry, spare: Spare, found: Instant) {
        if self.queue.lock().add(entry, spare, found) {
            self.added.notify_one();
        }
    }

    /// Takes an entry in that a page of a log shows.
    pub(crate) fn load(&self, entry: HealEntry, spare: Spare, found: Instant, now_ms: u64) {
        if self.queue.lock().load(entry, spare, found, now_ms) {
            self.added.notify_one();
        }
    }

    /// Up to `limit` entries that no log has.
    pub(crate) fn unlogged(&self, limit: usize) -> Vec<(HealEntry, Spare)> {
        self.queue.lock().unlogged(limit)
    }

    pub(crate) fn are_all_logged(&self) -> bool {
        self.queue.lock().unlogged.is_empty()
    }

    pub(crate) fn take(&self, now_ms: u64) -> Option<HealEntry> {
        self.queue.lock().take(now_ms)
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.queue.lock().next_due_ms()
    }

    pub(crate) fn may_reload(&self) -> bool {
        self.queue.lock().may_reload()
    }

    /// An entry that was handed out is healed: `forget`, which does not wait, tells the logs, unless it was
    /// reported again meanwhile. Whoever finds the entry gone writes it anew, and the logs hear that after
    /// they were told.
    pub(crate) fn healed(&self, id: HealId, now_ms: u64, forget: impl FnOnce()) {
        self.healed_count.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        if queue.healed(id, now_ms) {
            forget();
        }
    }

    pub(crate) fn failed(&self, id: HealId, spare: Spare, full: Vec<VolumeId>, now_ms: u64, jitter: u8) {
        self.failed_count.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().failed(id, spare, full, now_ms, jitter);
    }

    /// Tries entries again that wait for a volume which is not full any more.
    pub(crate) fn wake_for_room(&self, is_full: impl Fn(&VolumeId) -> bool) {
        if self.queue.lock().wake_for_room(is_full) {
            self.added.notify_one();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.queue.lock().wake_all();
        self.added.notify_one();
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.healed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    pub(crate) fn status(&self) -> MrfStatus {
        let queue = self.queue.lock();
        MrfStatus {
            len: queue.len(),
            oldest_ms: queue.oldest_ms(),
            oldest_found: queue.oldest_found(),
            healed_count: self.healed_count.load(Ordering::Relaxed),
            failed_count: self.failed_count.load(Ordering::Relaxed),
            healed_bytes: self.healed_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{BucketId, ObjectKey, RegisterKey};
    use std::time::Duration;

    fn entry(name: &str, since_ms: u64) -> HealEntry {
        let key = ObjectKey::new(name.to_owned()).expect("a key");
        HealEntry { key: RegisterKey::object(BucketId([1; 16]), key), data: None, since_ms }
    }

    #[test]
    fn the_most_endangered_comes_first_and_then_the_oldest() {
        let mut queue = Queue::new(10);
        queue.add(entry("young", 9), Spare(1), Instant::now());
        queue.add(entry("old", 3), Spare(1), Instant::now());
        queue.add(entry("endangered", 20), Spare(0), Instant::now());
        let order: Vec<HealEntry> = std::iter::from_fn(|| queue.take(0)).collect();
        assert_eq!(order, [entry("endangered", 20), entry("old", 3), entry("young", 9)]);
        assert_eq!(queue.len(), 3, "what is in hand is still held");
    }

    #[test]
    fn the_same_damage_is_held_once() {
        let mut queue = Queue::new(10);
        queue.add(entry("a", 5), Spare(2), Instant::now());
        queue.add(entry("a", 8), Spare(1), Instant::now());
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.take(0), Some(entry("a", 5)));
        assert_eq!(queue.take(0), None);
    }

    #[test]
    fn a_failed_entry_comes_again_after_a_growing_pause() {
        let mut queue = Queue::new(10);
        let id = entry("a", 1).id();
        queue.add(entry("a", 1), Spare(1), Instant::now());
        let mut now = 0;
        for longest in [1_000, 2_000, 4_000, 8_000] {
            queue.take(now).expect("due");
            queue.failed(id, Spare(1), Vec::new(), now, 255);
            assert_eq!(queue.next_due_ms(), Some(now + longest));
            assert_eq!(queue.take(now + longest - 1), None);
            now += longest;
        }
        for _ in 0..20 {
            queue.take(now).expect("due");
            queue.failed(id, Spare(1), Vec::new(), now, 0);
            now += HEAL_PAUSE_MS_MAX / 2;
        }
        assert_eq!(queue.take(now), Some(entry("a", 1)), "never longer than the longest");
    }

    #[test]
    fn a_volume_that_comes_back_ends_all_pauses() {
        let mut queue = Queue::new(10);
        queue.add(entry("a", 1), Spare(1), Instant::now());
        queue.take(0);
        queue.failed(entry("a", 1).id(), Spare(0), Vec::new(), 0, 255);
        assert_eq!(queue.take(1), None);
        queue.wake_all();
        assert_eq!(queue.take(1), Some(entry("a", 1)));
    }

    #[test]
    fn an_entry_that_full_volumes_stop_waits_for_room_and_not_for_a_pause() {
        let mut queue = Queue::new(10);
        let (one, other) = (VolumeId([1; 16]), VolumeId([2; 16]));
        let stop = |queue: &mut Queue, now_ms| {
            assert_eq!(queue.take(now_ms), Some(entry("a", 1)));
            queue.failed(entry("a", 1).id(), Spare(1), vec![one, other], now_ms, 255);
        };
        queue.add(entry("a", 1), Spare(1), Instant::now());
        stop(&mut queue, 0);
        assert_eq!((queue.take(u64::MAX), queue.next_due_ms()), (None, None), "no time ends the wait");
        queue.load(entry("a", 1), Spare(1), Instant::now(), 1);
        assert!(!queue.wake_for_room(|_| true) && queue.take(u64::MAX).is_none(), "a log shows it still");

        assert!(queue.wake_for_room(|volume| *volume == one), "one of the two has room");
        stop(&mut queue, 1);
        queue.wake_all();
        stop(&mut queue, 2);
        assert!(queue.met_again(&entry("a", 2), Spare(1), Instant::now()));
        assert_eq!(queue.next_due_ms(), Some(2 + 4 * HEAL_PAUSE_MS), "a report may be of other damage");
        stop(&mut queue, u64::MAX);
        assert!(queue.for_room.len() == 2 && queue.wake_for_room(|_| false) && queue.for_room.is_empty());
        assert!(queue.take(0).is_some());
        queue.add(entry("a", 3), Spare(1), Instant::now());
        queue.failed(entry("a", 1).id(), Spare(1), vec![one], 0, 255);
        assert!(queue.next_due_ms().is_some() && queue.for_room.is_empty(), "it was reported meanwhile");
    }

    /// A volume may say that it has room, and refuse the next write.
    #[test]
    fn few_entries_are_tried_at_a_time_on_a_volume_that_has_room_again() {
        let (mut queue, full) = (Queue::new(HEALS_MAX), VolumeId([1; 16]));
        for n in 0..u64::try_from(ROOM_TRIES_AT_ONCE).expect("a count") + 9 {
            let waits = entry(&format!("{n}"), n);
            queue.add(waits.clone(), Spare(1), Instant::now());
            queue.take(0).expect("due");
            queue.failed(waits.id(), Spare(1), vec![full], 0, 0);
        }
        queue.wake_for_room(|_| false);
        assert_eq!((queue.due.len(), queue.for_room[&full].len()), (ROOM_TRIES_AT_ONCE, 9));
        queue.wake_for_room(|_| false);
        assert_eq!(queue.due.len(), ROOM_TRIES_AT_ONCE + 9);
    }

    #[test]
    fn damage_reported_while_it_is_healed_is_looked_at_again() {
        let mut queue = Queue::new(10);
        queue.add(entry("a", 1), Spare(1), Instant::now());
        queue.take(0);
        queue.add(entry("a", 2), Spare(1), Instant::now());
        assert!(!queue.healed(entry("a", 1).id(), 0));
        assert!(queue.take(0).is_some());
        assert!(queue.healed(entry("a", 1).id(), 0));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn damage_is_as_old_as_the_longest_known_that_is_not_healed() {
        let mut queue = Queue::new(2);
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        assert_eq!(queue.oldest_found(), None);
        queue.add(entry("a", 9), Spare(1), at(3));
        queue.add(entry("b", 1), Spare(1), at(5));
        queue.add(entry("a", 9), Spare(1), at(6));
        assert_eq!(queue.oldest_found(), Some(at(3)), "it was met before, and is not healed");
        queue.load(entry("a", 9), Spare(1), at(2), 0);
        assert_eq!(queue.oldest_found(), Some(at(2)), "a log has it for longer");

        assert_eq!(queue.take(0), Some(entry("b", 1)));
        queue.failed(entry("b", 1).id(), Spare(1), Vec::new(), 0, 255);
        assert_eq!(queue.take(0), Some(entry("a", 9)));
        queue.add(entry("a", 9), Spare(1), at(7));
        queue.add(entry("a", 9), Spare(1), at(8));
        assert!(!queue.healed(entry("a", 9).id(), 0));
        assert_eq!(queue.oldest_found(), Some(at(5)), "what failed waits since it was met");
        assert_eq!(queue.take(u64::MAX), Some(entry("b", 1)));
        assert!(queue.healed(entry("b", 1).id(), 0));
        assert_eq!(queue.oldest_found(), Some(at(7)), "what was met while it was healed is younger");

        queue.add(entry("c", 1), Spare(1), at(9));
        assert!(!queue.add(entry("d", 1), Spare(1), at(10)));
        for _ in 0..2 {
            let taken = queue.take(0).expect("due");
            assert!(queue.healed(taken.id(), 0));
        }
        assert_eq!((queue.len(), queue.oldest_found()), (0, Some(at(10))), "the logs have what did not fit");
        assert!(queue.may_reload());
        assert_eq!(queue.oldest_found(), None);
    }

    /// Damage that is met after its entry went is put into the logs anew: they must not be told to forget it
    /// then.
    #[test]
    fn nobody_finds_an_entry_gone_before_the_logs_are_told() {
        let mrf = Mrf::new();
        let id = entry("a", 1).id();
        mrf.add(entry("a", 1), Spare(1), Instant::now());
        assert!(mrf.take(0).is_some());
        assert!(mrf.met_again(&entry("a", 2), Spare(1), Instant::now()));
        mrf.healed(id, 0, || panic!("it was met again"));
        assert!(mrf.take(0).is_some());
        let mut told = false;
        mrf.healed(id, 0, || told = mrf.queue.is_locked());
        assert!(told, "whoever asks waits until then");
        assert!(!mrf.met_again(&entry("a", 3), Spare(1), Instant::now()));

        mrf.add_unlogged(entry("b", 4), Spare(1), Instant::now());
        assert!(!mrf.met_again(&entry("b", 5), Spare(1), Instant::now()), "it is held, and in no log yet");
        mrf.add(entry("b", 5), Spare(1), Instant::now());
        mrf.add_unlogged(entry("b", 6), Spare(1), Instant::now());
        assert!(mrf.met_again(&entry("b", 7), Spare(1), Instant::now()));
    }

    /// An entry that no log took, turned away, would be in no place at all.
    #[test]
    fn what_is_in_the_logs_makes_way_for_what_is_in_none() {
        let mut queue = Queue::new(3);
        for (name, since_ms) in [("waits", 1), ("young", 3), ("old", 2)] {
            assert!(queue.add(entry(name, since_ms), Spare(1), Instant::now()));
        }
        queue.take(0).expect("due");
        queue.failed(entry("waits", 1).id(), Spare(0), Vec::new(), 0, 255);
        assert!(queue.insert(entry("first", 9), Spare(1), Instant::now(), false));
        assert!(queue.insert(entry("second", 9), Spare(1), Instant::now(), false));
        let order: Vec<HealEntry> = std::iter::from_fn(|| queue.take(u64::MAX)).collect();
        assert_eq!(order.len(), 3, "never more than it holds");
        assert_eq!(order[0], entry("waits", 1), "the most endangered stays, although it waits");
        assert!(!queue.insert(entry("third", 9), Spare(1), Instant::now(), false), "what is in hand stays");
        for taken in &order {
            queue.healed(taken.id(), 0);
        }
        assert!(queue.may_reload(), "what made way is loaded again");
    }

    #[test]
    fn what_does_not_fit_is_loaded_again_when_there_is_room() {
        let mut queue = Queue::new(2);
        assert!(queue.add(entry("a", 1), Spare(1), Instant::now()));
        assert!(queue.add(entry("b", 1), Spare(1), Instant::now()));
        assert!(!queue.add(entry("c", 1), Spare(1), Instant::now()));
        assert!(!queue.may_reload(), "still full");
        for _ in 0..2 {
            let taken = queue.take(0).expect("due");
            queue.healed(taken.id(), 0);
        }
        assert!(queue.may_reload());
        assert!(!queue.may_reload(), "once");
    }
    /// A log shows for a second more what it was told to forget: who took that for logged would put it
    /// nowhere when it is met again.
    #[test]
    fn what_a_log_is_about_to_forget_does_not_count_as_logged() {
        let mrf = Mrf::new();
        mrf.add(entry("a", 1), Spare(1), Instant::now());
        assert!(mrf.take(0).is_some());
        mrf.healed(entry("a", 1).id(), 5_000, || {});
        mrf.load(entry("a", 1), Spare(1), Instant::now(), 6_000);
        assert!(!mrf.is_logged(entry("a", 1).id()) && !mrf.are_all_logged());
        assert!(!mrf.met_again(&entry("a", 2), Spare(1), Instant::now()), "it is put anew");
        mrf.add(entry("a", 2), Spare(1), Instant::now());
        mrf.load(entry("a", 2), Spare(1), Instant::now(), 6_000);
        assert!(mrf.met_again(&entry("a", 3), Spare(1), Instant::now()) && mrf.are_all_logged());

        assert!(mrf.take(0).is_some());
        mrf.healed(entry("a", 1).id(), 7_000, || {});
        mrf.load(entry("a", 4), Spare(1), Instant::now(), 7_000 + FORGOTTEN_MS);
        assert!(mrf.is_logged(entry("a", 1).id()), "by then the logs show what was put after that");
    }

    #[test]
    fn every_entry_stands_where_it_should_after_any_change() {
        let mut queue = Queue::new(4);
        let mut random = 1_u64;
        let full_by = |bits: u8| {
            (0..3).filter(|bit| bits >> bit & 1 == 1).map(|n| VolumeId([n; 16])).collect::<Vec<_>>()
        };
        for step in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [kind, name, spare, jitter, ..] = (random >> 16).to_le_bytes();
            let (name, spare) =
                (entry(["a", "b", "c", "d", "e", "f"][usize::from(name % 6)], 1), Spare(spare % 3));
            match kind % 8 {
                0 => drop(queue.add(name, spare, Instant::now())),
                1 => drop(queue.insert(name, spare, Instant::now(), false)),
                2 => drop(queue.load(name, spare, Instant::now(), step)),
                3 => drop(queue.take(step)),
                4 => drop(queue.healed(name.id(), step)),
                5 => queue.failed(name.id(), spare, full_by(jitter), step, jitter),
                6 => drop(queue.wake_for_room(|volume| full_by(jitter).contains(volume))),
                _ => queue.wake_all(),
            }
            let count =
                |is: &dyn Fn(&HeldEntry) -> bool| queue.entries.values().filter(|held| is(held)).count();
            let in_hand = |held: &HeldEntry| matches!(held.place, QueuePlace::InHand { .. });
            assert_eq!(queue.due.len(), count(&|held| held.place == QueuePlace::Due));
            assert_eq!(queue.later.len(), count(&|held| matches!(held.place, QueuePlace::Later { .. })));
            let is_for_room = |held: &HeldEntry| matches!(held.place, QueuePlace::ForRoom { .. });
            for n in 0..3 {
                let volume = VolumeId([n; 16]);
                let waiting = count(&|held| is_for_room(held) && held.full.contains(&volume));
                assert_eq!(queue.for_room.get(&volume).map_or(0, BTreeSet::len), waiting);
            }
            assert!(queue.for_room.values().all(|waiting| !waiting.is_empty()));
            assert_eq!(queue.unlogged.len(), count(&|held| !held.is_logged));
            assert_eq!(queue.loadable.len(), count(&|held| held.is_logged && !in_hand(held)));
            assert!(queue.entries.len() <= 4 && queue.forgotten.order.len() <= 4);
            assert!(queue.forgotten.since.len() <= queue.forgotten.order.len());
        }
    }
}
