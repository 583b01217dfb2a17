//! The buckets that a BucketUser may use. A namespace's BucketUsers get the buckets of that
//! namespace and those that others share with it, and no more: a right is to a Bucket whose bucket is its
//! own, as the mark at the bucket says. A Bucket's status says nothing here: others may write it.

use std::collections::HashMap;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use sherd_policy::presets::BucketRight;

use crate::api::{AccessReason, Bucket, BucketGrant, BucketUser};
use crate::buckets::bucket::plan;
use crate::buckets::cluster::UsableCluster;
use crate::buckets::document::grant_text;
use crate::buckets::namespace;
use crate::buckets::validate::{allows, is_bucket_name, is_right};
use crate::calls::{CallError, s3};
use crate::limits;
use crate::reconcile::{Context, ReconcileError};

/// The rights that hold, and why others do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grants {
    pub(super) rights: Vec<BucketRight>,
    /// The first cause, and all of them in words.
    pub(super) refused: Option<(AccessReason, String)>,
}

type Refusal = (AccessReason, String);

/// Finds the bucket of each right.
///
/// # Errors
/// [`ReconcileError::Api`]; [`CallError`] where a mark cannot be read.
pub(super) async fn resolve(
    context: &Context,
    user: &BucketUser,
    usable: &UsableCluster,
) -> Result<Result<Grants, CallError>, ReconcileError> {
    let uids = NamespaceUids { context, known: Mutex::default() };
    let mut looks = Vec::with_capacity(user.spec.buckets.len());
    for grant in &user.spec.buckets {
        looks.push(bucket_of(&uids, user, grant, usable).boxed());
    }
    let found: Vec<_> = stream::iter(looks).buffered(limits::MARKS_READ_MAX).try_collect().await?;
    let mut grants = Grants::default();
    for right in found {
        match right {
            Ok(Ok(right)) => grants.rights.push(right),
            Ok(Err((reason, message))) => {
                let (first, before) = grants.refused.take().unwrap_or((reason, String::new()));
                let separator = if before.is_empty() { "" } else { "; " };
                grants.refused = Some((first, format!("{before}{separator}{message}")));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(grants))
}

/// A right, why it does not hold, or why that is not known.
type JudgedGrant = Result<Result<BucketRight, Refusal>, CallError>;

/// The uids of namespaces, each of which most rights share.
struct NamespaceUids<'a> {
    context: &'a Context,
    known: Mutex<HashMap<String, String>>,
}

impl NamespaceUids<'_> {
    async fn of(&self, bucket: &Bucket) -> Result<String, ReconcileError> {
        let namespace = bucket.namespace().unwrap_or_default();
        if let Some(uid) = self.known.lock().get(&namespace) {
            return Ok(uid.clone());
        }
        let uid = namespace::uid_of_object(self.context, &namespace).await?;
        self.known.lock().insert(namespace, uid.clone());
        Ok(uid)
    }
}

async fn bucket_of(
    uids: &NamespaceUids<'_>,
    user: &BucketUser,
    grant: &BucketGrant,
    usable: &UsableCluster,
) -> Result<JudgedGrant, ReconcileError> {
    let context = uids.context;
    if !is_right(grant) {
        return Ok(Ok(Err((AccessReason::SpecInvalid, grant_text(grant)))));
    }
    let found = match (&grant.name, &grant.bucket_ref) {
        (Some(name), _) if usable.any_bucket => {
            return Ok(Ok(Ok(BucketRight { bucket: name.clone(), mark: None, access: grant.access.into() })));
        }
        (Some(name), _) => Ok(by_name(context, user, name).await?),
        (None, Some(reference)) => {
            let namespace = reference.namespace.clone().or_else(|| user.namespace()).unwrap_or_default();
            by_reference(context, user, grant, &namespace, &reference.name).await?
        }
        (None, None) => Err((AccessReason::SpecInvalid, grant_text(grant))),
    };
    let candidates = match found {
        Ok(candidates) => candidates,
        Err(refusal) => return Ok(Ok(Err(refusal))),
    };
    for bucket in candidates {
        let (name, uid) = (bucket.bucket_name(), uids.of(&bucket).await?);
        let tags = match s3::tags(&usable.calls, &name).await {
            Ok(tags) => tags.unwrap_or_default(),
            Err(error) => return Ok(Err(error)),
        };
        if let Some(mark) = plan::own_mark(&bucket, &uid, &tags) {
            return Ok(Ok(Ok(BucketRight { bucket: name, mark: Some(mark), access: grant.access.into() })));
        }
    }
    Ok(Ok(Err(if let Some(name) = &grant.name {
        let namespace = user.namespace().unwrap_or_default();
        let message = format!(
            "bucket {name} is of no Bucket in namespace {namespace}, and the StorageCluster does not list it in spec.bucketUsers.anyBucket"
        );
        (AccessReason::BucketNotAllowed, message)
    } else {
        let message = format!("{} has no bucket of this cluster yet", grant_text(grant));
        (AccessReason::BucketMissing, message)
    })))
}

/// The Buckets of the namespace that may have the bucket of a name.
async fn by_name(context: &Context, user: &BucketUser, name: &str) -> Result<Vec<Bucket>, ReconcileError> {
    let namespace = user.namespace().unwrap_or_default();
    // One Bucket that cannot be decoded must not hide the others.
    let api: Api<DeserializeGuard<Bucket>> = Api::namespaced(context.client.clone(), &namespace);
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.map_err(|source| ReconcileError::api("list", "Bucket".into(), &namespace, source))?;
    let decoded = listed.items.into_iter().filter_map(|guarded| guarded.0.ok());
    let is_named = |bucket: &Bucket| is_of_cluster(user, bucket) && bucket.bucket_name() == name;
    Ok(decoded.filter(is_named).collect())
}

async fn by_reference(
    context: &Context,
    user: &BucketUser,
    grant: &BucketGrant,
    namespace: &str,
    name: &str,
) -> Result<Result<Vec<Bucket>, Refusal>, ReconcileError> {
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
    Ok(Ok(if is_of_cluster(user, &bucket) { vec![bucket] } else { Vec::new() }))
}

/// Whether a Bucket is of the user's cluster, and its name one that can be asked for.
fn is_of_cluster(user: &BucketUser, bucket: &Bucket) -> bool {
    let same = (&bucket.spec.cluster.name, bucket.cluster_namespace())
        == (&user.spec.cluster.name, user.cluster_namespace());
    same && is_bucket_name(&bucket.bucket_name())
}
