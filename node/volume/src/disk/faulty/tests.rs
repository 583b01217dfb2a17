//! Guarantees of the faulty disk to the tests that use it.

use super::*;

const FILE: &str = "dir/file";

fn disk_with_file(bytes: &[u8]) -> (FaultyDisk, Arc<dyn DiskFile>) {
    let disk = FaultyDisk::new(1);
    disk.create_dir(Path::new("dir")).unwrap();
    let file = disk.open(Path::new(FILE), OpenMode::CreateNew).unwrap();
    write(&*file, bytes, 0);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("dir")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    (disk, file)
}

fn write(file: &dyn DiskFile, bytes: &[u8], offset: u64) {
    file.write_at(&[IoSlice::new(bytes)], offset).unwrap();
}

fn contents(disk: &FaultyDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path), OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn exists(disk: &FaultyDisk, path: &str) -> bool {
    disk.open(Path::new(path), OpenMode::Read).is_ok()
}

#[test]
fn a_power_cut_loses_what_was_not_synced_and_keeps_what_was() {
    let (disk, file) = disk_with_file(b"synced");
    write(&*file, b"SYN", 0);
    disk.restart(1, Keep::Nothing);
    assert_eq!(contents(&disk, FILE), b"synced");
}

#[test]
fn a_power_cut_may_keep_everything() {
    let (disk, file) = disk_with_file(b"synced");
    write(&*file, b"SYN", 0);
    disk.restart(1, Keep::Everything);
    assert_eq!(contents(&disk, FILE), b"SYNced");
}

#[test]
fn a_power_cut_tears_writes_at_sectors_and_nowhere_else() {
    let mut torn = 0;
    for seed in 0..200 {
        let (disk, file) = disk_with_file(&[1; 4096]);
        write(&*file, &[2; 4096], 0);
        disk.restart(seed, Keep::Some);
        let left = contents(&disk, FILE);
        assert!(left.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        torn += u32::from(left.contains(&1) && left.contains(&2));
    }
    assert!(torn > 20, "only {torn} of 200 were torn");
}

#[test]
fn a_sector_comes_from_one_moment() {
    for seed in 0..200 {
        let (disk, file) = disk_with_file(&[0; 512]);
        write(&*file, &[1; 10], 0);
        write(&*file, &[1; 10], 10);
        disk.restart(seed, Keep::Some);
        let left = contents(&disk, FILE);
        assert!(!(left[0] == 0 && left[10] == 1), "the second write without the first, seed {seed}");
    }
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let left = |seed| {
        let (disk, file) = disk_with_file(&[1; 8192]);
        for round in 2..9 {
            write(&*file, &[round; 3000], u64::from(round) * 700);
        }
        disk.restart(seed, Keep::Some);
        contents(&disk, FILE)
    };
    assert!((0..50).all(|seed| left(seed) == left(seed)));
    assert!((0..50).any(|seed| left(seed) != left(seed + 1)));
}

#[test]
fn a_name_is_durable_only_after_its_directory_is_synced() {
    let (disk, _file) = disk_with_file(b"x");
    disk.rename(Path::new(FILE), Path::new("dir/new")).unwrap();
    assert!(exists(&disk, "dir/new") && !exists(&disk, FILE));
    let copy = disk.fork();
    copy.restart(1, Keep::Nothing);
    assert!(exists(&copy, FILE) && !exists(&copy, "dir/new"));
    disk.sync_dir(Path::new("dir")).unwrap();
    disk.restart(1, Keep::Nothing);
    assert!(exists(&disk, "dir/new") && !exists(&disk, FILE));
}

#[test]
fn a_removed_file_comes_back_when_the_removal_was_not_synced() {
    let (disk, file) = disk_with_file(b"x");
    drop(file);
    disk.remove(Path::new(FILE)).unwrap();
    assert!(!exists(&disk, FILE));
    disk.restart(1, Keep::Nothing);
    assert_eq!(contents(&disk, FILE), b"x");
}

#[test]
fn a_rename_is_kept_or_lost_as_a_whole() {
    let mut kept = 0;
    for seed in 0..100 {
        let (disk, _file) = disk_with_file(b"old");
        let new = disk.open(Path::new("dir/tmp"), OpenMode::CreateNew).unwrap();
        write(&*new, b"new", 0);
        new.sync_data().unwrap();
        disk.rename(Path::new("dir/tmp"), Path::new(FILE)).unwrap();
        disk.restart(seed, Keep::Some);
        let is_renamed = contents(&disk, FILE) == b"new";
        assert!(!(is_renamed && exists(&disk, "dir/tmp")));
        kept += u32::from(is_renamed);
    }
    assert!((10..=90).contains(&kept), "{kept} of 100 renames were kept");
}

#[test]
fn every_call_fails_from_the_cut_on_until_the_restart() {
    let (disk, file) = disk_with_file(b"x");
    disk.cut_power_at(disk.operations() + 1);
    write(&*file, b"y", 0);
    assert!(file.sync_data().is_err());
    assert!(file.read_at(&mut [0], 0).is_err());
    assert!(disk.list(Path::new("dir")).is_err());
    assert!(disk.is_off());
    disk.restart(1, Keep::Nothing);
    assert_eq!(contents(&disk, FILE), b"x");
    assert!(file.read_at(&mut [0], 0).is_err(), "a file of the process before is dead");
}

#[test]
fn history_names_the_operation_that_was_cut() {
    let (disk, file) = disk_with_file(b"x");
    let before = disk.operations();
    file.read_at(&mut [0], 0).unwrap();
    write(&*file, b"y", 0);
    assert_eq!(disk.operations(), before + 1);
    let last = Operation { call: Call::Write, path: PathBuf::from(FILE) };
    assert_eq!(disk.history().last(), Some(&last));
}

#[test]
fn injected_failures_come_when_and_where_they_were_asked_for() {
    let (disk, file) = disk_with_file(b"x");
    let fault = disk.inject(Fault {
        under: PathBuf::from("dir"),
        call: Call::Write,
        skip: 1,
        times: 1,
        failure: Failure::Io,
    });
    write(&*file, b"1", 0);
    let error = file.write_at(&[IoSlice::new(b"2")], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    write(&*file, b"3", 0);
    assert_eq!(contents(&disk, FILE), b"3");
    assert_eq!(fault.fired(), 1);
}

#[test]
#[should_panic(expected = "an injected failure never happened")]
fn a_failure_that_never_happens_fails_its_test() {
    let disk = FaultyDisk::new(1);
    let under = PathBuf::from("dir");
    drop(disk.inject(Fault { under, call: Call::Write, skip: 0, times: 1, failure: Failure::Io }));
}

#[test]
fn a_failed_write_may_have_written_a_part() {
    let mut written = 0;
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let file = disk.open(Path::new("f"), OpenMode::CreateNew).unwrap();
        let under = PathBuf::from("f");
        let _fault =
            disk.inject(Fault { under, call: Call::Write, skip: 0, times: 1, failure: Failure::Full });
        assert!(file.write_at(&[IoSlice::new(&[7; 512])], 0).is_err());
        written += file.length().unwrap();
    }
    assert!((1..20 * 512).contains(&written));
}

#[test]
fn a_sync_after_a_failed_sync_makes_nothing_durable() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let file = disk.open(Path::new("f"), OpenMode::CreateNew).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        write(&*file, &[7; 512], 0);
        let under = PathBuf::from("f");
        let _fault = disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure: Failure::Io });
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(contents(&disk, "f"), [7; 512], "the page cache still has it");
        disk.restart(1, Keep::Everything);
        lost += u32::from(contents(&disk, "f") != [7; 512]);
    }
    assert!(lost > 0, "what a failed sync held must be able to vanish");
}

