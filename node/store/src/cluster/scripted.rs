//! A cluster in one process for tests: nodes that ask each other by direct calls, with links that a test
//! cuts, slows and twists.
//!
//! The other end of each call is the real answering code: `Membership::note_caller` and `FormationAnswers`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use sherd_core::checksum::Digest;
use sherd_core::env::{Clock, Rng};
use sherd_core::id::{ClusterId, ProcessId};
use sherd_core::report::{NodeMoment, NodeReport};
use sherd_core::topology::{GeometryRequest, Topology};
use sherd_volume::disk::Disk;
use sherd_volume::disk::faulty::FaultyDisk;

use super::asker::{AskError, Asker, NodeFormAnswer};
use super::formation::{FormationAnswers, FormationRun, FormationStatus, run, topology_digest};
use super::membership::{ConfiguredNode, Membership, MembershipConfig};
use crate::peer::remote::RemoteVolumes;
use crate::volumes::directories::clustered::ClusterFormationConfig;
use crate::volumes::directories::{Formation, FormationConfig};

pub(crate) const CLUSTER: ClusterId = ClusterId([0xcc; 16]);

/// Bytes that differ, the same in every run.
#[derive(Debug)]
pub(crate) struct CountingRng(pub(crate) AtomicU64);

impl Rng for CountingRng {
    fn fill(&self, bytes: &mut [u8]) {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        for (byte, value) in bytes.iter_mut().zip(n.to_be_bytes().iter().cycle()) {
            *byte = *value;
        }
        bytes[0] = 0xaa;
    }
}

/// A clock that stands still: every maker begins with the same number.
#[derive(Debug)]
struct StandingClock;

impl Clock for StandingClock {
    fn wall_ms(&self) -> u64 {
        1_000
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ReachableNode {
    pub(crate) membership: Arc<Membership>,
    pub(crate) answers: Option<FormationAnswers>,
}

/// The links between the nodes, by the name that is dialled.
#[derive(Debug, Default)]
pub(crate) struct Net {
    nodes: Mutex<BTreeMap<String, ReachableNode>>,
    pub(crate) delays: Mutex<BTreeMap<String, Duration>>,
    pub(crate) mute: Mutex<BTreeSet<String>>,
    pub(crate) refusing: Mutex<BTreeSet<String>>,
}

impl Net {
    pub(crate) fn put(&self, name: &str, node: ReachableNode) {
        self.nodes.lock().insert(name.to_owned(), node);
    }

    pub(crate) fn take(&self, name: &str) -> Option<ReachableNode> {
        self.nodes.lock().remove(name)
    }

    fn reach(&self, name: &str) -> Result<ReachableNode, AskError> {
        let reason = || AskError::Unreachable { reason: "connection refused".to_owned() };
        self.nodes.lock().get(name).cloned().ok_or_else(reason)
    }

    async fn wait(&self, name: &str) {
        let delay = self.delays.lock().get(name).copied();
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
    }
}

#[async_trait::async_trait]
impl Asker for Net {
    async fn ping(&self, node: &str, own: NodeReport) -> Result<NodeReport, AskError> {
        if self.refusing.lock().contains(node) {
            return Err(AskError::Refused { reason: "wire version 2, here 1".to_owned() });
        }
        let other = self.reach(node)?;
        other.membership.note_caller(&own);
        self.wait(node).await;
        Ok(NodeReport::clone(&other.membership.own_report()))
    }

    async fn topology(&self, node: &str) -> Result<Option<Arc<Topology>>, AskError> {
        if self.mute.lock().contains(node) {
            return Err(AskError::Unreachable { reason: "cut".to_owned() });
        }
        self.wait(node).await;
        Ok(self.reach(node)?.answers.and_then(|answers| answers.topology()))
    }

    async fn form(&self, node: &str, attempt: u64) -> Result<NodeFormAnswer, AskError> {
        self.wait(node).await;
        let answers = self.reach(node)?.answers.expect("a node that forms");
        answers.form(attempt).await.map_err(|error| AskError::Refused { reason: error.to_string() })
    }
}

#[derive(Debug)]
pub(crate) struct RunningNode {
    pub(crate) membership: Arc<Membership>,
    pub(crate) answers: FormationAnswers,
    pub(crate) status: watch::Receiver<FormationStatus>,
    formed: JoinHandle<Formation>,
    pings: JoinHandle<()>,
    stop: CancellationToken,
}

impl RunningNode {
    pub(crate) async fn formed(&mut self) -> Formation {
        self.says(|status| status.formed).await;
        self.answers.formation().expect("it says so")
    }

    pub(crate) async fn says(&mut self, wanted: impl FnMut(&FormationStatus) -> bool) -> FormationStatus {
        let said = tokio::time::timeout(Duration::from_mins(1), self.status.wait_for(wanted)).await;
        let said = said.map(|status| status.expect("it runs").clone());
        said.unwrap_or_else(|_| panic!("it says {:?}", *self.status.borrow()))
    }

    /// Ends it as a kill does: nothing of it goes on.
    pub(crate) async fn kill(self) {
        self.stop.cancel();
        self.formed.abort();
        drop(self.formed.await);
        drop(self.pings.await);
    }
}

/// Nodes `n1`, `n2`, ... with two directories each, on disks that outlive them.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) net: Arc<Net>,
    pub(crate) disks: Vec<FaultyDisk>,
    rng: Arc<CountingRng>,
    runs: AtomicU64,
}

impl Nodes {
    pub(crate) fn new(count: usize) -> Self {
        let disk = || {
            let disk = FaultyDisk::new(1);
            disk.create_dir("/data".as_ref()).expect("made");
            disk
        };
        Self {
            net: Arc::default(),
            disks: (0..count).map(|_| disk()).collect(),
            rng: Arc::new(CountingRng(AtomicU64::new(1))),
            runs: AtomicU64::new(1),
        }
    }

