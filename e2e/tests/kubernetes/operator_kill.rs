//! The operator that leads is killed at each step of what it does: each time that the status names another
//! step, its process gets SIGKILL (where its host is a container of kind's) and its pod is deleted by force.
//! The other replica goes on from the status. It ends right, at most one node is away at a time, and no
//! request of an SDK client fails.

use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::Namespace;

use crate::cases::CaseResult;
use crate::rollouts::{ROLLED, WRITES_AROUND, finish, pods, ready, rests, rollout, same};
use crate::trust::{is_replaced, key};
use crate::watched::Watched;

const CLUSTER: &str = "demo";
const LEASE: &str = "sherd-operator";
/// How often the watches are looked at: short, so that the operator dies in the step that it reported.
const LOOK: Duration = Duration::from_millis(20);
/// The step of a rollout: the template, the pod that is taken, why none is, and the template that failed.
const ROLLOUT_STEP: &str = "{.status.rollout.revision} {.status.rollout.replacing.name} \
     {.status.rollout.replacing.uid} {.status.rollout.updated} {.status.rollout.failed.revision} \
     {.status.rollout.message}";
/// The step of a replacement of the CA.
const AUTHORITY_STEP: &str = r#"{.status.authorityKey} {.status.conditions[?(@.type=="CertificatesReady")].reason} {.status.rollout.replacing.name}"#;
/// The parts that a cluster has while it is made, and those that it lacks.
const INSTALL_STEP: &str = "{.status.clusterId} {.status.authorityKey} {.status.conditions[*].reason}";

/// Every pod is replaced.
pub(crate) async fn in_rollout(namespace: &Namespace, client: &Client) -> CaseResult {
    let load = start(client, "killed-in-rollout").await?;
    let before = pods(namespace)?;
    let mut killer = Killer::start(namespace, CLUSTER, ROLLOUT_STEP, before.len())?;
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", "sherd.dev/restart=killed"])?;
    let look = || match same(&before, &pods(namespace)?) {
        0 => rests(namespace),
        kept => Err(format!("{kept} pods are not replaced: {}", rollout(namespace)["message"])),
    };
    let ended = killer.until("every pod is replaced", ROLLED, look).await;
    end(load, client, "killed-in-rollout", killer, ended).await
}

/// A template that fails is put back.
pub(crate) async fn in_put_back(namespace: &Namespace, client: &Client) -> CaseResult {
    let load = start(client, "killed-in-put-back").await?;
    let patch = |tag: Value, health_timeout: Value| {
        let patch = json!({"spec": {"image": {"tag": tag}, "upgrade": {"healthTimeout": health_timeout}}});
        let patch = patch.to_string();
        namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])
    };
    let before = pods(namespace)?;
    let mut killer = Killer::start(namespace, CLUSTER, ROLLOUT_STEP, before.len())?;
    patch(json!("there-is-none"), json!("1m"))?;
    let look = || {
        let record = rollout(namespace);
        let is_back = ready(&pods(namespace)?) == before.len() && !record["failed"].is_null();
        if is_back { Ok(()) } else { Err(format!("no template is put back: {}", record["message"])) }
    };
    let back = killer.until("the last template is put back", ROLLED, look).await;
    let kept = same(&before, &pods(namespace)?);
    patch(Value::Null, Value::Null)?;
    let ended = killer.until("the revert ends it", ROLLED, || rests(namespace)).await;
    let note = end(load, client, "killed-in-put-back", killer, back.and(ended)).await?;
    if kept + 1 != before.len() {
        return Err(format!("{kept} of {} pods were left alone", before.len()).into());
    }
    Ok(note)
}

/// The CA is replaced.
pub(crate) async fn in_rotation(namespace: &Namespace, client: &Client) -> CaseResult {
    let load = start(client, "killed-in-rotation").await?;
    let (before, count) = (key(namespace), pods(namespace)?.len());
    let mut killer = Killer::start(namespace, CLUSTER, AUTHORITY_STEP, count)?;
    namespace.kubectl(&[
        "annotate",
        "storagecluster",
        CLUSTER,
        "--overwrite",
        "sherd.dev/rotate-ca=killed",
    ])?;
    let look = || is_replaced(namespace, &before);
    let ended = killer.until("the CA is replaced", ROLLED, look).await;
    end(load, client, "killed-in-rotation", killer, ended).await
}

