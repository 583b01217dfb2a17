//! Remains of a file that was being written at a crash: shown by its header, or cleared away, and never while
//! a writer has it.

use super::*;
use sherd_core::message::SeenShard;

fn seen(n: u64, is_whole: bool) -> SeenShard {
    let ShardFileHeader { shard, key, .. } = header(n, 0);
    SeenShard { shard, key, is_whole }
}

fn is_there(disk: &FaultyDisk, n: u64) -> bool {
    disk.file_id(&path(n)).is_ok()
}

/// A file with half of its payload.
fn begin(files: &ShardFiles, n: u64) -> ShardWriter {
    let mut writer = files.create(&header(n, 2000)).unwrap();
    writer.append(&[payload(1000)]).unwrap();
    writer
}

#[test]
fn a_file_is_shown_when_it_is_finished_or_has_no_writer_any_more() {
    let disk = disk();
    let files = files(&disk);
    let mut writer = begin(&files, 1);
    assert_eq!((files.seen(shard_id(1)).unwrap(), is_there(&disk, 1)), (None, true), "it is being written");
    writer.append(&[payload(1000)]).unwrap();
    writer.finish().unwrap();
    assert_eq!(files.seen(shard_id(1)).unwrap(), Some(seen(1, true)));
    let _writer = begin(&files, 2);
    disk.kill();
    let files = self::files(&disk);
    assert_eq!(files.seen(shard_id(2)).unwrap(), Some(seen(2, false)), "its writer has died");
    assert_eq!(files.seen(shard_id(3)).unwrap(), None);
}

/// A writer that gives up removes the file with its name, and that would be what was healed.
#[test]
fn no_heal_begins_while_the_file_is_being_written() {
    let disk = disk();
    let files = files(&disk);
    let writer = begin(&files, 1);
    assert!(matches!(files.heal(&header(1, 2000)), Err(Error::Busy)));
    writer.abort();
    let mut heal = files.heal(&header(1, 2000)).unwrap();
    assert_eq!(files.seen(shard_id(1)).unwrap(), None);
    heal.append(&[payload(2000)]).unwrap();
    heal.finish().unwrap();
    assert_eq!(files.seen(shard_id(1)).unwrap(), Some(seen(1, true)));
}

/// The file is not there yet: one that is created late would be the one that its heal replaces, and be
/// removed with its name when that heal is given up.
#[test]
fn no_file_is_created_while_its_heal_is_being_written() {
    let disk = disk();
    let files = files(&disk);
    let mut heal = files.heal(&header(1, 2000)).unwrap();
    assert!(matches!(files.create(&header(1, 2000)), Err(Error::Busy)));
    heal.append(&[payload(2000)]).unwrap();
    heal.finish().unwrap();
    assert_eq!(files.seen(shard_id(1)).unwrap(), Some(seen(1, true)));
    assert!(matches!(files.create(&header(1, 2000)), Err(Error::Corrupt { .. })), "it is there");
    assert_eq!(files.seen(shard_id(1)).unwrap(), Some(seen(1, true)));
    files.heal(&header(2, 2000)).unwrap().abort();
    files.create(&header(2, 2000)).unwrap().abort();
}

/// The names are durable and the files' content is not: with any rest of it, a file is shown or gone.
#[test]
fn nothing_that_a_power_cut_leaves_stays_unseen() {
    let (mut shown, mut cleared) = (0, 0);
    for cut in 0..40 {
        let disk = disk();
        let files = files(&disk);
        let _writer = begin(&files, 1);
        write(&files, 2, &payload(1000)).unwrap();
        disk.restart(cut, if cut == 0 { Keep::Nothing } else { Keep::Some });
        assert!(is_there(&disk, 1), "a sync of their directory made both names durable");
        let files = self::files(&disk);
        match files.seen(shard_id(1)).unwrap() {
            None => {
                assert!(!is_there(&disk, 1), "cut {cut}");
                cleared += 1;
            }
            found => {
                assert_eq!(found, Some(seen(1, false)), "cut {cut}");
                shown += 1;
            }
        }
        assert_eq!(files.seen(shard_id(2)).unwrap(), Some(seen(2, true)));
    }
    assert!(shown > 0 && cleared > 0, "{shown} {cleared}");
}

