//! The Secret of a BucketUser: the variables that S3 clients read, under the names that AWS gave them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::keys::SecretKey;
use crate::api::BucketUser;
use crate::calls::iam::AccessKey;
use crate::names::{
    ACCESS_KEY, BUCKET_USER_LABEL, KEY_DIGEST_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, ROTATE_ANNOTATION,
    SECRET_KEY,
};
use crate::secret_text::SecretText;

/// How the cluster is reached, beside the key.
#[derive(Debug, Clone, Copy)]
pub struct SecretPlace<'a> {
    /// Where S3 is reached within the Kubernetes cluster.
    pub endpoint: &'a str,
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

/// The Secret without a key, as it is made. All of it is in [`build`], too.
pub fn empty(user: &BucketUser) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(user.secret_name()),
            namespace: user.namespace(),
            labels: Some(labels(user).map(|(label, value)| (label.to_owned(), value)).into()),
            owner_references: Some(user.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn labels(user: &BucketUser) -> [(&'static str, String); 2] {
    [(MANAGED_BY_LABEL, MANAGED_BY.to_owned()), (BUCKET_USER_LABEL, user.name_any())]
}

/// Builds the Secret as it is applied to the object with this uid. `asked` is the text of the annotation that
/// its key was made for.
pub fn build(
    user: &BucketUser,
    uid: Option<&str>,
    key: &AccessKey,
    asked: Option<&str>,
    place: SecretPlace<'_>,
) -> Value {
    let SecretPlace { endpoint, region, bucket } = place;
    let texts = [
        (ACCESS_KEY, Some(key.id.as_str())),
        (SECRET_KEY, Some(key.secret.0.as_str())),
        ("AWS_REGION", Some(region)),
        ("AWS_ENDPOINT_URL", Some(endpoint)),
        ("AWS_ENDPOINT_URL_S3", Some(endpoint)),
        ("BUCKET_NAME", bucket),
    ];
    let encoded =
        |(key, text): (&str, Option<&str>)| Some((key.to_owned(), Value::String(STANDARD.encode(text?))));
    let data: Map<String, Value> = texts.into_iter().filter_map(encoded).collect();
    let mut annotations = json!({KEY_DIGEST_ANNOTATION: digest(key)});
    if let Some(asked) = asked {
        annotations[ROTATE_ANNOTATION] = json!(asked);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": user.secret_name(),
            "namespace": user.namespace(),
            "uid": uid,
            "labels": Map::from_iter(labels(user).map(|(label, value)| (label.to_owned(), json!(value)))),
            "annotations": annotations,
            "ownerReferences": user.controller_owner_ref(&()).into_iter().collect::<Vec<_>>(),
        },
        "type": "Opaque",
        "data": data,
    })
}
