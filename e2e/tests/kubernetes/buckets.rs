//! Buckets and users as objects: a pod with a BucketUser's Secret writes and reads its bucket, and is refused
//! the next; its key is replaced; drift, a wrong policy and the ends of both kinds. Another BucketUser takes
//! its key from a Secret that is there.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Credentials;
use serde_json::json;
use sherd_e2e::kubernetes::{Namespace, client_with, wait_for};

use crate::cases::CaseResult;

/// How long a change may take to be in force, or a pod to end: generous, for a busy machine.
const DONE: Duration = Duration::from_mins(3);

const MANIFEST: &str = "
apiVersion: sherd.dev/v1alpha1
kind: Bucket
metadata: {name: photos}
spec: {cluster: {name: demo}, tags: {team: gallery}}
---
apiVersion: sherd.dev/v1alpha1
kind: Bucket
metadata: {name: ledger}
spec: {cluster: {name: demo}, reclaimPolicy: Delete}
---
apiVersion: sherd.dev/v1alpha1
kind: BucketUser
metadata: {name: uploader}
spec:
  cluster: {name: demo}
  buckets: [{bucketRef: {name: photos}, access: write}]
";

/// A user with a key that another store gave it, as the console of MinIO's operator writes it down.
const MOVER: &str = "
apiVersion: sherd.dev/v1alpha1
kind: BucketUser
metadata: {name: mover}
spec:
  cluster: {name: demo}
  buckets: [{bucketRef: {name: photos}, access: write}]
  secretRef: {name: mover-console}
";

/// The whole case; `client` is root's.
pub(crate) async fn story(namespace: &Namespace, client: &Client, endpoint: &str, tag: &str) -> CaseResult {
    namespace.apply(MANIFEST)?;
    for (kind, name) in
        [("bucket.sherd.dev", "photos"), ("bucket.sherd.dev", "ledger"), ("bucketuser", "uploader")]
    {
        is(namespace, kind, name, "Ready", ("True", "AsAsked")).await?;
    }
    refuses(namespace)?;
    let first = namespace.secret("uploader").ok_or("no Secret")?;
    // Another way to the keys would give them the same rights: what counts is what a pod gets.
    probes(namespace, tag, "of-its-own", "$(BUCKET_NAME)", None).await?;
    probes(namespace, tag, "of-another", "ledger", Some("AccessDenied")).await?;

    namespace.kubectl(&["annotate", "bucketuser", "uploader", "sherd.dev/rotate=now"])?;
    wait_for("another key", DONE, || {
        let secret = namespace.secret("uploader").ok_or("no Secret")?;
        if secret["AWS_ACCESS_KEY_ID"] == first["AWS_ACCESS_KEY_ID"] {
            Err("the same".to_owned())
        } else {
            Ok(())
        }
    })
    .await?;
    probes(namespace, tag, "after-rotation", "$(BUCKET_NAME)", None).await?;

    let tags = client.get_bucket_tagging().bucket("photos").send().await?.tag_set;
    let mark: Vec<_> = tags.into_iter().filter(|tag| tag.key() == "sherd.dev/bucket").collect();
    let without = aws_sdk_s3::types::Tagging::builder().set_tag_set(Some(mark)).build()?;
    client.put_bucket_tagging().bucket("photos").tagging(without).send().await?;
    namespace.kubectl(&["annotate", "bucket.sherd.dev", "photos", "look=now"])?;
    let begun = std::time::Instant::now();
    loop {
        let tags = client.get_bucket_tagging().bucket("photos").send().await;
        let count = tags.as_ref().map_or(0, |tags| tags.tag_set().len());
        if count == 2 {
            break;
        }
        if begun.elapsed() > DONE {
            return Err(format!("{count} tags are back").into());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let wrong = json!({"spec": {"policy": {"Version": "2012-10-17", "Statement": [{"Effect": "Perhaps"}]}}});
    patch(namespace, "photos", &wrong)?;
    is(namespace, "bucket.sherd.dev", "photos", "PolicyApplied", ("False", "MalformedPolicy")).await?;
    patch(namespace, "photos", &json!({"spec": {"policy": null}}))?;
    is(namespace, "bucket.sherd.dev", "photos", "Ready", ("True", "AsAsked")).await?;
    takes_a_given_key(namespace, endpoint).await?;
    ends(namespace, client).await?;
    Ok("(three pods, one of them refused)".to_owned())
}

/// The key of a Secret works, another one takes its place, and the Secret stays when the user goes.
async fn takes_a_given_key(namespace: &Namespace, endpoint: &str) -> Result<(), Box<dyn std::error::Error>> {
    let give = |id: &str, secret: &str| {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "mover-console", "labels": {"sherd.dev/bucket-user": "mover"}},
            "stringData": {"CONSOLE_ACCESS_KEY": id, "CONSOLE_SECRET_KEY": secret},
        });
        namespace.apply(&object.to_string())
    };
    namespace.apply(MOVER)?;
    is(namespace, "bucketuser", "mover", "KeyReady", ("False", "SecretMissing")).await?;
    give("mover", "a-secret-of-before")?;
    is(namespace, "bucketuser", "mover", "Ready", ("True", "AsAsked")).await?;
    let with =
        |id: &str, secret: &str| client_with(endpoint, Credentials::new(id, secret, None, None, "e2e"));
    let put = |client: Client| client.put_object().bucket("photos").key("moved").body(vec![1].into()).send();
    put(with("mover", "a-secret-of-before")).await?;
    give("mover-2", "another-secret")?;
    is(namespace, "bucketuser", "mover", "KeyReady", ("True", "Rotating")).await?;
    put(with("mover-2", "another-secret")).await?;
    put(with("mover", "a-secret-of-before")).await?;
    namespace.kubectl(&["delete", "bucketuser", "mover", "--timeout=2m"])?;
    if put(with("mover-2", "another-secret")).await.is_ok() {
        return Err("the key works without its user".into());
    }
    let left = namespace.secret("mover-console").ok_or("the Secret went with its user")?;
    namespace.kubectl(&["delete", "secret", "mover-console"])?;
    if left["CONSOLE_ACCESS_KEY"] == "mover-2" { Ok(()) } else { Err("the Secret was changed".into()) }
}

