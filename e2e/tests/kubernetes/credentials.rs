//! The root credentials are replaced under load by the steps of docs/operations/kubernetes.md: the new pair
//! is added to the user's Secret, clients go over once every node accepts both, and the former pair is taken
//! out and refused. No pod restarts and no request fails. Afterwards the operator's own pair is in force.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Credentials;
use aws_sdk_s3::error::ProvideErrorMetadata as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, client_with, wait_for};

use crate::cases::CaseResult;
use crate::rollouts::{PODS, ROLLED, WRITES_AROUND, finish, pods, rests, stayed};
use crate::watched::Watched;

const CLUSTER: &str = "demo";
/// The user's Secret.
const SECRET: &str = "own-credentials";
const REASON: &str = r#"{.status.conditions[?(@.type=="CredentialsReady")].reason}"#;
/// How long the nodes may take to load other pairs: kubelets bring them within two minutes.
const LOADED: Duration = Duration::from_mins(5);
/// Connections by which a pair is refused: enough for each of four nodes to get one of them.
const CONNECTIONS: usize = 40;

/// Replaces the operator's pair by another one, and goes back to it.
pub(crate) async fn replace_under_load(namespace: &Namespace, client: &Client, endpoint: &str) -> CaseResult {
    let former = namespace.root_credentials(CLUSTER)?;
    let next = Credentials::new("E2ENEXTPAIR", "the-secret-of-the-next-pair", None, None, "e2e");
    let replaced = replace(namespace, endpoint, (client, &former), &next).await;
    // Other cases have clients with the operator's pair.
    let mut reasons = Watched::start(namespace, ["storagecluster", CLUSTER], REASON)?;
    name_secret(namespace, &Value::Null)?;
    let back = loads(&mut reasons, "Generated").await;
    let (note, back) = (replaced?, back?);
    namespace.kubectl(&["delete", "secret", SECRET])?;
    client.list_buckets().send().await?;
    Ok(format!("({note}; back after {:.0} s)", back.as_secs_f64()))
}

async fn replace(
    namespace: &Namespace,
    endpoint: &str,
    (client, former): (&Client, &Credentials),
    next: &Credentials,
) -> CaseResult {
    has_no_pair_in_its_environment(namespace)?;
    wait_for("the pods stay", ROLLED, || rests(namespace)).await?;
    let before = pods(namespace)?;
    client.create_bucket().bucket("former-pair").send().await?;
    client.create_bucket().bucket("next-pair").send().await?;
    let first = Load::start(client, "former-pair", 4);
    first.goes_on_for(WRITES_AROUND).await?;

    write(namespace, former, None)?;
    name_secret(namespace, &json!({"secretRef": {"name": SECRET}}))?;
    let look = || match namespace.condition(CLUSTER, "CredentialsReady") {
        Some((status, reason)) if status == "True" && reason == "Provided" => Ok(()),
        found => Err(format!("CredentialsReady: {found:?}")),
    };
    wait_for("the Secret is taken", LOADED, look).await?;
    let mut reasons = Watched::start(namespace, ["storagecluster", CLUSTER], REASON)?;
    write(namespace, former, Some(next))?;
    let added = loads(&mut reasons, "Provided").await?;

    let moved = client_with(endpoint, next.clone());
    let second = Load::start(&moved, "next-pair", 4);
    second.goes_on_for(WRITES_AROUND).await?;
    first.goes_on_for(WRITES_AROUND).await?;
    let of_former = finish(first, &moved, "former-pair").await?;

    write(namespace, next, None)?;
    let taken = loads(&mut reasons, "Provided").await;
    second.goes_on_for(WRITES_AROUND).await?;
    let of_next = finish(second, &moved, "next-pair").await?;
    let taken = taken?;
    is_refused(endpoint, former, "InvalidAccessKeyId").await?;
    let mixed = Credentials::new(next.access_key_id(), former.secret_access_key(), None, None, "e2e");
    is_refused(endpoint, &mixed, "SignatureDoesNotMatch").await?;

    stayed(&before, &pods(namespace)?)?;
    Ok(format!(
        "added after {:.0} s, taken out after {:.0} s, {of_former}, {of_next}",
        added.as_secs_f64(),
        taken.as_secs_f64()
    ))
}

/// Writes the user's Secret.
fn write(
    namespace: &Namespace,
    pair: &Credentials,
    secondary: Option<&Credentials>,
) -> Result<(), Box<dyn std::error::Error>> {
    let of = |id: &'static str, secret: &'static str, pair: &Credentials| {
        [(id, pair.access_key_id().to_owned()), (secret, pair.secret_access_key().to_owned())]
    };
    let first = of("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", pair);
    let second =
        secondary.map(|pair| of("AWS_ACCESS_KEY_ID_SECONDARY", "AWS_SECRET_ACCESS_KEY_SECONDARY", pair));
    let texts = first.into_iter().chain(second.into_iter().flatten());
    // As bytes: a text that is left out of `stringData` would stay.
    let data: Map<String, Value> =
        texts.map(|(key, text)| (key.to_owned(), json!(STANDARD.encode(text)))).collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": SECRET}, "data": data,
    });
    namespace.apply(&secret.to_string())?;
    Ok(())
}

fn name_secret(namespace: &Namespace, credentials: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let patch = json!({"spec": {"credentials": credentials}}).to_string();
    namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])?;
    Ok(())
}

/// Waits until the condition has said that nodes load other pairs, and then that all of them have.
async fn loads(reasons: &mut Watched, loaded: &str) -> Result<Duration, String> {
    let (mut is_loading, mut last) = (false, String::new());
    let look = || {
        for reason in reasons.news()? {
            is_loading |= reason == "LoadingCredentials";
            last = reason;
        }
        if is_loading && last == loaded { Ok(()) } else { Err(format!("{is_loading} {last}")) }
    };
    wait_for("every node accepts what the Secret says", LOADED, look).await
}

/// Every node refuses a pair, by this code.
async fn is_refused(
    endpoint: &str,
    pair: &Credentials,
    code: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..CONNECTIONS {
        let answer = client_with(endpoint, pair.clone()).list_buckets().send().await;
        let Err(refusal) = answer else { return Err("a pair that was taken out is accepted".into()) };
        let status = refusal.raw_response().map(|response| response.status().as_u16());
        if status != Some(403) || refusal.code() != Some(code) {
            return Err(format!("refused with {status:?} {:?} instead of {code}", refusal.code()).into());
        }
    }
    Ok(())
}

/// A pair in the environment would need another pod for each change.
fn has_no_pair_in_its_environment(namespace: &Namespace) -> Result<(), Box<dyn std::error::Error>> {
    let listed = namespace.kubectl(&["get", "pods", "--selector", PODS, "--output", "json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    let containers = listed["items"].as_array().into_iter().flatten();
    for container in containers.flat_map(|pod| pod["spec"]["containers"].as_array().into_iter().flatten()) {
        let variables = container["env"].as_array().into_iter().flatten();
        let names: Vec<&str> = variables.filter_map(|variable| variable["name"].as_str()).collect();
        let has_pair =
            names.iter().any(|name| name.ends_with("ACCESS_KEY_ID") || name.ends_with("ACCESS_KEY"));
        if has_pair || !container["envFrom"].is_null() || !names.contains(&"SHERD_CREDENTIALS_FILE") {
            return Err(format!("the pods have the variables {names:?}, {}", container["envFrom"]).into());
        }
    }
    Ok(())
}
