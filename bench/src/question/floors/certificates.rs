//! Both sides of TLS 1.3 for the ways of one run.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use super::ends::BoxError;
use crate::tls::authority::BenchAuthority;

/// Both sides of a handshake.
#[derive(Debug, Clone)]
pub(super) struct Sides {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl Sides {
    /// Of a new authority; they agree on `protocol`, if there is one.
    pub(super) fn new(protocol: Option<&[u8]>) -> Result<Self, BoxError> {
        let authority = BenchAuthority::new()?;
        let protocols: Vec<&[u8]> = protocol.into_iter().collect();
        Ok(Self { client: authority.client(&protocols)?, server: authority.server(&protocols)? })
    }

    pub(super) fn name() -> ServerName<'static> {
        ServerName::try_from("localhost").expect("a name")
    }
}
