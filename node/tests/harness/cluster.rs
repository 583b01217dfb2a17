//! Several real nodes that are one store: `serve` processes with certificates of an authority of their own.
//!
//! Each node has a folder, S3 and admin ports of its own; node ports are chosen before, for every node must
//! have them in its configuration. Nodes can be killed, stopped, wiped and started again one by one. With
//! relays, every node reaches every other one through a relay of that link alone, which can be cut.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, kill_process};
use sherd_core::id::ClusterId;
use sherd_net::tls::authority::Authority;
use sherd_net::tls::{PeerIdentity, Role, Trust, TrustFiles};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::relay::Relay;
use super::s3::S3;
use super::wait::{LATER, SOON, eventually};
use super::{Node, Process, Stopped, binary, empty, volumes};

/// Node ports are taken from here, below those that the system gives to others.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
/// How long certificates are valid, from [`BACKDATE`] ago.
const LIFETIME: Duration = Duration::from_hours(24 * 30);
/// Certificates begin this long ago, so that one that has expired can be of the same authority.
const BACKDATE: Duration = Duration::from_hours(24 * 10);

/// A cluster that is to be started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterShape {
    nodes: usize,
    volumes: usize,
    relays: Relays,
    lines: &'static str,
    upkeep: &'static str,
    iam: bool,
}

/// The relays between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relays {
    None,
    /// Relays that record.
    Recording,
    /// Relays that only forward.
    Forwarding,
}

/// A cluster of `nodes` nodes with a volume each.
pub(crate) const fn cluster_of(nodes: usize) -> ClusterShape {
    ClusterShape { nodes, volumes: 1, relays: Relays::None, lines: "", upkeep: "", iam: false }
}

impl ClusterShape {
    /// With `volumes` volumes on each node.
    pub(crate) const fn of_volumes(self, volumes: usize) -> Self {
        Self { volumes, ..self }
    }

    /// With more lines of configuration on each node, the first of them in table `[cluster]`.
    pub(crate) const fn configured(self, lines: &'static str) -> Self {
        Self { lines, ..self }
    }

    /// With IAM on each node, and one master key for all.
    pub(crate) const fn with_iam(self) -> Self {
        Self { iam: true, ..self }
    }

    /// With more lines in table `[upkeep]` of each node's configuration.
    pub(crate) const fn with_upkeep(self, upkeep: &'static str) -> Self {
        Self { upkeep, ..self }
    }

    /// With a relay for each node's link to each other node, which records what passes.
    pub(crate) const fn with_relays(self) -> Self {
        Self { relays: Relays::Recording, ..self }
    }

    /// With a relay for each node's link to each other node, for stories of any length.
    pub(crate) const fn with_links(self) -> Self {
        Self { relays: Relays::Forwarding, ..self }
    }

    /// Makes certificates and configurations; no node runs yet.
    pub(crate) async fn prepare(self) -> TestCluster {
        let pki = Pki::new(ClusterId(getrandom_id()));
        let ports = free_ports(self.nodes);
        let addresses: Vec<SocketAddr> = ports.iter().map(|&port| ([127, 0, 0, 1], port).into()).collect();
        let mut relays = BTreeMap::new();
        for from in 0..self.nodes {
            for to in (0..self.nodes).filter(|to| self.relays != Relays::None && *to != from) {
                let records = self.relays == Relays::Recording;
                relays.insert((from, to), Relay::start(addresses[to], records).await);
            }
        }
        let mut members = Vec::new();
        for node in 0..self.nodes {
            let seen = addresses
                .iter()
                .enumerate()
                .map(|(to, address)| relays.get(&(node, to)).map_or(*address, |relay| relay.address));
            let lines = pki.lines(&name(node), addresses[node], &seen.collect::<Vec<_>>(), self.upkeep);
            let iam = if self.iam { pki.iam_lines() } else { String::new() };
            members.push(empty().of_volumes(self.volumes).serve(&(iam + &lines + self.lines)));
        }
        let running = (0..self.nodes).map(|_| None).collect();
        TestCluster { addresses, relays, members, running, pki }
    }

    /// Starts all nodes at once and waits until each is ready.
    pub(crate) async fn start(self) -> TestCluster {
        let mut cluster = self.prepare().await;
        cluster.start_all().await;
        cluster.until_ready().await;
        cluster
    }
}

