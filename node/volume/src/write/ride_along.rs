//! What rides with a frame to come: nobody waits for it, and it costs no sync of its own.
//!
//! ```text
//! submit -> Lazy -> a frame takes what fits -> durable: gone from here
//!                                           -> refused: it waits again
//! ```
//! Guards that what was once taken in is not lost with a frame that the disk refused: commits, ends of heals
//! and releases, and what is known of the peers' logs. Called by the volume's thread alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{Flags, Subject};
use crate::log::append::NewRecord;
use crate::write::lazy::{Riders, hint_bytes};
use crate::write::plan::Plan;
use crate::write::volume::Volume;

/// Hints in one record at most.
const HINTS_IN_RECORD: usize = 4096;
/// Bytes of a frame left free by what may ride with a later one as well.
const ROOM_BYTES: usize = 4096;
/// Bytes of a record that rides along, at most.
const LAZY_RECORD_BYTES: usize = 256;

impl Volume {
    /// Adds what waits for a frame.
    pub(crate) fn ride_along(&mut self, plan: &mut Plan) {
        // What the index cannot tell of now goes with a later opening.
        let _ = self.push_opening(plan);
        plan.riders.taken.since_us = self.lazy.since_us;
        if plan.bound.is_none()
            && let Some(bound) = self.bound_to_extend()
        {
            self.push_bound(plan, bound, self.now());
            self.shared.promises.lock().is_active = false;
        }
        self.notes_ride_along(plan);
        let room = self.log.frame_bytes_max().saturating_sub(plan.bytes + ROOM_BYTES);
        let room = self.hints_ride_along(plan, room);
        let room = self.healed_ride_along(plan, room);
        let room = self.releases_ride_along(plan, room);
        let seen = front_of_map(&mut self.lazy.seen, room / LAZY_RECORD_BYTES);
        for (volume, (incarnation, durable)) in &seen {
            if self.working.peers.get(volume).is_none_or(|known| *known < (*incarnation, *durable)) {
                let (volume, incarnation, durable) = (*volume, *incarnation, *durable);
                plan.push_state(Subject::Peer { volume, incarnation, durable }, &mut self.working);
            }
        }
        plan.riders.taken.seen = seen;
        if self.lazy.is_empty() {
            self.lazy.since_us = None;
        } else {
            // What the index could not tell of waits anew, and what had no room goes on waiting.
            self.lazy_begins();
        }
    }

    /// Adds how far the peers' logs are, whatever else the frame holds: it is durable with the accept that
    /// said so. Every batch leaves room for it.
    fn notes_ride_along(&mut self, plan: &mut Plan) {
        let waiting = std::mem::take(&mut self.lazy.notes);
        for (volume, news) in &waiting {
            let known = self.working.notes.get(volume);
            let mut notes = known.unwrap_or(news).clone();
            // What there is no room for is not noted.
            if notes.merge(news) || known.is_none() {
                plan.push_state(Subject::PeerNotes { volume: *volume, notes }, &mut self.working);
            }
        }
        plan.riders.taken.notes = waiting;
    }

    /// Adds commits learnt. Gives the room that is left, as the others do.
    fn hints_ride_along(&mut self, plan: &mut Plan, mut room: usize) -> usize {
        let all_room = room;
        let fitting = self.lazy.hints.iter().take(HINTS_IN_RECORD).take_while(|learnt| {
            let left = room.checked_sub(hint_bytes(&learnt.hint));
            room = left.unwrap_or(room);
            left.is_some()
        });
        let count = fitting.count();
        self.lazy.hints_bytes -= all_room - room;
        let start = plan.learnt.len();
        Self::push_hints(plan, self.lazy.hints.drain(..count));
        plan.riders.hints = start..plan.learnt.len();
        room
    }

    /// Adds ends of MRF entries.
    fn healed_ride_along(&mut self, plan: &mut Plan, room: usize) -> usize {
        let healed = front_of_set(&mut self.lazy.healed, room / LAZY_RECORD_BYTES);
        for id in &healed {
            // An entry put again by this batch is not the one that was healed.
            let key = crate::index::table::heal_key(*id);
            if plan.keys.contains(&key) {
                continue;
            }
            match self.delete_of(key) {
                Ok(Some(subject)) => plan.push(NewRecord::bare(subject)),
                Ok(None) => {}
                Err(_) => {
                    self.lazy.healed.insert(*id);
                    self.lazy.since_us = None;
                }
            }
        }
        let room = room - healed.len() * LAZY_RECORD_BYTES;
        plan.riders.taken.healed = healed;
        room
    }

    /// Adds notes of replaced data, and first the ends of older ones.
    fn releases_ride_along(&mut self, plan: &mut Plan, room: usize) -> usize {
        let ended = front_of_set(&mut self.lazy.released, room / LAZY_RECORD_BYTES);
        for id in &ended {
            match self.delete_of(crate::index::table::release_key(*id)) {
                Ok(Some(subject)) => plan.push(NewRecord::bare(subject)),
                Ok(None) => {}
                Err(_) => {
                    self.lazy.released.insert(*id);
                    self.lazy.since_us = None;
                }
            }
        }
        let mut room = room - ended.len() * LAZY_RECORD_BYTES;
        plan.riders.taken.released = ended;
        let fitting = self.lazy.releases.values().take_while(|entry| {
            let left = room.checked_sub(LAZY_RECORD_BYTES + entry.len());
            room = left.unwrap_or(room);
            left.is_some()
        });
        let count = fitting.count();
        let releases = front_of_map(&mut self.lazy.releases, count);
        for (id, entry) in &releases {
            plan.push(NewRecord::new(Subject::Release { id: *id }, Flags::default(), [entry.clone()]));
        }
        plan.riders.taken.releases = releases;
        room
    }

    /// Lets what a refused batch took along wait again.
    pub(crate) fn ride_again(&mut self, plan: &mut Plan) {
        let Riders { mut taken, hints } = std::mem::take(&mut plan.riders);
        taken.hints = plan.learnt.drain(hints).collect();
        self.lazy.put_back(taken);
    }

    /// Notes since when something waits for a frame.
    pub(crate) fn lazy_begins(&mut self) {
        let now_us = self.shared.clock.monotonic_us();
        self.lazy.since_us.get_or_insert(now_us);
    }
}

/// Takes the first entries of a map out, at most so many.
fn front_of_map<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, count: usize) -> BTreeMap<K, V> {
    let rest = map.keys().nth(count).copied().map(|first_left| map.split_off(&first_left));
    std::mem::replace(map, rest.unwrap_or_default())
}

/// Takes the first elements of a set out, at most so many.
fn front_of_set<K: Ord + Copy>(set: &mut BTreeSet<K>, count: usize) -> BTreeSet<K> {
    let rest = set.iter().nth(count).copied().map(|first_left| set.split_off(&first_left));
    std::mem::replace(set, rest.unwrap_or_default())
}
