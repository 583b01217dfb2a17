//! The key pairs of root: one, and a secondary one while one of the two replaces the other. Both are root.
//!
//! Each request looks here first. A look-up takes a lock that is written once in months, compares one or two
//! ids and counts references: no wait, no allocation, no hash. The process replaces the pairs: it follows the
//! file that they come from.

use std::sync::Arc;

use parking_lot::RwLock;
use sherd_policy::Identity;
use sherd_signature::Secret;

use super::{AccessKey, Credential};

/// A key pair of root.
#[derive(Debug, Clone)]
pub struct RootKey {
    /// The key's id.
    pub access_key: Arc<str>,
    /// The key's secret.
    pub secret: Secret,
}

/// The key pairs that are accepted as root's. Cheap to clone; all clones are one set.
#[derive(Debug, Clone)]
pub struct RootKeys {
    pairs: Arc<RwLock<RootPairs>>,
}

#[derive(Debug)]
struct RootPairs {
    first: Credential,
    secondary: Option<Credential>,
}

impl RootPairs {
    fn new(first: RootKey, secondary: Option<RootKey>) -> Self {
        let identity = Arc::new(Identity::Root);
        let credential = |RootKey { access_key, secret }: RootKey| Credential {
            access_key: AccessKey::Static(access_key),
            secret,
            identity: Arc::clone(&identity),
        };
        Self { first: credential(first), secondary: secondary.map(credential) }
    }
}

impl RootKeys {
    /// A set of one or two pairs.
    pub fn new(first: RootKey, secondary: Option<RootKey>) -> Self {
        Self { pairs: Arc::new(RwLock::new(RootPairs::new(first, secondary))) }
    }

    /// Replaces all pairs by these. Requests that are verified stay so.
    pub fn replace(&self, first: RootKey, secondary: Option<RootKey>) {
        *self.pairs.write() = RootPairs::new(first, secondary);
    }

    /// Returns the pair with this id, where it is one of root's.
    pub fn get(&self, access_key: &str) -> Option<Credential> {
        let pairs = self.pairs.read();
        let RootPairs { first, secondary } = &*pairs;
        let is_asked_for = |pair: &&Credential| pair.access_key.as_str() == access_key;
        Some(first).filter(is_asked_for).or_else(|| secondary.as_ref().filter(is_asked_for)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(access_key: &str, secret: &str) -> RootKey {
        RootKey { access_key: access_key.into(), secret: Secret::new(secret) }
    }

    #[test]
    fn either_pair_is_root_and_one_that_is_replaced_is_unknown() {
        let keys = RootKeys::new(key("OLD", "old-secret"), None);
        let verifier = keys.clone();
        assert!(verifier.get("NEW").is_none());
        keys.replace(key("OLD", "old-secret"), Some(key("NEW", "new-secret")));
        for (id, secret) in [("OLD", "old-secret"), ("NEW", "new-secret")] {
            let found = verifier.get(id).expect("accepted");
            assert!(found.secret == Secret::new(secret) && matches!(*found.identity, Identity::Root));
        }
        keys.replace(key("NEW", "new-secret"), None);
        assert!(verifier.get("OLD").is_none() && verifier.get("NEW").is_some());
        assert!(!format!("{keys:?}").contains("new-secret"));
    }
}
