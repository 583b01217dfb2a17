//! The sweep of a cluster: each user below /kubernetes/ to which no BucketUser gives a right any more loses
//! its keys, however its object ended: its finalizer removed by hand, its cluster deleted before it and
//! adopted later, its namespace withdrawn while nothing could be reconciled.
//!
//! ```text
//! no BucketUser of that name, cluster and uid   keys inactive at once, removed after the overlap
//! a BucketUser, in a namespace without a right  keys inactive; they work again when it is listed again
//! a BucketUser that cannot be looked at         nothing, unless its namespace is gone or has no right
//! another path, or another name than its path   nothing: a person's
//! ```
//!
//! Lists only say which users need a closer look. The object as the API server has it decides, when the user
//! has its turn, so that one which is made in between loses nothing; and so does the list of namespaces as
//! the cluster has it then.

mod schedule;
mod objects;

use futures::{FutureExt as _, StreamExt as _, stream};
use kube::{Api, Resource as _, ResourceExt as _};

use super::cluster::{self, FoundCluster, UsableCluster};
use super::user::UserMark;
use crate::api::{StorageCluster, lists};
use crate::calls::CallError;
use crate::calls::iam::{self, FoundUser, ListedUser};
use crate::limits;
use crate::names::{Names, USER_ENDED_TAG, USERS_PATH};
use crate::reconcile::{Context, ReconcileError, publish_ended_user};
use objects::{KnownObjects, ObjectLook};
pub use schedule::run;

/// Why a cluster was not swept, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The cluster's nodes cannot be asked yet.
    #[error("{0}")]
    NotReady(String),
    /// A request to the cluster's nodes did not succeed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The API server refused, or could not be asked.
    #[error(transparent)]
    Api(#[from] ReconcileError),
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweptUsers {
    /// Users without their BucketUser that have keys still, all inactive.
    pub left: usize,
}

/// Takes away what no BucketUser gives any more. Nothing is done where another installation works on the
/// cluster.
///
/// # Errors
/// [`SweepError`]; users that came before the failure are done.
pub async fn sweep(context: &Context, cluster: &StorageCluster) -> Result<SweptUsers, SweepError> {
    let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
    let holder = context.namespaces.other_holder(&names.namespace).await;
    let holder = holder
        .map_err(|cause| ReconcileError::NamespaceLease { namespace: names.namespace.clone(), cause })?;
    if holder.is_some() {
        return Ok(SweptUsers::default());
    }
    let found = cluster::find(context, &names.cluster, &names.namespace, &names.namespace, true).await?;
    let usable = match found {
        FoundCluster::Usable(usable) => usable,
        FoundCluster::Unusable(why) | FoundCluster::Unwatched(why) | FoundCluster::Gone(why) => {
            return Err(SweepError::NotReady(why.message));
        }
    };
    let known = objects::list(context, &names).await?;
    let sweep = Sweep { context, cluster, names: &names, usable: &usable, known };
    let swept = sweep.all().await?;
    context.metrics.swept(&names.namespace, &names.cluster, swept.left, (context.now)().as_second());
    Ok(swept)
}

/// Whether a user may keep its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserVerdict {
    /// The keys stay: the user has a right, or nothing is known that takes it away.
    Kept,
    /// The user's namespace has no right to the cluster.
    Withdrawn,
    /// The user has no BucketUser.
    Left,
}

/// Judges a user by its mark and its object. A user without a mark was made by an operator that wrote none.
fn judge(mark: Option<&UserMark>, object: &ObjectLook, is_allowed: bool) -> UserVerdict {
    match object {
        ObjectLook::Absent => UserVerdict::Left,
        ObjectLook::There { uid } if mark.is_some_and(|mark| mark.object != *uid) => UserVerdict::Left,
        ObjectLook::There { .. } | ObjectLook::Unknown if is_allowed => UserVerdict::Kept,
        ObjectLook::There { .. } | ObjectLook::Unknown => UserVerdict::Withdrawn,
    }
}

