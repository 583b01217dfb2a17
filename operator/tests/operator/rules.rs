//! Each rule of the specification, as the API server judges it (CEL over the generated schema) and as
//! the operator does: one cluster that it accepts, one that it refuses, with one message.

use kube::CustomResourceExt as _;
use kube::core::cel::{Validator, validate_cel, validate_cel_update};
use serde_json::{Value, json};
use sherd_operator::api::{Reason, StorageCluster, message};
use sherd_operator::reconcile::remarks::Remark;
use sherd_operator::reconcile::validate::validate;

fn document() -> Value {
    json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "StorageCluster",
        "metadata": {"name": "demo", "namespace": "storage"},
        "spec": {"pools": [{
            "name": "pool-0",
            "nodes": 4,
            "volumesPerNode": 2,
            "volumeClaimTemplate": {
                "storageClassName": "standard",
                "resources": {"requests": {"storage": "10Gi"}},
            },
            "erasure": {"setSize": 8, "parity": 3},
        }]},
    })
}

fn with(change: impl FnOnce(&mut Value)) -> StorageCluster {
    let mut document = document();
    change(&mut document);
    serde_json::from_value(document).expect("of the right form")
}

/// Checks that both judges refuse a new cluster with this message, or accept it.
#[track_caller]
fn created(expected: Option<&str>, change: impl FnOnce(&mut Value)) {
    let cluster = with(change);
    match (validate_cel(&cluster), expected) {
        (Ok(()), None) => {}
        (Err(refused), Some(message)) => assert!(refused.to_string().contains(message), "CEL: {refused}"),
        (judged, expected) => panic!("CEL: {judged:?}, expected {expected:?}"),
    }
    match (validate(&cluster), expected) {
        (Ok(_), None) => {}
        (Err(refused), Some(message)) => assert!(refused.iter().any(|one| one == message), "{refused:?}"),
        (judged, expected) => panic!("validate: {judged:?}, expected {expected:?}"),
    }
}

/// Checks that a change of a stored cluster is refused with this message, or accepted.
#[track_caller]
fn updated(expected: Option<&str>, change: impl FnOnce(&mut Value)) {
    match (validate_cel_update(&with(change), &with(|_| {})), expected) {
        (Ok(()), None) => {}
        (Err(refused), Some(message)) => assert!(refused.to_string().contains(message), "CEL: {refused}"),
        (judged, expected) => panic!("CEL: {judged:?}, expected {expected:?}"),
    }
}

#[test]
fn a_cluster_has_a_name_that_begins_names() {
    created(None, |_| {});
    created(None, |cluster| cluster["metadata"]["name"] = json!("a"));
    for name in ["9lives", "-a", "a-", "a.b", &"a".repeat(31)] {
        created(Some(message::NAME), |cluster| cluster["metadata"]["name"] = json!(name));
    }
}

#[test]
fn a_cluster_has_exactly_one_pool() {
    created(Some(message::ONE_POOL), |cluster| {
        let mut second = cluster["spec"]["pools"][0].clone();
        second["name"] = json!("pool-1");
        cluster["spec"]["pools"].as_array_mut().expect("a list").push(second);
    });
    created(Some(message::ONE_POOL), |cluster| cluster["spec"]["pools"] = json!([]));
}

#[test]
fn fields_of_a_service_need_its_type() {
    let service =
        |value: Value| move |cluster: &mut Value| cluster["spec"]["gateway"] = json!({"service": value});
    let class = json!("example.com/internal");
    created(None, service(json!({"type": "LoadBalancer", "loadBalancerClass": class, "nodePort": 30090})));
    created(None, service(json!({"type": "NodePort", "nodePort": 30090, "externalTrafficPolicy": "Local"})));
    created(Some(message::LOAD_BALANCER), service(json!({"type": "NodePort", "loadBalancerClass": class})));
    let ranges = json!(["10.0.0.0/8"]);
    created(Some(message::LOAD_BALANCER), service(json!({"loadBalancerSourceRanges": ranges})));
    created(Some(message::NODE_PORT), service(json!({"nodePort": 30090})));
    created(Some(message::NODE_PORT), service(json!({"externalTrafficPolicy": "Local"})));
}

