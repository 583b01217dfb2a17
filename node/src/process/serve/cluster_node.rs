//! A node among others: certificates, links to its peers, membership, formation, and the services that answer
//! the others. Started before the store, whose place in the cluster it finds; stopped after it.
//!
//! ```text
//! trust -> listener -> links -> membership (pings) -> services answer
//!       -> formation -> store -> volumes answer
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::env::{Clock, Rng};
use sherd_core::id::ClusterId;
use sherd_core::report::NodeReport;
use sherd_core::topology::Topology;
use sherd_volume::disk::Disk;

use crate::health::{FormationWait, Health};
use crate::process::config::Config;
use crate::process::config::nodes::ClusterConfig;
use crate::process::serve::live::LiveSettings;
use crate::process::serve::reporter::{NodeReporter, Peers, ReporterConfig, node_identity, start_reporting};
use crate::process::serve::root_credentials::RootCredentials;
use crate::process::serve::store::Store;
use sherd_net::ConnectionAge;
use sherd_net::grpc::GrpcPeer;
use sherd_net::links::{PeerLinks, PeerLinksConfig};
use sherd_net::listen::listen;
use sherd_net::rpc::{
    self, AdminHttp, AdminHttpHandler, AdminRpc, CodecRoom, ConnectionRules, LocalPeerCell, RpcNode,
};
use sherd_net::tls::{PeerIdentity, Role, Trust, TrustError, TrustFiles};
use sherd_store::cluster::asker::{Asker, Gateways};
use sherd_store::cluster::formation::{self, FormationAnswers, FormationRun, FormationStatus};
use sherd_store::cluster::membership::{ConfiguredNode, Membership, MembershipConfig};
use sherd_store::iam::MasterKey;
use sherd_store::observe::metrics::Metrics;
use sherd_store::peer::remote::RemoteVolumes;
use sherd_store::volumes::directories::clustered::ClusterFormationConfig;
use sherd_store::volumes::directories::{Formation, FormationConfig, FormationError};

/// A node cannot take its place among others.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No certificates are configured.
    #[error("a node of a cluster needs certificates: cluster.ca, cluster.cert and cluster.key")]
    NoCertificates,
    /// The certificates are not this node's.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The address for peers cannot be listened on.
    #[error("listen on {address} for nodes (node_listen): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The directories do not make this node.
    #[error(transparent)]
    Formation(#[from] FormationError),
}

/// The machine under a node of a cluster.
#[derive(Debug, Clone)]
pub struct NodeMachine {
    /// Where the directories are.
    pub disk: Arc<dyn Disk>,
    /// The process's clock.
    pub clock: Arc<dyn Clock>,
    /// Entropy.
    pub rng: Arc<dyn Rng>,
}

/// This node's part of a cluster, while it runs.
#[derive(Debug)]
pub struct ClusterNode {
    address: SocketAddr,
    cluster: ClusterId,
    links: PeerLinks,
    remote: RemoteVolumes,
    volumes: LocalPeerCell,
    requests: AdminHttp,
    membership: Arc<Membership>,
    reporter: Arc<NodeReporter>,
    answers: FormationAnswers,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ClusterNode {
    /// Loads the certificates, listens, and begins to reach the others and to answer them.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn start(
        config: &Config,
        cluster: &ClusterConfig,
        root: &RootCredentials,
        machine: NodeMachine,
        metrics: &Arc<Metrics>,
        health: &Arc<Health>,
        live: &Arc<LiveSettings>,
    ) -> Result<Self, ClusterError> {
        let NodeMachine { disk, clock, rng } = machine;
        let files = cluster.files.clone().ok_or(ClusterError::NoCertificates)?;
        let own = PeerIdentity { name: cluster.own().name.clone(), role: Role::Node, cluster: cluster.id };
        let trust = Trust::load(TrustFiles { ca: files.ca, cert: files.cert, key: files.key }, own)?;
        let answers = look(formation_config(config, cluster, disk), Arc::clone(&rng), live).await?;
        let address = cluster.node_listen;
        let listener = listen(address).map_err(|source| ClusterError::Listen { address, source })?;
        let address = listener.local_addr().unwrap_or(address);

        let (tasks, stop, remote) = (TaskTracker::new(), CancellationToken::new(), RemoteVolumes::default());
        let identity = identity(config, cluster, rng.as_ref());
        let nodes: Vec<ConfiguredNode> = cluster.nodes.iter().map(configured).collect();
        let membership = Arc::new(Membership::new(MembershipConfig {
            cluster: cluster.id,
            nodes: nodes.clone(),
            own: cluster.node,
            own_moments: health.moments(),
            volumes: remote.clone(),
        }));
        let reporter = Arc::new(NodeReporter::new(ReporterConfig {
            identity,
            health: Arc::clone(health),
            live: Arc::clone(live),
            clock: Arc::clone(&clock),
            peers: Some(Peers {
                cluster_name: cluster.name.clone(),
                root: root.clone(),
                trust: trust.clone(),
                membership: Arc::clone(&membership),
            }),
        }));
        start_reporting(&reporter, &tasks, &stop);
        let age = ConnectionAge::of_at_most(cluster.reconnect_after);
        let linked = PeerLinksConfig { nodes: &nodes, trust: &trust, age, metrics };
        let links = PeerLinks::start(&linked, &rng, &tasks, &stop);
        let (volumes, requests) = (LocalPeerCell::default(), AdminHttp::default());
        let served = served(live, cluster.id, &volumes);
        let services = rpc::volume_services(&served, &metrics.rpc, &tasks, &stop);
        tasks.spawn(served.trim_memory(stop.clone()));
        let admin = AdminRpc {
            cluster: cluster.id,
            membership: Arc::clone(&membership),
            formation: answers.clone(),
            maker: nodes[0].name.clone(),
            node: Arc::<NodeReporter>::clone(&reporter),
            requests: requests.clone(),
        };
        let services = admin.add_to(services);
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let rules = ConnectionRules { trust: trust.clone(), nodes: names, age, codec: CodecRoom::default() };
        tasks.spawn(rpc::serve(listener, rules, services, metrics.rpc.clone(), stop.clone()));
        tasks.spawn(trust.follow(stop.clone()));
        let asker: Arc<dyn Asker> = Arc::new(links.clone());
        tasks.spawn(Arc::clone(&membership).run(asker, stop.clone()));
        Ok(Self {
            address,
            cluster: cluster.id,
            links,
            remote,
            volumes,
            requests,
            membership,
            reporter,
            answers,
            clock,
            tasks,
            stop,
        })
    }

