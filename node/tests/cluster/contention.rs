//! Sixteen writers of one key through all nodes: none is refused for it, and on a quiet machine they are
//! together no slower than one alone (I-5, I-6).
//!
//! At four volumes a set, and in the long story at three, four and five. Writers that only write are
//! acknowledged; writers that replace a version they have seen win or get 412, and the replaced versions form
//! one chain. One writer and many take turns, so that a busy machine slows both. A gateway that hardly gets
//! to run may see a batch of its own overtaken by sixteen others between two tries, and then its outcome is
//! unknown: some writes may be in doubt, none is refused.
//!
//! How much many writers get done compared with one depends on the machine: only the long turns, on a quiet
//! one, require as much. Conflicts of gateways are counted always: rounds for each link of the chain. Links
//! are not compared with those of one client, for each link makes sixteen clients ask again, and the requests
//! are its cost.

use std::ops::Sub;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::harness::chain::Chain;
use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Dice, Home};
use crate::harness::s3::{Failure, S3};
use crate::harness::wait::{LATER, bounded, is_quiet};

/// Writers of the key.
const WRITERS: usize = 16;
/// How often one and many take turns: a few times, and until a busy moment of the machine changes little.
const TURNS: usize = 3;
const TURNS_LONG: usize = 20;
/// How long a turn is.
const TURN: Duration = Duration::from_millis(1500);
/// How long each of the figures is taken.
const FIGURES: Duration = Duration::from_secs(10);
/// Accept rounds that a link may cost all gateways together. One is its own; the others are of writers that
/// were overtaken, and of refusals that had to commit first what they were judged on.
const ACCEPTS_A_LINK_MAX: usize = 8;
/// The key that all write to, and the one that all replace.
const WRITTEN: &str = "contention/written";
const REPLACED: &str = "contention/replaced";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_writers_of_one_key_are_never_refused() {
    let Counts { one, many } = no_writer_is_refused(4, TURNS).await;
    assert!(one > 0 && many > 0, "{WRITERS} writers of one key: {many} writes, one alone: {one}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes, and a rate"]
async fn sixteen_writers_of_one_key_are_as_fast_as_one_alone() {
    for nodes in 3..=5 {
        let Counts { one, many } = no_writer_is_refused(nodes, TURNS_LONG).await;
        assert!(
            many >= one,
            "{WRITERS} writers of one key on {nodes} nodes: {many} writes, one alone: {one}"
        );
    }
}

/// Throughput of writers of one key: figures for a quiet machine and a release build, without a verdict. No
/// write is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "figures"]
async fn figures_of_writers_of_one_key() {
    for nodes in [1, 4] {
        let mut dice = Dice::of_this_run(&format!("figures on {nodes} nodes"));
        let cluster = cluster_of(nodes).start().await;
        let clients = cluster.with_bucket().await;
        for writers in [1, WRITERS, 4 * WRITERS] {
            let (mut took, mut in_doubt) = (Vec::new(), 0);
            let end = Instant::now() + FIGURES;
            let mut running = JoinSet::new();
            for writer in 0..writers {
                let (s3, dice) = (clients[writer % clients.len()].clone(), dice.split());
                running.spawn(timed_writes(s3, dice, end));
            }
            for (times, some) in bounded("the writers", LATER, running.join_all()).await {
                took.extend(times);
                in_doubt += some;
            }
            took.sort_unstable();
            let rate = took.len() as u64 / FIGURES.as_secs();
            let [median, p99] = [50, 99].map(|share| took[(took.len() - 1) * share / 100]);
            eprintln!(
                "{nodes} nodes, {writers} writers of one key: {rate} writes a second, median {median:.1?}, \
                 p99 {p99:.1?}, {in_doubt} in doubt"
            );
        }
    }
}

/// How long each write of one writer took, and how many are in doubt.
async fn timed_writes(s3: S3, mut dice: Dice, end: Instant) -> (Vec<Duration>, usize) {
    let (mut took, mut in_doubt) = (Vec::new(), 0);
    while Instant::now() < end {
        let began = Instant::now();
        match s3.put(WRITTEN, dice.body(Home::Inline)).await {
            Ok(()) => took.push(began.elapsed()),
            Err(Failure::Unavailable { status: 500, .. }) => in_doubt += 1,
            // By nodes that are late, not for other writers.
            Err(late) if late.is_slow_down() && !is_quiet() => {}
            Err(refused) => panic!("a writer is refused for the others: {refused:?}"),
        }
    }
    (took, in_doubt)
}

/// Writes that one writer got done in its turns, and that many did in theirs.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    one: usize,
    many: usize,
}

/// Rounds that the gateways began.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    prepares: f64,
    accepts: f64,
    reads: f64,
}

impl Rounds {
    async fn of(cluster: &TestCluster) -> Self {
        let mut rounds = Self::default();
        for node in cluster.running() {
            let metrics = node.metrics().await;
            let begun = |kind| metrics.get(&format!("sherd_register_rounds_total{{kind=\"{kind}\"}}"));
            rounds = Self {
                prepares: rounds.prepares + begun("prepare"),
                accepts: rounds.accepts + begun("accept"),
                reads: rounds.reads + begun("read"),
            };
        }
        rounds
    }

