//! The certificates that clients of S3 are shown, of files that may be replaced while the node runs.
//!
//! A client that asks for a name gets the first certificate that is valid for it, else the first of all, as
//! one does that asks for none. Each has its own files: one that is broken holds up no other. Of all but the
//! first they may be absent or wrong from the start, which is logged.
//!
//! Which authority signed it and which names it has is between its owner and the clients: checked is that the
//! key fits, and that the certificate is valid at this time. A handshake takes the settings of its moment;
//! sessions are resumed within one generation only, so a client that comes back after a reload sees the new
//! certificate.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{Acceptor, ParsedCertificate};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ProtocolVersion, ServerConfig};
use sherd_core::env::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
pub use tokio_rustls::server::TlsStream as ServedStream;
use tokio_util::sync::CancellationToken;

use crate::tls::error::{CertificateFault, CertificateRefusal, TrustError};
use crate::tls::files::{CertificateFiles, PemPair, ServedPaths};
use crate::tls::follow::{FollowedFiles, LoadedMaterial, MaterialSource};
use crate::tls::limits;
use crate::tls::material::{ClockTime, certificates, certified_key};
use sherd_store::machine::system::SystemClock;

/// The protocol of the S3 listener. A client that offers others alone is refused.
pub(crate) const ALPN: &[u8] = b"http/1.1";

/// The version of TLS that a connection has: `1.2` or `1.3`.
pub fn version_of<S>(stream: &ServedStream<S>) -> Option<&'static str> {
    match stream.get_ref().1.protocol_version()? {
        ProtocolVersion::TLSv1_2 => Some("1.2"),
        ProtocolVersion::TLSv1_3 => Some("1.3"),
        _ => None,
    }
}

/// The certificates for clients, and their keys.
#[derive(Debug, Clone)]
pub struct ServedCertificate {
    first: Arc<FollowedFiles<ServedFiles>>,
    further: Arc<[FollowedFiles<FurtherFiles>]>,
}

/// The two files, and the clock that says whether the certificate is valid.
#[derive(Debug)]
struct ServedFiles {
    files: CertificateFiles,
    clock: Arc<dyn Clock>,
}

/// Such files, which may be absent or wrong.
#[derive(Debug)]
struct FurtherFiles(ServedFiles);

#[derive(Debug)]
struct ServedMaterial {
    config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
    expires_s: u64,
}

impl ServedMaterial {
    /// Whether a client that asks for this name takes the certificate.
    fn is_valid_for(&self, name: &ServerName<'_>) -> bool {
        let parsed = ParsedCertificate::try_from(&self.leaf);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
    }
}

impl ServedCertificate {
    /// Loads the files.
    ///
    /// # Errors
    /// [`TrustError`] names the file of the first certificate and what is wrong with it.
    pub fn load(paths: ServedPaths) -> Result<Self, TrustError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self::load_with_clock(paths, &clock)
    }

    /// Loads as [`Self::load`] does, by another clock.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_clock(paths: ServedPaths, clock: &Arc<dyn Clock>) -> Result<Self, TrustError> {
        let ServedPaths { first, further } = paths;
        let of = |files| ServedFiles { files, clock: Arc::clone(clock) };
        let first = Arc::new(FollowedFiles::load(of(first))?);
        let further = further.into_iter().map(|files| FollowedFiles::load_or(FurtherFiles(of(files)), None));
        Ok(Self { first, further: further.collect() })
    }

    /// Looks at the files each ten seconds until `stop`, and reloads what changed.
    pub async fn follow(self, stop: CancellationToken) {
        self.follow_each(limits::FOLLOW_INTERVAL, stop).await;
    }

    /// Follows the files as [`Self::follow`] does, with another interval.
    pub async fn follow_each(self, interval: Duration, stop: CancellationToken) {
        let further = self.further.iter().map(|files| files.follow(interval, stop.clone()));
        tokio::join!(self.first.follow(interval, stop.clone()), join_all(further));
    }

    /// Returns when the first certificate expires, in seconds since the Unix epoch.
    pub fn expires(&self) -> u64 {
        self.first.current().material.expires_s
    }

    /// Does the server's side of a handshake.
    ///
    /// # Errors
    /// The error of the socket or of the handshake.
    pub async fn accept<S>(&self, stream: S) -> io::Result<ServedStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let config = self.config(hello.client_hello().server_name());
        hello.into_stream(config).await
    }

    /// Returns the settings of a handshake that begins at this moment, by the name that the client asks for.
    fn config(&self, asked: Option<&str>) -> Arc<ServerConfig> {
        let first = self.first.current();
        let name = asked.and_then(|asked| ServerName::try_from(asked).ok());
        let Some(name) = name.filter(|name| !first.material.is_valid_for(name)) else {
            return Arc::clone(&first.material.config);
        };
        let further = self.further.iter().map(FollowedFiles::current);
        let config = |loaded: Arc<LoadedMaterial<Option<ServedMaterial>>>| {
            let material = loaded.material.as_ref().filter(|material| material.is_valid_for(&name))?;
            Some(Arc::clone(&material.config))
        };
        further.into_iter().find_map(config).unwrap_or_else(|| Arc::clone(&first.material.config))
    }
}

