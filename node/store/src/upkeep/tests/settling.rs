//! Rows that a volume had not marked as committed when it was opened are settled before it passes for known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use futures::future::join_all;
use sherd_core::id::{RegisterKey, Timestamp};
use sherd_core::message::{Control, UnsettledKind};
use sherd_core::record::{Changes, State, Value};
use sherd_core::register::EncodedValue;

use super::sweeps::{seal, tell};
use super::{DEADLINE, Directories, Node, accept_at, accept_on, accept_value};
use crate::peer::VolumeRoute;
use crate::upkeep::rows::rows_of;
use crate::upkeep::rows::settle::RowsAhead;
use crate::upkeep::{OpeningStatus, Upkeep};
use crate::volumes::{LocalVolume, ServingVolume, WORKERS};

/// Sets the time that found rows may take to be settled, beyond the pause of the settle worker.
fn with_patience(node: &mut Node, found_patience: Duration) {
    node.change_deps(|deps| deps.settings.found_patience = found_patience);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_not_known_before_the_rows_that_its_opening_found_are_settled() {
    // After an opening ballots are ahead of the clock, and may still be when the node starts again.
    for ahead_ms in [0, 60_000] {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        let register = node.register("a").await;
        let route = node.workers.deps.cluster.set_of(&register).routes.clone();
        let time = Timestamp::from_ms(node.workers.deps.clock.tick().as_ms() + ahead_ms);
        accept_at(&node, &register, &route[1..], time).await;
        for volume in node.volumes.all() {
            node.note_peers(volume, volume.opened_count()).await;
        }
        node.close().await;

        let node = directories.start().await;
        let volume = node.volumes.get(route[1].volume).expect("a volume of this node");
        let upkeep = Upkeep::over(Arc::clone(&node.workers));
        let standing = || upkeep.standing(volume.id(), volume.opened_count());
        assert!(node.workers.follower.load_known_damage(volume.id()).await);
        let unsettled = async {
            // The other side has every chance to be done without.
            for _ in 0..200 {
                assert!(!rows_of(&node.workers.deps, &register).await.are_equal());
            }
            assert_eq!(standing(), OpeningStatus::Unknown, "{ahead_ms} ms ahead");
        };
        assert!(node.comes_back_after(volume, unsettled).await);
        assert_eq!(standing(), OpeningStatus::Known);
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
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    accept_on(&node, &register, &route[1..]).await;
    let volume = node.volumes.get(route[1].volume).expect("a volume of this node");
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    let now = node.workers.follower.comparison_point(volume.opened_count());
    assert!(!node.workers.follower.bring_up_to_date(volume.id(), now).await, "nobody settles it");
    assert_eq!(upkeep.standing(volume.id(), volume.opened_count()), OpeningStatus::Unknown);

    let away: Vec<_> = route[2..].iter().map(|route| route.volume).collect();
    node.take_away(away[0]).await;
    assert!(
        !node.workers.follower.found.found_rows_settled(volume.id()).await,
        "three of four can settle it"
    );
    node.take_away(away[1]).await;
    assert!(node.workers.follower.found.found_rows_settled(volume.id()).await, "two of four cannot");
    node.volumes.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_sealed_bucket_hold_up_nobody() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::from_hours(1));
    node.create_bucket().await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    accept_on(&node, &register, &route[1..]).await;
    let deletion = seal(&node, 0..2).await;
    for one in &route {
        let settled =
            tokio::time::timeout(DEADLINE, node.workers.follower.found.found_rows_settled(one.volume)).await;
        assert_eq!(settled, Ok(true), "two of four seals, and what is left settles nothing");
    }
    tell(&node, 0..1, &Control::Unseal { bucket: register.bucket, deletion }).await;
    let soon = Duration::from_millis(500);
    let settled =
        tokio::time::timeout(soon, node.workers.follower.found.found_rows_settled(route[1].volume)).await;
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
    let route = node.workers.deps.cluster.set_of(&first).routes.clone();
    let volume = route[1].volume;
    for register in [&first, &second] {
        accept_on(&node, register, &route[1..]).await;
    }
    let deadline = tokio::time::Instant::now();
    let mut found = node.workers.follower.found.find_rows(volume, None, deadline).await.expect("it says");
    accept_on(&node, &other, &route[1..]).await;
    let left = node.workers.follower.found.rows_left(volume, &mut found, usize::MAX).await.expect("it says");
    assert_eq!(left, [first.clone(), second.clone()]);
    assert_eq!(node.workers.follower.found.rows_left(volume, &mut found, 1).await, Some(vec![first.clone()]));
    accept_on(&node, &first, &route[1..]).await;
    let left = node.workers.follower.found.rows_left(volume, &mut found, usize::MAX).await.expect("it says");
    assert_eq!(left, [second], "the other is a later write's now");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_rows_are_waited_for_one_stretch_after_the_other() {
    let directories = Directories::new(1);
    let node = directories.start().await;
    node.create_bucket().await;
    let any = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&any).routes.clone();
    let registers: Vec<_> = (0..4_100)
        .map(|n| sherd_core::id::RegisterKey::object(any.bucket, super::key_of(&format!("{n:04}"))))
        .collect();
    for some in registers.chunks(256) {
        join_all(some.iter().map(|register| accept_on(&node, register, &route))).await;
    }
    let volume = route[0].volume;
    let deadline = tokio::time::Instant::now();
    let mut first = node.workers.follower.found.find_rows(volume, None, deadline).await.expect("it says");
    let last = first.last.clone().expect("there are more");
    let mut second =
        node.workers.follower.found.find_rows(volume, Some(&last), deadline).await.expect("it says");
    assert_eq!((first.rows.len(), second.rows.len(), &second.last), (4_096, 4, &None));
    assert_eq!(last, registers[4_095]);
    for (found, rows) in [(&mut first, &registers[..4_096]), (&mut second, &registers[4_096..])] {
        let left = node.workers.follower.found.rows_left(volume, found, usize::MAX).await;
        assert_eq!(left.as_deref(), Some(rows));
    }
    node.close().await;
}

/// As the settle worker leaves it whose identity write was cut short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_too_few_volumes_took_anew_is_still_waited_for() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    node.create_bucket().await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    accept_on(&node, &register, &route[1..]).await;
    let volume = route[1].volume;
    let deadline = tokio::time::Instant::now();
    let mut found = node.workers.follower.found.find_rows(volume, None, deadline).await.expect("it says");
    accept_on(&node, &register, &route[1..3]).await;
    assert_eq!(
        node.workers.follower.found.rows_left(volume, &mut found, 1).await,
        Some(vec![register.clone()])
    );
    accept_on(&node, &register, &route[1..]).await;
    assert_eq!(
        node.workers.follower.found.rows_left(volume, &mut found, 1).await,
        Some(Vec::new()),
        "A volumes hold it"
    );
    assert!(!node.workers.follower.found.found_rows_settled(volume).await, "nobody has said so yet");
    node.close().await;
}

