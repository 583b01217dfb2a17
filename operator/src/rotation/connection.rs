//! The certificate authority of the operator's own connections, and the CAs that it trusts on them.

use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;
use sherd_trust::{Authority, AuthorityError};

use super::record::AuthorityRecord;

/// The CAs that connections to the nodes of a cluster are made with.
///
/// The operator shows a certificate of the CA that signs, which every node trusts; after the loss of a CA,
/// those that have loaded the next one. It trusts what nodes trust.
#[derive(Debug)]
pub struct ClusterTrust {
    /// Issues the operator's certificate.
    pub signer: Authority,
    /// The trusted CAs, in PEM.
    pub roots: String,
}

impl ClusterTrust {
    /// The trust of a record.
    ///
    /// # Errors
    /// [`AuthorityError`] names what is wrong with the CA that signs.
    pub fn of(record: &AuthorityRecord) -> Result<Self, AuthorityError> {
        Ok(Self { signer: record.signer().load()?, roots: record.bundle() })
    }

    /// Returns the cluster whose nodes are asked.
    pub fn cluster(&self) -> ClusterId {
        self.signer.cluster()
    }

    /// Returns a digest that is another one for other CAs, or for another one of them that signs.
    pub fn digest(&self) -> [u8; 32] {
        let digest = Sha256::new().chain_update(self.signer.key_digest().0).chain_update(&self.roots);
        digest.finalize().into()
    }
}
