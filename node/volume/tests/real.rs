//! The same volume on a real disk with the real index: kills, and an index that is deleted or
//! damaged, which is rebuilt from the log.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::error::Error;
use sherd_volume::identity::{ExpectedIdentity, Phase};
use sherd_volume::index::lsm::{IndexCache, LsmIndex};
use sherd_volume::index::{Index, IndexError};
use sherd_volume::lookup::{self, Lookup};
use sherd_volume::open::{IndexSource, NewVolume, OpenReport, Setup, create, open};
use sherd_volume::options::Options;
use support::*;

struct Source {
    path: PathBuf,
    cache: IndexCache,
}

impl IndexSource for Source {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::new(LsmIndex::open(&self.path, &self.cache)?))
    }
    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        LsmIndex::remove(&self.path)?;
        self.open()
    }
}

fn open_real(path: &Path, clock: &Arc<TestClock>) -> (Driver, OpenReport) {
    open_with(path, clock, small_options())
}

fn open_with(path: &Path, clock: &Arc<TestClock>, options: Options) -> (Driver, OpenReport) {
    let setup = Setup {
        disk: Arc::new(RealDisk::new()),
        path: path.to_owned(),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        index: Box::new(Source { path: path.join("index"), cache: IndexCache::new(1 << 20, 64) }),
        buffers: pool(),
        expected: ExpectedIdentity { cluster: Some(CLUSTER), volume: Some(VOLUME) },
        options: Options { reserve_bytes: 0, ..options },
        opening: next_opening(),
    };
    let (volume, report) = open(setup).unwrap();
    (Driver::new(volume, Arc::clone(clock)), report)
}

fn new_volume(path: &Path) -> Arc<TestClock> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let new = NewVolume {
        cluster: CLUSTER,
        volume: VOLUME,
        life: sherd_core::id::Life(1),
        phase: Phase::Formed,
        lost: None,
    };
    create(&disk, path, new).unwrap();
    Arc::new(TestClock::new())
}

/// Ballots of a round, above every bound that a restart before it left.
fn at(round: u64, count: u64) -> sherd_core::id::Ballot {
    ballot((round + 1) * (60_000 << 16) + count)
}

fn work(volume: &mut Driver, round: u64) {
    for count in 0..40 {
        let number = round * 100 + count;
        volume.write(&object(&format!("key-{count}")), at(round, count), &value(number, 700));
        volume.commit(&object(&format!("key-{count}")), at(round, count));
        volume.put_shard(shard(number, 0), &bytes(number, 20_000)).unwrap();
        if count % 2 == 0 {
            volume.delete_shard(shard(number, 0)).unwrap();
        }
    }
}

fn check(volume: &mut Driver, rounds: u64) {
    for count in 0..40 {
        let number = (rounds - 1) * 100 + count;
        let key = object(&format!("key-{count}"));
        let row = volume.read(&key).unwrap().result.unwrap().row.unwrap();
        assert_eq!(row.value, Some(value(number, 700).head));
        assert_eq!(
            volume
                .reader
                .inline(&target(&key), at(rounds - 1, count), lookup::Source::Disk)
                .unwrap()
                .or_busy()
                .unwrap(),
            value(number, 700).inline
        );
        for round in 0..rounds {
            let number = round * 100 + count;
            let found = volume.packed(shard(number, 0));
            assert_eq!(found.ok(), (count % 2 == 1).then(|| bytes(number, 20_000)), "shard {number}");
        }
    }
}

/// Where upkeep never comes, writers do its work: nothing that waits for it grows without a bound.
#[test]
fn writers_flush_and_merge_where_upkeep_is_far_behind() {
    let directory = tempfile::tempdir().unwrap();
    let clock = new_volume(directory.path());
    let flush_bytes = 16 << 10;
    let (mut volume, _) = open_with(directory.path(), &clock, Options { flush_bytes, ..small_options() });
    let fold_bytes = 24 * (1 << 10);
    let mut flushes = 0;
    let mut before = 0;
    let mut unmerged_max = 0;
    for number in 0..4000 {
        volume.write(&object(&format!("key-{number}")), at(0, number), &value(number, 100));
        let status = volume.reader.status();
        assert!(status.index_pending_bytes <= 3 * flush_bytes + fold_bytes, "{status:?}");
        assert!(status.index_unmerged <= 20, "{status:?}");
        unmerged_max = unmerged_max.max(status.index_unmerged);
        flushes += u32::from(status.index_pending_bytes < before);
        before = status.index_pending_bytes;
    }
    assert!(flushes > 24, "more than may wait unmerged");
    assert!(unmerged_max >= 10, "they are counted: {unmerged_max}");
}

