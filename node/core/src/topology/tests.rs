//! The geometry table, the spread of volumes and slots, and the stored form under damage.

use proptest::prelude::*;

use super::*;
use crate::erasure::Availability;

fn id_of(index: usize) -> NodeId {
    NodeId(u128::try_from(index + 1).expect("small").to_be_bytes())
}

fn volume_id(node: usize, ordinal: usize) -> VolumeId {
    VolumeId(u128::try_from((node + 1) * 1000 + ordinal).expect("small").to_be_bytes())
}

fn a_pool(nodes: usize, volumes: usize) -> Vec<PoolNode> {
    (0..nodes)
        .map(|node| PoolNode {
            id: id_of(node),
            name: String::new(),
            zone: None,
            volumes: (0..volumes).map(|ordinal| volume_id(node, ordinal)).collect(),
        })
        .collect()
}

fn form(nodes: usize, volumes: usize) -> FormedTopology {
    form_with(nodes, volumes, GeometryRequest::default()).expect("a pool with a default")
}

fn form_with(nodes: usize, volumes: usize, geometry: GeometryRequest) -> Result<FormedTopology, FormError> {
    Topology::form(ClusterId([0xcc; 16]), &a_pool(nodes, volumes), geometry)
}

fn geometry(set_volumes: usize, parity_shards: usize) -> GeometryRequest {
    GeometryRequest { set_volumes: Some(set_volumes), parity_shards: Some(parity_shards) }
}

#[test]
fn defaults_are_the_geometry_table() {
    use Availability::{AllWorks, CommittedReads, Outage};
    for (nodes, volumes, sets, geometry, volume_down, node_down) in [
        (1, 1, 1, (1, 0), Outage, Outage),
        (1, 4, 1, (2, 2), AllWorks, Outage),
        (2, 1, 1, (1, 1), CommittedReads, CommittedReads),
        (2, 2, 1, (2, 2), AllWorks, CommittedReads),
        (2, 3, 1, (3, 3), AllWorks, CommittedReads),
        (2, 8, 2, (4, 4), AllWorks, CommittedReads),
        (3, 1, 1, (1, 2), AllWorks, AllWorks),
        (3, 2, 1, (3, 3), AllWorks, AllWorks),
        (3, 8, 2, (7, 5), AllWorks, AllWorks),
        (4, 1, 1, (2, 2), AllWorks, AllWorks),
        (4, 4, 2, (5, 3), AllWorks, AllWorks),
        (4, 8, 4, (5, 3), AllWorks, AllWorks),
        (6, 2, 1, (9, 3), AllWorks, AllWorks),
        (10, 4, 5, (6, 2), AllWorks, AllWorks),
        (16, 1, 2, (6, 2), AllWorks, AllWorks),
    ] {
        let FormedTopology { topology, warnings } = form(nodes, volumes);
        let expected = Geometry::new(geometry.0, geometry.1).expect("a geometry");
        assert_eq!(topology.sets().len(), sets, "{nodes} x {volumes}");
        for set in topology.sets() {
            assert_eq!(set.geometry(), expected, "{nodes} x {volumes}");
            assert_eq!(set.geometry().standing(1), volume_down, "{nodes} x {volumes}");
            assert_eq!(set.geometry().standing(set.volumes_per_node()), node_down, "{nodes} x {volumes}");
        }
        assert_eq!(warnings.is_empty(), node_down == AllWorks, "{nodes} x {volumes}: {warnings:?}");
    }
}

