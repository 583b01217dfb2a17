//! Properties of a log that was damaged after it was written: checked by `fuzz/` and by the tests here.
//!
//! Replay returns only records that were written, in their places and with their bytes; none is invented, and
//! an undamaged log comes back whole. Built for tests and for fuzzing only.
//!
//! ```text
//! input    records u8, then 4 bytes each: joins the batch before (odd) or not, subject, payload bytes u16
//!          damage, 4 bytes each:          offset u24 in the last segment, byte to put there
//! ```

use std::path::Path;
use std::sync::Arc;

use crate::disk::faulty::FaultyDisk;
use crate::disk::{Disk, OpenMode};
use crate::format::{Flags, SEGMENT_HEADER_BYTES, SegmentHeader, Subject};
use crate::index::table::payload_bytes_needed;
use crate::log::append::{HeaderPromises, Log, NewRecord, Tail};
use crate::log::durable::SpareSegments;
use crate::log::replay::{FoundRecord, HeadedSegment, UnreadableRange, replay};
use crate::log::{Segment, Segments};
use crate::options::UnreadablePolicy;
use bytes::Bytes;
use sherd_core::env::Clock;
use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, DataId, ObjectKey, ProposerId, RegisterKey, Sequence, ShardId, Timestamp, VolumeId,
};

const VOLUME: VolumeId = VolumeId([7; 16]);
const SEGMENT_BYTES: u64 = 256 << 10;
/// Bytes of one batch: half a segment, so that several segments come about.
const BATCH_BYTES: usize = 128 << 10;
const RECORDS_MAX: usize = 40;

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn wall_ms(&self) -> u64 {
        0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

struct WrittenRecord {
    sequence: Sequence,
    subject: Subject,
    payload: Bytes,
}

/// One log and its damage, see the head of this file.
pub fn damaged_log(input: &[u8]) {
    let Some((count, rest)) = input.split_first() else { return };
    let split = (usize::from(*count) % (RECORDS_MAX + 1) * 4).min(rest.len() / 4 * 4);
    let (records, damage) = rest.split_at(split);
    let disk = FaultyDisk::new(1);
    let folder = Path::new("/log");
    disk.create_dir(folder).expect("a new disk");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let segments = Arc::new(Segments::new(&shared));
    let written = write(&disk, folder, &segments, records);
    let Some(last) = segments.all().pop() else { return };
    let mut is_damaged = false;
    for edit in damage.chunks_exact(4) {
        let [a, b, c, byte] = edit.try_into().expect("cut to it");
        let offset = u64::from(u32::from_le_bytes([a, b, c, 0]));
        is_damaged |= put(&disk, &last, offset, byte);
    }
    let headed: Vec<HeadedSegment> = segments.all().into_iter().map(headed).collect();
    let mut found: Vec<FoundRecord> = Vec::new();
    let mut visit = |frame: Vec<FoundRecord>, _| {
        found.extend(frame);
        Ok::<(), UnreadableRange>(())
    };
    let result = replay(&headed, Sequence(1), UnreadablePolicy::Refuse, &|_| None, &mut visit);
    let result = result.expect("the disk reads, and the visitor fails never");
    for one in &found {
        let original = written.iter().find(|written| written.sequence == one.placed.placed);
        let original = original.expect("nothing is made up");
        assert_eq!(one.subject, original.subject);
        assert_eq!(one.payload_bytes as usize, original.payload.len());
        if let Some(payload) = &one.payload {
            assert_eq!(payload.len(), payload_bytes_needed(&one.subject, one.payload_bytes) as usize);
            assert!(original.payload.starts_with(payload));
        }
    }
    assert!(found.is_sorted_by_key(|one| one.placed.placed));
    let last = found.last().map_or(Sequence(0), |one| one.placed.placed);
    let reached = written.iter().filter(|written| written.sequence <= last).count();
    assert!(found.len() == reached || !result.lost.is_empty(), "a loss before found records is reported");
    if !is_damaged {
        assert_eq!(found.len(), written.len());
        assert!(found.iter().all(|one| one.payload.is_some()));
        assert!(result.lost.is_empty() && !result.torn);
    }
    assert!(result.next.0 <= written.last().map_or(1, |last| last.sequence.0 + 1));
}

fn write(disk: &FaultyDisk, folder: &Path, segments: &Arc<Segments>, records: &[u8]) -> Vec<WrittenRecord> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let spares = SpareSegments::adopt(disk, folder, &[], SEGMENT_BYTES, 0).expect("nothing to adopt");
    let tail = Tail { segment: None, number: 0, previous: 0, end: 0, next: Sequence(1) };
    let (segments, spares) = (Arc::clone(segments), Arc::new(spares));
    let mut log = Log::new(VOLUME, SEGMENT_BYTES, true, Arc::new(FixedClock), segments, spares, &tail);
    let mut written = Vec::new();
    let mut batch: Vec<NewRecord> = Vec::new();
    let mut flush = |batch: &mut Vec<NewRecord>, written: &mut Vec<WrittenRecord>| {
        if batch.is_empty() {
            return;
        }
        let placed = log.append(batch, HeaderPromises::default()).expect("there is room");
        for (record, placed) in batch.drain(..).zip(placed) {
            let payload = record.payload.concat().into();
            written.push(WrittenRecord { sequence: placed.placed, subject: record.subject, payload });
        }
    };
    for record in records.chunks_exact(4) {
        let [joins, kind, low, high] = record.try_into().expect("cut to it");
        if joins & 1 == 0 {
            flush(&mut batch, &mut written);
        }
        let bytes = usize::from(u16::from_le_bytes([low, high]));
        let (subject, payload) = subject(kind, bytes);
        let record = NewRecord::new(subject, Flags::default(), vec![payload]);
        if batch.iter().map(NewRecord::bytes).sum::<usize>() + record.bytes() > BATCH_BYTES {
            flush(&mut batch, &mut written);
        }
        batch.push(record);
    }
    flush(&mut batch, &mut written);
    written
}