/// The name of a node, counted from 0.
pub(crate) fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// An authority, and the files that it issued.
#[derive(Debug)]
pub(crate) struct Pki {
    /// The cluster.
    pub(crate) id: ClusterId,
    authority: Authority,
    dir: TempDir,
    issued: AtomicU16,
    /// The files that each node was configured with.
    nodes: Mutex<BTreeMap<String, TrustFiles>>,
}

impl Pki {
    /// A new authority.
    pub(crate) fn new(id: ClusterId) -> Self {
        let authority = Authority::init(id, now_ms() - millis(BACKDATE) * 2).expect("an authority");
        let dir = TempDir::new().expect("a temporary folder");
        fs::write(dir.path().join("ca.crt"), authority.certificate()).expect("the folder is writable");
        Self { id, authority, dir, issued: AtomicU16::new(0), nodes: Mutex::default() }
    }

    /// The authority's own certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// A certificate that is valid now.
    pub(crate) fn issue(&self, name: &str, role: Role) -> TrustFiles {
        self.issue_at(name, role, now_ms() - millis(BACKDATE), LIFETIME)
    }

    /// A certificate that is valid from a moment on, for a lifetime.
    pub(crate) fn issue_at(&self, name: &str, role: Role, from_ms: u64, lifetime: Duration) -> TrustFiles {
        let issued = self.authority.issue(name, role, from_ms, lifetime).expect("a name and a time");
        // Each certificate has files of its own: a running node looks at those that it was given.
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let file = |suffix: &str, text: &str| -> PathBuf {
            let path = self.dir.path().join(format!("{number}-{name}-{role}.{suffix}"));
            fs::write(&path, text).expect("the folder is writable");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the file is ours");
            path
        };
        let (cert, key) = (file("crt", &issued.certificate), file("key", &issued.key));
        TrustFiles { ca: self.ca(), cert, key }
    }

    /// Puts another certificate in place of a node's, valid to a later second the later the round. Gives that
    /// second.
    pub(crate) fn reissue(&self, name: &str, round: u64) -> u64 {
        let from_ms = now_ms() / 1_000 * 1_000 - millis(BACKDATE);
        let lifetime = LIFETIME + Duration::from_hours(round);
        let made = self.issue_at(name, Role::Node, from_ms, lifetime);
        let TrustFiles { ca: _, cert, key } = self.nodes.lock().expect("no test panics here")[name].clone();
        // Key and certificate are renamed one after the other: a node that looks in between finds a pair that
        // does not fit, and keeps the old one.
        fs::rename(made.key, key).expect("the folder is writable");
        fs::rename(made.cert, cert).expect("the folder is writable");
        (from_ms + millis(lifetime)) / 1_000
    }

    /// Identity in a certificate of this authority.
    pub(crate) fn identity(&self, name: &str, role: Role) -> PeerIdentity {
        PeerIdentity::new(name, role, self.id).expect("a name")
    }

    /// A peer with a certificate that is valid now.
    pub(crate) fn trust(&self, name: &str, role: Role) -> Trust {
        Trust::load(self.issue(name, role), self.identity(name, role)).expect("files that were just issued")
    }

    /// The lines of a node that serves IAM, with the master key of the cluster.
    fn iam_lines(&self) -> String {
        let path = self.ca().with_file_name("master.key");
        if !path.exists() {
            let mut file = fs::File::options().mode(0o600).create_new(true).write(true).open(&path);
            let file = file.as_mut().expect("a new file");
            std::io::Write::write_all(file, &[7; 32]).expect("the folder is writable");
        }
        format!("iam_listen = \"127.0.0.1:0\"\nmaster_key_file = \"{}\"\n", path.display())
    }

    /// The configuration of a node that listens at `own` and finds all nodes at `seen`.
    pub(crate) fn lines(&self, own_name: &str, own: SocketAddr, seen: &[SocketAddr], upkeep: &str) -> String {
        let files = self.issue(own_name, Role::Node);
        self.nodes.lock().expect("no test panics here").insert(own_name.to_owned(), files.clone());
        let TrustFiles { ca, cert, key } = files;
        let nodes: Vec<String> =
            seen.iter().enumerate().map(|(node, address)| format!("{}@{address}", name(node))).collect();
        let mut lines =
            format!("node_listen = \"{own}\"\n[upkeep]\nadopt_after = \"0s\"\n{upkeep}\n[cluster]\n");
        writeln!(lines, "id = \"{}\"\nname = \"harness\"\nnodes = {nodes:?}\nnode = \"{own_name}\"", self.id)
            .expect("a text grows");
        for (name, path) in [("ca", ca), ("cert", cert), ("key", key)] {
            writeln!(lines, "{name} = \"{}\"", path.display()).expect("a text grows");
        }
        lines
    }
}

