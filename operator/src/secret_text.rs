//! Texts and keys that are not shown, so that no log line and no message has them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use sha2::{Digest as _, Sha256};

/// A text that is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText")
    }
}

/// The key under which nodes keep the secrets of access keys.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey(pub [u8; 32]);

impl MasterKey {
    /// A digest by which a person distinguishes two of them. A key is as good as random, so nothing of it
    /// follows from the digest.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.0)).chars().take(16).collect()
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

/// The root credentials of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootCredentials {
    /// The access key's id.
    pub access_key_id: String,
    /// The access key's secret.
    pub secret_access_key: SecretText,
}

/// The pairs of root credentials that nodes accept. Two of them have different ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptedCredentials {
    /// The pair that nodes compare with each other.
    pub first: RootCredentials,
    /// The pair that clients come from, or go over to, while it is replaced.
    pub secondary: Option<RootCredentials>,
}

impl AcceptedCredentials {
    /// The pairs, the first one first.
    pub fn each(&self) -> impl Iterator<Item = &RootCredentials> {
        std::iter::once(&self.first).chain(&self.secondary)
    }
}

impl From<RootCredentials> for AcceptedCredentials {
    fn from(first: RootCredentials) -> Self {
        Self { first, secondary: None }
    }
}

/// The texts of a Secret, without values that are not UTF-8.
pub fn texts(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.iter().flatten();
    let text = |(key, ByteString(bytes)): (&String, &ByteString)| {
        Some((key.clone(), String::from_utf8(bytes.clone()).ok()?))
    };
    data.filter_map(text).collect()
}
