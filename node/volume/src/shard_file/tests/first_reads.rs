//! The first read of a large shard's block goes past the page cache, and the next one fills it.

use super::*;

const LARGE: usize = 4 << 20;

fn is_in_memory(disk: &FaultyDisk, n: u64, at: usize) -> bool {
    let file = disk.open(&path(n), OpenMode::Read).unwrap();
    match file.read_cached_at(&mut [0; 4096], (HEADER_BYTES + at) as u64) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

fn evict(disk: &FaultyDisk, n: u64) {
    disk.open(&path(n), OpenMode::Read).unwrap().evict(0, 2 * LARGE as u64);
}

/// Reads a range, and checks its bytes.
fn read_right(files: &ShardFiles, n: u64, payload: &[u8], range: Range<usize>) {
    let bytes = range.start as u64..range.end as u64;
    assert_eq!(joined(&read(files, shard_id(n), bytes).unwrap()), payload[range]);
}

#[test]
fn the_first_read_of_a_large_shard_takes_no_place_in_the_page_cache_and_the_second_does() {
    let disk = disk();
    let files = files(&disk);
    // Neither whole pages nor whole blocks.
    let payload = payload(LARGE + 5000);
    write(&files, 1, &payload).unwrap();
    evict(&disk, 1);
    read_right(&files, 1, &payload, 0..2 << 20);
    assert!(!is_in_memory(&disk, 1, 0));
    read_right(&files, 1, &payload, 1 << 20..payload.len());
    assert!(!is_in_memory(&disk, 1, 1 << 20), "half of it is read for the first time");
    assert!(!is_in_memory(&disk, 1, LARGE));
    read_right(&files, 1, &payload, 1 << 20..payload.len());
    assert!(!is_in_memory(&disk, 1, 0));
    assert!(is_in_memory(&disk, 1, 1 << 20));
    assert!(is_in_memory(&disk, 1, LARGE));
}

#[test]
fn a_small_shard_is_read_through_the_page_cache_from_the_first_time_on() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(LARGE - 1);
    write(&files, 1, &payload).unwrap();
    evict(&disk, 1);
    read_right(&files, 1, &payload, 0..1 << 20);
    assert!(is_in_memory(&disk, 1, 0));
}

#[test]
fn a_filesystem_that_aligns_otherwise_serves_first_reads_through_the_cache() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(LARGE);
    write(&files, 1, &payload).unwrap();
    evict(&disk, 1);
    disk.set_direct_align(1 << 21);
    read_right(&files, 1, &payload, 10..1 << 20);
    assert!(is_in_memory(&disk, 1, 0));
}

#[test]
fn a_shard_that_is_healed_or_deleted_is_read_for_the_first_time_again() {
    let disk = disk();
    let files = files(&disk);
    let (old, new) = (payload(LARGE), payload(LARGE));
    write(&files, 1, &old).unwrap();
    read_right(&files, 1, &old, 0..1 << 20);
    disk.rot(&path(1), HEADER_BYTES as u64..HEADER_BYTES as u64 + 1).unwrap();
    assert!(is_corrupt(&read(&files, shard_id(1), 0..1 << 20)));
    let mut writer = files.heal(&header(1, new.len())).unwrap();
    writer.append(std::slice::from_ref(&new)).unwrap();
    writer.finish().unwrap();
    evict(&disk, 1);
    read_right(&files, 1, &new, 0..1 << 20);
    assert!(!is_in_memory(&disk, 1, 0), "the healed file was not read yet");
    files.delete(shard_id(1)).unwrap();
    write(&files, 1, &old).unwrap();
    evict(&disk, 1);
    read_right(&files, 1, &old, 0..1 << 20);
    assert!(!is_in_memory(&disk, 1, 0), "nor was the one in its place");
}

#[test]
fn the_file_past_the_cache_is_opened_once() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(LARGE);
    write(&files, 1, &payload).unwrap();
    read_right(&files, 1, &payload, 0..1 << 20);
    let fault =
        disk.inject(Fault { call: Call::Open, under: path(1), skip: 0, times: 1, failure: Failure::Io });
    read_right(&files, 1, &payload, 1 << 20..2 << 20);
    assert_eq!(fault.end(), 0, "nothing was opened");
    assert!(!is_in_memory(&disk, 1, 1 << 20));
}
