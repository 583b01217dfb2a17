//! Each role may call its methods and no other: nodes those of shards, registers and upkeep, operators and
//! admins orders, all of them the calls that report on a node.
//!
//! The methods are read from the files that define them, so that a new one without roles fails here.

use sherd_net::tls::Role;

use crate::harness::cluster::cluster_of;
use crate::wire::{PERMISSION_DENIED, call};

/// The files that define the services.
const FILES: [&str; 4] = [
    include_str!("../../../proto/sherd/v1/admin.proto"),
    include_str!("../../../proto/sherd/v1/register.proto"),
    include_str!("../../../proto/sherd/v1/shard.proto"),
    include_str!("../../../proto/sherd/v1/upkeep.proto"),
];

/// The roles of a method.
fn roles(service: &str, method: &str) -> &'static [Role] {
    match (service, method) {
        ("RegisterService" | "ShardService" | "UpkeepService", _)
        | ("AdminService", "Form" | "ForgetBucket" | "ForgetIam" | "RevokeKey") => &[Role::Node],
        ("AdminService", "Ping" | "Topology" | "Status") => &Role::ALL,
        ("AdminService", "ReplaceVolume" | "Vouch" | "Call") => &[Role::Operator, Role::Admin],
        other => panic!("no role of this test may call {other:?}"),
    }
}

/// Service and name of each method.
fn methods() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in FILES {
        let mut service = String::new();
        for line in file.lines().map(str::trim) {
            let named = |line: &str| line.split(['(', ' ', '{']).next().map(str::to_owned);
            if let Some(name) = line.strip_prefix("service ").and_then(named) {
                service = name;
            } else if let Some(name) = line.strip_prefix("rpc ").and_then(named) {
                found.push((service.clone(), name));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_is_refused_each_method_that_is_not_its_own() {
    let cluster = cluster_of(1).of_volumes(4).start().await;
    let methods = methods();
    assert!(methods.len() >= 12, "{methods:?}");
    for role in Role::ALL {
        // The node itself is the only one of its role here.
        let name = if role == Role::Node { "n1" } else { "someone" };
        let trust = cluster.pki.trust(name, role);
        for (service, method) in &methods {
            let path = format!("/sherd.v1.{service}/{method}");
            // An empty message has no sender, so that what is allowed is refused for that.
            let answer = call(&trust, cluster.addresses[0], &path, vec![0; 5]).await;
            let answer = answer.unwrap_or_else(|error| panic!("{role} has no answer of {path}: {error}"));
            let is_allowed = roles(service, method).contains(&role);
            assert_eq!(answer.status != PERMISSION_DENIED, is_allowed, "{role} calls {path}: {answer:?}");
            if !is_allowed {
                let named =
                    answer.message.contains(role.as_str()) && answer.message.contains(method.as_str());
                assert!(named, "{role} calls {path}: {answer:?}");
            }
        }
    }
}
