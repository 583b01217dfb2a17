//! The place that a request came from, among the extensions of every request that a listener takes.
//!
//! The listener sets it (`node/src/server/source.rs`): it has the address of its peer, and the proxies that
//! are trusted.

use std::net::{IpAddr, Ipv4Addr};

use http::Extensions;

/// The place that a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The address of the client. One of IPv4 is never written as one of IPv6.
    pub address: IpAddr,
    /// Whether the client's bytes were encrypted on their way.
    pub is_secure: bool,
}

impl Source {
    /// That of a request that no listener took.
    const UNKNOWN: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), is_secure: false };

    /// Reads it from the extensions of a request.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self::UNKNOWN)
    }
}
