//! The CA of a cluster is replaced under load, and another one is made after it was lost: no request fails,
//! and each pod can read its own key alone.

use std::time::Duration;

use aws_sdk_s3::Client;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, condition_in, wait_for};

use crate::cases::CaseResult;
use crate::rollouts::{WRITES_AROUND, finish, rests};

const CLUSTER: &str = "demo";
const OPERATOR: &str = "deployment/sherd-operator";
const AUTHORITY: &str = "demo-ca";
const RECOVERY: &str = "demo-recovery";
/// How long a whole replacement may take: a rollout, and twice the minute or two in which the CAs that pods
/// mount follow their Secret.
const REPLACED: Duration = Duration::from_mins(30);
/// How long the operator may take to report or to stop.
const SEEN: Duration = Duration::from_mins(2);

/// An annotation replaces the CA.
pub(crate) async fn rotate_under_load(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("rotated").send().await?;
    let load = Load::start(client, "rotated", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = key(namespace);
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", "sherd.dev/rotate-ca=e2e"])?;
    let taken = wait_for("the CA is replaced", REPLACED, || is_replaced(namespace, &before)).await;
    load.goes_on_for(WRITES_AROUND).await?;
    let note = finish(load, client, "rotated").await?;
    let taken = taken?;
    let secret = namespace.secret(AUTHORITY).unwrap_or_default();
    let is_left = |key: &&str| secret.get(*key).is_some_and(|text| !text.is_empty());
    if let Some(key) = ["next.key", "previous.crt"].into_iter().find(is_left) {
        return Err(format!("{key} is left of the replacement").into());
    }
    Ok(format!("(replaced in {:.0} s, {note})", taken.as_secs_f64()))
}

/// Both Secrets with the CA are deleted while no operator runs that remembers them.
pub(crate) async fn lose_the_authority(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("lost-ca").send().await?;
    let load = Load::start(client, "lost-ca", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = key(namespace);
    namespace.kubectl(&["scale", OPERATOR, "--replicas=0"])?;
    let operators = "app.kubernetes.io/name=sherd-operator";
    let stopped = wait_for("the operator stops", SEEN, || match namespace.names("pod", operators) {
        Ok(pods) if pods.is_empty() => Ok(()),
        found => Err(format!("{found:?}")),
    });
    stopped.await?;
    namespace.kubectl(&["delete", "secret", AUTHORITY, RECOVERY])?;
    namespace.kubectl(&["scale", OPERATOR, "--replicas=2"])?;
    let reported =
        wait_for("the loss is reported", SEEN, || match namespace.condition(CLUSTER, "CertificatesReady") {
            Some((status, reason)) if status == "False" && reason == "AuthorityMissing" => Ok(()),
            found => Err(format!("{found:?}")),
        });
    reported.await?;
    let id = status(namespace, "clusterId");
    let annotation = format!("sherd.dev/new-ca={id}");
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", &annotation])?;
    let taken = wait_for("another CA is made", REPLACED, || is_replaced(namespace, &before)).await;
    load.goes_on_for(WRITES_AROUND).await?;
    let note = finish(load, client, "lost-ca").await?;
    let taken = taken?;
    if status(namespace, "clusterId") != id {
        return Err("the cluster has another id".into());
    }
    Ok(format!("(replaced in {:.0} s, {note})", taken.as_secs_f64()))
}

/// The replacement is over, and so is the rollout that it needs.
pub(crate) fn is_replaced(namespace: &Namespace, before: &str) -> Result<(), String> {
    let condition = namespace.condition(CLUSTER, "CertificatesReady");
    if key(namespace) == before || condition != Some(("True".to_owned(), "Issued".to_owned())) {
        let cluster = namespace.get("storagecluster", CLUSTER).unwrap_or_default();
        return Err(condition_in(&cluster, "CertificatesReady").to_string());
    }
    rests(namespace)
}

/// The digest of the key of the CA that the nodes run with.
pub(crate) fn key(namespace: &Namespace) -> String {
    status(namespace, "authorityKey")
}

fn status(namespace: &Namespace, field: &str) -> String {
    let cluster = namespace.get("storagecluster", CLUSTER).unwrap_or_default();
    cluster["status"][field].as_str().unwrap_or_default().to_owned()
}
