//! Children as they are applied, compared with files that people read: a difference is a change of every
//! running cluster. Each child must also be of its kind, with no field that Kubernetes does not have.
//!
//! `SHERD_BLESS=1 cargo test -p sherd-operator --test operator build_golden` renews the files.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use sherd_core::id::ClusterId;
use sherd_operator::api::{StorageCluster, TlsMode};
use sherd_operator::names::Names;
use sherd_operator::reconcile::build::{children, disruption_budget};
use sherd_operator::reconcile::children::{Child, child_names};
use sherd_operator::reconcile::image::ImageName;
use sherd_operator::reconcile::material::{AdminCertificate, Material};
use sherd_operator::reconcile::observe::ObservedCluster;
use sherd_operator::reconcile::plan::{CredentialsPlan, plan};
use sherd_operator::reconcile::platform::PodUsers;
use sherd_operator::reconcile::s3_tls::{S3KeyPair, S3Material, S3Serving};
use sherd_operator::reconcile::validate::validate;
use sherd_operator::rotation::{AuthorityRecord, KeyedAuthority, RotationState};
use sherd_operator::secret_text::{AcceptedCredentials, MasterKey, RootCredentials, SecretText};

pub(crate) fn minimal() -> Value {
    json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "StorageCluster",
        "metadata": {"name": "demo", "namespace": "storage", "uid": "0b5e1c9e-0000-4000-8000-000000000000"},
        "spec": {"pools": [{
            "name": "pool-0",
            "nodes": 3,
            "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
        }]},
    })
}

/// Everything that a specification may say.
fn full() -> Value {
    let mut cluster = minimal();
    cluster["spec"] = json!({
        "image": {
            "repository": "registry.example.com/sherd-node",
            "tag": "v1",
            "pullPolicy": "Always",
            "pullSecrets": [{"name": "registry"}],
            "architectures": ["amd64", "arm64"],
        },
        "adminCertificate": {"enabled": true},
        "pools": [{
            "name": "pool-0",
            "nodes": 2,
            "volumesPerNode": 4,
            "erasure": {"setSize": 8, "parity": 4},
            "volumeClaimTemplate": {
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "100Gi"}},
            },
            "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
            "podSecurityContext": {"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 1002},
            "nodeSelector": {"storage": "yes"},
            "tolerations": [{"key": "storage", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}],
            }}},
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
            }],
            "priorityClassName": "high",
            "podAnnotations": {"a": "b"},
            "podLabels": {"team": "storage", "sherd.dev/cluster": "not this one"},
            "extraEnv": [{"name": "SHERD_LIMITS_REQUESTS_MAX", "value": "1024"}],
        }],
        "credentials": {"secretRef": {"name": "mine"}},
        "gateway": {
            "service": {
                "type": "LoadBalancer",
                "annotations": {"example.com/internal": "true"},
                "loadBalancerClass": "example.com/internal",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "externalTrafficPolicy": "Local",
                "port": 443,
                "portName": "https",
                "nodePort": 30090,
            },
            "domain": "s3.example.com",
        },
        "tls": {"mode": "Operator", "extraNames": ["10.0.0.7"]},
        "iam": {"enabled": true, "port": 443},
        "config": {
            "auditLog": "StandardOutput",
            "trustedProxies": ["10.0.0.0/8", "fd00::1"],
            "region": "eu-west-1",
            "inlineMax": "16KiB",
            "packMax": "128KiB",
            "bufferCap": "1GiB",
            "indexCache": "64MiB",
            "healBandwidth": "128MiB",
            "scrubPeriod": "14days",
            "logLevel": "info,sherd_store::upkeep=debug",
        },
        "networkPolicy": {"enabled": false},
    });
    cluster
}