/// Nodes of one cluster, some of them running. They end with the value.
#[derive(Debug)]
pub(crate) struct TestCluster {
    /// Where each node listens for the others.
    pub(crate) addresses: Vec<SocketAddr>,
    relays: BTreeMap<(usize, usize), Relay>,
    members: Vec<Stopped>,
    running: Vec<Option<Node>>,
    /// The authority that all trust. Its files go after the nodes that look at them.
    pub(crate) pki: Pki,
}

/// A node that was started and may never serve; it ends with the value.
#[derive(Debug)]
pub(crate) struct Outsider {
    process: Process,
    /// Folder of the process, which stays as long as it runs.
    _stopped: Stopped,
}

impl Stopped {
    /// Starts it and does not wait for what it does.
    pub(crate) fn outsider(&self) -> Outsider {
        let log = self.log();
        let stderr =
            fs::File::options().create(true).append(true).open(&log).expect("the folder is writable");
        let child = self.command().stdout(Stdio::null()).stderr(stderr).spawn();
        let process = Process { child: child.expect("the binary was built with the tests"), log };
        Outsider { process, _stopped: self.clone() }
    }
}

impl Outsider {
    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.process.id(), signal).expect("the process is ours and not waited for yet");
    }

    /// Waits until its log has a line with all of these texts, and returns it.
    pub(crate) async fn until_logged(&mut self, texts: &[&str]) -> String {
        eventually(&format!("the outsider says {texts:?}"), SOON, async || {
            let log = fs::read_to_string(&self.process.log).unwrap_or_default();
            line_with(&log, texts)
        })
        .await
    }
}

impl TestCluster {
    /// Nodes, running or not.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// A node that runs, counted from 0.
    pub(crate) fn node(&self, node: usize) -> &Node {
        self.running[node].as_ref().unwrap_or_else(|| panic!("{} does not run", name(node)))
    }

