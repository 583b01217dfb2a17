//! One suite for every peer: the promises of `peer`'s traits, on each way to a volume.
//!
//! Each story runs on a [`LocalPeer`](sherd_store::peer::LocalPeer) and on a
//! [`GrpcPeer`](crate::grpc::GrpcPeer) through a relay, over one volume. A call that runs on without its
//! caller is found done; one that ends leaves nothing; and a volume is late while it owes an answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use sherd_core::heal::HealEntry;
use sherd_core::id::{BucketId, Epoch, Sequence};
use sherd_core::message::{Control, Error, ListScan, RowScan, ValueLimit};
use sherd_core::record::Home;
use sherd_core::register::CommitHint;

use super::registers::{accept, ballot};
use super::shards::{BYTES, files, header, range, shard};
use super::{Pair, key, target};
use sherd_store::peer::VolumeRoute;
use sherd_store::testing::{DEADLINE, between_looks, body};

/// The ways to the volume of a pair, each with a number for names of its own.
fn routes(pair: &Pair) -> [(u64, VolumeRoute); 2] {
    let (local, remote) = (Arc::new(pair.local.clone()), Arc::new(pair.peer.clone()));
    [(1, VolumeRoute::through(pair.volume, &local)), (2, VolumeRoute::through(pair.volume, &remote))]
}

