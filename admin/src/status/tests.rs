//! Answers of a cluster of three nodes, whole and broken, and how each is shown.

use sherd_proto::v1::{Sender, VolumeState};

use super::*;

/// Three nodes with one volume each, in one set of 1+2, all healed.
fn whole() -> StatusReply {
    let node = |number: u32| NodeStatus {
        name: format!("n{number}"),
        address: format!("127.0.0.1:910{number}"),
        up: true,
        reason: String::new(),
        version: "0.1.0".to_owned(),
        reports_waiting: 0,
    };
    let volume = |number: u32| VolumeReport {
        volume: vec![0xab; 16].into(),
        node: format!("n{number}"),
        path: format!("/d/n{number}/v1"),
        state: VolumeState::Online.into(),
        life: 1,
        votes: true,
        is_open: true,
        has_room: true,
        healed: true,
        total_bytes: 50 << 30,
        free_bytes: (12 << 30) + (1 << 29),
        ..VolumeReport::default()
    };
    let set = SetStatus {
        set: 0,
        volumes: 3,
        accept: 2,
        prepare: 2,
        voting: 3,
        healed: 3,
        data_shards: 1,
        parity_shards: 2,
        takes_shards: true,
    };
    StatusReply {
        sender: Some(Sender { wire: 1, cluster: vec![0x6a; 16].into(), epoch: 1 }),
        cluster_name: "demo".to_owned(),
        node: "n1".to_owned(),
        formation: Some(Formation { formed: true, ..Formation::default() }),
        nodes: (1..=3).map(node).collect(),
        volumes: (1..=3).map(volume).collect(),
        sets: vec![set],
        problems: vec![],
        trust: None,
        credentials_proofs: vec![],
        config: None,
    }
}

/// The answer of the same cluster after the third node went down.
fn degraded() -> StatusReply {
    let mut reply = whole();
    reply.nodes[2].up = false;
    reply.nodes[2].reason = "no answer for 2 s".to_owned();
    reply.nodes[1].reports_waiting = 7;
    reply.volumes[2] = VolumeReport {
        node: "n3".to_owned(),
        state: VolumeState::Offline.into(),
        reason: "its node is down".to_owned(),
        ..VolumeReport::default()
    };
    (reply.sets[0].voting, reply.sets[0].healed) = (2, 2);
    reply
}

/// A cluster that waits for its third node.
fn forming() -> StatusReply {
    let mut reply = degraded();
    let waiting_for = vec!["n3".to_owned()];
    reply.formation = Some(Formation { waiting_for, ..Formation::default() });
    reply.sets.clear();
    reply.volumes.clear();
    reply
}

#[test]
fn a_whole_cluster_is_shown_as_such() {
    let expected = "\
cluster demo, as n1 sees it: all healed

node  address         state  version  reports  reason
n1    127.0.0.1:9101  up     0.1.0    0
n2    127.0.0.1:9102  up     0.1.0    0
n3    127.0.0.1:9103  up     0.1.0    0

node  volume    state   healed  free                  reason
n1    /d/n1/v1  online  yes     12.5 GiB of 50.0 GiB
n2    /d/n2/v1  online  yes     12.5 GiB of 50.0 GiB
n3    /d/n3/v1  online  yes     12.5 GiB of 50.0 GiB

set  N  A  P  voting  healed  code  state
0    3  2  2  3       3       1+2   healed
";
    assert_eq!(table(&whole()), expected);
    assert_eq!(verdict(&whole()), ClusterVerdict::Healed);
}

