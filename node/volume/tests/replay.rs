//! Opens that are cut short or refused: what they had found is found again, what they had put in the
//! index is not counted twice, and an index is wiped only where it is proven to be bad.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_core::id::Life;
use sherd_volume::disk::Disk;
use sherd_volume::disk::faulty::Keep;
use sherd_volume::error::{FaultClass, OpenError};
use sherd_volume::identity::ExpectedIdentity;
use sherd_volume::index::{Index, IndexError};
use sherd_volume::open::{IndexSource, Setup, open};
use sherd_volume::options::{Options, UnreadablePolicy};
use support::*;

/// Rows: several times what a replay holds before it flushes.
const ROWS: u64 = 300;

/// A volume with many rows in a log of several segments, and nothing in its index.
fn with_rows() -> Bench {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for count in 0..ROWS {
        volume.write(&object(&format!("key-{count:03}")), ballot(count + 1), &value(count, 100));
        volume.put_shard(shard(count, 0), &bytes(count, 1_000)).unwrap();
        if count % 3 == 0 {
            volume.delete_shard(shard(count, 0)).unwrap();
        }
    }
    volume.settle();
    bench.kill();
    bench.index.wipe();
    bench
}

fn check(volume: &mut Driver) {
    for count in 0..ROWS {
        let row = volume.read(&object(&format!("key-{count:03}"))).unwrap().result.unwrap().row.unwrap();
        assert_eq!(row.value, Some(value(count, 100).head));
        assert_eq!(volume.packed(shard(count, 0)).is_ok(), count % 3 != 0, "shard {count}");
    }
}

#[test]
fn an_open_that_is_cut_short_anywhere_is_judged_again() {
    let bench = with_rows();
    // Rot of acknowledged rows in the first half of the log: an early flush puts the index behind it.
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    bench.disk.rot(&segment, 5 * 4096..5 * 4096 + 40).unwrap();
    let mut was_flushed = false;
    for cut in 0.. {
        let Bench { path, clock, options, buffers, .. } = bench.clone();
        let disk = bench.disk.fork();
        let bench = Bench { disk, path, clock, index: MemorySource::default(), options, buffers };
        bench.disk.cut_power_at(bench.disk.operations() + cut);
        let is_done = bench.open().is_ok();
        bench.disk.restart(cut, Keep::Some);
        bench.index.crash();
        was_flushed |= bench.index.0.lock().persisted().is_some();
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some(), "cut before operation {cut}: {report:?}");
        assert_eq!(volume.reader.answerer().life, Life(2), "one loss, one life: cut {cut}");
        if is_done {
            break;
        }
    }
    assert!(was_flushed, "a replay of this length flushes on its way");
}

#[test]
fn batches_that_an_interrupted_replay_flushed_are_not_counted_twice() {
    let bench = with_rows();
    let mut whole = bench.reopen();
    check(&mut whole);
    let live = whole.reader.status().live_bytes;
    drop(whole);
    bench.kill();
    let persisted = bench.index.0.lock().persisted();
    assert!(persisted.is_some(), "it was flushed");
    for openings in 1..3 {
        let mut volume = bench.reopen();
        assert_eq!(volume.reader.status().live_bytes, live + openings * 40);
        check(&mut volume);
        drop(volume);
        bench.kill();
    }
    // Deletes count where they stand: compaction agrees with a rebuild about what is needed.
    bench.clock.advance_ms(60_000);
    let mut volume = bench.reopen();
    volume.reader.flush().unwrap();
    volume.compact();
    check(&mut volume);
}

#[test]
fn replayed_records_are_durable_before_the_index_is_flushed() {
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 4 << 20;
    let mut volume = bench.reopen();
    volume.write(&object("first"), ballot(1), &value(1, 100));
    volume.settle();
    // Written, and only in the page cache when the process ends.
    bench.disk.set_lying(true);
    for count in 2..ROWS {
        volume.write(&object(&format!("key-{count:03}")), ballot(count), &value(count, 100));
    }
    bench.disk.set_lying(false);
    drop(volume);
    bench.kill();
    let mut was_flushed = false;
    for cut in 0.. {
        let Bench { path, clock, options, buffers, .. } = bench.clone();
        let disk = bench.disk.fork();
        let bench = Bench { disk, path, clock, index: MemorySource::default(), options, buffers };
        bench.disk.cut_power_at(bench.disk.operations() + cut);
        let is_done = bench.open().is_ok();
        bench.disk.restart(cut, Keep::Nothing);
        bench.index.crash();
        was_flushed |= bench.index.0.lock().persisted().is_some();
        let (_, report) = bench.open().unwrap();
        assert_eq!(report.lost_state, None, "cut before operation {cut}: {report:?}");
        if is_done {
            break;
        }
    }
    assert!(was_flushed, "a replay of this length flushes on its way");
}

/// An index that the system refuses to open for some tries.
struct Refused {
    inside: MemorySource,
    error: Option<IndexError>,
}

impl IndexSource for Refused {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.error.take().map_or_else(|| self.inside.open(), Err)
    }
    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.inside.reset()
    }
}

#[test]
fn an_index_is_wiped_only_where_it_is_proven_to_be_bad() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 100));
    volume.close();
    let open_with = |error, unreadable| {
        let setup = Setup {
            disk: Arc::new(bench.disk.clone()) as Arc<dyn Disk>,
            path: bench.path.clone(),
            clock: Arc::clone(&bench.clock) as Arc<dyn Clock>,
            index: Box::new(Refused { inside: bench.index.clone(), error: Some(error) }),
            buffers: bench.buffers.clone(),
            expected: ExpectedIdentity { cluster: Some(CLUSTER), volume: Some(VOLUME) },
            options: Options { unreadable, ..bench.options },
            opening: next_opening(),
        };
        let opened = open(setup).map(|(_, report)| report);
        bench.kill();
        opened
    };
    let unavailable = |class| IndexError::Unavailable { what: "refused".to_owned(), class };
    for policy in [UnreadablePolicy::Refuse, UnreadablePolicy::Lose] {
        assert!(matches!(open_with(unavailable(FaultClass::Busy), policy), Err(OpenError::Io { .. })));
        assert!(matches!(open_with(IndexError::Full, policy), Err(OpenError::Io { .. })));
    }
    // Tried for a while, like a log that cannot be read; then it is rebuilt.
    let refused = open_with(unavailable(FaultClass::Fatal), UnreadablePolicy::Refuse);
    assert!(matches!(refused, Err(OpenError::Unreadable { .. })));
    let report = bench.open().unwrap().1;
    assert_eq!((report.index_rebuilt, report.replayed_records), (None, 0), "it is the index of before");
    bench.kill();
    let proven = [
        (IndexError::Damaged { what: "a checksum".to_owned() }, UnreadablePolicy::Refuse),
        (unavailable(FaultClass::Fatal), UnreadablePolicy::Lose),
    ];
    for (error, policy) in proven {
        let report = open_with(error, policy).unwrap();
        assert!(report.index_rebuilt.is_some());
        assert_eq!(report.lost_state, None);
    }
}