pub(crate) fn built(document: Value, secrets: &ObservedCluster) -> Vec<Child> {
    let cluster: StorageCluster = serde_json::from_value(document).expect("of the right form");
    let valid = validate(&cluster).expect("valid");
    let fallback = ImageName::tagged("sherd-node", "0.1.0");
    let plan = plan(&valid, secrets, &fallback).expect("not blocked");
    let certificates: BTreeMap<String, SecretText> = plan
        .pods
        .iter()
        .flat_map(|pod| [(format!("{pod}.crt"), "certificate"), (format!("{pod}.key"), "key")])
        .map(|(key, text)| (key, SecretText(text.to_owned())))
        .collect();
    let derived = cluster.spec.credentials.is_none().then(|| RootCredentials {
        access_key_id: "SHRDAAAAAAAAAAAAAAAA".to_owned(),
        secret_access_key: SecretText("secret".to_owned()),
    });
    let material = Material {
        cluster: ClusterId([0x6a; 16]),
        authority: AuthorityRecord {
            cluster: ClusterId([0x6a; 16]),
            state: RotationState::Steady {
                current: KeyedAuthority {
                    certificate: "authority\n".to_owned(),
                    key: SecretText("authority's key".to_owned()),
                },
            },
            request: None,
        },
        accepted: accepted(&plan.credentials, derived.as_ref()),
        credentials: derived,
        master_key: MasterKey([7; 32]),
        certificates_digest: "renewal".to_owned(),
        certificates,
        s3: material_of_s3(&cluster),
        admin: cluster.spec.admin_certificate.enabled.then(|| AdminCertificate {
            certificate: "admin\n".to_owned(),
            key: SecretText("admin's key".to_owned()),
        }),
    };
    let mut children = children(&valid, &plan, &material);
    children.insert(children.len() - 1, disruption_budget(&valid, 0));
    children
}

fn accepted(plan: &CredentialsPlan, made: Option<&RootCredentials>) -> Option<AcceptedCredentials> {
    match plan {
        CredentialsPlan::Provided { credentials, .. } => Some(credentials.clone()),
        CredentialsPlan::Generated => made.cloned().map(AcceptedCredentials::from),
    }
}

/// With TLS by the operator: as it would be issued.
fn material_of_s3(cluster: &StorageCluster) -> S3Material {
    let pair = |text: &str| {
        Some(S3KeyPair { certificate: text.to_owned(), key: SecretText(format!("{text}'s key")) })
    };
    match cluster.spec.tls.mode {
        TlsMode::Operator => S3Material {
            serving: S3Serving::Tls("demo-s3-tls".to_owned()),
            is_reached_by_tls: true,
            authority: pair("authority of S3"),
            certificate: pair("certificate of S3"),
            trusted: Some("authority of S3".to_owned()),
            requested: None,
        },
        TlsMode::CertManager => S3Material {
            requested: Some(["demo-s3".to_owned(), "10.0.0.7".to_owned()].into()),
            ..S3Material::default()
        },
        TlsMode::None | TlsMode::Secret => S3Material::default(),
    }
}

fn users_secret() -> ObservedCluster {
    let secret = json!({"metadata": {"name": "mine"}, "data": {
        "AWS_ACCESS_KEY_ID": "cm9vdA==",
        "AWS_SECRET_ACCESS_KEY": "bG9uZ2Vub3VnaA==",
    }});
    ObservedCluster {
        credentials: serde_json::from_value(secret).expect("a Secret"),
        ..ObservedCluster::default()
    }
}

/// An empty list of peers would open the port to all.
#[test]
fn the_admin_port_is_open_to_scrapers_and_to_the_addresses_that_are_configured() {
    let mut document = minimal();
    document["spec"]["networkPolicy"] = json!({"adminCidrs": ["10.0.0.0/8", "fd00::/8"]});
    for (document, blocks) in [(minimal(), vec![]), (document, vec!["10.0.0.0/8", "fd00::/8"])] {
        let children = built(document, &ObservedCluster::default());
        let policy =
            children.iter().find(|child| child.resource.kind == "NetworkPolicy").expect("it is enabled");
        let rules = policy.object["spec"]["ingress"].as_array().expect("rules");
        let of_port = |port: u16| {
            let has_port = move |rule: &&Value| {
                rule["ports"].as_array().is_some_and(|ports| ports.iter().any(|found| found["port"] == port))
            };
            rules.iter().filter(has_port).collect::<Vec<_>>()
        };
        let [admin] = of_port(9200)[..] else { panic!("one rule opens the admin port: {rules:?}") };
        let mut peers = vec![json!({
            "namespaceSelector": {},
            "podSelector": {"matchLabels": {"sherd.dev/scraper": "true"}},
        })];
        peers.extend(blocks.iter().map(|cidr| json!({"ipBlock": {"cidr": cidr}})));
        assert_eq!(admin["from"], json!(peers));
        let [s3] = of_port(9000)[..] else { panic!("one rule opens S3: {rules:?}") };
        assert_eq!(s3.get("from"), None, "S3 is open to all");
    }
}