    /// The nodes that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Node> {
        self.running.iter().flatten()
    }

    /// The process of a node, running or not.
    pub(crate) fn member(&self, node: usize) -> &Stopped {
        &self.members[node]
    }

    /// A client of each node that runs.
    pub(crate) fn clients(&self) -> Vec<S3> {
        self.running().map(Node::s3).collect()
    }

    /// The relays of a node, both ways.
    pub(crate) fn relays_of(&self, node: usize) -> impl Iterator<Item = &Relay> {
        self.relays.iter().filter(move |((from, to), _)| *from == node || *to == node).map(|(_, relay)| relay)
    }

    /// The relay through which one node dials another.
    pub(crate) fn relay(&self, from: usize, to: usize) -> &Relay {
        &self.relays[&(from, to)]
    }

    /// All relays.
    pub(crate) fn relays(&self) -> impl Iterator<Item = &Relay> {
        self.relays.values()
    }

    /// Starts the nodes that do not run, all at once: none may wait for one that is not there yet.
    pub(crate) async fn start_all(&mut self) {
        let mut starts = JoinSet::new();
        for node in (0..self.len()).filter(|node| self.running[*node].is_none()) {
            let member = self.members[node].clone();
            starts.spawn(async move { (node, member.start().await) });
        }
        for (node, started) in starts.join_all().await {
            self.running[node] = Some(started);
        }
    }

    /// Starts a node that does not run.
    pub(crate) async fn start(&mut self, node: usize) {
        assert!(self.running[node].is_none(), "{} runs", name(node));
        self.running[node] = Some(self.members[node].clone().start().await);
    }

    /// Has a node that does not run started as another binary from here on.
    pub(crate) fn replace_binary(&mut self, node: usize, binary: &Path) {
        self.members[node] = self.members[node].clone().of_binary(binary);
    }

    /// Takes up a node that was started from its [`Self::member`].
    pub(crate) fn take_up(&mut self, node: usize, running: Node) {
        assert!(self.running[node].is_none(), "{} runs", name(node));
        self.running[node] = Some(running);
    }

    /// Kills a node (SIGKILL).
    pub(crate) async fn kill(&mut self, node: usize) {
        let running = self.running[node].take().unwrap_or_else(|| panic!("{} does not run", name(node)));
        running.kill().await;
    }

    /// Stops a node in order.
    pub(crate) async fn stop(&mut self, node: usize) {
        let running = self.running[node].take().unwrap_or_else(|| panic!("{} does not run", name(node)));
        running.stop().await;
    }

    /// The exit code of `status`, asked of one node with the files of an admin, and what it prints.
    pub(crate) async fn status(&self, node: usize, admin: &TrustFiles) -> (Option<i32>, String) {
        let TrustFiles { ca, cert, key } = admin;
        let mut status = Command::new(binary());
        status.args(["status", "--endpoint", &self.addresses[node].to_string()]);
        for (flag, path) in [("--ca", ca), ("--cert", cert), ("--key", key)] {
            status.arg(flag).arg(path);
        }
        let output = tokio::task::spawn_blocking(move || status.stdin(Stdio::null()).output()).await;
        let output = output.expect("asking does not panic").expect("the binary was built with the tests");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said.into_owned())
    }

    /// Waits until `status`, asked of one node, says that all is healed.
    pub(crate) async fn until_status_is_healed(&self, node: usize, admin: &TrustFiles) {
        eventually(&format!("{} says that all is healed", name(node)), LATER, async || {
            match self.status(node, admin).await {
                (Some(0), _) => Ok(()),
                (_, said) => Err(said),
            }
        })
        .await;
    }

    /// Stops all nodes in order.
    pub(crate) async fn stop_all(&mut self) {
        let mut stops = JoinSet::new();
        for running in self.running.iter_mut().filter_map(Option::take) {
            stops.spawn(running.stop());
        }
        stops.join_all().await;
    }

    /// Empties the folders of a node's volumes.
    pub(crate) fn wipe(&self, node: usize) {
        for volume in self.members[node].volumes() {
            volumes::wipe(&volume);
        }
    }

    /// Waits until every running node takes writes.
    pub(crate) async fn until_ready(&self) {
        for node in self.running() {
            node.until_ready().await;
        }
    }

    /// Waits until the volumes of every running node are online and nothing waits to be healed.
    pub(crate) async fn until_whole(&self) {
        for node in self.running() {
            node.until_whole().await;
        }
    }

    /// A client of each node, and the bucket that all stories use. All volumes vote: a story may take any
    /// away.
    pub(crate) async fn with_bucket(&self) -> Vec<S3> {
        self.until_whole().await;
        let clients = self.clients();
        clients[0].make_bucket().await;
        clients
    }

    /// The folders of all volumes of all nodes.
    pub(crate) fn volumes(&self) -> Vec<PathBuf> {
        self.members.iter().flat_map(Stopped::volumes).collect()
    }

    /// Asserts that the volumes of all nodes, none of which runs, verify.
    pub(crate) fn is_clean(&self) {
        self.inspected();
    }

    /// Output of an inspection of the volumes of all nodes, which are stopped, once it found them clean.
    pub(crate) fn inspected(&self) -> String {
        assert!(self.running.iter().all(Option::is_none), "a volume is verified while no node has it");
        let mut inspect = Command::new(binary());
        inspect.args(["inspect", "--verify"]).args(self.volumes()).stdin(Stdio::null());
        let output = inspect.output().expect("the binary was built with the tests");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("0 problems"), "the volumes are not clean: {said}");
        said.into_owned()
    }

    /// Waits until a node's log has a line with all of these texts, and returns it.
    pub(crate) async fn until_logged(&self, node: usize, texts: &[&str]) -> String {
        let what = format!("{} says {texts:?}", name(node));
        eventually(&what, SOON, async || line_with(&self.node(node).log(), texts)).await
    }
}

/// The first line of a log with all of these texts, or else the last ones.
fn line_with(log: &str, texts: &[&str]) -> Result<String, String> {
    let found = log.lines().find(|line| texts.iter().all(|text| line.contains(text)));
    let lines: Vec<&str> = log.lines().collect();
    found.map(str::to_owned).ok_or_else(|| lines[lines.len().saturating_sub(12)..].join("\n"))
}

/// Every file below a folder with its bytes, to see that nothing changes there.
pub(crate) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, blake3::Hash> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(snapshot(&path));
        } else {
            found.insert(path.clone(), blake3::hash(&fs::read(&path).expect("readable")));
        }
    }
    found
}

/// Node ports that are free, each given once by this process.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    // Test processes that run side by side begin in different places.
    let begin = u16::try_from(std::process::id() * 61 % u32::from(span)).expect("below the span");
    let tries = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
    let ports = tries.take(usize::from(span)).map(|next| PORTS.start + (begin + next % span) % span);
    let free: Vec<u16> =
        ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect();
    assert_eq!(free.len(), count, "ports are free");
    free
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970"))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a time of this age")
}

fn getrandom_id() -> [u8; 16] {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the system has entropy");
    id
}
