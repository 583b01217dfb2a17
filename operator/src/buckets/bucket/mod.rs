//! One reconcile of a Bucket.
//!
//! ```text
//! not there            -> CreateBucket with its mark as a tag, in one request
//! there, marked as its -> compare each part that the specification names, and set what differs
//! there otherwise      -> nothing, unless it may be and is to be adopted
//! deleted              -> Retain: let go; Delete: DeleteBucket, and wait while it is not empty
//! ```

pub mod plan;

use kube::{Api, Resource as _, ResourceExt as _};

use super::cluster::{FoundCluster, UsableCluster};
use super::report::{Verdict, conditions, is_bad};
use super::validate::{self, ValidBucket};
use super::{ClaimedObject, NextLook, cluster, finalizer, is_ours, namespace};
use crate::api::{AccessCondition, AccessReason, Bucket, BucketPart, BucketStatus, ReclaimPolicy, Tags};
use crate::calls::{CallError, Refusal, s3};
use crate::names::{BUCKET_FINALIZER, BUCKET_TAG};
use crate::reconcile::condition::{self, TRUE};
use crate::reconcile::{Context, ReconcileError, publish};
use plan::{BucketMark, BucketStep, ObservedBucket};

/// The report on a Bucket.
#[derive(Debug, Default)]
struct BucketReport {
    verdicts: Vec<Verdict>,
    /// The bucket, where it is this object's.
    owned: Option<String>,
    endpoint: Option<String>,
    applied: Vec<BucketPart>,
    tag_keys: Vec<String>,
}

/// Makes a Bucket true as far as it can be.
///
/// # Errors
/// [`ReconcileError`] when it is to be tried again.
pub async fn reconcile(context: &Context, bucket: &Bucket) -> Result<NextLook, ReconcileError> {
    let namespace = bucket.namespace().unwrap_or_default();
    let is_deleted = bucket.meta().deletion_timestamp.is_some();
    if is_deleted && !bucket.finalizers().iter().any(|found| found == BUCKET_FINALIZER) {
        return Ok(NextLook::OnChange);
    }
    let (name, cluster_namespace) = (&bucket.spec.cluster.name, bucket.cluster_namespace());
    let found = cluster::find(context, name, &cluster_namespace, &namespace, is_deleted).await?;
    let object = ClaimedObject {
        reference: &bucket.object_ref(&()),
        conditions: bucket.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default(),
        is_deleted,
        cluster_namespace: &cluster_namespace,
        found: &found,
    };
    if !is_ours(context, &object).await? {
        return Ok(NextLook::of(true));
    }
    if is_deleted {
        return release(context, bucket, found).await;
    }
    // Only a bucket that is deleted with its object needs the object to stay.
    let keeps = bucket.spec.reclaim_policy == ReclaimPolicy::Delete;
    let Some(bucket) = finalizer::set(&context.client, bucket, BUCKET_FINALIZER, keeps).await? else {
        return Ok(NextLook::OnChange);
    };
    let report = judge(context, &bucket, found).await?;
    let settled = report.verdicts.iter().any(|one| one.condition == AccessCondition::Ready && one.holds());
    write(context, &bucket, report).await?;
    Ok(NextLook::of(settled))
}

async fn judge(
    context: &Context,
    bucket: &Bucket,
    found: FoundCluster,
) -> Result<BucketReport, ReconcileError> {
    let last = bucket.status.clone().unwrap_or_default();
    let kept = |verdict: Verdict| BucketReport {
        verdicts: vec![verdict, Verdict::not_deleted()],
        owned: last.bucket.clone(),
        endpoint: last.endpoint.clone(),
        applied: last.applied.clone(),
        tag_keys: last.tag_keys.clone(),
    };
    let ready = AccessCondition::Ready;
    let valid = match validate::bucket(bucket) {
        Ok(valid) => valid,
        Err(messages) => {
            return Ok(kept(Verdict::bad(ready, AccessReason::SpecInvalid, messages.join("; "))));
        }
    };
    let usable = match found {
        FoundCluster::Usable(usable) => usable,
        FoundCluster::Unusable(unusable)
        | FoundCluster::Unwatched(unusable)
        | FoundCluster::Gone(unusable) => {
            return Ok(kept(Verdict::unusable(ready, &unusable)));
        }
    };
    match synchronise(context, &valid, &usable).await? {
        Ok(report) => Ok(report),
        Err(error) => Ok(kept(Verdict::failed(ready, &error))),
    }
}

