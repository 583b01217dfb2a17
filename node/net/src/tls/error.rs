//! Why trust cannot be loaded, and why a handshake failed: in words that name the file or the peer.
//!
//! A refusal carries the name that the certificate claims, if that is a name of this scheme: unverified
//! bytes, good for a log line and for nothing else.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError};
use sherd_core::id::ClusterId;
use sherd_trust::{PeerIdentity, UnreadableCertificate};

use crate::tls::limits;

/// Why the files cannot be used. The operator must replace one.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("{op} {path}: {source}", path = path.display())]
    Io {
        /// The step.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The key is open to other users.
    #[error("{path} has mode {mode:04o}: a key must be closed to other users (chmod o= {path})", path = path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// A file is longer than any that belongs here.
    #[error("{path} is longer than {} bytes", limits::FILE_BYTES_MAX, path = path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A file has no PEM section of the wanted kind, or a broken one.
    #[error("{path} holds no {wanted} in PEM", path = path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// The PEM section that it should hold.
        wanted: &'static str,
    },
    /// The key is of a kind that TLS here cannot use.
    #[error("{path} holds a private key of an unknown kind", path = path.display())]
    KeyKind {
        /// The file.
        path: PathBuf,
    },
    /// The key belongs to another certificate.
    #[error("the key {key} does not fit the certificate {cert}", key = key.display(), cert = cert.display())]
    KeyDoesNotFit {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
    },
    /// The system trusts no authority, and none is named.
    #[error("this system has no trusted authorities: name the file of one")]
    NoSystemAuthorities,
    /// A certificate is refused.
    #[error("{path}: {refusal}", path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The certificate and its fault.
        refusal: Box<CertificateRefusal>,
    },
}

/// A certificate and why it is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificateRefusal {
    /// The name that it claims, if it is of this scheme.
    pub presented: Option<PeerIdentity>,
    /// Why it is refused.
    pub fault: CertificateFault,
}

impl fmt::Display for CertificateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { presented, fault } = self;
        match presented {
            Some(identity) => write!(f, "the certificate of {identity} {fault}"),
            None => write!(f, "the certificate {fault}"),
        }
    }
}

/// Why a certificate is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CertificateFault {
    /// Expired.
    #[error("has expired")]
    Expired,
    /// Not valid yet: one of the two clocks is wrong.
    #[error("is not yet valid")]
    NotYetValid,
    /// No trusted authority signed it.
    #[error("is not signed by a trusted CA")]
    UnknownAuthority,
    /// Certificate of another cluster.
    #[error("is of another cluster than {own}")]
    ForeignCluster {
        /// The cluster of this process.
        own: ClusterId,
    },
    /// Certificate of another peer, or of the same name in another role.
    #[error("is not that of {expected}")]
    OtherName {
        /// The peer that was expected.
        expected: PeerIdentity,
    },
    /// No certificate of a node, where any node was expected.
    #[error("is not that of a node")]
    OtherRole,
    /// Not of this scheme.
    #[error("is not one of a cluster: {0}")]
    Unreadable(#[from] UnreadableCertificate),
    /// Without one of the two extended usages: the certificate serves one side of a connection only.
    #[error("may not be used for TLS clients and servers both")]
    Usage,
    /// WebPKI refuses it for another reason.
    #[error("is invalid: {0}")]
    Invalid(CertificateError),
}

impl CertificateFault {
    pub(crate) fn new(error: CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Self::Usage,
            other => Self::Invalid(other),
        }
    }
}

/// Why a handshake gave no connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeFailure {
    /// The client has no certificate.
    #[error("the peer showed no certificate")]
    NoCertificate,
    /// The peer's certificate is refused.
    #[error("{0}")]
    Certificate(Box<CertificateRefusal>),
    /// The peer refuses this process; with TLS 1.3 a client gets the refusal with its first read only.
    #[error("the peer refused this process: {}", alert_text(*.0))]
    RefusedByPeer(AlertDescription),
    /// The peer speaks something else.
    #[error("the peer does not speak HTTP/2 over TLS 1.3")]
    Protocol,
    /// The peer went away before the handshake began or in its midst.
    #[error("the peer closed the connection")]
    Closed,
    /// The handshake fails for a reason of TLS itself.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The connection fails.
    #[error("{0}")]
    Io(io::Error),
}

