//! Shard files through crashes, damage, heals and ranges.

mod faults;
mod first_reads;
mod layout;
mod unfinished;

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use sherd_core::codec::DecodeError;
use sherd_core::id::{
    BucketId, Life, ObjectKey, PartKey, ProposerId, RegisterKey, Timestamp, UploadId, VolumeId,
};
use sherd_core::limits::HASH_BLOCK_BYTES;

use super::format::*;
use super::*;
use crate::buffer::PoolLimits;
use crate::disk::OpenMode;
use crate::disk::ballast::Ballast;
use crate::disk::descriptor_limit::DescriptorLimitDisk;
use crate::disk::faulty::{Call, Failure, Fault, FaultyDisk, Keep};
use crate::identity::failure::{FailureFile, FailureSpan};
use crate::identity::{self, Identity, IdentityFile, Phase};
use crate::lookup::{Lookup, Source};

const ROOT: &str = "/volume/shards";
const CLUSTER: ClusterId = ClusterId([0xc1; 16]);

fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { cap_bytes: 16 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 })
}

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.create_dir(Path::new(ROOT)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.sync_dir(Path::new("/volume")).unwrap();
    disk
}

fn files(disk: &FaultyDisk) -> ShardFiles {
    ShardFiles::new(Arc::new(disk.clone()), PathBuf::from(ROOT), CLUSTER, pool())
}

fn shard_id(n: u64) -> ShardId {
    let birth = Timestamp::from_ms(1_800_000_000_000 + n);
    ShardId { data: DataId { birth, proposer: ProposerId(0x0102_0304_0506_0708) }, index: 2 }
}

fn header(n: u64, shard_bytes: usize) -> ShardFileHeader {
    let key = ObjectKey::new("photos/été.jpg").unwrap();
    let part = PartKey { upload: UploadId([0x77; 16]), number: 9 };
    ShardFileHeader {
        shard: shard_id(n),
        key: RegisterKey::part(BucketId([0xb1; 16]), key, part),
        data_shards: 2,
        parity_shards: 2,
        stripe_unit: 256 << 10,
        shard_bytes: shard_bytes as u64,
    }
}

fn payload(bytes: usize) -> Bytes {
    (0..bytes).map(|at| u8::try_from((at * 7 + at / 251) % 256).unwrap()).collect()
}

fn read(files: &ShardFiles, shard: ShardId, range: Range<u64>) -> Result<Vec<Bytes>, Error> {
    files.read(shard, range, Source::Disk).and_then(Lookup::or_busy)
}

fn from_device(files: &ShardFiles, shard: ShardId, range: Range<u64>) -> Result<Vec<Bytes>, Error> {
    files.read(shard, range, Source::Device).and_then(Lookup::or_busy)
}

/// The bytes from memory, if all are there.
fn cached(files: &ShardFiles, shard: ShardId, range: Range<u64>) -> Result<Option<Vec<Bytes>>, Error> {
    Ok(match files.read(shard, range, Source::Cache)? {
        Lookup::Immediate(bytes) => Some(bytes),
        Lookup::Pending => None,
    })
}

fn write(files: &ShardFiles, n: u64, payload: &Bytes) -> Result<(), Error> {
    let mut writer = files.create(&header(n, payload.len()))?;
    writer.append(std::slice::from_ref(payload))?;
    writer.finish()
}

fn path(n: u64) -> PathBuf {
    files(&FaultyDisk::new(1)).shared.path(shard_id(n))
}

/// The shard files of a volume, and what its directory is locked by.
fn files_of_volume(disk: &FaultyDisk) -> (ShardFiles, Arc<FailureLatch>, Arc<FailureFile>) {
    let (directory, shared_disk) = (Path::new("/volume"), Arc::new(disk.clone()) as Arc<dyn Disk>);
    let identity = Identity {
        cluster: CLUSTER,
        volume: VolumeId([1; 16]),
        life: Life(1),
        phase: Phase::Formed,
        topology: None,
        failed: None,
        lost: None,
        noted_losses: Vec::new(),
    };
    let lock = identity::lock(disk, directory).unwrap();
    let file = IdentityFile::create(Arc::clone(&shared_disk), directory, identity).unwrap();
    let ballast = Arc::new(Ballast::new(Arc::clone(&shared_disk), directory, 0));
    let sticky = Arc::new(FailureFile { file, ballast, _lock: lock });
    let failure = Arc::new(FailureLatch::new(&sticky));
    let root = PathBuf::from(ROOT);
    let files = ShardFiles::of_volume(shared_disk, root, CLUSTER, pool(), Arc::clone(&failure), None);
    (files, failure, sticky)
}