async fn is(
    namespace: &Namespace,
    kind: &str,
    name: &str,
    condition: &str,
    expected: (&str, &str),
) -> Result<(), String> {
    let look = || match namespace.condition_of(kind, name, condition) {
        Some((status, reason)) if (status.as_str(), reason.as_str()) == expected => Ok(()),
        found => Err(format!("{condition}: {found:?}")),
    };
    wait_for(name, DONE, look).await.map(|_| ())
}

fn patch(namespace: &Namespace, bucket: &str, change: &serde_json::Value) -> CaseResult {
    let change = change.to_string();
    Ok(namespace.kubectl(&["patch", "bucket.sherd.dev", bucket, "--type=merge", "--patch", &change])?)
}

/// The API server judges by the schema.
fn refuses(namespace: &Namespace) -> Result<(), Box<dyn std::error::Error>> {
    for (change, message) in [
        (json!({"spec": {"cluster": {"name": "other"}}}), "spec.cluster is immutable"),
        (json!({"spec": {"name": "other"}}), "spec.name is immutable"),
        (json!({"spec": {"tags": {"sherd.dev/bucket": "a/b"}}}), "sherd.dev/"),
    ] {
        match patch(namespace, "photos", &change) {
            Ok(_) => return Err(format!("{change} is accepted").into()),
            Err(error) if error.to_string().contains(message) => {}
            Err(error) => return Err(format!("{change} is refused otherwise: {error}").into()),
        }
    }
    Ok(())
}

/// Runs the node's own probe in a pod that has the user's Secret as its environment; it ends well, or with
/// these words.
async fn probes(
    namespace: &Namespace,
    tag: &str,
    name: &str,
    bucket: &str,
    refused: Option<&str>,
) -> Result<(), Box<dyn std::error::Error>> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "probe",
                "image": format!("sherd-node:{tag}"),
                "imagePullPolicy": "Never",
                "args": [
                    "probe", "--endpoint", "$(AWS_ENDPOINT_URL)", "--region", "$(AWS_REGION)", "--bucket", bucket,
                ],
                "envFrom": [{"secretRef": {"name": "uploader"}}],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    namespace.apply(&pod.to_string())?;
    let mut phase = String::new();
    wait_for(name, DONE, || {
        let found = namespace.get("pod", name).ok_or("no pod")?;
        found["status"]["phase"].as_str().unwrap_or_default().clone_into(&mut phase);
        if ["Succeeded", "Failed"].contains(&phase.as_str()) { Ok(()) } else { Err(phase.clone()) }
    })
    .await?;
    let said = namespace.kubectl(&["logs", name])?;
    namespace.kubectl(&["delete", "pod", name, "--timeout=2m"])?;
    match refused {
        None if phase == "Succeeded" => Ok(()),
        Some(words) if phase == "Failed" && said.contains(words) => Ok(()),
        _ => Err(format!("{name}: {phase}: {said}").into()),
    }
}

/// A bucket that is not empty keeps its object, a user goes with its Secret, and what is retained stays.
async fn ends(namespace: &Namespace, client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    client.put_object().bucket("ledger").key("kept").body(vec![1].into()).send().await?;
    namespace.kubectl(&["delete", "bucket.sherd.dev", "ledger", "--wait=false"])?;
    is(namespace, "bucket.sherd.dev", "ledger", "DeletionBlocked", ("True", "BucketNotEmpty")).await?;
    client.delete_object().bucket("ledger").key("kept").send().await?;
    namespace.kubectl(&["delete", "bucketuser", "uploader", "--timeout=2m"])?;
    namespace.kubectl(&["delete", "bucket.sherd.dev", "photos", "--timeout=2m"])?;
    wait_for("ledger and the Secret", DONE, || {
        let left = (namespace.get("bucket.sherd.dev", "ledger"), namespace.get("secret", "uploader"));
        if left == (None, None) { Ok(()) } else { Err("they are there".to_owned()) }
    })
    .await?;
    client.head_bucket().bucket("photos").send().await?;
    if client.head_bucket().bucket("ledger").send().await.is_ok() {
        return Err("ledger is there".into());
    }
    Ok(())
}