    /// Where this node serves its peers.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until this node's volumes hold the cluster's topology; health says what it waits for.
    /// Cancel-safe.
    pub async fn form(&self, health: &Health) -> Formation {
        let (status, mut watched) = watch::channel(FormationStatus::default());
        health.form(Some(FormationWait::default()));
        let run = formation::run(FormationRun {
            answers: self.answers.clone(),
            membership: Arc::clone(&self.membership),
            asker: Arc::new(self.links.clone()),
            clock: Arc::clone(&self.clock),
            status,
        });
        let show = async {
            while watched.changed().await.is_ok() {
                let FormationStatus { formed, waiting_for, reason, formed_before } =
                    watched.borrow_and_update().clone();
                health.form((!formed).then_some(FormationWait { waiting_for, reason, formed_before }));
            }
            std::future::pending::<()>().await;
        };
        // Cancel-safe: showing holds nothing, and `run` is.
        let formation = tokio::select! {
            biased;
            () = show => unreachable!("it shows for as long as it is asked to"),
            formation = run => formation,
        };
        health.form(None);
        self.reporter.formed(&formation.topology);
        formation
    }

    /// The volumes of the other nodes, by their last reports.
    pub const fn remote(&self) -> &RemoteVolumes {
        &self.remote
    }

    /// How the volumes of each node of the topology are reached; `None` for this one.
    pub fn peers(&self, topology: &Topology) -> Vec<Option<Arc<GrpcPeer>>> {
        let nodes = self.membership.nodes();
        let place = |id| nodes.iter().position(|node| node.id == id);
        let peer = |id| {
            let place = place(id).filter(|place| *place != self.membership.own())?;
            let link = self.links.get(place)?.clone();
            Some(Arc::new(GrpcPeer::new(link, self.remote.clone())))
        };
        topology.nodes().iter().map(|node| peer(node.id)).collect()
    }

    /// The other nodes, which remember views of buckets.
    pub fn gateways(&self) -> Arc<dyn Gateways> {
        Arc::new(self.links.clone())
    }

    /// Lets peers reach the volumes of an open store, and speaks of it.
    pub fn serve(&self, store: &Store) {
        self.volumes.fill(store.local_peer());
        self.reporter.serve(store);
        tracing::info!(cluster = %self.cluster, node = %self.address, "serving peers");
    }

    /// Answers HTTP requests of operators and admins that come as calls.
    pub fn answer_requests(&self, handler: Arc<dyn AdminHttpHandler>) {
        self.requests.open(handler);
    }

    /// Answers no HTTP request of operators and admins any more: the store is about to be closed.
    pub fn end_requests(&self) {
        self.requests.close();
    }

    /// Answers no peer any more, and ends what reaches them.
    pub async fn stop(&self) {
        self.volumes.empty();
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn configured(node: &crate::process::config::nodes::NodeAddress) -> ConfiguredNode {
    ConfiguredNode { name: node.name.clone(), address: node.address.clone() }
}

/// Looks at this node's directories. Whether the cluster was formed before follows the live settings.
async fn look(
    config: ClusterFormationConfig,
    rng: Arc<dyn Rng>,
    live: &LiveSettings,
) -> Result<FormationAnswers, FormationError> {
    let id = config.cluster;
    let looked = tokio::task::spawn_blocking(move || FormationAnswers::start(config, rng)).await;
    let answers = looked.expect("looking at directories does not panic")?;
    let forming = answers.clone();
    live.on_change(move |hot| forming.set_formed_before(hot.formed == Some(id)));
    Ok(answers)
}

/// The node that the services for peers answer for.
fn served(live: &LiveSettings, cluster: ClusterId, volumes: &LocalPeerCell) -> RpcNode {
    RpcNode::new(cluster, volumes.clone()).with_slow_log(live.slow_requests())
}

fn formation_config(config: &Config, cluster: &ClusterConfig, disk: Arc<dyn Disk>) -> ClusterFormationConfig {
    ClusterFormationConfig {
        local: FormationConfig {
            disk,
            directories: config.volumes.clone(),
            zone: None,
            geometry: config.geometry(),
        },
        cluster: cluster.id,
        nodes: cluster.nodes.iter().map(|node| node.name.clone()).collect(),
        node: cluster.node,
    }
}

/// The part of this node's report that never changes.
fn identity(config: &Config, cluster: &ClusterConfig, rng: &dyn Rng) -> NodeReport {
    NodeReport {
        config_digest: Some(config.digest()),
        master_key_digest: Some(config.master_key.as_ref().map_or([0; 32], MasterKey::digest)),
        ..node_identity(cluster.own().name.clone(), rng)
    }
}