    /// Nodes whose volumes get other ids than those of [`Self::new`].
    pub(crate) fn with_other_ids(count: usize) -> Self {
        Self { rng: Arc::new(CountingRng(AtomicU64::new(1_000_000))), ..Self::new(count) }
    }

    pub(crate) fn name(place: usize) -> String {
        format!("n{}", place + 1)
    }

    pub(crate) fn directories() -> Vec<PathBuf> {
        vec![PathBuf::from("/data/v1"), PathBuf::from("/data/v2")]
    }

    pub(crate) fn config(&self, place: usize) -> ClusterFormationConfig {
        ClusterFormationConfig {
            local: FormationConfig {
                disk: Arc::new(self.disks[place].clone()),
                directories: Self::directories(),
                zone: None,
                geometry: GeometryRequest::default(),
            },
            cluster: CLUSTER,
            nodes: (0..self.disks.len()).map(Self::name).collect(),
            node: place,
        }
    }

    pub(crate) fn start(&self, place: usize) -> RunningNode {
        self.start_with(place, [1; 32])
    }

    /// Starts a node whose configuration says that the cluster was formed before.
    pub(crate) fn start_formed_before(&self, place: usize) -> RunningNode {
        let answers = self.answers(place);
        answers.set_formed_before(true);
        self.start_of(place, [1; 32], answers)
    }

    pub(crate) fn start_with(&self, place: usize, config_digest: Digest) -> RunningNode {
        self.start_of(place, config_digest, self.answers(place))
    }

    fn answers(&self, place: usize) -> FormationAnswers {
        FormationAnswers::start(self.config(place), Arc::clone(&self.rng) as _).expect("its directories")
    }

    fn start_of(&self, place: usize, config_digest: Digest, answers: FormationAnswers) -> RunningNode {
        let count = u128::from(self.runs.fetch_add(1, Ordering::Relaxed));
        let process = ProcessId((count << 64 | count).to_be_bytes());
        let own_answers = answers.clone();
        let report =
            NodeReport { config_digest: Some(config_digest), ..NodeReport::of(Self::name(place), process) };
        let (moments, own_moments) = watch::channel(Arc::new(NodeMoment::of(report.clone())));
        let membership = Arc::new(Membership::new(MembershipConfig {
            cluster: CLUSTER,
            nodes: self.configured(),
            own: place,
            own_moments,
            volumes: RemoteVolumes::default(),
        }));
        let reachable = ReachableNode { membership: Arc::clone(&membership), answers: Some(answers.clone()) };
        self.net.put(&Self::name(place), reachable);
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let topology_digest = own_answers.topology().map(|topology| topology_digest(&topology));
                let moment = NodeMoment::of(NodeReport { topology_digest, ..report.clone() });
                moments.send_replace(Arc::new(moment));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }));
        let pings = tokio::spawn(Arc::clone(&membership).run(Arc::clone(&self.net) as _, stop.clone()));
        let (sender, status) = watch::channel(FormationStatus::default());
        let formed = tokio::spawn(run(FormationRun {
            answers: answers.clone(),
            membership: Arc::clone(&membership),
            asker: Arc::clone(&self.net) as _,
            clock: Arc::new(StandingClock),
            status: sender,
        }));
        RunningNode { membership, answers, status, formed, pings, stop }
    }

    pub(crate) fn configured(&self) -> Vec<ConfiguredNode> {
        let node = |place| ConfiguredNode { name: Self::name(place), address: format!("host{place}:9100") };
        (0..self.disks.len()).map(node).collect()
    }

    pub(crate) async fn kill(&self, place: usize, node: RunningNode) {
        self.net.take(&Self::name(place));
        node.kill().await;
    }

    pub(crate) fn wipe(&self, place: usize) {
        let disk = &self.disks[place];
        for directory in Self::directories() {
            for entry in disk.list(&directory).expect("listed") {
                disk.remove(&directory.join(entry.name)).expect("removed");
            }
        }
    }
}