/// Makes the bucket and sets what differs.
async fn synchronise(
    context: &Context,
    valid: &ValidBucket<'_>,
    usable: &UsableCluster,
) -> Result<Result<BucketReport, CallError>, ReconcileError> {
    let uid = namespace::uid_of_object(context, &valid.bucket.namespace().unwrap_or_default()).await?;
    let tags = match found_or_made(valid, &uid, usable).await {
        Ok(tags) => tags,
        Err(error) => return Ok(Err(error)),
    };
    let other_is_there = match tags.get(BUCKET_TAG) {
        Some(other) if plan::own_mark(valid.bucket, &uid, &tags).is_none() => {
            is_another_there(context, valid.bucket, other).await?
        }
        Some(_) | None => false,
    };
    if let Err(foreign) = plan::claim(valid, &uid, &tags, other_is_there, usable.any_bucket) {
        let verdict = Verdict::bad(AccessCondition::Ready, foreign.reason, foreign.message);
        return Ok(Ok(BucketReport {
            verdicts: vec![verdict, Verdict::not_deleted()],
            ..BucketReport::default()
        }));
    }
    let observed = match observe(valid, usable, tags).await {
        Ok(observed) => observed,
        Err(error) => return Ok(Err(error)),
    };
    Ok(apply(valid, usable, plan::steps(valid, &uid, &observed)).await)
}

/// Returns the tags of the bucket, which is made where it is not there. Its mark comes with it, so that no
/// bucket of an operator that ended in between is without one.
async fn found_or_made(
    valid: &ValidBucket<'_>,
    uid: &str,
    usable: &UsableCluster,
) -> Result<Tags, CallError> {
    if let Some(tags) = s3::tags(&usable.calls, &valid.name).await? {
        return Ok(tags);
    }
    let tags = plan::wanted_tags(valid, uid, &Tags::new(), &[]);
    s3::create(&usable.calls, &valid.name, &usable.region, &tags).await?;
    // The bucket may have been made by another client meanwhile: the mark that is there decides.
    s3::tags(&usable.calls, &valid.name).await?.ok_or(CallError::Malformed("CreateBucket"))
}

/// Whether the Bucket of a mark that is not this object's exists, in the namespace that it had. One that
/// cannot be looked at counts as there.
async fn is_another_there(context: &Context, bucket: &Bucket, mark: &str) -> Result<bool, ReconcileError> {
    let Some(BucketMark { namespace, name, uid }) = BucketMark::read(mark) else { return Ok(false) };
    if bucket.namespace().as_deref() == Some(namespace) && bucket.name_any() == name {
        return Ok(false);
    }
    let api: Api<Bucket> = Api::namespaced(context.client.clone(), namespace);
    match api.get_metadata_opt(name).await {
        Ok(None) => Ok(false),
        Ok(Some(_)) => Ok(namespace::uid(context, namespace).await?.as_deref() == Some(uid)),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(true),
        Err(source) => Err(ReconcileError::api("read", "Bucket".into(), mark, source)),
    }
}

