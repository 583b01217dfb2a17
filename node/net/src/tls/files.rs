//! The files of certificates and keys, read whole and within bounds: three for peers, two for clients of S3.
//!
//! The only file of the room that opens files: once at start, before there is a volume, then each time they
//! are looked at. A key that others may read is refused as a credentials file is.

#![expect(clippy::disallowed_methods, reason = "certificates are read before there is a volume")]

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::tls::error::TrustError;
use crate::tls::limits;

/// Permission bits that a key file must not have: those of users outside of its owner and group.
const KEY_MODE_FORBIDDEN: u32 = 0o007;

/// Where the certificates lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustFiles {
    /// Certificates of the trusted authorities, in PEM; two of them while one replaces the other.
    pub ca: PathBuf,
    /// The own certificate, and those between it and the authority if there are any.
    pub cert: PathBuf,
    /// The key of the own certificate, closed to other users.
    pub key: PathBuf,
}

impl TrustFiles {
    pub(crate) fn own(&self) -> CertificateFiles {
        CertificateFiles { cert: self.cert.clone(), key: self.key.clone() }
    }
}

/// Where the certificate that clients see lies, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those between it and its authority, in PEM.
    pub cert: PathBuf,
    /// The key of the certificate, closed to other users.
    pub key: PathBuf,
}

/// Where the certificates for clients of S3 lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPaths {
    /// The certificate of a client that asks for no name, or for a name that none is valid for.
    pub first: CertificateFiles,
    /// Certificates of clients that ask for a name which the first is not valid for. The files may be absent
    /// or wrong.
    pub further: Vec<CertificateFiles>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PemPair {
    pub(crate) cert: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PemFiles {
    pub(crate) ca: Vec<u8>,
    pub(crate) pair: PemPair,
}

impl PemPair {
    pub(crate) fn read(files: &CertificateFiles) -> Result<Self, TrustError> {
        let CertificateFiles { cert, key } = files;
        Ok(Self { cert: read(cert, 0)?, key: read(key, KEY_MODE_FORBIDDEN)? })
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        digest(&[&self.cert, &self.key])
    }
}

impl PemFiles {
    pub(crate) fn read(files: &TrustFiles) -> Result<Self, TrustError> {
        Ok(Self { ca: read(&files.ca, 0)?, pair: PemPair::read(&files.own())? })
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        digest(&[&self.ca, &self.pair.cert, &self.pair.key])
    }
}

pub(crate) fn read_authorities(path: &Path) -> Result<Vec<u8>, TrustError> {
    read(path, 0)
}

fn digest(files: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for bytes in files {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.finalize().into()
}

fn read(path: &Path, forbidden: u32) -> Result<Vec<u8>, TrustError> {
    let io = |op| move |source| TrustError::Io { op, path: path.to_owned(), source };
    let file = File::open(path).map_err(io("open"))?;
    // Of the open file: its path may name another one a moment later.
    let mode = file.metadata().map_err(io("stat"))?.mode() & 0o777;
    if mode & forbidden != 0 {
        return Err(TrustError::Mode { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(limits::FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io("read"))?;
    if bytes.len() as u64 > limits::FILE_BYTES_MAX {
        return Err(TrustError::TooLong { path: path.to_owned() });
    }
    Ok(bytes)
}
