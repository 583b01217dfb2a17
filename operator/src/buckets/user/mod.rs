//! One reconcile of a BucketUser.
//!
//! ```text
//! user      CreateUser `namespace.name` below the path /kubernetes/namespace/, or NameTaken: as `owner` says
//! suspended the keys are made inactive before all else
//! grants    the buckets that it may use
//! policies  as `policies` puts them, where they differ
//! keys      as `keys` plans: remove, resume, make, write the Secret; with `secretRef` as `given` says
//! deleted   keys, policies, user; the Secret is garbage with its owner, one of `secretRef` stays
//! ```

mod owner;
mod grants;
mod policies;
pub mod keys;
pub mod secret;
mod key_changes;
pub mod given;

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams, ValidationDirective};
use kube::{Api, Resource as _, ResourceExt as _};

use super::cluster::{FoundCluster, UsableCluster};
use super::report::{Verdict, conditions, is_bad};
use super::validate::{self, ValidUser};
use super::{ClaimedObject, NextLook, cluster, finalizer, is_ours};
use crate::api::{AccessCondition, AccessReason, BucketUser, BucketUserStatus, FormerKey};
use crate::calls::CallError;
use crate::calls::iam::{self, AccessKey};
use crate::names::Names;
use crate::names::{FIELD_MANAGER, ROTATE_ANNOTATION, USER_FINALIZER};
use crate::reconcile::condition::{self, TRUE};
use crate::reconcile::{Context, ReconcileError, publish};
use grants::Grants;
use key_changes::{EnsuredKey, key_verdict, take_and_resume};
use keys::{KeyFacts, KeyPlan};
use owner::EnsuredUser;
pub(super) use owner::UserMark;
use secret::SecretPlace;

/// The report on a BucketUser.
#[derive(Debug, Default)]
struct UserReport {
    verdicts: Vec<Verdict>,
    buckets: Vec<String>,
    access_key_id: Option<String>,
    former_key: Option<FormerKey>,
    suspended: bool,
}

/// Makes a BucketUser true as far as it can be.
///
/// # Errors
/// [`ReconcileError`] when it is to be tried again.
pub async fn reconcile(context: &Context, user: &BucketUser) -> Result<NextLook, ReconcileError> {
    let namespace = user.namespace().unwrap_or_default();
    let is_deleted = user.meta().deletion_timestamp.is_some();
    let is_kept = user.finalizers().iter().any(|found| found == USER_FINALIZER);
    if is_deleted && !is_kept {
        return Ok(NextLook::OnChange);
    }
    let (name, cluster_namespace) = (&user.spec.cluster.name, user.cluster_namespace());
    let found = cluster::find(context, name, &cluster_namespace, &namespace, is_deleted).await?;
    let object = ClaimedObject {
        reference: &user.object_ref(&()),
        conditions: user.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default(),
        is_deleted,
        cluster_namespace: &cluster_namespace,
        found: &found,
    };
    if !is_ours(context, &object).await? {
        return Ok(NextLook::of(true));
    }
    let _turn = context.turns.take(&Names::new(name, &cluster_namespace), &user.user_name()).await;
    if is_deleted {
        return release(context, user, found).await;
    }
    // Before the specification is judged: one that breaks a rule keeps nothing that was withdrawn.
    let usable = match found {
        FoundCluster::Usable(usable) => usable,
        FoundCluster::Unusable(unusable)
        | FoundCluster::Unwatched(unusable)
        | FoundCluster::Gone(unusable) => {
            let verdict = Verdict::unusable(AccessCondition::Ready, &unusable);
            return if unusable.reason == AccessReason::NamespaceNotAllowed {
                withdraw(context, user, verdict).await
            } else {
                refuse(context, user, verdict).await
            };
        }
    };
    let valid = match validate::user(user) {
        Ok(valid) => valid,
        Err(messages) => {
            let verdict =
                Verdict::bad(AccessCondition::Ready, AccessReason::SpecInvalid, messages.join("; "));
            return if user.spec.suspended {
                withdraw(context, user, verdict).await
            } else {
                Box::pin(judge_broken(context, user, &usable, verdict)).await
            };
        }
    };
    // Before the user is made: it must not be left when its object goes.
    let kept = match finalizer::set(&context.client, user, USER_FINALIZER, true).await {
        Ok(Some(kept)) => kept,
        Ok(None) => return Ok(NextLook::OnChange),
        Err(error) => {
            // An object that is edited without end keeps no right by that.
            let waiting = Verdict::waiting(AccessCondition::Ready);
            let _either_way = Box::pin(judge_broken(context, user, &usable, waiting)).await;
            return Err(error);
        }
    };
    let valid = ValidUser { user: &kept, ..valid };
    let report = match Box::pin(synchronise(context, &valid, &usable)).await? {
        Ok(report) => report,
        Err(error) => {
            return refuse(context, &kept, Verdict::failed(AccessCondition::Ready, &error)).await;
        }
    };
    let is_asked = |one: &Verdict| one.holds() || one.reason == AccessReason::Suspended;
    let settled = report.verdicts.iter().any(|one| one.condition == AccessCondition::Ready && is_asked(one));
    let ends_at = report.former_key.as_ref().map(|former| former.ends_at);
    write(context, &kept, report).await?;
    Ok(next_look(settled, ends_at, (context.now)().as_second()))
}

