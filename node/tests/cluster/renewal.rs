//! Certificates of all nodes are replaced under load, and no request fails.
//!
//! Connections between nodes end at an age, and are renewed before: that age is short here, so that each
//! connection is renewed several times. A node shows until when the certificates are valid that it was shown,
//! which says that its connections were made with the new ones.

use std::collections::BTreeMap;

use crate::harness::cluster::{TestCluster, cluster_of, name};
use crate::harness::data::{Dice, Home};
use crate::harness::wait::{LATER, eventually};
use crate::load::{Expected, Load, Plan, Step};

const NODES: usize = 4;
/// Clients of each node.
const CLIENTS: usize = 2;
/// How often all certificates are replaced.
const ROUNDS: u64 = 2;
/// Answers that the load gets between two rounds.
const ANSWERS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_the_certificates_of_all_nodes_are_replaced() {
    let mut dice = Dice::of_this_run("renewal");
    let load = Load::new("renewal/");
    let cluster = cluster_of(NODES).configured("reconnect_after = \"20s\"\n").start().await;
    let clients = cluster.with_bucket().await;
    let plan = Plan {
        keys: (0..24).map(|key| load.key(key)).collect(),
        steps: vec![
            Step::Put(Home::Inline),
            Step::Put(Home::Packed),
            Step::Put(Home::File),
            Step::Get,
            Step::Get,
            Step::Get,
            Step::Delete,
            Step::List,
        ],
        expected: Expected::Settled,
    };
    let mut running = Vec::new();
    for s3 in &clients {
        running.push(load.start(s3, &mut dice, CLIENTS, &plan));
    }
    for round in 1..=ROUNDS {
        let before = renewals(&cluster).await;
        let issued = (0..NODES).map(|node| (name(node), cluster.pki.reissue(&name(node), round)));
        let expires: BTreeMap<String, u64> = issued.collect();
        eventually("every connection is made with the new certificates", LATER, async || {
            let now = renewals(&cluster).await;
            let lagging = before.iter().find(|(connection, count)| now[*connection] <= **count);
            if let Some((connection, count)) = lagging {
                return Err(format!("{connection:?} was renewed {count} times"));
            }
            for node in 0..NODES {
                let metrics = cluster.node(node).metrics().await;
                for (peer, expires) in &expires {
                    let shown = metrics
                        .get(&format!("sherd_peer_certificate_expiry_timestamp_seconds{{node=\"{peer}\"}}"));
                    if format!("{shown}") != format!("{expires}") {
                        return Err(format!("{} was shown {shown} by {peer}, not {expires}", name(node)));
                    }
                }
            }
            Ok(())
        })
        .await;
        load.answers(ANSWERS).await;
    }
    for clients in running {
        load.stop(clients).await;
    }
    load.recorder.check();
    let renewed: u64 = renewals(&cluster).await.values().sum();
    eprintln!("renewal: {} operations, {renewed} renewals", load.recorder.len());
}

/// How often each node renewed each of its connections.
async fn renewals(cluster: &TestCluster) -> BTreeMap<(usize, String, &'static str), u64> {
    let mut renewals = BTreeMap::new();
    for node in 0..NODES {
        let metrics = cluster.node(node).metrics().await;
        for peer in (0..NODES).map(name) {
            for carries in ["calls", "bytes"] {
                let series =
                    format!("sherd_peer_connections_renewed_total{{carries=\"{carries}\",node=\"{peer}\"}}");
                let count = format!("{}", metrics.get(&series)).parse().expect("a count");
                renewals.insert((node, peer.clone(), carries), count);
            }
        }
    }
    renewals
}