/// A cluster of one host is made; it is removed afterwards.
pub(crate) async fn in_installation(namespace: &Namespace) -> CaseResult {
    let cluster = json!({
        "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": "young"},
        "spec": {"pools": [{
            "name": "pool-0", "nodes": 1, "volumesPerNode": 4,
            "volumeClaimTemplate": {
                "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}},
            },
        }]},
    });
    namespace.apply(&cluster.to_string())?;
    let mut killer = Killer::start(namespace, "young", INSTALL_STEP, 0)?;
    let look = || {
        for (condition, expected) in [("Ready", "True"), ("Progressing", "False"), ("Degraded", "False")] {
            match namespace.condition("young", condition) {
                Some((status, _)) if status == expected => {}
                found => return Err(format!("{condition}: {found:?}")),
            }
        }
        Ok(())
    };
    let ended = killer.until("it is Ready", ROLLED, look).await;
    namespace.kubectl(&["delete", "storagecluster", "young"])?;
    let selector = ["--selector", "sherd.dev/cluster=young"];
    namespace.kubectl(&[["delete", "pvc"], selector].concat())?;
    namespace.kubectl(&[["delete", "secret"], selector].concat())?;
    let (taken, kills) = (ended?, killer.kills.len());
    if kills < 2 {
        return Err(format!("the operator was killed at {:?} only", killer.kills).into());
    }
    Ok(format!("(Ready after {:.0} s and {kills} kills)", taken.as_secs_f64()))
}

async fn start(client: &Client, bucket: &str) -> Result<Load, Box<dyn std::error::Error>> {
    client.create_bucket().bucket(bucket).send().await?;
    let load = Load::start(client, bucket, 8);
    load.goes_on_for(WRITES_AROUND).await?;
    Ok(load)
}

async fn end(
    load: Load,
    client: &Client,
    bucket: &str,
    killer: Killer<'_>,
    ended: Result<Duration, String>,
) -> CaseResult {
    load.goes_on_for(WRITES_AROUND).await?;
    let note = finish(load, client, bucket).await;
    let taken = ended.map_err(|error| format!("{error}; killed at {:#?}", killer.kills))?;
    let (note, kills) = (note?, killer.kills.len());
    if killer.most_away > 1 {
        return Err(format!("{} pods were away at one time", killer.most_away).into());
    }
    if kills < 3 {
        return Err(format!("the operator was killed at {:?} only", killer.kills).into());
    }
    Ok(format!("({kills} kills in {:.0} s, {note})", taken.as_secs_f64()))
}

/// Kills the operator that leads at each step that a cluster's status shows.
struct Killer<'a> {
    namespace: &'a Namespace,
    watched: Watched,
    step: Option<String>,
    /// How many nodes the cluster has that must not be away together. Absent: they are not looked at.
    nodes: usize,
    most_away: usize,
    /// The steps at which an operator was killed.
    kills: Vec<String>,
}

impl<'a> Killer<'a> {
    fn start(
        namespace: &'a Namespace,
        cluster: &str,
        step: &str,
        nodes: usize,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let watched = Watched::start(namespace, ["storagecluster", cluster], step)?;
        Ok(Self { namespace, watched, step: None, nodes, most_away: 0, kills: vec![] })
    }

    /// Kills at each step until a look succeeds.
    async fn until(
        &mut self,
        what: &str,
        deadline: Duration,
        mut look: impl FnMut() -> Result<(), String>,
    ) -> Result<Duration, String> {
        let begun = Instant::now();
        let mut looked = begun;
        loop {
            self.kill_at_a_new_step()?;
            if looked.elapsed() > Duration::from_millis(500) {
                if self.nodes > 0 {
                    let away = self.nodes.saturating_sub(ready(&pods(self.namespace)?));
                    self.most_away = self.most_away.max(away);
                }
                let last = match look() {
                    Ok(()) => return Ok(begun.elapsed()),
                    Err(last) => last,
                };
                if begun.elapsed() > deadline {
                    return Err(format!("{what}: not within {deadline:?}: {last}"));
                }
                looked = Instant::now();
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn kill_at_a_new_step(&mut self) -> Result<(), String> {
        // The bytes that are left to heal are not a step.
        let is_no_digit = |text: &char| !text.is_ascii_digit();
        let Some(news) = self.watched.news()?.pop() else { return Ok(()) };
        let step: String = if self.nodes == 0 { news } else { news.chars().filter(is_no_digit).collect() };
        let before = self.step.replace(step.clone());
        if before.is_none_or(|before| before == step) {
            return Ok(());
        }
        kill_leader(self.namespace).map_err(|error| format!("{step}: {error}"))?;
        self.kills.push(step);
        Ok(())
    }
}

/// Kills the operator that holds the lease, or nothing where its pod is gone already.
fn kill_leader(namespace: &Namespace) -> CaseResult {
    let lease = namespace.get("lease", LEASE).ok_or("no lease")?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let pod = holder.rsplit_once('_').map_or(holder, |(pod, _)| pod);
    let Some(found) = namespace.get("pod", pod) else { return Ok(String::new()) };
    let host = found["spec"]["nodeName"].as_str().unwrap_or_default();
    // Elsewhere the host's kubelet does it, a moment later.
    let _ = run("docker", &["exec", host, "pkill", "-KILL", "-x", "sherd-operator"]);
    namespace.kubectl(&["delete", "pod", pod, "--force", "--grace-period=0", "--ignore-not-found"])?;
    Ok(pod.to_owned())
}