/// The next look, which is not later than the end of a former key.
fn next_look(settled: bool, ends_at: Option<i64>, now_s: i64) -> NextLook {
    let ends_in = ends_at.map(|at| Duration::from_secs(u64::try_from(at.saturating_sub(now_s)).unwrap_or(0)));
    match (NextLook::of(settled), ends_in) {
        (NextLook::After(regular), Some(ends_in)) => {
            NextLook::After(regular.min(ends_in.max(Duration::from_secs(1))))
        }
        (look, _) => look,
    }
}

/// Reports why nothing was changed; what was reported of keys and buckets stays.
async fn refuse(context: &Context, user: &BucketUser, verdict: Verdict) -> Result<NextLook, ReconcileError> {
    let last = user.status.clone().unwrap_or_default();
    let report = UserReport {
        verdicts: vec![verdict, Verdict::not_deleted()],
        buckets: last.buckets,
        access_key_id: last.access_key_id,
        former_key: last.former_key,
        suspended: last.suspended,
    };
    write(context, user, report).await?;
    Ok(NextLook::of(false))
}

/// Judges the rights of a user whose specification breaks rules, and reports that it does: what it may no
/// longer use is taken away. Neither the user nor a key is made.
async fn judge_broken(
    context: &Context,
    user: &BucketUser,
    usable: &UsableCluster,
    verdict: Verdict,
) -> Result<NextLook, ReconcileError> {
    let failed = |error: &CallError| Verdict::failed(AccessCondition::Ready, error);
    let mark = UserMark::of(context, user).await?;
    match iam::user(&usable.calls, &user.user_name()).await {
        Ok(Some(found)) if found.path == user.user_path() && !mark.is_after(&found) => {}
        Ok(Some(_) | None) => return refuse(context, user, verdict).await,
        Err(CallError::Refused(refusal)) if !refusal.is_transient() => {
            return refuse(context, user, verdict).await;
        }
        Err(error) => return refuse(context, user, failed(&error)).await,
    }
    let grants = match grants::resolve(context, user, usable).await? {
        Ok(grants) => grants,
        Err(error) => return refuse(context, user, failed(&error)).await,
    };
    let policy = match policies::ensure(&validate::broken_user(user), usable, &grants).await {
        Ok(policy) => policy,
        Err(error) => return refuse(context, user, failed(&error)).await,
    };
    let last = user.status.clone().unwrap_or_default();
    let report = UserReport {
        verdicts: vec![verdict, policy, Verdict::not_deleted()],
        buckets: grants.rights.into_iter().map(|right| right.bucket).collect(),
        access_key_id: last.access_key_id,
        former_key: last.former_key,
        suspended: last.suspended,
    };
    write(context, user, report).await?;
    Ok(NextLook::of(false))
}

