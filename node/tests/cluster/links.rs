//! Traffic between nodes: never an object's bytes in clear, and nothing to a node that is cut off.
//!
//! Every link between two nodes goes through a relay that records it. A relay that is given the same body in
//! clear finds every piece of it (`harness/relay.rs`), so finding none shows that the wire is encrypted. A
//! node whose links are cut gets no row and no shard of what others store meanwhile; it gets them when it is
//! back.

use std::fs;
use std::path::Path;
use std::pin::pin;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Body, Dice, Home};
use crate::harness::relay::Relay;
use crate::harness::s3::Failure;
use crate::harness::volumes;
use crate::harness::wait::{LATER, SOON, eventually};

/// Bytes between two pieces of a body that are looked for.
const STEP: usize = 512;
/// Objects that are written while a node is cut off.
const OBJECTS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_body_goes_between_nodes_in_clear() {
    let mut dice = Dice::of_this_run("in clear");
    let cluster = cluster_of(4).with_relays().start().await;
    let clients = cluster.with_bucket().await;
    let body = Body { id: dice.next(), len: 1 << 20 };
    let before: usize = cluster.relays().map(crate::harness::relay::Relay::bytes).sum();
    clients[0].put_settled("known", body).await;
    for s3 in &clients {
        assert_eq!(s3.get_settled("known").await, Some(body));
    }
    let after: usize = cluster.relays().map(crate::harness::relay::Relay::bytes).sum();
    // Three of four shards of half its size leave the node that takes it.
    assert!(after - before > body.len, "{} bytes went between nodes", after - before);
    let found: usize = cluster.relays().map(|relay| relay.pieces_of(&body.bytes(), STEP)).sum();
    assert_eq!(found, 0, "pieces of the body were on the wire");
    assert!(cluster.volumes().iter().any(|volume| contains(volume, &body.bytes()[STEP..STEP + 16])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_gets_nothing_until_it_is_back() {
    let mut dice = Dice::of_this_run("cut off");
    let cluster = cluster_of(4).with_relays().start().await;
    let clients = cluster.with_bucket().await;
    let lonely = 3;
    let volume = cluster.member(lonely).volume(1);
    for relay in cluster.relays_of(lonely) {
        relay.cut();
    }
    let shards = volumes::shard_files(&volume);
    let mut written = Vec::new();
    for number in 0..OBJECTS {
        let key = format!("while-cut-off/{number}");
        let body = dice.body([Home::Inline, Home::Packed, Home::File][number % 3]);
        clients[number % lonely].put_settled(&key, body).await;
        written.push((key, body));
    }
    // A node that reaches no other one refuses to write; a write there changes nothing.
    match clients[lonely].put("refused", dice.body(Home::Packed)).await {
        Err(Failure::Unavailable { .. }) => {}
        other => panic!("a node without peers answers {other:?}"),
    }
    assert_eq!(volumes::shard_files(&volume), shards, "shards of others came to it");
    assert!(!contains(&volume, b"while-cut-off/"), "rows of others came to it");

    for relay in cluster.relays_of(lonely) {
        relay.mend();
    }
    back_again(&cluster, lonely, &volume).await;
    for (key, body) in &written {
        assert_eq!(
            clients[lonely].get_settled(key).await,
            Some(*body),
            "{key} through the node that is back"
        );
    }
    let refused = clients[0].get_settled("refused").await;
    assert_eq!(refused, None, "a write that was refused is nowhere");
}

/// Rounds of reads and writes after which a request has surely used the links that are cut.
const ROUNDS: f64 = 3.0;
/// Tries: the links must be mended within 2 s, which a busy machine may miss.
const TRIES: usize = 20;

/// As the end of a suspension finds it: the peers have closed every connection meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_lost_its_links_a_moment_ago_waits_for_them() {
    let mut dice = Dice::of_this_run("lost a moment ago");
    let cluster = cluster_of(4).with_links().start().await;
    let clients = cluster.with_bucket().await;
    let (gateway, body) = (0, dice.body(Home::Packed));
    clients[gateway].put_settled("key", body).await;
    let rounds = async || {
        let metrics = cluster.node(gateway).metrics().await;
        let of_kind = |kind| metrics.get(&format!("sherd_register_rounds_total{{kind=\"{kind}\"}}"));
        of_kind("read") + of_kind("prepare")
    };
    let mut answered = [false; 2];
    for round in 0..TRIES {
        cluster.until_ready().await;
        let before = rounds().await;
        cluster.relays_of(gateway).for_each(Relay::cut);
        let is_read = round % 2 == 0;
        let request = async {
            if is_read {
                clients[gateway].get("key").await == Ok(Some(body))
            } else {
                clients[gateway].put("other", dice.body(Home::Inline)).await.is_ok()
            }
        };
        let met = eventually("the request uses the links that are cut", SOON, async || {
            let more = rounds().await - before;
            if more >= ROUNDS { Ok(()) } else { Err(format!("{more} rounds")) }
        });
        let mut request = pin!(request);
        // Cancel-safe: the request goes on after the links are mended.
        let is_answered = tokio::select! {
            biased;
            is_answered = request.as_mut() => is_answered,
            () = met => {
                cluster.relays_of(gateway).for_each(Relay::mend);
                request.await
            }
        };
        cluster.relays_of(gateway).for_each(Relay::mend);
        answered[usize::from(!is_read)] |= is_answered;
        if answered == [true; 2] {
            return;
        }
    }
    panic!("reads and writes that were answered: {answered:?}");
}

/// Waits until a node has caught up: what was written without it lies in its folder, too.
async fn back_again(cluster: &TestCluster, node: usize, volume: &Path) {
    eventually("the node that is back is ready", SOON, async || {
        match cluster.node(node).ask("/health/ready").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("what it missed comes to it", LATER, async || {
        if contains(volume, b"while-cut-off/") { Ok(()) } else { Err("no row yet".to_owned()) }
    })
    .await;
}

/// Whether a file below a folder has these bytes.
fn contains(folder: &Path, needle: &[u8]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return contains(&path, needle);
        }
        // A file may go away meanwhile.
        stands_in(&fs::read(&path).unwrap_or_default(), needle)
    })
}

/// Whether a needle without zeros stands in these bytes. Most of a segment is zeros, which are passed over.
fn stands_in(bytes: &[u8], needle: &[u8]) -> bool {
    const PAGE: usize = 4096;
    let zeros = [0; PAGE];
    (0..bytes.len()).step_by(PAGE).any(|begin| {
        let page = &bytes[begin..bytes.len().min(begin + PAGE)];
        // A needle may begin in this page and end in the next one.
        let end = bytes.len().min(begin + PAGE + needle.len() - 1);
        page != &zeros[..page.len()] && bytes[begin..end].windows(needle.len()).any(|window| window == needle)
    })
}

#[test]
fn a_needle_is_found_across_pages() {
    let mut bytes = vec![0; 3 * 4096];
    bytes[2 * 4096 - 3..2 * 4096 + 3].copy_from_slice(b"needle");
    assert!(stands_in(&bytes, b"needle") && !stands_in(&bytes, b"noodle"));
}
