//! Handshakes of two processes over loopback, with certificates of an authority in memory: which are
//! accepted, which are refused and with which words on both sides, and which files a reload takes over.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;
use sherd_trust::limits::LEAF_LIFETIME;
use sherd_trust::{Authority, UnreadableCertificate};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected as _;

use sherd_store::testing::LogBuffer;

use super::*;

const CLUSTER: ClusterId = ClusterId([0x6a; 16]);
const OTHER_CLUSTER: ClusterId = ClusterId([0x0b; 16]);
/// 2026-01-01.
const NOW_MS: u64 = 1_767_225_600_000;
const DAY_MS: u64 = 86_400_000;

/// A clock that the test sets.
#[derive(Debug)]
struct SetClock(AtomicU64);

impl SetClock {
    fn at(ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(ms)))
    }
}

impl Clock for SetClock {
    fn wall_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn monotonic_us(&self) -> u64 {
        0
    }
}

fn authority(cluster: ClusterId) -> Authority {
    Authority::init(cluster, NOW_MS).expect("a key and a clock")
}

fn identity(name: &str, role: Role) -> PeerIdentity {
    PeerIdentity::new(name, role, CLUSTER).expect("a name")
}

/// Files of one process in a directory of their own.
struct Pki {
    directory: TempDir,
}

impl Pki {
    /// Trusts `authority` and shows a certificate that it issues.
    fn new(authority: &Authority, name: &str, role: Role) -> Self {
        let pki = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        pki.write("ca.crt", authority.certificate());
        pki.issue(authority, name, role, NOW_MS);
        pki
    }

    fn issue(&self, authority: &Authority, name: &str, role: Role, now_ms: u64) {
        let issued = authority.issue(name, role, now_ms, LEAF_LIFETIME).expect("a name");
        self.write("own.crt", &issued.certificate);
        self.write("own.key", &issued.key);
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::write(&path, text).expect("my own directory");
        set_mode(&path, 0o600);
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn files(&self) -> TrustFiles {
        TrustFiles { ca: self.path("ca.crt"), cert: self.path("own.crt"), key: self.path("own.key") }
    }

    fn load_as(&self, own: PeerIdentity, clock: &Arc<SetClock>) -> Result<Trust, TrustError> {
        Trust::load_with_clock(self.files(), own, Arc::clone(clock) as Arc<dyn Clock>)
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("my own file");
}

/// A process of the cluster, with files from its authority.
fn trust_of(authority: &Authority, name: &str, role: Role) -> Trust {
    let pki = Pki::new(authority, name, role);
    let own = PeerIdentity::new(name, role, authority.cluster()).expect("a name");
    pki.load_as(own, &SetClock::at(NOW_MS)).expect("its own files")
}

/// The client's result: its stream, after the server answered or refused.
type Dialled = Result<DialledStream, String>;

/// Connects `client` to `server` as `expected`. The server answers each accepted connection with one byte,
/// and the client reads it: with TLS 1.3 a client gets a refusal with that read.
async fn meet(
    server: &Trust,
    client: &Trust,
    expected: &PeerIdentity,
) -> (Result<AcceptedStream, AcceptError>, Dialled) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let accept = async {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut accepted = server.accept(stream).await;
        if let Ok(stream) = &mut accepted {
            stream.write_all(b"!").await.expect("a client that reads");
            stream.flush().await.expect("a client that reads");
        }
        accepted
    };
    let dial = async {
        let mut stream = client.connect(&address, expected).await.map_err(|error| error.to_string())?;
        let mut byte = [0];
        match stream.read_exact(&mut byte).await {
            Ok(_) => Ok(stream),
            Err(error) => Err(HandshakeFailure::from_io(error).to_string()),
        }
    };
    tokio::join!(accept, dial)
}

/// TLS settings of `client` that expect any peer of the listener's cluster, for a test to change.
fn plain_config(client: &Trust) -> rustls::ClientConfig {
    let loaded = client.loaded();
    let material = &loaded.material;
    let webpki = Arc::clone(&material.servers);
    let peer = verify::PeerVerifier::new(webpki, CLUSTER, verify::Expectation::AnyPeer);
    material.client_config(Arc::new(peer))
}

/// Connects with these settings to `server`, and returns what it said and what the client saw of a refusal.
async fn meet_raw(
    server: &Trust,
    config: rustls::ClientConfig,
) -> (Result<AcceptedStream, AcceptError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let accept = async { server.accept(listener.accept().await.expect("a client").0).await };
    let dial = async {
        let tcp = TcpStream::connect(address).await?;
        let name = rustls::pki_types::ServerName::try_from("x.y").expect("a DNS name");
        let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
        stream.read_u8().await
    };
    let (accepted, dialled): (_, io::Result<u8>) = tokio::join!(accept, dial);
    (accepted, HandshakeFailure::from_io(dialled.expect_err("refused")).to_string())
}

/// Has no certificate to show.
#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _hints: &[&[u8]],
        _schemes: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        false
    }
}