/// Makes the keys of a user inactive that is refused otherwise, and reports why it is.
async fn withdraw(
    context: &Context,
    user: &BucketUser,
    verdict: Verdict,
) -> Result<NextLook, ReconcileError> {
    let (name, cluster_namespace) = (&user.spec.cluster.name, user.cluster_namespace());
    let namespace = user.namespace().unwrap_or_default();
    // The cluster is found as for an object that is being deleted: the lists of namespaces keep nothing from
    // being taken away.
    let found = cluster::find(context, name, &cluster_namespace, &namespace, true).await?;
    let FoundCluster::Usable(usable) = found else { return refuse(context, user, verdict).await };
    let suspended = async {
        match iam::user(&usable.calls, &user.user_name()).await? {
            Some(found) if found.path == user.user_path() => suspend(user, &usable).await,
            Some(_) | None => Ok(()),
        }
    };
    let (key, is_suspended) = match suspended.await {
        Ok(()) => (suspended_verdict(), true),
        Err(error) => (Verdict::failed(AccessCondition::KeyReady, &error), false),
    };
    let last = user.status.clone().unwrap_or_default();
    let report = UserReport {
        verdicts: vec![verdict, key, Verdict::not_deleted()],
        buckets: last.buckets,
        access_key_id: last.access_key_id,
        former_key: last.former_key,
        suspended: last.suspended || is_suspended,
    };
    write(context, user, report).await?;
    Ok(NextLook::of(false))
}

/// Makes the keys of a user inactive.
async fn suspend(user: &BucketUser, usable: &UsableCluster) -> Result<(), CallError> {
    let name = user.user_name();
    for key in iam::keys(&usable.calls, &name).await?.into_iter().filter(|key| key.active) {
        iam::set_key(&usable.calls, &name, &key.id, false).await?;
    }
    Ok(())
}

fn suspended_verdict() -> Verdict {
    let message = "the user is suspended: its keys are inactive";
    Verdict::bad(AccessCondition::KeyReady, AccessReason::Suspended, message)
}

/// Makes the user, its policies and its keys as they should be.
async fn synchronise(
    context: &Context,
    valid: &ValidUser<'_>,
    usable: &UsableCluster,
) -> Result<Result<UserReport, CallError>, ReconcileError> {
    let ready = AccessCondition::Ready;
    let user = valid.user.user_name();
    let mark = UserMark::of(context, valid.user).await?;
    let is_ended = match owner::ensure(valid.user, &mark, usable).await {
        Ok(EnsuredUser::Own { is_ended }) => is_ended,
        Ok(EnsuredUser::Foreign(path)) => {
            let message = format!("user {user} is there with the path {path} and not this object's");
            let verdicts =
                vec![Verdict::bad(ready, AccessReason::NameTaken, message), Verdict::not_deleted()];
            return Ok(Ok(UserReport { verdicts, ..UserReport::default() }));
        }
        Err(error) => return Ok(Err(error)),
    };
    // Keys that were taken from an object that is gone are not given back to what is remembered of it.
    let is_gone = is_ended && !owner::is_there(context, valid.user).await?;
    let suspended = valid.user.spec.suspended || is_gone;
    if suspended && let Err(error) = suspend(valid.user, usable).await {
        return Ok(Err(error));
    }
    let grants = match grants::resolve(context, valid.user, usable).await? {
        Ok(grants) => grants,
        Err(error) => return Ok(Err(error)),
    };
    let policy = match policies::ensure(valid, usable, &grants).await {
        Ok(verdict) => verdict,
        Err(error) => return Ok(Err(error)),
    };
    let ensured = if suspended {
        let last = valid.user.status.clone().unwrap_or_default();
        Ok((suspended_verdict(), last.access_key_id, last.former_key))
    } else if valid.user.spec.secret_ref.is_some() {
        Box::pin(given::ensure(context, valid, usable, is_ended)).await?
    } else {
        Box::pin(ensure_key(context, valid, usable, &grants, is_ended)).await?
    };
    let (key, access_key_id, former_key) = match ensured {
        Ok(ensured) => ensured,
        Err(error) => return Ok(Err(error)),
    };
    let verdict = match &grants.refused {
        _ if !policy.holds() => Verdict::bad(ready, policy.reason, policy.message.clone()),
        _ if !key.holds() => Verdict::bad(ready, key.reason, key.message.clone()),
        Some((reason, message)) => Verdict::bad(ready, *reason, message.clone()),
        None => {
            let message = format!("user {user} is as asked for; Secret {}", valid.user.secret_name());
            Verdict::good(ready, AccessReason::AsAsked, message)
        }
    };
    Ok(Ok(UserReport {
        verdicts: vec![verdict, policy, key, Verdict::not_deleted()],
        buckets: grants.rights.into_iter().map(|right| right.bucket).collect(),
        access_key_id,
        former_key,
        suspended,
    }))
}

