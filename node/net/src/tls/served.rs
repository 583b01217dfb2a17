//! The certificates that clients of S3 are shown, of files that may be replaced while the node runs.
//!
//! A client that asks for a name gets the first certificate for that name which has not expired, else the
//! first for the name, else the first of all, as a client does that asks for none. Each has its own files: a
//! broken one holds up no other. Of all but the first they may be absent or wrong from the start, which is
//! logged.
//!
//! Which authority signed it and which names it has is between its owner and the clients: checked is that the
//! key fits, and that the certificate is valid at this time. A handshake takes the settings of its moment;
//! sessions are resumed within one generation only, so a client that comes back after a reload sees the new
//! certificate.

use std::io;
use std::iter;
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
use crate::tls::follow::{FollowedFiles, MaterialSource};
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
    /// Whether a client that asks for this name takes the certificate while its time lasts.
    fn is_valid_for(&self, name: &ServerName<'_>) -> bool {
        let parsed = ParsedCertificate::try_from(&self.leaf);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
    }

    /// Whether its time is over: files that are not replaced stay loaded.
    fn has_expired(&self, now_s: u64) -> bool {
        now_s > self.expires_s
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
        let Some(name) = asked.and_then(|asked| ServerName::try_from(asked).ok()) else {
            return Arc::clone(&first.material.config);
        };
        let further: Vec<_> = self.further.iter().map(FollowedFiles::current).collect();
        let further = further.iter().filter_map(|loaded| loaded.material.as_ref());
        let mut valid = iter::once(&first.material).chain(further).filter(|one| one.is_valid_for(&name));
        let now_s = self.first.source().clock.wall_ms() / 1_000;
        let shown = match valid.next() {
            None => &first.material,
            Some(expired) if expired.has_expired(now_s) => {
                valid.find(|one| !one.has_expired(now_s)).unwrap_or(expired)
            }
            Some(current) => current,
        };
        Arc::clone(&shown.config)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A clock that the test sets, in seconds since the Unix epoch.
    #[derive(Debug)]
    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn wall_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed) * 1_000
        }
        fn monotonic_us(&self) -> u64 {
            0
        }
    }

    /// Writes a certificate for a name, valid to the begin of a year, and its key.
    fn issue(directory: &Path, name: &str, year: i32) -> CertificateFiles {
        let key = rcgen::KeyPair::generate().expect("entropy");
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.self_signed(&key).expect("a key");
        let file = |kind: &str, text: String| {
            let path = directory.join(format!("{year}.{kind}"));
            std::fs::write(&path, text).expect("my own directory");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("my own file");
            path
        };
        CertificateFiles { cert: file("crt", certificate.pem()), key: file("key", key.serialize_pem()) }
    }

    /// Several certificates are for one name, and they expire one after the other.
    #[test]
    fn a_name_gets_a_certificate_that_has_not_expired_before_one_that_has() {
        const NAME: &str = "photos.s3.example.org";
        /// The first seconds of 2026 to 2031.
        const YEARS: [u64; 6] =
            [1_767_225_600, 1_798_761_600, 1_830_297_600, 1_861_920_000, 1_893_456_000, 1_924_992_000];
        let directory = tempfile::tempdir().expect("a temporary directory");
        let issue = |name, year| issue(directory.path(), name, year);
        let further = [("*.s3.example.org", 2028), ("other.example.org", 2031), (NAME, 2030)];
        let paths = ServedPaths {
            first: issue("s3.example.org", 2027),
            further: further.map(|(name, year)| issue(name, year)).to_vec(),
        };
        let set = Arc::new(SetClock(AtomicU64::new(YEARS[0])));
        let clock: Arc<dyn Clock> = Arc::clone(&set) as _;
        let served = ServedCertificate::load_with_clock(paths, &clock).expect("its files");
        let first = served.first.current();
        let further: Vec<_> = served.further.iter().map(FollowedFiles::current).collect();
        let further = further.iter().map(|loaded| loaded.material.as_ref().expect("whole"));
        let configs: Vec<_> =
            iter::once(&first.material).chain(further).map(|material| Arc::clone(&material.config)).collect();
        let shown = |asked| {
            let config = served.config(asked);
            configs.iter().position(|one| Arc::ptr_eq(one, &config))
        };
        for (now_s, of_name) in YEARS.into_iter().zip([1, 1, 1, 3, 3, 1]) {
            set.0.store(now_s, Ordering::Relaxed);
            assert_eq!(shown(Some(NAME)), Some(of_name), "at {now_s}");
            assert_eq!(shown(Some("other.example.org")), Some(2), "at {now_s}");
            for asked in [None, Some("s3.example.org"), Some("a.b.example.org"), Some("no name")] {
                assert_eq!(shown(asked), Some(0), "{asked:?} at {now_s}");
            }
        }
    }

    /// The first certificate gives way, too.
    #[test]
    fn a_further_certificate_takes_the_place_of_the_first_when_that_has_expired() {
        const NAME: &str = "s3.example.org";
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [first, further] = [2027, 2030].map(|year| issue(directory.path(), NAME, year));
        let set = Arc::new(SetClock(AtomicU64::new(1_767_225_600)));
        let clock: Arc<dyn Clock> = Arc::clone(&set) as _;
        let paths = ServedPaths { first, further: vec![further] };
        let served = ServedCertificate::load_with_clock(paths, &clock).expect("its files");
        let is_of_first = |asked| Arc::ptr_eq(&served.config(asked), &served.first.current().material.config);
        let end_s = served.expires();
        for (now_s, first_is_shown) in [(end_s, true), (end_s + 1, false)] {
            set.0.store(now_s, Ordering::Relaxed);
            assert_eq!(is_of_first(Some(NAME)), first_is_shown, "at {now_s}");
            assert!(is_of_first(None), "a client without a name gets the first one");
        }
    }
}
