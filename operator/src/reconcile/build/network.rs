//! Services and the network policy: S3 and IAM for clients, names for the nodes before they are ready, the
//! node port closed to all but nodes and operator, and the admin port to all but scrapers.
//!
//! Probes need no rule: a policy never cuts what comes from the host that a pod runs on, and that is where
//! its kubelet is. A plugin that cuts it nevertheless has `adminCidrs`.

use serde_json::{Value, json};

use super::parts::ChildParts;
use crate::api::GatewayService;
use crate::names::{self, ADMIN_PORT, IAM_PORT, NODE_PORT, S3_PORT};

/// The Service that gives each pod a name, ready or not: nodes must meet to become ready.
pub(super) fn headless_service(parts: &ChildParts<'_>) -> Value {
    json!({"spec": {
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": parts.valid.names().selector(),
        "ports": [
            {"name": "node", "port": NODE_PORT, "targetPort": "node", "protocol": "TCP"},
            {"name": "admin", "port": ADMIN_PORT, "targetPort": "admin", "protocol": "TCP"},
        ],
    }})
}

/// The Service that S3 clients use: nodes that serve.
pub(super) fn s3_service(parts: &ChildParts<'_>) -> Value {
    let service = &parts.valid.cluster().spec.gateway.service;
    let GatewayService {
        service_type,
        annotations,
        load_balancer_class,
        load_balancer_source_ranges,
        external_traffic_policy,
        port: _,
        port_name: _,
        node_port,
    } = service;
    let mut body = json!({"spec": {
        "type": service_type.as_str(),
        "selector": parts.valid.names().selector(),
        "ports": [{
            "name": service.port_name(), "port": service.port(), "targetPort": "s3", "protocol": "TCP",
        }],
    }});
    if parts.material.s3.is_reached_by_tls {
        // Gateways and meshes read it; without it they forward bytes.
        body["spec"]["ports"][0]["appProtocol"] = json!("https");
    }
    if !annotations.is_empty() {
        body["metadata"] = json!({"annotations": annotations});
    }
    if let Some(class) = load_balancer_class {
        body["spec"]["loadBalancerClass"] = json!(class);
    }
    if !load_balancer_source_ranges.is_empty() {
        body["spec"]["loadBalancerSourceRanges"] = json!(load_balancer_source_ranges);
    }
    if let Some(policy) = external_traffic_policy {
        body["spec"]["externalTrafficPolicy"] = json!(policy);
    }
    if let Some(port) = node_port {
        body["spec"]["ports"][0]["nodePort"] = json!(port);
    }
    body
}

/// The Service that clients of IAM use, within the Kubernetes cluster: nodes that serve.
pub(super) fn iam_service(parts: &ChildParts<'_>) -> Value {
    let port = parts.valid.cluster().spec.iam.port();
    let mut port = json!({"name": "iam", "port": port, "targetPort": "iam", "protocol": "TCP"});
    if parts.material.s3.is_reached_by_tls {
        port["appProtocol"] = json!("https");
    }
    json!({"spec": {"type": "ClusterIP", "selector": parts.valid.names().selector(), "ports": [port]}})
}

/// The node port is open to the cluster's nodes, to operators and to the namespace's pods of admins, the
/// admin port to scrapers, S3 and IAM to all.
pub(super) fn policy(parts: &ChildParts<'_>) -> Value {
    let operator = json!({
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": names::OPERATOR_NAME}},
    });
    let nodes = json!({"podSelector": {"matchLabels": parts.valid.names().selector()}});
    let admins = json!({"podSelector": {"matchLabels": {names::ADMIN_LABEL: "true"}}});
    let scrapers =
        json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {names::SCRAPER_LABEL: "true"}}});
    let cidrs = &parts.valid.cluster().spec.network_policy.admin_cidrs;
    let cidrs = cidrs.iter().map(|cidr| json!({"ipBlock": {"cidr": cidr}}));
    let scrapers: Vec<Value> = std::iter::once(scrapers).chain(cidrs).collect();
    let mut open = vec![json!({"port": S3_PORT, "protocol": "TCP"})];
    if parts.valid.cluster().spec.iam.enabled {
        open.push(json!({"port": IAM_PORT, "protocol": "TCP"}));
    }
    json!({"spec": {
        "podSelector": {"matchLabels": parts.valid.names().selector()},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [nodes, operator, admins], "ports": [{"port": NODE_PORT, "protocol": "TCP"}]},
            {"from": scrapers, "ports": [{"port": ADMIN_PORT, "protocol": "TCP"}]},
            {"ports": open},
        ],
    }})
}
