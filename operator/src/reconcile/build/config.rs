//! The nodes' `sherd.toml`: the same bytes for every node. Names, certificates and credentials, which
//! differ or are secret, come to a node as environment; what running nodes take is a file of its own.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;

use super::parts::ChildParts;
use super::s3_tls;
use crate::api::{AuditLog, NodeSettings};
use crate::names;
use crate::reconcile::formed::formed_line;

/// Renders the configuration of the pool's nodes.
pub(super) fn toml(parts: &ChildParts<'_>) -> String {
    let ChildParts { valid, plan: _, material } = parts;
    let (cluster, names, pool) = (valid.cluster(), valid.names(), valid.pool());
    let settings = &cluster.spec.config;
    let mut text =
        String::from("# Made by sherd-operator from the StorageCluster; changes here are undone.\n");
    let volumes = pool.volumes_per_node;
    let paths = if volumes == 1 { "/data/v1".to_owned() } else { format!("/data/v{{1...{volumes}}}") };
    set(&mut text, "volumes", &paths);
    if let Some(erasure) = pool.erasure {
        let _ = writeln!(text, "parity = {}", erasure.parity);
    }
    set(&mut text, "listen", &format!("[::]:{}", names::S3_PORT));
    set(&mut text, "admin_listen", &format!("[::]:{}", names::ADMIN_PORT));
    set(&mut text, "node_listen", &format!("[::]:{}", names::NODE_PORT));
    if cluster.spec.iam.enabled {
        set(&mut text, "iam_listen", &format!("[::]:{}", names::IAM_PORT));
    }
    if let Some(AuditLog::StandardOutput) = settings.audit_log {
        set(&mut text, "audit_log", "-");
    }
    if !settings.trusted_proxies.is_empty() {
        let _ = writeln!(text, "trusted_proxies = {}", serde_json::json!(settings.trusted_proxies));
    }
    // Until the endpoints of the Services follow.
    set(&mut text, "shutdown_delay", "5s");
    let domains: Vec<String> = cluster.spec.gateway.all_domains().into_iter().map(quoted).collect();
    if !domains.is_empty() {
        let _ = writeln!(text, "domains = [{}]", domains.join(", "));
    }
    let root = [
        ("region", &settings.region),
        ("inline_max", &settings.inline_max),
        ("pack_max", &settings.pack_max),
        ("buffer_cap", &settings.buffer_cap),
        ("index_cache", &settings.index_cache),
    ];
    set_some(&mut text, root);

    text.push_str("\n[cluster]\n");
    set(&mut text, "id", &material.cluster.to_string());
    set(&mut text, "name", &names.cluster);
    text.push_str("nodes = [\n");
    for pod in names.pods(&pool.name, pool.nodes) {
        let _ = writeln!(text, "    {},", quoted(&format!("{pod}@{}", names.node_address(&pod))));
    }
    text.push_str("]\n");
    if let Some(erasure) = pool.erasure {
        let _ = writeln!(text, "set_size = {}", erasure.set_size);
    }
    set(&mut text, "ca", "/certs/ca.crt");

    if s3_tls::is_served(parts) {
        text.push_str("\n[tls]\n");
        set(&mut text, "cert", &format!("{}/{}", s3_tls::FOLDER, names::TLS_CERTIFICATE));
        set(&mut text, "key", &format!("{}/{}", s3_tls::FOLDER, names::TLS_KEY));
    }
    text.push_str("\n[log]\nformat = \"json\"\n");
    text
}

/// Renders the settings that running nodes take from their live file, and the cluster that was formed before.
pub(super) fn live_toml(settings: &NodeSettings, formed: Option<ClusterId>) -> String {
    let mut text = String::from(
        "# Made by sherd-operator from the StorageCluster; changes here are undone. Nodes take it as they run.\n",
    );
    if let Some(cluster) = formed {
        let _ = writeln!(text, "\n[cluster]\n{}", formed_line(cluster));
    }
    text.push_str("\n[limits]\n");
    let limits = [
        ("connections_max", settings.connections_max),
        ("requests_max", settings.requests_max),
        ("queue_max", settings.queue_max),
    ];
    for (key, value) in limits {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    let limits = [("idle_timeout", &settings.idle_timeout), ("stall_timeout", &settings.stall_timeout)];
    set_some(&mut text, limits);
    text.push_str("\n[upkeep]\n");
    let upkeep = [
        ("release_grace", &settings.release_grace),
        ("scrub_period", &settings.scrub_period),
        ("heal_bandwidth", &settings.heal_bandwidth),
        ("adopt_after", &settings.adopt_after),
    ];
    set_some(&mut text, upkeep);
    text.push_str("\n[log]\n");
    set_some(&mut text, [("level", &settings.log_level), ("slow_request", &settings.slow_request)]);
    text
}

/// The digest that names a configuration.
pub(super) fn digest(toml: &str) -> String {
    hex::encode(Sha256::digest(toml)).chars().take(16).collect()
}

fn set_some<const N: usize>(text: &mut String, values: [(&str, &Option<String>); N]) {
    for (key, value) in values {
        if let Some(value) = value {
            set(text, key, value);
        }
    }
}

fn set(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {}", quoted(value));
}

/// A basic string of TOML, which escapes as JSON does.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}
