//! Where one node of a store listens.

use std::net::{SocketAddr, ToSocketAddrs};

use super::error::Error;
use crate::tls::authority::TlsTrust;

/// The region of every store that is started, and of endpoints without one.
pub(super) const REGION: &str = "us-east-1";

/// Where one node of a store listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The node's address.
    pub address: SocketAddr,
    /// The `host` header.
    pub host: String,
    /// The trust of connections over TLS; in clear without.
    pub tls: Option<TlsTrust>,
}

impl Endpoint {
    /// The node at `address`, with the address as its host.
    pub(super) fn at(address: SocketAddr) -> Self {
        Self { address, host: address.to_string(), tls: None }
    }

    /// The node that `url` names.
    ///
    /// # Errors
    /// The URL is not one of clear-text HTTP, or its name cannot be resolved.
    pub(super) fn of_url(url: &str) -> Result<Self, Error> {
        let bad = |reason| Error::Endpoint { url: url.to_owned(), reason };
        let rest = url.strip_prefix("http://").ok_or_else(|| bad("only http:// is spoken"))?;
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains('/') || host.contains('@') {
            return Err(bad("not of the form http://host:port"));
        }
        let numbered = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
        let mut addresses = numbered.to_socket_addrs().map_err(|_| bad("its name is not known"))?;
        let address = addresses.next().ok_or_else(|| bad("its name is not known"))?;
        Ok(Self { address, host: host.to_owned(), tls: None })
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}
