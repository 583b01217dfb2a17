//! The StatefulSet of a pool and its disruption budget. Pods start all at once (`Parallel`: nodes wait
//! for each other), and the operator chooses which is replaced when (`OnDelete`).

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::certificates::{self, OwnFiles};
use super::parts::ChildParts;
use super::place::place;
use super::s3_tls;
use crate::api::PodSecurityContext;
use crate::names::{self, ADMIN_PORT, IAM_PORT, NODE_PORT, S3_PORT};
use crate::reconcile::node_memory::NodeMemory;
use crate::reconcile::platform::PodUsers;
use crate::reconcile::validate::ValidCluster;

/// The user of the node's process; the image has no other.
const USER: i64 = 65532;
/// 5 s until endpoints follow, 30 s for requests under way, and what a slow disk takes.
const TERMINATION_SECONDS: u32 = 90;

/// How many ready pods may be evicted depends on what is healed; one that is not ready always may.
pub(super) fn disruption_budget(valid: &ValidCluster<'_>, spare: u8) -> Value {
    json!({"spec": {
        "maxUnavailable": spare,
        "selector": {"matchLabels": selector(valid)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }})
}

pub(super) fn stateful_set(parts: &ChildParts<'_>, config: &str) -> Value {
    let pool = parts.valid.pool();
    let claims: Vec<Value> = (1..=pool.volumes_per_node).map(|volume| claim(parts, volume)).collect();
    json!({"spec": {
        "serviceName": parts.valid.names().headless_service(),
        "replicas": pool.nodes,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": selector(parts.valid)},
        "template": template(parts, config),
        "volumeClaimTemplates": claims,
    }})
}

fn selector(valid: &ValidCluster<'_>) -> Value {
    let mut selector = valid.names().selector();
    selector.insert(names::POOL_LABEL.to_owned(), valid.pool().name.clone());
    json!(selector)
}

fn claim(parts: &ChildParts<'_>, volume: i32) -> Value {
    let template = &parts.valid.pool().volume_claim_template;
    let mut labels = parts.pool_labels();
    labels.remove(names::INSTANCE_LABEL);
    labels.insert(names::CLUSTER_ID_LABEL.to_owned(), parts.material.cluster.to_string());
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("v{volume}"), "labels": labels, "annotations": names::kept_annotations()},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": template.resources.requests.storage}},
        },
    });
    if let Some(class) = &template.storage_class_name {
        claim["spec"]["storageClassName"] = json!(class);
    }
    claim
}

fn template(parts: &ChildParts<'_>, config: &str) -> Value {
    let pool = parts.valid.pool();
    let mut labels = pool.pod_labels.clone();
    labels.extend(parts.pool_labels());
    let mut annotations = pool.pod_annotations.clone();
    annotations.insert(names::CONFIG_ANNOTATION.to_owned(), config.to_owned());
    if certificates::are_apart(parts) {
        let digest = parts.material.certificates_digest.clone();
        annotations.insert(names::CERTIFICATES_ANNOTATION.to_owned(), digest);
    }
    if let Some(restart) = parts.valid.cluster().annotations().get(names::RESTART_ANNOTATION) {
        annotations.insert(names::RESTART_ANNOTATION.to_owned(), restart.clone());
    }
    let mut volumes =
        vec![json!({"name": "config", "configMap": {"name": parts.valid.names().config(config)}})];
    // The kubelet follows a folder. Nodes do without the file, so that a pod need not wait for it.
    let live = json!({"name": parts.valid.names().live(), "optional": true});
    volumes.push(json!({"name": "live", "configMap": live}));
    volumes.extend(certificates::volumes(parts));
    let master_key = json!({"secretName": parts.valid.names().master_key(), "defaultMode": 0o440});
    volumes.push(json!({"name": "master-key", "secret": master_key}));
    let credentials = json!({
        "secretName": parts.valid.names().node_credentials(),
        "defaultMode": 0o440,
        "items": [{"key": names::NODE_CREDENTIALS, "path": names::NODE_CREDENTIALS}],
    });
    volumes.push(json!({"name": "credentials", "secret": credentials}));
    volumes.extend(s3_tls::volume(parts));
    volumes.extend(s3_tls::further_volume(parts));
    let mut spec = json!({
        "serviceAccountName": parts.valid.names().node(),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
        "securityContext": security(parts),
        "containers": [container(parts)],
        "volumes": volumes,
    });
    place(parts, &selector(parts.valid), &mut spec);
    if !parts.plan.pull_secrets.is_empty() {
        let secrets: Vec<Value> = parts.plan.pull_secrets.iter().map(|name| json!({"name": name})).collect();
        spec["imagePullSecrets"] = json!(secrets);
    }
    json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})
}