fn refusal(error: AcceptError) -> CertificateRefusal {
    match error {
        AcceptError::Handshake(HandshakeFailure::Certificate(refusal)) => *refusal,
        other => panic!("refused for another reason: {other}"),
    }
}

#[tokio::test]
async fn two_peers_of_a_cluster_meet_and_know_each_other_by_name() {
    let authority = authority(CLUSTER);
    let server = trust_of(&authority, "n1", Role::Node);
    for role in Role::ALL {
        let client = trust_of(&authority, "other", role);
        let (accepted, dialled) = meet(&server, &client, server.own()).await;
        let mut accepted = accepted.expect("a peer of the cluster");
        assert_eq!(&accepted.peer, client.own());
        let peer = accepted.connect_info();
        assert_eq!((peer.identity(), peer.address()), (client.own(), Some([127, 0, 0, 1].into())));
        assert_eq!(accepted.generation, 1);
        let mut dialled = dialled.expect("the peer that was expected");
        let tls = dialled.get_ref().1;
        assert_eq!(tls.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
        assert_eq!(tls.alpn_protocol(), Some(&b"h2"[..]));
        dialled.write_all(b"hello").await.expect("connected");
        dialled.flush().await.expect("connected");
        let mut read = [0; 5];
        accepted.read_exact(&mut read).await.expect("connected");
        assert_eq!(&read, b"hello");
    }
}

#[tokio::test]
async fn a_peer_of_another_name_or_role_is_not_the_one_that_was_expected() {
    let authority = authority(CLUSTER);
    let server = trust_of(&authority, "n1", Role::Node);
    let client = trust_of(&authority, "n2", Role::Node);
    for expected in [identity("n3", Role::Node), identity("n1", Role::Operator)] {
        let (accepted, dialled) = meet(&server, &client, &expected).await;
        let said = dialled.expect_err("another peer");
        let presented = server.own();
        assert!(said.contains(&format!("certificate of {presented} is not that of {expected}")), "{said}");
        let error = accepted.expect_err("refused by the client");
        assert!(matches!(error, AcceptError::Handshake(HandshakeFailure::RefusedByPeer(_))), "{error}");
    }
}

#[tokio::test]
async fn a_dialler_refuses_another_cluster_by_name() {
    let server = trust_of(&authority(CLUSTER), "n1", Role::Node);
    let foreign = trust_of(&authority(OTHER_CLUSTER), "n2", Role::Node);
    let (accepted, dialled) = meet(&server, &foreign, server.own()).await;
    let said = dialled.expect_err("another cluster");
    assert!(said.contains(&format!("{} is of another cluster than {OTHER_CLUSTER}", server.own())), "{said}");
    let error = accepted.expect_err("refused by the client");
    assert!(matches!(error, AcceptError::Handshake(HandshakeFailure::RefusedByPeer(_))), "{error}");
}

#[tokio::test]
async fn a_listener_refuses_another_cluster_by_name_even_one_whose_authority_it_trusts() {
    let (one, other) = (authority(CLUSTER), authority(OTHER_CLUSTER));
    let both = format!("{}{}", one.certificate(), other.certificate());
    let server = Pki::new(&one, "n1", Role::Node);
    server.write("ca.crt", &both);
    let server = server.load_as(identity("n1", Role::Node), &SetClock::at(NOW_MS)).expect("its own files");
    assert_eq!(server.fingerprints().len(), 2);
    let own = PeerIdentity::new("n2", Role::Node, OTHER_CLUSTER).expect("a name");
    for trusted in [both.as_str(), one.certificate()] {
        let stranger = Pki::new(&other, "n2", Role::Node);
        stranger.write("ca.crt", &both);
        let stranger = stranger.load_as(own.clone(), &SetClock::at(NOW_MS)).expect("its own files");
        let listening = Pki::new(&one, "n1", Role::Node);
        listening.write("ca.crt", trusted);
        let listening =
            listening.load_as(server.own().clone(), &SetClock::at(NOW_MS)).expect("its own files");
        // The stranger looks for no cluster of its own, as one of ill will would not.
        let (accepted, dialled) = meet_raw(&listening, plain_config(&stranger)).await;
        let refusal = refusal(accepted.expect_err("another cluster"));
        assert_eq!(refusal.presented.as_ref(), Some(&own));
        assert_eq!(refusal.fault, CertificateFault::ForeignCluster { own: CLUSTER });
        assert!(dialled.contains("it is of another cluster, or expects another name"), "{dialled}");
    }
}

#[tokio::test]
async fn another_authority_is_refused_on_both_sides() {
    let (real, other) = (authority(CLUSTER), authority(CLUSTER));
    let server = trust_of(&real, "n1", Role::Node);
    let client = trust_of(&other, "n2", Role::Node);
    let (accepted, dialled) = meet(&server, &client, server.own()).await;
    let said = dialled.expect_err("a server that the client does not trust");
    assert!(said.contains(&format!("{} is not signed by a trusted CA", server.own())), "{said}");
    let said = accepted.expect_err("refused by the client").to_string();
    assert!(said.contains("does not trust the CA"), "{said}");

    // A client that trusts the real authority reaches the server's check.
    let pki = Pki::new(&other, "n2", Role::Node);
    pki.write("ca.crt", &format!("{}{}", real.certificate(), other.certificate()));
    let client = pki.load_as(identity("n2", Role::Node), &SetClock::at(NOW_MS)).expect("its own files");
    let (accepted, dialled) = meet(&server, &client, server.own()).await;
    let refusal = refusal(accepted.expect_err("not signed"));
    assert_eq!(refusal.presented, Some(identity("n2", Role::Node)));
    assert_eq!(refusal.fault, CertificateFault::UnknownAuthority);
    let said = dialled.expect_err("refused");
    assert!(said.contains("does not trust the CA"), "{said}");
}

#[tokio::test]
async fn a_certificate_outside_of_its_time_is_refused_on_both_sides() {
    let authority = authority(CLUSTER);
    for (now_ms, fault) in
        [(NOW_MS + 366 * DAY_MS, CertificateFault::Expired), (NOW_MS - DAY_MS, CertificateFault::NotYetValid)]
    {
        // Loaded while valid; then one side's clock moves.
        let (pki, clock) = (Pki::new(&authority, "n1", Role::Node), SetClock::at(NOW_MS));
        let moving = pki.load_as(identity("n1", Role::Node), &clock).expect("valid");
        clock.0.store(now_ms, Ordering::Relaxed);
        let still = trust_of(&authority, "n2", Role::Node);

        let (accepted, dialled) = meet(&moving, &still, moving.own()).await;
        let refusal = refusal(accepted.expect_err("outside of its time"));
        assert_eq!((refusal.presented.as_ref(), &refusal.fault), (Some(still.own()), &fault));
        assert!(dialled.expect_err("refused").contains("refused this process"));

        let (accepted, dialled) = meet(&still, &moving, still.own()).await;
        let said = dialled.expect_err("outside of its time");
        assert!(said.contains(&format!("the certificate of {} {fault}", still.own())), "{said}");
        assert!(accepted.is_err());

        let error = pki.load_as(identity("n1", Role::Node), &clock).expect_err("outside of its time");
        assert!(error.to_string().contains(&fault.to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_client_without_certificate_or_protocol_is_refused() {
    let authority = authority(CLUSTER);
    let server = trust_of(&authority, "n1", Role::Node);
    let client = trust_of(&authority, "n2", Role::Node);
    let refused = async |change: fn(&mut rustls::ClientConfig)| {
        let mut config = plain_config(&client);
        change(&mut config);
        let (accepted, said) = meet_raw(&server, config).await;
        (accepted.expect_err("refused"), said)
    };
    let (error, said) = refused(|config| config.client_auth_cert_resolver = Arc::new(NoCertificate)).await;
    assert!(matches!(error, AcceptError::Handshake(HandshakeFailure::NoCertificate)), "{error}");
    assert!(said.contains("it wants a certificate"), "{said}");
    let (error, _) = refused(|config| config.alpn_protocols.clear()).await;
    assert!(matches!(error, AcceptError::Handshake(HandshakeFailure::Protocol)), "{error}");
    let (error, said) = refused(|config| config.alpn_protocols = vec![b"http/1.1".to_vec()]).await;
    assert!(matches!(error, AcceptError::Handshake(HandshakeFailure::Protocol)), "{error}");
    assert!(said.contains("does not speak HTTP/2"), "{said}");
}

#[tokio::test]
async fn bytes_that_are_no_handshake_are_refused() {
    let server = trust_of(&authority(CLUSTER), "n1", Role::Node);
    for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0xff; 4 << 10], b"\x16\x03\x01\xff\xff"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("loopback");
        let (stream, _) = listener.accept().await.expect("a client");
        let send = async {
            // The server may close before it has read everything.
            let _closed = client.write_all(bytes).await;
            let _closed = client.shutdown().await;
            client
        };
        let (accepted, _client) = tokio::join!(server.accept(stream), send);
        let error = accepted.expect_err("no handshake");
        let AcceptError::Handshake(failure) = &error else { panic!("{error}") };
        assert!(matches!(failure, HandshakeFailure::Protocol | HandshakeFailure::Closed), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_closed_after_five_seconds() {
    let server = trust_of(&authority(CLUSTER), "n1", Role::Node);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let _silent = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("loopback");
    let (stream, _) = listener.accept().await.expect("a client");
    let begin = tokio::time::Instant::now();
    let error = server.accept(stream).await.expect_err("silent");
    assert!(matches!(error, AcceptError::TimedOut), "{error}");
    assert_eq!(begin.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_silent_or_absent_server_fails_within_two_seconds() {
    let client = trust_of(&authority(CLUSTER), "n1", Role::Node);
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = silent.local_addr().expect("bound").to_string();
    let begin = tokio::time::Instant::now();
    let error = client.connect(&address, client.own()).await.expect_err("silent");
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    assert!(begin.elapsed() <= limits::CONNECT_TIMEOUT + Duration::from_millis(10));
    drop(silent);
    let error = client.connect(&address, client.own()).await.expect_err("absent");
    assert!(matches!(error, ConnectError::Connect { .. }), "{error}");
    let error = client.connect("no port", client.own()).await.expect_err("no address");
    assert!(matches!(error, ConnectError::Resolve { .. }), "{error}");
}

#[tokio::test]
async fn any_node_is_one_of_this_cluster_with_the_role() {
    let authority = authority(CLUSTER);
    let admin = trust_of(&authority, "me", Role::Admin);
    let stranger = trust_of(&self::authority(OTHER_CLUSTER), "n1", Role::Node);
    for (server, accepted) in [
        (trust_of(&authority, "n1", Role::Node), true),
        (trust_of(&authority, "op", Role::Operator), false),
        (stranger, false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound").to_string();
        let accept = async { server.accept(listener.accept().await.expect("a client").0).await };
        let (_, dialled) = tokio::join!(accept, admin.connect_any_node(&address));
        match dialled {
            Ok((_, peer)) => assert!(accepted && peer == *server.own(), "{peer}"),
            Err(error) => assert!(!accepted && error.to_string().contains("is "), "{error}"),
        }
    }
}

/// A change to good files, and the words of its refusal.
type Breakage<'a> = (&'a str, Box<dyn Fn(&Pki) + 'a>);

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let (one, other) = (authority(CLUSTER), authority(CLUSTER));
    let breakages: Vec<Breakage<'_>> = vec![
        ("open ", Box::new(|pki| std::fs::remove_file(pki.path("own.crt")).expect("there"))),
        ("own.key has mode 0604", Box::new(|pki| set_mode(&pki.path("own.key"), 0o604))),
        ("own.crt holds no certificate in PEM", Box::new(|pki| pki.write("own.crt", "garbage"))),
        ("ca.crt holds no certificate in PEM", Box::new(|pki| pki.write("ca.crt", ""))),
        ("own.key holds no private key in PEM", Box::new(|pki| pki.write("own.key", "garbage"))),
        ("ca.crt is longer than", Box::new(|pki| pki.write("ca.crt", &"x".repeat(300_000)))),
        ("does not fit the certificate", Box::new(|pki| pki.write("own.key", &one.key()))),
        ("is not signed by a trusted CA", Box::new(|pki| pki.write("ca.crt", other.certificate()))),
        ("is not that of n1.node", Box::new(|pki| pki.issue(&one, "n2", Role::Node, NOW_MS))),
        ("is not that of n1.node", Box::new(|pki| pki.issue(&one, "n1", Role::Admin, NOW_MS))),
        (
            "is of another cluster",
            Box::new(|pki| pki.issue(&authority(OTHER_CLUSTER), "n1", Role::Node, NOW_MS)),
        ),
        ("has expired", Box::new(|pki| pki.issue(&one, "n1", Role::Node, NOW_MS - 400 * DAY_MS))),
        ("is not yet valid", Box::new(|pki| pki.issue(&one, "n1", Role::Node, NOW_MS + 2 * DAY_MS))),
        ("0 subject alternative names", Box::new(|pki| pki.write("own.crt", one.certificate()))),
    ];
    for (words, break_it) in breakages {
        let pki = Pki::new(&one, "n1", Role::Node);
        let load = || pki.load_as(identity("n1", Role::Node), &SetClock::at(NOW_MS));
        let trust = load().expect("whole");
        assert_eq!(trust.expires(), (NOW_MS + 365 * DAY_MS) / 1_000);
        break_it(&pki);
        let said = load().expect_err(words).to_string();
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_certificate_with_two_names_is_none_of_a_cluster() {
    let names = vec![identity("n1", Role::Node).dns_name(), identity("n2", Role::Node).dns_name()];
    let key = rcgen::KeyPair::generate().expect("entropy");
    let certificate = rcgen::CertificateParams::new(names).expect("names").self_signed(&key).expect("a key");
    assert_eq!(CertificateFacts::read(certificate.der()), Err(UnreadableCertificate::Names { count: 2 }));
}

/// Waits until the follower has done what makes `done` true.
async fn until(mut done: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_mins(1), async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("the files are looked at each 5 ms");
}

#[tokio::test]
async fn a_reload_swaps_both_sides_and_a_broken_file_keeps_what_was_loaded() {
    let (old, new) = (authority(CLUSTER), authority(CLUSTER));
    let (pki, clock) = (Pki::new(&old, "n1", Role::Node), SetClock::at(NOW_MS));
    let server = pki.load_as(identity("n1", Role::Node), &clock).expect("its own files");
    let stop = CancellationToken::new();
    let following = server.clone().follow_each(Duration::from_millis(5), stop.clone());
    let story = async {
        let client = trust_of(&new, "n2", Role::Node);
        let (accepted, _) = meet(&server, &client, server.own()).await;
        assert!(accepted.is_err(), "the server trusts the old authority alone");

        pki.write("ca.crt", new.certificate());
        pki.issue(&new, "n1", Role::Node, NOW_MS);
        // The follower may have looked between two of these writes and refused; a later look takes all.
        until(|| server.generation() == 2).await;
        let (accepted, dialled) = meet(&server, &client, server.own()).await;
        assert_eq!(accepted.expect("the new authority").generation, 2);
        dialled.expect("the new certificate");
        stop.cancel();
    };
    tokio::join!(following, story);
}

/// One file is replaced at a time, as a cluster replaces its authority: both are trusted by all, then each
/// shows a certificate of the new one, then the old one is trusted no more.
#[tokio::test]
async fn two_nodes_meet_at_each_step_of_a_change_of_their_authority() {
    let (old, new) = (authority(CLUSTER), authority(CLUSTER));
    let names = ["n1", "n2"];
    let pkis = names.map(|name| Pki::new(&old, name, Role::Node));
    let load = |pki: &Pki, name| pki.load_as(identity(name, Role::Node), &SetClock::at(NOW_MS));
    let [one, two] = [0, 1].map(|n| load(&pkis[n], names[n]).expect("its own files"));
    let prints = |authorities: &[&Authority]| {
        let of = |authority: &&Authority| {
            let certificate = CertificateDer::from_pem_slice(authority.certificate().as_bytes());
            <[u8; 32]>::from(Sha256::digest(certificate.expect("PEM")))
        };
        let mut prints: Vec<[u8; 32]> = authorities.iter().map(of).collect();
        prints.sort_unstable();
        prints
    };
    let both = [new.certificate(), old.certificate()].concat();
    let trust_both = |n: usize| pkis[n].write("ca.crt", &both);
    let show_new = |n: usize| pkis[n].issue(&new, names[n], Role::Node, NOW_MS);
    let trust_new = |n: usize| pkis[n].write("ca.crt", new.certificate());
    let steps: [&dyn Fn(usize); 3] = [&trust_both, &show_new, &trust_new];
    let loaded = [(vec![&old, &new], &old), (vec![&old, &new], &new), (vec![&new], &new)];
    assert_eq!((one.fingerprints(), one.own_authority()), (prints(&[&old]), prints(&[&old])[0]));
    let stop = CancellationToken::new();
    let each = Duration::from_millis(5);
    let following = async {
        tokio::join!(one.clone().follow_each(each, stop.clone()), two.clone().follow_each(each, stop.clone()))
    };
    let story = async {
        for (step, (trusted, shown)) in steps.iter().zip(&loaded) {
            for (n, node) in [&one, &two].into_iter().enumerate() {
                step(n);
                let wanted = (prints(trusted), prints(&[shown])[0]);
                until(|| (node.fingerprints(), node.own_authority()) == wanted).await;
                for (server, client) in [(&one, &two), (&two, &one)] {
                    let (accepted, dialled) = meet(server, client, server.own()).await;
                    accepted.expect("a client of either authority");
                    dialled.expect("a server of either authority");
                }
            }
        }
        stop.cancel();
    };
    tokio::join!(following, story);
}

#[test]
fn a_broken_file_keeps_what_was_loaded_and_logs_one_line() {
    let authority = authority(CLUSTER);
    let pki = Pki::new(&authority, "n1", Role::Node);
    let trust = pki.load_as(identity("n1", Role::Node), &SetClock::at(NOW_MS)).expect("its own files");
    let lines = LogBuffer::default();
    {
        let _log = lines.keep("info");
        let mut refused = None;
        let mut look = || trust.shared.take(files::PemFiles::read(&pki.files()), &mut refused);
        look();
        assert_eq!(lines.count("ERROR"), 0);
        pki.write("own.key", "half a ke");
        look();
        look();
        assert_eq!((lines.count("ERROR"), lines.count("own.key holds no private key")), (1, 1));
        set_mode(&pki.path("own.key"), 0o644);
        look();
        look();
        assert_eq!((lines.count("ERROR"), lines.count("has mode 0644")), (2, 1));
        assert_eq!(trust.generation(), 1);
        pki.issue(&authority, "n1", Role::Node, NOW_MS);
        look();
        assert_eq!((lines.count("ERROR"), lines.count("certificates reloaded")), (2, 1));
        assert_eq!(trust.generation(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_are_logged_once_a_second() {
    let lines = LogBuffer::default();
    let _log = lines.keep("info");
    let log = RefusalLog::default();
    let from = "127.0.0.1:1".parse().expect("an address");
    let error = AcceptError::Handshake(HandshakeFailure::NoCertificate);
    for _ in 0..10 {
        log.log(from, &error);
    }
    log.log(from, &AcceptError::Handshake(HandshakeFailure::Closed));
    assert_eq!((lines.count("refused"), lines.count("showed no certificate")), (1, 1));
    tokio::time::advance(Duration::from_secs(1)).await;
    log.log(from, &error);
    assert_eq!((lines.count("refused"), lines.count("unlogged=9")), (2, 1));
}