/// Looks until it sees what it waits for.
async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let seen = async {
        while !look().await {
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, seen).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

pub(super) fn list() -> ListScan {
    ListScan {
        bucket: BucketId([1; 16]),
        epoch: Epoch::FIRST,
        deletion: None,
        prefix: Bytes::new(),
        from: Bytes::new(),
        delimiter: None,
        limit: 10,
        passed_max: sherd_core::message::LIST_PASSED_MAX,
    }
}

fn rows() -> RowScan {
    let (since, until) = (Sequence(0), Sequence::MAX);
    RowScan { epoch: Epoch::FIRST, after: None, since, until, limit: 10, want_value: false }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_a_volume_is_done_though_nobody_waits_for_it() {
    let pair = Pair::new().await;
    for (number, VolumeRoute { volume, peer }) in routes(&pair) {
        let (name, packed) = (target(&format!("row {number}")), shard(10 + number));
        let ballot = ballot(number);
        drop(peer.accept(volume, &name, &accept(ballot), None));
        let hint = CommitHint { ballot, is_everywhere: true, positions: Arc::default() };
        peer.commit(volume, &name, &hint);
        until("the row is accepted, and its commit did not overtake it", async || {
            let vote = peer
                .read(volume, &name, ValueLimit::NOTHING)
                .await
                .ok()
                .and_then(|answer| answer.result.ok());
            vote.and_then(|vote| vote.row).is_some_and(|row| row.head.ballot == ballot && row.head.committed)
        })
        .await;

        drop(peer.put_shard(volume, packed, &name, vec![body(number, 5_000)]));
        until("the shard is put", async || peer.shard_bytes(volume, packed, Home::Packed).await == Ok(5_000))
            .await;
        drop(peer.delete_shard(volume, packed, Home::Packed));
        let gone = async || peer.shard_bytes(volume, packed, Home::Packed).await == Err(Error::NotFound);
        until("the shard is deleted", gone).await;

        let entry = HealEntry { key: key(&format!("heal {number}")), data: None, since_ms: 1 };
        drop(peer.heal_put(volume, &entry));
        until("the heal is queued", async || {
            let heals = peer.heals(volume, None, 10).await.unwrap_or_default();
            heals.iter().any(|(id, _)| *id == entry.id())
        })
        .await;

        let stale = target(&format!("epoch {number}"));
        drop(peer.control(volume, Control::RecordEpoch { slot: stale.slot, epoch: Epoch(2) }));
        until("the epoch is recorded", async || {
            peer.read(volume, &stale, ValueLimit::NOTHING).await.is_ok_and(|answer| answer.result.is_err())
        })
        .await;
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_may_be_repeated() {
    let pair = Pair::new().await;
    for (number, VolumeRoute { volume, peer }) in routes(&pair) {
        let (name, packed) = (target(&format!("twice {number}")), shard(20 + number));
        let accept = accept(ballot(number));
        for _ in 0..2 {
            let accepted = peer.accept(volume, &name, &accept, None).await.expect("it answers");
            assert_eq!(accepted.result, Ok(()));
        }
        for _ in 0..2 {
            assert!(peer.put_shard(volume, packed, &name, vec![body(number, 5_000)]).await.is_ok());
        }
        for _ in 0..2 {
            assert_eq!(peer.delete_shard(volume, packed, Home::Packed).await, Ok(()));
        }
        let read = peer.read_shard(volume, range(20 + number, Home::Packed, 10)).await;
        assert_eq!(read, Err(Error::NotFound));
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_file_is_there_whole_or_not_at_all() {
    let pair = Pair::new().await;
    for (number, VolumeRoute { volume, peer }) in routes(&pair) {
        // Given up between two appends, and in the middle of one.
        for (n, is_under_way) in [(30 + number, false), (40 + number, true)] {
            let mut sink = peer.create_shard(volume, &target("k"), header(n), false);
            sink.append(vec![body(n, 1 << 20)]).await.expect("appended");
            assert_eq!(files(&pair), 1, "the file is begun");
            let append = is_under_way.then(|| sink.append(vec![body(n, 1 << 20)]));
            drop((sink, append));
            until("the file is removed", async || files(&pair) == 0).await;
            assert_eq!(peer.shard_bytes(volume, shard(n), Home::File).await, Err(Error::NotFound));
        }
        // A finish that was begun runs on.
        let n = 50 + number;
        let mut sink = peer.create_shard(volume, &target("k"), header(n), false);
        sink.append(vec![body(n, BYTES)]).await.expect("appended");
        drop(sink.finish());
        let whole = async || peer.shard_bytes(volume, shard(n), Home::File).await == Ok(BYTES as u64);
        until("the file is finished", whole).await;
        let read = peer.read_shard(volume, range(n, Home::File, BYTES)).await.expect("it is read");
        assert_eq!(read.concat(), body(n, BYTES));
        assert_eq!(peer.delete_shard(volume, shard(n), Home::File).await, Ok(()));
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_late_while_it_owes_an_answer() {
    let pair = Pair::new().await;
    for (_, route) in routes(&pair) {
        let hung = pair.hang_reads();
        let asked = tokio::time::Instant::now();
        let pending = route.peer.list(route.volume, &list());
        assert!(!route.is_late(), "it has its time");
        until("the volume is late", async || route.is_late()).await;
        assert!(asked.elapsed() >= Duration::from_secs(1), "after {:?}", asked.elapsed());
        // Another call's answer is not the one that is owed.
        let position = route.peer.position(route.volume).await;
        assert!(position.is_ok() && route.is_late());
        drop(hung);
        // A volume that was waited for for long is to be asked again.
        let answered = pending.await.map(|answer| answer.result.is_ok());
        assert!(matches!(answered, Ok(true) | Err(Error::Busy)), "late is not gone: {answered:?}");
        assert!(!route.is_late());
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_read_that_is_dropped_leaves_its_place_to_others_before_its_deadline() {
    let pair = Pair::new().await;
    for (_, VolumeRoute { volume, peer }) in routes(&pair) {
        let hung = pair.hang_reads();
        // Over the network each holds a page of a mebibyte, and 24 are all that one volume's may hold.
        let mut oldest = peer.heals(volume, None, 10);
        let reads: Vec<_> = (1..24).map(|_| peer.heals(volume, None, 10)).collect();
        // Behind it on the stream, and answered from memory: by then the read has its place, or was refused
        // one.
        let has_place = async || {
            let read = peer.heals(volume, None, 10);
            assert!(peer.position(volume).await.is_ok());
            read.now_or_never().is_none()
        };
        drop(reads);
        until("there is a place", has_place).await;
        assert!(
            (&mut oldest).now_or_never().is_none(),
            "one that was not dropped has not reached its deadline"
        );
        drop(hung);
        drop(oldest.await);
        assert!(peer.heals(volume, None, 10).await.is_ok());
    }
    pair.close().await;
}

/// Scans wait for their turn, and leave the bytes alone that writes need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_scans_that_wait_keep_no_write_out() {
    let pair = Pair::new().await;
    for (number, VolumeRoute { volume, peer }) in routes(&pair) {
        let hung = pair.hang_reads();
        let scans: Vec<_> = (0..100).map(|_| peer.rows(volume, &rows())).collect();
        let packed = target(&format!("beside {number}"));
        let stored = peer.put_shard(volume, shard(80 + number), &packed, vec![body(number, 60_000)]);
        assert!(stored.await.is_ok());
        assert!(peer.accept(volume, &packed, &accept(ballot(70 + number)), None).await.is_ok());
        drop(hung);
        for scan in scans {
            assert!(scan.await.is_ok_and(|answer| answer.result.is_ok()), "each has its turn");
        }
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_a_hung_volume_is_done_when_it_goes_on_though_it_was_dropped() {
    let pair = Pair::new().await;
    for (number, VolumeRoute { volume, peer }) in routes(&pair) {
        let packed = target(&format!("hung {number}"));
        let (ballot, stored) = (ballot(number), shard(60 + number));
        let (log, writes, reads) = (pair.hang_log(), pair.hang_writes(), pair.hang_reads());
        drop(peer.accept(volume, &packed, &accept(ballot), None));
        drop(peer.put_shard(volume, stored, &packed, vec![body(number, 5_000)]));
        let entry = HealEntry { key: key(&format!("hung {number}")), data: None, since_ms: 1 };
        drop(peer.heal_put(volume, &entry));
        if number == 2 {
            // Dropped behind the accept, and its number is sent: the calls before it that end have ended by
            // then.
            drop(peer.rows(volume, &rows()));
            pair.until("the read is dropped", || pair.metrics.rpc.register.dropped.get() > 0).await;
            let dropped =
                [&pair.metrics.rpc.register, &pair.metrics.rpc.upkeep].map(|calls| calls.dropped.get());
            assert_eq!(dropped, [1, 0]);
        }
        drop((log, writes, reads));
        until("the row is accepted", async || {
            let vote = peer
                .read(volume, &packed, ValueLimit::NOTHING)
                .await
                .ok()
                .and_then(|answer| answer.result.ok());
            vote.and_then(|vote| vote.row).is_some_and(|row| row.head.ballot == ballot)
        })
        .await;
        until("the shard is put", async || peer.shard_bytes(volume, stored, Home::Packed).await == Ok(5_000))
            .await;
        until("the heal is queued", async || {
            let heals = peer.heals(volume, None, 10).await.unwrap_or_default();
            heals.iter().any(|(id, _)| *id == entry.id())
        })
        .await;
    }
    pair.close().await;
}

/// Callers that take other volumes' answers leave before the volume is late: it becomes late nevertheless, so
/// that later callers do not wait for it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_late_though_every_caller_left_soon() {
    let pair = Pair::new().await;
    for (_, route) in routes(&pair) {
        let hung = pair.hang_reads();
        for _ in 0..3 {
            drop(route.peer.list(route.volume, &list()));
        }
        assert!(!route.is_late(), "it has its time");
        until("the volume is late", async || route.is_late()).await;
        drop(hung);
        until("it answered", async || !route.is_late()).await;
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_stopped_is_late_and_used_again_when_it_goes_on() {
    let pair = Pair::new().await;
    let [_, (_, route)] = routes(&pair);
    pair.relay.hold(true);
    let pending = route.peer.read(route.volume, &target("a"), ValueLimit::USUAL);
    until("the volume is late", async || route.is_late()).await;
    pair.relay.hold(false);
    drop(pending.await);
    until("it answers again", async || {
        route.peer.read(route.volume, &target("a"), ValueLimit::USUAL).await.is_ok() && !route.is_late()
    })
    .await;
    pair.close().await;
}