/// The port of IAM is open where nodes listen, and nowhere else.
#[test]
fn iam_has_a_listener_and_a_service_where_it_is_enabled() {
    let ports_of = |document: Value| {
        let children = built(document, &ObservedCluster::default());
        let toml = children.iter().find(|child| child.resource.kind == "ConfigMap").expect("built");
        let listens = toml.object["data"]["sherd.toml"].to_string().contains("iam_listen");
        let set = find(&children, "StatefulSet", "demo-pool-0")["spec"]["template"].to_string();
        let policy = find(&children, "NetworkPolicy", "demo-node").to_string();
        let service = children.iter().find(|child| child.name == "demo-iam");
        let service = service.map(|service| service.object["spec"]["ports"][0]["port"].clone());
        (listens, set.contains("9300"), policy.contains("9300"), service)
    };
    assert_eq!(ports_of(minimal()), (false, false, false, None));
    for (iam, port) in [(json!({"enabled": true}), 9300), (json!({"enabled": true, "port": 443}), 443)] {
        let mut document = minimal();
        document["spec"]["iam"] = iam;
        assert_eq!(ports_of(document), (true, true, true, Some(json!(port))));
    }
}

/// The objects that are observed before anything is applied are those that will be applied: a child that is
/// left out could be another person's and be written over.
#[test]
fn every_child_is_named_before_but_what_its_content_names() {
    for (document, secrets) in [(minimal(), ObservedCluster::default()), (full(), users_secret())] {
        let cluster: StorageCluster = serde_json::from_value(document.clone()).expect("of the right form");
        let named = child_names(&Names::new("demo", "storage"), &cluster, "pool-0");
        let mut named: Vec<String> =
            named.iter().map(|(resource, name)| format!("{} {name}", resource.kind)).collect();
        let children = built(document, &secrets);
        let built = children.iter().map(|child| format!("{} {}", child.resource.kind, child.name));
        let by_content = |child: &String| {
            ["Secret demo-ca", "Secret demo-recovery"].contains(&child.as_str())
                || (child.starts_with("ConfigMap ") && child != "ConfigMap demo-live")
        };
        let mut built: Vec<String> = built.filter(|child| !by_content(child)).collect();
        named.sort();
        built.sort();
        assert_eq!(named, built);
    }
}

/// The whole object survives the type of its kind: no field is misspelt.
fn is_of_its_kind(child: &Child) {
    fn typed<K: serde::de::DeserializeOwned + serde::Serialize>(object: &Value) -> Value {
        let typed: K = serde_json::from_value(object.clone()).expect("of its kind");
        serde_json::to_value(typed).expect("JSON")
    }
    let typed = match child.resource.kind.as_str() {
        "Secret" => typed::<Secret>(&child.object),
        "ServiceAccount" => typed::<ServiceAccount>(&child.object),
        "ConfigMap" => typed::<ConfigMap>(&child.object),
        "Service" => typed::<Service>(&child.object),
        "NetworkPolicy" => typed::<NetworkPolicy>(&child.object),
        "PodDisruptionBudget" => typed::<PodDisruptionBudget>(&child.object),
        "StatefulSet" => typed::<StatefulSet>(&child.object),
        kind => panic!("{kind} is not built"),
    };
    assert_eq!(typed, child.object, "{} {}", child.resource.kind, child.name);
}

