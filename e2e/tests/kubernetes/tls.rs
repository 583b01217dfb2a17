//! S3 over TLS on a cluster of one host: a client that trusts the published CA writes while the certificate
//! is deleted and made again; then a Secret of a person's takes its place.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::Client;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, wait_for};
use sherd_trust::ServiceAuthority;

use crate::cases::CaseResult;

const CLUSTER: &str = "secure";
const POD: &str = "secure-pool-0-0";
const BUCKET: &str = "over-tls";
/// How long a change may take: generous, for a busy machine.
const DONE: Duration = Duration::from_mins(10);
/// Writes before and after.
const WRITES_AROUND: u64 = 100;

/// The whole case.
pub(crate) async fn story(namespace: &Namespace) -> CaseResult {
    let addresses = addresses_of_hosts()?;
    namespace.apply(&cluster(&addresses).to_string())?;
    let ready = wait_for("Ready over TLS", DONE, || is_ready(namespace)).await?;
    let endpoint = namespace.open_s3(CLUSTER)?.replacen("http://", "https://", 1);
    let given = given_authorities(namespace)?;
    let client = namespace.client_over_tls(CLUSTER, &endpoint, &given)?;
    client.create_bucket().bucket(BUCKET).send().await?;

    let renewed = renews_under_load(namespace, &client).await?;
    // A connection that begins now sees the other certificate.
    namespace.client_over_tls(CLUSTER, &endpoint, &given)?.list_buckets().send().await?;

    let own = takes_a_secret(namespace, &endpoint, &addresses).await?;
    if client_is_served(&namespace.client_over_tls(CLUSTER, &endpoint, &given)?).await.is_ok() {
        return Err("the operator's CA is still trusted".into());
    }
    remove(namespace).await?;
    Ok(format!(
        "(ready in {:.0} s, renewed in {:.0} s, own Secret in {:.0} s)",
        ready.as_secs_f64(),
        renewed.as_secs_f64(),
        own.as_secs_f64()
    ))
}

fn cluster(addresses: &[String]) -> Value {
    json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "StorageCluster",
        "metadata": {"name": CLUSTER},
        "spec": {
            "pools": [{
                "name": "pool-0",
                "nodes": 1,
                "volumesPerNode": 4,
                "volumeClaimTemplate": {
                    "storageClassName": "standard",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
            "tls": {"mode": "Operator", "extraNames": addresses},
            // The only node goes for each change of its template.
            "upgrade": {"allowDowntime": true},
        },
    })
}

fn addresses_of_hosts() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let hosts: Value = serde_json::from_str(&run("kubectl", &["get", "nodes", "--output", "json"])?)?;
    let hosts = hosts["items"].as_array().ok_or("no hosts")?.iter();
    let addresses = hosts.flat_map(|host| host["status"]["addresses"].as_array().into_iter().flatten());
    let internal = addresses.filter(|address| address["type"] == "InternalIP");
    Ok(internal.filter_map(|address| Some(address["address"].as_str()?.to_owned())).collect())
}

fn is_ready(namespace: &Namespace) -> Result<(), String> {
    for condition in ["Ready", "CertificatesReady"] {
        match namespace.condition(CLUSTER, condition) {
            Some((status, _)) if status == "True" => {}
            found => return Err(format!("{condition}: {found:?}")),
        }
    }
    Ok(())
}

/// The CAs that workloads are given.
fn given_authorities(namespace: &Namespace) -> Result<String, Box<dyn std::error::Error>> {
    let map = namespace.get("configmap", "secure-s3-ca").ok_or("no ConfigMap with the CAs")?;
    Ok(map["data"]["ca.crt"].as_str().ok_or("no CAs")?.to_owned())
}

