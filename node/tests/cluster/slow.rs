//! A request that a slow peer holds up is logged, once, with the peer's name; requests beside it are not.
//!
//! One link of a gateway is delayed by its relay for longer than a read waits for a shard: a GET whose object
//! has a data shard there takes that long. The gateway's metrics count what it waited for.

use std::time::{Duration, Instant};

use aws_sdk_s3::operation::RequestId as _;

use crate::harness::cluster::{cluster_of, name};
use crate::harness::data::{Dice, Home};
use crate::harness::s3::BUCKET;
use crate::harness::wait::{LATER, SOON, bounded, eventually};

/// In each direction. A ping takes 1.4 s then, and a node is down after 2 s.
const DELAY: Duration = Duration::from_millis(700);
/// Half of them have a data shard on the slow node, one of two on four nodes.
const OBJECTS: usize = 16;
/// As configured below.
const SLOW: Duration = Duration::from_millis(800);
const LINES: &str = "[log]\nslow_request = \"800ms\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_a_slow_peer_names_it_once() {
    let mut dice = Dice::of_this_run("slow");
    let cluster = cluster_of(4).with_relays().configured(LINES).start().await;
    let clients = cluster.with_bucket().await;
    let keys: Vec<String> = (0..OBJECTS).map(|number| format!("slow/{number}")).collect();
    for key in &keys {
        clients[0].put_settled(key, dice.body(Home::Packed)).await;
    }
    let (gateway, slow) = (0, 2);
    let before = cluster.node(gateway).metrics().await;
    cluster.relay(gateway, slow).delay(DELAY);
    let line = format!("slowest_phase=\"shard read\" slowest_node=\"{}\"", name(slow));
    let named = |id: &str| {
        let log = cluster.node(gateway).log();
        let lines = log.lines().filter(|line| line.contains("slow request") && line.contains(id));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut requests = Vec::new();
    // On a busy machine the node may pass for down at first, and then no request waits for it.
    let found = eventually("a request names the slow peer", LATER, async || {
        for key in &keys {
            let begun = Instant::now();
            let get = clients[gateway].sdk().get_object().bucket(BUCKET).key(key).send();
            let got = bounded("a GET", SOON, get).await.expect("the other nodes have enough of it");
            let id = got.request_id().expect("each answer has one").to_owned();
            bounded("its body", SOON, got.body.collect()).await.expect("the whole of it");
            requests.push((id, begun.elapsed()));
        }
        let lines: Vec<String> = requests.iter().flat_map(|(id, _)| named(id)).collect();
        lines.iter().find(|found| found.contains(&line)).cloned().ok_or_else(|| format!("{lines:?}"))
    })
    .await;
    cluster.relay(gateway, slow).delay(Duration::ZERO);
    for word in ["WARN", "operation=\"GetObject\"", &format!("bucket=\"{BUCKET}\"")] {
        assert!(found.contains(word), "{word}: {found}");
    }
    for (id, took) in &requests {
        let lines = named(id);
        assert!(lines.len() <= 1, "one line for a request: {lines:?}");
        assert!(*took >= SLOW || lines.is_empty(), "a request of {took:?} is not slow: {lines:?}");
    }

    let after = cluster.node(gateway).metrics().await;
    let counted = |series: &str| after.get(series) - before.get(series);
    let reads = counted("sherd_shard_read_duration_seconds_count{volume_of=\"peer\"}");
    let prompt = counted("sherd_shard_read_duration_seconds_bucket{volume_of=\"peer\",le=\"0.5\"}");
    assert!(reads > prompt, "{prompt} of {reads} reads of peers were prompt");
    assert!(counted("sherd_register_round_duration_seconds_count{kind=\"read\"}") >= 1.0);
    for series in [
        "sherd_register_round_duration_seconds_count{kind=\"prepare\"}",
        "sherd_register_round_duration_seconds_count{kind=\"accept\"}",
        "sherd_shard_write_duration_seconds_count{volume_of=\"peer\"}",
        "sherd_s3_request_queue_duration_seconds_count",
    ] {
        assert!(after.get(series) >= 1.0, "{series}");
    }
}
