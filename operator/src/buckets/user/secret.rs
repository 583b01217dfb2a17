//! The Secret of a BucketUser: the variables that S3 clients read, under the names that AWS gave them.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::keys::SecretKey;
use crate::api::BucketUser;
use crate::calls::iam::AccessKey;
use crate::names::{
    ACCESS_KEY, BUCKET_USER_LABEL, CA_CERTIFICATE, KEY_DIGEST_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL,
    ROTATE_ANNOTATION, SECRET_KEY,
};
use crate::secret_text::SecretText;

/// The variable with the first bucket.
const BUCKET_NAME: &str = "BUCKET_NAME";

/// How the cluster is reached, beside the key.
#[derive(Debug, Clone, Copy)]
pub struct SecretPlace<'a> {
    /// Where S3 is reached within the Kubernetes cluster.
    pub endpoint: &'a str,
    /// The CAs that its certificate is verified by, in PEM, where they are not those of the system.
    pub authorities: Option<&'a str>,
    /// The region that requests are signed for.
    pub region: &'a str,
    /// The first bucket of the user.
    pub bucket: Option<&'a str>,
}

/// Whether a Secret may be written: it is the user's.
pub fn is_ours(user: &BucketUser, secret: &Secret) -> bool {
    let labelled = |label: &str, value: &str| secret.labels().get(label).is_some_and(|found| found == value);
    let owned = || {
        let mut owners = secret.owner_references().iter();
        owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == user.meta().uid.as_ref())
    };
    owned() || (labelled(MANAGED_BY_LABEL, MANAGED_BY) && labelled(BUCKET_USER_LABEL, &user.name_any()))
}

/// Returns the key of a Secret; nothing where a part is missing or was edited.
pub fn read(secret: &Secret) -> Option<(SecretKey, AccessKey)> {
    let text = |key: &str| {
        let ByteString(bytes) = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.clone()).ok()
    };
    let key = AccessKey { id: text(ACCESS_KEY)?, secret: SecretText(text(SECRET_KEY)?) };
    if secret.annotations().get(KEY_DIGEST_ANNOTATION) != Some(&digest(&key)) {
        return None;
    }
    let asked = secret.annotations().get(ROTATE_ANNOTATION).cloned();
    Some((SecretKey { id: key.id.clone(), asked }, key))
}

/// Shows an edit of the id or of the secret. A key's secret is random, so its digest does not show it.
fn digest(key: &AccessKey) -> String {
    hex::encode(Sha256::digest(format!("{}:{}", key.id, key.secret.0)))
}

/// Builds the Secret of a key. `asked` is the text of the annotation that the key was made for.
pub fn build(user: &BucketUser, key: &AccessKey, asked: Option<&str>, place: SecretPlace<'_>) -> Secret {
    let SecretPlace { endpoint, authorities, region, bucket } = place;
    let texts = [
        (ACCESS_KEY, Some(key.id.as_str())),
        (SECRET_KEY, Some(key.secret.0.as_str())),
        ("AWS_REGION", Some(region)),
        ("AWS_ENDPOINT_URL", Some(endpoint)),
        ("AWS_ENDPOINT_URL_S3", Some(endpoint)),
        (BUCKET_NAME, bucket),
        (CA_CERTIFICATE, authorities),
    ];
    let owned = |(key, text): (&str, Option<&str>)| Some((key.to_owned(), text?.to_owned()));
    let annotations =
        [(KEY_DIGEST_ANNOTATION, Some(digest(key))), (ROTATE_ANNOTATION, asked.map(str::to_owned))];
    let labels = [(MANAGED_BY_LABEL, MANAGED_BY.to_owned()), (BUCKET_USER_LABEL, user.name_any())];
    Secret {
        metadata: ObjectMeta {
            name: Some(user.secret_name()),
            namespace: user.namespace(),
            labels: Some(labels.map(|(label, text)| (label.to_owned(), text)).into()),
            annotations: Some(
                annotations.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect(),
            ),
            owner_references: Some(user.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(
            texts
                .into_iter()
                .filter_map(owned)
                .map(|(key, text)| (key, ByteString(text.into_bytes())))
                .collect(),
        ),
        ..Secret::default()
    }
}

/// The merge that makes a Secret that is there as it is wanted. Additions of others stay.
pub fn change(found: &Secret, mut wanted: Secret) -> Value {
    let ours = wanted.metadata.owner_references.take().unwrap_or_default();
    let is_another = |owner: &&OwnerReference| {
        owner.controller != Some(true) && ours.iter().all(|our| our.uid != owner.uid)
    };
    let others: Vec<OwnerReference> = found.owner_references().iter().filter(is_another).cloned().collect();
    wanted.metadata.owner_references = Some([others, ours].concat());
    wanted.metadata.uid = found.uid();
    let mut change = json!(wanted);
    // A merge removes what is null.
    let ours = [
        (&["data"][..], BUCKET_NAME),
        (&["data"], CA_CERTIFICATE),
        (&["metadata", "annotations"], ROTATE_ANNOTATION),
    ];
    for (part, key) in ours {
        let part = part.iter().fold(&mut change, |part, name| &mut part[*name]);
        if part.get(key).is_none() {
            part[key] = Value::Null;
        }
    }
    change
}
