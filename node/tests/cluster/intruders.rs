//! Bad input on a node's port: garbage, bytes without a certificate, messages beyond all bounds, certificates
//! that have expired or are of another authority, callers of another cluster, and connections that say
//! nothing.
//!
//! Each is refused by name where both sides can read it, and the cluster goes on: earlier objects are read
//! afterwards, and writes go on. Each kind connects to a node of its own, because a node logs one refusal a
//! second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sherd_core::env::Clock;
use sherd_core::id::ClusterId;
use sherd_net::tls::{HandshakeFailure, Role, Trust, TrustFiles};
use sherd_proto::limits::{WIRE_VERSION, WIRE_VERSION_OLDEST};
use sherd_proto::v1::{PingRequest, Sender};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::cluster::{Pki, TestCluster, cluster_of, now_ms};
use crate::harness::data::{Dice, Home};
use crate::harness::s3::S3;
use crate::harness::wait::{SOON, bounded};
use crate::wire::{FAILED_PRECONDITION, OUT_OF_RANGE, RESOURCE_EXHAUSTED, call, frame};

const PING: &str = "/sherd.v1.AdminService/Ping";
/// A day, the step of certificates' times.
const DAY: Duration = Duration::from_hours(24);
/// Silent connections to each node.
const SILENT_CONNECTIONS: usize = 150;
/// How often those that were closed are replaced.
const FLOOD_STEP: Duration = Duration::from_millis(100);
/// Bytes of garbage.
const GARBAGE_BYTES: usize = 64 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_strangers_do_no_harm() {
    let mut dice = Dice::of_this_run("strangers");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let body = dice.body(Home::File);
    clients[0].put_settled("before", body).await;

    let garbage: Vec<u8> =
        std::iter::repeat_with(|| dice.next().to_le_bytes()).flatten().take(GARBAGE_BYTES).collect();
    until_closed(cluster.addresses[0], &garbage).await;
    cluster.until_logged(0, &["connection of a peer refused", "HTTP/2 over TLS 1.3"]).await;
    until_closed(cluster.addresses[1], b"GET / HTTP/1.1\r\nHost: node\r\n\r\n").await;
    cluster.until_logged(1, &["connection of a peer refused", "HTTP/2 over TLS 1.3"]).await;
    // The length of a TLS record is the largest that its two bytes can say.
    until_closed(cluster.addresses[2], b"\x16\x03\x01\xff\xff").await;
    without_a_certificate(&cluster.pki, cluster.addresses[3]).await;
    cluster.until_logged(3, &["connection of a peer refused", "no certificate"]).await;

    goes_on(&cluster, &clients, &mut dice).await;
    assert_eq!(clients[3].get_settled("before").await, Some(body));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_are_not_good_are_refused_by_name_on_both_sides() {
    let mut dice = Dice::of_this_run("certificates");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;

    // By its own clock, which is late, it is still valid; by that of the node it has expired.
    let (from, late) = (now_ms() - ms(3 * DAY), now_ms() - ms(2 * DAY));
    let files = cluster.pki.issue_at("old", Role::Node, from, DAY + DAY / 2);
    let identity = cluster.pki.identity("old", Role::Node);
    let expired =
        Trust::load_with_clock(files, identity, Arc::new(LateClock(late))).expect("valid by its clock");
    let told = refusal(&expired, cluster.addresses[0]).await;
    assert!(told.contains("clock"), "{told}");
    let logged = cluster.until_logged(0, &["connection of a peer refused", "has expired"]).await;
    assert!(logged.contains("old.node."), "{logged}");

    // Of the same cluster id, by another authority: neither side trusts the other, and the client refuses
    // first.
    let foreign = Pki::new(cluster.pki.id).trust("n2", Role::Node);
    let told = refusal(&foreign, cluster.addresses[1]).await;
    assert!(told.contains("not signed by a trusted CA"), "{told}");
    cluster.until_logged(1, &["connection of a peer refused", "does not trust the CA"]).await;

    // The peer trusts the cluster's authority, and shows a certificate of its own.
    let mixed = mixed_files(&cluster.pki);
    assert!(mixed.contains("not signed"), "{mixed}");

    goes_on(&cluster, &clients, &mut dice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_beyond_bounds_and_of_other_clusters_are_refused_by_name() {
    let mut dice = Dice::of_this_run("messages");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let admin = cluster.pki.trust("someone", Role::Admin);
    let node = cluster.pki.trust("n2", Role::Node);

    let other = ClusterId([7; 16]);
    let sender = |wire, cluster: ClusterId| Sender { wire, cluster: cluster.0.to_vec().into(), epoch: 0 };
    let ping = |sender| frame(&PingRequest { sender: Some(sender), caller: None });
    let answer = call(&admin, cluster.addresses[0], PING, ping(sender(WIRE_VERSION, other))).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, FAILED_PRECONDITION, "{answer:?}");
    assert!(answer.message.contains(&other.to_string()), "{answer:?}");
    let asked = async |by, wire| {
        let answer = call(by, cluster.addresses[0], PING, ping(sender(wire, cluster.pki.id))).await;
        answer.expect("an answer")
    };
    for wire in [WIRE_VERSION_OLDEST - 1, WIRE_VERSION + 2] {
        let answer = asked(&node, wire).await;
        assert_eq!(answer.status, FAILED_PRECONDITION, "{answer:?}");
        assert!(answer.message.contains(&format!("wire%20version%20{wire}")), "{answer:?}");
    }
    // An upgrade has nodes of two versions; an operator may be of any release.
    for (by, wire) in
        [(&node, WIRE_VERSION), (&node, WIRE_VERSION + 1), (&admin, 1), (&admin, WIRE_VERSION + 9)]
    {
        let answer = asked(by, wire).await;
        assert_eq!(answer.status, 0, "a ping of wire version {wire}: {answer:?}");
    }

    // A frame of 64 MiB, and one that says that it is as long as four bytes can say.
    for claimed in [64_u32 << 20, u32::MAX] {
        let mut request = vec![0];
        request.extend_from_slice(&claimed.to_be_bytes());
        request.resize(1 << 20, 7);
        let answer = call(&node, cluster.addresses[1], "/sherd.v1.ShardService/Put", request).await;
        let answer = answer.expect("an answer");
        assert!([OUT_OF_RANGE, RESOURCE_EXHAUSTED].contains(&answer.status), "{answer:?}");
    }
    // Bytes that are not a message, on every method of nodes.
    for path in ["ShardService/Put", "ShardService/Calls", "RegisterService/Calls", "UpkeepService/Calls"] {
        let mut request = vec![0, 0, 0, 16, 0];
        request.extend(std::iter::repeat_with(|| dice.next().to_le_bytes()[0] | 1).take(4096));
        let answer = call(&node, cluster.addresses[2], &format!("/sherd.v1.{path}"), request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{path} has no answer: {error}"));
        assert_ne!(answer.status, 0, "{path}: {answer:?}");
    }
    goes_on(&cluster, &clients, &mut dice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_keep_no_node_away() {
    let mut dice = Dice::of_this_run("silence");
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let body = dice.body(Home::File);
    clients[0].put_settled("before", body).await;

    let mut floods = JoinSet::new();
    for address in cluster.addresses.clone() {
        floods.spawn(silence(address));
    }
    cluster.until_logged(2, &["connection of a peer refused", "others want its place"]).await;
    cluster.kill(1).await;
    cluster.start(1).await;
    cluster.node(1).until_ready().await;
    cluster.until_whole().await;
    let clients = cluster.clients();
    goes_on(&cluster, &clients, &mut dice).await;
    assert_eq!(clients[1].get_settled("before").await, Some(body));
}

/// Holds silent connections to a node, more than it has places for handshakes, and replaces those that it
/// closes.
async fn silence(address: SocketAddr) {
    let mut held = JoinSet::new();
    let mut steps = tokio::time::interval(FLOOD_STEP);
    loop {
        steps.tick().await;
        while held.len() < SILENT_CONNECTIONS {
            let Ok(mut stream) = TcpStream::connect(address).await else { break };
            held.spawn(async move {
                // Until the node closes it.
                let _closed = stream.read(&mut [0; 64]).await;
            });
        }
        while held.try_join_next().is_some() {}
    }
}

/// Writes through each node and reads through the next one.
async fn goes_on(cluster: &TestCluster, clients: &[S3], dice: &mut Dice) {
    for (node, s3) in clients.iter().enumerate() {
        let (key, body) = (format!("after/{node}"), dice.body(Home::Packed));
        s3.put_settled(&key, body).await;
        assert_eq!(clients[(node + 1) % cluster.len()].get_settled(&key).await, Some(body));
    }
}

/// Sends bytes and waits until the node has closed the connection.
async fn until_closed(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("the node listens");
    // The node may close before it has taken all bytes.
    let _closed_early = stream.write_all(bytes).await;
    let mut answer = vec![0; 4096];
    let read = async { while stream.read(&mut answer).await.is_ok_and(|count| count > 0) {} };
    bounded("the node closes", SOON, read).await;
}

/// Shakes hands as a client that trusts the authority and has no certificate.
async fn without_a_certificate(pki: &Pki, address: SocketAddr) {
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    let certificate = rustls::pki_types::CertificateDer::from_pem_file(pki.ca()).expect("a certificate");
    roots.add(certificate).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports them")
        .with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = pki.identity("n4", Role::Node).dns_name().try_into().expect("a DNS name");
    let stream = TcpStream::connect(address).await.expect("the node listens");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.expect("a client sees it when it reads");
    let mut answer = [0; 64];
    let read = bounded("the node refuses", SOON, stream.read(&mut answer)).await;
    let error = read.expect_err("nothing is answered without a certificate").to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
}

/// The error at a peer that the node refuses: during the handshake, or at the first read.
async fn refusal(trust: &Trust, address: SocketAddr) -> String {
    let mut stream = match trust.connect_any_node(&address.to_string()).await {
        Ok((stream, _)) => stream,
        Err(error) => return error.to_string(),
    };
    let read = bounded("the node refuses", SOON, stream.read(&mut [0; 64])).await;
    HandshakeFailure::from_io(read.expect_err("nothing is answered")).to_string()
}

/// Why a peer cannot even be loaded whose certificate is by another authority than it trusts.
fn mixed_files(pki: &Pki) -> String {
    let foreign = Pki::new(pki.id);
    let files = TrustFiles { ca: pki.ca(), ..foreign.issue("n3", Role::Node) };
    Trust::load(files, pki.identity("n3", Role::Node)).expect_err("two authorities").to_string()
}

/// A clock that stands at a moment.
#[derive(Debug)]
struct LateClock(u64);

impl Clock for LateClock {
    fn wall_ms(&self) -> u64 {
        self.0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a few days")
}