#[test]
fn bytes_that_a_failed_sync_lost_are_gone_once_the_page_cache_drops_them() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let file = disk.open(Path::new("f"), OpenMode::CreateNew).unwrap();
        write(&*file, &[1; 512], 0);
        file.sync_data().unwrap();
        write(&*file, &[2; 512], 0);
        let under = PathBuf::from("f");
        let _fault = disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure: Failure::Io });
        assert!(file.sync_data().is_err());
        assert_eq!(contents(&disk, "f"), [2; 512]);
        file.evict(0, 512);
        lost += u32::from(contents(&disk, "f") == [1; 512]);
    }
    assert!((1..20).contains(&lost));
}

#[test]
fn a_lying_sync_answers_well_and_keeps_nothing() {
    let (disk, file) = disk_with_file(b"old");
    disk.set_lying(true);
    write(&*file, b"new", 0);
    file.sync_data().unwrap();
    disk.rename(Path::new(FILE), Path::new("dir/new")).unwrap();
    disk.sync_dir(Path::new("dir")).unwrap();
    disk.restart(1, Keep::Nothing);
    assert_eq!(contents(&disk, FILE), b"old");
}

#[test]
fn a_full_disk_refuses_growth_and_takes_overwrites() {
    let (disk, file) = disk_with_file(&[0; 4096]);
    disk.set_capacity(8192);
    assert_eq!(disk.space(Path::new("dir")).unwrap(), Space { total: 8192, free: 4096 });
    write(&*file, &[1; 4096], 4096);
    assert_eq!(file.allocate(8193).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let error = file.write_at(&[IoSlice::new(b"x")], 8192).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    write(&*file, &[2; 8192], 0);
    disk.remove(Path::new(FILE)).unwrap();
    assert_eq!(disk.space(Path::new("dir")).unwrap().free, 0, "an open file keeps its space");
    drop(file);
    assert_eq!(disk.space(Path::new("dir")).unwrap().free, 8192);
}

#[test]
fn rot_changes_every_byte_of_its_range_and_survives_a_restart() {
    let (disk, _file) = disk_with_file(&[5; 100]);
    disk.rot(Path::new(FILE), 10..20).unwrap();
    let rotten = contents(&disk, FILE);
    assert!(rotten.iter().enumerate().all(|(at, byte)| (*byte != 5) == (10..20).contains(&at)));
    disk.restart(1, Keep::Nothing);
    assert_eq!(contents(&disk, FILE), rotten);
}

#[test]
fn an_unreadable_range_fails_reads_that_touch_it() {
    let (disk, file) = disk_with_file(&[5; 100]);
    disk.make_unreadable(Path::new(FILE), 50..60).unwrap();
    assert_eq!(file.read_at(&mut [0; 50], 0).unwrap(), 50);
    assert!(file.read_at(&mut [0; 51], 0).is_err());
}

#[test]
fn a_shrunk_and_regrown_file_reads_zeros_after_a_sync() {
    let (disk, file) = disk_with_file(&[5; 9000]);
    file.truncate(10).unwrap();
    file.truncate(9000).unwrap();
    file.sync_data().unwrap();
    disk.restart(1, Keep::Nothing);
    let left = contents(&disk, FILE);
    assert!(left[..10].iter().all(|byte| *byte == 5) && left[10..].iter().all(|byte| *byte == 0));
    assert_eq!(left.len(), 9000);
}

#[test]
fn a_restart_frees_locks_and_a_late_drop_takes_none_away() {
    let disk = FaultyDisk::new(1);
    let old = disk.lock(Path::new("lock")).unwrap();
    assert_eq!(disk.lock(Path::new("lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    disk.sync_dir(Path::new("/")).unwrap();
    disk.restart(1, Keep::Everything);
    let _new = disk.lock(Path::new("lock")).unwrap();
    drop(old);
    assert!(disk.lock(Path::new("lock")).is_err());
}

#[test]
fn a_killed_process_loses_its_files_and_none_of_its_writes() {
    let (disk, file) = disk_with_file(b"old");
    write(&*file, b"new", 0);
    disk.kill();
    assert!(file.sync_data().is_err());
    assert_eq!(contents(&disk, FILE), b"new");
    disk.restart(1, Keep::Nothing);
    assert_eq!(contents(&disk, FILE), b"old");
}

#[test]
fn a_vanished_directory_is_gone_and_comes_back_as_another() {
    let (disk, _file) = disk_with_file(b"x");
    let before = disk.file_id(Path::new("dir")).unwrap();
    disk.vanish(Path::new("dir")).unwrap();
    assert_eq!(disk.file_id(Path::new("dir")).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.create_dir(Path::new("dir")).unwrap();
    assert_ne!(disk.file_id(Path::new("dir")).unwrap(), before);
}

#[test]
fn reads_of_memory_block_after_eviction_until_the_device_was_read() {
    let (_disk, file) = disk_with_file(&[5; 100]);
    assert_eq!(file.read_cached_at(&mut [0; 100], 0).unwrap(), 100);
    file.evict(0, 100);
    let error = file.read_cached_at(&mut [0; 100], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    file.read_at(&mut [0; 100], 0).unwrap();
    assert_eq!(file.read_cached_at(&mut [0; 100], 0).unwrap(), 100);
}

#[test]
fn no_more_files_are_open_than_there_are_descriptors_and_a_directory_takes_one_for_a_moment() {
    let (disk, file) = disk_with_file(b"x");
    disk.set_descriptors(2);
    let refused = |result: io::Result<()>| {
        result.unwrap_err().raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error())
    };
    let again = disk.open(Path::new(FILE), OpenMode::Read).unwrap();
    for mode in [OpenMode::Read, OpenMode::CreateNew] {
        let path = if mode == OpenMode::CreateNew { "dir/other" } else { FILE };
        assert!(refused(disk.open(Path::new(path), mode).map(drop)), "{mode:?}");
    }
    assert!(refused(disk.list(Path::new("dir")).map(drop)) && refused(disk.sync_dir(Path::new("dir"))));
    drop(again);
    assert_eq!(disk.list(Path::new("dir")).unwrap().len(), 1, "nothing was created");
    disk.open(Path::new("dir/other"), OpenMode::CreateNew).unwrap();
    drop(file);
}
