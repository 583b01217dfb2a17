//! `kubectl sherd` on the story's cluster, which is healed: its status, a user that comes and goes, logs,
//! and an archive without the values of the cluster's Secrets. Where kubectl finds no such plugin, the case
//! is skipped.

use std::time::Duration;

use sherd_e2e::command::run;
use sherd_e2e::kubernetes::{Namespace, wait_for};

use crate::cases::{CLUSTER, CaseResult};

/// How long the Secret with the certificate of an admin may take.
const ISSUED: Duration = Duration::from_mins(1);
const ADMIN: &str = "demo-admin";
const USER: &str = "e2e-plugin";

pub(crate) async fn looks(namespace: &Namespace) -> CaseResult {
    if run("kubectl-sherd", &["--version"]).is_err() {
        eprintln!("SKIPPED looks_at_it_by_the_plugin: kubectl-sherd is not in PATH; deploy/build makes it");
        return Ok("(skipped)".to_owned());
    }
    let looked = looks_at_all(namespace).await;
    let withdrawn = set_admin(namespace, false);
    namespace.kubectl(&["delete", "secret", ADMIN, "--ignore-not-found"])?;
    let note = looked?;
    withdrawn.map(|()| note)
}

async fn looks_at_all(namespace: &Namespace) -> CaseResult {
    let sherd = |arguments: &[&str]| {
        let namespace = ["--namespace", namespace.name.as_str()];
        run("kubectl", &[&["sherd"], arguments, &namespace].concat())
    };
    // With the certificate of a node, and without the cluster's name: it is the only one.
    let status = sherd(&["status"])?;
    holds(&status, "StorageCluster demo in namespace sherd-e2e: Ready=True ")?;
    holds(&status, "sees it: all healed")?;
    holds(&status, "demo-pool-0-3")?;

    let refused = sherd(&["user", "list"]).err().ok_or("users were listed without an admin")?;
    holds(&refused.to_string(), "adminCertificate")?;
    set_admin(namespace, true)?;
    let is_there = || namespace.secret(ADMIN).map(|_| ()).ok_or_else(|| "no Secret".to_owned());
    wait_for("an admin's certificate", ISSUED, is_there).await?;
    sherd(&["user", "add", USER])?;
    holds(&sherd(&["user", "list", "--cluster", CLUSTER])?, USER)?;
    holds(&sherd(&["user", "why", USER, "s3:GetObject", "photos/a"])?, "no statement allows it")?;
    sherd(&["user", "delete", USER])?;

    let log = sherd(&["logs", CLUSTER, "--node", "0", "--since", "1h"])?;
    let is_prefixed = !log.is_empty() && log.lines().all(|line| line.starts_with("demo-pool-0-0  "));
    if !is_prefixed {
        return Err(format!("the log is {log:.2000}").into());
    }
    holds(&sherd(&["logs", "--operator"])?, "leading")?;

    let folder = std::env::temp_dir().join(format!("sherd-e2e-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let archived = archive(namespace, &folder.join("support.tar.gz").display().to_string());
    std::fs::remove_dir_all(&folder)?;
    archived
}

/// The value of a line of NAME=VALUE.
fn value_behind_name(line: &str) -> &str {
    line.split_once('=').map_or(line, |(_, value)| value)
}

/// Writes an archive and looks for what must be in it, and what must not.
fn archive(namespace: &Namespace, file: &str) -> CaseResult {
    let said = run("kubectl", &["sherd", "support", CLUSTER, "--namespace", &namespace.name, "-o", file])?;
    let text = run("tar", &["--extract", "--to-stdout", "--file", file])?;
    for part in ["all was read", "sees it: all healed", "sherd.toml", "Kubernetes v"] {
        holds(&text, part)?;
    }
    for secret in namespace.names("secret", "sherd.dev/cluster=demo")? {
        for (key, value) in namespace.secret(&secret).unwrap_or_default() {
            let is_secret = key.contains("SECRET") || [".key", ".env"].iter().any(|end| key.ends_with(end));
            let lines = value.lines().filter(|line| !line.starts_with("-----"));
            // credentials.env has NAME=VALUE, and ids are public.
            let lines = lines.filter(|line| !line.contains("KEY_ID"));
            let has_names = key == "credentials.env";
            let value_of = |line| if has_names { value_behind_name(line) } else { line };
            let leaked = lines.map(value_of).any(|part| part.len() > 16 && text.contains(part));
            if is_secret && leaked {
                return Err(format!("the archive has a value of {secret}, {key}").into());
            }
        }
    }
    Ok(format!("({})", said.rsplit_once(": ").map_or(said.as_str(), |(_, count)| count)))
}

fn set_admin(namespace: &Namespace, enabled: bool) -> Result<(), Box<dyn std::error::Error>> {
    let change = format!(r#"{{"spec": {{"adminCertificate": {{"enabled": {enabled}}}}}}}"#);
    namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type", "merge", "--patch", &change])?;
    Ok(())
}

fn holds(text: &str, part: &str) -> Result<(), String> {
    if text.contains(part) { Ok(()) } else { Err(format!("no {part:?} in {text:.4000}")) }
}
