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
    /// The version of TLS between the client and this node (`1.2`, `1.3`); `None` without TLS, and where a
    /// proxy says how its client came to it.
    pub tls_version: Option<&'static str>,
}

impl Source {
    /// The source of a request that no listener took.
    const UNKNOWN: Self =
        Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), is_secure: false, tls_version: None };

    /// Reads it from the extensions of a request.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self::UNKNOWN)
    }
}
