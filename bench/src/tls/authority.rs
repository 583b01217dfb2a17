//! The authorities of one run: one for clients of S3, one for the nodes of a cluster.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sherd_core::env::Clock as _;
use sherd_core::id::ClusterId;
use sherd_store::machine::system::SystemClock;
use sherd_trust::{Authority, Role, ServiceAuthority, ServiceCertificate};

use crate::limits::CERTIFICATE_LIFETIME;

/// The names of every store: all run on this machine.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];
/// The cluster of the nodes' certificates.
pub const CLUSTER: ClusterId = ClusterId(*b"sherd-bench/tls.");
/// Only the owner may read a key.
const PRIVATE: u32 = 0o600;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An authority for clients of S3.
#[derive(Debug)]
pub struct BenchAuthority(ServiceAuthority);

/// The client's settings of connections to stores with certificates of one authority.
#[derive(Clone)]
pub struct TlsTrust(pub(super) Arc<ClientConfig>);

impl fmt::Debug for TlsTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTrust").finish_non_exhaustive()
    }
}

impl PartialEq for TlsTrust {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsTrust {}

impl BenchAuthority {
    /// Makes one.
    ///
    /// # Errors
    /// The system has no randomness or no clock.
    pub fn new() -> Result<Self, BoxError> {
        Ok(Self(ServiceAuthority::init("sherd-bench", SystemClock::new().wall_ms())?))
    }

    fn issue(&self) -> Result<ServiceCertificate, BoxError> {
        let names = NAMES.map(str::to_owned);
        Ok(self.0.issue(&names, SystemClock::new().wall_ms(), CERTIFICATE_LIFETIME)?)
    }

    /// The client's side, which speaks `protocols`.
    ///
    /// # Errors
    /// None in practice: the authority's certificate is one.
    pub fn client(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, BoxError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.0.certificate().as_bytes())?)?;
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }

    /// The client's side for requests of S3.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub fn trust(&self) -> Result<TlsTrust, BoxError> {
        Ok(TlsTrust(self.client(&[b"http/1.1"])?))
    }

    /// The server's side, with a new certificate.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn server(&self, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, BoxError> {
        let issued = self.issue()?;
        let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_no_client_auth()
                .with_single_cert(chain, key)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }

    /// Writes `public.crt` and `private.key` for a store's clients into `folder`, which is made, and the
    /// authority as `CAs/ca.crt`; and below `nodes` the certificates of the nodes `n1` to `n<nodes>`.
    ///
    /// # Errors
    /// A certificate cannot be made, or a file not be written.
    pub fn write(&self, folder: &Path, nodes: usize) -> Result<(), BoxError> {
        let issued = self.issue()?;
        fs::create_dir_all(folder.join("CAs"))?;
        write(&folder.join("CAs/ca.crt"), self.0.certificate())?;
        write(&folder.join("public.crt"), &issued.certificate)?;
        write(&folder.join("private.key"), &issued.key)?;
        let folder = folder.join("nodes");
        fs::create_dir_all(&folder)?;
        let now_ms = SystemClock::new().wall_ms();
        let authority = Authority::init(CLUSTER, now_ms)?;
        write(&folder.join("ca.crt"), authority.certificate())?;
        for number in 1..=nodes {
            let name = format!("n{number}");
            let issued = authority.issue(&name, Role::Node, now_ms, CERTIFICATE_LIFETIME)?;
            write(&folder.join(format!("{name}.crt")), &issued.certificate)?;
            write(&folder.join(format!("{name}.key")), &issued.key)?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().create_new(true).write(true).mode(PRIVATE).open(path)?.write_all(text.as_bytes())
}