/// Makes the Secret hold a key that works. Keys of a user that a sweep ended are as suspended ones.
async fn ensure_key(
    context: &Context,
    valid: &ValidUser<'_>,
    usable: &UsableCluster,
    grants: &Grants,
    is_ended: bool,
) -> Result<Result<EnsuredKey, CallError>, ReconcileError> {
    let user = valid.user;
    let condition = AccessCondition::KeyReady;
    let name = user.secret_name();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &user.namespace().unwrap_or_default());
    let mut last = user.status.clone().unwrap_or_default();
    last.suspended |= is_ended;
    let taken = || {
        let message = format!("Secret {name} is there and not this object's: delete it, or name another one");
        let verdict = Verdict::bad(condition, AccessReason::NameTaken, message);
        (verdict, last.access_key_id.clone(), last.former_key.clone())
    };
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| ReconcileError::api("read", "Secret".into(), &name, source))?;
    if found.as_ref().is_some_and(|found| !secret::is_ours(user, found)) {
        return Ok(Ok(taken()));
    }
    let held = found.as_ref().and_then(secret::read);
    let rotate = user.annotations().get(ROTATE_ANNOTATION).map(String::as_str);
    let changed = async {
        let keys = iam::keys(&usable.calls, &user.user_name()).await?;
        let plan = keys::plan(&KeyFacts {
            keys: &keys,
            secret: held.as_ref().map(|(key, _)| key),
            status: &last,
            rotate,
            overlap: valid.overlap,
            now_s: (context.now)().as_second(),
        });
        let made = change_keys(usable, &user.user_name(), &plan).await?;
        Ok::<_, CallError>((plan, made))
    };
    let (KeyPlan { former, .. }, made) = match changed.await {
        Ok(changed) => changed,
        Err(error) => return Ok(Err(error)),
    };
    let (key, asked) = match (made, held) {
        (Some(made), _) => (made, rotate.map(str::to_owned)),
        (None, Some((facts, key))) => (key, facts.asked),
        (None, None) => return Ok(Err(CallError::Malformed("CreateAccessKey"))),
    };
    let place = SecretPlace {
        endpoint: &usable.endpoint,
        authorities: usable.authorities.as_deref(),
        region: &usable.region,
        bucket: grants.rights.first().map(|right| right.bucket.as_str()),
    };
    let secret = secret::build(user, &key, asked.as_deref(), place);
    if !write_secret(&api, found.as_ref(), secret).await? {
        let removed = iam::remove_key(&usable.calls, &user.user_name(), &key.id).await;
        return Ok(removed.map(|()| taken()));
    }
    if is_ended && let Err(error) = owner::resume(user, usable).await {
        return Ok(Err(error));
    }
    Ok(Ok((key_verdict(&name, former.as_ref()), Some(key.id), former)))
}