#[test]
fn a_node_that_is_down_is_named_with_its_reason() {
    let expected = "\
cluster demo, as n1 sees it: serves, degraded

node  address         state  version  reports  reason
n1    127.0.0.1:9101  up     0.1.0    0
n2    127.0.0.1:9102  up     0.1.0    7
n3    127.0.0.1:9103  down   0.1.0    0        no answer for 2 s

node  volume    state    healed  free                  reason
n1    /d/n1/v1  online   yes     12.5 GiB of 50.0 GiB
n2    /d/n2/v1  online   yes     12.5 GiB of 50.0 GiB
n3              offline  no                            its node is down

set  N  A  P  voting  healed  code  state
0    3  2  2  2       2       1+2   serves, degraded
";
    assert_eq!(table(&degraded()), expected);
    assert_eq!(verdict(&degraded()), ClusterVerdict::Degraded);
}

#[test]
fn a_cluster_that_forms_says_for_whom_it_waits() {
    let text = table(&forming());
    assert!(text.starts_with("cluster demo, as n1 sees it: forming, waiting for n3\n"), "{text}");
    assert_eq!(verdict(&forming()), ClusterVerdict::NotServing);
}

#[test]
fn a_cluster_serves_as_long_as_every_set_can_be_read() {
    let mut reply = degraded();
    let set = |voting, takes_shards| SetStatus {
        accept: 3,
        volumes: 4,
        voting,
        takes_shards,
        healed: voting,
        ..whole().sets[0]
    };
    for (set, state, expected) in [
        (set(1, true), "does not serve", ClusterVerdict::NotServing),
        (set(2, true), "committed reads only", ClusterVerdict::Degraded),
        (set(3, false), "no new data", ClusterVerdict::Degraded),
        (set(3, true), "serves, degraded", ClusterVerdict::Degraded),
    ] {
        reply.sets = vec![whole().sets[0], set];
        assert_eq!((set_state(&set), verdict(&reply)), (state, expected));
    }
    reply.sets.clear();
    assert_eq!(verdict(&reply), ClusterVerdict::NotServing, "formed, and no set is known");
}

#[test]
fn each_thing_that_is_missing_makes_it_degraded() {
    let changes: [fn(&mut StatusReply); 6] = [
        |reply| reply.nodes[1].up = false,
        |reply| reply.volumes[1].healed = false,
        |reply| reply.sets[0].voting = 2,
        |reply| reply.sets[0].healed = 2,
        |reply| reply.sets[0].takes_shards = false,
        |reply| reply.problems.push("n2 has other root credentials".to_owned()),
    ];
    for change in changes {
        let mut reply = whole();
        change(&mut reply);
        assert_eq!(verdict(&reply), ClusterVerdict::Degraded, "{}", table(&reply));
    }
}

#[test]
fn problems_are_listed_and_no_text_commands_the_terminal() {
    let mut reply = whole();
    reply.problems = vec!["n2 has \x1b[31mother\nroot credentials".to_owned()];
    let text = table(&reply);
    assert!(text.ends_with("\nproblems\n  n2 has ?[31mother?root credentials\n"), "{text}");
}

#[test]
fn json_has_what_the_tables_have() {
    let value: serde_json::Value = serde_json::from_str(&json(&degraded())).expect("JSON");
    assert_eq!(value["verdict"], "degraded");
    assert_eq!(value["cluster_id"], "6a".repeat(16));
    assert_eq!((&value["formed"], &value["node"]), (&true.into(), &"n1".into()));
    assert_eq!((&value["nodes"][2]["up"], &value["nodes"][2]["name"]), (&false.into(), &"n3".into()));
    assert_eq!(
        (&value["volumes"][0]["state"], &value["volumes"][0]["free_bytes"]),
        (&"online".into(), &((12_u64 << 30) + (1 << 29)).into())
    );
    assert_eq!(value["volumes"][0]["id"], "ab".repeat(16));
    assert_eq!(
        (&value["sets"][0]["voting"], &value["sets"][0]["state"]),
        (&2.into(), &"serves, degraded".into())
    );
    assert_eq!(json(&degraded()).lines().count(), 1);
    let value: serde_json::Value = serde_json::from_str(&json_of_error("no \"answer\"")).expect("JSON");
    assert_eq!((&value["verdict"], &value["error"]), (&"not_serving".into(), &"no \"answer\"".into()));
}
