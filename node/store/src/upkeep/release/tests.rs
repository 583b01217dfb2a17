//! Replaced data: when it goes, who notes it, and what is tried again.

use std::sync::Arc;

use sherd_core::id::{BucketId, ObjectKey, SetId};
use sherd_core::message::Error;
use sherd_core::record::{Home, PartRef, State, encode_manifest};

use super::*;
use crate::peer::scripted::{Fate, ScriptedPeer, says};
use crate::register::tests::files;
use crate::register::{Proposal, RegisterTimeouts, Writer};
use crate::upkeep::tests::{Directories, Node, body, key_of};

fn release(name: &str, since_ms: u64, holder: u8) -> (ReleaseId, WaitingRelease) {
    let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new(name.to_owned()).expect("a key"));
    let entry = ReleaseEntry { key, data: Vec::new(), since_ms };
    let holders = std::iter::once(VolumeId([holder; 16])).collect();
    (entry.id(), WaitingRelease { entry, holders, read_from: None, tries: 0 })
}

fn names(due: Vec<(ReleaseId, WaitingRelease)>) -> Vec<String> {
    due.into_iter().map(|(_, release)| release.entry.key.key.as_str().to_owned()).collect()
}

#[test]
fn nothing_is_released_before_its_grace_is_over() {
    let mut queue = ReleaseQueue::new(10);
    for (name, due_ms) in [("late", 1_100), ("early", 1_050)] {
        let (id, release) = release(name, 1, 1);
        assert!(queue.add(id, release, due_ms));
    }
    assert_eq!(names(queue.due(1_049)), [""; 0]);
    assert_eq!(names(queue.due(1_099)), ["early"]);
    assert_eq!(names(queue.due(1_100)), ["late"]);
}

#[test]
fn what_two_volumes_noted_is_held_once_and_forgotten_by_both() {
    let mut queue = ReleaseQueue::new(10);
    let (id, first) = release("a", 1, 1);
    let (_, second) = release("a", 1, 2);
    assert!(queue.add(id, first, 5) && queue.add(id, second.clone(), 9));
    let due = queue.due(5);
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].1.holders.as_slice(), [VolumeId([1; 16]), VolumeId([2; 16])]);
    assert!(queue.add(id, second, 9) && queue.due(9).is_empty(), "in hand it is held, too");
    queue.done(id);
    assert!(queue.held.is_empty());
}

#[test]
fn what_does_not_fit_is_read_again_when_there_is_room() {
    let mut queue = ReleaseQueue::new(2);
    for (name, fits) in [("a", true), ("b", true), ("c", false)] {
        let (id, release) = release(name, 1, 1);
        assert_eq!(queue.add(id, release, 5), fits);
    }
    assert!(!queue.may_reload(), "still full");
    for (id, _) in queue.due(5) {
        queue.done(id);
    }
    assert!(queue.may_reload());
    assert!(!queue.may_reload(), "once");
}

#[test]
fn one_that_is_tried_again_holds_up_nobody() {
    let mut queue = ReleaseQueue::new(10);
    let (again, release_again) = release("again", 1, 1);
    queue.add(again, release_again, 1);
    let mut due = queue.due(1);
    let (id, in_hand) = due.remove(0);
    queue.again(id, in_hand, 60_000);
    let (other, release_other) = release("other", 2, 1);
    queue.add(other, release_other, 2);
    assert_eq!(names(queue.due(2)), ["other"]);
    assert_eq!(names(queue.due(60_000)), ["again"]);
}

fn key() -> RegisterKey {
    RegisterKey::object(BucketId([7; 16]), key_of("a"))
}

/// Durable data that nothing names.
async fn stored(node: &Node, bytes: bytes::Bytes) -> DataRef {
    let mut writer = node
        .stripes()
        .write(&node.route(&key()), bytes.len() as u64, Home::File)
        .await
        .expect("there is room");
    writer.push(bytes).await.expect("there is room");
    let mut staged = writer.seal().await.expect("written").durable().await.expect("durable");
    staged.set_named();
    staged.data()
}

/// A gateway with replaced data to release, and a script before its volumes; its queue holds `capacity`
/// entries.
fn releasing(node: &Node, capacity: usize) -> (Node, Arc<ScriptedPeer>) {
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    *gateway.workers.releaser.queue.lock() = ReleaseQueue::new(capacity);
    (gateway, script)
}