/// Whether the volumes' background work has made a volume pass for known, or not, in time.
async fn until_known(upkeep: &Upkeep, volume: &LocalVolume, is_known: bool) {
    let reached = async {
        while (upkeep.standing(volume.id(), volume.opened_count()) == OpeningStatus::Known) != is_known {
            crate::upkeep::tests::between_looks().await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, reached).await.is_ok(), "known: not {is_known}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_were_sealed_are_waited_for_when_their_seals_have_gone() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    node.create_bucket().await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    accept_on(&node, &register, &route[1..]).await;
    let volume = node.volumes.get(route[1].volume).expect("a volume of this node");
    let deletion = seal(&node, 0..4).await;
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    upkeep.run("volumes", |workers| async move { workers.follower.follow_volumes().await });
    until_known(&upkeep, volume, true).await;
    tell(&node, 0..4, &Control::Unseal { bucket: register.bucket, deletion }).await;
    until_known(&upkeep, volume, false).await;
    upkeep.run("settle", |workers| async move { workers.settler.settle_rows().await });
    until_known(&upkeep, volume, true).await;
    upkeep.stop().await;
    node.close().await;
}

/// A row that each volume which holds it can only show to be there.
async fn accept_unreadable(node: &Node, register: &RegisterKey, route: &[VolumeRoute]) {
    let value = Value { changes: Changes::default(), state: State::Tombstone };
    let mut value = EncodedValue::of(&value, bytes::Bytes::new()).expect("within its limits");
    value.head = vec![0xff; value.head.len()].into();
    accept_value(node, register, route, value, node.workers.deps.clock.tick()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_nobody_can_read_is_damage_and_holds_up_nobody() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    node.create_bucket().await;
    let [register, other] = [node.register("a").await, node.register("b").await];
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    accept_unreadable(&node, &register, &route[1..3]).await;
    let volume = route[1].volume;
    node.workers.settler.settle_volume(volume, &mut RowsAhead::default()).await;
    let unsettled = async || {
        let page = route[1].peer.unsettled(volume, UnsettledKind::Uncommitted, None, 10);
        page.await.expect("it says").rows.len()
    };
    assert_eq!(unsettled().await, 1, "two of four cannot propose what they do not know");
    accept_on(&node, &other, &route[1..3]).await;
    assert!(!node.workers.follower.found.found_rows_settled(volume).await, "the other can be settled");
    assert_eq!(node.workers.scrubber.status().findings_count, 0);
    node.workers.settler.settle_volume(volume, &mut RowsAhead::default()).await;
    // The commit reaches the volume by a hint, which no call waits for.
    let hint = async {
        while unsettled().await > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, hint).await.expect("the hint of the commit");
    assert!(node.workers.follower.found.found_rows_settled(volume).await);
    assert_eq!((node.workers.scrubber.status().findings_count, node.workers.queue.mrf.status().len), (1, 1));
    assert_eq!(unsettled().await, 1);
    node.close().await;
}

/// Gives a volume's read workers a job that ends with the gate; whether it fits their queue.
fn fits(
    serving: &ServingVolume,
    gate: &Arc<parking_lot::Mutex<Receiver<()>>>,
    begun: &Arc<AtomicUsize>,
) -> bool {
    let (gate, begun) = (Arc::clone(gate), Arc::clone(begun));
    let job = move || {
        begun.fetch_add(1, Ordering::Relaxed);
        assert!(gate.lock().recv().is_err(), "nothing is ever sent");
    };
    serving.reads.run(job).is_ok()
}

/// A volume may be overloaded for longer than an answer is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_wait_for_volumes_that_are_there_and_too_busy_to_answer() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    accept_on(&node, &register, &node.workers.deps.cluster.set_of(&register).routes[1..]).await;
    node.close().await;
    // A restart drops cached answers: its read workers are asked.
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    let (gate, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(parking_lot::Mutex::new(wait));
    for busy in &route[2..] {
        let serving = node.local(busy.volume).serving().expect("it serves");
        let begun_count = Arc::new(AtomicUsize::new(0));
        // All of its workers have begun one that does not end, and the queue behind them is full.
        loop {
            let are_all_at_it = begun_count.load(Ordering::Relaxed) == WORKERS;
            if !fits(&serving, &wait, &begun_count) && are_all_at_it {
                break;
            }
        }
    }
    assert_eq!(rows_of(&node.workers.deps, &register).await.late.len(), 2);
    let settled = node.workers.follower.found.found_rows_settled(route[1].volume);
    let settled = tokio::time::timeout(Duration::from_millis(500), settled).await;
    assert!(settled.is_err(), "three of four can settle it when they get to it");
    drop(gate);
    let settled = async {
        // The workers reach the question when their queue is done.
        while !node.workers.follower.found.found_rows_settled(route[1].volume).await {
            node.workers.settler.settle_volume(route[1].volume, &mut RowsAhead::default()).await;
        }
    };
    tokio::time::timeout(DEADLINE, settled).await.expect("it is settled in time");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_does_not_say_is_not_taken_for_settled() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    with_patience(&mut node, Duration::ZERO);
    let volume = node.volumes.all()[0].id();
    assert!(node.workers.follower.found.found_rows_settled(volume).await);
    assert_eq!(node.volumes.close(DEADLINE).await, Vec::new());
    assert!(!node.workers.follower.found.found_rows_settled(volume).await);
}
