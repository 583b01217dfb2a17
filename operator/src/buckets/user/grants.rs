//! The buckets that a BucketUser may use. A namespace's BucketUsers get the buckets of that
//! namespace and those that others share with it, and no more: a right is to a Bucket whose bucket is its
//! own, as the mark at the bucket says and its status repeats.

use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, ResourceExt as _};

use crate::api::{AccessReason, Bucket, BucketGrant, BucketUser};
use crate::buckets::document::{BucketRight, grant_text};
use crate::buckets::validate::allows;
use crate::reconcile::{Context, ReconcileError};

/// The rights that hold, and why others do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grants {
    pub(super) rights: Vec<BucketRight>,
    /// The first cause, and all of them in words.
    pub(super) refused: Option<(AccessReason, String)>,
}

/// Finds the bucket of each right.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn resolve(
    context: &Context,
    user: &BucketUser,
    any_bucket: bool,
) -> Result<Grants, ReconcileError> {
    let mut grants = Grants::default();
    for grant in &user.spec.buckets {
        match bucket_of(context, user, grant, any_bucket).await? {
            Ok(bucket) => grants.rights.push(BucketRight { bucket, access: grant.access }),
            Err((reason, message)) => {
                let (first, before) = grants.refused.take().unwrap_or((reason, String::new()));
                let separator = if before.is_empty() { "" } else { "; " };
                grants.refused = Some((first, format!("{before}{separator}{message}")));
            }
        }
    }
    Ok(grants)
}

type Refusal = (AccessReason, String);

async fn bucket_of(
    context: &Context,
    user: &BucketUser,
    grant: &BucketGrant,
    any_bucket: bool,
) -> Result<Result<String, Refusal>, ReconcileError> {
    match (&grant.name, &grant.bucket_ref) {
        (Some(name), _) if any_bucket => Ok(Ok(name.clone())),
        (Some(name), _) => by_name(context, user, name).await,
        (None, Some(reference)) => {
            let namespace = reference.namespace.clone().or_else(|| user.namespace()).unwrap_or_default();
            by_reference(context, user, grant, &namespace, &reference.name).await
        }
        (None, None) => Ok(Err((AccessReason::SpecInvalid, grant_text(grant)))),
    }
}

async fn by_name(
    context: &Context,
    user: &BucketUser,
    name: &str,
) -> Result<Result<String, Refusal>, ReconcileError> {
    let namespace = user.namespace().unwrap_or_default();
    // One Bucket that cannot be decoded must not hide the others.
    let api: Api<DeserializeGuard<Bucket>> = Api::namespaced(context.client.clone(), &namespace);
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.map_err(|source| ReconcileError::api("list", "Bucket".into(), &namespace, source))?;
    let decoded = listed.items.iter().filter_map(|guarded| guarded.0.as_ref().ok());
    if decoded.filter_map(|bucket| owned(user, bucket)).any(|owned| owned == name) {
        return Ok(Ok(name.to_owned()));
    }
    let message = format!(
        "bucket {name} is of no Bucket in namespace {namespace}, and the StorageCluster does not list it in spec.bucketUsers.anyBucket"
    );
    Ok(Err((AccessReason::BucketNotAllowed, message)))
}

async fn by_reference(
    context: &Context,
    user: &BucketUser,
    grant: &BucketGrant,
    namespace: &str,
    name: &str,
) -> Result<Result<String, Refusal>, ReconcileError> {
    let api: Api<Bucket> = Api::namespaced(context.client.clone(), namespace);
    let own = user.namespace().unwrap_or_default();
    // One answer for a Bucket that is not there and one that is not shared: a namespace sees nothing of
    // another.
    let refused = || {
        let message = format!("{} is not there, or does not allow namespace {own}", grant_text(grant));
        Ok(Err((AccessReason::BucketNotAllowed, message)))
    };
    let found = match api.get_opt(name).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == 403 && namespace != own => None,
        Err(source) => return Err(ReconcileError::api("read", "Bucket".into(), name, source)),
    };
    let Some(bucket) = found else {
        if namespace == own {
            return Ok(Err((AccessReason::BucketMissing, format!("{} is not there", grant_text(grant)))));
        }
        return refused();
    };
    if !allows(&bucket, &own) {
        return refused();
    }
    Ok(owned(user, &bucket).ok_or_else(|| {
        let message = format!("{} has no bucket of this cluster yet", grant_text(grant));
        (AccessReason::BucketMissing, message)
    }))
}

/// The bucket of a Bucket, where that is its own and of the user's cluster.
fn owned(user: &BucketUser, bucket: &Bucket) -> Option<String> {
    let same = (&bucket.spec.cluster.name, bucket.cluster_namespace())
        == (&user.spec.cluster.name, user.cluster_namespace());
    let bucket = bucket.status.as_ref()?.bucket.clone()?;
    same.then_some(bucket)
}
