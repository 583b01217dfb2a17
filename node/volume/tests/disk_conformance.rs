//! Guarantees of every `Disk`, checked on the real one and on the faulty one.
//!
//! Durability is not here: only the faulty disk can lose power, and its own tests show that it
//! does. Here is what callers see while the machine runs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;

use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::faulty::FaultyDisk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::disk::{DIRECT_ALIGN, Disk, DiskFile, Entry, OpenMode};

/// Runs a test on each implementation, each time in an empty directory.
fn on_each_disk(test: impl Fn(&dyn Disk, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    test(&RealDisk::new(), directory.path());
    let faulty = FaultyDisk::new(1);
    let path = Path::new("/volumes/one");
    faulty.create_dir(path).unwrap();
    test(&faulty, path);
}

fn create(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(path, OpenMode::CreateNew).unwrap();
    file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
    file
}

fn read_all(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn written_bytes_are_read_back_at_their_positions() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), b"0123456789");
        file.write_at(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")], 3).unwrap();
        let mut bytes = [0; 5];
        assert_eq!(file.read_at(&mut bytes, 2).unwrap(), 5);
        assert_eq!(&bytes, b"2abcd");
        assert_eq!(read_all(disk, &root.join("f")), b"012abcde89");
    });
}

#[test]
fn pages_written_past_the_cache_and_bytes_through_it_make_one_file() {
    on_each_disk(|disk, root| {
        let path = root.join("f");
        let file = create(disk, &path, b"head");
        let Ok(direct) = disk.open(&path, OpenMode::WriteDirect) else {
            println!("SKIPPED: the filesystem of {} has nothing past the page cache", root.display());
            return;
        };
        let pool = BufferPool::new(PoolLimits { cap_bytes: 4 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 });
        let mut pages = pool.try_take(2 * DIRECT_ALIGN).unwrap();
        pages.fill(7);
        direct.write_at(&[IoSlice::new(&pages)], DIRECT_ALIGN as u64).unwrap();
        file.write_at(&[IoSlice::new(b"tail")], 3 * DIRECT_ALIGN as u64).unwrap();
        file.sync_data().unwrap();
        let mut expected = vec![0; 3 * DIRECT_ALIGN];
        expected[..4].copy_from_slice(b"head");
        expected[DIRECT_ALIGN..].fill(7);
        expected.extend_from_slice(b"tail");
        assert_eq!(read_all(disk, &path), expected);
        let direct = disk.open(&path, OpenMode::ReadDirect).unwrap();
        assert_eq!(direct.read_at(&mut pages, DIRECT_ALIGN as u64).unwrap(), 2 * DIRECT_ALIGN);
        assert!(pages.iter().all(|byte| *byte == 7), "as written");
        assert!(direct.read_at(&mut pages[1..=DIRECT_ALIGN], 0).is_err(), "memory that is no page");
        assert!(direct.write_at(&[IoSlice::new(&pages)], 0).is_err(), "open for reading");
    });
}

#[test]
fn reads_are_short_only_at_the_end() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), b"0123456789");
        let mut bytes = [0; 8];
        assert_eq!(file.read_at(&mut bytes, 7).unwrap(), 3);
        assert_eq!(&bytes[..3], b"789");
        assert_eq!(file.read_at(&mut bytes, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut bytes, 1 << 40).unwrap(), 0);
    });
}

#[test]
fn thousands_of_buffers_go_out_in_order() {
    on_each_disk(|disk, root| {
        let file = disk.open(&root.join("f"), OpenMode::CreateNew).unwrap();
        let pieces: Vec<Vec<u8>> =
            (0..3000_u32).map(|i| i.to_le_bytes()[..(i % 4) as usize].to_vec()).collect();
        let buffers: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        file.write_at(&buffers, 5).unwrap();
        let mut wanted = vec![0; 5];
        wanted.extend(pieces.concat());
        assert_eq!(read_all(disk, &root.join("f")), wanted);
        file.write_at(&[], 0).unwrap();
        assert_eq!(file.length().unwrap(), wanted.len() as u64);
    });
}

