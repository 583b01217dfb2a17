//! Which layers are measured at which sizes, with how many clients, and why not at the others.

use std::fmt;
use std::str::FromStr;

use super::error::{Error, Failure};
use super::work::Op;
use super::{Session, disk, http, memory, node, process, protocol, sdk, storage};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of an object.
pub(super) const SIZES: [u64; 5] = [4 * KIB, 64 * KIB, MIB, 10 * MIB, GIB];
/// Clients at a time.
pub(super) const CLIENTS: [usize; 4] = [1, 8, 32, 128];

/// A part of the way of a request, measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// L1: HTTP.
    Http,
    /// L2: authentication, S3, XML.
    Protocol,
    /// L3: the store over its volumes.
    Storage,
    /// L4: hashing and erasure in memory.
    Memory,
    /// L5: one volume.
    Disk,
    /// L6: the protocol over the store.
    Process,
    /// L7: an SDK's client and a whole node.
    Sdk,
    /// A whole node, with the client of L1.
    Node,
}

impl Layer {
    /// All of them, in their order.
    pub(super) const ALL: [Self; 8] = [
        Self::Http,
        Self::Protocol,
        Self::Storage,
        Self::Memory,
        Self::Disk,
        Self::Process,
        Self::Sdk,
        Self::Node,
    ];

    /// The label of its rows.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Http => "L1",
            Self::Protocol => "L2",
            Self::Storage => "L3",
            Self::Memory => "L4",
            Self::Disk => "L5",
            Self::Process => "L6",
            Self::Sdk => "L7",
            Self::Node => "node",
        }
    }

    /// Whose allocations its rows count.
    pub(super) const fn counted(self) -> &'static str {
        match self {
            Self::Sdk => "client and server",
            Self::Http
            | Self::Protocol
            | Self::Storage
            | Self::Memory
            | Self::Disk
            | Self::Process
            | Self::Node => "server",
        }
    }

    pub(super) fn run(self, session: &mut Session, bytes: u64) -> Result<(), Error> {
        match self {
            Self::Http => http::run(session, bytes),
            Self::Protocol => protocol::run(session, bytes),
            Self::Storage => storage::run(session, bytes),
            Self::Memory => memory::run(session, bytes),
            Self::Disk => disk::run(session, bytes),
            Self::Process => process::run(session, bytes),
            Self::Sdk => sdk::run(session, bytes),
            Self::Node => node::run(session, bytes),
        }
    }

    /// An operation of this layer failed.
    pub(super) fn failure(self, op: Op, bytes: u64, source: Failure) -> Error {
        Error::Operation { layer: self.label(), op: op.label(), size: Size(bytes).to_string(), source }
    }
}

impl FromStr for Layer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|layer| layer.label().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::label).join(", ");
            Error::Argument(format!("{text} is no layer; there are {known}"))
        })
    }
}

/// Why a layer is not measured at a size with so many clients; nothing when it is.
pub(super) fn skipped(layer: Layer, bytes: u64, clients: usize) -> Option<&'static str> {
    if matches!(layer, Layer::Protocol | Layer::Memory) && clients > 8 {
        return Some("nothing in it waits: more clients than cores only take turns");
    }
    if bytes >= GIB && clients > 1 {
        return Some("one client already uses the machine's memory or disk fully, and several fill the disk");
    }
    if bytes >= 10 * MIB && clients > 32 {
        return Some("32 clients already wait for bytes; more only wait longer");
    }
    None
}

/// A size as rows are labelled with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        match [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
            .into_iter()
            .find(|(unit, _)| bytes.is_multiple_of(*unit))
        {
            Some((unit, name)) if bytes > 0 => write!(f, "{}{name}", bytes / unit),
            _ => write!(f, "{bytes}B"),
        }
    }
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        SIZES.map(Size).into_iter().find(|size| size.to_string().eq_ignore_ascii_case(text)).ok_or_else(
            || {
                let known = SIZES.map(|size| Size(size).to_string()).join(", ");
                Error::Argument(format!("{text} is no size of this bench; there are {known}"))
            },
        )
    }
}