fn waiting(gateway: &Node) -> Vec<(ReleaseId, WaitingRelease)> {
    gateway.workers.releaser.queue.lock().due(u64::MAX)
}

/// A pause of whole minutes before an entry comes again; none when it left memory.
async fn minutes_until_again(gateway: &Node, (id, release): (ReleaseId, WaitingRelease)) -> Option<u64> {
    let before_ms = gateway.workers.deps.now_ms();
    gateway.workers.releaser.release_one(id, release).await;
    let queue = gateway.workers.releaser.queue.lock();
    assert_eq!(queue.held.contains_key(&id), !queue.waiting.is_empty());
    let ((due_ms, _), _) = queue.waiting.first_key_value()?;
    Some((due_ms - before_ms) / 60_000)
}

#[tokio::test]
async fn what_cannot_be_removed_is_tried_more_and_more_rarely_and_then_left_to_its_notes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = releasing(&node, 10);
    let data = stored(&gateway, body(1, 300_000)).await;
    says(
        &script.releases,
        |_, shard| {
            if shard.index == 1 { Fate::Instead(Err(Error::Busy)) } else { Fate::Through }
        },
    );
    gateway.workers.releaser.queue_release(&key(), &[data], &[]);
    let mut pauses = Vec::new();
    while let Some(entry) = waiting(&gateway).pop() {
        assert_eq!(entry.1.entry.data.len(), 1, "it is all there still");
        pauses.extend(minutes_until_again(&gateway, entry).await);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10, 10, 10, 10]);
    assert_eq!(files(&directories, data), 1);
    assert_eq!(gateway.workers.releaser.status(), ReleaseStatus::default());
    assert_eq!(*script.released.lock(), [], "a start finds it again");
    gateway.close().await;
}

#[tokio::test]
async fn the_volumes_that_noted_replaced_data_get_its_removal() {
    let directories = Directories::new(5);
    let node = directories.start().await;
    let (gateway, script) = releasing(&node, 10);
    for seed in 0..4 {
        let data = stored(&gateway, body(seed, 300_000)).await;
        gateway.workers.releaser.queue_release(&key(), &[data], &[]);
        let (id, release) = waiting(&gateway).pop().expect("queued");
        let holders = release.holders.clone();
        assert!(holders.len() == 2 && holders[0] != holders[1], "{holders:?}");
        assert_eq!(minutes_until_again(&gateway, (id, release)).await, None);
        assert_eq!(files(&directories, data), 0);
        let mut removed: Vec<_> = script.released.lock().drain(..).collect();
        removed.sort_unstable();
        let mut noted: Vec<_> = holders.into_iter().map(|volume| (volume, id)).collect();
        noted.sort_unstable();
        assert_eq!(removed, noted);
    }
    assert_eq!(gateway.workers.releaser.status().released_count, 4);
    gateway.close().await;
}

/// The entry's id selects the two volumes: they are not always the same.
#[tokio::test]
async fn notes_of_replaced_data_are_spread_over_the_volumes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, _) = releasing(&node, 100);
    let volumes: Vec<_> =
        gateway.workers.deps.cluster.set_of(&key()).routes.iter().map(|r| r.volume).collect();
    for since_ms in 0..20 {
        let entry = ReleaseEntry { key: key(), data: Vec::new(), since_ms };
        let id = entry.id();
        let first = usize::from(id.0[15]) % 4;
        let holders = gateway.workers.releaser.note_release(&entry, id);
        assert_eq!(holders.as_slice(), [volumes[first], volumes[(first + 1) % 4]]);
    }
    gateway.close().await;
}

/// A note alone is enough, and so is a place in memory; what has neither is the sweeper's.
#[tokio::test]
async fn replaced_data_that_nobody_notes_is_counted_where_memory_has_no_room_for_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, _) = releasing(&node, 1);
    let mut data = Vec::new();
    for seed in 0..4 {
        data.push(stored(&gateway, body(seed, 300_000)).await);
    }
    let dropped = || gateway.workers.releaser.status().dropped_count;
    gateway.workers.releaser.queue_release(&key(), &data[..1], &[]);
    gateway.workers.releaser.queue_release(&key(), &data[1..2], &[]);
    assert_eq!(dropped(), 0, "noted by two volumes");
    for route in &gateway.workers.deps.cluster.set_of(&key()).routes {
        gateway.take_away(route.volume).await;
    }
    gateway.workers.releaser.queue_release(&key(), &data[2..3], &[]);
    assert_eq!(dropped(), 1);
    for (id, _) in waiting(&gateway) {
        gateway.workers.releaser.queue.lock().done(id);
    }
    gateway.workers.releaser.queue_release(&key(), &data[3..], &[]);
    assert_eq!(dropped(), 1, "memory has it");
}

