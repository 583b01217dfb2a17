//! Two nodes over a real connection: certificates, loopback, and volumes in real directories.
//!
//! One end is a [`GrpcPeer`], the other [`serve`] over a [`LocalPeer`]. A relay between them can be cut off
//! or held up, so that a broken network and a stopped peer are what the client sees. Nothing sleeps: states
//! are watched, with a deadline.

mod broken;
mod conformance;
mod dropped;
mod hostile;
mod lying;
mod refusals;
mod registers;
mod requests;
mod renewal;
mod shards;
mod unfinished;
mod values;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::env::Clock;
use sherd_core::id::{BucketId, ClusterId, Epoch, Life, NodeId, ObjectKey, RegisterKey, VolumeId};
use sherd_core::message::{Error, Target, ValueLimit};
use sherd_core::placement;
use sherd_core::report::VolumeReport;
use sherd_trust::authority::Authority;
use sherd_volume::options::Durability;
use sherd_volume::request::{Completion, Op};

use super::{CodecRoom, ConnectionRules, LocalPeerCell, RpcNode, serve, volume_services};
use crate::grpc::{GrpcPeer, Link, LinkConfig};
use crate::tls::{PeerIdentity, Role, Trust, TrustFiles};
use crate::wire::ConnectionAge;
use sherd_store::machine::system::{SystemClock, SystemRng};
use sherd_store::machine::workers::Workers;
use sherd_store::observe::metrics::Metrics;
use sherd_store::observe::trace::SlowRequests;
use sherd_store::peer::LocalPeer;
use sherd_store::peer::remote::RemoteVolumes;
use sherd_store::testing::{DEADLINE, Directories, between_looks};
use sherd_store::volumes::{Volumes, WORKERS};

const CLUSTER: ClusterId = ClusterId([7; 16]);
/// How often the certificates are looked at.
const FOLLOW: Duration = Duration::from_millis(20);

/// Certificates of one cluster, and the directories that hold them.
struct Authorities {
    authority: Authority,
    root: TempDir,
}

impl Authorities {
    fn new() -> Self {
        let authority = Authority::init(CLUSTER, SystemClock::new().wall_ms()).expect("an authority");
        Self { authority, root: TempDir::new().expect("a directory for tests") }
    }

    fn trust(&self, name: &str, role: Role) -> Trust {
        Trust::load(self.issue(name, role, Duration::from_hours(1)), identity(name, role))
            .expect("it is trusted")
    }

    /// Writes the files of a certificate, which replace those of an earlier one of that name.
    fn issue(&self, name: &str, role: Role, lifetime: Duration) -> TrustFiles {
        self.issue_by(&self.authority, name, role, lifetime)
    }

    /// As [`Self::issue`], of another authority that is trusted alone.
    fn issue_by(&self, authority: &Authority, name: &str, role: Role, lifetime: Duration) -> TrustFiles {
        let folder = self.root.path().join(format!("{name}-{role}"));
        std::fs::create_dir_all(&folder).expect("a directory");
        let now_ms = SystemClock::new().wall_ms();
        let issued = authority.issue(name, role, now_ms, lifetime).expect("a certificate is issued");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
            path
        };
        TrustFiles {
            ca: write("ca.crt", authority.certificate()),
            cert: write("node.crt", &issued.certificate),
            key: write("node.key", &issued.key),
        }
    }
}

fn identity(name: &str, role: Role) -> PeerIdentity {
    PeerIdentity { name: name.to_owned(), role, cluster: CLUSTER }
}