fn subject(kind: u8, bytes: usize) -> (Subject, Bytes) {
    let key = RegisterKey::object(BucketId([kind; 16]), ObjectKey::new("key").expect("a key"));
    let ballot = Ballot { time: Timestamp::from_ms(u64::from(kind)), proposer: ProposerId(9) };
    let payload = Bytes::from(vec![kind; bytes]);
    let subject = match kind % 4 {
        0 => Subject::Row { key, ballot, digest: [kind; 32], head_bytes: 0 },
        1 => {
            let data = DataId { birth: ballot.time, proposer: ProposerId(9) };
            Subject::Shard { shard: ShardId { data, index: kind }, key }
        }
        2 => Subject::Heal { id: HealId([kind; 16]) },
        _ => return (Subject::Bound(ballot), Bytes::new()),
    };
    (subject, payload)
}

/// Puts a byte into a segment's file; whether it is another than before.
fn put(disk: &FaultyDisk, segment: &Segment, offset: u64, byte: u8) -> bool {
    let file = disk.open(&segment.path, OpenMode::Write).expect("a healthy disk");
    let mut before = [0];
    match file.read_at(&mut before, offset) {
        Ok(1) if before != [byte] => {}
        _ => return false,
    }
    file.write_at(&[std::io::IoSlice::new(&[byte])], offset).expect("a healthy disk");
    true
}

fn headed(segment: Arc<Segment>) -> HeadedSegment {
    let mut page = [0; SEGMENT_HEADER_BYTES];
    let read = segment.file().and_then(|file| file.read_at(&mut page, 0)).unwrap_or(0);
    let header = SegmentHeader::decode(&page[..read]).ok();
    let header = header.filter(|header| header.volume == VOLUME && header.number == segment.number);
    HeadedSegment { segment, header }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_undamaged_log_of_many_records_comes_back() {
        let records: Vec<u8> = (0..40_u8).flat_map(|n| [n % 3, n, n * 6, n * 5]).collect();
        damaged_log(&[&[40][..], &records].concat());
        damaged_log(&[&[1, 0, 0, 0, 0][..], &[0, 0, 0, b'X']].concat());
    }

    proptest! {
        #[test]
        fn any_damage_is_distinguished_from_written_records(
            records in proptest::collection::vec(any::<[u8; 3]>(), 0..20),
            damage in proptest::collection::vec((0..40_000_u32, any::<u8>()), 0..6),
        ) {
            let mut input = vec![u8::try_from(records.len()).unwrap()];
            // Short payloads, so that damage lies in headers too.
            input.extend(records.iter().flat_map(|[joins, kind, low]| [*joins, *kind, *low, 0]));
            for (offset, byte) in damage {
                let [a, b, c, _] = offset.to_le_bytes();
                input.extend([a, b, c, byte]);
            }
            damaged_log(&input);
        }
    }
}