    /// For each change.
    fn each(self, changes: usize) -> String {
        let Self { prepares, accepts, reads } = self;
        let changes = f64::from(u32::try_from(changes).expect("a few thousand"));
        let [prepares, accepts, reads] = [prepares, accepts, reads].map(|rounds| rounds / changes);
        format!("{prepares:.2} prepares, {accepts:.2} accepts, {reads:.2} reads")
    }
}

impl Sub for Rounds {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            prepares: self.prepares - before.prepares,
            accepts: self.accepts - before.accepts,
            reads: self.reads - before.reads,
        }
    }
}

/// Lets one and many take turns; gives the writes of both.
async fn no_writer_is_refused(nodes: usize, turns: usize) -> Counts {
    let mut dice = Dice::of_this_run(&format!("contention on {nodes} nodes"));
    let cluster = cluster_of(nodes).start().await;
    let clients = cluster.with_bucket().await;
    let what = format!("contention on {nodes} nodes");
    let (mut written, mut in_doubt) = (Counts::default(), 0);
    let before = Rounds::of(&cluster).await;
    for _ in 0..turns {
        let (alone, none) = writes(&clients, &mut dice, 1).await;
        let (together, some) = writes(&clients, &mut dice, WRITERS).await;
        assert_eq!(none, 0, "nothing is in the way of one writer");
        written = Counts { one: written.one + alone, many: written.many + together };
        in_doubt += some;
    }
    let Counts { one, many } = written;
    let rounds = (Rounds::of(&cluster).await - before).each(one + many);
    eprintln!("{what}: {WRITERS} writers {many} writes, one {one}, {in_doubt} in doubt; each {rounds}");

    let first = dice.body(Home::Inline);
    clients[0].put_settled(REPLACED, first).await;
    let chain = Arc::new(Chain::default());
    let mut links = Counts::default();
    let before = Rounds::of(&cluster).await;
    for _ in 0..turns {
        links.one += replacements(&chain, &clients, &mut dice, 1).await;
        links.many += replacements(&chain, &clients, &mut dice, WRITERS).await;
    }
    let rounds = Rounds::of(&cluster).await - before;
    let (all, in_doubt) = (links.one + links.many, chain.in_doubt());
    eprintln!(
        "{what}: {WRITERS} clients {} links, one {}, {in_doubt} in doubt, {} answers; each link {}",
        links.many,
        links.one,
        chain.answers(),
        rounds.each(all)
    );
    assert_eq!(chain.refused(), 0, "no replacement is refused for the others");
    let mut shown = Vec::new();
    for s3 in &clients {
        shown.push(s3.get_settled(REPLACED).await.expect("it is not deleted").etag());
    }
    assert!(shown.iter().all(|etag| *etag == shown[0]), "nodes show different objects: {shown:?}");
    let met = chain.check(REPLACED, &first.etag(), &shown[0]);
    assert_eq!(met, all, "every acknowledged replacement is a link");
    // One client's link is one accept. Where gateways wait for the processor, more writers are overtaken.
    let most = f64::from(u32::try_from(links.one + ACCEPTS_A_LINK_MAX * links.many).expect("a few thousand"));
    assert!(
        !is_quiet() || rounds.accepts <= most,
        "the gateways are in each other's way: {rounds:?} for {links:?}"
    );
    assert!(links.many > 0, "a replacement gets through");
    written
}

/// How many writes `writers` writers get through in one turn, and how many are in doubt. None may be refused.
async fn writes(clients: &[S3], dice: &mut Dice, writers: usize) -> (usize, usize) {
    let end = Instant::now() + TURN;
    let mut running = JoinSet::new();
    for writer in 0..writers {
        let (s3, mut dice) = (clients[writer % clients.len()].clone(), dice.split());
        running.spawn(async move {
            let (mut done, mut in_doubt) = (0, 0);
            while Instant::now() < end {
                match s3.put(WRITTEN, dice.body(Home::Inline)).await {
                    Ok(()) => done += 1,
                    Err(Failure::Unavailable { status: 500, .. }) => in_doubt += 1,
                    // By nodes that are late, not for other writers.
                    Err(late) if late.is_slow_down() && !is_quiet() => {}
                    Err(refused) => panic!("a writer is refused for the others: {refused:?}"),
                }
            }
            (done, in_doubt)
        });
    }
    let counts = bounded("the writers", LATER, running.join_all()).await;
    counts.into_iter().fold((0, 0), |(done, in_doubt), (more, some)| (done + more, in_doubt + some))
}

/// How many replacements `writers` clients get through in one turn.
async fn replacements(chain: &Arc<Chain>, clients: &[S3], dice: &mut Dice, writers: usize) -> usize {
    let (end, before) = (Instant::now() + TURN, chain.acknowledged());
    let mut running = JoinSet::new();
    for writer in 0..writers {
        let (chain, s3, mut dice) =
            (Arc::clone(chain), clients[writer % clients.len()].clone(), dice.split());
        running.spawn(async move {
            while Instant::now() < end {
                chain.replace(&s3, &mut dice, REPLACED).await.expect("a HEAD, and an answer");
            }
        });
    }
    bounded("those who replace", LATER, running.join_all()).await;
    chain.acknowledged() - before
}