#[test]
fn warnings_say_what_a_geometry_cannot_do() {
    use FormationWarning::{
        NodeDownIsOutage, NodeDownStopsWrites, NotRedundant, NotTheDefault, UnevenSpread,
        VolumeDownStopsWrites,
    };
    let default = |k, m| NotTheDefault { geometry: Geometry::new(k, m).expect("a geometry") };
    let warnings = |nodes, volumes, geometry| form_with(nodes, volumes, geometry).expect("it fits").warnings;
    assert_eq!(
        warnings(1, 1, GeometryRequest::default()),
        vec![NotRedundant, VolumeDownStopsWrites, NodeDownIsOutage]
    );
    assert_eq!(warnings(2, 2, GeometryRequest::default()), vec![NodeDownStopsWrites]);
    assert_eq!(
        warnings(4, 4, geometry(8, 0)),
        vec![NotRedundant, VolumeDownStopsWrites, NodeDownIsOutage, default(5, 3)]
    );
    assert_eq!(warnings(4, 4, geometry(8, 2)), vec![NodeDownStopsWrites, default(5, 3)]);
    assert_eq!(warnings(3, 8, geometry(8, 4)), vec![UnevenSpread, default(7, 5)]);
    assert_eq!(warnings(4, 4, geometry(8, 4)), vec![default(5, 3)]);
    assert_eq!(warnings(4, 4, geometry(8, 3)), vec![]);
}

#[test]
fn a_geometry_that_does_not_fit_is_refused() {
    let refused =
        |nodes, volumes, geometry| form_with(nodes, volumes, geometry).expect_err("it does not fit");
    assert_eq!(refused(0, 1, GeometryRequest::default()), FormError::Size { nodes: 0, volumes_per_node: 0 });
    assert_eq!(refused(2, 0, GeometryRequest::default()), FormError::Size { nodes: 2, volumes_per_node: 0 });
    assert_eq!(refused(17, 1, GeometryRequest::default()), FormError::NoDefaultSetSize { even: vec![1, 17] });
    let even = vec![1, 2, 4, 8, 16];
    for set_volumes in [0, 5, 64] {
        let error = FormError::SetSize { set_volumes, even: even.clone() };
        assert_eq!(refused(4, 4, geometry(set_volumes, 2)), error);
    }
    for parity_shards in [8, 9, 4000] {
        assert_eq!(
            refused(4, 4, geometry(8, parity_shards)),
            FormError::Parity { parity_shards, set_volumes: 8 }
        );
    }
    assert_eq!(
        PoolShape::choose(usize::MAX, 2, GeometryRequest::default()),
        Err(FormError::Size { nodes: usize::MAX, volumes_per_node: 2 })
    );
    assert!(PoolShape::choose(1025, 1, GeometryRequest::default()).is_err());

    let mut pool = a_pool(2, 2);
    pool[1].volumes.pop();
    let unequal = FormError::UnequalNodes { node: id_of(1), volumes: 1, expected: 2 };
    assert_eq!(Topology::form(ClusterId([0; 16]), &pool, GeometryRequest::default()), Err(unequal));
    let mut pool = a_pool(2, 2);
    pool[1].volumes[1] = volume_id(0, 0);
    let twice = FormError::Invalid(InvalidTopology::VolumeTwice { volume: volume_id(0, 0) });
    assert_eq!(Topology::form(ClusterId([0; 16]), &pool, GeometryRequest::default()), Err(twice));
}

#[test]
fn sets_spread_over_zones_before_they_double_up() {
    let mut pool = a_pool(6, 4);
    for (index, node) in pool.iter_mut().enumerate() {
        node.zone = Some(["east", "east", "north", "north", "west", "west"][index].to_owned());
    }
    let geometry = GeometryRequest { set_volumes: Some(3), parity_shards: None };
    let topology = Topology::form(ClusterId([0; 16]), &pool, geometry).expect("it fits").topology;
    for set in topology.sets() {
        let zones: BTreeSet<_> = set
            .volumes()
            .iter()
            .filter_map(|id| topology.node(topology.volume(*id)?.node)?.zone.clone())
            .collect();
        assert_eq!(zones.len(), 3, "{:?}", set.volumes());
    }
}

