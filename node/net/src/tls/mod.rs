//! Mutual TLS 1.3 between nodes, by names, with files that may be replaced while the process runs.
//!
//! ```text
//! files -> PemFiles -> Material (checked whole) -> Trust -> accept / connect
//!             ^ follow: looks each 10 s, swaps whole or not at all
//!             v
//! files -> PemPair -> ServedMaterial -> ServedCertificate -> handshakes with clients of S3, in `server`
//! ```
//!
//! A dialler gives the name that it expects; WebPKI compares it with the certificate's; addresses do not
//! count. A listener takes name and role from the client's certificate. Either side refuses another cluster.
//! The names and the authority are the crate `sherd-trust`. Used by peers (dialling), `rpc` (listening),
//! `status`. Clients of S3 show no certificate: the one they are shown is in `served`, the authorities of
//! `probe` in `https`.

mod connections;
pub mod error;
mod files;
mod follow;
pub mod https;
pub mod limits;
mod material;
mod places;
mod refusal_log;
mod served;
mod stream;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use sherd_core::env::Clock;
pub use sherd_trust::{CertificateFacts, InvalidIdentity, PeerIdentity, Role, authority};
use tokio_util::sync::CancellationToken;

pub use crate::tls::error::{
    AcceptError, CertificateFault, CertificateRefusal, ClientRefusal, ConnectError, HandshakeFailure,
    TrustError,
};
use crate::tls::files::PemFiles;
pub use crate::tls::files::{CertificateFiles, ServedPaths, TrustFiles};
use crate::tls::follow::{FollowedFiles, LoadedMaterial, MaterialSource};
use crate::tls::material::Material;
pub use crate::tls::places::{ConnectionPlace, ConnectionPlaces};
pub use crate::tls::refusal_log::RefusalLog;
pub use crate::tls::served::{ServedCertificate, ServedStream, version_of};
pub use crate::tls::stream::{AcceptedStream, ConnectedPeer, DialledStream};
use sherd_store::machine::system::SystemClock;

/// The certificate of this process, the authorities that it trusts, and connections made with both.
#[derive(Debug, Clone)]
pub struct Trust {
    shared: Arc<FollowedFiles<PeerFiles>>,
}

/// The files of a process that is `own`, valid by a clock.
#[derive(Debug)]
struct PeerFiles {
    files: TrustFiles,
    own: PeerIdentity,
    clock: Arc<dyn Clock>,
}

impl MaterialSource for PeerFiles {
    type Paths = TrustFiles;
    type Pem = PemFiles;
    type Material = Material;
    const SHOWN_TO: &'static str = "peers";

    fn paths(&self) -> &TrustFiles {
        &self.files
    }

    fn read(files: &TrustFiles) -> Result<PemFiles, TrustError> {
        PemFiles::read(files)
    }

    fn digest(pem: &PemFiles) -> [u8; 32] {
        pem.digest()
    }

    fn check(&self, pem: &PemFiles) -> Result<Material, TrustError> {
        Material::new(pem, &self.files, &self.own, &self.clock)
    }

    fn expires_s(material: &Material) -> u64 {
        material.expires_s
    }
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
        Ok(Self { shared: Arc::new(FollowedFiles::load(PeerFiles { files, own, clock })?) })
    }

    /// Returns who this process is.
    pub fn own(&self) -> &PeerIdentity {
        &self.shared.source().own
    }

    /// Returns the number of the loaded files: 1 at first, one more with each reload.
    pub fn generation(&self) -> u64 {
        self.loaded().generation
    }

    /// Returns when other files than those of a generation are loaded. Cancel-safe.
    pub async fn replaced(&self, generation: u64) {
        self.shared.replaced(generation).await;
    }

    /// Returns the SHA-256 of each trusted authority's certificate, in ascending order.
    pub fn fingerprints(&self) -> Vec<[u8; 32]> {
        self.loaded().material.fingerprints.clone()
    }

    /// Returns the SHA-256 of the certificate of the trusted authority that the own certificate is of.
    pub fn own_authority(&self) -> [u8; 32] {
        self.loaded().material.own_authority
    }

    /// Returns when the own certificate expires, in seconds since the Unix epoch.
    pub fn expires(&self) -> u64 {
        self.loaded().material.expires_s
    }

    /// Looks at the files each ten seconds until `stop`, and reloads what changed.
    pub async fn follow(self, stop: CancellationToken) {
        self.follow_each(limits::FOLLOW_INTERVAL, stop).await;
    }

    /// Follows the files as [`Self::follow`] does, with another interval.
    pub async fn follow_each(self, interval: Duration, stop: CancellationToken) {
        self.shared.follow(interval, stop).await;
    }

    fn loaded(&self) -> Arc<LoadedMaterial<Material>> {
        self.shared.current()
    }
}

#[cfg(test)]
mod tests;
