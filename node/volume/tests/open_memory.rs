//! The memory of an open is bounded for every replay. Every allocation of this process is counted, so the
//! stories stand in one test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use sherd_core::env::Clock;
use sherd_core::id::{Life, RegisterKey};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::identity::{ExpectedIdentity, Phase};
use sherd_volume::index::lsm::{IndexCache, LsmIndex};
use sherd_volume::index::{Index, IndexError};
use sherd_volume::open::{IndexSource, NewVolume, OpenReport, Setup, create, open};
use sherd_volume::options::{Durability, Options};
use sherd_volume::request::Op;
use support::*;

/// The system's allocator, which counts the bytes in use and their maximum.
struct Measured;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static AT_MOST: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
// SAFETY: Every call goes to the system's allocator with the very arguments, and its answer comes back as it
// is. Counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        AT_MOST.fetch_max(in_use, Ordering::Relaxed);
        // SAFETY: As the caller promised us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: As the caller promised us.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measured = Measured;

/// Bytes that an open may hold beside what a replay may.
const BESIDE_BYTES: usize = 7 << 20;
/// Bytes of entries that a replay may hold.
const REPLAY_BYTES: u64 = 1 << 20;

struct Source(std::path::PathBuf);

impl IndexSource for Source {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::new(LsmIndex::open(&self.0, &IndexCache::new(1 << 20, 64))?))
    }
    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        LsmIndex::remove(&self.0)?;
        self.open()
    }
}

fn opened(path: &Path) -> (Driver, OpenReport) {
    let clock = Arc::new(TestClock::new());
    let options = Options {
        segment_bytes: 4 << 20,
        durability: Durability::None,
        spare_segments: 0,
        ballast_bytes: 0,
        reserve_bytes: 0,
        // Everything is left to be replayed.
        flush_bytes: u64::MAX,
        replay_bytes: REPLAY_BYTES,
        recent_bytes: 1 << 20,
        promises_bytes: 0,
        ..Options::default()
    };
    let setup = Setup {
        disk: Arc::new(RealDisk::new()),
        path: path.to_owned(),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        index: Box::new(Source(path.join("index"))),
        buffers: pool(),
        expected: ExpectedIdentity { cluster: Some(CLUSTER), volume: Some(VOLUME) },
        options,
        opening: next_opening(),
    };
    let (volume, report) = open(setup).unwrap();
    (Driver::new(volume, clock), report)
}

/// A volume with this many packed shards of these bytes, dropped without a word.
fn with_shards(path: &Path, count: u64, shard_bytes: usize, key: &RegisterKey) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let new = NewVolume { cluster: CLUSTER, volume: VOLUME, life: Life(1), phase: Phase::Formed, lost: None };
    create(&disk, path, new).unwrap();
    let (mut volume, _) = opened(path);
    for number in 0..count {
        let (_, done) = slot();
        let payload = vec![Bytes::from(vec![0; shard_bytes])];
        volume.volume.submit(Op::PutShard { shard: shard(number, 0), target: target(key), payload, done });
        if number % 64 == 63 {
            volume.run();
        }
    }
    volume.run();
}

/// Opens a volume; how many bytes more than before were in use at most meanwhile.
fn peak_of_open(path: &Path) -> (usize, Driver, OpenReport) {
    let before = IN_USE.load(Ordering::Relaxed);
    AT_MOST.store(before, Ordering::Relaxed);
    let (volume, report) = opened(path);
    (AT_MOST.load(Ordering::Relaxed) - before, volume, report)
}

#[test]
fn an_open_holds_a_bounded_number_of_bytes_for_every_replay() {
    let bound = usize::try_from(REPLAY_BYTES).unwrap() * 2 + BESIDE_BYTES;

    // 75 MiB of payloads, and a few KiB of entries.
    let folder = tempfile::tempdir().unwrap();
    with_shards(folder.path(), 600, 128 << 10, &object("a"));
    let (peak, volume, report) = peak_of_open(folder.path());
    assert!(report.replayed_records >= 600, "{report:?}");
    assert!(peak < bound, "payloads: {peak} bytes of at most {bound}");
    assert_eq!(volume.packed(shard(599, 0)).unwrap().len(), 128 << 10);
    drop(volume);

    // 14 MiB of entries, and few payloads: replayed after a crash, and with the index gone.
    let folder = tempfile::tempdir().unwrap();
    with_shards(folder.path(), 12_000, 8, &object(&"k".repeat(1000)));
    for story in ["replay", "rebuild"] {
        let (peak, volume, report) = peak_of_open(folder.path());
        assert!(report.replayed_records >= 12_000, "{report:?}");
        assert!(peak < bound, "entries, {story}: {peak} bytes of at most {bound}");
        assert_eq!(volume.packed(shard(11_999, 0)).unwrap().len(), 8);
        drop(volume);
        std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    }
}
