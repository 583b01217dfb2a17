//! What a volume did not know to be committed when it was opened is settled before it passes for known.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use sherd_core::id::Timestamp;
use sherd_volume::request::Control;

use super::sweeps::{seal, tell};
use super::{DEADLINE, Directories, Node, accept_at, accept_on};
use crate::upkeep::{Standing, Upkeep};

/// Gives what an opening found so long to be settled, beyond the pause of the settle worker.
fn with_patience(node: &mut Node, found_patience: Duration) {
    let context = Arc::get_mut(&mut node.context).expect("nothing runs yet");
    context.settings.found_patience = found_patience;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_not_known_before_the_rows_that_its_opening_found_are_settled() {
    // After an opening ballots are ahead of the clock, and may still be when the node starts again.
    for ahead_ms in [0, 60_000] {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        let register = node.register("a").await;
        let reach = node.context.cluster.set_of(&register).reach.clone();
        let time = Timestamp::from_ms(node.context.clock.tick().as_ms() + ahead_ms);
        accept_at(&node, &register, &reach[1..], time).await;
        for volume in node.volumes.all() {
            node.context.note_peers(volume, volume.opened_count()).await;
        }
        node.close().await;

        let node = directories.start().await;
        let volume = node.volumes.get(reach[1].volume).expect("a volume of this node");
        let upkeep = Upkeep::over(Arc::clone(&node.context));
        let standing = || upkeep.standing(volume.id(), volume.opened_count());
        assert!(node.context.take_stock(volume.id()).await);
        let unsettled = async {
            // The other side has every chance to be done without.
            for _ in 0..200 {
                assert!(!node.context.rows_of(&register).await.are_equal());
            }
            assert_eq!(standing(), Standing::Unknown, "{ahead_ms} ms ahead");
        };
        assert!(node.comes_back_after(volume, unsettled).await);
        assert_eq!(standing(), Standing::Known);
        node.until_same(&register).await;
        node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_waits_for_rows_that_can_be_settled_and_for_no_others() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    node.create_bucket().await;
    let register = node.register("a").await;
    let reach = node.context.cluster.set_of(&register).reach.clone();
    accept_on(&node, &register, &reach[1..]).await;
    let volume = node.volumes.get(reach[1].volume).expect("a volume of this node");
    let upkeep = Upkeep::over(Arc::clone(&node.context));
    assert!(!node.context.came_back(volume.id(), volume.opened_count()).await, "nobody settles it");
    assert_eq!(upkeep.standing(volume.id(), volume.opened_count()), Standing::Unknown);

    let away: Vec<_> = reach[2..].iter().map(|reach| reach.volume).collect();
    node.take_away(away[0]).await;
    assert!(!node.context.found_rows_settled(volume.id()).await, "three of four can settle it");
    node.take_away(away[1]).await;
    assert!(node.context.found_rows_settled(volume.id()).await, "two of four cannot");
    node.volumes.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_sealed_bucket_hold_up_nobody() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::from_hours(1));
    node.create_bucket().await;
    let register = node.register("a").await;
    let reach = node.context.cluster.set_of(&register).reach.clone();
    accept_on(&node, &register, &reach[1..]).await;
    let deletion = seal(&node, 0..2).await;
    for one in &reach {
        let settled = tokio::time::timeout(DEADLINE, node.context.found_rows_settled(one.volume)).await;
        assert_eq!(settled, Ok(true), "two of four seals, and what is left settles nothing");
    }
    tell(&node, 0..1, &Control::Unseal { bucket: register.bucket, deletion }).await;
    let soon = Duration::from_millis(500);
    let settled = tokio::time::timeout(soon, node.context.found_rows_settled(reach[1].volume)).await;
    assert!(settled.is_err(), "one seal stops no write");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_written_meanwhile_are_not_waited_for() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let [first, second, other] =
        [node.register("a").await, node.register("b").await, node.register("c").await];
    let reach = node.context.cluster.set_of(&first).reach.clone();
    let volume = reach[1].volume;
    for register in [&first, &second] {
        accept_on(&node, register, &reach[1..]).await;
    }
    let deadline = tokio::time::Instant::now();
    let found = node.context.find_rows(volume, None, deadline).await.expect("it says");
    let left = async || node.context.rows_left(volume, &found, usize::MAX).await.expect("it says");
    accept_on(&node, &other, &reach[1..]).await;
    assert_eq!(left().await, [first.clone(), second.clone()]);
    assert_eq!(node.context.rows_left(volume, &found, 1).await, Some(vec![first.clone()]));
    accept_on(&node, &first, &reach[1..]).await;
    assert_eq!(left().await, [second], "the other is a later write's now");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_rows_are_waited_for_one_stretch_after_the_other() {
    let directories = Directories::new(1);
    let node = directories.start().await;
    node.create_bucket().await;
    let any = node.register("a").await;
    let reach = node.context.cluster.set_of(&any).reach.clone();
    let registers: Vec<_> = (0..4_100)
        .map(|n| sherd_core::id::RegisterKey::object(any.bucket, super::key_of(&format!("{n:04}"))))
        .collect();
    for some in registers.chunks(256) {
        join_all(some.iter().map(|register| accept_on(&node, register, &reach))).await;
    }
    let volume = reach[0].volume;
    let deadline = tokio::time::Instant::now();
    let first = node.context.find_rows(volume, None, deadline).await.expect("it says");
    let last = first.last.as_ref().expect("there are more");
    let second = node.context.find_rows(volume, Some(last), deadline).await.expect("it says");
    assert_eq!((first.rows.len(), second.rows.len(), &second.last), (4_096, 4, &None));
    assert_eq!(last, &registers[4_095]);
    let left = node.context.rows_left(volume, &second, usize::MAX).await;
    assert_eq!(left.as_deref(), Some(&registers[4_096..]));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_does_not_say_is_not_taken_for_settled() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    let volume = node.volumes.all()[0].id();
    assert!(node.context.found_rows_settled(volume).await);
    assert_eq!(node.volumes.close(DEADLINE).await, Vec::new());
    assert!(!node.context.found_rows_settled(volume).await);
}
