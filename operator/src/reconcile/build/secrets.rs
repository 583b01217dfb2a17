//! The Secrets: the CA with its key, the root credentials, the master key, and the certificates of a pool.
//! The CA's key is never mounted.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::parts::ChildParts;
use crate::names;
use crate::reconcile::material::AdminCertificate;
use crate::secret_text::{AcceptedCredentials, MasterKey, RootCredentials, SecretText};

/// The CAs with their keys, and the cluster's id.
pub(super) fn authority(parts: &ChildParts<'_>) -> Value {
    let texts = parts.material.authority.texts();
    data("Opaque", texts.iter().map(|(key, text)| (*key, text.as_str())))
}

/// The root credentials, under the names that S3 clients read from their environment.
pub(super) fn credentials(credentials: &RootCredentials) -> Value {
    let RootCredentials { access_key_id, secret_access_key: SecretText(secret) } = credentials;
    data("Opaque", [(names::ACCESS_KEY, access_key_id.as_str()), (names::SECRET_KEY, secret.as_str())])
}

/// The root credentials that nodes accept, as the file that pods mount.
pub(super) fn node_credentials(parts: &ChildParts<'_>) -> Value {
    let mut lines = String::from("# Made by sherd-operator; changes here are undone.\n");
    let keys = [names::CREDENTIALS_KEYS, names::SECONDARY_CREDENTIALS_KEYS];
    let pairs = parts.material.accepted.iter().flat_map(AcceptedCredentials::each);
    for ([id, secret], pair) in keys.into_iter().zip(pairs) {
        let RootCredentials { access_key_id, secret_access_key: SecretText(text) } = pair;
        let _ = writeln!(lines, "{id}={access_key_id}\n{secret}={text}");
    }
    data("Opaque", [(names::NODE_CREDENTIALS, lines.as_str())])
}

/// The master key, as the file that pods mount.
pub(super) fn master_key(parts: &ChildParts<'_>) -> Value {
    let MasterKey(bytes) = &parts.material.master_key;
    json!({"type": "Opaque", "data": {names::MASTER_KEY: STANDARD.encode(bytes)}})
}

/// The copy of all that cannot be made again.
pub(super) fn recovery(parts: &ChildParts<'_>) -> Value {
    parts.material.recovery().body()
}

/// The certificates of the trusted CAs, and certificate and key of each pod.
pub(super) fn certificates(parts: &ChildParts<'_>) -> Value {
    let bundle = parts.material.authority.bundle();
    let authority = (names::CA_CERTIFICATE, bundle.as_str());
    let pods =
        parts.material.certificates.iter().map(|(key, SecretText(text))| (key.as_str(), text.as_str()));
    data("Opaque", pods.chain([authority]))
}

/// The certificate of an admin, and the CAs of the nodes.
pub(super) fn admin(parts: &ChildParts<'_>, admin: &AdminCertificate) -> Value {
    let bundle = parts.material.authority.bundle();
    let AdminCertificate { certificate, key: SecretText(key) } = admin;
    let texts = [
        (names::TLS_CERTIFICATE, certificate.as_str()),
        (names::TLS_KEY, key.as_str()),
        (names::CA_CERTIFICATE, bundle.as_str()),
    ];
    data("kubernetes.io/tls", texts)
}

pub(super) fn data<'a>(kind: &str, texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let encoded = |(key, text): (&str, &str)| (key.to_owned(), Value::String(STANDARD.encode(text)));
    let data: Map<String, Value> = texts.into_iter().map(encoded).collect();
    json!({"type": kind, "data": data})
}