fn joined(found: &[Bytes]) -> Vec<u8> {
    found.concat()
}

fn file_bytes(disk: &FaultyDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Verifies a file as the scrubber does.
fn check(files: &ShardFiles, n: u64) -> Result<(), Error> {
    let mut check = files.check(shard_id(n))?;
    while !check.step(1)? {}
    Ok(())
}

fn is_corrupt<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Corrupt { .. }))
}

#[test]
fn written_bytes_are_read_back_over_every_kind_of_range() {
    let files = files(&disk());
    let block = HASH_BLOCK_BYTES;
    for (n, len) in (0..).zip([0, 1, 4096, block, block + 1, 3 * block - 7, (2 << 20) + 5000]) {
        let payload = payload(len);
        let mut writer = files.create(&header(n, len)).unwrap();
        // Odd pieces, several to an append, one of them empty.
        for piece in payload.chunks(99_991) {
            let (a, b) = piece.split_at(piece.len() / 3);
            writer.append(&[Bytes::copy_from_slice(a), Bytes::new(), Bytes::copy_from_slice(b)]).unwrap();
        }
        writer.finish().unwrap();
        let ranges =
            [(0, len), (0, 1), (len / 2, len), (len / 3, len / 2), (len, len), (block - 1, block + 1)];
        for (from, to) in ranges.into_iter().filter(|(from, to)| from <= to && *to <= len) {
            let found = read(&files, shard_id(n), from as u64..to as u64).unwrap();
            assert_eq!(joined(&found), payload[from..to], "{from}..{to} of {len}");
        }
        assert!(is_corrupt(&read(&files, shard_id(n), 0..len as u64 + 1)));
        assert_eq!(files.header(shard_id(n)).unwrap(), header(n, len));
        check(&files, n).unwrap();
    }
}

#[test]
fn a_filesystem_that_aligns_otherwise_is_written_and_verified_through_the_cache() {
    let disk = disk();
    disk.set_direct_align(1 << 20);
    let files = files(&disk);
    let (pages, payload) = (3 * HASH_BLOCK_BYTES, payload(3 * HASH_BLOCK_BYTES + 5000));
    let mut buffer = pool().try_take(pages).unwrap();
    buffer[..pages].copy_from_slice(&payload[..pages]);
    let mut writer = files.create(&header(1, payload.len())).unwrap();
    writer.append(&[buffer.freeze(pages), payload.slice(pages..)]).unwrap();
    writer.finish().unwrap();
    assert_eq!(joined(&read(&files, shard_id(1), 0..payload.len() as u64).unwrap()), payload);
    check(&files, 1).unwrap();
}

#[test]
fn a_range_reads_only_the_blocks_it_touches() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(4 * HASH_BLOCK_BYTES);
    write(&files, 1, &payload).unwrap();
    let block = HASH_BLOCK_BYTES as u64;
    disk.rot(&path(1), HEADER_BYTES as u64 + 2 * block..HEADER_BYTES as u64 + 2 * block + 1).unwrap();
    assert_eq!(joined(&read(&files, shard_id(1), 10..2 * block).unwrap()), payload[10..2 * HASH_BLOCK_BYTES]);
    assert_eq!(
        joined(&read(&files, shard_id(1), 3 * block..4 * block).unwrap()),
        payload[3 * HASH_BLOCK_BYTES..]
    );
    assert!(is_corrupt(&read(&files, shard_id(1), 10..2 * block + 1)));
    assert!(is_corrupt(&read(&files, shard_id(1), 3 * block - 1..3 * block + 1)));
}

#[test]
fn bytes_of_a_read_go_back_to_the_pool_when_they_are_dropped() {
    let files = files(&disk());
    write(&files, 1, &payload(100_000)).unwrap();
    let found = read(&files, shard_id(1), 70_000..70_010).unwrap();
    assert_eq!(files.shared.pool.usage().in_use_bytes, 64 << 10);
    drop(found);
    assert_eq!(files.shared.pool.usage().in_use_bytes, 0);
}

