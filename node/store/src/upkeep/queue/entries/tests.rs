//! The order of the queue, its bounds, and what waits for what.

use std::time::Duration;

use sherd_core::id::{BucketId, ObjectKey, RegisterKey};

use super::*;
use crate::upkeep::limits::HEALS_MAX;

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
    for _ in 0..20 {
        queue.failed(entry("a", 1).id(), Spare(0), Vec::new(), 0, 255);
        assert_eq!(queue.take(u64::MAX), Some(entry("a", 1)));
    }
    queue.failed(entry("a", 1).id(), Spare(0), Vec::new(), 0, 255);
    queue.wake_all();
    assert_eq!(queue.take(1), Some(entry("a", 1)));
    queue.failed(entry("a", 1).id(), Spare(0), Vec::new(), 0, 255);
    assert_eq!(queue.next_due_ms(), Some(8 * HEAL_PAUSE_MS), "its connections may be behind it");
    for _ in 0..20 {
        assert_eq!(queue.take(u64::MAX), Some(entry("a", 1)));
        queue.failed(entry("a", 1).id(), Spare(0), Vec::new(), 0, 255);
    }
    assert_eq!(queue.take(u64::MAX), Some(entry("a", 1)));
    queue.wake_paused();
    queue.failed(entry("a", 1).id(), Spare(0), Vec::new(), 0, 255);
    assert_eq!(queue.next_due_ms(), Some(8 * HEAL_PAUSE_MS), "it waited for the volume that came back");
}

#[test]
fn a_volume_of_another_node_that_comes_back_gives_full_ones_no_room() {
    let mut queue = Queue::new(2);
    queue.add(entry("a", 1), Spare(1), Instant::now());
    assert_eq!(queue.take(0), Some(entry("a", 1)));
    queue.failed(entry("a", 1).id(), Spare(1), vec![VolumeId([1; 16])], 0, 255);
    queue.wake_paused();
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
    assert!(queue.found_again(&entry("a", 2), Spare(1), Instant::now()));
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
    queue.begin_load();
    assert_eq!(queue.oldest_found(), Some(at(10)), "until the logs were read");
    queue.end_load();
    assert_eq!(queue.oldest_found(), None);
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
    queue.begin_load();
    assert!(!queue.may_reload(), "once");
    for name in ["d", "e", "f"] {
        queue.load(entry(name, 1), Spare(1), Instant::now(), 0);
    }
    queue.end_load();
    for _ in 0..2 {
        let taken = queue.take(0).expect("due");
        queue.healed(taken.id(), 0);
    }
    assert!(queue.may_reload(), "what did not fit then");
}

/// Holds as many entries that wait for room on a full volume as there may be, since `now_ms`.
fn full_of_waiting(capacity: usize, now_ms: u64) -> Queue {
    let mut queue = Queue::new(capacity);
    for n in 0..capacity {
        let waits = entry(&format!("waits {n}"), 1);
        queue.add(waits.clone(), Spare(1), Instant::now());
        queue.take(now_ms).expect("due");
        queue.failed(waits.id(), Spare(1), vec![VolumeId([1; 16])], now_ms, 0);
    }
    queue
}

#[test]
fn entries_that_wait_for_room_keep_others_out_of_a_full_queue_for_their_turn_alone() {
    let mut queue = full_of_waiting(4, 1);
    let other = entry("other", 2);
    queue.load(other.clone(), Spare(1), Instant::now(), ROOM_TURN_MS);
    assert!(!queue.contains(other.id()), "they wait for less than a turn");
    queue.load(other.clone(), Spare(1), Instant::now(), 1 + ROOM_TURN_MS);
    assert_eq!(queue.take(1 + ROOM_TURN_MS), Some(other.clone()));
    assert_eq!((queue.len(), queue.for_room[&VolumeId([1; 16])].len()), (4, 3));
    assert!(queue.healed(other.id(), 1 + ROOM_TURN_MS));
    for n in 0..4 {
        queue.load(entry(&format!("waits {n}"), 1), Spare(1), Instant::now(), 2 + ROOM_TURN_MS);
    }
    assert_eq!(queue.len(), 4, "the one that made way is here again");
    assert!(queue.take(2 + ROOM_TURN_MS).is_some(), "and is tried");
}

#[test]
fn what_does_not_fit_beside_many_that_wait_for_room_is_old_no_more_once_it_was_loaded() {
    let mut queue = full_of_waiting(4, 1);
    assert!(!queue.add(entry("other", 2), Spare(1), Instant::now()));
    let is_held = |queue: &mut Queue| {
        queue.begin_load();
        queue.load(entry("other", 2), Spare(1), Instant::now(), 2);
        queue.end_load();
        queue.contains(entry("other", 2).id())
    };
    assert!(!is_held(&mut queue) && queue.overflowed.is_some());
    queue.healed(entry("waits 0", 1).id(), 2);
    assert!(!queue.may_reload(), "most of the room is taken");
    assert!(is_held(&mut queue) && queue.overflowed.is_none(), "the next load in turn");
}

#[test]
fn every_entry_stands_where_it_should_after_any_change() {
    let mut queue = Queue::new(4);
    let mut random = 1_u64;
    let full_by =
        |bits: u8| (0..3).filter(|bit| bits >> bit & 1 == 1).map(|n| VolumeId([n; 16])).collect::<Vec<_>>();
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
        let count = |is: &dyn Fn(&HeldEntry) -> bool| queue.entries.values().filter(|held| is(held)).count();
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
        assert_eq!(queue.for_room_since.len(), count(&|held| held.is_logged && is_for_room(held)));
        assert_eq!(queue.loadable.len(), count(&|held| held.is_logged && !in_hand(held)));
        assert!(queue.entries.len() <= 4 && queue.forgotten.order.len() <= 4);
        assert!(queue.forgotten.since.len() <= queue.forgotten.order.len());
    }
}
