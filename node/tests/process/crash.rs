//! A process that is killed at any moment keeps what it acknowledged.
//!
//! Writers put objects of every home, overwrite, delete and complete uploads; the node is killed with SIGKILL
//! while they are at it, and started again, five times. Afterwards every acknowledged object is there with
//! its exact bytes (I-8), and every write that was cut is absent or whole. The volumes verify at the end.
//! Data that was replaced before a kill goes after its grace: by default on the paused clock of `one_thread`,
//! here when ignored tests are asked for.

use std::time::Duration;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::{Node, empty, volumes, wait};
use crate::load::{Expected, Load, Plan, Step};

/// Writers at one time.
const WRITERS: usize = 6;
/// Keys that each round begins.
const KEYS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_outlive_five_kills() {
    acknowledged_writes_outlive(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn acknowledged_writes_outlive_thirty_kills() {
    acknowledged_writes_outlive(30).await;
}

async fn acknowledged_writes_outlive(kills: usize) {
    let mut dice = Dice::of_this_run("crash");
    let load = Load::new("crash/");
    let mut node = empty().start().await;
    node.with_bucket().await;
    let mut keys: Vec<String> = Vec::new();
    let mut acknowledged = 0;
    for round in 0..kills {
        let fresh: Vec<_> = (0..KEYS).map(|key| load.key(format_args!("{round}/{key}"))).collect();
        // Some of the older keys are overwritten and deleted too.
        let older = keys.iter().filter(|_| dice.below(8) == 0).cloned().collect::<Vec<_>>();
        let plan =
            Plan { keys: [fresh.clone(), older].concat(), steps: steps(), expected: Expected::Answered };
        let clients = load.start(&node.s3(), &mut dice, WRITERS, &plan);
        let answers = 20 + dice.below(60);
        load.answers(answers).await;
        acknowledged += answers;
        let stopped = node.kill().await;
        load.stop(clients).await;
        keys.extend(fresh);

        node = stopped.start().await;
        node.until_ready().await;
        let s3 = node.s3();
        load.read_all(&s3, &plan.keys).await;
        load.list_all(&s3, &keys).await;
    }
    assert!(acknowledged >= 20 * kills);
    load.read_all(&node.s3(), &keys).await;
    load.recorder.check();
    eprintln!("crash: {} operations on {} keys over {kills} kills", load.recorder.len(), keys.len());
    node.until_whole().await;
    node.stop().await.is_clean();
}

/// For the grace of two minutes (the shortest there is), and what comes after it.
const AFTER_GRACE: Duration = Duration::from_mins(6);
/// Large objects, each of which is replaced.
const REPLACED: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: the grace"]
async fn data_replaced_before_a_kill_goes_after_its_grace() {
    let node = empty().serve("upkeep.release_grace = \"2m\"").start().await;
    let s3 = node.with_bucket().await;
    for id in 0..2 * REPLACED {
        let key = format!("large/{}", id % REPLACED);
        s3.put_settled(&key, Body { id, len: 2 << 20 }).await;
    }
    // Lazy notes go with the frames of these.
    for id in 0..REPLACED {
        s3.put_settled(&format!("small/{id}"), Body { id, len: 100 }).await;
    }
    let files = |node: &Node| -> usize {
        node.volumes().iter().map(|volume| volumes::shard_files(volume).len()).sum()
    };
    let (before, wanted) = (files(&node), files(&node) / 2);
    assert_eq!(before, usize::try_from(2 * REPLACED).expect("few") * node.volumes().len());
    let node = node.kill().await.start().await;
    node.until_ready().await;
    wait::eventually("the space of what was replaced is given back", AFTER_GRACE, async || {
        let left = files(&node);
        if left == wanted { Ok(()) } else { Err(format!("{left} shard files, {wanted} are named")) }
    })
    .await;
    let s3 = node.s3();
    for id in REPLACED..2 * REPLACED {
        let key = format!("large/{}", id % REPLACED);
        assert_eq!(s3.get_settled(&key).await, Some(Body { id, len: 2 << 20 }));
    }
    node.stop().await.is_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_process_goes_on_where_it_was() {
    let mut dice = Dice::of_this_run("suspend");
    let load = Load::new("suspend/");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let keys: Vec<_> = (0..4).map(|key| load.key(key)).collect();
    // Clients in each other's way may get an unknown outcome.
    let plan = Plan { keys: keys.clone(), steps: steps(), expected: Expected::Answered };
    let clients = load.start(&s3, &mut dice, 4, &plan);
    for _ in 0..5 {
        load.answers(10).await;
        node.signal(rustix::process::Signal::STOP);
        wait::eventually("the process stands still", wait::SOON, async || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.pid()));
            let stat = stat.expect("it is there, suspended or not");
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| &rest[..1]);
            if state == "T" { Ok(()) } else { Err(format!("it is in state {state}")) }
        })
        .await;
        node.signal(rustix::process::Signal::CONT);
    }
    load.answers(10).await;
    load.stop(clients).await;
    load.read_all(&s3, &keys).await;
    load.recorder.check();
}

/// Mostly small objects: they are what many writers share a sync for.
fn steps() -> Vec<Step> {
    let inline = [Step::Put(Home::Inline); 5];
    let packed = [Step::Put(Home::Packed); 4];
    [&inline[..], &packed, &[Step::Put(Home::File), Step::Upload, Step::Delete, Step::Delete]].concat()
}
