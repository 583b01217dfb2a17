//! The values that cannot be made a second time: the CA with the cluster's id, the root credentials that the
//! operator made, and the master key. Each is a Secret of its own, and all are in a second one, the copy:
//! whichever is deleted or edited is put back from the other. The process remembers them, too, while it runs,
//! so that all of them can be deleted at once. The copy has a digest of itself; one that was changed does not
//! fit it, and is made again.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::names::{self, Names};
use crate::secret_text::{MasterKey, RootCredentials, SecretText};

/// The values of the copy, by key.
#[derive(Clone, PartialEq, Eq)]
pub struct Recovery {
    values: BTreeMap<String, Vec<u8>>,
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Recovery {
    /// A copy of these values.
    pub(super) fn new(values: BTreeMap<&str, Vec<u8>>) -> Self {
        Self { values: values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect() }
    }

    /// Reads the copy; nothing where its digest does not fit.
    pub fn read(secret: &Secret) -> Option<Self> {
        let said = secret.metadata.annotations.as_ref()?.get(names::RECOVERY_DIGEST_ANNOTATION)?;
        let values =
            secret.data.iter().flatten().map(|(key, ByteString(bytes))| (key.clone(), bytes.clone()));
        let read = Self { values: values.collect() };
        (*said == read.digest()).then_some(read)
    }

    /// The Secret's body.
    pub(super) fn body(&self) -> Value {
        let data: BTreeMap<_, _> =
            self.values.iter().map(|(key, value)| (key.clone(), STANDARD.encode(value))).collect();
        json!({
            "type": "Opaque",
            "metadata": {"annotations": {names::RECOVERY_DIGEST_ANNOTATION: self.digest()}},
            "data": data,
        })
    }

    /// The values as texts, as a Secret has them.
    pub(super) fn texts(&self) -> BTreeMap<String, String> {
        let text =
            |(key, value): (&String, &Vec<u8>)| Some((key.clone(), String::from_utf8(value.clone()).ok()?));
        self.values.iter().filter_map(text).collect()
    }

    /// The root credentials, where the operator made them.
    pub(super) fn credentials(&self) -> Option<RootCredentials> {
        let texts = self.texts();
        Some(RootCredentials {
            access_key_id: texts.get(names::ACCESS_KEY)?.clone(),
            secret_access_key: SecretText(texts.get(names::SECRET_KEY)?.clone()),
        })
    }

    /// The master key.
    pub(super) fn master_key(&self) -> Option<MasterKey> {
        let bytes = self.values.get(names::MASTER_KEY)?;
        <[u8; 32]>::try_from(bytes.as_slice()).ok().map(MasterKey)
    }

    /// Whether a Secret holds values of the copy and no other: it is the cluster's own, with any labels.
    pub(super) fn holds(&self, object: &DynamicObject) -> bool {
        let data = object.data["data"].as_object();
        let is_kept = |(key, value): (&String, &Value)| {
            self.values.get(key).is_some_and(|kept| value.as_str() == Some(&STANDARD.encode(kept)))
        };
        data.is_some_and(|data| !data.is_empty() && data.iter().all(is_kept))
    }

    /// A digest of keys and values with their lengths. Half of the values are random, so it gives away none.
    fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for part in self.values.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_slice()]) {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        hex::encode(digest.finalize())
    }
}

/// The values that the process last applied of each cluster that cannot be made again.
#[derive(Debug, Default)]
pub struct RememberedSecrets {
    /// By namespace and name.
    clusters: Mutex<HashMap<(String, String), RememberedCluster>>,
}

#[derive(Debug)]
struct RememberedCluster {
    uid: Option<String>,
    recovery: Recovery,
}

impl RememberedSecrets {
    /// The values of a cluster of this uid. Its successor of the same name has Secrets of its own.
    pub(super) fn get(&self, names: &Names, uid: Option<&str>) -> Option<Recovery> {
        let clusters = self.clusters.lock();
        let cluster = clusters.get(&(names.namespace.clone(), names.cluster.clone()))?;
        (cluster.uid.as_deref() == uid).then(|| cluster.recovery.clone())
    }

    pub(super) fn insert(&self, names: &Names, uid: Option<String>, recovery: Recovery) {
        let key = (names.namespace.clone(), names.cluster.clone());
        self.clusters.lock().insert(key, RememberedCluster { uid, recovery });
    }

    /// Forgets the clusters, by namespace and name, that are gone.
    pub fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        self.clusters.lock().retain(|(namespace, cluster), _| is_there(namespace, cluster));
    }
}
