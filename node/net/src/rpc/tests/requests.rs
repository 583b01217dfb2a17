//! The number of a client's request goes with its calls, and the other node's log names it.

use std::time::Duration;

use sherd_core::message::{ReadPurpose, ShardRange, ValueLimit};
use sherd_core::record::Home;

use super::conformance::list;
use super::shards::{BYTES, header, range, shard};
use super::{Pair, target};
use sherd_store::observe::trace::{RequestTrace, SlowRequests};
use sherd_store::peer::{Peer, RegisterPeer, ShardPeer};
use sherd_store::testing::LogBuffer;
use sherd_store::testing::body;

/// A node paces what peers move on its volumes for their heals, and counts it for no client.
#[tokio::test]
async fn bytes_that_peers_move_for_heals_are_counted_as_healing_of_their_volume() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let mut sink = peer.create_shard(volume, &target("k"), header(2), true);
    sink.append(vec![body(2, BYTES)]).await.expect("it is taken");
    sink.finish().await.expect("it is stored");
    let lanes = pair.volumes.heal_lanes();
    assert_eq!(lanes.charged_most(), BYTES as u64);
    let length = 100_000;
    let by_upkeep = ShardRange { wanted: ReadPurpose::ByUpkeep, ..range(2, Home::File, length) };
    for (wanted, healed) in [(by_upkeep, length as u64), (range(2, Home::File, length), 0)] {
        peer.read_shard(volume, wanted).await.expect("it is read");
        assert_eq!(lanes.charged_most(), healed);
    }
    peer.verify_shard(volume, shard(2), Home::File).await.expect("it is whole");
    assert_eq!(lanes.charged_most(), BYTES as u64);
    assert_eq!(pair.volumes.call_times().counts().total(), 0);
    pair.close().await;
}

/// One thread: what it logs is kept, whichever end it works for.
#[tokio::test]
async fn a_slow_call_is_told_where_it_was_slow_with_the_request_that_it_was_for() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let log = LogBuffer::default();
    let kept = log.keep("info");
    let told = |request: &str| {
        let text = log.text();
        let lines = text.lines().filter(|line| line.contains("slow call for another node's request"));
        lines.filter(|line| line.contains(request)).count()
    };
    peer.read(volume, &target("a"), ValueLimit::USUAL).await.expect("it answers");
    assert_eq!(told(""), 0, "upkeep's calls are for no request: {}", log.text());
    peer.put_shard(volume, shard(9), &target("k"), vec![body(9, 1000)]).await.expect("it is stored");
    let timed_count = || pair.volumes.call_times().counts().total();
    assert_eq!(timed_count(), 0, "and their times are none of a client's");

    let calls = async |id: u64, kind: &str| {
        let trace = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
        trace.identify(id);
        let work = async {
            match kind {
                "row" => drop(peer.read(volume, &target("a"), ValueLimit::USUAL).await.expect("it answers")),
                "put" => {
                    let put = peer.put_shard(volume, shard(1), &target("k"), vec![body(1, 1000)]);
                    put.await.expect("it is stored");
                }
                "get" => {
                    drop(peer.read_shard(volume, range(1, Home::Packed, 1000)).await.expect("it is read"));
                }
                _ => {
                    let mut sink = peer.create_shard(volume, &target("k"), header(2), false);
                    sink.append(vec![body(2, BYTES)]).await.expect("it is taken");
                    sink.finish().await.expect("it is stored");
                }
            }
        };
        trace.scope(work).await;
    };
    for (id, kind) in [(0xA1, "row"), (0xA2, "put"), (0xA3, "get"), (0xA4, "file")] {
        let before = timed_count();
        calls(id, kind).await;
        if ["put", "file"].contains(&kind) {
            assert!(timed_count() > before, "{kind}: the device was asked for a client");
        }
        let request = format!("request_id={id:016X}");
        assert!(told(&request) >= 1, "{kind} says {request}: {}", log.text());
    }
    drop(kept);
    pair.close().await;
}

/// One thread, so that what it logs is kept.
#[tokio::test]
async fn each_call_of_a_request_is_a_line_where_debug_is_logged_and_none_elsewhere() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let calls = async || {
        peer.read(volume, &target("a"), ValueLimit::USUAL).await.expect("it answers");
        peer.put_shard(volume, shard(1), &target("k"), vec![body(1, 1000)]).await.expect("it is stored");
        peer.read_shard(volume, range(7, Home::Packed, 10)).await.expect_err("there is none");
        let hung = pair.hang_reads();
        drop(peer.list(volume, &list()));
        drop(peer.list(volume, &list()));
        let before = pair.metrics.rpc.register.dropped.get();
        pair.until("one is dropped", || pair.metrics.rpc.register.dropped.get() > before).await;
        drop(hung);
    };
    let trace = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
    trace.identify(0xB1);
    for (level, is_request, is_logged) in [
        ("info", true, false),
        ("info,peer_calls=debug", false, false),
        ("info,peer_calls=debug", true, true),
    ] {
        let log = LogBuffer::default();
        let kept = log.keep(level);
        if is_request {
            trace.scope(calls()).await;
        } else {
            calls().await;
        }
        drop(kept);
        let text = log.text();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("call to another node")).collect();
        if !is_logged {
            assert_eq!(lines.len(), 0, "{text}");
            continue;
        }
        for (call, outcome) in
            [("read", "answered"), ("put_shard", "answered"), ("read_shard", "failed"), ("list", "dropped")]
        {
            let (call, outcome) = (format!("call=\"{call}\""), format!("outcome=\"{outcome}\""));
            let is_line = |line: &&&str| line.contains(&call) && line.contains(&outcome);
            let line = lines.iter().find(is_line).unwrap_or_else(|| panic!("{call} {outcome}: {text}"));
            for word in
                ["request_id=00000000000000B1", "node=\"n2\"", "took_us=", &format!("volume={volume}")]
            {
                assert!(line.contains(word), "{word}: {line}");
            }
        }
    }
    pair.close().await;
}
