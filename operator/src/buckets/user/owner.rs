//! The owner of a user of a cluster. Its path names the namespace; its mark, a tag, has the uids of namespace
//! and BucketUser, since names come again. A user that may tag users can change it:
//!
//! ```text
//! no user                     -> CreateUser with its mark, in one request
//! another path                -> another's: NameTaken
//! no mark                     -> another took it: marked again
//! another BucketUser's mark   -> made for one of that name before, of the same tenant: marked again
//! another namespace's mark    -> of a former tenant: deleted with its keys and policies, and made again
//! ```

use kube::{Api, Resource as _, ResourceExt as _};

use super::policies;
use crate::api::{BucketUser, Tags};
use crate::buckets::cluster::UsableCluster;
use crate::buckets::namespace;
use crate::calls::CallError;
use crate::calls::iam::{self, FoundUser};
use crate::names::{USER_ENDED_TAG, USER_TAG};
use crate::reconcile::{Context, ReconcileError};

/// The mark of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::buckets) struct UserMark {
    /// The uid of the namespace.
    pub(in crate::buckets) namespace: String,
    /// The uid of the BucketUser.
    pub(in crate::buckets) object: String,
}

impl UserMark {
    /// Returns the mark of an object's user.
    pub(super) async fn of(context: &Context, user: &BucketUser) -> Result<Self, ReconcileError> {
        let namespace = namespace::uid_of_object(context, &user.namespace().unwrap_or_default()).await?;
        Ok(Self { namespace, object: user.meta().uid.clone().unwrap_or_default() })
    }

    /// Reads the mark of a user; nothing where it has none.
    pub(in crate::buckets) fn read(tags: &Tags) -> Option<Self> {
        let (namespace, object) = tags.get(USER_TAG)?.split_once('/')?;
        Some(Self { namespace: namespace.to_owned(), object: object.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}/{}", self.namespace, self.object)
    }

    /// Whether a user was made for a namespace of the same name that is gone.
    pub(super) fn is_after(&self, found: &FoundUser) -> bool {
        Self::read(&found.tags).is_some_and(|found| found.namespace != self.namespace)
    }
}

/// A user that was looked for.
#[derive(Debug)]
pub(super) enum EnsuredUser {
    /// The user is the object's. A sweep may have made its keys inactive, because it found no right to them.
    Own { is_ended: bool },
    /// The user has this path, and is another owner's.
    Foreign(String),
}

/// Makes the user where it is not there, and marks it.
pub(super) async fn ensure(
    user: &BucketUser,
    mark: &UserMark,
    usable: &UsableCluster,
) -> Result<EnsuredUser, CallError> {
    let (calls, name, path) = (&usable.calls, user.user_name(), user.user_path());
    let mut found = iam::user(calls, &name).await?;
    if found.as_ref().is_some_and(|found| found.path == path && mark.is_after(found)) {
        policies::remove(user, usable).await?;
        iam::delete_user(calls, &name).await?;
        found = None;
    }
    let tag = [(USER_TAG, mark.text())];
    let found = if let Some(found) = found {
        found
    } else {
        iam::create_user(calls, &name, &path, &tag).await?;
        // A user of that name may have been made by another client meanwhile.
        iam::user(calls, &name).await?.ok_or(CallError::Malformed("CreateUser"))?
    };
    if found.path != path {
        return Ok(EnsuredUser::Foreign(found.path));
    }
    if UserMark::read(&found.tags).as_ref() != Some(mark) {
        iam::tag_user(calls, &name, &tag).await?;
    }
    Ok(EnsuredUser::Own { is_ended: found.tags.contains_key(USER_ENDED_TAG) })
}

/// Whether the API server has this very object still.
pub(super) async fn is_there(context: &Context, user: &BucketUser) -> Result<bool, ReconcileError> {
    let (name, namespace) = (user.name_any(), user.namespace().unwrap_or_default());
    let api: Api<BucketUser> = Api::namespaced(context.client.clone(), &namespace);
    let found = api.get_metadata_opt(&name).await;
    let found = found.map_err(|source| ReconcileError::api("read", "BucketUser".into(), &name, source))?;
    Ok(found.is_some_and(|found| found.metadata.uid == user.meta().uid))
}

/// Forgets that a sweep ended a user, once its keys work again.
pub(super) async fn resume(user: &BucketUser, usable: &UsableCluster) -> Result<(), CallError> {
    iam::untag_user(&usable.calls, &user.user_name(), USER_ENDED_TAG).await
}
