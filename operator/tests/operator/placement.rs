//! Hosts that pods are made for, and the verdict on the loss of a zone: each number that the arithmetic gives
//! is compared with all placements that the scheduler may choose.

use serde_json::{Value, json};
use sherd_core::erasure::Availability;
use sherd_core::topology::GeometryRequest;
use sherd_operator::api::{Reason, StorageCluster};
use sherd_operator::reconcile::observe::ObservedCluster;
use sherd_operator::reconcile::remarks::Remark;
use sherd_operator::reconcile::validate::validate;
use sherd_operator::rollout::{PoolSets, ZoneSpread};

use crate::build_golden::{built, find, minimal};

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = minimal();
    change(&mut document);
    document
}

/// The pods' specification of a cluster.
fn pod(document: Value) -> Value {
    let children = built(document, &ObservedCluster::default());
    find(&children, "StatefulSet", "demo-pool-0")["spec"]["template"]["spec"].clone()
}

fn zone_spread() -> Value {
    json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"})
}

fn apart() -> Value {
    json!({
        "labelSelector": {"matchLabels": {
            "app.kubernetes.io/name": "sherd-node",
            "sherd.dev/cluster": "demo",
            "sherd.dev/pool": "pool-0",
        }},
        "topologyKey": "kubernetes.io/hostname",
    })
}

#[test]
fn each_pod_has_a_host_of_its_own_beside_what_the_user_asks_for() {
    let of_the_user =
        json!({"labelSelector": {"matchLabels": {"noisy": "yes"}}, "topologyKey": "kubernetes.io/hostname"});
    let pod = pod(with(|cluster| {
        let pool = &mut cluster["spec"]["pools"][0];
        pool["topologySpreadConstraints"] = json!([zone_spread()]);
        pool["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [of_the_user],
        }});
    }));
    let required = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(*required, json!([of_the_user, apart()]));
    let mut spread = zone_spread();
    spread["labelSelector"] = apart()["labelSelector"].clone();
    assert_eq!(pod["topologySpreadConstraints"], json!([spread]), "the pool's pods are counted");
}

#[test]
fn a_selector_of_the_users_stays() {
    let mut spread = zone_spread();
    spread["labelSelector"] = json!({"matchLabels": {"sherd.dev/cluster": "demo"}});
    let document = with(|cluster| cluster["spec"]["pools"][0]["topologySpreadConstraints"] = json!([spread]));
    assert_eq!(pod(document)["topologySpreadConstraints"], json!([spread]));
}

#[test]
fn hosts_are_shared_where_that_is_asked_for_and_not_preferred() {
    let document = with(|cluster| cluster["spec"]["pools"][0]["allowSharedHosts"] = json!(true));
    let (reason, message) = verdict(&document);
    assert_eq!(reason, Reason::NotRedundant);
    assert!(message.contains("allowSharedHosts: one host may run several nodes"), "{message}");
    let affinity = &pod(document)["affinity"]["podAntiAffinity"];
    assert_eq!(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), None);
    let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(*preferred, json!([{"weight": 100, "podAffinityTerm": apart()}]));
}

/// A host must match one of the terms, so each of them names the architecture.
#[test]
fn pods_run_on_the_architectures_of_the_image_alone() {
    let terms = |document: Value| {
        let required =
            &pod(document)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        required["nodeSelectorTerms"].clone()
    };
    let expression = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let amd64 = expression("kubernetes.io/arch", &["amd64"]);
    assert_eq!(terms(minimal()), json!([{"matchExpressions": [amd64]}]));

    let field = json!({"key": "metadata.name", "operator": "In", "values": ["one"]});
    let document = with(|cluster| {
        cluster["spec"]["pools"][0]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [expression("disk", &["nvme"])]},
                {"matchFields": [field]},
                {},
            ]},
        }});
    });
    let expected = json!([
        {"matchExpressions": [expression("disk", &["nvme"]), amd64]},
        {"matchExpressions": [amd64], "matchFields": [field]},
        // An empty term matches no host.
        {},
    ]);
    assert_eq!(terms(document), expected);

    let document = with(|cluster| cluster["spec"]["image"] = json!({"architectures": ["arm64", "amd64"]}));
    let both = expression("kubernetes.io/arch", &["arm64", "amd64"]);
    assert_eq!(terms(document), json!([{"matchExpressions": [both]}]));
}