/// Returns the namespace of a user that a BucketUser can have made.
fn namespace_of(user: &ListedUser) -> Option<&str> {
    let namespace = user.path.strip_prefix(USERS_PATH)?.strip_suffix('/')?;
    let object = user.name.strip_prefix(namespace)?.strip_prefix('.')?;
    (!namespace.contains('/') && !namespace.is_empty() && !object.is_empty()).then_some(namespace)
}

struct Sweep<'a> {
    context: &'a Context,
    cluster: &'a StorageCluster,
    names: &'a Names,
    usable: &'a UsableCluster,
    known: KnownObjects,
}

impl Sweep<'_> {
    async fn all(&self) -> Result<SweptUsers, SweepError> {
        let (mut left, mut marker, mut failed) = (0, None, None);
        loop {
            let page = iam::users(&self.usable.calls, USERS_PATH, marker.as_deref()).await?;
            let allowed = self.allowed_namespaces().await?;
            let looks: Vec<_> = page.users.iter().map(|user| self.one(user, &allowed).boxed()).collect();
            let mut looked = stream::iter(looks).buffer_unordered(limits::USERS_SWEPT_AT_ONCE);
            while let Some(one) = looked.next().await {
                match one {
                    Ok(is_left) => left += usize::from(is_left),
                    // One user that is refused keeps no other from being looked at.
                    Err(SweepError::Call(error @ (CallError::Refused(_) | CallError::Malformed(_)))) => {
                        failed.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            marker = page.next;
            if marker.is_none() {
                return failed.map_or(Ok(SweptUsers { left }), |error| Err(error.into()));
            }
        }
    }

    /// The namespaces that the cluster lists now.
    async fn allowed_namespaces(&self) -> Result<Vec<String>, SweepError> {
        let clusters: Api<StorageCluster> =
            Api::namespaced(self.context.client.clone(), &self.names.namespace);
        let found = clusters.get_opt(&self.names.cluster).await;
        let failed =
            |source| ReconcileError::api("read", "StorageCluster".into(), &self.names.cluster, source);
        let found = found.map_err(failed)?.filter(|found| found.uid() == self.cluster.uid());
        let found =
            found.ok_or_else(|| SweepError::NotReady("the StorageCluster is another one".to_owned()))?;
        Ok(found.spec.bucket_namespaces)
    }

    /// Looks at a user; returns whether it has keys and no BucketUser.
    async fn one(&self, user: &ListedUser, allowed: &[String]) -> Result<bool, SweepError> {
        let Some(namespace) = namespace_of(user) else { return Ok(false) };
        let is_own = namespace == self.names.namespace;
        let is_allowed = is_own || lists(allowed, namespace);
        if let Some(object) = self.known.of(&user.name)
            && let Some(found) = iam::user(&self.usable.calls, &user.name).await?
            && judge(UserMark::read(&found.tags).as_ref(), object, is_allowed) == UserVerdict::Kept
        {
            return Ok(false);
        }
        let _turn = self.context.turns.take(self.names, &user.name).await;
        let object = objects::look(self.context, self.names, user, namespace).await?;
        let is_allowed = is_own || lists(&self.allowed_namespaces().await?, namespace);
        let Some(found) = iam::user(&self.usable.calls, &user.name).await? else { return Ok(false) };
        match judge(UserMark::read(&found.tags).as_ref(), &object, is_allowed) {
            UserVerdict::Kept => Ok(false),
            UserVerdict::Withdrawn => self.end(user, &found, UserVerdict::Withdrawn).await.map(|_| false),
            UserVerdict::Left => self.end(user, &found, UserVerdict::Left).await,
        }
    }

    /// Makes the keys of a user inactive, and removes those of one that is left after the overlap; returns
    /// whether it has keys still. The mark of the end is written after the keys, so that one whose writing
    /// was cut is gone on with.
    async fn end(&self, user: &ListedUser, found: &FoundUser, why: UserVerdict) -> Result<bool, SweepError> {
        let (calls, name) = (&self.usable.calls, &user.name);
        let keys = iam::keys(calls, name).await?;
        let was_active = keys.iter().any(|key| key.active);
        for key in keys.iter().filter(|key| key.active) {
            iam::set_key(calls, name, &key.id, false).await?;
        }
        let now_s = (self.context.now)().as_second();
        let ended_s = found.tags.get(USER_ENDED_TAG).and_then(|text| text.parse::<i64>().ok());
        let is_new = ended_s.is_none() && !keys.is_empty() && (was_active || why == UserVerdict::Left);
        // Before the mark: one that is written says that the event was.
        if was_active || is_new {
            let (reference, words) = (self.cluster.object_ref(&()), Self::words(name, why));
            publish_ended_user(&self.context.recorder, &reference, &words).await;
        }
        if is_new {
            iam::tag_user(calls, name, &[(USER_ENDED_TAG, now_s.to_string())]).await?;
        }
        let overlap_s = i64::try_from(limits::ROTATION_OVERLAP.as_secs()).unwrap_or(i64::MAX);
        let is_over = ended_s.is_some_and(|ended_s| now_s.saturating_sub(ended_s) >= overlap_s);
        if why == UserVerdict::Left && is_over && !was_active {
            for key in &keys {
                iam::remove_key(calls, name, &key.id).await?;
            }
            return Ok(false);
        }
        Ok(!keys.is_empty())
    }

    fn words(user: &str, why: UserVerdict) -> String {
        let (namespace, object) = user.split_once('.').unwrap_or((user, ""));
        match why {
            UserVerdict::Withdrawn | UserVerdict::Kept => format!(
                "user {user}: namespace {namespace} may not use the cluster: its keys are inactive until spec.bucketNamespaces lists it"
            ),
            UserVerdict::Left => format!(
                "user {user} has no BucketUser {object} in namespace {namespace}: its keys are inactive, and are removed after {}",
                humantime::format_duration(limits::ROTATION_OVERLAP)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_kept_by_the_object_of_its_mark_and_by_what_is_not_known() {
        let mark = UserMark { namespace: "n".to_owned(), object: "u".to_owned() };
        let there = |uid: &str| ObjectLook::There { uid: uid.to_owned() };
        let cases = [
            (Some(&mark), there("u"), true, UserVerdict::Kept),
            (Some(&mark), there("u"), false, UserVerdict::Withdrawn),
            (Some(&mark), there("v"), true, UserVerdict::Left),
            (None, there("v"), true, UserVerdict::Kept),
            (None, ObjectLook::Absent, true, UserVerdict::Left),
            (Some(&mark), ObjectLook::Absent, false, UserVerdict::Left),
            (Some(&mark), ObjectLook::Unknown, true, UserVerdict::Kept),
            (Some(&mark), ObjectLook::Unknown, false, UserVerdict::Withdrawn),
        ];
        for (mark, object, is_allowed, expected) in cases {
            assert_eq!(judge(mark, &object, is_allowed), expected, "{mark:?} {object:?} {is_allowed}");
        }
    }

    #[test]
    fn users_that_no_bucket_user_can_have_made_are_a_persons() {
        let of = |name: &str, path: &str| {
            let user = ListedUser { name: name.to_owned(), path: path.to_owned() };
            namespace_of(&user).map(str::to_owned)
        };
        assert_eq!(of("team.app", "/kubernetes/team/").as_deref(), Some("team"));
        assert_eq!(of("team.app.web", "/kubernetes/team/").as_deref(), Some("team"));
        for (name, path) in [
            ("app", "/kubernetes/team/"),
            ("team.app", "/kubernetes/"),
            ("team.app", "/kubernetes/team/more/"),
            ("teams.app", "/kubernetes/team/"),
            ("team.", "/kubernetes/team/"),
            ("team.app", "/people/team/"),
        ] {
            assert_eq!(of(name, path), None, "{name} {path}");
        }
    }
}
