//! The files of segments, while readers, a segment that is let go and a lack of descriptors come together in
//! every order that `shuttle` finds: a reader gets the bytes of the segment that it asked for, or the answer
//! that it has gone or to try again; and a kept file is closed when its segment has gone.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};

use sherd_core::id::{Ballot, Timestamp};

use super::*;
use crate::disk::descriptor_limit::DescriptorLimitDisk;
use crate::disk::faulty::FaultyDisk;
use crate::error::FaultClass;
use crate::format::SegmentHeader;
use crate::log::durable::{RetiredFile, SpareSegments};

/// Orders tried: each of the faults that this is for shows within the first hundred.
const ORDERS: usize = 2_000;
const STACK_BYTES: usize = 64 << 10;
const VOLUME: VolumeId = VolumeId([1; 16]);
const SEGMENT_BYTES: u64 = 8192;
/// A descriptor for each reader and for the thread that removes a segment: a kept file takes the descriptor
/// that the next one needs.
const DESCRIPTORS: u64 = 3;
/// The segments that are there, the one that is let go, and the one that is begun behind it.
const THERE: std::ops::RangeInclusive<u64> = 1..=3;
const GOES: u64 = 1;
const NEXT: u64 = 4;

/// A log of segments that hold their numbers.
struct Scene {
    disk: FaultyDisk,
    segments: Segments,
    spares: SpareSegments,
}

/// The value of each byte of a segment.
fn byte_of(number: u64) -> u8 {
    u8::try_from(number).expect("few segments")
}

impl Scene {
    fn new() -> Self {
        let (disk, log) = (FaultyDisk::new(1), Path::new("/log"));
        disk.create_dir(log).unwrap();
        let limited: Arc<dyn Disk> = Arc::new(DescriptorLimitDisk::new(Arc::new(disk.clone())));
        let segments = Segments::new(&limited);
        for number in THERE {
            let path = segment_path(log, number);
            let file = disk.open(&path, OpenMode::CreateNew).unwrap();
            fill(&*file, number);
            let files = Arc::clone(segments.files());
            segments.insert(Arc::new(Segment::new(VOLUME, number, Sequence(number), path, files)));
        }
        let spares = SpareSegments::adopt(limited, log, &[], SEGMENT_BYTES, 1).unwrap();
        disk.set_descriptors(DESCRIPTORS);
        Self { disk, segments, spares }
    }

    /// Reads a segment as a reader does; whether it was answered with bytes.
    fn read(&self, number: u64) -> bool {
        let Some(segment) = self.segments.get(number) else { return false };
        let read = segment.file().and_then(|file| {
            // A change of the file while the reader holds it would show in the bytes read.
            thread::yield_now();
            let mut bytes = [0; 16];
            file.read_at(&mut bytes, 0).map(|_| bytes)
        });
        match read {
            Ok(bytes) => assert_eq!(bytes, [byte_of(number); 16], "segment {number}"),
            Err(error) => {
                let is_gone = error.kind() == io::ErrorKind::NotFound && number == GOES;
                assert!(is_gone || FaultClass::of(&error) == FaultClass::Busy, "segment {number}: {error}");
                return false;
            }
        }
        true
    }

    /// Lets a segment go as compaction does, and begins the next one, in its file where that is a spare then.
    /// Whether it was.
    fn replace(&self) -> bool {
        let mut segment = self.segments.remove(GOES).expect("it is there");
        let put_away = until_not_busy(|| self.spares.put_away(&mut segment));
        until_not_busy(|| self.spares.settle(&put_away));
        self.segments.files().forget(GOES);
        let header = SegmentHeader {
            is_synced: true,
            is_longer: true,
            volume: VOLUME,
            number: NEXT,
            first: Sequence(NEXT),
            previous: NEXT - 1,
            previous_end: SEGMENT_BYTES,
            bound: Ballot::ZERO,
            floor: Ballot::ZERO,
            data_floor: Timestamp::from_ms(0),
        };
        let (file, _) = until_not_busy(|| self.spares.begin(&header, true));
        fill(&*file, NEXT);
        matches!(put_away, RetiredFile::Spare(_))
    }
}

fn fill(file: &dyn DiskFile, number: u64) {
    let bytes = vec![byte_of(number); usize::try_from(SEGMENT_BYTES).unwrap()];
    file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
}

/// Tries again what was refused for want of a descriptor.
fn until_not_busy<T>(mut call: impl FnMut() -> io::Result<T>) -> T {
    loop {
        match call() {
            Err(error) if FaultClass::of(&error) == FaultClass::Busy => thread::yield_now(),
            result => return result.expect("the disk is sound"),
        }
    }
}

#[test]
fn no_reader_gets_another_segments_bytes_and_no_file_outlives_its_segment() {
    let (answered, reused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (answers, uses) = (Arc::clone(&answered), Arc::clone(&reused));
    let run = move || {
        let scene = Arc::new(Scene::new());
        let readers = [(); 2].map(|()| {
            let (scene, answers) = (Arc::clone(&scene), Arc::clone(&answers));
            thread::spawn(move || {
                for number in [GOES, 2, GOES, 3] {
                    answers.fetch_add(u64::from(scene.read(number)), Ordering::Relaxed);
                }
            })
        });
        uses.fetch_add(u64::from(scene.replace()), Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no reader panics");
        }
        let kept: Vec<u64> = scene.segments.files().open.lock().files.keys().copied().collect();
        assert!(!kept.contains(&GOES), "{kept:?}");
        assert_eq!(scene.disk.open_files(), kept.len() as u64, "no reader is left");
        scene.segments.files().close_all();
        scene.disk.set_descriptors(1);
        assert!([2, 3].into_iter().all(|number| scene.read(number)), "what is kept makes room");
    };
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(ORDERS), config).run(run);
    let (answered, reused) = (answered.load(Ordering::Relaxed), reused.load(Ordering::Relaxed));
    assert!(answered > 0 && 0 < reused && reused < ORDERS as u64, "{answered} {reused}");
}

#[test]
fn the_files_that_were_used_last_stay_open() {
    let (disk, log) = (FaultyDisk::new(1), Path::new("/log"));
    disk.create_dir(log).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let files = Arc::new(SegmentFiles::new(Arc::clone(&disk)));
    let most = u64::try_from(limits::SEGMENT_FILES_MAX).unwrap();
    let segments: Vec<Segment> = (0..most + 2)
        .map(|number| {
            let path = segment_path(log, number);
            drop(disk.open(&path, OpenMode::CreateNew).unwrap());
            Segment::new(VOLUME, number, Sequence(number), path, Arc::clone(&files))
        })
        .collect();
    let (last, first) = segments.split_last().unwrap();
    let (next, kept) = first.split_last().unwrap();
    for segment in kept {
        segment.file().unwrap();
    }
    assert!(kept.iter().all(|segment| segment.open_file().is_some()), "as many as may be");
    // In the order in which they were used now: the second is the oldest once the first was used again.
    kept[0].open_file().unwrap();
    next.file().unwrap();
    last.file().unwrap();
    let closed: Vec<u64> = segments
        .iter()
        .filter(|segment| segment.open_file().is_none())
        .map(|segment| segment.number)
        .collect();
    assert_eq!(closed, [1, 2]);
}