/// Makes the Secret, whole, or changes the one that was found. A change names that very object, so that one
/// which a person makes in between is neither merged with nor deleted with its user. Returns whether it was
/// written: not where another one is there by now.
async fn write_secret(
    api: &Api<Secret>,
    found: Option<&Secret>,
    secret: Secret,
) -> Result<bool, ReconcileError> {
    let name = secret.name_any();
    let field_manager = Some(FIELD_MANAGER.to_owned());
    let Some(found) = found else {
        let params = PostParams { field_manager, ..PostParams::default() };
        return match api.create(&params, &secret).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(refused)) if refused.code == 409 => Ok(false),
            Err(source) => Err(ReconcileError::api("make", "Secret".into(), &name, source)),
        };
    };
    let params = PatchParams {
        field_manager,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let changed = api.patch(&name, &params, &Patch::Merge(secret::change(found, secret))).await;
    changed.map(|_| true).map_err(|source| ReconcileError::api("change", "Secret".into(), &name, source))
}

async fn change_keys(
    usable: &UsableCluster,
    user: &str,
    plan: &KeyPlan,
) -> Result<Option<AccessKey>, CallError> {
    take_and_resume(usable, user, plan).await?;
    if plan.make { iam::create_key(&usable.calls, user).await.map(Some) } else { Ok(None) }
}

/// Lets an object go that is being deleted, with its user.
async fn release(
    context: &Context,
    user: &BucketUser,
    found: FoundCluster,
) -> Result<NextLook, ReconcileError> {
    if let Some((reason, message)) = deletion_blocked(user, found).await {
        let blocked = Verdict { condition: AccessCondition::DeletionBlocked, status: TRUE, reason, message };
        let deleting =
            Verdict::bad(AccessCondition::Ready, AccessReason::Deleting, "the object is being deleted");
        let last = user.status.clone().unwrap_or_default();
        let report = UserReport {
            verdicts: vec![deleting, blocked],
            buckets: last.buckets,
            access_key_id: last.access_key_id,
            former_key: last.former_key,
            suspended: last.suspended,
        };
        write(context, user, report).await?;
        return Ok(NextLook::of(false));
    }
    finalizer::set(&context.client, user, USER_FINALIZER, false).await?;
    Ok(NextLook::OnChange)
}

/// Deletes the user; returns what keeps it.
async fn deletion_blocked(user: &BucketUser, found: FoundCluster) -> Option<(AccessReason, String)> {
    let usable = match found {
        FoundCluster::Usable(usable) => usable,
        FoundCluster::Unusable(unusable) | FoundCluster::Unwatched(unusable) => {
            return Some((unusable.reason, unusable.message));
        }
        // The user is with the cluster's volumes. Nothing could delete it, and a namespace would stay for
        // ever.
        FoundCluster::Gone(_) => return None,
    };
    let deleted = async {
        match iam::user(&usable.calls, &user.user_name()).await? {
            Some(found) if found.path == user.user_path() => {
                policies::remove(user, &usable).await?;
                iam::delete_user(&usable.calls, &user.user_name()).await
            }
            // A deletion that was cut has left policies at most.
            None => policies::remove(user, &usable).await,
            Some(_) => Ok(()),
        }
    };
    deleted.await.err().map(|error| {
        let verdict = Verdict::failed(AccessCondition::DeletionBlocked, &error);
        (verdict.reason, verdict.message)
    })
}

async fn write(context: &Context, user: &BucketUser, report: UserReport) -> Result<(), ReconcileError> {
    let UserReport { verdicts, buckets, access_key_id, former_key, suspended } = report;
    let last = user.status.as_ref();
    let before = last.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = user.meta().generation;
    let types = AccessCondition::OF_USER;
    let status = BucketUserStatus {
        observed_generation: generation,
        conditions: conditions(&types, &verdicts, before, generation, (context.now)()),
        user: Some(user.user_name()),
        secret: Some(user.secret_name()),
        buckets,
        access_key_id,
        former_key,
        suspended,
    };
    condition::write(&context.client, user, last, &status).await?;
    publish(&context.recorder, &user.object_ref(&()), before, &status.conditions, is_bad).await;
    Ok(())
}