#[tokio::test]
async fn notes_that_did_not_fit_are_read_when_there_is_room_again() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, _) = releasing(&node, 2);
    gateway.workers.releaser.read_notes().await;
    for seed in 0..6 {
        let data = stored(&gateway, body(seed, 300_000)).await;
        gateway.workers.releaser.queue_release(&key(), &[data], &[]);
    }
    // The notes ride with the frames that this makes.
    let writer: Writer<()> = Writer::new(|_| Ok(Proposal::of(State::Tombstone)));
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), writer).await.expect("a healthy node");
    registers.finish(&key()).await.expect("a healthy node");
    let (late, script) = releasing(&node, 10);
    says(&script.notes, |_, _| Fate::Instead(Err(Error::Busy)));
    late.workers.releaser.read_notes().await;
    assert_eq!(waiting(&late).len(), 0);
    says(&script.notes, |_, _| Fate::Through);
    late.workers.releaser.read_notes().await;
    assert_eq!(waiting(&late).len(), 6, "what could not be read is read later");
    gateway.workers.releaser.read_notes().await;
    let two = waiting(&gateway);
    assert_eq!(two.len(), 2, "there was no room for another");
    for (id, release) in two {
        assert_eq!(minutes_until_again(&gateway, (id, release)).await, None);
    }
    gateway.workers.releaser.read_notes().await;
    assert_eq!(gateway.workers.releaser.status().released_count, 2);
    assert!(!waiting(&gateway).is_empty());
    gateway.close().await;
}

#[tokio::test]
async fn notes_are_read_to_the_last_page() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = releasing(&node, 2 * LOG_PAGE);
    let noted_at = |since_ms| {
        let entry = ReleaseEntry { key: key(), data: Vec::new(), since_ms };
        (entry.id(), entry.encode())
    };
    let notes: Vec<_> = (0..=LOG_PAGE as u64).map(noted_at).collect();
    says(&script.notes, move |_, after| {
        let behind = after.map_or(0, |after| notes.iter().filter(|(id, _)| *id <= after).count());
        Fate::Instead(Ok(notes.iter().skip(behind).take(LOG_PAGE).cloned().collect()))
    });
    gateway.workers.releaser.read_notes().await;
    assert_eq!(gateway.workers.releaser.status().len, LOG_PAGE + 1);
    gateway.close().await;
}

async fn page_of(node: &Node, part: DataRef) -> DataRef {
    let listed = PartRef { number: 1, tag: [0; 16], checksum: None, data: Some(part) };
    stored(node, encode_manifest(&[listed])).await
}

/// The page is what says what is left.
#[tokio::test]
async fn a_page_goes_after_all_that_it_lists() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = releasing(&node, 10);
    let part = stored(&gateway, body(1, 300_000)).await;
    let page = page_of(&gateway, part).await;
    let key = key();
    let release = |is_page| gateway.workers.releaser.release_data_id(&key, page, is_page);
    says(&script.releases, move |_, shard| {
        if shard.data == part.id { Fate::Instead(Err(Error::Busy)) } else { Fate::Through }
    });
    assert_eq!(release(true).await, ReleaseOutcome::Later);
    assert_eq!((files(&directories, part), files(&directories, page)), (4, 4));
    says(&script.releases, |_, _| Fate::Through);
    let read = gateway.workers.deps.pins.hold([(SetId(0), part.id)]);
    assert_eq!(release(true).await, ReleaseOutcome::InUse, "a part is read");
    drop(read);
    assert_eq!(release(true).await, ReleaseOutcome::Done);
    assert_eq!((files(&directories, part), files(&directories, page)), (0, 0));
    gateway.close().await;
}

/// An unreadable register may name the data: it stays.
#[tokio::test]
async fn nothing_is_released_while_its_register_cannot_be_read() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = releasing(&node, 10);
    let data = stored(&gateway, body(1, 300_000)).await;
    says(&script.reads, |_, _| Fate::Instead(Err(Error::Busy)));
    let released = gateway.workers.releaser.release_data_id(&key(), data, false).await;
    assert_eq!(released, ReleaseOutcome::Later);
    assert_eq!(files(&directories, data), 4);
    gateway.close().await;
}