/// A node that serves one volume, and a link to it through a relay.
struct Pair {
    authorities: Authorities,
    directories: Directories,
    volumes: Volumes,
    local: LocalPeer,
    volume: VolumeId,
    cell: LocalPeerCell,
    /// The server's.
    node: RpcNode,
    codec: CodecRoom,
    served_at: SocketAddr,
    relay: Relay,
    link: Link,
    peer: GrpcPeer,
    believed: RemoteVolumes,
    metrics: Arc<Metrics>,
    stop_server: CancellationToken,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Pair {
    /// Connected, with the server's volumes in place.
    async fn new() -> Self {
        let pair = Self::unconnected(CLUSTER, Role::Node).await;
        pair.connected().await;
        pair
    }

    /// A client that says it is of `cluster`, with a certificate of `role`.
    async fn unconnected(cluster: ClusterId, role: Role) -> Self {
        Self::of_age(cluster, role, [Duration::from_hours(1); 2]).await
    }

    /// As [`Self::unconnected`], with the ages at which the client and the server end connections.
    async fn of_age(cluster: ClusterId, role: Role, ages: [Duration; 2]) -> Self {
        Self::of_age_and_stall(cluster, role, ages, super::limits::BYTES_STALL_MAX).await
    }

    /// Connected, with a server that waits this long for bytes that stand still.
    async fn of_stall(stall_max: Duration) -> Self {
        let age = [Duration::from_hours(1); 2];
        let pair = Self::of_age_and_stall(CLUSTER, Role::Node, age, stall_max).await;
        pair.connected().await;
        pair
    }

    async fn of_age_and_stall(
        cluster: ClusterId,
        role: Role,
        ages: [Duration; 2],
        stall_max: Duration,
    ) -> Self {
        let directories = Directories::new(1).without_syncs();
        let volumes = directories.start().await.volumes();
        let volume = volumes.all()[0].id();
        let local = LocalPeer::new(volumes.clone());
        let (authorities, cell) = (Authorities::new(), LocalPeerCell::default());
        cell.fill(local.clone());
        let metrics = Arc::new(Metrics::new(Durability::Fsync));
        let (stop_server, stop, tasks) =
            (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let served_at = listener.local_addr().expect("an address");
        let node =
            RpcNode::new(CLUSTER, cell.clone()).with_slow_log(SlowRequests::after(Duration::from_nanos(1)));
        let node = node.with_stall_max(stall_max);
        let services = volume_services(&node, &metrics.rpc, &tasks, &stop_server);
        let nodes = ["n1", "n2", "n3"].map(str::to_owned).into();
        let trust = authorities.trust("n2", Role::Node);
        let [age, age_at_server] = ages.map(ConnectionAge::of_at_most);
        tasks.spawn(trust.clone().follow_each(FOLLOW, stop_server.clone()));
        let codec = CodecRoom::default().with_stall_max(stall_max);
        let rules = ConnectionRules { trust, nodes, age: age_at_server, codec: codec.clone() };
        tasks.spawn(serve(listener, rules, services, metrics.rpc.clone(), stop_server.clone()));
        let relay = Relay::start(served_at, &tasks, &stop).await;
        let config = LinkConfig {
            peer: identity("n2", Role::Node),
            address: relay.at.to_string(),
            cluster,
            epoch: Some(Epoch::FIRST),
            age,
            metrics: metrics.link("n2"),
        };
        let own = authorities.trust("n1", role);
        tasks.spawn(own.clone().follow_each(FOLLOW, stop.clone()));
        let link = Link::start(config, &own, &(Arc::new(SystemRng) as _), &tasks, &stop);
        let believed = RemoteVolumes::default();
        let peer = GrpcPeer::new(link.clone(), believed.clone());
        Self {
            authorities,
            directories,
            volumes,
            local,
            volume,
            cell,
            node,
            codec,
            served_at,
            relay,
            link,
            peer,
            believed,
            metrics,
            stop_server,
            stop,
            tasks,
        }
    }

    /// Lets the client believe so of the server's volume.
    fn believe(&self, life: u32, has_room: bool) {
        let life = (life > 0).then_some(Life(life));
        let report = VolumeReport { life, has_room, is_open: true, ..VolumeReport::of(self.volume) };
        self.believed.replace(NodeId([2; 16]), &[report]);
    }

    /// When the certificate that the server showed last expires.
    fn shown_expiry_s(&self) -> i64 {
        self.metrics.link("n2").peer_certificate_expiry_s.get()
    }

    /// Keeps every worker for reads and scans of the server's volume busy until the returned end is dropped.
    fn hang_reads(&self) -> std::sync::mpsc::Sender<()> {
        let serving = self.volumes.all()[0].serving().expect("it serves");
        hang(&[&serving.reads, &serving.scans])
    }

    /// Keeps every write worker of the server's volume busy, as [`Self::hang_reads`].
    fn hang_writes(&self) -> std::sync::mpsc::Sender<()> {
        hang(&[&self.volumes.all()[0].serving().expect("it serves").writes])
    }

    /// Keeps the log thread of the server's volume busy, as [`Self::hang_reads`].
    fn hang_log(&self) -> std::sync::mpsc::Sender<()> {
        let serving = self.volumes.all()[0].serving().expect("it serves");
        let (hung, wait) = std::sync::mpsc::channel::<()>();
        let done = Completion::new(move |_| assert!(wait.recv().is_err(), "nothing is ever sent"));
        serving.submit(Op::Read { target: target("hung"), values: ValueLimit::NOTHING, done }).expect("room");
        hung
    }

    async fn connected(&self) {
        self.until("the link is up", || self.link.is_up()).await;
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                between_looks().await;
            }
        };
        let reached = tokio::time::timeout(DEADLINE, wait).await;
        assert!(reached.is_ok(), "{what}: {:?}", self.link.down_because());
    }

