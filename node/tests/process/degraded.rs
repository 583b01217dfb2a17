//! Volumes are taken away while clients work, and given back empty.
//!
//! Of 2+2 volumes one may go without a request failing. With a second one gone, what is committed
//! is still read, and writes are refused with 503 SlowDown. Empty folders in their places are
//! rebuilt by the running node, without a restart: afterwards any two other volumes may go. A
//! rebuild may be killed at any moment: what votes afterwards has adopted everything (I-11).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use crate::harness::data::{Dice, Home};
use crate::harness::s3::S3;
use crate::harness::wait::{LATER, SOON, eventually};
use crate::harness::{Node, Stopped, VOLUMES, empty, volumes};
use crate::load::{Expected, Load, Plan, Step};

/// How long after its start upkeep has looked at every row that is not settled, and again.
const SETTLE_SECONDS: f64 = 6.0;
/// Clients at one time.
const CLIENTS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_go_and_come_back_under_load() {
    let mut dice = Dice::of_this_run("degraded");
    let load = Load::new("degraded/");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let keys: Vec<_> = (0..24).map(|key| load.key(key)).collect();
    let plan = Plan { keys: keys.clone(), steps: steps(), expected: Expected::Done };

    let clients = load.start(&s3, &mut dice, CLIENTS, &plan);
    load.answers(60).await;
    volumes::remove(&node.volume(4));
    load.answers(60).await;
    node.until_state(4, "offline").await;
    load.answers(60).await;
    load.stop(clients).await;

    settle(&load, &s3, &mut dice, &keys).await;
    volumes::remove(&node.volume(3));
    node.until_state(3, "offline").await;
    writes_are_refused_and_reads_go_on(&load, &s3, &mut dice, &keys).await;

    let seen = give_back(&node, &[3, 4]).await;
    eprintln!("degraded: the volumes given back were {seen:?}");
    assert!(seen.contains("recovering"), "{seen:?}");
    assert!(!seen.contains("failed"), "{seen:?}");
    node.until_whole().await;

    let clients = load.start(&s3, &mut dice, CLIENTS, &plan);
    load.answers(60).await;
    load.stop(clients).await;
    settle(&load, &s3, &mut dice, &keys).await;
    node.until_whole().await;
    let stopped = node.stop().await;
    stopped.is_clean();

    // The volumes that were never away may go as well.
    everything_is_read_without([1, 2], stopped, &load, &keys).await;
}

/// `rm -rf` under load: shards that arrive meanwhile keep it from emptying the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_removed_in_part_is_taken_up_again() {
    let mut dice = Dice::of_this_run("removed in part");
    let load = Load::new("part/");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let keys: Vec<_> = (0..24).map(|key| load.key(key)).collect();
    for (key, home) in keys.iter().zip(Home::ALL.into_iter().cycle()) {
        load.step_settled(&s3, &mut dice, key, Step::Put(home)).await;
    }
    node.until_whole().await;
    let volume = node.volume(2);
    volumes::remove_all_but_shards(&volume);
    eventually("the remains become a volume", LATER, async || {
        if volume.join("volume.json").exists() { Ok(()) } else { Err("no identity yet".to_owned()) }
    })
    .await;
    node.until_whole().await;
    let stopped = settled(node).await;
    stopped.is_clean();

    everything_is_read_without([1, 3], stopped, &load, &keys).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_is_killed_again_and_again_ends() {
    let mut dice = Dice::of_this_run("killed rebuild");
    let load = Load::new("rebuild/");
    let mut node = empty().start().await;
    let s3 = node.with_bucket().await;
    let keys: Vec<_> = (0..40).map(|key| load.key(key)).collect();
    for (key, home) in keys.iter().zip(Home::ALL.into_iter().cycle()) {
        load.step_settled(&s3, &mut dice, key, Step::Put(home)).await;
    }
    node.until_whole().await;
    let plan = Plan { keys: keys.clone(), steps: steps(), expected: Expected::Answered };
    // Each volume is lost once, and the node is killed while it is being rebuilt under load.
    for number in 1..=4 {
        let stopped = node.kill().await;
        volumes::wipe(&stopped.volume(number));
        node = stopped.start().await;
        for _ in 0..2 {
            let clients = load.start(&node.s3(), &mut dice, CLIENTS, &plan);
            load.answers(dice.below(20)).await;
            let stopped = node.kill().await;
            load.stop(clients).await;
            node = stopped.start().await;
        }
        node.until_whole().await;
        load.read_all(&node.s3(), &keys).await;
    }
    load.recorder.check();
    let stopped = settled(node).await;
    stopped.is_clean();

    everything_is_read_without([2, 3], stopped, &load, &keys).await;
}

