//! Everything at once, and the promises hold (I-3, I-5, I-7, I-11, I-13, I-18).
//!
//! ```text
//! clients -> gateways -> links through relays -> volumes   a plan from a seed harms all of it, by rounds
//!    |
//! histories: one order per key explains every answer; listings lack nothing; every byte is right
//! ```
//! Nodes are killed, stand still and sleep between their accepts; links are cut, silent and slow, in one
//! direction or both; one volume runs full; and in each round one volume loses its state: it is emptied, is
//! as it was earlier, or rots. A round ends with everything mended, and the next one begins when `status`
//! says that all is healed, as an operator would wait. In the end nothing that was acknowledged is missing
//! through any gateway.
//!
//! `SHERD_TEST_SEED` repeats a plan; `SHERD_CHAOS_SECONDS` says how long the long one goes on.

mod clients;
mod faults;
mod plan;

use std::sync::atomic::Ordering;
use std::time::Duration;

use sherd_net::tls::Role;
use tokio::time::Instant;

use self::clients::Crowd;
use self::faults::Scene;
use self::plan::Planner;
use crate::harness::cluster::cluster_of;
use crate::harness::data::Dice;
use crate::harness::mounts::Mounts;
use crate::harness::s3::{BUCKET, outcome};

/// The filesystem of the volume that runs full: what the story writes fits several times.
const FILESYSTEM: &str = "640m";
/// The node whose volume that is.
const FILLABLE: usize = 0;

/// How long a story goes on.
#[derive(Debug, Clone, Copy)]
enum Length {
    Rounds(usize),
    For(Duration),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_under_faults_for_a_minute() {
    chaos(4, Length::Rounds(2), Duration::from_secs(3)).await;
}

/// A third of the time each on four, five and six nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten minutes"]
async fn nothing_acknowledged_is_lost_under_faults_for_ten_minutes() {
    let seconds = std::env::var("SHERD_CHAOS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let third = Duration::from_secs(seconds.unwrap_or(600) / 3);
    for nodes in 4..=6 {
        chaos(nodes, Length::For(third), Duration::from_mins(1)).await;
    }
}

async fn chaos(nodes: usize, length: Length, still_max: Duration) {
    let mut dice = Dice::of_this_run(&format!("chaos on {nodes} nodes"));
    let mut cluster = cluster_of(nodes).with_links().prepare().await;
    let mounts = Mounts::new(vec![cluster.member(FILLABLE).volume(1)], FILESYSTEM);
    if mounts.is_none() {
        eprintln!("SKIPPED: no volume runs full, for this user cannot mount filesystems of its own");
    }
    cluster.start_all().await;
    cluster.until_ready().await;
    cluster.with_bucket().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let crowd = Crowd::new(nodes);
    let mut planner = Planner::new(dice.split(), nodes, mounts.is_some().then_some(FILLABLE), still_max);
    let mut scene = Scene::new(cluster, &crowd, dice.split());
    let clients = crowd.start(&mut dice);

    let begin = Instant::now();
    for round in 1.. {
        let before = crowd.counts.answered.load(Ordering::Relaxed);
        scene.play(&planner.next_round()).await;
        let answered = crowd.counts.answered.load(Ordering::Relaxed) - before;
        eprintln!("chaos: round {round}: {answered} answers in {:.0} s", begin.elapsed().as_secs_f64());
        assert!(answered > 0, "clients got through");
        let is_last = match length {
            Length::Rounds(rounds) => round == rounds,
            Length::For(time) => begin.elapsed() >= time,
        };
        if is_last {
            break;
        }
        crowd.rest(true);
        for node in 0..nodes {
            scene.cluster.until_status_is_healed(node, &admin).await;
        }
        eprintln!("chaos: all is healed after {:.0} s", begin.elapsed().as_secs_f64());
        crowd.rest(false);
    }
    crowd.stop(clients).await;
    everything_is_there(scene, &crowd).await;
    drop(mounts);
}

/// Reads and lists everything through each gateway, and judges all that was seen.
async fn everything_is_there(scene: Scene, crowd: &Crowd) {
    scene.cluster.until_ready().await;
    let (load, keys) = (&crowd.load, crowd.keys());
    let clients = scene.cluster.clients();
    let mut listings = Vec::new();
    for s3 in &clients {
        load.read_all(s3, &keys).await;
        load.list_all(s3, &keys).await;
        listings.push(s3.list_settled("").await);
    }
    for listing in &listings {
        assert_eq!(listing, &listings[0], "gateways list different objects");
    }
    load.recorder.check();
    let counts = &crowd.counts;
    let count = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed);
    eprintln!(
        "chaos: {} operations on {} keys in {BUCKET}, {} objects in the end; {} answered, {} refused, {} in doubt, {} left",
        load.recorder.len(),
        keys.len(),
        listings[0].len(),
        count(&counts.answered),
        count(&counts.unavailable),
        count(&counts.unknown),
        count(&counts.left),
    );
    drop(outcome(clients[0].sdk().head_bucket().bucket(BUCKET).send().await).expect("the bucket is there"));
}
