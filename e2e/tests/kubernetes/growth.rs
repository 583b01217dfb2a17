//! Storage of a StorageCluster is raised: a class that does not allow expansion is refused in words, and
//! nothing is touched. Once the class allows it, each claim is asked for more and the StatefulSet is made
//! again around its pods. Nothing resizes the volumes of kind's class: the case writes what a resizer and a
//! kubelet would report. It removes all that it made.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::kubernetes::{Namespace, condition_in, wait_for};

use crate::cases::CaseResult;

const CLUSTER: &str = "growing";
const POD: &str = "growing-pool-0-0";
const SET: &str = "growing-pool-0";
const CLASS: &str = "standard";
const CONDITION: &str = "StorageResizing";
const VOLUMES: usize = 4;
/// How long a cluster may take to be ready, or a change to be seen: generous, for a busy machine.
const DONE: Duration = Duration::from_mins(5);

/// The whole case.
pub(crate) async fn story(namespace: &Namespace) -> CaseResult {
    let ended = grows(namespace).await;
    allow_expansion(&Value::Null)?;
    namespace.kubectl(&["delete", "storagecluster", CLUSTER, "--ignore-not-found"])?;
    namespace.kubectl(&["delete", "service", &format!("{CLUSTER}-e2e"), "--ignore-not-found"])?;
    let selector = format!("sherd.dev/cluster={CLUSTER}");
    namespace.kubectl(&["delete", "persistentvolumeclaims,secrets", "--selector", &selector])?;
    ended
}