/// Reads the parts that the specification names.
async fn observe(
    valid: &ValidBucket<'_>,
    usable: &UsableCluster,
    tags: Tags,
) -> Result<ObservedBucket, CallError> {
    let (calls, name, spec) = (&usable.calls, &valid.name, &valid.bucket.spec);
    let mut observed = ObservedBucket { tags, ..ObservedBucket::default() };
    if valid.policy.is_some() {
        observed.policy = s3::policy(calls, name).await?;
    }
    if spec.public_access_block.is_some() {
        observed.public_access_block = s3::public_access_block(calls, name).await?;
    }
    if spec.cors.is_some() {
        observed.cors = s3::cors(calls, name).await?;
    }
    Ok(observed)
}

/// Makes the changes. One that the store refuses keeps none of the others from being made.
async fn apply(
    valid: &ValidBucket<'_>,
    usable: &UsableCluster,
    steps: Vec<BucketStep>,
) -> Result<BucketReport, CallError> {
    let spec = &valid.bucket.spec;
    let (mut refusals, mut policy_refusal) = (Vec::new(), None);
    let mut undone = Vec::new();
    for step in steps {
        match change(usable, &valid.name, &step).await {
            Ok(()) => {}
            Err(CallError::Refused(refusal)) if refusal.is_transient() => {
                return Err(CallError::Refused(refusal));
            }
            Err(CallError::Refused(refusal)) => match step {
                BucketStep::PutPolicy(_) => policy_refusal = Some(refusal),
                BucketStep::DeletePolicy => undone.push(BucketPart::Policy),
                BucketStep::DeleteCors => undone.push(BucketPart::Cors),
                BucketStep::PutTags(_) | BucketStep::PutPublicAccessBlock(_) | BucketStep::PutCors(_) => {
                    refusals.push(refusal.to_string());
                }
            },
            Err(error) => return Err(error),
        }
    }
    let named = [
        (BucketPart::PublicAccessBlock, spec.public_access_block.is_some()),
        (BucketPart::Policy, valid.policy.is_some()),
        (BucketPart::Cors, spec.cors.is_some()),
    ];
    let applied = named.into_iter().filter(|(part, named)| *named || undone.contains(part));
    let policy = policy_verdict(valid, policy_refusal.as_ref());
    let ready = AccessCondition::Ready;
    let verdict = if !refusals.is_empty() {
        Verdict::bad(ready, AccessReason::Refused, refusals.join("; "))
    } else if policy.holds() {
        Verdict::good(ready, AccessReason::AsAsked, format!("bucket {} is as asked for", valid.name))
    } else {
        Verdict::bad(ready, policy.reason, policy.message.clone())
    };
    Ok(BucketReport {
        verdicts: vec![verdict, policy, Verdict::not_deleted()],
        owned: Some(valid.name.clone()),
        endpoint: Some(usable.endpoint.clone()),
        applied: applied.map(|(part, _)| part).collect(),
        tag_keys: spec.tags.keys().cloned().collect(),
    })
}

async fn change(usable: &UsableCluster, name: &str, step: &BucketStep) -> Result<(), CallError> {
    let calls = &usable.calls;
    match step {
        BucketStep::PutTags(tags) => s3::put_tags(calls, name, tags).await,
        BucketStep::PutPublicAccessBlock(block) => s3::put_public_access_block(calls, name, *block).await,
        BucketStep::PutPolicy(policy) => s3::put_policy(calls, name, &policy.text).await,
        BucketStep::DeletePolicy => s3::delete_policy(calls, name).await,
        BucketStep::PutCors(rules) => s3::put_cors(calls, name, rules).await,
        BucketStep::DeleteCors => s3::delete_cors(calls, name).await,
    }
}

fn policy_verdict(valid: &ValidBucket<'_>, refusal: Option<&Refusal>) -> Verdict {
    let condition = AccessCondition::PolicyApplied;
    match refusal {
        Some(refusal) if refusal.code == "MalformedPolicy" => {
            Verdict::bad(condition, AccessReason::MalformedPolicy, refusal.to_string())
        }
        Some(refusal) => Verdict::bad(condition, AccessReason::PolicyRefused, refusal.to_string()),
        None if valid.policy.is_some() => {
            Verdict::good(condition, AccessReason::AsAsked, "the policy is in force")
        }
        None => Verdict::good(condition, AccessReason::NotNeeded, "the specification names no policy"),
    }
}

