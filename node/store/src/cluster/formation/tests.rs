//! Formation between nodes in one process: orders of start, kills, wipes, late replies, refusals.

use std::time::Duration;

use sherd_core::id::ProcessId;
use sherd_core::report::{NodeMoment, NodeReport};
use sherd_core::topology::formation::FormAnswer;
use sherd_volume::disk::Disk as _;
use sherd_volume::identity::Phase;

use super::*;
use crate::cluster::membership::MembershipConfig;
use crate::cluster::scripted::{CLUSTER, Nodes, ReachableNode, RunningNode};
use crate::peer::remote::RemoteVolumes;
use crate::volumes::directories::directory::{Directory, identity_of, look_at};

async fn started(nodes: &Nodes, order: &[usize]) -> Vec<RunningNode> {
    let mut running: Vec<(usize, RunningNode)> = Vec::new();
    for place in order {
        running.push((*place, nodes.start(*place)));
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    running.sort_by_key(|(place, _)| *place);
    running.into_iter().map(|(_, node)| node).collect()
}

async fn formed(running: &mut [RunningNode]) -> Vec<Formation> {
    let mut formations = Vec::new();
    for node in running {
        formations.push(node.formed().await);
    }
    formations
}

fn is_one_topology(formations: &[Formation]) -> bool {
    formations.iter().all(|formation| formation.topology == formations[0].topology)
}

#[tokio::test(start_paused = true)]
async fn nodes_form_one_cluster_in_whatever_order_they_start() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let nodes = Nodes::new(3);
        let formations = formed(&mut started(&nodes, &order).await).await;
        assert!(is_one_topology(&formations), "{order:?}");
        for (place, formation) in formations.iter().enumerate() {
            assert_eq!(
                formation.topology.node(formation.node).map(|node| node.name.clone()),
                Some(Nodes::name(place))
            );
            for (volume, path) in &formation.volumes {
                let identity = identity_of(&nodes.disks[place], path).expect("a volume");
                assert_eq!((identity.volume, identity.phase), (*volume, Phase::Formed), "{order:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_node_forms_a_cluster_of_its_own() {
    let nodes = Nodes::new(1);
    let formations = formed(&mut started(&nodes, &[0]).await).await;
    assert_eq!(formations[0].topology.nodes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_missing_is_named_and_the_cluster_forms_when_it_comes() {
    let nodes = Nodes::new(3);
    let mut running = started(&nodes, &[0, 1]).await;
    for node in &mut running {
        let said = node.says(|status| status.waiting_for == ["n3"]).await;
        assert!(said.reason.contains("connection refused"), "{said:?}");
    }
    running.push(nodes.start(2));
    assert!(is_one_topology(&formed(&mut running).await));
    let said = running[0].says(|status| status.formed).await;
    assert_eq!(said, FormationStatus { formed: true, ..FormationStatus::default() });
}

#[tokio::test(start_paused = true)]
async fn a_maker_that_is_killed_after_it_made_the_topology_makes_no_second_one() {
    let nodes = Nodes::new(3);
    nodes.net.mute.lock().insert("n1".to_owned());
    let mut running = started(&nodes, &[2, 1, 0]).await;
    let made = running[0].formed().await;
    assert!(running[1].answers.topology().is_none(), "it got nothing yet");
    nodes.kill(0, running.remove(0)).await;
    nodes.net.mute.lock().clear();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(running[0].answers.topology().is_none(), "there is nobody to get it from");
    running.insert(0, nodes.start(0));
    let formations = formed(&mut running).await;
    assert!(is_one_topology(&formations));
    assert_eq!(formations[0].topology, made.topology);
}

#[tokio::test(start_paused = true)]
async fn a_wiped_node_gets_the_topology_from_another_one_while_the_maker_is_dead() {
    let nodes = Nodes::new(3);
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let first = formed(&mut running).await;
    nodes.kill(1, running.remove(1)).await;
    nodes.kill(0, running.remove(0)).await;
    nodes.wipe(1);
    let again = nodes.start(1).formed().await;
    assert_eq!((&again.topology, &again.volumes), (&first[1].topology, &first[1].volumes));
    for path in Nodes::directories() {
        let directory = look_at(&nodes.disks[1], &path).expect("looked");
        assert!(matches!(directory, Directory::Vacant | Directory::Missing), "{directory:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wiped_maker_takes_the_topology_that_the_others_hold() {
    let nodes = Nodes::new(3);
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let first = formed(&mut running).await;
    nodes.kill(0, running.remove(0)).await;
    nodes.wipe(0);
    // A holder is away: all would have to answer for another topology.
    nodes.kill(2, running.remove(1)).await;
    let again = nodes.start(0).formed().await;
    assert_eq!(again.topology, first[0].topology);
}

#[tokio::test(start_paused = true)]
async fn a_wiped_maker_without_any_holder_waits_for_them() {
    let nodes = Nodes::new(3);
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let first = formed(&mut running).await;
    for place in 0..3 {
        nodes.kill(place, running.remove(0)).await;
    }
    nodes.wipe(0);
    nodes.wipe(1);
    let mut running = started(&nodes, &[0, 1]).await;
    running[0].says(|status| status.waiting_for == ["n3"]).await;
    running.push(nodes.start(2));
    let again = formed(&mut running).await;
    assert!(is_one_topology(&again));
    assert_eq!(again[0].topology, first[0].topology);
}

const LOST: &str = "was formed before, and no volume of it is here";

fn identities(nodes: &Nodes, place: usize) -> usize {
    let disk = &nodes.disks[place];
    Nodes::directories().iter().map(|path| disk.list(path).expect("listed").len()).sum()
}

/// All volumes of all nodes are lost at once.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_formed_before_is_not_formed_again_before_that_is_allowed() {
    let nodes = Nodes::new(3);
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let first = formed(&mut running).await;
    for place in 0..3 {
        nodes.kill(place, running.remove(0)).await;
        nodes.wipe(place);
    }
    for place in 0..3 {
        running.push(nodes.start_formed_before(place));
    }
    for node in &mut running {
        let said = node.says(|status| status.formed_before && status.reason.contains(LOST)).await;
        assert!(said.reason.contains(&format!("cluster {CLUSTER} ")) && !said.formed, "{said:?}");
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    for (place, node) in running.iter().enumerate() {
        assert_eq!(node.answers.topology(), None);
        assert_eq!(identities(&nodes, place), 0, "nothing is written");
    }
    // Two of them have taken the change and one has not: no topology is made without its ids.
    for node in &running[..2] {
        node.answers.set_formed_before(false);
    }
    let said = running[0].says(|status| status.waiting_for == ["n3"]).await;
    assert!(!said.formed_before && said.reason.contains(LOST), "{said:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(running.iter().all(|node| node.answers.topology().is_none()));
    running[2].answers.set_formed_before(false);
    let again = formed(&mut running).await;
    assert!(is_one_topology(&again));
    assert_ne!(again[0].topology, first[0].topology);
}

/// An empty directory of a replaced disk, on each node but one.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_cluster_that_was_formed_before_take_the_topology_of_a_peer_that_holds_it() {
    let nodes = Nodes::new(3);
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let first = formed(&mut running).await;
    for place in 0..3 {
        nodes.kill(place, running.remove(0)).await;
    }
    nodes.wipe(0);
    nodes.wipe(1);
    let mut running = vec![nodes.start_formed_before(0), nodes.start_formed_before(1)];
    for node in &mut running {
        let said = node.says(|status| status.waiting_for == ["n3"]).await;
        assert!(said.formed_before && said.reason.contains(LOST), "{said:?}");
        assert!(said.reason.contains("n3: connection refused"), "{said:?}");
    }
    running.push(nodes.start_formed_before(2));
    let again = formed(&mut running).await;
    assert!(is_one_topology(&again));
    assert_eq!(again[0].topology, first[0].topology);
    assert!(running.iter().all(|node| !node.status.borrow().formed_before));
}

/// Ids that a formation left which was cut short: with them a node would answer without writing anything.
#[tokio::test(start_paused = true)]
async fn ids_of_a_formation_that_was_cut_short_are_not_given_for_another_cluster() {
    let nodes = Nodes::new(1);
    let rng = || Arc::new(crate::machine::system::SystemRng);
    let answers = FormationAnswers::start(nodes.config(0), rng()).expect("its directories");
    let given = answers.form(7).await.expect("ids");
    let answers = FormationAnswers::start(nodes.config(0), rng()).expect("its directories");
    answers.set_formed_before(true);
    let refused = answers.form(8).await.expect_err("refused").to_string();
    assert_eq!(refused, format!("cluster {CLUSTER} {LOST}"));
    let FormAnswer::Ids(ids) = given.clone() else { panic!("{given:?}") };
    let ticket = answers.ticket().await.expect("a ticket");
    let refused = answers.make(ticket, vec![ids]).await.expect_err("refused").to_string();
    assert!(refused.contains(LOST), "{refused}");
    answers.set_formed_before(false);
    assert_eq!(answers.form(8).await.expect("ids"), given);
}

#[tokio::test(start_paused = true)]
async fn a_topology_that_was_asked_for_before_an_attempt_was_answered_is_not_taken() {
    let nodes = Nodes::new(2);
    let mut running = started(&nodes, &[0, 1]).await;
    let topology = Arc::clone(&formed(&mut running).await[0].topology);
    nodes.kill(1, running.remove(1)).await;
    nodes.wipe(1);
    let answers = FormationAnswers::start(nodes.config(1), Arc::new(crate::machine::system::SystemRng));
    let answers = answers.expect("its directories");
    let ticket = answers.ticket().await.expect("a ticket");
    let ids = answers.form(7).await.expect("ids");
    assert!(matches!(ids, FormAnswer::Ids(_)), "{ids:?}");
    assert!(!answers.take(ticket, Arc::clone(&topology)).await.expect("judged"));
    assert_eq!(answers.topology(), None);
    assert_eq!(answers.form(7).await.expect("an answer"), FormAnswer::Refused(7));
    let ticket = answers.ticket().await.expect("a ticket");
    assert!(answers.take(ticket, Arc::clone(&topology)).await.expect("judged"));
    assert_eq!(answers.form(8).await.expect("an answer"), FormAnswer::Topology(topology));
}

#[tokio::test(start_paused = true)]
async fn slow_nodes_form_a_cluster_too() {
    let nodes = Nodes::new(3);
    nodes.net.delays.lock().insert("n2".to_owned(), Duration::from_millis(1_500));
    let mut running = started(&nodes, &[0, 1, 2]).await;
    assert!(is_one_topology(&formed(&mut running).await));
}

#[tokio::test(start_paused = true)]
async fn no_cluster_is_formed_of_different_configurations_and_both_sides_say_so() {
    let nodes = Nodes::new(2);
    let mut maker = nodes.start(0);
    let other = nodes.start_with(1, [2; 32]);
    let said = maker.says(|status| status.reason.contains("configuration")).await;
    assert_eq!(said.waiting_for, ["n2"]);
    assert!(said.reason.contains("digest 0202020202020202, here 0101010101010101"), "{said:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(maker.answers.topology().is_none());
    for (membership, name) in [(&maker.membership, "n2"), (&other.membership, "n1")] {
        let problems = membership.problems(&membership.own_report());
        assert!(problems.iter().any(|problem| problem.starts_with(name)), "{problems:?}");
    }
    nodes.kill(1, other).await;
    let other = nodes.start(1);
    assert!(is_one_topology(&formed(&mut [maker, other]).await));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_address_another_process_answers_does_not_form() {
    let nodes = Nodes::new(2);
    let mut maker = nodes.start(0);
    let _other = nodes.start(1);
    // Another process of the same identity answers at n1's address.
    let moment = NodeMoment::of(NodeReport::of("n1".to_owned(), ProcessId([9; 16])));
    let twin = Membership::new(MembershipConfig {
        cluster: CLUSTER,
        nodes: nodes.configured(),
        own: 0,
        own_moments: watch::Sender::new(Arc::new(moment)).subscribe(),
        volumes: RemoteVolumes::default(),
    });
    nodes.net.put("n1", ReachableNode { membership: Arc::new(twin), answers: None });
    let said = maker.says(|status| status.reason.contains("two nodes with one identity")).await;
    assert!(said.reason.starts_with("address of n1 (host0:9100)"), "{said:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(maker.answers.topology().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_topology_that_contradicts_the_directories_is_refused_and_says_why() {
    let nodes = Nodes::new(2);
    let mut running = started(&nodes, &[0, 1]).await;
    let formations = formed(&mut running).await;
    // The disks of n1, in n2 as well.
    nodes.kill(1, running.remove(1)).await;
    let mut config = nodes.config(1);
    config.local.disk = nodes.config(0).local.disk;
    let refused = crate::volumes::directories::clustered::adopt_topology(&config, &formations[0].topology);
    let said = refused.expect_err("refused").to_string();
    assert!(said.contains("one volume in two places") && said.contains("n1's"), "{said}");
}

/// As two wipes during one attempt can leave them.
#[tokio::test(start_paused = true)]
async fn a_node_with_another_topology_than_more_of_its_peers_serves_nothing_until_it_is_emptied() {
    let (mut nodes, elsewhere) = (Nodes::new(3), Nodes::with_other_ids(3));
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let first = formed(&mut running).await;
    let other = formed(&mut started(&elsewhere, &[0, 1, 2]).await).await;
    assert_ne!(first[0].topology, other[0].topology);
    for place in [2, 1, 0] {
        nodes.kill(place, running.remove(place)).await;
    }
    nodes.disks[2] = elsewhere.disks[2].clone();
    let mut running = started(&nodes, &[0, 1, 2]).await;
    let again = formed(&mut running[..2]).await;
    assert!(is_one_topology(&again));
    assert_eq!(again[0].topology, first[0].topology);
    let said = running[2].says(|status| status.reason.contains("two clusters were formed")).await;
    assert_eq!((said.formed, said.waiting_for), (false, vec!["n1".to_owned(), "n2".to_owned()]));
    nodes.kill(2, running.remove(2)).await;
    nodes.wipe(2);
    let emptied = nodes.start(2).formed().await;
    assert_eq!(emptied.topology, first[0].topology);
}
