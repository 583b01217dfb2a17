//! The operator is upgraded under load, with the chart's definitions: the nodes' pods stay, the cluster is
//! Ready all the time and no request fails. Then `upgrade.followOperator` replaces the pods by those of the
//! new operator.
//!
//! The story installs the older operator where this case is asked for: the images of SHERD_E2E_OLD_TAG by the
//! chart in SHERD_E2E_OLD_CHART, or by today's. `e2e/run` makes the images of SHERD_E2E_OLD_BINARIES, or of
//! today's programs: another tag is another default image, which is enough for other pods.

use aws_sdk_s3::Client;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, wait_for};

use crate::cases::{CaseResult, OPERATORS, own_chart};
use crate::rollouts::{PODS, ROLLED, WRITES_AROUND, finish, pods, ready, rests, rollout, same, stayed};
use crate::watched::Watched;

const CLUSTER: &str = "demo";
const READY: &str = r#"{.status.conditions[?(@.type=="Ready")].status}"#;

/// An older release of the operator.
pub(crate) struct OlderRelease {
    pub(crate) tag: String,
    /// The folder of its chart.
    pub(crate) chart: String,
}

impl OlderRelease {
    /// The one that the environment names.
    pub(crate) fn from_environment() -> Option<Self> {
        let named = |variable| std::env::var(variable).ok().filter(|value| !value.is_empty());
        let chart = named("SHERD_E2E_OLD_CHART").unwrap_or_else(own_chart);
        Some(Self { tag: named("SHERD_E2E_OLD_TAG")?, chart })
    }
}

/// Upgrades it.
pub(crate) async fn upgrade(namespace: &Namespace, client: &Client, tag: &str) -> CaseResult {
    client.create_bucket().bucket("upgraded").send().await?;
    let load = Load::start(client, "upgraded", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = pods(namespace)?;
    let mut is_ready = Watched::start(namespace, ["storagecluster", CLUSTER], READY)?;

    let chart = own_chart();
    let image = format!("image.tag={tag}");
    let mut upgrade = vec!["upgrade", "sherd", chart.as_str(), "--namespace", namespace.name.as_str()];
    upgrade.extend(["--reset-then-reuse-values", "--set", image.as_str(), "--wait"]);
    run("helm", &upgrade)?;
    wait_for("the new operator leads", ROLLED, || leads(namespace, tag)).await?;
    // The operator has looked at the cluster once it has put a child back.
    namespace.kubectl(&["delete", "networkpolicy", "demo-node"])?;
    let look = || namespace.get("networkpolicy", "demo-node").map(|_| ()).ok_or("it is not back".to_owned());
    let works = wait_for("the new operator works", ROLLED, look).await;
    load.goes_on_for(WRITES_AROUND).await?;
    let now = pods(namespace)?;
    works?;
    stayed(&before, &now).map_err(|error| format!("the upgrade of the operator: {error}"))?;
    rests(namespace)?;
    stays_ready(&mut is_ready)?;

    follow(namespace, &json!(true))?;
    let mut most_away = 0;
    let look = || {
        let now = pods(namespace)?;
        most_away = most_away.max(before.len().saturating_sub(ready(&now)));
        match same(&before, &now) {
            0 => rests(namespace),
            kept => Err(format!("{kept} pods are not replaced: {}", rollout(namespace)["message"])),
        }
    };
    let taken = wait_for("the pods follow the operator", ROLLED, look).await;
    load.goes_on_for(WRITES_AROUND).await?;
    let note = finish(load, client, "upgraded").await?;
    let taken = taken?;
    stays_ready(&mut is_ready)?;
    follow(namespace, &Value::Null)?;
    if most_away > 1 {
        return Err(format!("{most_away} pods were away at one time").into());
    }
    let images = node_images(namespace)?;
    if !images.iter().all(|image| image.ends_with(&format!(":{tag}"))) {
        return Err(format!("the pods run {images:?}").into());
    }
    Ok(format!("({} pods followed in {:.0} s, {note})", before.len(), taken.as_secs_f64()))
}

fn follow(namespace: &Namespace, value: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let patch = json!({"spec": {"upgrade": {"followOperator": value}}}).to_string();
    namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])?;
    Ok(())
}

/// Every operator runs the new image, and one of them holds the lease.
fn leads(namespace: &Namespace, tag: &str) -> Result<(), String> {
    let template = r#"{range .items[*]}{.metadata.name} {.spec.containers[0].image}{"\n"}{end}"#;
    let output = format!("--output=jsonpath={template}");
    let found = namespace.kubectl(&["get", "pods", "--selector", OPERATORS, &output]);
    let found = found.map_err(|error| error.to_string())?;
    let lease = namespace.get("lease", "sherd-operator").unwrap_or_default();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let operators: Vec<(&str, &str)> = found.lines().filter_map(|line| line.split_once(' ')).collect();
    let are_new = operators.iter().all(|(_, image)| image.ends_with(&format!(":{tag}")));
    let is_led = operators.iter().any(|(pod, _)| holder.starts_with(pod));
    if are_new && is_led { Ok(()) } else { Err(format!("{operators:?}, the lease is held by {holder:?}")) }
}

fn node_images(namespace: &Namespace) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let output = r#"--output=jsonpath={range .items[*]}{.spec.containers[0].image}{"\n"}{end}"#;
    let found = namespace.kubectl(&["get", "pods", "--selector", PODS, output])?;
    Ok(found.lines().map(str::to_owned).collect())
}

fn stays_ready(watched: &mut Watched) -> Result<(), String> {
    let news = watched.news()?;
    match news.iter().find(|status| *status != "True") {
        Some(status) => Err(format!("Ready was {status:?} meanwhile: {news:?}")),
        None => Ok(()),
    }
}