#[test]
fn volumes_are_found_in_their_nodes_and_sets() {
    let topology = form(4, 4).topology;
    for (index, set) in topology.sets().iter().enumerate() {
        for (position, id) in set.volumes().iter().enumerate() {
            assert_eq!(topology.set_with(*id), Some(SetId(u32::try_from(index).expect("small"))));
            assert_eq!(set.position(*id), Some(position));
        }
    }
    let ordinals: Vec<_> = topology.volumes_of(id_of(2)).map(|volume| volume.ordinal).collect();
    assert_eq!(ordinals, [0, 1, 2, 3]);
    assert_eq!(topology.volume(volume_id(2, 3)).map(|volume| volume.node), Some(id_of(2)));
    assert_eq!(topology.set_with(volume_id(9, 9)), None);
    assert_eq!(topology.set(SetId(2)), None);
}

#[test]
fn the_stored_form_is_this_json() {
    let text = r#"{"version":1,"cluster":"cccccccccccccccccccccccccccccccc","epoch":1,
        "nodes":[{"id":"00000000000000000000000000000001"},
                 {"id":"00000000000000000000000000000002","zone":"b"}],
        "volumes":[{"id":"000000000000000000000000000003e8","node":"00000000000000000000000000000001","ordinal":0},
                   {"id":"000000000000000000000000000007d0","node":"00000000000000000000000000000002","ordinal":0}],
        "sets":[{"data_shards":1,"parity_shards":0,"volumes":["000000000000000000000000000003e8"]},
                {"data_shards":1,"parity_shards":0,"volumes":["000000000000000000000000000007d0"]}],
        "slots":[{"first":0,"set":0},{"first":8192,"set":1}]}"#;
    let mut pool = a_pool(2, 1);
    pool[1].zone = Some("b".to_owned());
    let topology = Topology::form(ClusterId([0xcc; 16]), &pool, geometry(1, 0)).expect("it fits").topology;
    let stored = serde_json::to_string(&topology).expect("a topology is JSON");
    assert_eq!(stored, text.split_whitespace().collect::<String>());
    assert_eq!(serde_json::from_str::<Topology>(text).expect("as stored"), topology);
}

