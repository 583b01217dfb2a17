//! Who may speak to this node, and how: mutual TLS 1.3 by names, with files that may be replaced while it runs.
//!
//! ```text
//! files -> PemFiles -> Material (checked whole) -> Trust -> accept / connect
//!             ^ follow: looks each 10 s, swaps whole or not at all
//! ```
//!
//! A dialler gives the name that it expects; WebPKI compares it with the certificate's, whatever the address.
//! A listener takes name and role from the client's certificate. Either side refuses another cluster. The
//! names and the authority are the crate `sherd-trust`. Used by peers (dialling), `rpc` (listening), `status`.

mod connections;
pub mod error;
mod files;
mod follow;
pub mod limits;
mod material;
mod places;
mod refusal_log;
mod stream;
mod verify;

use std::sync::Arc;

use parking_lot::RwLock;
use sherd_core::env::Clock;
pub use sherd_trust::{CertificateFacts, InvalidIdentity, PeerIdentity, Role, authority};

use crate::machine::system::SystemClock;
pub use crate::trust::error::{
    AcceptError, CertificateFault, CertificateRefusal, ConnectError, HandshakeFailure, TrustError,
};
use crate::trust::files::PemFiles;
pub use crate::trust::files::TrustFiles;
use crate::trust::material::Material;
pub use crate::trust::places::{HandshakePlace, HandshakePlaces};
pub use crate::trust::refusal_log::RefusalLog;
pub use crate::trust::stream::{AcceptedStream, ConnectedPeer};

/// The certificate of this process, the authorities that it trusts, and connections made with both.
#[derive(Debug, Clone)]
pub struct Trust {
    shared: Arc<TrustState>,
}

#[derive(Debug)]
struct TrustState {
    files: TrustFiles,
    own: PeerIdentity,
    clock: Arc<dyn Clock>,
    current: RwLock<Arc<Material>>,
}

impl Trust {
    /// Loads the three files and checks that this process can be `own` with them.
    ///
    /// # Errors
    /// [`TrustError`] names the file and what is wrong with it.
    pub fn load(files: TrustFiles, own: PeerIdentity) -> Result<Self, TrustError> {
        Self::load_with_clock(files, own, Arc::new(SystemClock::new()))
    }

    /// Loads as [`Self::load`] does, by another clock: certificates are valid by it, here and in handshakes.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_clock(
        files: TrustFiles,
        own: PeerIdentity,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TrustError> {
        let pem = PemFiles::read(&files)?;
        let material = Material::new(&pem, &files, &own, &clock, 1)?;
        let current = RwLock::new(Arc::new(material));
        Ok(Self { shared: Arc::new(TrustState { files, own, clock, current }) })
    }

    /// Returns who this process is.
    pub fn own(&self) -> &PeerIdentity {
        &self.shared.own
    }

    /// Returns the number of the loaded files: 1 at first, one more with each reload.
    pub fn generation(&self) -> u64 {
        self.material().generation
    }

    /// Returns the SHA-256 of each trusted authority's certificate, in ascending order.
    pub fn fingerprints(&self) -> Vec<[u8; 32]> {
        self.material().fingerprints.clone()
    }

    /// Returns when the own certificate expires, in seconds since the Unix epoch.
    pub fn expires(&self) -> u64 {
        self.material().expires_s
    }

    fn material(&self) -> Arc<Material> {
        Arc::clone(&self.shared.current.read())
    }
}

#[cfg(test)]
mod tests;
