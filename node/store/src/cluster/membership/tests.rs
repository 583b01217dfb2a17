//! Nodes that are up or down, when they answer late, not at all, or as another one.

use std::time::Duration;

use sherd_core::id::ProcessId;
use sherd_core::report::{VolumeCondition, VolumeReport, VolumeStanding};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cluster::scripted::{CLUSTER, Net, ReachableNode};

const NAMES: [&str; 3] = ["n1", "n2", "n3"];

fn id(place: usize) -> NodeId {
    node_id(CLUSTER, NAMES[place])
}

fn state(place: usize, process: u8) -> NodeReport {
    let volume = VolumeReport {
        condition: Some(VolumeCondition::Online),
        life: Some(Life(2)),
        standing: VolumeStanding::Voting,
        has_room: true,
        healed_since_ms: Some(7),
        ..VolumeReport::of(VolumeId([u8::try_from(place).expect("small"); 16]))
    };
    NodeReport { volumes: vec![volume], ..NodeReport::of(NAMES[place].to_owned(), ProcessId([process; 16])) }
}

fn node(place: usize, state: NodeReport) -> Arc<Membership> {
    let configured = |name: &str| ConfiguredNode { name: name.to_owned(), address: format!("{name}:9100") };
    Arc::new(Membership::new(MembershipConfig {
        cluster: CLUSTER,
        nodes: NAMES.map(configured).to_vec(),
        own: place,
        own_moments: watch::Sender::new(Arc::new(NodeMoment::of(state))).subscribe(),
        volumes: RemoteVolumes::default(),
    }))
}

/// Three nodes that reach each other; the first one's table is looked at.
fn three() -> (Arc<Net>, Arc<Membership>) {
    let net = Arc::new(Net::default());
    for (place, name) in NAMES.into_iter().enumerate() {
        let process = u8::try_from(place).expect("small") + 1;
        let membership = node(place, state(place, process));
        net.put(name, ReachableNode { membership, answers: None });
    }
    let first = net.take("n1").expect("put");
    net.put("n1", first.clone());
    tokio::spawn(Arc::clone(&first.membership).run(Arc::clone(&net) as _, CancellationToken::new()));
    (net, first.membership)
}

fn problems(membership: &Membership) -> Vec<String> {
    membership.problems(&membership.own_report())
}

async fn after_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_down_two_seconds_after_its_last_answer_and_up_with_the_next() {
    let (net, first) = three();
    assert!(!first.all_up());
    after_ms(100).await;
    assert!(first.all_up() && first.own_address().is_ok());
    assert_eq!(first.life_of(VolumeId([1; 16])), Some(Life(2)));
    let mut changes = first.changes();
    let gone = net.take("n2").expect("put");
    after_ms(1_800).await;
    assert!(first.is_up(id(1)), "one lost ping is none");
    after_ms(300).await;
    assert!(!first.is_up(id(1)) && first.is_up(id(2)) && !first.all_up());
    assert!(changes.has_changed().expect("it lives"));
    changes.mark_unchanged();
    let volume = first.volume(VolumeId([1; 16])).expect("still known");
    assert_eq!(
        (volume.report.condition, volume.report.standing, volume.report.life),
        (Some(VolumeCondition::Offline), VolumeStanding::Away, Some(Life(2)))
    );
    assert!(volume.report.reason.contains("n2 is down"), "{}", volume.report.reason);
    net.put("n2", gone);
    after_ms(1_100).await;
    assert!(first.is_up(id(1)) && changes.has_changed().expect("it lives"));
    assert!(first.volume(VolumeId([1; 16])).is_some_and(|volume| volume.report.votes()));
}

/// An operator who restarts nodes one by one looks here: a node that is away for a second must not look
/// healed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_node_that_misses_a_ping_or_is_another_process_is_up_and_not_healed_until_it_answers() {
    let (net, first) = three();
    let healed = || {
        let report = first.volume(VolumeId([1; 16])).expect("reported").report;
        assert!(report.votes() && first.is_up(id(1)));
        report.healed_since_ms
    };
    after_ms(100).await;
    assert_eq!(healed(), Some(7));
    let gone = net.take("n2").expect("put");
    after_ms(1_000).await;
    assert_eq!(healed(), None, "a missing answer means not healed");
    net.put("n2", gone);
    after_ms(1_000).await;
    assert_eq!(healed(), Some(7));
    // The node was away for less than the time between two pings, and calls first.
    first.note_caller(&state(1, 9));
    assert_eq!(healed(), None, "another process was not asked yet");
    after_ms(1_000).await;
    assert_eq!(healed(), Some(7));
}