#[test]
fn an_image_has_its_parts_apart() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let image = |image: Value| move |cluster: &mut Value| cluster["spec"]["image"] = image;
    for repository in ["sherd-node", "r:5000/n", "Registry.example.com/a-b/c_d", "10.0.0.1:5000/a/b.c"] {
        created(None, image(json!({"repository": repository, "tag": "v1.2_3-x", "digest": digest})));
    }
    for repository in ["sherd-node:v1", "a b", "r/Upper", "r//n", "n/", "-n", "n@sha256:00", "r:p/n"] {
        created(Some(message::IMAGE_REPOSITORY), image(json!({"repository": repository})));
    }
    for tag in ["has space", "v1@sha256:00", ".v1", "-v1", "a/b", "a:b"] {
        created(Some(message::IMAGE_TAG), image(json!({"tag": tag})));
    }
    for digest in ["sha256:00", "0a", &digest.to_uppercase(), &format!("{digest}0"), &format!("x{digest}")] {
        created(Some(message::IMAGE_DIGEST), image(json!({"digest": digest})));
    }
}

#[test]
fn a_rollout_waits_from_a_minute_to_a_week() {
    let timeout = |text: &'static str| {
        move |cluster: &mut Value| cluster["spec"]["upgrade"] = json!({"healthTimeout": text})
    };
    for text in ["60s", "604800s", "1m", "01m", "10080m", "1h", "168h", "1day", "7days", "90s", "15m"] {
        created(None, timeout(text));
        assert_eq!(validate(&with(timeout(text))).expect("valid").remarks(), [], "{text}");
        let read = validate(&with(timeout(text))).expect("valid").upgrade().health_timeout;
        assert_eq!(read, humantime::parse_duration(text).expect("a time"));
    }
    for text in ["59s", "0m", "604801s", "10081m", "169h", "8days", "", "-1m"] {
        let cluster = with(timeout(text));
        let refused = validate_cel(&cluster).expect_err(text).to_string();
        assert!(refused.contains(message::HEALTH_TIMEOUT), "{refused}");
        // The operator goes on with one that an older schema let through.
        let valid = validate(&cluster).expect("followed but for this");
        assert_eq!(valid.upgrade().health_timeout, std::time::Duration::from_mins(15));
        assert_eq!(Remark::verdict(valid.remarks()).0, Reason::SettingIgnored, "{text}");
    }
}

#[test]
fn a_set_has_fewer_parity_shards_than_volumes() {
    created(None, |cluster| cluster["spec"]["pools"][0]["erasure"] = json!({"setSize": 8, "parity": 7}));
    created(Some(message::PARITY), |cluster| {
        cluster["spec"]["pools"][0]["erasure"] = json!({"setSize": 8, "parity": 8});
    });
}

#[test]
fn a_claim_has_a_size_of_more_than_0() {
    let storage = |size: Value| {
        move |cluster: &mut Value| {
            let claim = &mut cluster["spec"]["pools"][0]["volumeClaimTemplate"];
            claim["resources"]["requests"]["storage"] = size;
        }
    };
    for size in ["1Gi", "+1Gi", "0.5Ti", ".5Ti", "007", "1e12", "1E", "1099511627776"] {
        created(None, storage(json!(size)));
    }
    for size in ["-1Gi", "0", "+0", "-0.5Gi", "0.0Gi", "0e5", "", "Gi", "1gi", "1KB", "many"] {
        created(Some(message::STORAGE), storage(json!(size)));
    }
    // As the API server sees it; the operator's type has made a text of it.
    let schema = serde_json::to_value(StorageCluster::crd()).expect("JSON");
    let schema = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for (size, is_refused) in [(1_099_511_627_776_i64, false), (0, true), (-1, true)] {
        let mut cluster = document();
        storage(json!(size))(&mut cluster);
        let refused = Validator::new().validate(schema, &cluster, None);
        let refused = refused.map_or_else(|refused| refused.to_string(), |()| String::new());
        assert_eq!(refused.contains(message::STORAGE), is_refused, "{size}: {refused}");
    }
}

#[test]
fn sets_divide_the_volumes() {
    created(None, |cluster| cluster["spec"]["pools"][0]["erasure"] = json!({"setSize": 4, "parity": 2}));
    created(Some(message::SET_SIZE), |cluster| {
        cluster["spec"]["pools"][0]["erasure"] = json!({"setSize": 3, "parity": 1});
    });
    created(Some(message::SET_SIZE), |cluster| {
        cluster["spec"]["pools"][0]["erasure"] = json!({"setSize": 16, "parity": 3});
    });
}