#[test]
fn a_finished_file_whose_header_rots_is_left_to_its_heal() {
    let disk = disk();
    write(&files(&disk), 1, &payload(2000)).unwrap();
    disk.rot(&path(1), 0..40).unwrap();
    assert_eq!(files(&disk).seen(shard_id(1)).unwrap(), None);
    assert!(is_there(&disk, 1));
}

#[test]
fn a_reader_that_outlived_its_opening_clears_nothing_away() {
    let disk = disk();
    let (files, _failure, sticky) = files_of_volume(&disk);
    disk.open(&path_in(&disk, &files, 1), OpenMode::CreateNew).unwrap();
    drop(sticky);
    assert_eq!(files.seen(shard_id(1)).unwrap(), None);
    assert!(is_there(&disk, 1));
}

#[test]
fn a_volume_that_failed_clears_nothing_away() {
    let disk = disk();
    let (files, failure, _sticky) = files_of_volume(&disk);
    disk.open(&path_in(&disk, &files, 1), OpenMode::CreateNew).unwrap();
    failure.fail(FailureSpan::Run, "why");
    assert_eq!(files.seen(shard_id(1)).unwrap(), None);
    assert!(is_there(&disk, 1));
}

/// The path of a shard, in a directory that is there.
fn path_in(disk: &FaultyDisk, files: &ShardFiles, n: u64) -> PathBuf {
    let directory = Directories::of(shard_id(n).data);
    disk.create_dir(&files.shared.directories.path(directory)).unwrap();
    path(n)
}

/// The rest of a file after a crash says nothing of its disk; an end that is there and wrong does.
#[test]
fn a_file_without_an_end_is_unfinished_and_one_with_another_end_is_corrupt() {
    let disk = disk();
    write(&files(&disk), 1, &payload(2000)).unwrap();
    let _writer = begin(&files(&disk), 2);
    disk.kill();
    let found = |disk: &FaultyDisk, n| {
        let (files, shard) = (files(disk), shard_id(n));
        [
            files.header(shard).map(drop),
            files.check(shard).map(drop),
            read(&files, shard, 0..1).map(drop),
            from_device(&files, shard, 0..1).map(drop),
        ]
    };
    let is_unfinished = |found: &Result<(), Error>| matches!(found, Err(Error::Unfinished { .. }));
    assert!(found(&disk, 2).iter().all(is_unfinished), "{:?}", found(&disk, 2));

    let zero = |disk: &FaultyDisk, n, range: &Range<u64>| {
        let zeros = vec![0; usize::try_from(range.end - range.start).unwrap()];
        let file = disk.open(&path(n), OpenMode::Write).unwrap();
        file.write_at(&[std::io::IoSlice::new(&zeros)], range.start).unwrap();
    };
    let header_bytes = 0..HEADER_BYTES as u64;
    let (without_header, headless) = (disk.fork(), disk.fork());
    zero(&without_header, 2, &header_bytes);
    assert!(found(&without_header, 2).iter().all(is_unfinished), "{:?}", found(&without_header, 2));
    zero(&headless, 1, &header_bytes);
    assert!(found(&headless, 1).iter().all(is_corrupt), "{:?}", found(&headless, 1));

    let FileLayout { table_at, footer_at, file_bytes, .. } = FileLayout::of(2000).unwrap();
    for range in [table_at..table_at + 1, table_at..footer_at, footer_at..file_bytes, table_at..file_bytes] {
        let rotten = disk.fork();
        rotten.rot(&path(1), range.clone()).unwrap();
        assert!(found(&rotten, 1).iter().all(is_corrupt), "{range:?}: {:?}", found(&rotten, 1));
        let zeroed = disk.fork();
        zero(&zeroed, 1, &range);
        let is_all = range == (table_at..file_bytes);
        let is_expected = |found| if is_all { is_unfinished(found) } else { is_corrupt(found) };
        assert!(found(&zeroed, 1).iter().all(is_expected), "{range:?}: {:?}", found(&zeroed, 1));
    }

    let files = files(&disk);
    let mut heal = files.heal(&header(2, 2000)).unwrap();
    heal.append(&[payload(2000)]).unwrap();
    heal.finish().unwrap();
    assert_eq!(joined(&read(&files, shard_id(2), 0..2000).unwrap()), payload(2000));
}
