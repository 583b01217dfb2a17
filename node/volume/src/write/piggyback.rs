//! Records that no one waits for: they go along with the next frame, and cost no sync of their own.
//!
//! ```text
//! submit -> PiggybackQueue -> a frame takes what fits -> durable: gone from here
//!                                                     -> refused: queued again
//! ```
//! Guards that what was once taken in is not lost with a frame that the disk refused: commits, ends of heals,
//! wants and releases, and positions of the peers' logs. Called by the volume's thread alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{Flags, Subject};
use crate::index::table::{heal_key, release_key};
use crate::log::append::NewRecord;
use crate::read::view::VolumeShared;
use crate::state::SmallState;
use crate::write::piggyback_queue::{PiggybackBatch, PiggybackQueue, hint_bytes};
use crate::write::plan::{BatchPlan, delete_of};

/// Hints in one record at most.
const HINTS_IN_RECORD: usize = 4096;
/// Bytes of a frame left free by records that may go with a later one as well.
const ROOM_BYTES: usize = 4096;
/// Bytes of such a record, at most.
const PIGGYBACK_RECORD_BYTES: usize = 256;

impl PiggybackQueue {
    /// Adds the records that a frame of this size has room for.
    pub(super) fn add_to(
        &mut self,
        plan: &mut BatchPlan,
        working: &mut SmallState,
        shared: &VolumeShared,
        frame_bytes_max: usize,
    ) {
        plan.piggyback.taken.since_us = self.since_us;
        self.add_notes(plan, working);
        let room = frame_bytes_max.saturating_sub(plan.bytes + ROOM_BYTES);
        let room = self.add_hints(plan, room);
        let room = self.add_healed(plan, shared, room);
        let room = self.add_wants_ended(plan, shared, room);
        let room = self.add_releases(plan, shared, room);
        let seen = front_of_map(&mut self.seen, room / PIGGYBACK_RECORD_BYTES);
        for (volume, (life, durable)) in &seen {
            if working.peers.get(volume).is_none_or(|known| *known < (*life, *durable)) {
                let (volume, life, durable) = (*volume, *life, *durable);
                plan.push_state(Subject::Peer { volume, life, durable }, working);
            }
        }
        plan.piggyback.taken.seen = seen;
        if self.is_empty() {
            self.since_us = None;
        } else {
            // Records that the index could not read are queued again; those that did not fit stay queued.
            self.begin(shared.clock.monotonic_us());
        }
    }

    /// Adds positions of the peers' logs to any frame: they are durable with the accept that carried them.
    /// Every batch leaves room for them.
    fn add_notes(&mut self, plan: &mut BatchPlan, working: &mut SmallState) {
        let waiting = std::mem::take(&mut self.notes);
        for (volume, news) in &waiting {
            let known = working.notes.get(volume);
            let mut notes = known.unwrap_or(news).clone();
            // A position without room in the notes is left out.
            if notes.merge(news) || known.is_none() {
                plan.push_state(Subject::PeerNotes { volume: *volume, notes }, working);
            }
        }
        plan.piggyback.taken.notes = waiting;
    }

    fn add_hints(&mut self, plan: &mut BatchPlan, mut room: usize) -> usize {
        let all_room = room;
        let fitting = self.hints.iter().take(HINTS_IN_RECORD).take_while(|hinted| {
            let left = room.checked_sub(hint_bytes(&hinted.hint));
            room = left.unwrap_or(room);
            left.is_some()
        });
        let count = fitting.count();
        self.hints_bytes -= all_room - room;
        let start = plan.hints.len();
        plan.push_hints(self.hints.drain(..count));
        plan.piggyback.hints = start..plan.hints.len();
        room
    }

    fn add_healed(&mut self, plan: &mut BatchPlan, shared: &VolumeShared, room: usize) -> usize {
        let healed = front_of_set(&mut self.healed, room / PIGGYBACK_RECORD_BYTES);
        for id in &healed {
            // An entry put again by this batch is not the one that was healed.
            let key = heal_key(*id);
            if plan.keys.contains(&key) {
                continue;
            }
            match delete_of(shared, key) {
                Ok(Some(subject)) => plan.push(NewRecord::bare(subject)),
                Ok(None) => {}
                Err(_) => {
                    self.healed.insert(*id);
                    self.since_us = None;
                }
            }
        }
        let room = room - healed.len() * PIGGYBACK_RECORD_BYTES;
        plan.piggyback.taken.healed = healed;
        room
    }

    /// Adds the ends of wants: of those that are still the ones which were looked at.
    fn add_wants_ended(&mut self, plan: &mut BatchPlan, shared: &VolumeShared, room: usize) -> usize {
        let ended = front_of_map(&mut self.wants_ended, room / PIGGYBACK_RECORD_BYTES);
        for (id, sequence) in &ended {
            let key = heal_key(*id);
            if plan.keys.contains(&key) {
                continue;
            }
            match shared.entry(&key) {
                Ok(Some(entry)) if entry.origin.sequence == *sequence => {
                    let (oldest, newest) = (entry.origin.oldest, entry.origin.placed);
                    plan.push(NewRecord::bare(Subject::Delete { key, oldest, newest }));
                }
                Ok(_) => {}
                Err(_) => {
                    self.wants_ended.insert(*id, *sequence);
                    self.since_us = None;
                }
            }
        }
        let room = room - ended.len() * PIGGYBACK_RECORD_BYTES;
        plan.piggyback.taken.wants_ended = ended;
        room
    }

    /// Adds notes of replaced data, and first the ends of older ones.
    fn add_releases(&mut self, plan: &mut BatchPlan, shared: &VolumeShared, room: usize) -> usize {
        let ended = front_of_set(&mut self.released, room / PIGGYBACK_RECORD_BYTES);
        for id in &ended {
            match delete_of(shared, release_key(*id)) {
                Ok(Some(subject)) => plan.push(NewRecord::bare(subject)),
                Ok(None) => {}
                Err(_) => {
                    self.released.insert(*id);
                    self.since_us = None;
                }
            }
        }
        let mut room = room - ended.len() * PIGGYBACK_RECORD_BYTES;
        plan.piggyback.taken.released = ended;
        let fitting = self.releases.values().take_while(|entry| {
            let left = room.checked_sub(PIGGYBACK_RECORD_BYTES + entry.len());
            room = left.unwrap_or(room);
            left.is_some()
        });
        let count = fitting.count();
        let releases = front_of_map(&mut self.releases, count);
        for (id, entry) in &releases {
            plan.push(NewRecord::new(Subject::Release { id: *id }, Flags::default(), [entry.clone()]));
        }
        plan.piggyback.taken.releases = releases;
        room
    }

    pub(super) fn take_back(&mut self, plan: &mut BatchPlan) {
        let PiggybackBatch { mut taken, hints } = std::mem::take(&mut plan.piggyback);
        taken.hints = plan.hints.drain(hints).collect();
        self.put_back(taken);
    }
}

fn front_of_map<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, count: usize) -> BTreeMap<K, V> {
    let rest = map.keys().nth(count).copied().map(|first_left| map.split_off(&first_left));
    std::mem::replace(map, rest.unwrap_or_default())
}

fn front_of_set<K: Ord + Copy>(set: &mut BTreeSet<K>, count: usize) -> BTreeSet<K> {
    let rest = set.iter().nth(count).copied().map(|first_left| set.split_off(&first_left));
    std::mem::replace(set, rest.unwrap_or_default())
}
