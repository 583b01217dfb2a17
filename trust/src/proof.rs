//! The proof that a node accepts a pair of root credentials. Nodes compare the proofs of each other, and
//! the operator compares them with those of the pairs that it gave the nodes.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use sherd_core::id::ClusterId;

/// Computes HMAC-SHA-256 of the cluster's id (16 bytes) and the access key id, keyed by the secret. It
/// shows that two sides have the same pair to one that has it; without the pair it can only be guessed at.
pub fn credentials_proof(cluster: ClusterId, access_key_id: &str, secret_access_key: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret_access_key.as_bytes()).expect("any length is a key");
    mac.update(&cluster.0);
    mac.update(access_key_id.as_bytes());
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of two builds compare it, and the operator is of a third one. The expected value was computed
    /// with another implementation of HMAC.
    #[test]
    fn the_proof_of_a_pair_never_changes() {
        let proof = credentials_proof(ClusterId([0x6a; 16]), "AKIAEXAMPLE", "a-secret-of-root");
        let expected = [
            0x9d, 0x1e, 0x94, 0x34, 0x7f, 0x38, 0xe4, 0x6b, 0xff, 0xbf, 0x96, 0x88, 0xf1, 0x88, 0x10, 0xb8,
            0xd2, 0xa5, 0x6a, 0x71, 0x10, 0xfa, 0x17, 0xc8, 0x65, 0x5d, 0x14, 0x11, 0xd6, 0x5c, 0x0a, 0x8a,
        ];
        assert_eq!(proof, expected);
        assert_ne!(proof, credentials_proof(ClusterId([0x6b; 16]), "AKIAEXAMPLE", "a-secret-of-root"));
        assert_ne!(proof, credentials_proof(ClusterId([0x6a; 16]), "AKIAEXAMPLF", "a-secret-of-root"));
        assert_ne!(proof, credentials_proof(ClusterId([0x6a; 16]), "AKIAEXAMPLE", "a-secret-of-roo"));
    }
}
