//! The example for one host, by an operator of its own in a namespace of its own: Ready, and an object that
//! comes back with its bytes. All that it made is removed afterwards, with its claims.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use sherd_e2e::command::run;
use sherd_e2e::kubernetes::{Namespace, wait_for};

use crate::cases::{CaseResult, root};

const NAMESPACE: &str = "sherd-one-host";
const CLUSTER: &str = "demo";
/// How long the node may take to be ready, on a machine that builds meanwhile.
const READY: Duration = Duration::from_mins(5);

pub(crate) async fn keeps_an_object(tag: &str) -> CaseResult {
    let namespace = Namespace { name: NAMESPACE.to_owned() };
    let kept = keeps(&namespace, tag).await;
    let removed = remove(&namespace);
    let note = kept?;
    removed.map(|()| note)
}

async fn keeps(namespace: &Namespace, tag: &str) -> CaseResult {
    let chart = root().join("charts/sherd").display().to_string();
    let tag = format!("image.tag={tag}");
    let mut install =
        vec!["install", "sherd", chart.as_str(), "--namespace", NAMESPACE, "--create-namespace"];
    // The story's own release has the resource definitions.
    install.extend(["--set", tag.as_str(), "--set", "crds.install=false", "--wait"]);
    run("helm", &install)?;
    run("kubectl", &["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"])?;
    let example = root().join("deploy/examples/one-host.yaml");
    namespace.apply(&std::fs::read_to_string(example)?)?;
    let look = || match namespace.condition(CLUSTER, "Ready") {
        Some((status, _)) if status == "True" => Ok(()),
        found => Err(format!("Ready: {found:?}")),
    };
    let took = wait_for("Ready", READY, look).await?;
    let claims = namespace.names("persistentvolumeclaim", "sherd.dev/cluster=demo")?;
    if claims.len() != 4 {
        return Err(format!("there are the claims {claims:?}").into());
    }
    let status = [
        "exec",
        "demo-pool-0-0",
        "--",
        "/sherd-node",
        "status",
        "--endpoint",
        "demo-pool-0-0.demo-nodes:9100",
        "--ca",
        "/certs/ca.crt",
        "--cert",
        "/certs/demo-pool-0-0.crt",
        "--key",
        "/certs/demo-pool-0-0.key",
    ];
    // The command ends with an error while a volume is not healed; a cluster is Ready before, once it serves.
    let look = || {
        let status = namespace.kubectl(&status).map_err(|error| error.to_string())?;
        let is_named = status.contains("demo-pool-0-0");
        if is_named { Ok(()) } else { Err(format!("the status does not name the node: {status}")) }
    };
    wait_for("the node's own status", READY, look).await?;
    let endpoint = namespace.open_s3(CLUSTER)?;
    let client = namespace.client(CLUSTER, &endpoint)?;
    client.create_bucket().bucket("one-host").send().await?;
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let body = ByteStream::from(bytes.clone());
    client.put_object().bucket("one-host").key("object").body(body).send().await?;
    let got = client.get_object().bucket("one-host").key("object").send().await?;
    if got.body.collect().await?.into_bytes().as_ref() != bytes.as_slice() {
        return Err("other bytes came back".into());
    }
    Ok(format!("(Ready after {:.1} s)", took.as_secs_f64()))
}

/// The namespace takes its claims with it, and the storage class their volumes.
fn remove(namespace: &Namespace) -> Result<(), Box<dyn std::error::Error>> {
    if namespace.get("storagecluster", CLUSTER).is_some() {
        namespace.kubectl(&["delete", "storagecluster", CLUSTER, "--wait", "--timeout=2m"])?;
    }
    run("helm", &["uninstall", "sherd", "--namespace", NAMESPACE, "--ignore-not-found", "--wait"])?;
    run("kubectl", &["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait", "--timeout=5m"])?;
    Ok(())
}