#[test]
fn a_read_beyond_the_pool_is_busy_and_holds_nothing() {
    let disk = disk();
    let limits = PoolLimits { cap_bytes: 1 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 };
    let pool = BufferPool::new(limits);
    let files = ShardFiles::new(Arc::new(disk.clone()), PathBuf::from(ROOT), CLUSTER, pool.clone());
    write(&files, 1, &payload(3 << 20)).unwrap();
    assert!(matches!(read(&files, shard_id(1), 0..3 << 20), Err(Error::Busy)));
    assert_eq!(pool.usage().in_use_bytes, 0);
    assert!(read(&files, shard_id(1), 0..1 << 20).is_ok());
}

#[test]
fn cached_reads_never_wait() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(200_000);
    write(&files, 1, &payload).unwrap();
    assert!(cached(&files, shard_id(1), 0..10).unwrap().is_none(), "not open yet");
    read(&files, shard_id(1), 0..10).unwrap();
    let found = cached(&files, shard_id(1), 5..150_000).unwrap().unwrap();
    assert_eq!(joined(&found), payload[5..150_000]);
    let file = disk.open(&path(1), OpenMode::Read).unwrap();
    file.evict(0, 1 << 20);
    assert!(cached(&files, shard_id(1), 5..10).unwrap().is_none(), "not in memory");
    read(&files, shard_id(1), 5..10).unwrap();
    assert!(cached(&files, shard_id(1), 5..10).unwrap().is_some());
    disk.rot(&path(1), 4096..4097).unwrap();
    assert!(is_corrupt(&cached(&files, shard_id(1), 5..10)));
}

#[test]
fn a_large_shard_is_never_read_by_who_must_not_wait() {
    let files = files(&disk());
    let payload = payload(4 << 20);
    write(&files, 1, &payload).unwrap();
    assert_eq!(joined(&read(&files, shard_id(1), 0..4 << 20).unwrap()), payload);
    assert!(cached(&files, shard_id(1), 0..1).unwrap().is_none());
}