#[test]
fn without_a_geometry_there_must_be_a_default() {
    let shape = |nodes: i32, volumes: i32| {
        move |cluster: &mut Value| {
            let pool = cluster["spec"]["pools"][0].as_object_mut().expect("a pool");
            pool.remove("erasure");
            pool["nodes"] = json!(nodes);
            pool["volumesPerNode"] = json!(volumes);
        }
    };
    for (nodes, volumes) in [(1, 1), (4, 1), (7, 1), (4, 2), (4, 4), (6, 2), (16, 1)] {
        created(None, shape(nodes, volumes));
    }
    for (nodes, volumes) in [(17, 1), (5, 5), (19, 2)] {
        created(Some(message::NO_DEFAULT), shape(nodes, volumes));
    }
}

#[test]
fn a_node_is_not_given_what_the_operator_sets() {
    let environment = |name: &'static str| {
        move |cluster: &mut Value| {
            cluster["spec"]["pools"][0]["extraEnv"] = json!([{"name": name, "value": "1"}]);
        }
    };
    created(None, environment("SHERD_LIMITS_REQUESTS_MAX"));
    for name in ["SHERD_CLUSTER_ID", "SHERD_SECRET_ACCESS_KEY", "POD_NAME", "SHERD_VOLUMES"] {
        created(Some(message::ENVIRONMENT), environment(name));
    }
}

#[test]
fn tls_names_what_its_mode_needs_and_nothing_else() {
    let tls = |tls: Value| move |cluster: &mut Value| cluster["spec"]["tls"] = tls;
    let secret = json!({"name": "mine"});
    created(None, tls(json!({})));
    created(
        None,
        tls(json!({"mode": "Operator", "extraNames": ["*.a.example", "b", "10.0.0.7", "fd00::7"]})),
    );
    created(None, tls(json!({"mode": "Secret", "secretRef": secret})));
    created(
        None,
        tls(json!({"mode": "CertManager", "issuerRef": {"name": "internal", "kind": "ClusterIssuer"}})),
    );
    for wrong in [
        json!({"mode": "Secret"}),
        json!({"secretRef": secret}),
        json!({"mode": "Operator", "secretRef": secret}),
    ] {
        created(Some(message::TLS_SECRET), tls(wrong));
    }
    for wrong in
        [json!({"mode": "CertManager"}), json!({"mode": "Operator", "issuerRef": {"name": "internal"}})]
    {
        created(Some(message::TLS_ISSUER), tls(wrong));
    }
    let further = json!([{"name": "mine"}, {"name": "yours"}]);
    created(None, tls(json!({"mode": "Operator", "furtherSecrets": further})));
    created(Some(message::TLS_FURTHER), tls(json!({"furtherSecrets": further})));
    for name in ["A.example", "a.*.example", "https://a", "-a", "a:9000"] {
        created(Some(message::TLS_NAMES), tls(json!({"mode": "Operator", "extraNames": [name]})));
    }
}

#[test]
fn what_data_was_laid_out_by_does_not_change() {
    updated(None, |_| {});
    updated(None, |cluster| cluster["spec"]["paused"] = json!(true));
    updated(Some(message::NODES_KEPT), |cluster| cluster["spec"]["pools"][0]["nodes"] = json!(3));
    updated(Some(message::NODES_KEPT), |cluster| cluster["spec"]["pools"][0]["nodes"] = json!(8));
    updated(Some(message::VOLUMES_KEPT), |cluster| cluster["spec"]["pools"][0]["volumesPerNode"] = json!(4));
    updated(Some(message::ERASURE_KEPT), |cluster| {
        cluster["spec"]["pools"][0]["erasure"]["parity"] = json!(4);
    });
    updated(Some(message::ERASURE_KEPT), |cluster| {
        cluster["spec"]["pools"][0].as_object_mut().expect("a pool").remove("erasure");
    });
    updated(Some(message::CLASS_KEPT), |cluster| {
        cluster["spec"]["pools"][0]["volumeClaimTemplate"]["storageClassName"] = json!("fast");
    });
    updated(Some(message::CLASS_KEPT), |cluster| {
        let claim = cluster["spec"]["pools"][0]["volumeClaimTemplate"].as_object_mut().expect("a claim");
        claim.remove("storageClassName");
    });
}

