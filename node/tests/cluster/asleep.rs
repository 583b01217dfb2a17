//! A gateway stands still between its accepts: one volume has the write, the others do not, and the client
//! has no answer (I-3, I-5).
//!
//! The links of the gateway are held so that its proposals reach one volume and no answer comes back; then it
//! is suspended. Clients of the other nodes go on meanwhile: the row of the one volume is found and finished,
//! or replaced. The gateway's messages arrive late, then the gateway goes on with rounds whose clients have
//! gone. All answers fit one order. A round in which no write was caught is repeated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Dice, Home};
use crate::harness::relay::{Link, Relay, Way};
use crate::harness::s3::{Failure, S3};
use crate::harness::wait::{LATER, bounded};
use crate::load::{Load, Step};

/// The gateway that is suspended, and the only other node that its calls reach.
const GATEWAY: usize = 0;
const REACHED: usize = 1;
/// Clients of the gateway, each with a key of its own.
const WRITERS: usize = 8;
/// Answers between two rounds.
const ANSWERS: usize = 32;
/// The writers stand still when none had an answer for this time.
const QUIET: Duration = Duration::from_millis(50);
/// After which a client of the gateway leaves its request, which may happen later, and begins another.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rounds at most until enough writes were caught.
const ROUNDS_MAX: usize = 20;
/// Writes that are caught at least.
const CAUGHT: usize = 2;

/// Long enough that the others take it for down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_asleep_between_its_accepts_breaks_no_order() {
    all_fits_one_order(Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn a_gateway_asleep_for_a_minute_between_its_accepts_breaks_no_order() {
    all_fits_one_order(Duration::from_mins(1)).await;
}

/// The clients of the gateway.
struct Writers {
    load: Arc<Load>,
    /// The write that each asks for at this moment, by its key.
    asked: Mutex<BTreeMap<String, u64>>,
    answered: watch::Sender<usize>,
    stopped: watch::Sender<bool>,
}

impl Writers {
    /// Writes one key until it is stopped, with any answers.
    async fn write(self: Arc<Self>, s3: S3, mut dice: Dice, key: String) {
        while !*self.stopped.borrow() {
            let body = dice.body(Home::Inline);
            self.asked.lock().expect("no writer panics").insert(key.clone(), body.id);
            let put = self.load.write(&s3, &key, body);
            match tokio::time::timeout(PATIENCE, put).await {
                Ok(Ok(())) => self.answered.send_modify(|count| *count += 1),
                Ok(Err(Failure::Unavailable { .. } | Failure::Lost(_))) | Err(_) => {}
                Ok(Err(refused)) => panic!("{key}: {refused:?}"),
            }
        }
    }

    fn asks_for(&self, key: &str, id: u64) -> bool {
        self.asked.lock().expect("no writer panics").get(key) == Some(&id)
    }

    async fn answers(&self, more: usize) {
        let mut answered = self.answered.subscribe();
        let wanted = *answered.borrow() + more;
        bounded("the writers", LATER, answered.wait_for(|count| *count >= wanted)).await.expect("it is here");
    }

    /// Waits until none of them has an answer for a while.
    async fn stand_still(&self) {
        let mut answered = self.answered.subscribe();
        while tokio::time::timeout(QUIET, answered.changed()).await.is_ok() {}
    }
}

async fn all_fits_one_order(asleep: Duration) {
    let mut dice = Dice::of_this_run("asleep");
    let mut cluster = cluster_of(4).with_links().start().await;
    let clients = cluster.with_bucket().await;
    let load = Load::new("asleep/");
    let keys: Vec<String> = (0..WRITERS).map(|writer| load.key(writer)).collect();
    let writers = Arc::new(Writers {
        load: Arc::clone(&load),
        asked: Mutex::default(),
        answered: watch::Sender::new(0),
        stopped: watch::Sender::new(false),
    });
    let mut running = JoinSet::new();
    for key in &keys {
        running.spawn(Arc::clone(&writers).write(clients[GATEWAY].clone(), dice.split(), key.clone()));
    }
    let (mut caught, mut rounds) = (0, 0);
    while caught < CAUGHT {
        assert!(rounds < ROUNDS_MAX, "no write is caught between its accepts");
        writers.answers(ANSWERS).await;
        fall_asleep(&cluster, &writers).await;
        caught += while_it_sleeps(&writers, &clients, &mut dice, &keys, asleep).await;
        // Messages of the gateway arrive while it still sleeps.
        cluster.relays_of(GATEWAY).for_each(Relay::mend);
        caught += while_it_sleeps(&writers, &clients, &mut dice, &keys, Duration::ZERO).await;
        cluster.node(GATEWAY).signal(Signal::CONT);
        rounds += 1;
    }
    writers.answers(ANSWERS).await;
    writers.stopped.send_replace(true);
    running.join_all().await;
    cluster.until_ready().await;
    for s3 in &clients {
        load.read_all(s3, &keys).await;
    }
    load.recorder.check();
    eprintln!("asleep: {caught} writes caught in {rounds} rounds, {} operations", load.recorder.len());
    cluster.until_whole().await;
    cluster.stop_all().await;
    cluster.is_clean();
}

/// Has what the gateway proposes reach one other volume, and suspends it.
async fn fall_asleep(cluster: &TestCluster, writers: &Writers) {
    for other in (0..cluster.len()).filter(|other| *other != GATEWAY) {
        let way = if other == REACHED { Way::Replies } else { Way::Requests };
        cluster.relay(GATEWAY, other).set(Link::Held(way));
    }
    writers.stand_still().await;
    cluster.node(GATEWAY).signal(Signal::STOP);
}

/// Reads all keys and writes every other one through the nodes that are awake, once and then for `asleep`.
/// Returns how many keys show a write that the gateway was asked for and has not acknowledged.
async fn while_it_sleeps(
    writers: &Writers,
    clients: &[S3],
    dice: &mut Dice,
    keys: &[String],
    asleep: Duration,
) -> usize {
    let (until, mut caught) = (Instant::now() + asleep, vec![false; keys.len()]);
    loop {
        for s3 in clients.iter().skip(1) {
            for (number, key) in keys.iter().enumerate() {
                let found =
                    bounded("a GET", LATER, writers.load.get(s3, key)).await.expect("three of four nodes");
                caught[number] |= found.is_some_and(|found| writers.asks_for(key, found));
                if number % 2 == 0 {
                    let put = writers.load.step(s3, dice, key, Step::Put(Home::Inline));
                    bounded("a PUT", LATER, put).await.expect("three of four nodes take it");
                }
            }
        }
        if Instant::now() >= until {
            return caught.into_iter().filter(|is_caught| *is_caught).count();
        }
    }
}