#[track_caller]
fn matches(file: &str, children: &[Child]) {
    children.iter().for_each(is_of_its_kind);
    let documents: Vec<String> =
        children.iter().map(|child| serde_saphyr::to_string(&child.object).expect("YAML")).collect();
    let text = documents.join("---\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("SHERD_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, &text).expect("written");
    }
    let golden = std::fs::read_to_string(&path).expect("a golden file");
    for (line, (found, expected)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(found, expected, "{file}:{}", line + 1);
    }
    assert_eq!(text.lines().count(), golden.lines().count(), "{file}");
}

#[test]
fn a_minimal_cluster_has_these_children() {
    matches("minimal.yaml", &built(minimal(), &ObservedCluster::default()));
}

#[test]
fn a_cluster_that_says_everything_has_these_children() {
    matches("full.yaml", &built(full(), &users_secret()));
}

pub(crate) fn find<'a>(children: &'a [Child], kind: &str, name: &str) -> &'a Value {
    let found = children.iter().find(|child| child.resource.kind == kind && child.name == name);
    &found.unwrap_or_else(|| panic!("{kind} {name} is built")).object
}

#[test]
fn what_data_needs_has_no_owner_and_all_else_has_one() {
    for child in built(minimal(), &ObservedCluster::default()) {
        let kept = ["demo-ca", "demo-recovery", "demo-root-credentials", "demo-master-key"];
        let kept = kept.contains(&child.name.as_str());
        let metadata = &child.object["metadata"];
        let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
        assert_eq!(owners, usize::from(!kept), "{}", child.title());
        assert_eq!(is_pruned(metadata), !kept, "{}", child.title());
    }
    let children = built(minimal(), &ObservedCluster::default());
    let set = find(&children, "StatefulSet", "demo-pool-0");
    assert!(!is_pruned(&set["spec"]["volumeClaimTemplates"][0]["metadata"]), "a claim");
}

/// Whether Argo CD would take an object without an owner for a part of an application that was removed from
/// it.
fn is_pruned(metadata: &Value) -> bool {
    let kept = metadata["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false"
        && metadata["annotations"]["argocd.argoproj.io/compare-options"] == "IgnoreExtraneous"
        && metadata["labels"].get("app.kubernetes.io/instance").is_none();
    !kept
}

/// A pod that is started again in its place must come up with what it was made with.
#[test]
fn a_configuration_is_immutable_and_named_by_its_content() {
    let mut other = minimal();
    other["spec"]["config"] = json!({"bufferCap": "1GiB"});
    let mounted = |document: Value| {
        let children = built(document, &ObservedCluster::default());
        let config = children.iter().find(|child| child.resource.kind == "ConfigMap").expect("built");
        assert_eq!(config.object["immutable"], true);
        let set = find(&children, "StatefulSet", "demo-pool-0");
        assert_eq!(set["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"], config.name);
        config.name.clone()
    };
    let (one, other) = (mounted(minimal()), mounted(other));
    assert!(one.starts_with("demo-config-") && other.starts_with("demo-config-"), "{one} {other}");
    assert_ne!(one, other);
}

#[test]
fn the_authoritys_key_is_mounted_nowhere() {
    let children = built(minimal(), &ObservedCluster::default());
    let certificates = find(&children, "Secret", "demo-pool-0-certificates");
    let keys: Vec<&String> = certificates["data"].as_object().expect("data").keys().collect();
    assert!(!keys.iter().any(|key| key.as_str() == "ca.key"), "{keys:?}");
    let set = find(&children, "StatefulSet", "demo-pool-0").to_string();
    assert!(!set.contains("\"demo-ca\"") && !set.contains("\"demo-recovery\""), "{set}");
}

/// The restricted Pod Security Standard, point by point.
#[test]
fn pods_are_restricted() {
    let openshift = ObservedCluster { users: PodUsers::Given, ..ObservedCluster::default() };
    let all = [
        built(minimal(), &ObservedCluster::default()),
        built(minimal(), &openshift),
        built(full(), &users_secret()),
    ];
    for children in all {
        let pod = &find(&children, "StatefulSet", "demo-pool-0")["spec"]["template"]["spec"];
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(pod["automountServiceAccountToken"], false);
        for forbidden in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod.get(forbidden).is_none(), "{forbidden}");
        }
        for volume in pod["volumes"].as_array().expect("volumes") {
            assert!(volume.get("configMap").or(volume.get("secret")).is_some(), "{volume}");
        }
    }
}

