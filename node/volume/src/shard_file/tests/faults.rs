//! Writers that give up, and disks that refuse.

use super::*;

#[test]
fn an_aborted_or_dropped_writer_leaves_nothing() {
    let disk = disk();
    let files = files(&disk);
    let mut writer = files.create(&header(1, 100)).unwrap();
    writer.append(&[payload(50)]).unwrap();
    writer.abort();
    drop(files.create(&header(1, 100)).unwrap());
    assert_eq!(files.list(Directories::of(shard_id(1).data)).unwrap(), []);
    assert!(matches!(read(&files, shard_id(1), 0..1), Err(Error::NotFound)));
}

#[test]
fn a_payload_of_another_length_than_the_header_says_is_refused() {
    let files = files(&disk());
    let mut writer = files.create(&header(1, 100)).unwrap();
    assert!(is_corrupt(&writer.append(&[payload(101)])));
    drop(writer);
    let mut writer = files.create(&header(1, 100)).unwrap();
    writer.append(&[payload(99)]).unwrap();
    assert!(is_corrupt(&writer.finish()));
    assert!(matches!(read(&files, shard_id(1), 0..1), Err(Error::NotFound)));
}

#[test]
fn a_taken_name_is_refused() {
    let files = files(&disk());
    write(&files, 1, &payload(10)).unwrap();
    assert!(is_corrupt(&files.create(&header(1, 10))));
    assert_eq!(files.shared.failure.reason(), None);
    assert_eq!(joined(&read(&files, shard_id(1), 0..10).unwrap()), payload(10));
}

#[test]
fn a_full_disk_is_reported_at_the_start_and_leaves_nothing() {
    let disk = disk();
    let files = files(&disk);
    disk.set_capacity(64 << 10);
    assert!(matches!(files.create(&header(1, 1 << 20)), Err(Error::Full)));
    assert_eq!(files.list(Directories::of(shard_id(1).data)).unwrap(), []);
    assert_eq!(files.shared.failure.reason(), None);
    write(&files, 1, &payload(1000)).unwrap();
}

#[test]
fn nothing_is_made_where_the_volume_was_taken_away() {
    let disk = disk();
    let files = files(&disk);
    disk.vanish(Path::new(ROOT)).unwrap();
    assert!(matches!(files.create(&header(1, 10)), Err(Error::Failed { .. })));
    assert!(disk.list(Path::new(ROOT)).is_err());
    assert!(files.shared.failure.reason().is_some());
}

#[test]
fn a_failed_write_or_sync_fails_every_later_write() {
    for call in [Call::Write, Call::Sync, Call::SyncDir] {
        let disk = disk();
        let files = files(&disk);
        write(&files, 1, &payload(1000)).unwrap();
        let under = PathBuf::from(ROOT).join("50");
        let mut begun = files.create(&header(3, 10)).unwrap();
        begun.append(&[payload(10)]).unwrap();
        let _fault = disk.inject(Fault { under, call, skip: 0, times: 1, failure: Failure::Io });
        assert!(matches!(write(&files, 2, &payload(1000)), Err(Error::Failed { .. })));
        assert!(files.shared.failure.reason().is_some());
        assert!(matches!(begun.finish(), Err(Error::Failed { .. })));
        assert!(matches!(write(&files, 4, &payload(1000)), Err(Error::Failed { .. })));
        assert_eq!(joined(&read(&files, shard_id(1), 0..1000).unwrap()), payload(1000), "reads go on");
    }
}

/// Files that are kept open cost descriptors: they are closed before a call is refused for want of one.
#[test]
fn kept_files_are_closed_where_no_descriptor_is_left() {
    let disk = disk();
    let limited = Arc::new(DescriptorLimitDisk::new(Arc::new(disk.clone())));
    let files = ShardFiles::new(limited, PathBuf::from(ROOT), CLUSTER, pool());
    for n in 1..=3 {
        write(&files, n, &payload(1000)).unwrap();
    }
    read(&files, shard_id(1), 0..1000).unwrap();
    let refused = |call, n| {
        disk.inject(Fault { call, under: path(n), skip: 0, times: 1, failure: Failure::NoDescriptor })
    };
    let fault = refused(Call::Open, 2);
    assert_eq!(joined(&read(&files, shard_id(2), 0..1000).unwrap()), payload(1000));
    assert!(cached(&files, shard_id(1), 0..1000).unwrap().is_none(), "closed");
    assert!(cached(&files, shard_id(2), 0..1000).unwrap().is_some(), "opened in its place");
    drop(fault);
    let fault = refused(Call::Create, 4);
    write(&files, 4, &payload(1000)).unwrap();
    drop(fault);
    let _fault = refused(Call::Open, 3);
    assert!(matches!(read(&files, shard_id(3), 0..1000), Err(Error::Busy)), "none was left to be closed");
}

#[test]
fn a_directory_that_cannot_be_listed_fails_nothing_and_a_file_that_cannot_be_removed_the_run() {
    let disk = disk();
    let (files, failure, sticky) = files_of_volume(&disk);
    write(&files, 1, &payload(1000)).unwrap();
    let refused =
        |call, under, times| disk.inject(Fault { call, under, skip: 0, times, failure: Failure::Io });
    let directory = Directories::of(shard_id(1).data);
    let fault = refused(Call::List, files.shared.directories.path(directory), 1);
    assert!(is_corrupt(&files.list(directory)));
    drop(fault);
    assert_eq!((failure.reason(), files.list(directory).unwrap()), (None, vec![shard_id(1)]));
    let _fault = refused(Call::Remove, path(1), 1);
    assert!(matches!(files.delete(shard_id(1)), Err(Error::Failed { .. })));
    assert!(failure.reason().is_some());
    assert_eq!(sticky.file.identity().failed, None, "it may be opened again");
}

#[test]
fn nothing_is_appended_in_a_volume_that_failed() {
    let disk = disk();
    let (files, failure, _sticky) = files_of_volume(&disk);
    let mut writer = files.create(&header(1, 2000)).unwrap();
    writer.append(&[payload(1000)]).unwrap();
    failure.fail(FailureSpan::Run, "its index");
    assert!(matches!(writer.append(&[payload(1000)]), Err(Error::Failed { .. })));
    drop(writer);
    assert!(matches!(disk.file_id(&path(1)), Err(error) if error.kind() == ErrorKind::NotFound), "removed");
}

#[test]
fn a_writer_that_outlives_its_opening_neither_locks_the_directory_nor_touches_what_the_next_one_writes() {
    let disk = disk();
    let (files_before, failure, sticky) = files_of_volume(&disk);
    let mut heal = files_before.heal(&header(1, 2000)).unwrap();
    heal.append(&[payload(1000)]).unwrap();
    failure.fail(FailureSpan::Run, "its index");
    drop((files_before, failure, sticky));
    let _lock = identity::lock(&disk, Path::new("/volume")).expect("it is free again");

    let files = files(&disk);
    let mut again = files.heal(&header(1, 2000)).unwrap();
    again.append(&[payload(2000)]).unwrap();
    drop(heal);
    again.finish().unwrap();
    assert_eq!(joined(&read(&files, shard_id(1), 0..2000).unwrap()), payload(2000));
}
