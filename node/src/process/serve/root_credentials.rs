//! The root credentials of a running node. Where they come from a file, it is followed as certificates are:
//! new pairs are taken whole, or not at all, and no request that is under way is touched.
//!
//! A reload that fails keeps what was loaded and logs one error line, and no second one until the reason
//! changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use sherd_core::checksum::Digest;
use sherd_core::id::ClusterId;
use sherd_front::callers::root_keys::{RootKey, RootKeys};
use sherd_signature::Secret;
use sherd_trust::credentials_proof;
use tokio_util::sync::CancellationToken;

use crate::process::config::credentials::{Credentials, InvalidCredentials, RootPairs};
use crate::process::config::{CREDENTIALS_MODE, Config};
use crate::process::serve::limits::CREDENTIALS_FOLLOWED_EACH;
use crate::process::serve::settled::read_settled;

/// The root credentials as they were last valid. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct RootCredentials {
    shared: Arc<FollowedPairs>,
}

#[derive(Debug)]
struct FollowedPairs {
    cluster: Option<ClusterId>,
    file: Option<PathBuf>,
    pairs: RwLock<RootPairs>,
    keys: RootKeys,
}

impl RootCredentials {
    /// Credentials of a configuration.
    pub fn new(config: &Config) -> Self {
        let Config { credentials, credentials_file, cluster, .. } = config;
        let (first, secondary) = keys(credentials);
        let keys = RootKeys::new(first, secondary);
        let shared = FollowedPairs {
            cluster: cluster.as_ref().map(|cluster| cluster.id),
            file: credentials_file.clone(),
            pairs: RwLock::new(credentials.clone()),
            keys,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The keys that requests are verified by, which follow.
    pub fn keys(&self) -> RootKeys {
        self.shared.keys.clone()
    }

    /// The proofs of the pairs that are accepted, the first pair's first; none of a node alone.
    pub fn proofs(&self) -> Vec<Digest> {
        let Some(cluster) = self.shared.cluster else { return Vec::new() };
        let proof = |Credentials { access_key_id, secret_access_key }: &Credentials| {
            credentials_proof(cluster, access_key_id, secret_access_key.expose())
        };
        self.shared.pairs.read().each().map(proof).collect()
    }

    /// Looks at the file each ten seconds until `stop`, and takes what changed. Without a file it returns at
    /// once.
    pub async fn follow(self, stop: CancellationToken) {
        self.follow_each(CREDENTIALS_FOLLOWED_EACH, stop).await;
    }

    /// Follows the file as [`Self::follow`] does, with another interval.
    async fn follow_each(self, interval: Duration, stop: CancellationToken) {
        let Some(file) = self.shared.file.clone() else { return };
        let mut refused = None;
        loop {
            tokio::select! {
                // A stop comes first. Both arms only wait: nothing is lost when one is dropped.
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let (file, loaded) = (file.clone(), self.shared.pairs.read().clone());
            let read = move || RootPairs::from_file(&file, CREDENTIALS_MODE);
            if let Some(read) = read_settled(read, &loaded).await {
                self.take(read, &mut refused);
            }
        }
    }

    /// Takes what was read if it is new and whole.
    fn take(&self, read: Result<RootPairs, InvalidCredentials>, refused: &mut Option<String>) {
        let pairs = match read {
            Ok(pairs) => pairs,
            Err(error) => {
                let reason = error.to_string();
                if refused.as_ref() != Some(&reason) {
                    tracing::error!(%error, "reload root credentials: those loaded before stay in use");
                    *refused = Some(reason);
                }
                return;
            }
        };
        *refused = None;
        if *self.shared.pairs.read() == pairs {
            return;
        }
        let accepted: Vec<&str> = pairs.each().map(|pair| pair.access_key_id.as_str()).collect();
        tracing::info!(accepted = accepted.join(" "), "root credentials reloaded");
        let (first, secondary) = keys(&pairs);
        self.shared.keys.replace(first, secondary);
        *self.shared.pairs.write() = pairs;
    }
}

fn keys(RootPairs { first, secondary }: &RootPairs) -> (RootKey, Option<RootKey>) {
    let key = |Credentials { access_key_id, secret_access_key }: &Credentials| RootKey {
        access_key: access_key_id.as_str().into(),
        secret: Secret::new(secret_access_key.expose()),
    };
    (key(first), secondary.as_ref().map(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::config::settings::Settings;
    use crate::process::config::source::Sources;

    const CLUSTER: ClusterId = ClusterId([3; 16]);
    const ONE: &str = "AWS_ACCESS_KEY_ID=ONE\nAWS_SECRET_ACCESS_KEY=secret-of-one\n";

    fn pairs(text: &str) -> Result<RootPairs, InvalidCredentials> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        RootPairs::from_file(file.path(), CREDENTIALS_MODE)
    }

    fn loaded() -> RootCredentials {
        let volume = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings {
            volumes: Some(crate::process::config::settings::WordList(vec![
                volume.path().to_string_lossy().into_owned(),
            ])),
            ..Settings::default()
        };
        let pair = pairs(ONE).expect("whole").first;
        let config = Config::resolve(settings, Some(pair), &Sources::default()).expect("valid");
        let of_config = RootCredentials::new(&config);
        assert!(of_config.proofs().is_empty(), "it is alone");
        let shared = Arc::into_inner(of_config.shared).expect("the only one");
        RootCredentials { shared: Arc::new(FollowedPairs { cluster: Some(CLUSTER), ..shared }) }
    }

    #[test]
    fn whole_pairs_are_taken_and_a_broken_file_keeps_those_before() {
        let (root, mut refused) = (loaded(), None);
        let keys = root.keys();
        let proof = |id: &str, secret: &str| credentials_proof(CLUSTER, id, secret);
        assert_eq!(root.proofs(), [proof("ONE", "secret-of-one")]);
        let both =
            format!("{ONE}AWS_ACCESS_KEY_ID_SECONDARY=TWO\nAWS_SECRET_ACCESS_KEY_SECONDARY=secret-of-two\n");
        root.take(pairs(&both), &mut refused);
        assert!(keys.get("ONE").is_some() && keys.get("TWO").is_some());
        assert_eq!(root.proofs(), [proof("ONE", "secret-of-one"), proof("TWO", "secret-of-two")]);
        root.take(pairs(&format!("{ONE}AWS_ACCESS_KEY_ID_SECONDARY=THREE\n")), &mut refused);
        assert!(refused.as_ref().is_some_and(|reason| reason.contains("AWS_SECRET_ACCESS_KEY_SECONDARY")));
        assert!(keys.get("THREE").is_none() && keys.get("TWO").is_some(), "kept");
        root.take(pairs(&ONE.replace("ONE", "TWO").replace("-one", "-two")), &mut refused);
        assert!(refused.is_none() && keys.get("ONE").is_none() && keys.get("TWO").is_some());
        assert_eq!(root.proofs(), [proof("TWO", "secret-of-two")]);
        assert!(!format!("{root:?}").contains("secret-of"));
    }
}
