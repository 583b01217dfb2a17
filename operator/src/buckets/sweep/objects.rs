//! The BucketUsers of a cluster, as a list of all namespaces shows them and as one of them is looked at.

use std::collections::HashMap;

use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Resource as _, ResourceExt as _};

use crate::api::BucketUser;
use crate::buckets::namespace;
use crate::calls::iam::ListedUser;
use crate::limits;
use crate::names::{Names, USER_FINALIZER};
use crate::reconcile::{Context, ReconcileError};

/// A BucketUser as a user's right depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ObjectLook {
    /// The BucketUser is there and names the cluster.
    There { uid: String },
    /// No BucketUser is there that names the cluster, or whose end this operator would carry out.
    Absent,
    /// The operator may not look at the BucketUser.
    Unknown,
}

/// The BucketUsers of a cluster by the names of their users; none where they may not be listed.
#[derive(Debug, Default)]
pub(super) struct KnownObjects(HashMap<String, ObjectLook>);

impl KnownObjects {
    pub(super) fn of(&self, user: &str) -> Option<&ObjectLook> {
        self.0.get(user)
    }
}

/// Lists the BucketUsers of a cluster in all namespaces. Where the operator may not list them each is looked
/// at by itself.
///
/// # Errors
/// [`ReconcileError::Api`]: of a list that is not whole nothing follows.
pub(super) async fn list(context: &Context, cluster: &Names) -> Result<KnownObjects, ReconcileError> {
    let api: Api<DeserializeGuard<BucketUser>> = Api::all(context.client.clone());
    let (mut known, mut params) = (HashMap::new(), ListParams::default().limit(limits::USERS_LISTED_AT_ONCE));
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(KnownObjects::default()),
            Err(source) => {
                return Err(ReconcileError::api("list", "BucketUser".into(), "of all namespaces", source));
            }
        };
        for object in &page.items {
            let look = look_of(object, cluster);
            if matches!(look, ObjectLook::There { .. }) {
                known.insert(user_name(object), look);
            }
        }
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(KnownObjects(known)),
        }
    }
}

/// Looks at the BucketUser of a user.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn look(
    context: &Context,
    cluster: &Names,
    user: &ListedUser,
    namespace: &str,
) -> Result<ObjectLook, ReconcileError> {
    let object = user.name.get(namespace.len() + 1..).unwrap_or_default();
    let api: Api<DeserializeGuard<BucketUser>> = Api::namespaced(context.client.clone(), namespace);
    match api.get_opt(object).await {
        Ok(Some(found)) => Ok(look_of(&found, cluster)),
        Ok(None) => Ok(ObjectLook::Absent),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let is_gone = namespace::uid(context, namespace).await?.is_none();
            Ok(if is_gone { ObjectLook::Absent } else { ObjectLook::Unknown })
        }
        Err(source) => Err(ReconcileError::api("read", "BucketUser".into(), &user.name, source)),
    }
}

/// Reads uid and cluster of a BucketUser. An object that cannot be decoded counts as one that names the
/// cluster.
fn look_of(object: &DeserializeGuard<BucketUser>, cluster: &Names) -> ObjectLook {
    let names_cluster = object.0.as_ref().map_or(true, |user| {
        (&user.spec.cluster.name, &user.cluster_namespace()) == (&cluster.cluster, &cluster.namespace)
    });
    let metadata = object.meta();
    // Without the operator's finalizer nothing ends its user, however long another's keeps it.
    let is_let_go = metadata.deletion_timestamp.is_some()
        && !metadata.finalizers.iter().flatten().any(|found| found == USER_FINALIZER);
    if names_cluster && !is_let_go {
        ObjectLook::There { uid: metadata.uid.clone().unwrap_or_default() }
    } else {
        ObjectLook::Absent
    }
}

fn user_name(object: &DeserializeGuard<BucketUser>) -> String {
    format!("{}.{}", object.namespace().unwrap_or_default(), object.name_any())
}