/// The user and groups are the pool's, where it has the field; else the image's, unless the namespace gives
/// them.
fn security(parts: &ChildParts<'_>) -> Value {
    let own = PodSecurityContext { run_as_user: Some(USER), run_as_group: Some(USER), fs_group: Some(USER) };
    let fallback = match parts.plan.users {
        PodUsers::Named => own,
        PodUsers::Given => PodSecurityContext::default(),
    };
    let mut context = json!(parts.valid.pool().pod_security_context.unwrap_or(fallback));
    context["runAsNonRoot"] = json!(true);
    context["fsGroupChangePolicy"] = json!("OnRootMismatch");
    context["seccompProfile"] = json!({"type": "RuntimeDefault"});
    context
}

fn container(parts: &ChildParts<'_>) -> Value {
    let pool = parts.valid.pool();
    let mut mounts = vec![json!({"name": "config", "mountPath": "/etc/sherd", "readOnly": true})];
    mounts.push(json!({"name": "live", "mountPath": "/etc/sherd-live", "readOnly": true}));
    mounts.extend(certificates::mounts(parts));
    mounts.push(json!({"name": "master-key", "mountPath": "/master-key", "readOnly": true}));
    // The credentials are mounted as a folder: a mount of one file of it would not follow the Secret.
    mounts.push(json!({"name": "credentials", "mountPath": "/credentials", "readOnly": true}));
    mounts.extend(s3_tls::mount(parts));
    mounts.extend(s3_tls::further_mount(parts));
    let volumes = 1..=pool.volumes_per_node;
    mounts.extend(
        volumes.map(|volume| json!({"name": format!("v{volume}"), "mountPath": format!("/data/v{volume}")})),
    );
    let mut container = json!({
        "name": "node",
        "image": parts.plan.image.to_string(),
        "imagePullPolicy": parts.plan.pull_policy.as_str(),
        "args": ["serve", "--config", "/etc/sherd/sherd.toml"],
        "env": environment(parts),
        "ports": [
            {"name": "s3", "containerPort": S3_PORT, "protocol": "TCP"},
            {"name": "node", "containerPort": NODE_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        // The last lines of the log tell the operator why a container ended.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    });
    if parts.valid.cluster().spec.iam.enabled
        && let Some(ports) = container["ports"].as_array_mut()
    {
        ports.push(json!({"name": "iam", "containerPort": IAM_PORT, "protocol": "TCP"}));
    }
    for (name, probe) in probes() {
        container[name] = probe;
    }
    container["resources"] = json!(resources(parts));
    container
}

/// The resources of the pool, where it names some, or else requests by the node's memory. Empty resources
/// count as absent, as they do among the inputs of the template.
fn resources(parts: &ChildParts<'_>) -> ResourceRequirements {
    let pool = parts.valid.pool();
    let is_given = |given: &&ResourceRequirements| {
        let ResourceRequirements { claims, limits, requests } = given;
        let quantities = [limits, requests];
        claims.as_ref().is_some_and(|claims| !claims.is_empty())
            || quantities.into_iter().flatten().any(|quantities| !quantities.is_empty())
    };
    let given = pool.resources.as_ref().filter(is_given).cloned();
    given.unwrap_or_else(|| NodeMemory::of(&parts.valid.cluster().spec.config, pool).requests())
}

fn environment(parts: &ChildParts<'_>) -> Value {
    let OwnFiles { certificate, key } = certificates::own_files(parts);
    let mut variables = vec![
        json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}),
        json!({"name": "SHERD_CLUSTER_NODE", "value": "$(POD_NAME)"}),
        json!({"name": "SHERD_CLUSTER_CERT", "value": certificate}),
        json!({"name": "SHERD_CLUSTER_KEY", "value": key}),
        // The master key's path is a variable and not in the file, which a node of an older build reads, too,
        // when its container is started again: it would refuse a key of the configuration that it does not
        // have.
        json!({"name": "SHERD_MASTER_KEY_FILE", "value": format!("/master-key/{}", names::MASTER_KEY)}),
        // A node follows its file: other credentials restart no pod.
        json!({"name": "SHERD_CREDENTIALS_FILE", "value": format!("/credentials/{}", names::NODE_CREDENTIALS)}),
        json!({"name": names::LIVE_CONFIG_VARIABLE, "value": format!("/etc/sherd-live/{}", names::LIVE_CONFIG)}),
    ];
    variables.extend(s3_tls::further_variable(parts));
    variables.extend(parts.valid.pool().extra_env.iter().map(|variable| json!(variable)));
    Value::Array(variables)
}

/// A start may replay and rebuild for half an hour; after it, a process that does not answer for a
/// minute is ended, and one that does not serve gets no requests within four seconds.
fn probes() -> Map<String, Value> {
    let probe = |path: &str, period: u32, failures: u32| {
        json!({
            "httpGet": {"path": path, "port": "admin", "scheme": "HTTP"},
            "periodSeconds": period,
            "timeoutSeconds": 2,
            "failureThreshold": failures,
            "successThreshold": 1,
        })
    };
    let probes = [
        ("startupProbe", probe("/health/live", 2, 900)),
        ("livenessProbe", probe("/health/live", 10, 6)),
        ("readinessProbe", probe("/health/serving", 2, 2)),
    ];
    probes.into_iter().map(|(name, probe)| (name.to_owned(), probe)).collect()
}