    /// Ends both ends, and waits for every task of them.
    async fn close(self) {
        self.stop.cancel();
        self.stop_server.cancel();
        self.tasks.close();
        tokio::time::timeout(DEADLINE, self.tasks.wait()).await.expect("every task ends");
    }
}

/// Keeps these workers busy until the returned end is dropped.
fn hang(workers: &[&Workers]) -> std::sync::mpsc::Sender<()> {
    let (hung, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(parking_lot::Mutex::new(wait));
    for workers in workers.iter().flat_map(|workers| [*workers; WORKERS]) {
        let wait = Arc::clone(&wait);
        let job = move || assert!(wait.lock().recv().is_err(), "nothing is ever sent");
        workers.run(job).expect("nothing else waits");
    }
    hung
}

/// Between client and server: passes bytes on, until it is cut off or held up.
struct Relay {
    at: SocketAddr,
    cut: Arc<tokio::sync::watch::Sender<u64>>,
    hold: Arc<tokio::sync::watch::Sender<bool>>,
}

impl Relay {
    async fn start(to: SocketAddr, tasks: &TaskTracker, stop: &CancellationToken) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let cut = Arc::new(tokio::sync::watch::Sender::new(0));
        let hold = Arc::new(tokio::sync::watch::Sender::new(false));
        let (cuts, holds, stop) = (Arc::clone(&cut), Arc::clone(&hold), stop.clone());
        let connections = tasks.clone();
        tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (mut cut, holds) = (cuts.subscribe(), holds.subscribe());
                cut.mark_unchanged();
                let stop = stop.clone();
                connections.spawn(async move {
                    let Ok(far) = TcpStream::connect(to).await else { return };
                    let (near_read, near_write) = near.into_split();
                    let (far_read, far_write) = far.into_split();
                    let over = async { drop(cut.changed().await) };
                    // Cancel-safe: whichever ends first closes both sockets.
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = over => {}
                        () = pass(near_read, far_write, holds.clone()) => {}
                        () = pass(far_read, near_write, holds) => {}
                    }
                });
            }
        }));
        Self { at, cut, hold }
    }

    /// Closes the connections that there are.
    fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Passes nothing on until `hold(false)`.
    fn hold(&self, hold: bool) {
        self.hold.send_replace(hold);
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut held: tokio::sync::watch::Receiver<bool>,
) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        if count == 0 || held.wait_for(|held| !held).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

fn key(name: &str) -> RegisterKey {
    RegisterKey::object(BucketId([1; 16]), ObjectKey::new(name.to_owned()).expect("a key"))
}

fn target(name: &str) -> Target {
    let key = key(name);
    let slot = placement::slot(&key);
    Target::new(key, slot, Epoch::FIRST)
}

fn reason<R: std::fmt::Debug>(result: Result<R, Error>) -> String {
    match result {
        Err(Error::Unreachable { reason }) => reason,
        other => panic!("not unreachable: {other:?}"),
    }
}