#[test]
fn the_pool_decides_which_user_its_pods_name() {
    let named = |users: PodUsers, given: Option<Value>| {
        let mut document = minimal();
        if let Some(given) = given {
            document["spec"]["pools"][0]["podSecurityContext"] = given;
        }
        let children = built(document, &ObservedCluster { users, ..ObservedCluster::default() });
        let set = find(&children, "StatefulSet", "demo-pool-0");
        let context = set["spec"]["template"]["spec"]["securityContext"].clone();
        ["runAsUser", "runAsGroup", "fsGroup"].map(|field| context[field].as_i64())
    };
    let (own, none) = ([Some(65532); 3], [None; 3]);
    assert_eq!((named(PodUsers::Named, None), named(PodUsers::Given, None)), (own, none));
    for users in [PodUsers::Named, PodUsers::Given] {
        assert_eq!(named(users, Some(json!({}))), none);
        let user = json!({"runAsUser": 1000, "fsGroup": 1002});
        assert_eq!(named(users, Some(user)), [Some(1000), None, Some(1002)]);
    }
}

/// A pod without requests is the first that a host ends when it is short of memory.
#[test]
fn a_pod_requests_what_its_node_may_take_unless_the_pool_says_otherwise() {
    let resources = |change: fn(&mut Value)| {
        let mut document = minimal();
        change(&mut document["spec"]);
        let children = built(document, &ObservedCluster::default());
        let set = find(&children, "StatefulSet", "demo-pool-0");
        set["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
    };
    let requests = |memory: &str| json!({"requests": {"cpu": "100m", "memory": memory}});
    assert_eq!(resources(|_| {}), requests("200Mi"));
    assert_eq!(resources(|spec| spec["pools"][0]["resources"] = json!({})), requests("200Mi"));
    assert_eq!(resources(|spec| spec["pools"][0]["resources"] = json!({"requests": {}})), requests("200Mi"));
    let configured = |spec: &mut Value| {
        spec["config"] = json!({"bufferCap": "1GiB", "indexCache": "64MiB"});
        spec["pools"][0]["volumesPerNode"] = json!(4);
    };
    assert_eq!(resources(configured), requests("1152Mi"));
    let by_variable = |spec: &mut Value| {
        spec["config"] = json!({"bufferCap": "1GiB"});
        spec["pools"][0]["extraEnv"] = json!([{"name": "SHERD_BUFFER_CAP", "value": "64MiB"}]);
    };
    assert_eq!(resources(by_variable), requests("136Mi"));
    let given = |spec: &mut Value| spec["pools"][0]["resources"] = json!({"limits": {"memory": "1Gi"}});
    assert_eq!(resources(given), json!({"limits": {"memory": "1Gi"}}));
    let none = |spec: &mut Value| {
        spec["pools"][0]["resources"] = json!({"requests": {"cpu": "0", "memory": "0"}});
    };
    assert_eq!(resources(none), json!({"requests": {"cpu": "0", "memory": "0"}}));
}

#[test]
fn a_change_of_the_configuration_changes_the_template() {
    let mut other = minimal();
    other["spec"]["config"] = json!({"bufferCap": "1GiB"});
    let annotation = |children: &[Child]| {
        find(children, "StatefulSet", "demo-pool-0")["spec"]["template"]["metadata"]["annotations"].clone()
    };
    let (one, other) =
        (built(minimal(), &ObservedCluster::default()), built(other, &ObservedCluster::default()));
    assert_ne!(annotation(&one), annotation(&other));
}