#[test]
fn a_gap_reads_as_zeros() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), b"start");
        file.write_at(&[IoSlice::new(b"end")], 9000).unwrap();
        let bytes = read_all(disk, &root.join("f"));
        assert_eq!(bytes.len(), 9003);
        assert!(bytes[5..9000].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn allocate_extends_with_zeros_and_never_shrinks() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), b"abc");
        file.allocate(0).unwrap();
        file.allocate(2).unwrap();
        assert_eq!(file.length().unwrap(), 3);
        file.allocate(10_000).unwrap();
        let bytes = read_all(disk, &root.join("f"));
        assert_eq!(bytes.len(), 10_000);
        assert!(bytes.starts_with(b"abc") && bytes[3..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn truncate_cuts_and_a_regrown_file_has_zeros() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), &[7; 9000]);
        file.truncate(4).unwrap();
        assert_eq!(file.length().unwrap(), 4);
        file.truncate(5000).unwrap();
        let bytes = read_all(disk, &root.join("f"));
        assert!(bytes[..4] == [7; 4] && bytes.len() == 5000 && bytes[4..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn create_new_refuses_a_taken_name_and_the_others_a_free_one() {
    on_each_disk(|disk, root| {
        create(disk, &root.join("f"), b"x");
        let taken = disk.open(&root.join("f"), OpenMode::CreateNew).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        for mode in [OpenMode::Read, OpenMode::Write] {
            let missing = disk.open(&root.join("g"), mode).unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
        }
        let lost = disk.open(&root.join("no/g"), OpenMode::CreateNew).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::NotFound);
        assert_eq!(read_all(disk, &root.join("f")), b"x");
    });
}

#[test]
fn a_file_opened_for_reading_takes_no_writes() {
    on_each_disk(|disk, root| {
        create(disk, &root.join("f"), b"x");
        let file = disk.open(&root.join("f"), OpenMode::Read).unwrap();
        assert!(file.write_at(&[IoSlice::new(b"y")], 0).is_err());
        assert!(file.truncate(0).is_err());
        let file = disk.open(&root.join("f"), OpenMode::Write).unwrap();
        file.write_at(&[IoSlice::new(b"y")], 0).unwrap();
        assert_eq!(read_all(disk, &root.join("f")), b"y");
    });
}

#[test]
fn directories_are_made_with_their_parents_and_listed() {
    on_each_disk(|disk, root| {
        disk.create_dir(&root.join("a/b")).unwrap();
        disk.create_dir(&root.join("a/b")).unwrap();
        create(disk, &root.join("a/f"), b"x");
        let mut entries = disk.list(&root.join("a")).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let entry = |name: &str, is_dir| Entry { name: name.to_owned(), is_dir };
        assert_eq!(entries, [entry("b", true), entry("f", false)]);
        assert_eq!(disk.list(&root.join("c")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(disk.list(&root.join("a/f")).is_err());
        disk.sync_dir(&root.join("a")).unwrap();
        assert_eq!(disk.sync_dir(&root.join("c")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn rename_replaces_and_open_files_follow_their_bytes() {
    on_each_disk(|disk, root| {
        let old = create(disk, &root.join("f"), b"old");
        let new = create(disk, &root.join("tmp"), b"new!");
        disk.rename(&root.join("tmp"), &root.join("f")).unwrap();
        assert_eq!(read_all(disk, &root.join("f")), b"new!");
        assert_eq!(disk.open(&root.join("tmp"), OpenMode::Read).unwrap_err().kind(), ErrorKind::NotFound);
        let mut bytes = [0; 3];
        old.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        new.write_at(&[IoSlice::new(b"N")], 0).unwrap();
        assert_eq!(read_all(disk, &root.join("f")), b"New!");
        let missing = disk.rename(&root.join("tmp"), &root.join("f")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn removed_files_are_gone_by_name_and_stay_readable_where_open() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), b"abc");
        disk.remove(&root.join("f")).unwrap();
        assert_eq!(disk.remove(&root.join("f")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(disk.list(root).unwrap().is_empty());
        let mut bytes = [0; 3];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 3);
        assert_eq!(&bytes, b"abc");
        disk.create_dir(&root.join("d")).unwrap();
        assert!(disk.remove(&root.join("d")).is_err());
    });
}

#[test]
fn file_ids_distinguish_a_replaced_file_from_the_first() {
    on_each_disk(|disk, root| {
        create(disk, &root.join("f"), b"x");
        let first = disk.file_id(&root.join("f")).unwrap();
        assert_eq!(disk.file_id(&root.join("f")).unwrap(), first);
        create(disk, &root.join("g"), b"x");
        let second = disk.file_id(&root.join("g")).unwrap();
        disk.rename(&root.join("g"), &root.join("f")).unwrap();
        assert_eq!(disk.file_id(&root.join("f")).unwrap(), second);
        assert_ne!(first, second);
        assert_eq!(disk.file_id(&root.join("g")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_lock_excludes_until_it_is_dropped() {
    on_each_disk(|disk, root| {
        let held = disk.lock(&root.join("lock")).unwrap();
        assert_eq!(disk.lock(&root.join("lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(held);
        disk.lock(&root.join("lock")).unwrap();
    });
}

#[test]
fn space_is_reported_for_directories_that_are_there() {
    on_each_disk(|disk, root| {
        let space = disk.space(root).unwrap();
        assert!(space.total > 0 && space.free <= space.total);
        assert_eq!(disk.space(&root.join("no")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_cached_read_gives_the_same_bytes_or_says_that_it_would_block() {
    on_each_disk(|disk, root| {
        let file = create(disk, &root.join("f"), &[9; 10_000]);
        file.write_back(0, 10_000);
        file.sync_data().unwrap();
        file.evict(0, 10_000);
        for warm in [false, true] {
            if warm {
                file.read_at(&mut [0; 10_000], 0).unwrap();
            }
            let mut bytes = [0; 6000];
            match file.read_cached_at(&mut bytes, 8000) {
                Ok(read) => assert_eq!(bytes[..read], [9; 2000]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    });
}