async fn grows(namespace: &Namespace) -> CaseResult {
    let cluster = json!({
        "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": CLUSTER},
        "spec": {"pools": [{
            "name": "pool-0", "nodes": 1, "volumesPerNode": VOLUMES,
            "volumeClaimTemplate": {"storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}},
        }]},
    });
    namespace.apply(&cluster.to_string())?;
    wait_for("Ready", DONE, || match namespace.condition(CLUSTER, "Ready") {
        Some((status, _)) if status == "True" => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await?;
    let client = namespace.client(CLUSTER, &namespace.open_s3(CLUSTER)?)?;
    client.create_bucket().bucket("kept").send().await?;
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let body = ByteStream::from(bytes.clone());
    client.put_object().bucket("kept").key("object").body(body).send().await?;

    let before = Children::of(namespace);
    let refused = refuses(namespace, &before).await?;
    let grown = grows_where_allowed(namespace, &before).await?;
    let got = client.get_object().bucket("kept").key("object").send().await?;
    if got.body.collect().await?.into_bytes().as_ref() != bytes.as_slice() {
        return Err("other bytes came back".into());
    }
    Ok(format!(
        "(refused after {:.1} s, asked for after {:.1} s)",
        refused.as_secs_f64(),
        grown.as_secs_f64()
    ))
}

/// Contradictions are refused by the API server, and a class that cannot expand by the operator: nothing of
/// the cluster is touched.
async fn refuses(namespace: &Namespace, before: &Children) -> Result<Duration, Box<dyn std::error::Error>> {
    let class = json!({"op": "replace", "path": "/spec/pools/0/volumeClaimTemplate/storageClassName", "value": "other"});
    for (change, words) in
        [(size("512Mi"), "volumes do not shrink"), (class, "storageClassName is immutable")]
    {
        match patch(namespace, &change) {
            Err(error) if error.to_string().contains(words) => {}
            found => return Err(format!("{change}: {found:?}").into()),
        }
    }
    allow_expansion(&Value::Null)?;
    patch(namespace, &size("2Gi"))?;
    let took = says(namespace, "True", "ResizeRefused", "has not allowVolumeExpansion: true").await?;
    before.are_untouched(&Children::of(namespace))?;
    // The size can be taken back, since no claim has more.
    patch(namespace, &size("1Gi"))?;
    says(namespace, "False", "NotNeeded", "").await?;
    before.are_untouched(&Children::of(namespace))?;
    Ok(took)
}

async fn grows_where_allowed(
    namespace: &Namespace,
    before: &Children,
) -> Result<Duration, Box<dyn std::error::Error>> {
    allow_expansion(&json!(true))?;
    patch(namespace, &size("2Gi"))?;
    let took = says(namespace, "True", "Resizing", "wait for the resizer").await?;
    wait_for("the StatefulSet is made again around its pod", DONE, || {
        let now = Children::of(namespace);
        let owner = now.pod["metadata"]["ownerReferences"][0]["uid"].clone();
        let template =
            &now.set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
        let is_another = uid(&now.set) != uid(&before.set) && owner == now.set["metadata"]["uid"];
        let are_asked = now.requested().iter().all(|size| *size == "2Gi");
        if is_another && are_asked && *template == "2Gi" && uid(&now.set).is_some() {
            Ok(())
        } else {
            Err(format!("{template} {:?} of {owner}", now.requested()))
        }
    })
    .await?;
    let status = json!({"status": {"capacity": {"storage": "2Gi"}}}).to_string();
    for volume in 1..=VOLUMES {
        let claim = claim(volume);
        let status = ["--subresource=status", "--type=merge", "--patch", &status];
        namespace.kubectl(&[&["patch", "persistentvolumeclaim", &claim], &status[..]].concat())?;
    }
    says(namespace, "False", "NotNeeded", "").await?;
    let now = Children::of(namespace);
    let restarts =
        |children: &Children| children.pod["status"]["containerStatuses"][0]["restartCount"].clone();
    if uid(&now.pod) != uid(&before.pod) || restarts(&now) != restarts(before) {
        return Err(format!("the pod was replaced or restarted: {}", now.pod["metadata"]).into());
    }
    let refused = patch(namespace, &size("1Gi")).err().map(|error| error.to_string()).unwrap_or_default();
    if !refused.contains("volumes do not shrink") {
        return Err(format!("less than claims have is not refused: {refused}").into());
    }
    Ok(took)
}

/// The objects of the cluster that a growth concerns.
struct Children {
    set: Value,
    pod: Value,
    claims: Vec<Value>,
}

impl Children {
    fn of(namespace: &Namespace) -> Self {
        let get = |kind: &str, name: &str| namespace.get(kind, name).unwrap_or_default();
        let claims = (1..=VOLUMES).map(|volume| get("persistentvolumeclaim", &claim(volume)));
        Self { set: get("statefulset", SET), pod: get("pod", POD), claims: claims.collect() }
    }

    fn requested(&self) -> Vec<&str> {
        let sizes = self.claims.iter().map(|claim| &claim["spec"]["resources"]["requests"]["storage"]);
        sizes.map(|size| size.as_str().unwrap_or_default()).collect()
    }

    fn are_untouched(&self, now: &Self) -> Result<(), String> {
        let version = |object: &Value| (uid(object), object["metadata"]["generation"].clone());
        let is_same = version(&self.set) == version(&now.set)
            && uid(&self.pod) == uid(&now.pod)
            && self.requested() == now.requested();
        if is_same { Ok(()) } else { Err(format!("touched: {:?} {}", now.requested(), now.set["metadata"])) }
    }
}

fn uid(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().map(str::to_owned)
}

fn claim(volume: usize) -> String {
    format!("v{volume}-{POD}")
}

fn size(size: &str) -> Value {
    let path = "/spec/pools/0/volumeClaimTemplate/resources/requests/storage";
    json!({"op": "replace", "path": path, "value": size})
}

fn patch(namespace: &Namespace, change: &Value) -> Result<String, sherd_e2e::command::CommandError> {
    let change = json!([change]).to_string();
    namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=json", "--patch", &change])
}

/// Lets claims of the class grow, or not.
fn allow_expansion(allows: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let class = json!({"allowVolumeExpansion": allows}).to_string();
    run("kubectl", &["patch", "storageclass", CLASS, "--type=merge", "--patch", &class])?;
    Ok(())
}

/// Waits until the condition has a status, a reason and words, for the specification as it is now.
async fn says(namespace: &Namespace, status: &str, reason: &str, words: &str) -> Result<Duration, String> {
    let look = || {
        let cluster = namespace.get("storagecluster", CLUSTER).unwrap_or_default();
        let found = condition_in(&cluster, CONDITION);
        let is_new = found["observedGeneration"] == cluster["metadata"]["generation"];
        let is_said = found["message"].as_str().is_some_and(|message| message.contains(words));
        if is_new && is_said && found["status"] == status && found["reason"] == reason {
            Ok(())
        } else {
            Err(found.to_string())
        }
    };
    wait_for(&format!("{CONDITION} with {reason}"), DONE, look).await
}