/// As the API server sees it: a size may be a number, of which the operator's type makes a text.
#[test]
fn storage_is_raised_and_lowered_no_further_than_what_claims_have() {
    let schema = serde_json::to_value(StorageCluster::crd()).expect("JSON");
    let schema = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let of = |size: &Value, claimed: Option<&str>| {
        let mut cluster = document();
        cluster["spec"]["pools"][0]["volumeClaimTemplate"]["resources"]["requests"]["storage"] = size.clone();
        if let Some(claimed) = claimed {
            cluster["status"] = json!({"pools": [{"name": "pool-0", "claimCapacity": claimed}]});
        }
        cluster
    };
    let judge = |last: &Value, next: &Value, claimed: Option<&str>| {
        let judged = Validator::new().validate(schema, &of(next, claimed), Some(&of(last, claimed)));
        judged.map_err(|refused| refused.to_string())
    };
    let ten = json!("10Gi");
    for next in [
        json!("10Gi"),
        json!("10240Mi"),
        json!("11G"),
        json!("1Ti"),
        json!(10_737_418_240_i64),
        json!("2e10"),
    ] {
        assert_eq!(judge(&ten, &next, None), Ok(()), "{next}");
        assert_eq!(judge(&ten, &next, Some("10Gi")), Ok(()), "{next}");
    }
    for next in [json!("5Gi"), json!("10G"), json!(10_737_418_239_i64), json!("10239Mi")] {
        for claimed in [None, Some("10Gi")] {
            let refused = judge(&ten, &next, claimed).expect_err("smaller");
            assert!(refused.contains(message::STORAGE_KEPT), "{next}: {refused}");
        }
        assert_eq!(judge(&ten, &next, Some("4Gi")), Ok(()), "{next}: a growth that no claim has");
    }
    let number = json!(10_737_418_240_i64);
    assert!(judge(&number, &json!("9Gi"), None).is_err() && judge(&number, &json!(1), None).is_err());
    assert_eq!(judge(&number, &json!("11Gi"), None), Ok(()));
    assert_eq!(judge(&json!("1gi"), &json!("1Gi"), None), Ok(()), "one that is malformed can be mended");
    assert_eq!(judge(&ten, &json!("1Gi"), Some("0")), Ok(()), "no claim is bound");
}

#[test]
fn a_pool_stays_and_keeps_its_name() {
    updated(Some(message::POOL_KEPT), |cluster| cluster["spec"]["pools"][0]["name"] = json!("other"));
}

/// Ranges of sizes are the node's; CEL checks their form only.
#[test]
fn settings_out_of_the_nodes_range_are_named() {
    let judged = |key: &str, value: &str| {
        validate(&with(|cluster| cluster["spec"]["config"] = json!({key: value})))
            .map(|_| ())
            .map_err(|all| all.join(";"))
    };
    for (key, value) in [
        ("inlineMax", "32KiB"),
        ("bufferCap", "1GiB"),
        ("healBandwidth", "67108864"),
        ("scrubPeriod", "30days"),
    ] {
        assert_eq!(judged(key, value), Ok(()), "{key} {value}");
    }
    for (key, value) in [
        ("inlineMax", "33KiB"),
        ("packMax", "1GiB"),
        ("bufferCap", "1MiB"),
        ("indexCache", "many"),
        ("healBandwidth", "1"),
        ("scrubPeriod", "1s"),
        ("scrubPeriod", "often"),
    ] {
        let refused = judged(key, value).expect_err("out of range");
        assert!(refused.contains(key) && refused.contains(value), "{refused}");
    }
}

/// A geometry that cannot lose a node is warned about, not forbidden.
#[test]
fn a_geometry_that_cannot_lose_a_node_is_accepted_with_a_warning() {
    let cluster = with(|cluster| {
        let pool = &mut cluster["spec"]["pools"][0];
        pool["nodes"] = json!(2);
        pool["volumesPerNode"] = json!(2);
        pool["erasure"] = json!({"setSize": 4, "parity": 2});
    });
    let valid = validate(&cluster).expect("accepted");
    let (reason, message) = Remark::verdict(valid.remarks());
    assert_eq!(reason, Reason::NotRedundant, "{message}");
    assert!(message.contains("one node down stops writes"), "{message}");
    let cluster = with(|_| {});
    let valid = validate(&cluster).expect("accepted");
    assert_eq!(Remark::verdict(valid.remarks()), (Reason::Valid, "no contradictions".to_owned()));
}

