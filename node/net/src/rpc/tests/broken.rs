//! Connections that break, hang and come back.

use futures::FutureExt;

use sherd_core::message::ValueLimit;
use sherd_core::record::Home;

use super::conformance::list;
use super::shards::{header, range, shard};
use super::{Pair, reason, target};
use sherd_store::peer::{Peer, RegisterPeer};
use sherd_store::testing::{DEADLINE, between_looks, body};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_answers_its_calls_and_comes_back() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    // The answers stay on the way: no call is answered before the connection breaks.
    pair.relay.hold(true);
    let waiting: Vec<_> = (0..100).map(|_| peer.read(volume, &target("a"), ValueLimit::USUAL)).collect();
    pair.relay.cut();
    for pending in waiting {
        let told = reason(pending.await);
        assert!(!told.contains("in time"), "no call waits for its own deadline: {told}");
    }
    pair.until("the link sees it", || pair.link.down_because().is_some() || pair.link.is_up()).await;
    pair.relay.hold(false);
    let back = async {
        while peer.read(volume, &target("a"), ValueLimit::USUAL).await.is_err() {
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, back).await.expect("it comes back");
    let put = async {
        while peer.put_shard(volume, shard(1), &target("k"), vec![body(1, 1000)]).await.is_err() {
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, put).await.expect("bytes come back, too");
    pair.close().await;
}

/// Else a write that lost a shard to it would take it for a volume that is up and has no room for the moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_owes_an_answer_is_unreachable_and_not_busy_when_enough_bytes_wait_for_it() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let put = |n| peer.put_shard(volume, shard(n), &target("k"), vec![body(n, 1000)]);
    let hung = pair.hang_reads();
    let owed = peer.list(volume, &list());
    let begin = |n| peer.create_shard(volume, &target("k"), header(n), false);
    let sinks: Vec<_> = (0..32).map(|n| begin(100 + n)).collect();
    pair.until("a call is overdue", || peer.has_overdue(volume)).await;
    let told = reason(put(2).await);
    assert!(told.contains("late"), "{told}");
    assert!(reason(begin(200).append(vec![body(3, 1000)]).await).contains("late"));
    drop(sinks);
    let again = async { while put(2).await.is_err() {} };
    tokio::time::timeout(DEADLINE, again).await.expect("there are fewer transfers");
    drop(hung);
    assert!(
        matches!(owed.await, Ok(_) | Err(sherd_core::message::Error::Busy)),
        "one that waited for long is to be asked again"
    );
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_stopped_costs_no_more_than_its_pings() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    pair.relay.hold(true);
    let call = peer.read(volume, &target("a"), ValueLimit::USUAL);
    let read = peer.read_shard(volume, range(1, Home::Packed, 10));
    for told in [reason(call.await), reason(read.await)] {
        assert!(!told.contains("in time"), "no call waits for its own deadline: {told}");
    }
    // While it is down each call is answered at once, and nothing queues behind it.
    pair.until("the link sees it", || pair.link.down_because().is_some()).await;
    let told = peer.read(volume, &target("a"), ValueLimit::USUAL).now_or_never();
    reason(told.expect("it is answered before anything was sent"));
    pair.relay.hold(false);
    pair.connected().await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_its_streams_and_all_its_tasks() {
    let pair = Pair::new().await;
    pair.stop_server.cancel();
    pair.until("the link is down", || pair.link.down_because().is_some()).await;
    reason(pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await);
    pair.close().await;
}