/// The rebuilt volume has everything: a node whose other volumes go has all of it.
async fn everything_is_read_without(gone: [usize; 2], stopped: Stopped, load: &Load, keys: &[String]) {
    let node = stopped.start().await;
    node.until_ready().await;
    for number in gone {
        volumes::remove(&node.volume(number));
        node.until_state(number, "offline").await;
    }
    load.read_all(&node.s3(), keys).await;
    load.recorder.check();
}

/// Stops a node once its volumes know every row as committed. A kill loses hints, and upkeep settles
/// what they were about a little later: until then those keys need more than two volumes.
async fn settled(mut node: Node) -> Stopped {
    let deadline = Instant::now() + LATER;
    loop {
        node.until_whole().await;
        eventually("upkeep had its time", LATER, async || {
            let uptime = node.uptime().await;
            if uptime > SETTLE_SECONDS { Ok(()) } else { Err(format!("it runs for {uptime} s")) }
        })
        .await;
        let stopped = node.stop().await;
        let said = stopped.inspect().expect("clean volumes");
        if said.matches("unsettled 0)").count() == VOLUMES {
            return stopped;
        }
        assert!(Instant::now() < deadline, "upkeep does not settle what kills left: {said}");
        node = stopped.start().await;
        node.until_ready().await;
    }
}

/// Has every key's last write known as committed by the volumes that stay: the hint of it travels
/// with a later write, and two volumes alone cannot decide what they do not know.
async fn settle(load: &Load, s3: &S3, dice: &mut Dice, keys: &[String]) {
    load.read_all(s3, keys).await;
    for number in 0..4 {
        let bystander = load.key(format_args!("bystander/{number}"));
        load.step(s3, dice, &bystander, Step::Put(Home::Inline)).await.expect("a write");
    }
}

async fn writes_are_refused_and_reads_go_on(load: &Arc<Load>, s3: &S3, dice: &mut Dice, keys: &[String]) {
    let refused = load.key("refused");
    let probes = RefCell::new(dice.split());
    eventually("writes are refused", SOON, async || {
        let mut probe = probes.borrow_mut().split();
        match load.step(s3, &mut probe, &refused, Step::Put(Home::Inline)).await {
            Err(failure) if failure.is_slow_down() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let steps = vec![Step::Get, Step::Get, Step::Head, Step::List];
    let readers = Plan { keys: keys.to_vec(), steps, expected: Expected::Done };
    let clients = load.start(s3, dice, CLIENTS, &readers);
    for step in [Step::Put(Home::Inline), Step::Put(Home::Packed), Step::Put(Home::File), Step::Delete] {
        let failure = load.step(s3, dice, &refused, step).await.expect_err("two volumes cannot accept");
        assert!(failure.is_slow_down(), "{step:?}: {failure:?}");
    }
    load.answers(100).await;
    load.stop(clients).await;
    load.read_all(s3, keys).await;
}

/// Makes empty folders where volumes were, and returns the states they were seen in until they are
/// online.
async fn give_back(node: &Node, numbers: &[usize]) -> BTreeSet<String> {
    for number in numbers {
        std::fs::create_dir(node.volume(*number)).expect("its parent is there");
    }
    let mut seen = BTreeSet::new();
    for number in numbers {
        let seen = RefCell::new(&mut seen);
        eventually("a volume given back serves", LATER, async || {
            let state = node.state(*number).await;
            seen.borrow_mut().insert(state.clone());
            if state == "online" { Ok(()) } else { Err(format!("volume {number} is {state}")) }
        })
        .await;
    }
    seen
}

fn steps() -> Vec<Step> {
    let puts = [Home::Inline, Home::Inline, Home::Packed, Home::Packed, Home::File].map(Step::Put);
    [&puts[..], &[Step::Get; 6], &[Step::Upload, Step::Delete, Step::Head, Step::List]].concat()
}
