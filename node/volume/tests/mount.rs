//! A directory that does not hold the volume may be what its filesystem is mounted on, with that one away: an
//! open makes nothing there, whenever it finds out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sherd_core::env::Clock;
use sherd_core::id::VolumeId;
use sherd_volume::disk::faulty::FaultyDisk;
use sherd_volume::disk::{Disk, DiskFile, Entry, FileId, OpenMode, Space};
use sherd_volume::error::OpenError;
use sherd_volume::identity::ExpectedIdentity;
use sherd_volume::open::{Setup, open};
use support::*;

/// The volume as it is opened, perhaps over another disk and under another id.
fn setup(bench: &Bench, disk: Arc<dyn Disk>, volume: VolumeId) -> Setup {
    Setup {
        disk,
        path: bench.path.clone(),
        clock: Arc::clone(&bench.clock) as Arc<dyn Clock>,
        index: Box::new(bench.index.clone()),
        buffers: bench.buffers.clone(),
        expected: ExpectedIdentity { cluster: Some(CLUSTER), volume: Some(volume) },
        options: bench.options,
        opening: next_opening(),
    }
}

fn names(disk: &FaultyDisk, directory: &Path) -> Vec<String> {
    disk.list(directory).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn an_open_makes_nothing_where_no_volume_is() {
    let bench = Bench::new(1);
    bench.reopen().close();
    bench.disk.vanish(&bench.path).unwrap();
    bench.disk.create_dir(&bench.path).unwrap();
    assert!(matches!(bench.open(), Err(OpenError::Damaged { .. })));
    assert_eq!(names(&bench.disk, &bench.path), [""; 0]);
}

#[test]
fn an_open_makes_nothing_where_another_volume_is() {
    let bench = Bench::new(1);
    // As it is after it was copied to its place.
    bench.disk.remove(&bench.path.join("lock")).unwrap();
    let opened = open(setup(&bench, Arc::new(bench.disk.clone()), VolumeId([9; 16])));
    assert!(matches!(opened, Err(OpenError::Foreign { .. })));
    assert_eq!(names(&bench.disk, &bench.path), ["volume.json"]);
}

/// A disk that goes away when a volume's log is looked for: its identity was read before.
#[derive(Debug)]
struct LeavingDisk {
    disk: FaultyDisk,
    volume: PathBuf,
    is_there: AtomicBool,
}

impl LeavingDisk {
    fn look(&self, path: &Path) -> &FaultyDisk {
        if path == self.volume.join("log") && self.is_there.swap(false, Ordering::Relaxed) {
            self.disk.vanish(&self.volume).unwrap();
            self.disk.create_dir(&self.volume).unwrap();
        }
        &self.disk
    }
}

impl Disk for LeavingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.look(path).open(path, mode)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.look(path).create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.look(to).rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.look(path).remove(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.look(path).list(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.look(path).sync_dir(path)
    }
    fn file_id(&self, path: &Path) -> io::Result<FileId> {
        self.look(path).file_id(path)
    }

    fn names_mark(&self, path: &Path) -> io::Result<u64> {
        self.look(path).names_mark(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.look(path).lock(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.look(path).space(path)
    }
}

#[test]
fn a_volume_that_is_taken_away_while_it_is_opened_gets_no_directories_in_its_place() {
    let bench = Bench::new(1);
    bench.reopen().close();
    bench.kill();
    let (volume, is_there) = (bench.path.clone(), AtomicBool::new(true));
    let disk = Arc::new(LeavingDisk { disk: bench.disk.clone(), volume, is_there });
    let opened = open(setup(&bench, Arc::clone(&disk) as Arc<dyn Disk>, VOLUME));
    assert!(matches!(opened, Err(OpenError::Io { .. })));
    assert!(!disk.is_there.load(Ordering::Relaxed), "it went away");
    assert_eq!(names(&bench.disk, &bench.path), [""; 0]);
}
