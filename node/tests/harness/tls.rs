//! S3 over TLS for tests: certificates of an authority of their own, and a tunnel for clients in clear.
//!
//! A client speaks plain HTTP with the tunnel, and the tunnel TLS with the node: of one version where the
//! test wants that, a new connection for each of the client's. It remembers what it was shown.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name of every certificate, an address: clients of tests use no names.
const HOST: &str = "127.0.0.1";

/// An authority, and the two files of a node's certificate.
#[derive(Debug)]
pub(crate) struct S3Pki {
    dir: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl S3Pki {
    /// A new authority that has issued a certificate.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("entropy"));
        let dir = TempDir::new().expect("a temporary folder");
        let pki = Self { dir, authority: authority.expect("a key") };
        fs::write(pki.ca(), pki.authority.pem()).expect("the folder is writable");
        pki.issue();
        pki
    }

    /// The authority's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    pub(crate) fn cert(&self) -> PathBuf {
        self.dir.path().join("s3.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.dir.path().join("s3.key")
    }

    /// The lines of a configuration.
    pub(crate) fn lines(&self) -> String {
        format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", self.cert().display(), self.key().display())
    }

    /// Replaces the files with a certificate that is valid now.
    pub(crate) fn issue(&self) {
        self.issue_until(4096);
    }

    /// Replaces the files with a certificate that is valid to the end of a year.
    pub(crate) fn issue_until(&self, year: i32) {
        self.write(HOST, year, &self.cert(), &self.key());
    }

    /// The directory of a further certificate.
    pub(crate) fn further(&self) -> PathBuf {
        self.dir.path().join("further")
    }

    /// Writes the further certificate, for a name.
    pub(crate) fn issue_further(&self, name: &str) {
        let directory = self.further();
        fs::create_dir_all(&directory).expect("the folder is writable");
        self.write(name, 4096, &directory.join("tls.crt"), &directory.join("tls.key"));
    }

    fn write(&self, name: &str, year: i32, cert: &Path, key_file: &Path) {
        let key = KeyPair::generate().expect("entropy");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name or an address");
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.authority).expect("a key");
        put(cert, &certificate.pem());
        put(key_file, &key.serialize_pem());
    }

    /// A client that trusts the authority, and speaks these versions.
    pub(crate) fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let config = config.expect("ring has both").with_root_certificates(roots).with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }
}

/// Writes a file that is closed to others.
pub(crate) fn put(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder is writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("the file is ours");
}

/// Certificate and protocol version that a connection got.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) version: ProtocolVersion,
    pub(crate) certificate: CertificateDer<'static>,
}

/// Connects to a node by its address.
pub(crate) async fn connect(
    client: &TlsConnector,
    address: SocketAddr,
) -> std::io::Result<(TlsStream<TcpStream>, Shown)> {
    connect_to(client, address, HOST).await
}

/// Connects to a node, and asks for this name.
pub(crate) async fn connect_to(
    client: &TlsConnector,
    address: SocketAddr,
    name: &'static str,
) -> std::io::Result<(TlsStream<TcpStream>, Shown)> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name).expect("a name or an address");
    let stream = client.connect(name, stream).await?;
    let tls = stream.get_ref().1;
    let certificate = tls.peer_certificates().and_then(<[_]>::first).expect("a server shows one").clone();
    let version = tls.protocol_version().expect("after the handshake");
    Ok((stream, Shown { version, certificate: certificate.into_owned() }))
}

/// Forwards clients in clear to a node with TLS; it ends with the value.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub(crate) endpoint: String,
    shown: Arc<Mutex<Vec<Shown>>>,
    _tasks: JoinSet<()>,
}

impl Tunnel {
    /// Starts a tunnel to a node's endpoint.
    pub(crate) async fn start(client: TlsConnector, endpoint: &str) -> Self {
        let node = address(endpoint);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let seen = Arc::clone(&shown);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((mut near, _)) = listener.accept().await else { continue };
                let (client, seen) = (client.clone(), Arc::clone(&seen));
                connections.spawn(async move {
                    let Ok((mut far, shown)) = connect(&client, node).await else { return };
                    seen.lock().expect("no tunnel panics while it notes").push(shown);
                    // Either side may go away at any moment; the other one sees it.
                    let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { endpoint, shown, _tasks: tasks }
    }

    /// The certificates and protocol versions that its connections got.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        self.shown.lock().expect("no tunnel panics while it notes").clone()
    }
}

/// The address of a node that serves TLS.
pub(crate) fn address(endpoint: &str) -> SocketAddr {
    let address = endpoint.strip_prefix("https://").expect("a node with a certificate serves TLS");
    address.parse().expect("a node says its address")
}