impl HandshakeFailure {
    /// Reads the failure off an error of a TLS stream. Also of a later read: a server's refusal of the
    /// client's certificate arrives with the first one.
    pub fn from_io(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(rustls::Error::AlertReceived(alert)) => Self::RefusedByPeer(*alert),
            Some(
                rustls::Error::InvalidMessage(_)
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::NoApplicationProtocol,
            ) => Self::Protocol,
            Some(rustls::Error::InvalidCertificate(error)) => {
                let fault = CertificateFault::new(error.clone());
                Self::Certificate(Box::new(CertificateRefusal { presented: None, fault }))
            }
            Some(other) => Self::Tls(other.clone()),
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe => Self::Closed,
                _ => Self::Io(error),
            },
        }
    }
}

fn alert_text(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => {
            "its clock shows a time outside of this certificate's".to_owned()
        }
        AlertDescription::UnknownCA => "it does not trust the CA of this certificate".to_owned(),
        AlertDescription::AccessDenied => "it is of another cluster, or expects another name".to_owned(),
        AlertDescription::CertificateRequired => "it wants a certificate".to_owned(),
        AlertDescription::NoApplicationProtocol => "it does not speak HTTP/2".to_owned(),
        AlertDescription::ProtocolVersion => "it does not speak TLS 1.3".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Why a connection was not accepted. The listener goes on with the next one.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The client took too long.
    #[error("no handshake within {} s", limits::ACCEPT_TIMEOUT.as_secs())]
    TimedOut,
    /// The handshake had not ended when its place was wanted.
    #[error("no handshake yet, and others want its place")]
    GaveWay,
    /// The listener has as many connections as it may have.
    #[error("too many connections")]
    TooMany,
    /// The handshake failed.
    #[error("handshake: {0}")]
    Handshake(HandshakeFailure),
}

/// Why a peer could not be connected to. Trying again later may help.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The whole took too long.
    #[error("{address}: no connection within {} s", limits::CONNECT_TIMEOUT.as_secs())]
    TimedOut {
        /// As it is configured.
        address: String,
    },
    /// The address names no host.
    #[error("resolve {address}: {source}")]
    Resolve {
        /// As it is configured.
        address: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// No address of the host takes connections.
    #[error("connect to {address}: {source}")]
    Connect {
        /// As it is configured.
        address: String,
        /// The last address's reason.
        source: io::Error,
    },
    /// A host answers, and is not the peer that was expected or refuses this process.
    #[error("{address}: {failure}")]
    Handshake {
        /// As it is configured.
        address: String,
        /// The failure of the handshake.
        failure: HandshakeFailure,
    },
}

/// Why a client of S3 has no connection. The listener goes on with the next one.
#[derive(Debug, thiserror::Error)]
pub enum ClientRefusal {
    /// The client took too long.
    #[error("no handshake within {} s", limits::ACCEPT_TIMEOUT.as_secs())]
    TimedOut,
    /// Too many handshakes were under way, and this was the oldest.
    #[error("it gave way to newer handshakes")]
    GaveWay,
    /// The client sent a request in clear text.
    #[error("it speaks plain HTTP to a port of TLS")]
    PlainHttp,
    /// The client refuses the certificate, or the versions of TLS.
    #[error("it refuses this node: {0:?}")]
    RefusedByClient(AlertDescription),
    /// The client speaks something else.
    #[error("it does not speak HTTP/1.1 over TLS 1.2 or 1.3: {0}")]
    Protocol(rustls::Error),
    /// The client went away before the handshake began or in its midst.
    #[error("it closed the connection")]
    Closed,
    /// The handshake fails for a reason of TLS itself.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The connection fails.
    #[error("{0}")]
    Io(io::Error),
}

impl ClientRefusal {
    /// Reads the refusal off an error of a handshake with a client that shows no certificate.
    pub fn from_io(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::AlertReceived(alert)) => Self::RefusedByClient(*alert),
            Some(
                other @ (rustls::Error::InvalidMessage(_)
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::NoApplicationProtocol),
            ) => Self::Protocol(other.clone()),
            Some(other) => Self::Tls(other.clone()),
            None => match HandshakeFailure::from_io(error) {
                HandshakeFailure::Io(error) => Self::Io(error),
                _ => Self::Closed,
            },
        }
    }
}