fn verdict(document: &Value) -> (Reason, String) {
    let cluster: StorageCluster = serde_json::from_value(document.clone()).expect("of the right form");
    Remark::verdict(validate(&cluster).expect("valid").remarks())
}

/// Reason and message of `SpecValid` for a pool of this shape with this spread.
fn said(nodes: i32, volumes: i32, erasure: (i32, i32), spread: &Value) -> (Reason, String) {
    verdict(&with(|cluster| {
        let pool = &mut cluster["spec"]["pools"][0];
        pool["nodes"] = json!(nodes);
        pool["volumesPerNode"] = json!(volumes);
        pool["erasure"] = json!({"setSize": erasure.0, "parity": erasure.1});
        pool["topologySpreadConstraints"] = json!([spread]);
    }))
}

#[test]
fn the_loss_of_a_zone_is_judged_in_words() {
    let (reason, message) = said(6, 1, (6, 3), &zone_spread());
    assert_eq!(reason, Reason::Valid, "{message}");
    let expected = "loss of a zone (topology.kubernetes.io/zone, maxSkew 1): \
        with 2 zones the largest may hold 3 of the 6 volumes of a set, and reads survive and writes stop, which need 4 volumes, \
        with 3 or more zones the largest may hold 2 of the 6 volumes of a set, and reads and writes survive";
    assert_eq!(message, expected);

    // Two of four nodes share one of three zones: four of eight volumes.
    let mut three = zone_spread();
    three["minDomains"] = json!(3);
    let (reason, message) = said(4, 2, (8, 3), &three);
    assert_eq!(reason, Reason::NotRedundant);
    assert!(
        message.contains(
            "with 3 zones the largest may hold 4 of the 8 volumes of a set, and reads and writes stop, which need 5 and 6 volumes"
        ),
        "{message}"
    );
    assert_eq!(said(6, 1, (6, 3), &three).0, Reason::Valid);
}

#[test]
fn a_spread_that_is_only_preferred_or_of_hosts_is_not_judged() {
    let mut preferred = zone_spread();
    preferred["whenUnsatisfiable"] = json!("ScheduleAnyway");
    let mut hosts = zone_spread();
    hosts["topologyKey"] = json!("kubernetes.io/hostname");
    for spread in [preferred, hosts] {
        assert_eq!(said(6, 1, (6, 3), &spread), (Reason::Valid, "no contradictions".to_owned()));
    }
}

#[test]
fn a_spread_that_counts_other_pods_is_not_taken_for_one_of_the_pool() {
    let judged = |selector: Value| {
        let mut spread = zone_spread();
        spread["labelSelector"] = selector;
        said(6, 1, (6, 3), &spread)
    };
    let one = |key: &str, operator: &str, values: Value| {
        let mut expression = json!({"key": key, "operator": operator});
        if !values.is_null() {
            expression["values"] = values;
        }
        json!({"matchExpressions": [expression]})
    };
    for exact in [
        json!({"matchLabels": {"sherd.dev/cluster": "demo"}}),
        json!({"matchLabels": {"sherd.dev/cluster": "demo", "sherd.dev/pool": "pool-0"}}),
        one("sherd.dev/cluster", "In", json!(["demo"])),
    ] {
        let (reason, message) = judged(exact);
        assert!(reason == Reason::Valid && message.contains("reads and writes survive"), "{message}");
    }
    for wide in [
        json!({}),
        json!({"matchLabels": {"app.kubernetes.io/name": "sherd-node"}}),
        one("sherd.dev/cluster", "In", json!(["demo", "other"])),
        one("sherd.dev/cluster", "Exists", Value::Null),
        one("team", "DoesNotExist", Value::Null),
        one("sherd.dev/cluster", "NotIn", json!(["other"])),
    ] {
        let (reason, message) = judged(wide);
        assert!(reason == Reason::Valid && message.contains("is not judged"), "{message}");
    }
    for foreign in [
        json!({"matchLabels": {"app": "demo"}}),
        one("sherd.dev/cluster", "NotIn", json!(["demo"])),
        one("team", "Exists", Value::Null),
    ] {
        let (reason, message) = judged(foreign);
        assert!(reason == Reason::NotRedundant && message.contains("does nothing"), "{message}");
    }
    let mut per_revision = zone_spread();
    per_revision["matchLabelKeys"] = json!(["controller-revision-hash"]);
    let (_, message) = said(6, 1, (6, 3), &per_revision);
    assert!(message.contains("is not judged"), "{message}");
}

