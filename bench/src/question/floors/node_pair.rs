//! Two nodes in this process: one serves a volume in a folder, the other has a link to it, with certificates
//! of one authority and over loopback, as in production.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::env::{Clock, Rng};
use sherd_core::id::{ClusterId, Epoch, NodeId, VolumeId};
use sherd_core::report::VolumeReport;
use sherd_core::topology::GeometryRequest;
use sherd_net::ConnectionAge;
use sherd_net::grpc::{GrpcPeer, Link, LinkConfig};
use sherd_net::rpc::{CodecRoom, ConnectionRules, LocalPeerCell, RpcNode, serve, volume_services};
use sherd_net::tls::{PeerIdentity, Role, Trust, TrustFiles};
use sherd_store::machine::host::ThreadHost;
use sherd_store::machine::system::{SystemClock, SystemRng};
use sherd_store::observe::metrics::Metrics;
use sherd_store::observe::trace::SlowRequests;
use sherd_store::peer::LocalPeer;
use sherd_store::peer::remote::RemoteVolumes;
use sherd_store::volumes::directories::{FormationConfig, form_or_find};
use sherd_store::volumes::{LeaseTerms, Pace, Volumes, VolumesConfig, lsm_indexes};
use sherd_trust::Authority;
use sherd_volume::buffer::BufferPool;
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::options::{Durability, Options};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::device::POOL;
use super::ends::BoxError;
use crate::limits::{CERTIFICATE_LIFETIME, PAIR_LOOK, PAIR_READY_TIMEOUT};

const INDEX_CACHE_BYTES: u64 = 4 << 20;
const INDEX_FILES: usize = 64;
/// Names of the two ends.
const CLIENT: &str = "n1";
const SERVER: &str = "n2";

/// The two nodes.
pub(super) struct NodePair {
    pub(super) volume: VolumeId,
    /// The volume, asked without a network.
    pub(super) local: LocalPeer,
    /// The volume, asked by the other node.
    pub(super) remote: GrpcPeer,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl NodePair {
    /// Starts both within a runtime; the folder takes the volume and the certificates.
    pub(super) async fn start(folder: &Path) -> Result<Self, BoxError> {
        let (cluster, volumes) = volumes(folder)?;
        if !volumes.settled(PAIR_READY_TIMEOUT).await {
            return Err("the volume does not open".into());
        }
        let volume = volumes.all().first().ok_or("no volume")?.id();
        let (local, cell) = (LocalPeer::new(volumes), LocalPeerCell::default());
        cell.fill(local.clone());
        let authority = Authority::init(cluster, SystemClock::new().wall_ms())?;
        let trust = |name: &str| trust(&authority, folder, name);
        let metrics = Metrics::new(Durability::Fsync);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let node = RpcNode::new(cluster, cell).with_slow_log(SlowRequests::after(PAIR_READY_TIMEOUT));
        let services = volume_services(&node, &metrics.rpc, &tasks, &stop);
        let rules = ConnectionRules {
            trust: trust(SERVER)?,
            nodes: [CLIENT, SERVER].map(str::to_owned).into(),
            age: ConnectionAge::of_at_most(CERTIFICATE_LIFETIME),
            codec: CodecRoom::default(),
        };
        tasks.spawn(serve(listener, rules, services, metrics.rpc.clone(), stop.clone()));
        let config = LinkConfig {
            peer: PeerIdentity { name: SERVER.to_owned(), role: Role::Node, cluster },
            address,
            cluster,
            epoch: Some(Epoch::FIRST),
            age: ConnectionAge::of_at_most(CERTIFICATE_LIFETIME),
            metrics: metrics.link(SERVER),
        };
        let link =
            Link::start(config, &trust(CLIENT)?, &(Arc::new(SystemRng) as Arc<dyn Rng>), &tasks, &stop);
        let believed = RemoteVolumes::default();
        let life = local.life(volume).ok();
        let report = VolumeReport { life, has_room: true, is_open: true, ..VolumeReport::of(volume) };
        believed.replace(NodeId([2; 16]), &[report]);
        let connected = async {
            while !link.is_up() {
                tokio::time::sleep(PAIR_LOOK).await;
            }
        };
        tokio::time::timeout(PAIR_READY_TIMEOUT, connected).await.map_err(|_| "the nodes do not connect")?;
        let remote = GrpcPeer::new(link, believed);
        Ok(Self { volume, local, remote, stop, tasks })
    }

    /// Stops both, and waits for their tasks.
    pub(super) async fn close(self) {
        let Self { stop, tasks, .. } = self;
        stop.cancel();
        tasks.close();
        tasks.wait().await;
    }
}

/// A node's volume in a folder, and the cluster that it forms alone.
fn volumes(folder: &Path) -> Result<(ClusterId, Volumes), BoxError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let directory = folder.join("volume");
    fs::create_dir(&directory)?;
    let config = FormationConfig {
        disk: Arc::clone(&disk),
        directories: vec![directory],
        zone: None,
        geometry: GeometryRequest::default(),
    };
    let formation = form_or_find(&config, &SystemRng)?;
    let volumes = Volumes::start(&VolumesConfig {
        disk,
        clock: Arc::new(SystemClock::new()),
        rng: Arc::new(SystemRng),
        host: Arc::new(ThreadHost),
        buffers: BufferPool::new(POOL),
        index: lsm_indexes(IndexCache::new(INDEX_CACHE_BYTES, INDEX_FILES)),
        options: Options { spare_segments: 0, ballast_bytes: 0, reserve_bytes: 0, ..Options::default() },
        cluster: formation.cluster,
        topology: formation.topology,
        volumes: formation.volumes,
        pace: Pace::default(),
        leases: LeaseTerms::default(),
    })?;
    Ok((formation.cluster, volumes))
}

/// The certificate of a node of this name, in files as a node reads them.
fn trust(authority: &Authority, folder: &Path, name: &str) -> Result<Trust, BoxError> {
    let issued = authority.issue(name, Role::Node, SystemClock::new().wall_ms(), CERTIFICATE_LIFETIME)?;
    let write = |file: &str, text: &str| -> Result<PathBuf, BoxError> {
        let path = folder.join(format!("{name}-{file}"));
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path)
    };
    let files = TrustFiles {
        ca: write("ca.crt", authority.certificate())?,
        cert: write("node.crt", &issued.certificate)?,
        key: write("node.key", &issued.key)?,
    };
    Ok(Trust::load(files, issued.identity)?)
}