impl MaterialSource for ServedFiles {
    type Paths = CertificateFiles;
    type Pem = PemPair;
    type Material = ServedMaterial;
    const SHOWN_TO: &'static str = "clients of S3";

    fn paths(&self) -> &CertificateFiles {
        &self.files
    }

    fn read(files: &CertificateFiles) -> Result<PemPair, TrustError> {
        PemPair::read(files)
    }

    fn digest(pem: &PemPair) -> [u8; 32] {
        pem.digest()
    }

    fn check(&self, pem: &PemPair) -> Result<ServedMaterial, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates(&pem.cert, &self.files.cert)?;
        let expires_s = valid_until(&chain, self.clock.wall_ms() / 1_000).map_err(|fault| {
            let refusal = Box::new(CertificateRefusal { presented: None, fault });
            TrustError::Certificate { path: self.files.cert.clone(), refusal }
        })?;
        let leaf = chain.first().expect("its end was read").clone();
        let certificate = certified_key(chain, pem, &self.files, &provider)?;
        let time = Arc::new(ClockTime(Arc::clone(&self.clock)));
        let mut config = ServerConfig::builder_with_details(provider, time)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .expect("ring has the suites of TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(ServedMaterial { config: Arc::new(config), leaf, expires_s })
    }

    fn expires_s(material: &ServedMaterial) -> u64 {
        material.expires_s
    }
}

impl MaterialSource for FurtherFiles {
    type Paths = CertificateFiles;
    type Pem = PemPair;
    type Material = Option<ServedMaterial>;
    const SHOWN_TO: &'static str = "clients of S3";

    fn paths(&self) -> &CertificateFiles {
        self.0.paths()
    }

    fn read(files: &CertificateFiles) -> Result<PemPair, TrustError> {
        PemPair::read(files)
    }

    fn digest(pem: &PemPair) -> [u8; 32] {
        pem.digest()
    }

    fn check(&self, pem: &PemPair) -> Result<Option<ServedMaterial>, TrustError> {
        self.0.check(pem).map(Some)
    }

    fn expires_s(material: &Option<ServedMaterial>) -> u64 {
        material.as_ref().map_or(0, |material| material.expires_s)
    }
}

/// Returns the end of the validity of the first certificate, which must have begun.
fn valid_until(chain: &[CertificateDer<'static>], now_s: u64) -> Result<u64, CertificateFault> {
    let broken = || CertificateFault::Invalid(CertificateError::BadEncoding);
    let leaf = chain.first().ok_or_else(broken)?;
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf).map_err(|_| broken())?;
    let second = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let (begins, ends) = (second(leaf.validity().not_before), second(leaf.validity().not_after));
    match now_s {
        now if now < begins => Err(CertificateFault::NotYetValid),
        now if now > ends => Err(CertificateFault::Expired),
        _ => Ok(ends),
    }
}