/// Lets an object go that is being deleted, with its bucket where that is to be deleted.
async fn release(
    context: &Context,
    bucket: &Bucket,
    found: FoundCluster,
) -> Result<NextLook, ReconcileError> {
    if let Some((reason, message)) = deletion_blocked(context, bucket, found).await? {
        let last = bucket.status.clone().unwrap_or_default();
        let blocked = Verdict { condition: AccessCondition::DeletionBlocked, status: TRUE, reason, message };
        let deleting =
            Verdict::bad(AccessCondition::Ready, AccessReason::Deleting, "the object is being deleted");
        let report = BucketReport {
            verdicts: vec![deleting, blocked],
            owned: last.bucket,
            endpoint: last.endpoint,
            applied: last.applied,
            tag_keys: last.tag_keys,
        };
        write(context, bucket, report).await?;
        return Ok(NextLook::of(false));
    }
    finalizer::set(&context.client, bucket, BUCKET_FINALIZER, false).await?;
    Ok(NextLook::OnChange)
}

/// Deletes the bucket; returns what keeps it.
async fn deletion_blocked(
    context: &Context,
    bucket: &Bucket,
    found: FoundCluster,
) -> Result<Option<(AccessReason, String)>, ReconcileError> {
    if bucket.spec.reclaim_policy == ReclaimPolicy::Retain {
        return Ok(None);
    }
    let usable = match found {
        FoundCluster::Usable(usable) => usable,
        FoundCluster::Unusable(unusable) | FoundCluster::Unwatched(unusable) => {
            return Ok(Some((unusable.reason, unusable.message)));
        }
        // The bucket is with the cluster's volumes. Nothing could delete it, and a namespace would stay for
        // ever.
        FoundCluster::Gone(_) => return Ok(None),
    };
    // An object that is invalid now may have made its bucket before: its name cannot change.
    let bucket_name = bucket.bucket_name();
    if !validate::is_bucket_name(&bucket_name) {
        return Ok(None);
    }
    let uid = namespace::uid_of_object(context, &bucket.namespace().unwrap_or_default()).await?;
    let deleted = async {
        match s3::tags(&usable.calls, &bucket_name).await? {
            Some(tags) if plan::own_mark(bucket, &uid, &tags).is_some() => {
                s3::delete(&usable.calls, &bucket_name).await
            }
            Some(_) | None => Ok(()),
        }
    };
    Ok(match deleted.await {
        Ok(()) => None,
        Err(CallError::Refused(refusal)) if refusal.code == "BucketNotEmpty" => {
            let message = format!(
                "bucket {bucket_name} is not empty: empty it, or set spec.reclaimPolicy to Retain to let it stay"
            );
            Some((AccessReason::BucketNotEmpty, message))
        }
        Err(error) => {
            let verdict = Verdict::failed(AccessCondition::DeletionBlocked, &error);
            Some((verdict.reason, verdict.message))
        }
    })
}

async fn write(context: &Context, bucket: &Bucket, report: BucketReport) -> Result<(), ReconcileError> {
    let BucketReport { verdicts, owned, endpoint, applied, tag_keys } = report;
    let last = bucket.status.as_ref();
    let before = last.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = bucket.meta().generation;
    let types = AccessCondition::OF_BUCKET;
    let status = BucketStatus {
        observed_generation: generation,
        conditions: conditions(&types, &verdicts, before, generation, (context.now)()),
        bucket: owned,
        endpoint,
        applied,
        tag_keys,
    };
    condition::write(&context.client, bucket, last, &status).await?;
    publish(&context.recorder, &bucket.object_ref(&()), before, &status.conditions, is_bad).await;
    Ok(())
}