/// A node that may take more than its pod is ended under load, and starts again and again.
#[test]
fn a_limit_of_memory_below_the_nodes_caps_is_accepted_with_a_warning() {
    let limited = |limit: &str, config: Value, variables: Value| {
        let cluster = with(|cluster| {
            cluster["spec"]["config"] = config;
            let pool = &mut cluster["spec"]["pools"][0];
            pool["resources"] = json!({"limits": {"memory": limit}});
            pool["extraEnv"] = variables;
        });
        Remark::verdict(validate(&cluster).expect("accepted").remarks())
    };
    let (none, valid) = (json!({}), (Reason::Valid, "no contradictions".to_owned()));
    for limit in ["160Mi", "0.5Gi", "200M", "1e9"] {
        assert_eq!(limited(limit, none.clone(), json!([])), valid, "{limit}");
    }
    for limit in ["159Mi", "160M", "64Mi", "1"] {
        let (reason, message) = limited(limit, none.clone(), json!([]));
        assert_eq!(reason, Reason::LimitTooSmall, "{limit}");
        assert!(message.contains(&format!("{limit} is less")) && message.contains("(160MiB)"), "{message}");
    }
    let config = json!({"bufferCap": "1GiB", "indexCache": "64MiB"});
    assert_eq!(limited("1Gi", config.clone(), json!([])).0, Reason::LimitTooSmall);
    assert_eq!(limited("1088Mi", config.clone(), json!([])), valid);
    let variables = json!([{"name": "SHERD_BUFFER_CAP", "value": "64MiB"}]);
    assert_eq!(limited("128Mi", config, variables), valid, "a variable wins over the file");
}

/// The examples, and the default of the cluster's chart, are accepted by both judges.
#[test]
fn the_examples_are_accepted() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |file: &str| -> Value {
        let text = std::fs::read_to_string(root.join(file)).expect("an example");
        serde_saphyr::from_str(&text).expect("YAML")
    };
    let chart = with(|cluster| cluster["spec"] = read("charts/sherd-cluster/values.yaml")["spec"].clone());
    let examples = ["deploy/examples/minimal.yaml", "deploy/examples/production.yaml"].map(|file| {
        let document = read(file);
        let cluster: StorageCluster = serde_json::from_value(document.clone()).expect("of the right form");
        // The types drop fields that they do not have: the whole example must come back.
        let again = serde_json::to_value(&cluster).expect("JSON");
        assert_eq!(missing(&document, &again), Vec::<String>::new(), "{file}");
        cluster
    });
    for cluster in examples.iter().chain([&chart]) {
        validate_cel(cluster).expect("accepted by CEL");
        let valid = validate(cluster).expect("accepted by the operator");
        assert_eq!(valid.remarks(), [], "an example can lose a node");
    }
    // On one host, it cannot.
    for file in ["deploy/examples/one-host.yaml", "deploy/examples/tls.yaml"] {
        let document = read(file);
        let cluster: StorageCluster = serde_json::from_value(document.clone()).expect("of the right form");
        let again = serde_json::to_value(&cluster).expect("JSON");
        assert_eq!(missing(&document, &again), Vec::<String>::new(), "{file}");
        validate_cel(&cluster).expect("accepted by CEL");
        let valid = validate(&cluster).expect("accepted by the operator");
        assert_eq!(Remark::verdict(valid.remarks()).0, Reason::NotRedundant, "{file}");
    }
}

/// Paths of `before` that `after` lacks or changes.
pub(crate) fn missing(before: &Value, after: &Value) -> Vec<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let below = |(key, value): (&String, &Value)| {
                let found = missing(value, after.get(key).unwrap_or(&Value::Null));
                found.into_iter().map(move |path| format!("{key}.{path}")).collect::<Vec<_>>()
            };
            before.iter().flat_map(below).collect()
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            before.iter().zip(after).flat_map(|(before, after)| missing(before, after)).collect()
        }
        (before, after) if before == after => vec![],
        (before, _) => vec![before.to_string()],
    }
}
