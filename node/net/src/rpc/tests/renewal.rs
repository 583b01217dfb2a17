//! Connections that are renewed, and end, by their age and by the certificates that they began with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sherd_core::env::Clock;
use sherd_core::message::{Error, ValueLimit};
use sherd_core::record::Home;
use sherd_trust::authority::Authority;

use super::shards::{BYTES, header, range, shard};
use super::{CLUSTER, Pair, reason, target};
use crate::tls::Role;
use sherd_store::machine::system::SystemClock;
use sherd_store::peer::{Peer, RegisterPeer, ShardPeer, ShardSink};
use sherd_store::testing::{DEADLINE, between_looks, body};

/// The age of connections that are renewed: at half of it at the latest.
const AGE: Duration = Duration::from_secs(2);
/// The same where no call may fail: on a machine with other work the client may be slow by seconds.
const PATIENT_AGE: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_connections_and_certificates_are_renewed() {
    let pair = Pair::of_age(CLUSTER, Role::Node, [PATIENT_AGE; 2]).await;
    pair.connected().await;
    let (is_over, numbers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(1)));
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (peer, volume) = (pair.peer.clone(), pair.volume);
        let (is_over, numbers) = (Arc::clone(&is_over), Arc::clone(&numbers));
        load.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let n = numbers.fetch_add(1, Ordering::Relaxed);
                peer.read(volume, &target("a"), ValueLimit::USUAL).await.expect("a small call");
                let payload = body(n, 50_000);
                peer.put_shard(volume, shard(n), &target("k"), vec![payload.clone()])
                    .await
                    .expect("bytes sent");
                let read = peer.read_shard(volume, range(n, Home::Packed, payload.len())).await;
                assert_eq!(read.expect("bytes received").concat(), payload);
                peer.delete_shard(volume, shard(n), Home::Packed).await.expect("a small call");
            }
        });
    }
    // A file that is being written spans the renewal.
    let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(0), false);
    let whole = body(7, BYTES);
    sink.append(vec![whole.slice(..BYTES / 2)]).await.expect("its first half");
    let link = pair.metrics.link("n2");
    pair.until("the bytes have another connection", || link.bytes_renewed.get() > 0).await;
    sink.append(vec![whole.slice(BYTES / 2..)]).await.expect("its second half");
    sink.finish().await.expect("it ends where it began");

    let mut last = pair.shown_expiry_s();
    for hours in 2..5 {
        for name in ["n1", "n2"] {
            pair.authorities.issue(name, Role::Node, Duration::from_hours(hours));
        }
        pair.until("the new certificate is shown", || pair.shown_expiry_s() > last).await;
        last = pair.shown_expiry_s();
    }
    pair.until("small calls have other connections", || link.calls_renewed.get() > 2).await;
    is_over.store(true, Ordering::Relaxed);
    load.join_all().await;
    let connections = &pair.metrics.rpc.connections;
    pair.until("those before have ended", || connections.get() == 2).await;
    pair.close().await;
}

/// Each connection has a file that is written and never finished.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_renewed_while_many_others_end_and_the_oldest_of_these_is_cut() {
    let pair = Pair::of_age(CLUSTER, Role::Node, [AGE / 2, LONG]).await;
    pair.connected().await;
    let (link, mut sinks): (_, Vec<Box<dyn ShardSink>>) = (pair.metrics.link("n2"), Vec::new());
    let (mut is_cut, mut n) = (false, 0);
    while !is_cut {
        n += 1;
        assert!(n < 64, "each renewal keeps a connection");
        let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(n), false);
        // A call that many renewals overtake has the oldest connection when it comes through.
        let Ok(()) = sink.append(vec![body(n, 1000)]).await else { continue };
        if let Some(oldest) = sinks.first_mut() {
            is_cut = oldest.append(vec![body(0, 10)]).await.is_err();
        }
        sinks.push(sink);
        let renewed = link.bytes_renewed.get();
        pair.until("the bytes have another connection", || link.bytes_renewed.get() > renewed).await;
    }
    assert!(sinks.len() > 8, "it had time for its last calls");
    for sink in sinks.iter_mut().rev().take(4) {
        sink.append(vec![body(1, 10)]).await.expect("the younger ones go on");
    }
    drop(sinks);
    let connections = &pair.metrics.rpc.connections;
    pair.until("those before have ended", || connections.get() == 2).await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_ends_at_its_age_where_the_peer_is_not_trusted_any_more() {
    let pair = Pair::of_age(CLUSTER, Role::Node, [AGE, LONG]).await;
    pair.connected().await;
    // The server trusts another authority alone, and shows a certificate of it.
    let other = Authority::init(CLUSTER, SystemClock::new().wall_ms()).expect("an authority");
    pair.authorities.issue_by(&other, "n2", Role::Node, LONG);
    pair.until("the link is down", || pair.link.down_because().is_some()).await;
    reason(pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await);
    // A read of what is not there is answered while there is a connection.
    let bytes_end = async {
        while pair.peer.read_shard(pair.volume, range(1, Home::Packed, 10)).await == Err(Error::NotFound) {
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, bytes_end).await.expect("bytes end, too");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_ends_connections_that_its_callers_do_not_renew() {
    let pair = Pair::of_age(CLUSTER, Role::Node, [LONG, AGE]).await;
    pair.connected().await;
    let first = pair.shown_expiry_s();
    pair.authorities.issue("n2", Role::Node, Duration::from_hours(2));
    pair.until("both are made again", || pair.shown_expiry_s() > first && pair.link.is_up()).await;
    let link = pair.metrics.link("n2");
    assert_eq!((link.calls_renewed.get(), link.bytes_renewed.get()), (0, 0), "the server ended them");
    pair.close().await;
}