#[test]
fn names_of_nodes_are_stored_and_give_their_ids() {
    let cluster = ClusterId([7; 16]);
    let mut pool = a_pool(2, 1);
    for (node, name) in pool.iter_mut().zip(["n1", "n2"]) {
        (node.id, node.name) = (node_id(cluster, name), name.to_owned());
    }
    let named = |pool: &[PoolNode]| Topology::form(cluster, pool, GeometryRequest::default());
    let topology = named(&pool).expect("it fits").topology;
    let stored = serde_json::to_string(&topology).expect("a topology is JSON");
    assert!(stored.contains(r#""name":"n2""#), "{stored}");
    assert_eq!(serde_json::from_str::<Topology>(&stored).expect("as stored"), topology);
    assert_eq!(topology.node_named("n2").map(|node| node.id), Some(node_id(cluster, "n2")));
    assert_eq!(topology.node_named("n3"), None);
    // Stored in every topology: it never changes.
    assert_eq!(node_id(cluster, "n1").to_string(), "539f2a7a0bb0f1757b94fb78cf0d977d");
    assert_ne!(node_id(cluster, "n1"), node_id(ClusterId([8; 16]), "n1"));

    pool[1].name = "n1".to_owned();
    let twice = InvalidTopology::NameTwice { name: "n1".to_owned() };
    assert_eq!(named(&pool), Err(FormError::Invalid(twice)));
    pool[1].name = "n".repeat(64);
    assert_eq!(named(&pool), Err(FormError::Invalid(InvalidTopology::Name { node: pool[1].id })));
}

/// Stores a topology, replaces one text in it, and gives why it is refused.
fn spoilt(find: &str, replace: &str) -> String {
    let text = serde_json::to_string(&form(4, 4).topology).expect("a topology is JSON");
    assert!(text.contains(find), "{find} is in {text}");
    let spoilt = text.replacen(find, replace, 1);
    serde_json::from_str::<Topology>(&spoilt).expect_err("it is spoilt").to_string()
}

#[test]
fn an_invalid_topology_is_refused_on_reading() {
    for (find, replace, reason) in [
        ("\"version\":1", "\"version\":2", "unknown version 2"),
        ("\"version\":1", "\"version\":1,\"pools\":[]", "unknown field"),
        ("\"cluster\":\"cc", "\"cluster\":\"xx", "is no id"),
        ("000001\"},{", "000002\"},{", "node 00000000000000000000000000000002 is there twice"),
        ("\"ordinal\":0", "\"ordinal\":1", "shares its place"),
        (
            "\"node\":\"00000000000000000000000000000001\"",
            "\"node\":\"ffffffffffffffffffffffffffffffff\"",
            "unknown node",
        ),
        ("\"data_shards\":5", "\"data_shards\":0", "geometry 0+3"),
        ("\"data_shards\":5", "\"data_shards\":4", "geometry 4+3"),
        (
            "\"volumes\":[\"000000000000000000000000000003e8\"",
            "\"volumes\":[\"000000000000000000000000000003ff\"",
            "unknown volume",
        ),
        (
            "\"volumes\":[\"000000000000000000000000000003e8\"",
            "\"volumes\":[\"000000000000000000000000000003e9\"",
            "more than one place",
        ),
        ("{\"first\":0,\"set\":0},", "", "slots"),
        ("{\"first\":8192,\"set\":1}", "{\"first\":8192,\"set\":2}", "slots"),
        ("{\"first\":8192,\"set\":1}", "{\"first\":16384,\"set\":1}", "slots"),
        ("{\"first\":8192,\"set\":1}", "{\"first\":0,\"set\":1}", "slots"),
    ] {
        let said = spoilt(find, replace);
        assert!(said.contains(reason), "{said} for {find} -> {replace}");
    }
    assert!(
        spoilt("\"slots\":[{\"first\":0,\"set\":0},{\"first\":8192,\"set\":1}]", "\"slots\":[]")
            .contains("slots")
    );
}

proptest! {
    #[test]
    fn every_pool_is_dealt_out_evenly(nodes in 1..40_usize, volumes in 1..12_usize) {
        let Ok(FormedTopology { topology, .. }) = form_with(nodes, volumes, GeometryRequest::default()) else {
            // 17 volumes and the like: what is refused has no even width from 8 to 16.
            let even = (8..=16).any(|size| {
                (nodes * volumes).is_multiple_of(size) && (size <= nodes || size.is_multiple_of(nodes))
            });
            prop_assert!(!even && nodes * volumes > 7);
            return Ok(());
        };
        let width = topology.sets()[0].volumes().len();
        for set in topology.sets() {
            prop_assert_eq!(set.volumes().len(), width);
            prop_assert_eq!(set.volumes_per_node(), width.div_ceil(nodes));
        }
        prop_assert_eq!(topology.sets().len() * width, nodes * volumes);
        prop_assert!(topology.volumes().iter().all(|volume| topology.set_with(volume.id).is_some()));
        let owned: Vec<usize> = (0..topology.sets().len())
            .map(|set| topology.slots_of(SetId(u32::try_from(set).expect("small"))).count())
            .collect();
        prop_assert_eq!(owned.iter().sum::<usize>(), 16_384);
        prop_assert!(owned.iter().max().expect("a set") - owned.iter().min().expect("a set") <= 1);
        let stored = serde_json::to_string(&topology).expect("a topology is JSON");
        prop_assert_eq!(serde_json::from_str::<Topology>(&stored).expect("as stored"), topology);
    }

    #[test]
    fn damaged_json_is_refused_or_is_a_topology(at in 0..1500_usize, byte in 0x20..0x7f_u8) {
        let mut stored = serde_json::to_vec(&form(3, 2).topology).expect("a topology is JSON");
        let at = at % stored.len();
        stored[at] = byte;
        if let Ok(topology) = serde_json::from_slice::<Topology>(&stored) {
            let again = serde_json::to_string(&topology).expect("a topology is JSON");
            prop_assert_eq!(serde_json::from_str::<Topology>(&again).expect("as stored"), topology);
        }
    }
}