#[test]
fn a_volume_that_is_dropped_without_a_word_comes_back_whole() {
    let directory = tempfile::tempdir().unwrap();
    let clock = new_volume(directory.path());
    for round in 0..4 {
        let (mut volume, report) = open_real(directory.path(), &clock);
        assert_eq!((report.lost_state, report.index_rebuilt), (None, None), "round {round}");
        if round > 0 {
            check(&mut volume, round);
        }
        clock.advance_ms(60_000);
        work(&mut volume, round);
        if round % 2 == 1 {
            volume.reader.flush().unwrap();
            volume.compact();
        }
        volume.reader.upkeep().unwrap();
        check(&mut volume, round + 1);
    }
}

#[test]
fn a_clean_end_leaves_nothing_to_replay() {
    let directory = tempfile::tempdir().unwrap();
    let clock = new_volume(directory.path());
    let (mut volume, _) = open_real(directory.path(), &clock);
    work(&mut volume, 0);
    volume.close();
    let (mut volume, report) = open_real(directory.path(), &clock);
    assert_eq!(report.replayed_records, 0, "{report:?}");
    check(&mut volume, 1);
}

type Damage = &'static dyn Fn(&Path);

#[test]
fn a_deleted_or_damaged_index_is_rebuilt_from_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let clock = new_volume(directory.path());
    let (mut volume, _) = open_real(directory.path(), &clock);
    work(&mut volume, 0);
    clock.advance_ms(60_000);
    work(&mut volume, 1);
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 0);
    volume.close();
    let index = directory.path().join("index");
    let files = |below: &Path| {
        let mut found = Vec::new();
        let mut open = vec![below.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                } else {
                    found.push(entry.path());
                }
            }
        }
        found
    };
    let damages: [(&str, Damage); 3] = [
        ("removed", &|path| std::fs::remove_file(path).unwrap()),
        ("cut short", &|path| {
            let length = std::fs::metadata(path).unwrap().len();
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length / 2).unwrap();
        }),
        ("overwritten", &|path| {
            let length = usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap();
            std::fs::write(path, vec![0x5a; length]).unwrap();
        }),
    ];
    for (name, damage) in damages {
        for path in files(&index) {
            damage(&path);
        }
        let (mut volume, report) = open_real(directory.path(), &clock);
        assert_eq!(report.lost_state, None, "{name}: {report:?}");
        assert!(report.index_rebuilt.is_some(), "{name}: {report:?}");
        check(&mut volume, 2);
        volume.close();
    }
    std::fs::remove_dir_all(&index).unwrap();
    let (mut volume, report) = open_real(directory.path(), &clock);
    assert_eq!(report.lost_state, None);
    assert!(report.index_rebuilt.is_some());
    check(&mut volume, 2);
}

#[test]
fn readers_on_other_threads_see_what_was_acknowledged_while_the_log_is_written_and_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let clock = new_volume(directory.path());
    let (mut volume, _) = open_real(directory.path(), &clock);
    let acknowledged = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let order = std::sync::atomic::Ordering::SeqCst;
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (reader, acknowledged, ends) =
                (Arc::clone(&volume.reader), Arc::clone(&acknowledged), Arc::clone(&ends));
            std::thread::spawn(move || {
                let mut reads = 0_u64;
                while !ends.load(order) {
                    let sure = acknowledged.load(order);
                    for number in sure.saturating_sub(3)..sure {
                        match reader
                            .packed(shard(number, 0), 0..9_000, lookup::Source::Disk)
                            .and_then(Lookup::or_busy)
                        {
                            Ok(found) => assert_eq!(found.concat(), bytes(number, 9_000)),
                            // This thread may have slept until it was deleted.
                            Err(Error::NotFound) => assert!(acknowledged.load(order) >= number + 20),
                            Err(error) => panic!("{error}"),
                        }
                        reads += 1;
                    }
                }
                reads
            })
        })
        .collect();
    for number in 0..600 {
        volume.put_shard(shard(number, 0), &bytes(number, 9_000)).unwrap();
        acknowledged.store(number + 1, order);
        if number >= 20 {
            volume.delete_shard(shard(number - 20, 0)).unwrap();
        }
        if number % 50 == 0 {
            volume.reader.flush().unwrap();
        }
        volume.volume.compact_step(100_000).unwrap();
    }
    ends.store(true, order);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
}