/// A report of healed volumes is computed again when this changes.
#[tokio::test(start_paused = true)]
async fn the_first_damage_that_a_node_reports_is_a_change_and_more_of_it_is_not() {
    let (_net, first) = three();
    after_ms(100).await;
    let mut changes = first.changes();
    let mut is_change = |reports_waiting| {
        first.note_caller(&NodeReport { reports_waiting, ..state(1, 2) });
        let is_change = changes.has_changed().expect("it lives");
        changes.mark_unchanged();
        is_change
    };
    assert!(!is_change(0));
    assert!(is_change(1) && !is_change(2));
    assert!(is_change(0));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_down_and_one_that_is_slow_is_not() {
    let (net, first) = three();
    after_ms(100).await;
    net.delays.lock().insert("n2".to_owned(), Duration::from_hours(1));
    net.delays.lock().insert("n3".to_owned(), Duration::from_millis(1_900));
    after_ms(2_200).await;
    assert!(!first.is_up(id(1)));
    let why = first.nodes()[1].reason.clone();
    assert!(why.contains("no answer for 2 s"), "{why}");
    // From here on each ping is answered within the time that the one before it has.
    after_ms(1_000).await;
    for _ in 0..100 {
        after_ms(100).await;
        assert!(first.is_up(id(2)), "it answers each second");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_reached_yet_is_down_only_after_its_time_to_answer() {
    let (net, first) = three();
    net.take("n2").expect("put");
    after_ms(1_500).await;
    assert!(!first.is_up(id(1)), "it is not met yet");
    assert!(!first.volumes().any_down(&[id(1), id(2)]), "writes do not count on its absence yet");
    after_ms(1_000).await;
    assert!(first.volumes().any_down(&[id(1)]) && !first.volumes().any_down(&[id(2)]));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_does_not_take_its_peers_for_dead() {
    let (_net, first) = three();
    after_ms(100).await;
    // The clock jumps as it does for a process that was stopped.
    tokio::time::advance(Duration::from_secs(30)).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert!(first.all_up());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_by_another_name_or_refuses_is_not_up() {
    let (net, first) = three();
    net.put("n2", ReachableNode { membership: node(2, state(2, 3)), answers: None });
    net.refusing.lock().insert("n3".to_owned());
    after_ms(100).await;
    assert!(!first.is_up(id(1)) && !first.is_up(id(2)));
    let nodes = first.nodes();
    assert!(nodes[1].reason.contains("answered by node \"n3\""), "{}", nodes[1].reason);
    assert!(nodes[2].reason.contains("refused: wire version 2, here 1"), "{}", nodes[2].reason);
    assert_eq!(first.volume(VolumeId([2; 16])), None, "nothing is taken from the wrong node");
    // A wrong node where another was up before: the other's volumes are down.
    net.put("n2", ReachableNode { membership: node(1, state(1, 2)), answers: None });
    after_ms(1_000).await;
    assert!(first.volume(VolumeId([1; 16])).is_some_and(|volume| volume.report.votes()));
    net.put("n2", ReachableNode { membership: node(2, state(2, 3)), answers: None });
    after_ms(1_000).await;
    assert!(first.volume(VolumeId([1; 16])).is_some_and(|volume| !volume.report.votes()));
}

#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_name_are_named_by_their_processes() {
    let (_net, first) = three();
    after_ms(100).await;
    assert_eq!(problems(&first), Vec::<String>::new());
    first.note_caller(&state(1, 0x77));
    assert_eq!(problems(&first), Vec::<String>::new(), "it may have been started again");
    after_ms(1_000).await;
    let said = problems(&first).join("\n");
    assert!(
        said.contains("two nodes are named n2") && said.contains("7777") && said.contains("0202"),
        "{said}"
    );
    // A caller under this node's own name.
    first.note_caller(&state(0, 0x66));
    let said = problems(&first).join("\n");
    assert!(said.contains("two nodes are named n1") && said.contains("6666"), "{said}");
    after_ms(11_000).await;
    assert_eq!(problems(&first), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn one_volume_in_two_places_is_named_with_both() {
    let (net, first) = three();
    let copy = NodeReport { volumes: state(1, 2).volumes, ..state(2, 3) };
    net.put("n3", ReachableNode { membership: node(2, copy), answers: None });
    after_ms(100).await;
    let said = problems(&first).join("\n");
    assert!(
        said.contains("one volume in two places") && said.contains("n2") && said.contains("n3"),
        "{said}"
    );
    // And one of this node's own.
    let copy = NodeReport { volumes: state(0, 1).volumes, ..state(2, 3) };
    net.put("n3", ReachableNode { membership: node(2, copy), answers: None });
    after_ms(1_000).await;
    let said = problems(&first).join("\n");
    assert!(said.contains("on n1 and on n3") && !said.contains("n2"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn credentials_that_reach_one_node_before_another_are_a_problem_only_where_that_lasts() {
    let accepting = |place: usize, pairs: &[u8]| NodeReport {
        credentials_proofs: pairs.iter().map(|pair| [*pair; 32]).collect(),
        ..state(place, 1)
    };
    let first = node(0, accepting(0, &[1]));
    first.note_caller(&accepting(1, &[1, 2]));
    after_ms(299_000).await;
    first.note_caller(&accepting(1, &[1, 2]));
    assert_eq!(problems(&first)[1..], [""; 0], "it waits for the other one's file");
    after_ms(1_000).await;
    first.note_caller(&accepting(1, &[1, 2]));
    assert_eq!(problems(&first)[1..], ["n2 has other root credentials than here"]);
    first.note_caller(&accepting(1, &[1]));
    first.note_caller(&accepting(1, &[1, 2]));
    assert_eq!(problems(&first)[1..], [""; 0], "the time begins again");
    first.note_caller(&accepting(1, &[2]));
    assert_eq!(
        problems(&first)[1..],
        ["n2 has other root credentials than here"],
        "none is accepted by both"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_not_configured_is_named_and_kept_within_bounds() {
    let (_net, first) = three();
    after_ms(100).await;
    for number in 0..100 {
        first.note_caller(&NodeReport { name: format!("{number:02}{}", "x".repeat(10_000)), ..state(1, 2) });
    }
    let problems = problems(&first);
    assert_eq!(problems.len(), STRANGERS_MAX);
    assert!(problems.iter().all(|problem| problem.contains("no node") && problem.len() < 400));
}
