//! Shards of several MiB through a real connection.

use std::path::Path;

use bytes::Bytes;
use futures::FutureExt as _;

use sherd_core::id::{DataId, ProposerId, ShardId, Timestamp};
use sherd_core::message::{
    Error, LeaseAnswer, ReadPurpose, ReaderLeases, ShardFileHeader, ShardRange, ShardScan,
};
use sherd_core::record::Home;

use super::{Pair, key, reason, target};
use sherd_store::peer::{Peer, ShardPeer, ShardSink};
use sherd_store::testing::{DEADLINE, between_looks, body};

pub(super) const BYTES: usize = 5 << 20;

pub(super) fn shard(n: u64) -> ShardId {
    ShardId { data: DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) }, index: 0 }
}

pub(super) fn header(n: u64) -> ShardFileHeader {
    ShardFileHeader {
        shard: shard(n),
        key: key("k"),
        data_shards: 1,
        parity_shards: 0,
        stripe_unit: 1 << 18,
        shard_bytes: BYTES as u64,
    }
}

pub(super) fn range(n: u64, home: Home, length: usize) -> ShardRange {
    ShardRange { shard: shard(n), home, offset: 0, length: length as u64, wanted: ReadPurpose::ByClient }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packed_shard_is_put_read_verified_paged_and_deleted() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let payload = body(1, 200_000);
    let pieces = payload.chunks(70_000).map(Bytes::copy_from_slice).collect();
    let life = peer.put_shard(volume, shard(1), &target("k"), pieces).await.expect("it is stored");
    assert_eq!(Ok(life), pair.local.life(volume));
    let read = peer.read_shard(volume, range(1, Home::Packed, payload.len())).await.expect("it is read");
    assert_eq!(read.concat(), payload);
    assert_eq!(peer.shard_bytes(volume, shard(1), Home::Packed).await, Ok(200_000));
    assert_eq!(peer.verify_shard(volume, shard(1), Home::Packed).await, Ok(200_000));
    let scan = ShardScan::Packed { after: None, limit: 10 };
    let page = peer.shards(volume, scan).await.expect("a page");
    assert_eq!(page, pair.local.shards(volume, scan).await.expect("a page"));
    assert_eq!(page.shards.len(), 1);
    assert_eq!(peer.delete_shard(volume, shard(1), Home::Packed).await, Ok(()));
    let gone = peer.read_shard(volume, range(1, Home::Packed, payload.len())).await;
    assert_eq!(gone, Err(Error::NotFound));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_a_reader_of_another_node_has_a_lease_on_is_not_released() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let life = peer.put_shard(volume, shard(1), &target("k"), vec![body(1, 100)]).await;
    assert_eq!(life, pair.local.life(volume));
    let leases = ReaderLeases { holder: ProposerId(1), data: vec![shard(1).data], is_end: false };
    assert_eq!(peer.lease(volume, &leases).await, Ok(LeaseAnswer { refused_count: 0 }));
    assert_eq!(peer.release_shard(volume, shard(1), Home::Packed).await, Ok(false));
    assert_eq!(peer.shard_bytes(volume, shard(1), Home::Packed).await, Ok(100));
    let end = ReaderLeases { is_end: true, ..leases };
    assert_eq!(peer.lease(volume, &end).await, Ok(LeaseAnswer::default()));
    assert_eq!(peer.release_shard(volume, shard(1), Home::Packed).await, Ok(true));
    assert_eq!(peer.shard_bytes(volume, shard(1), Home::Packed).await, Err(Error::NotFound));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_several_mebibytes_is_appended_finished_and_read_back() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let bytes = body(2, BYTES);
    let mut sink = peer.create_shard(volume, &target("k"), header(2), false);
    for piece in bytes.chunks((2 << 20) + 123_456) {
        sink.append(piece.chunks(300_000).map(Bytes::copy_from_slice).collect()).await.expect("appended");
    }
    assert_eq!(Ok(sink.finish().await.expect("durable")), pair.local.life(volume));
    assert_eq!(abandoned(&pair), [], "its writer was told");
    let read = peer.read_shard(volume, range(2, Home::File, BYTES)).await.expect("it is read");
    assert_eq!(read.concat(), bytes);
    let mut middle = range(2, Home::File, 3 << 20);
    middle.offset = 1_000_001;
    let read = peer.read_shard(volume, middle).await.expect("it is read");
    assert_eq!(read.concat(), bytes[1_000_001..][..3 << 20]);
    assert_eq!(peer.verify_shard(volume, shard(2), Home::File).await, Ok(BYTES as u64));
    assert_eq!(peer.delete_shard(volume, shard(2), Home::File).await, Ok(()));
    assert_eq!(peer.shard_bytes(volume, shard(2), Home::File).await, Err(Error::NotFound));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_not_finished_is_removed_at_the_other_end() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let mut sink = peer.create_shard(volume, &target("k"), header(3), false);
    sink.append(vec![body(3, 1 << 20)]).await.expect("appended");
    assert_eq!(files(&pair), 1, "the file is begun");
    drop(sink);
    removed(&pair).await;
    drop(begun_again(&pair, 3, body(3, 10)).await);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_connection_breaks_is_removed_at_the_other_end() {
    let pair = Pair::new().await;
    let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(4), false);
    sink.append(vec![body(4, 1 << 20)]).await.expect("appended");
    assert_eq!(files(&pair), 1, "the file is begun");
    let mut heal = pair.peer.create_shard(pair.volume, &target("k"), header(5), true);
    heal.append(vec![body(5, 1 << 20)]).await.expect("appended");
    pair.relay.cut();
    let failed = tokio::time::timeout(DEADLINE, sink.append(vec![body(4, 1 << 20)])).await;
    reason(failed.expect("it is answered"));
    drop(heal);
    removed(&pair).await;
    assert_eq!(
        abandoned(&pair),
        [shard(4).data],
        "the sweep looks after the rest of it; a heal's has a name"
    );
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_volume_ends_the_file_and_is_told() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    for n in 0..2 {
        let mut sink = peer.create_shard(volume, &target("k"), header(5), n == 1);
        sink.append(vec![body(5, BYTES)]).await.expect("appended");
        sink.finish().await.expect("durable");
    }
    let mut twice = peer.create_shard(volume, &target("k"), header(5), false);
    assert!(twice.append(vec![body(5, BYTES)]).await.is_err(), "a data id is written once");
    let too_much = range(5, Home::File, 17 << 20);
    let refused = reason(peer.read_shard(volume, too_much).await);
    assert!(refused.contains("length"), "{refused}");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_too_many_ends_the_file_behind_those_under_way() {
    let pair = Pair::new().await;
    let hung = pair.hang_writes();
    let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(6), false);
    let mut under_way = Vec::new();
    let refused = loop {
        let mut append = sink.append(vec![body(6, 1000)]);
        match (&mut append).now_or_never() {
            Some(refused) => break refused,
            None => under_way.push(append),
        }
    };
    assert_eq!(refused, Err(Error::Busy));
    drop(hung);
    for append in under_way {
        assert_eq!(append.await, Ok(()), "it came before");
    }
    removed(&pair).await;
    assert_eq!(sink.append(vec![body(6, 1000)]).await, Err(Error::Busy));
    assert_eq!(sink.finish().await, Err(Error::Busy));
    pair.close().await;
}

/// Data that waits for the sweep.
pub(super) fn abandoned(pair: &Pair) -> Vec<DataId> {
    pair.volumes.all()[0].abandoned().take_older(Timestamp::MAX).into_iter().map(|(data, _)| data).collect()
}

pub(super) async fn removed(pair: &Pair) {
    let gone = async {
        while files(pair) > 0 {
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("removed in time");
}

/// A writer of a shard whose file was removed, with its first bytes. The name is free a moment after the file
/// is gone.
pub(super) async fn begun_again(pair: &Pair, n: u64, bytes: Bytes) -> Box<dyn ShardSink> {
    let begun = async {
        loop {
            let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(n), false);
            match sink.append(vec![bytes.clone()]).await {
                Ok(()) => return sink,
                Err(Error::Corrupt { what }) if what.contains("is being written") => between_looks().await,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("the name is free again")
}

/// The shard files of the server's volume, finished or not.
pub(super) fn files(pair: &Pair) -> usize {
    fn count(directory: &Path) -> usize {
        let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
        entries.flatten().map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
    }
    count(&pair.directories.paths()[0].join("shards"))
}