#[test]
fn verification_takes_no_place_in_the_page_cache() {
    let disk = disk();
    let files = files(&disk);
    // Neither whole pages nor whole blocks.
    let payload = payload((1 << 20) + 5000);
    write(&files, 1, &payload).unwrap();
    check(&files, 1).unwrap();
    let file = disk.open(&path(1), OpenMode::Read).unwrap();
    let in_memory = file.read_cached_at(&mut [0; 4096], HEADER_BYTES as u64);
    assert_eq!(in_memory.unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_read_aside_takes_no_place_in_the_page_cache() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(3 * HASH_BLOCK_BYTES + 5000);
    write(&files, 1, &payload).unwrap();
    let length = payload.len() as u64;
    for range in [0..payload.len(), 70_000..70_001, payload.len() - 1..payload.len()] {
        let bytes = range.start as u64..range.end as u64;
        assert_eq!(joined(&from_device(&files, shard_id(1), bytes).unwrap()), payload[range]);
    }
    assert!(cached(&files, shard_id(1), 0..length).unwrap().is_none(), "not in memory");
    disk.set_direct_align(1 << 20);
    assert_eq!(
        joined(&from_device(&files, shard_id(1), 0..length).unwrap()),
        payload,
        "through the cache then"
    );
    disk.rot(&path(1), 4096..4097).unwrap();
    assert!(is_corrupt(&from_device(&files, shard_id(1), 0..10)));
}

#[test]
fn a_file_is_verified_where_nothing_goes_past_the_page_cache() {
    let disk = disk();
    let files = files(&disk);
    write(&files, 1, &payload(1 << 20)).unwrap();
    // Opened to be evicted, and to be read, with its length asked for and pages evicted; then directly.
    let _fault =
        disk.inject(Fault { call: Call::Open, under: path(1), skip: 5, times: 1, failure: Failure::Io });
    check(&files, 1).unwrap();
}

#[test]
fn a_finished_file_is_whole_after_every_power_cut_and_an_unfinished_one_never_passes() {
    let first = payload(150_000);
    let second = payload(HASH_BLOCK_BYTES);
    let workload = |disk: &FaultyDisk| {
        let files = files(disk);
        let mut finished = Vec::new();
        for (n, payload) in [(1, &first), (2, &second), (100_000, &first)] {
            if write(&files, n, payload).is_ok() {
                finished.push(n);
            }
        }
        finished
    };
    let counted = disk();
    let before = counted.operations();
    assert_eq!(workload(&counted), [1, 2, 100_000]);
    let mut partial = 0;
    for cut in before..=counted.operations() {
        for (seed, keep) in
            (0..8).map(|seed| (seed, Keep::Some)).chain([(0, Keep::Nothing), (0, Keep::Everything)])
        {
            let disk = disk();
            disk.cut_power_at(cut);
            let finished = workload(&disk);
            disk.restart(seed, keep);
            let files = files(&disk);
            for (n, payload) in [(1, &first), (2, &second), (100_000, &first)] {
                let found = read(&files, shard_id(n), 0..payload.len() as u64);
                let seen = format!("{n}, cut at {cut}, seed {seed}, {keep:?}: {found:?}");
                match &found {
                    Ok(found) => assert_eq!(joined(found), payload[..], "{seen}"),
                    Err(_) => assert!(!finished.contains(&n), "{seen}"),
                }
                partial += u32::from(is_corrupt(&found));
            }
        }
    }
    assert!(partial > 20, "only {partial} files were found unfinished");
}

#[test]
fn a_heal_leaves_the_old_file_or_the_whole_new_one_after_every_power_cut() {
    let good = payload(100_000);
    let prepare = || {
        let disk = disk();
        write(&files(&disk), 1, &good).unwrap();
        disk.rot(&path(1), 5000..5001).unwrap();
        disk
    };
    let heal = |disk: &FaultyDisk| {
        let files = files(disk);
        let mut writer = files.heal(&header(1, good.len()))?;
        writer.append(std::slice::from_ref(&good))?;
        writer.finish()
    };
    let counted = prepare();
    let before = counted.operations();
    heal(&counted).unwrap();
    for cut in before..=counted.operations() {
        for seed in 0..8 {
            let disk = prepare();
            disk.cut_power_at(cut);
            let is_healed = heal(&disk).is_ok();
            disk.restart(seed, Keep::Some);
            let files = files(&disk);
            let found = read(&files, shard_id(1), 0..good.len() as u64);
            match &found {
                Ok(found) => assert_eq!(joined(found), good[..]),
                Err(error) => assert!(!is_healed && matches!(error, Error::Corrupt { .. }), "{error}"),
            }
            assert_eq!(files.list(Directories::of(shard_id(1).data)).unwrap(), [shard_id(1)]);
            assert!(heal(&disk).is_ok(), "a heal begins again after a crash");
            assert_eq!(joined(&read(&files, shard_id(1), 0..good.len() as u64).unwrap()), good[..]);
        }
    }
}

#[test]
fn a_healed_file_is_opened_again() {
    let disk = disk();
    let files = files(&disk);
    let good = payload(100_000);
    write(&files, 1, &good).unwrap();
    read(&files, shard_id(1), 0..1).unwrap();
    disk.rot(&path(1), 4096..4097).unwrap();
    assert!(is_corrupt(&read(&files, shard_id(1), 0..1)));
    read(&files, shard_id(1), 70_000..70_001).unwrap();
    let mut writer = files.heal(&header(1, good.len())).unwrap();
    assert!(matches!(files.heal(&header(1, good.len())), Err(Error::Busy)));
    writer.append(std::slice::from_ref(&good)).unwrap();
    assert_eq!(files.list(Directories::of(shard_id(1).data)).unwrap(), [shard_id(1)]);
    writer.finish().unwrap();
    assert_eq!(joined(&read(&files, shard_id(1), 0..100_000).unwrap()), good[..]);
    files.heal(&header(1, good.len())).unwrap().abort();
    assert_eq!(joined(&read(&files, shard_id(1), 0..100_000).unwrap()), good[..]);
}

#[test]
fn a_directory_is_listed_once_for_all_its_pages() {
    let disk = disk();
    let files = files(&disk);
    let directory = Directories::of(shard_id(0).data);
    let numbers: Vec<u64> = (0..200).filter(|n| Directories::of(shard_id(*n).data) == directory).collect();
    assert!(numbers.len() > 20);
    for n in &numbers {
        write(&files, *n, &payload(10)).unwrap();
    }
    let (new, old) = numbers.split_last().unwrap();
    files.delete(shard_id(*new)).unwrap();
    let mut page = files.page(directory, None, 7).unwrap();
    let mut found = page.shards;
    write(&files, *new, &payload(10)).unwrap();
    while page.has_more {
        page = files.page(directory, found.last().copied(), 7).unwrap();
        found.extend(&page.shards);
    }
    assert_eq!(found, old.iter().map(|n| shard_id(*n)).collect::<Vec<_>>(), "what lay there at first");
    // The next time it is listed again, from its beginning or from where another walk left off.
    files.delete(shard_id(numbers[0])).unwrap();
    assert_eq!(files.page(directory, None, 1).unwrap().shards, [shard_id(numbers[1])]);
    let rest = files.page(directory.wrapping_add(1), found.last().copied(), 1).unwrap();
    assert_eq!(rest, FilePage { shards: Vec::new(), has_more: false });
    let last = files.page(directory, found.get(found.len() - 2).copied(), 7).unwrap();
    assert_eq!(last, FilePage { shards: vec![found[found.len() - 1], shard_id(*new)], has_more: false });
}

#[test]
fn deleted_shards_are_gone_and_may_be_deleted_again() {
    let files = files(&disk());
    write(&files, 1, &payload(1000)).unwrap();
    read(&files, shard_id(1), 0..1).unwrap();
    files.delete(shard_id(1)).unwrap();
    assert!(matches!(read(&files, shard_id(1), 0..1), Err(Error::NotFound)));
    assert!(cached(&files, shard_id(1), 0..1).unwrap().is_none());
    files.delete(shard_id(1)).unwrap();
}

#[test]
fn listing_gives_shards_and_nothing_else() {
    let disk = disk();
    let files = files(&disk);
    assert_eq!(files.list(0x50).unwrap(), []);
    for n in [1, 2, 300] {
        write(&files, n, &payload(10)).unwrap();
    }
    let directory = PathBuf::from(ROOT).join("50");
    for name in ["x", "01a3185c500100000102030405060708.02", "01A3185C500100000102030405060708.2", "a.heal"] {
        disk.open(&directory.join(name), OpenMode::CreateNew).unwrap();
    }
    let mut found: Vec<ShardId> = (0..=255).flat_map(|byte| files.list(byte).unwrap()).collect();
    found.sort();
    assert_eq!(found, [shard_id(1), shard_id(2), shard_id(300)]);
}

#[test]
fn many_threads_write_and_read_and_share_directory_syncs() {
    let disk = disk();
    let files = files(&disk);
    let count = 64;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let files = files.clone();
            scope.spawn(move || {
                for n in (0..count).filter(|n| n % 8 == thread) {
                    let payload = payload(1000 + usize::try_from(n).unwrap());
                    write(&files, n, &payload).unwrap();
                    let found = read(&files, shard_id(n), 0..payload.len() as u64).unwrap();
                    assert_eq!(joined(&found), payload[..]);
                }
            });
        }
    });
    disk.restart(1, Keep::Nothing);
    let files = self::files(&disk);
    for n in 0..count {
        check(&files, n).unwrap();
    }
}

#[test]
fn the_scrubber_works_in_steps_and_sees_what_the_device_has() {
    let disk = disk();
    let files = files(&disk);
    write(&files, 1, &payload(5 * HASH_BLOCK_BYTES)).unwrap();
    let mut check = files.check(shard_id(1)).unwrap();
    assert_eq!(check.header(), &header(1, 5 * HASH_BLOCK_BYTES));
    assert!(!check.step(1).unwrap());
    let at = HEADER_BYTES as u64 + 4 * HASH_BLOCK_BYTES as u64;
    disk.rot(&path(1), at..at + 1).unwrap();
    let end = loop {
        match check.step(1) {
            Ok(false) => {}
            end => break end,
        }
    };
    assert!(is_corrupt(&end));
    assert!(matches!(files.check(shard_id(2)), Err(Error::NotFound)));
}