/// Every assignment of nodes to zones that keeps to the spread: the zone of each node.
fn placements(nodes: usize, zones: usize, spread: ZoneSpread) -> Vec<Vec<usize>> {
    let number = |mut index: usize| {
        let mut placement = Vec::new();
        for _ in 0..nodes {
            placement.push(index % zones);
            index /= zones;
        }
        placement
    };
    let count = |placement: &[usize], zone: usize| placement.iter().filter(|one| **one == zone).count();
    let keeps = |placement: &Vec<usize>| {
        let counts = (0..zones).map(|zone| count(placement, zone));
        let least = if zones < spread.zones_min { 0 } else { counts.clone().min().unwrap_or(0) };
        counts.max().unwrap_or(0) <= least + spread.skew_max
    };
    let power = zones.pow(u32::try_from(nodes).expect("few"));
    (0..power).map(number).filter(keeps).collect()
}

#[test]
fn no_placement_puts_more_nodes_into_a_zone_than_is_said_and_one_puts_as_many() {
    for (nodes, zones) in (1..=7).flat_map(|nodes| (1..=4).map(move |zones| (nodes, zones))) {
        for (skew_max, zones_min) in (1..=3).flat_map(|skew| [1, 2, 4, 5].map(|least| (skew, least))) {
            let spread = ZoneSpread { skew_max, zones_min };
            let of_zone = |placement: Vec<usize>| {
                (0..zones).map(|zone| placement.iter().filter(|one| **one == zone).count()).max()
            };
            let Some(most) = placements(nodes, zones, spread).into_iter().filter_map(of_zone).max() else {
                // Zones that are too few for minDomains leave pods without a host.
                assert!(zones < zones_min && nodes > zones * skew_max);
                continue;
            };
            assert_eq!(spread.nodes_max(nodes, zones), most, "{nodes} nodes, {zones} zones, {spread:?}");
        }
    }
}

#[test]
fn what_is_said_of_the_loss_of_a_zone_is_the_worst_of_all_placements() {
    let shapes = (2..=6).flat_map(|nodes| (1..=3).map(move |volumes| (nodes, volumes)));
    let mut judged = 0;
    for (nodes, volumes) in shapes {
        let requests = (2..=nodes * volumes).flat_map(|set| [1, set / 2].map(|parity| (set, parity)));
        for (set, parity) in requests {
            let request = GeometryRequest { set_volumes: Some(set), parity_shards: Some(parity) };
            let Ok(sets) = PoolSets::of(nodes, volumes, request) else { continue };
            for (skew_max, zones_min) in [(1, 1), (2, 1), (1, 3)] {
                let spread = ZoneSpread { skew_max, zones_min };
                let losses = spread.losses(&sets);
                for zones in 2..=4 {
                    let worst = placements(nodes, zones, spread)
                        .iter()
                        .flat_map(|placement| (0..zones).map(|zone| without(&sets, placement, zone)))
                        .min();
                    let Some(worst) = worst else { continue };
                    let covers = |loss: &&sherd_operator::rollout::ZoneLoss| {
                        loss.zones_from <= zones && loss.zones_to.is_none_or(|to| zones <= to)
                    };
                    let Some(said) = losses.iter().find(covers) else {
                        assert!(zones < zones_min, "only zones that are too few are not judged");
                        assert!(worst >= losses[0].availability, "and they are no worse");
                        continue;
                    };
                    assert_eq!(
                        said.availability, worst,
                        "{nodes}x{volumes} {set}-{parity} {zones} {spread:?}"
                    );
                    judged += 1;
                }
            }
        }
    }
    assert!(judged > 100, "{judged}");
}

/// Availability of the worst set while the nodes of a zone are away.
fn without(sets: &PoolSets, placement: &[usize], zone: usize) -> Availability {
    let away = |set: usize| -> usize {
        let nodes = placement.iter().enumerate().filter(|(_, of)| **of == zone);
        nodes.map(|(node, _)| sets.share(node, set)).sum()
    };
    let standing = (0..sets.count()).map(|set| sets.geometry().standing(away(set)));
    standing.min().expect("there is a set")
}
