//! Does to a cluster what a plan says, and undoes it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::clients::{Crowd, Standing};
use super::plan::{DRAIN, Event, KEPT_BACK, Loss, Trouble};
use crate::harness::Node;
use crate::harness::cluster::{TestCluster, name};
use crate::harness::data::Dice;
use crate::harness::relay::{Link, Relay, Way};
use crate::harness::volumes;

/// Bits of a volume's log that flip at one time.
const FLIPS_IN_LOG: usize = 3;
/// Bytes that a full volume is filled with at one time.
const BALLAST: usize = 1 << 20;

/// A cluster, and what happens to it.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) cluster: TestCluster,
    crowd: Arc<Crowd>,
    dice: Dice,
    /// Copies of volumes, a folder for each node.
    copies: TempDir,
    starting: JoinSet<(usize, Node)>,
}

/// A step of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The preparation, if that takes its time.
    Prepare,
    Begin,
    End,
}

impl Scene {
    /// All nodes run, and the crowd has their addresses.
    pub(super) fn new(cluster: TestCluster, crowd: &Arc<Crowd>, dice: Dice) -> Self {
        for node in 0..cluster.len() {
            crowd.know(node, cluster.node(node).s3());
        }
        let copies = TempDir::new().expect("a temporary folder");
        Self { cluster, crowd: Arc::clone(crowd), dice, copies, starting: JoinSet::new() }
    }

    /// Lets all events of a round happen, and ends when nothing is disturbed any more.
    pub(super) async fn play(&mut self, events: &[Event]) {
        let begin = Instant::now();
        let mut actions = Vec::new();
        for event in events {
            let before = match event.trouble {
                Trouble::Loses(_, Loss::Rotten) => DRAIN,
                Trouble::SleepsBetweenAccepts(_) => KEPT_BACK,
                _ => Duration::ZERO,
            };
            let trouble = event.trouble;
            actions.push((event.begins, Action::Prepare, trouble));
            actions.push((event.begins + before, Action::Begin, trouble));
            actions.push((event.ends + before, Action::End, trouble));
        }
        actions.sort_by_key(|(at, ..)| *at);
        for (number, (at, action, trouble)) in actions.into_iter().enumerate() {
            self.wait(begin + at).await;
            match action {
                Action::Prepare => self.prepare(trouble),
                Action::Begin => {
                    eprintln!("chaos: at {:.1} s {trouble:?}", begin.elapsed().as_secs_f64());
                    self.begin(trouble).await;
                }
                Action::End => self.end(trouble),
            }
            if number % 8 == 0 {
                self.crowd.next_generation();
            }
        }
        self.cluster.relays().for_each(Relay::mend);
        while let Some(started) = self.starting.join_next().await {
            self.take_up(started.expect("starting a node does not panic"));
        }
    }

    /// Waits for a moment, and takes up the nodes that were started meanwhile.
    async fn wait(&mut self, until: Instant) {
        loop {
            // Cancel-safe: a node that has started stays in the set until it is taken.
            tokio::select! {
                biased;
                Some(started) = self.starting.join_next() => {
                    self.take_up(started.expect("starting a node does not panic"));
                }
                () = sleep_until(until) => return,
            }
        }
    }

    fn take_up(&mut self, (node, running): (usize, Node)) {
        self.crowd.know(node, running.s3());
        self.cluster.take_up(node, running);
    }

    fn prepare(&self, trouble: Trouble) {
        match trouble {
            Trouble::Loses(node, Loss::Rotten) => self.crowd.set(node, Standing::Gone),
            Trouble::SleepsBetweenAccepts(node) => {
                // One volume answers, and the others have the call before them.
                for other in self.others(node).skip(1) {
                    self.cluster.relay(node, other).set(Link::Held(Way::Requests));
                }
            }
            _ => {}
        }
    }

    async fn begin(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Killed(node) => {
                self.crowd.set(node, Standing::Gone);
                self.cluster.kill(node).await;
                volumes::copy(&self.volume(node), &self.copy_of(node));
            }
            Trouble::StandsStill(node) | Trouble::SleepsBetweenAccepts(node) => {
                self.crowd.set(node, Standing::StandsStill);
                self.cluster.node(node).signal(Signal::STOP);
            }
            Trouble::Full(node) => fill(&self.volume(node)),
            Trouble::Link(from, to, link) => self.cluster.relay(from, to).set(link),
            Trouble::Links(one, other, link) => {
                self.cluster.relay(one, other).set(link);
                self.cluster.relay(other, one).set(link);
            }
            Trouble::Loses(node, loss) => self.lose(node, loss).await,
        }
    }

    async fn lose(&mut self, node: usize, loss: Loss) {
        self.crowd.set(node, Standing::Gone);
        let volume = self.volume(node);
        match loss {
            Loss::Wiped => {
                self.cluster.kill(node).await;
                volumes::clear(&volume);
            }
            Loss::RolledBack => {
                self.cluster.kill(node).await;
                volumes::copy(&self.copy_of(node), &volume);
            }
            Loss::Rotten => {
                self.cluster.stop(node).await;
                let flipped = self.rot(&volume);
                eprintln!("chaos: {flipped} bits of {} are others", name(node));
            }
        }
    }

    /// Flips bits of a volume's log, and one in each third shard file.
    fn rot(&mut self, volume: &Path) -> usize {
        let segments = volumes::segments(volume);
        let mut files: Vec<PathBuf> =
            (0..FLIPS_IN_LOG).map(|_| segments[self.dice.below(segments.len())].clone()).collect();
        let shards = volumes::shard_files(volume).into_iter().map(|shard| shard.path);
        files.extend(shards.filter(|_| self.dice.below(3) == 0));
        volumes::flip(&files, |len| self.dice.below(len))
    }

    fn end(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Killed(node) | Trouble::Loses(node, _) => {
                let member = self.cluster.member(node).clone();
                self.starting.spawn(async move { (node, member.start().await) });
            }
            Trouble::StandsStill(node) | Trouble::SleepsBetweenAccepts(node) => {
                // Messages that it sent before it stood still arrive before it goes on.
                for other in self.others(node) {
                    self.cluster.relay(node, other).mend();
                }
                self.cluster.node(node).signal(Signal::CONT);
                self.crowd.set(node, Standing::Serves);
            }
            Trouble::Full(node) => {
                fs::remove_file(self.volume(node).join(BALLAST_NAME)).expect("the ballast is ours");
            }
            Trouble::Link(from, to, _) => self.cluster.relay(from, to).mend(),
            Trouble::Links(one, other, _) => {
                self.cluster.relay(one, other).mend();
                self.cluster.relay(other, one).mend();
            }
        }
    }

    fn others(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..self.cluster.len()).filter(move |other| *other != node)
    }

    fn volume(&self, node: usize) -> PathBuf {
        self.cluster.member(node).volume(1)
    }

    fn copy_of(&self, node: usize) -> PathBuf {
        self.copies.path().join(name(node))
    }
}

/// Name of the file that fills a volume's filesystem.
const BALLAST_NAME: &str = "ballast";

/// Writes until the filesystem is full.
fn fill(volume: &Path) {
    let mut ballast = fs::File::create(volume.join(BALLAST_NAME)).expect("a file takes no room");
    let bytes = vec![1; BALLAST];
    while ballast.write_all(&bytes).is_ok() {}
}
