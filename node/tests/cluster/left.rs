//! A write whose client has gone before a stopped gateway reads it is not made: not over a later one that was
//! acknowledged.
//!
//! The whole of a PUT lies in the socket of a gateway that is suspended. Its client leaves, or is still there
//! when others take a node that stands still for down, and writes the same and then another value through
//! another node. The gateway goes on, reads the PUT, and must not carry it out.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Body, Dice};
use crate::harness::raw::Raw;
use crate::harness::wait::{LATER, SOON, bounded, eventually};

/// The gateway that is suspended, and the one that its clients turn to.
const GATEWAY: usize = 2;
const OTHER: usize = 0;
/// How long after it goes on the gateway begins no write whose client may have asked another node. A machine
/// that is busy may let it read its sockets later than that.
const DOUBT: Duration = Duration::from_secs(2);
/// In the key's row, and in shards.
const SIZES: [usize; 2] = [1 << 10, 100 << 10];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_client_has_gone_before_a_stopped_gateway_reads_it_is_not_made() {
    let mut dice = Dice::of_this_run("left");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let node = cluster.node(GATEWAY);
    for (stands_still, leaves) in [(Duration::from_secs(1), true), (Duration::from_secs(6), false)] {
        let writes = SIZES.map(|len| {
            let [first, second] = [dice.next(), dice.next()].map(|id| Body { id, len });
            (format!("left/{leaves}/{len}"), first, second)
        });
        let received = node.metrics().await.get(RECEIVED);
        node.signal(Signal::STOP);
        let going_on = tokio::time::Instant::now() + stands_still;
        let mut left = Vec::new();
        for (key, first, second) in &writes {
            let mut client = Raw::put(&clients[GATEWAY], key, first.len).await;
            client.body(&first.bytes()).await.expect("a socket takes it");
            left.extend((!leaves).then_some(client));
            for body in [first, second] {
                bounded("a PUT", LATER, clients[OTHER].put(key, *body)).await.expect("three nodes take it");
            }
        }
        tokio::time::sleep_until(going_on).await;
        node.signal(Signal::CONT);
        eventually("the gateway reads its sockets", SOON, async || {
            let metrics = node.metrics().await;
            let came = metrics.get(RECEIVED) - received;
            #[expect(clippy::cast_precision_loss, reason = "some kilobytes")]
            let is_read = came >= SIZES.iter().sum::<usize>() as f64;
            let is_done = metrics.get("sherd_s3_requests_in_flight") == 0.0;
            if is_read && is_done { Ok(()) } else { Err(format!("{came} bytes, done: {is_done}")) }
        })
        .await;
        let mut begun = [false; SIZES.len()];
        for (client, begun) in left.iter_mut().zip(&mut begun) {
            *begun = client.head().await.is_some();
            assert!(!*begun || going_on.elapsed() > DOUBT, "the connection closes without an answer");
        }
        for ((key, _, second), begun) in writes.iter().zip(begun) {
            let read = bounded("a GET", LATER, clients[OTHER].get(key)).await;
            assert!(begun || read == Ok(Some(*second)), "{key} after {stands_still:?}: {read:?}");
        }
    }
}

/// Bytes of requests that arrived.
const RECEIVED: &str = "sherd_s3_bytes_total{direction=\"received\"}";