async fn renews_under_load(
    namespace: &Namespace,
    client: &Client,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let load = Load::start(client, BUCKET, 4);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = namespace.secret("secure-s3-tls").ok_or("no certificate")?;
    let uid = uid(namespace)?;
    namespace.kubectl(&["delete", "secret", "secure-s3-tls"])?;
    let look = || {
        let reloads = namespace.kubectl(&["logs", POD]).map_err(|error| error.to_string())?;
        let is_of_s3 = |line: &str| line.contains("certificates reloaded") && line.contains("clients of S3");
        reloads.lines().any(is_of_s3).then_some(()).ok_or_else(|| "not reloaded".to_owned())
    };
    let renewed = wait_for("the node reloads", DONE, look).await;
    load.goes_on_for(WRITES_AROUND).await?;
    let report = load.finish(client, BUCKET).await;
    let renewed = renewed?;
    if !report.errors.is_empty() || !report.wrong.is_empty() {
        return Err(format!("failed: {:#?}; lost or wrong: {:#?}", report.errors, report.wrong).into());
    }
    let after = namespace.secret("secure-s3-tls").ok_or("no certificate")?;
    if after["tls.key"] == before["tls.key"] || after["ca.crt"] != before["ca.crt"] {
        return Err("the certificate is not another one of the same CA".into());
    }
    if self::uid(namespace)? != uid {
        return Err("the pod was replaced".into());
    }
    Ok(renewed)
}

fn uid(namespace: &Namespace) -> Result<String, Box<dyn std::error::Error>> {
    let pod = namespace.get("pod", POD).ok_or("no pod")?;
    Ok(pod["metadata"]["uid"].as_str().ok_or("no uid")?.to_owned())
}

/// A certificate of a person's takes the place of the operator's, and what was written is read.
async fn takes_a_secret(
    namespace: &Namespace,
    endpoint: &str,
    addresses: &[String],
) -> Result<Duration, Box<dyn std::error::Error>> {
    let now_ms = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let authority = ServiceAuthority::init("a person", now_ms)?;
    let mut names = vec![format!("{CLUSTER}-s3.{}.svc", namespace.name)];
    names.extend(addresses.iter().cloned());
    let issued = authority.issue(&names, now_ms, Duration::from_hours(90 * 24))?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": "own"},
        "stringData": {
            "tls.crt": issued.certificate, "tls.key": issued.key, "ca.crt": authority.certificate(),
        },
    });
    namespace.apply(&secret.to_string())?;
    let patch = json!({"spec": {"tls": {"mode": "Secret", "secretRef": {"name": "own"}}}}).to_string();
    let before = uid(namespace)?;
    namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])?;
    let look = || match uid(namespace) {
        Ok(uid) if uid != before => is_ready(namespace),
        _ => Err("the pod is not replaced".to_owned()),
    };
    let taken = wait_for("the pod with the other certificate", DONE, look).await?;
    let client = namespace.client_over_tls(CLUSTER, endpoint, authority.certificate())?;
    client_is_served(&client).await?;
    if given_authorities(namespace)? != authority.certificate() {
        return Err("workloads are given another CA".into());
    }
    Ok(taken)
}

async fn client_is_served(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let listed = client.list_objects_v2().bucket(BUCKET).send().await?;
    if listed.contents().is_empty() { Err("nothing is listed".into()) } else { Ok(()) }
}

/// Leaves nothing behind.
async fn remove(namespace: &Namespace) -> Result<(), Box<dyn std::error::Error>> {
    namespace.kubectl(&["delete", "storagecluster", CLUSTER])?;
    let look = || match namespace.get("pod", POD) {
        None => Ok(()),
        Some(_) => Err("the pod is there".to_owned()),
    };
    wait_for("the pod is gone", DONE, look).await?;
    for (kind, selector) in [("pvc", "sherd.dev/cluster=secure"), ("secret", "sherd.dev/cluster=secure")] {
        namespace.kubectl(&["delete", kind, "--selector", selector])?;
    }
    namespace.kubectl(&["delete", "secret", "own"])?;
    namespace.kubectl(&["delete", "service", "secure-e2e"])?;
    Ok(())
}
