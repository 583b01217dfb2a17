//! Bodies over a whole node whose budgets have room for little.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _, TryStreamExt as _};

use sherd_core::erasure::Geometry;
use sherd_core::id::{RegisterKey, SetId, VolumeId};
use sherd_core::limits::{LARGE_STRIPE_UNIT_BYTES, STRIPE_UNIT_BYTES, STRIPE_UNIT_BYTES_MAX};
use sherd_core::message;
use sherd_core::placement;
use sherd_core::record::DataRef;

use parking_lot::Mutex;

use crate::machine::budget::Budget;
use crate::machine::reclaim::Reclaim;
use crate::object::{Error, UnavailableReason, Upload, UploadBody};
use crate::observe::trace::{RequestTrace, SlowRequests};
use crate::peer::scripted::{Fate, ScriptedPeer, says};
use crate::register::RegisterTimeouts;
use crate::stripe::{self, ReadError};
use crate::upkeep::tests::{DEADLINE, Directories, Node, body, upload};

/// A pool whose halves are a window of a download and a stripe of an upload each.
const POOL_BYTES: usize = 2 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_larger_than_the_budgets_go_through_side_by_side() {
    let directories = Directories::new(4);
    let node = directories.start_with_pool(POOL_BYTES).await;
    node.create_bucket().await;
    let bodies: Vec<(String, Bytes)> = (0..4).map(|n| (format!("k{n}"), body(n, 3 << 20))).collect();
    // Each has one share and wants the next: a reader that waited while it holds one would stop them all.
    futures::future::join_all(bodies.iter().map(|(key, bytes)| node.put(key, bytes))).await;
    let reads = bodies.iter().map(async |(key, bytes)| {
        let (register, data) = (node.register(key).await, node.data(key).await);
        let mut read = stripe::read(node.stripes(), &register, data, 0..data.size);
        let mut hasher = blake3::Hasher::new();
        // As a connection does: what was sent is let go.
        while let Some(piece) = read.next().await {
            hasher.update(&piece.expect("there is a share in time"));
        }
        assert!(hasher.finalize() == blake3::hash(bytes), "{key}");
    });
    futures::future::join_all(reads).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_whose_client_is_silent_holds_the_stripe_that_it_gathers() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let free = || node.stripes().inner.uploads.free_bytes();
    let (all, bytes) = (free(), body(1, 12 << 20));
    let (mut client, arriving) = mpsc::channel(1);
    let upload = Upload { body: UploadBody::Client(arriving.map(Ok).boxed()), ..upload(&bytes) };
    let client = async {
        // Two stripes and a half, of units of a mebibyte.
        client.send(bytes.slice(..5 << 20)).await.expect("it is taken");
        let stripe = 4 << 20;
        let settled = async {
            while all - free() != stripe {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, settled).await.expect("what was written gives its memory back");
        client.send(bytes.slice(5 << 20..)).await.expect("it is taken");
        client.close_channel();
    };
    let (put, ()) = tokio::join!(node.put_upload("key", upload), client);
    assert_eq!((put, free()), (Ok(()), all));
    assert!(node.get("key").await.is_some_and(|read| read == bytes));
    node.close().await;
}

/// Puts a body that comes to a halt with all the memory of uploads, and another one beside it. The first one
/// goes on when the other one is over.
async fn put_beside_a_halted_one(
    node: &Node,
    bytes: &Bytes,
    body: impl FnOnce(mpsc::Receiver<Bytes>) -> UploadBody,
) -> [Result<(), String>; 2] {
    let (mut sender, arriving) = mpsc::channel(1);
    let halted = Upload { body: body(arriving), ..upload(bytes) };
    let other = async {
        sender.send(bytes.slice(..100 << 10)).await.expect("it is taken");
        let holds_all = async {
            while node.stripes().inner.uploads.free_bytes() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, holds_all).await.expect("a stripe takes all there is");
        let other = node.put_upload("other", upload(bytes)).await;
        // Nothing is there to take it where the first one gave way.
        let _ = sender.send(bytes.slice(100 << 10..)).await;
        sender.close_channel();
        other
    };
    let (halted, other) = tokio::join!(node.put_upload("halted", halted), other);
    [halted, other]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_moves_little_gives_way_to_one_that_waits() {
    let directories = Directories::new(4);
    let node = directories.start_with_pool(POOL_BYTES).await;
    node.create_bucket().await;
    let bytes = body(1, 512 << 10);
    let overloaded = || Err(Error::from(UnavailableReason::Overloaded).to_string());
    let of_client = |bytes: mpsc::Receiver<Bytes>| UploadBody::Client(bytes.map(Ok).boxed());
    let put = put_beside_a_halted_one(&node, &bytes, of_client).await;
    assert_eq!(put, [overloaded(), Ok(())]);
    assert!(node.get("halted").await.is_none());
    assert!(node.get("other").await.is_some_and(|read| read == bytes));
    // Bytes that the store copies do not come late by a client's fault.
    let of_copy = |bytes: mpsc::Receiver<Bytes>| UploadBody::Stored(bytes.map(Ok).boxed());
    let put = put_beside_a_halted_one(&node, &bytes, of_copy).await;
    assert_eq!(put, [Ok(()), overloaded()]);
    assert!(node.get("halted").await.is_some_and(|read| read == bytes));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_takes_no_memory_for_a_stripe_before_the_first_bytes_of_it_are_here() {
    /// The data of a stripe for which the pool has room.
    const STRIPE: usize = 512 << 10;
    /// Bytes of a stripe that are here before there is memory for it.
    const FIRST_BYTES: usize = 16 << 10;
    let directories = Directories::new(4);
    let node = directories.start_with_pool(POOL_BYTES).await;
    node.create_bucket().await;
    let free = || node.stripes().inner.uploads.free_bytes();
    let (all, bytes, other) = (free(), body(1, STRIPE + (100 << 10)), body(2, STRIPE));
    for halts_at in [FIRST_BYTES - 1, STRIPE + FIRST_BYTES - 1] {
        let (mut sender, arriving) = mpsc::channel(1);
        let of_client = UploadBody::Client(arriving.map(Ok).boxed());
        let halted = Upload { body: of_client, ..upload(&bytes) };
        let client = async {
            // Pieces so small that some of them were taken when the last one is sent. None crosses the end of
            // the stripe.
            for piece in bytes[..halts_at].chunks(1 << 10) {
                sender.send(Bytes::copy_from_slice(piece)).await.expect("it is taken");
            }
            let holds_none = async {
                while free() < all {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(DEADLINE, holds_none).await.expect("it waits without memory");
            assert_eq!(node.put_upload("other", upload(&other)).await, Ok(()), "it takes all there is");
            sender.send(bytes.slice(halts_at..)).await.expect("it did not give way");
            sender.close_channel();
        };
        let (put, ()) = tokio::join!(node.put_upload("key", halted), client);
        assert_eq!((put, free()), (Ok(()), all), "halted at {halts_at}");
        assert!(node.get("key").await.is_some_and(|read| read == bytes));
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_has_its_share_until_its_bytes_are_gone() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("key", &body(1, 3 << 20)).await;
    let (register, data) = (node.register("key").await, node.data("key").await);
    let stripes = node.stripes();
    let free = || stripes.inner.downloads.free_bytes();
    let all = free();
    let mut read = stripe::read(stripes, &register, data, 0..data.size);
    let first = read.next().await.expect("there are bytes").expect("they are whole");
    let rest: Vec<Bytes> = read.try_collect().await.expect("they are whole");
    assert!(all - free() >= 3 << 20, "who reads holds all of it");
    drop(rest);
    assert_eq!(all - free(), 1 << 19, "the first bytes hold their shard's part of a window");
    drop(first);
    assert_eq!(free(), all);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_gives_back_what_is_ahead_goes_on_where_its_caller_left_off() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let bytes = body(1, 6 << 20);
    node.put("key", &bytes).await;
    let (register, data) = (node.register("key").await, node.data("key").await);
    let stripes = node.stripes();
    let free = || stripes.inner.downloads.free_bytes();
    let (all, mut seen) = (free(), Vec::new());
    let request = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
    let mut read = stripe::read_for(Some(request.clone()), stripes, &register, data, 5..data.size);
    for pieces in [1, 5, 2] {
        for _ in 0..pieces {
            seen.extend_from_slice(&read.next().await.expect("there are bytes").expect("they are whole"));
        }
        assert!(free() < all, "it reads ahead");
        request.read_ahead().give_back();
        assert_eq!((free(), stripes.inner.downloads.takers()), (all, 0), "others have all the memory");
        assert!(stripes.inner.pins.is_held(data.id), "the data is not released meanwhile");
    }
    while let Some(bytes) = read.next().await {
        seen.extend_from_slice(&bytes.expect("they are whole"));
    }
    assert!(seen == bytes[5..]);
    drop(read);
    request.read_ahead().give_back();
    node.close().await;
}

/// Long stripes, a shorter last one, and ranges that begin and end near an edge of a unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_large_units_is_read_and_healed_as_any_other() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let bytes = body(1, (13 << 20) + 77);
    node.put("key", &bytes).await;
    let (register, data) = (node.register("key").await, node.data("key").await);
    node.complete(&register, &data).await;
    assert_eq!(data.stripe_unit, LARGE_STRIPE_UNIT_BYTES);
    let is_read = async || {
        let edges = [0, 1, 1 << 20, (2 << 20) + 1, (3 << 20) - 1, 12 << 20, (12 << 20) + 7, data.size];
        for (from, to) in edges.iter().flat_map(|from| edges.map(|to| (*from, to))) {
            if from < to {
                let pieces = stripe::read(node.stripes(), &register, data, from..to);
                let read = pieces.try_collect::<Vec<Bytes>>().await.expect("enough shards").concat();
                let (from, to) = (usize::try_from(from).expect("short"), usize::try_from(to).expect("short"));
                assert!(read == bytes[from..to], "{from}..{to}");
            }
        }
    };
    is_read().await;
    let lost = node.file(&register, &data, 0);
    let before = std::fs::read(&lost).expect("a shard file");
    std::fs::remove_file(&lost).expect("removed");
    is_read().await;
    node.heal_data(&register, &data).await;
    assert!(std::fs::read(&lost).expect("it is back") == before);
    is_read().await;
    node.close().await;
}

#[test]
fn units_are_large_where_a_body_has_stripes_of_them_and_the_buffers_have_room() {
    let geometry = Geometry::new(2, 2).expect("a code");
    let budget = |mib: usize| Budget::new(mib << 20, Duration::ZERO, Reclaim::default());
    let unit = |mib: u64, fair_mib: usize| super::stripe_unit(mib << 20, geometry, &budget(fair_mib));
    assert_eq!([unit(8, 16), unit(64, 64)], [LARGE_STRIPE_UNIT_BYTES; 2]);
    assert_eq!([unit(7, 64), unit(64, 15), unit(1, 1)], [STRIPE_UNIT_BYTES; 3]);
    let large = budget(1 << 10);
    let mut uploads = Vec::new();
    let units = (0..6).map(|_| {
        uploads.push(large.join());
        super::stripe_unit(64 << 20, geometry, &large)
    });
    let is_large: Vec<bool> = units.map(|unit| unit == LARGE_STRIPE_UNIT_BYTES).collect();
    assert_eq!(is_large, [true, true, true, true, false, false], "however much memory there is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_read_from_the_set_that_it_names() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let bytes = body(1, 100_000);
    node.put("key", &bytes).await;
    let (register, data) = (node.register("key").await, node.data("key").await);
    assert_eq!(data.set, SetId(0), "what is written names its set");
    let read = async |data: DataRef| {
        let pieces = stripe::read(node.stripes(), &register, data, 0..data.size);
        pieces.try_collect::<Vec<Bytes>>().await.map(|pieces| pieces.concat())
    };
    assert_eq!(read(data).await.as_deref(), Ok(&bytes[..]));
    assert_eq!(read(DataRef { set: SetId(1), ..data }).await, Err(ReadError::Geometry), "not there");
    let wider = DataRef { data_shards: 3, parity_shards: 3, ..data };
    assert_eq!(read(wider).await, Err(ReadError::Geometry), "more shards than the set has volumes");
    node.close().await;
}

/// A body of many windows, and a gateway that reads it through a script.
struct ScriptedRead {
    directories: Directories,
    gateway: Node,
    script: Arc<ScriptedPeer>,
    register: RegisterKey,
    data: DataRef,
    bytes: Bytes,
    /// The shards that were read, in order.
    reads: Arc<Mutex<Vec<u8>>>,
}

impl ScriptedRead {
    async fn new(volumes: usize, bytes: usize) -> Self {
        let directories = Directories::new(volumes);
        let node = directories.start().await;
        node.create_bucket().await;
        let bytes = body(1, bytes);
        node.put("key", &bytes).await;
        let (register, data) = (node.register("key").await, node.data("key").await);
        node.complete(&register, &data).await;
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        Self { directories, gateway, script, register, data, bytes, reads: Arc::default() }
    }

    fn volume_of(&self, shard: u8) -> VolumeId {
        let set = self.gateway.stripes().inner.cluster.set(self.data.set).expect("a set");
        set.routes[placement::home(self.data.id, shard, set.routes.len())].volume
    }

    /// Notes each read, of which this becomes.
    fn reads_meet(&self, fate: impl Fn(u8) -> Fate<Vec<Bytes>> + Send + 'static) {
        let reads = Arc::clone(&self.reads);
        says(&self.script.shard_reads, move |_, range| {
            reads.lock().push(range.shard.index);
            fate(range.shard.index)
        });
    }

    fn count(&self, is_counted: impl Fn(u8) -> bool) -> usize {
        self.reads.lock().iter().filter(|shard| is_counted(**shard)).count()
    }

    fn is_parity(&self) -> impl Fn(u8) -> bool {
        let data_shards = self.data.data_shards;
        move |shard| shard >= data_shards
    }

    /// Reads all of it; `between` is called with the bytes that came so far.
    async fn read(&self, between: impl Fn(usize)) {
        self.read_on(u32::MAX, between).await;
    }

    /// Reads all of it on a node with these shards.
    async fn read_on(&self, own: u32, between: impl Fn(usize)) {
        let mut read = stripe::read::read_on(own, self.gateway.stripes(), &self.register, self.data);
        let mut whole = Vec::new();
        while let Some(piece) = read.next().await {
            whole.extend_from_slice(&piece.expect("there are enough shards"));
            between(whole.len());
        }
        assert!(whole == self.bytes);
    }

    async fn close(self) {
        self.gateway.close().await;
        drop(self.directories);
    }
}

/// On each of four nodes, with a shard each.
#[tokio::test]
async fn whole_stripes_are_read_from_the_shards_that_are_near() {
    let read = ScriptedRead::new(4, 12 << 20).await;
    for (own, sources) in [(0, [0, 1]), (1, [0, 1]), (2, [0, 2]), (3, [0, 3])] {
        read.reads.lock().clear();
        read.reads_meet(|_| Fate::Through);
        read.read_on(1 << own, |_| {}).await;
        assert_eq!(read.count(|shard| !sources.contains(&shard)), 0, "{own}: {:?}", read.reads.lock());
        assert!(sources.iter().all(|source| read.count(|shard| shard == *source) > 0), "{own}");
    }
    read.close().await;
}

/// Any two shards that are left give the bytes, also where shards fail beneath windows of whole stripes.
#[tokio::test]
async fn whole_stripes_are_read_while_any_k_shards_are_left() {
    let read = ScriptedRead::new(4, 9 << 20).await;
    for (own, lost) in (0..4_u8).flat_map(|own| (0..16_u8).map(move |lost| (own, lost))) {
        if lost.count_ones() > 2 {
            continue;
        }
        // The shards fail from the third read on: some windows are under way then.
        let asked = Arc::clone(&read.reads);
        read.reads.lock().clear();
        read.reads_meet(move |shard| {
            let is_lost = lost & (1 << shard) != 0 && asked.lock().len() > 2;
            if is_lost { Fate::Instead(Err(message::Error::NotFound)) } else { Fate::Through }
        });
        read.read_on(1 << own, |_| {}).await;
    }
    read.close().await;
}

/// No version writes them. The columns of the shards are the same, in another order.
#[tokio::test]
async fn units_that_no_buffer_holds_are_read_with_shards_missing() {
    let read = ScriptedRead::new(4, 24 << 20).await;
    let data = DataRef { stripe_unit: STRIPE_UNIT_BYTES_MAX, ..read.data };
    let bytes = async |own: u32| {
        let pieces = stripe::read::read_on(own, read.gateway.stripes(), &read.register, data);
        pieces.try_collect::<Vec<Bytes>>().await.expect("enough shards").concat()
    };
    let whole = bytes(u32::MAX).await;
    assert!(bytes(1 << 2).await == whole, "on a node with parity");
    let is_lost =
        |shard| if shard == 0 { Fate::Instead(Err(message::Error::NotFound)) } else { Fate::Through };
    read.reads_meet(is_lost);
    assert!(bytes(1 << 1).await == whole && bytes(1 << 2).await == whole);
    read.close().await;
}

#[tokio::test]
async fn a_shard_that_was_late_is_read_again_when_its_volume_is_not() {
    let read = ScriptedRead::new(4, 24 << 20).await;
    let slow = read.volume_of(0);
    let (late, overdue) = (Arc::clone(&read.script.late), Arc::clone(&read.script.overdue));
    let is_silent = Arc::new(AtomicBool::new(true));
    read.reads_meet({
        let (late, overdue, is_silent) = (Arc::clone(&late), Arc::clone(&overdue), Arc::clone(&is_silent));
        move |shard| {
            if shard != 0 || !is_silent.load(Ordering::Relaxed) {
                return Fate::Through;
            }
            (*late.lock(), *overdue.lock()) = (vec![slow], vec![slow]);
            Fate::Silence
        }
    });
    let asked_before = Mutex::new(None);
    let between = |length| {
        if length >= 6 << 20 {
            asked_before.lock().get_or_insert_with(|| read.count(|shard| shard == 0));
            is_silent.store(false, Ordering::Relaxed);
            late.lock().clear();
            overdue.lock().clear();
        }
    };
    read.read(between).await;
    let before = asked_before.lock().expect("six MiB of them were read");
    assert!(read.count(read.is_parity()) > 0, "others were read in its place");
    assert!(read.count(|shard| shard == 0) > before, "it is asked again: {:?}", read.reads.lock());
    read.close().await;
}

#[tokio::test]
async fn a_late_shard_is_read_where_too_few_others_are_prompt() {
    let read = ScriptedRead::new(4, 4 << 20).await;
    let all: Vec<VolumeId> = (0..3).map(|shard| read.volume_of(shard)).collect();
    for slow in [&all[..1], &all[..]] {
        (*read.script.late.lock(), *read.script.overdue.lock()) = (slow.to_vec(), slow.to_vec());
        read.reads.lock().clear();
        // Late, and not there when it is first looked for.
        read.reads_meet(|shard| if shard < 3 { Fate::Late } else { Fate::Through });
        read.read(|_| {}).await;
        let (late, parity) = (read.count(|shard| shard == 0), read.count(read.is_parity()));
        // Three others are prompt and two are needed, or one is.
        let expected = if slow.len() == 1 { (false, true) } else { (true, false) };
        assert_eq!((late > 0, parity > 0), expected, "{slow:?}: {:?}", read.reads.lock());
    }
    read.close().await;
}

/// The volume is late for all others meanwhile: to begin a read of it takes the try.
#[tokio::test]
async fn the_reader_that_tries_a_late_volume_waits_for_its_answer() {
    let read = ScriptedRead::new(4, 400_000).await;
    let (tried, late) = (read.volume_of(0), Arc::clone(&read.script.late));
    read.reads_meet(move |shard| {
        if shard == 0 {
            *late.lock() = vec![tried];
            return Fate::Silence;
        }
        Fate::Through
    });
    // To read others in its place would take a few milliseconds.
    let waits = tokio::time::timeout(Duration::from_millis(500), read.read(|_| {})).await;
    assert!(waits.is_err() && read.count(read.is_parity()) == 0, "{:?}", read.reads.lock());
    (*read.script.late.lock(), *read.script.overdue.lock()) = (Vec::new(), vec![tried]);
    read.read(|_| {}).await;
    assert!(read.count(read.is_parity()) > 0, "until its own call is overdue");
    read.close().await;
}
