//! The bytes of the log, version 5, and of what versions 1 to 4 have otherwise. A change of these is a new
//! version of the format.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write;

use bytes::Bytes;
use proptest::prelude::*;

use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, ChangeId, DataId, Epoch, Life, ObjectKey, PartKey, ProposerId, RegisterKey, Sequence,
    ShardId, Slot, Timestamp, UploadId, VolumeId,
};
use sherd_core::register::RowHead;
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::opening::{Opening, PeerNotes};
use sherd_core::release::ReleaseId;
use sherd_volume::format::{
    Flags, FrameHeader, Hint, Kind, Phase, RecordHeader, Seed, SegmentHeader, Subject, block_hashes,
    decode_hints, encode_hints,
};
use sherd_volume::index::table::{self, Body, Entry, Origin, RecordLocation, RowBody};
use sherd_volume::log;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn ballot() -> Ballot {
    Ballot { time: Timestamp::from_u64(0x0102_0304_0506_0708), proposer: ProposerId(0x1112_1314_1516_1718) }
}

fn object() -> RegisterKey {
    RegisterKey::object(BucketId([0xb0; 16]), ObjectKey::new("a/b").unwrap())
}

fn part() -> RegisterKey {
    let part = PartKey { upload: UploadId([0xc0; 16]), number: 0x0102 };
    RegisterKey::part(BucketId([0xb0; 16]), ObjectKey::new("a/b").unwrap(), part)
}

fn shard() -> ShardId {
    let data = DataId { birth: Timestamp::from_u64(0x2122_2324_2526_2728), proposer: ProposerId(0x31) };
    ShardId { data, index: 5 }
}

fn opening() -> Opening {
    Opening { id: OpeningId(0x4142_4344_4546_4748), end: Sequence(0x0d) }
}

fn notes() -> PeerNotes {
    let life = Life(2);
    let mut notes = PeerNotes::new(life);
    for (opening, durable) in [(opening().id, Sequence(0x0f)), (OpeningId(0x31), Sequence(0x0e))] {
        notes.note(Position { life, opening, durable });
    }
    notes
}

fn subjects() -> Vec<(Subject, &'static str)> {
    let change = ChangeId { made: Timestamp::from_u64(9), proposer: ProposerId(10) };
    vec![
        (
            Subject::Row { key: object(), ballot: ballot(), digest: [0xd0; 32], head_bytes: 0x0102 },
            "row-object",
        ),
        (Subject::Row { key: part(), ballot: ballot(), digest: [0xd0; 32], head_bytes: 1 }, "row-part"),
        (Subject::Shard { shard: shard(), key: object() }, "shard"),
        (
            Subject::Delete {
                key: table::shard_key(shard()),
                oldest: Sequence(0x0a),
                newest: Sequence(0x0b),
            },
            "delete",
        ),
        (Subject::Hints, "hints"),
        (Subject::Bound(ballot()), "bound"),
        (Subject::Floor(ballot()), "floor"),
        (Subject::DataFloor(Timestamp::from_u64(0x77)), "data-floor"),
        (Subject::ClockReading(Timestamp::from_u64(0x78)), "clock-reading"),
        (Subject::Epoch { slot: Slot(0x0102), epoch: Epoch(3) }, "epoch"),
        (Subject::Seal { bucket: BucketId([0xb0; 16]), deletion: Some(change) }, "seal"),
        (Subject::Seal { bucket: BucketId([0xb0; 16]), deletion: None }, "final-seal"),
        (Subject::Peer { volume: VolumeId([0xa0; 16]), life: Life(2), durable: Sequence(0x0c) }, "peer"),
        (Subject::PeerNotes { volume: VolumeId([0xa0; 16]), notes: notes() }, "peer-notes"),
        (Subject::Opening { life: Life(2), opening: opening() }, "opening"),
        (Subject::Heal { id: HealId([0xe0; 16]) }, "heal"),
        (Subject::Release { id: ReleaseId([0xf0; 16]) }, "release"),
        (Subject::Segment { number: 7, end: 0x2000, first: Sequence(5), last: Sequence(6) }, "segment"),
        (
            Subject::Phase {
                life: Life(2),
                phase: Phase::Adopting,
                rows_after: Sequence(3),
                kept_after: Sequence(1),
            },
            "phase",
        ),
    ]
}

/// Kind number, subject, and the index key that it goes under.
fn golden() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "row-object",
            "01 b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b003000000612f620001020304050607081112131415161718d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d002010000 01b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0612f62",
        ),
        (
            "row-part",
            "01 b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b003000000612f6201c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0020101020304050607081112131415161718d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d001000000 02b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c00102612f62",
        ),
        (
            "shard",
            "02 2122232425262728000000000000003105b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b003000000612f6200 032122232425262728000000000000003105",
        ),
        ("delete", "03 0a000000000000000b00000000000000032122232425262728000000000000003105 -"),
        ("hints", "04  -"),
        ("bound", "05 01020304050607081112131415161718 0605"),
        ("floor", "06 01020304050607081112131415161718 0606"),
        ("data-floor", "0d 7700000000000000 060d"),
        ("clock-reading", "0e 7800000000000000 060e"),
        ("epoch", "07 02010300000000000000 06070102"),
        (
            "seal",
            "08 b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0010000000000000009000000000000000a 0608b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b00000000000000009000000000000000a",
        ),
        ("final-seal", "08 b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b000 0608b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0"),
        (
            "peer",
            "09 a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0020000000c00000000000000 0609a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0",
        ),
        (
            "peer-notes",
            "12 a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a00200000031000000000000000e0000000000000048474645444342410f00000000000000 0612a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0",
        ),
        ("opening", "13 0200000048474645444342410d00000000000000 061300000002000000000000000d"),
        ("heal", "0a e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0 05e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0"),
        ("release", "0f f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0 08f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0"),
        (
            "segment",
            "0b 0700000000000000002000000000000005000000000000000600000000000000 060b0000000000000007",
        ),
        ("phase", "0c 020000000203000000000000000100000000000000 060c"),
    ]
}

#[test]
fn subjects_and_their_index_keys_keep_their_bytes() {
    let found: Vec<String> = subjects()
        .iter()
        .map(|(subject, name)| {
            let key = table::key_of(subject).map_or_else(|| "-".to_owned(), |key| hex(&key));
            format!("{name} {:02x} {} {key}", subject.kind() as u8, hex(&subject.encode()))
        })
        .collect();
    let expected: Vec<String> = golden().iter().map(|(name, rest)| format!("{name} {rest}")).collect();
    assert_eq!(found, expected, "{found:#?}");
    for (subject, name) in subjects() {
        assert_eq!(subject.encoded_bytes(), subject.encode().len(), "{name}");
        assert_eq!(Subject::decode(subject.kind(), subject.encode()), Ok(subject));
    }
}

#[test]
fn headers_of_segments_keep_their_bytes() {
    let volume = VolumeId([0xa0; 16]);
    let segment = SegmentHeader {
        is_synced: true,
        is_longer: false,
        volume,
        number: 7,
        first: Sequence(5),
        previous: 6,
        previous_end: 0x2000,
        bound: ballot(),
        floor: ballot(),
        data_floor: Timestamp::from_u64(0x77),
    };
    let bytes = segment.encode();
    assert_eq!(
        hex(&bytes[..104]),
        "534845524453454705000100a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a007000000000000000500000000000000060000000000000000200000000000000102030405060708111213141516171801020304050607081112131415161718770000000000000092da70b4"
    );
    assert!(bytes[104..].iter().all(|byte| *byte == 0));
    let longer = SegmentHeader { is_longer: true, ..segment.clone() };
    assert_eq!(
        hex(&longer.encode()[..104]),
        "534845524453454705000300a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0070000000000000005000000000000000600000000000000002000000000000001020304050607081112131415161718010203040506070811121314151617187700000000000000b7af1c86"
    );
    assert_eq!(SegmentHeader::decode(&longer.encode()), Ok(longer));
}

#[test]
fn headers_of_frames_and_records_keep_their_bytes() {
    let seed = Seed::of(VolumeId([0xa0; 16]), 7);
    let frame =
        FrameHeader { first: Sequence(5), last: Sequence(6), durable: Sequence(4), used: 500, records: 2 };
    assert_eq!(
        hex(&frame.encode(seed, 4096)),
        "534845524446524d050000000000000006000000000000000400000000000000f4010000020000000000000074fee207"
    );
    let subject = Subject::Shard { shard: shard(), key: object() };
    let payload = [Bytes::from(vec![1; 70_000])];
    let hashes = block_hashes(&payload);
    assert_eq!(hashes.len(), 64);
    let record = RecordHeader {
        kind: Kind::Shard,
        flags: Flags::MOVED,
        subject_bytes: u16::try_from(subject.encode().len()).unwrap(),
        payload_bytes: 70_000,
        sequence: Sequence(5),
        crc: 0,
    };
    assert_eq!(
        hex(&record.encode(seed, &subject.encode(), &hashes)),
        "020129007011010005000000000000003ef65a57"
    );
}

#[test]
fn hints_keep_their_bytes() {
    let hint = |key| Hint { key, ballot: ballot(), is_everywhere: true };
    let hints = vec![hint(object()), hint(part())];
    let bytes = encode_hints(&hints);
    assert_eq!(
        hex(&bytes),
        "02000000b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b003000000612f620001020304050607081112131415161718b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b003000000612f6201c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0020101020304050607081112131415161718"
    );
    assert_eq!(decode_hints(Flags::default(), bytes.clone()), Ok(hints));
    // The flags of the record say it of all of them.
    let missed = decode_hints(Flags::MISSED, bytes).unwrap();
    assert!(missed.iter().all(|hint| !hint.is_everywhere));
    assert_eq!(Flags::MISSED, Flags(8));
}

#[test]
fn entries_keep_their_bytes() {
    let origin = Origin {
        sequence: Sequence(5),
        oldest: Sequence(3),
        placed: Sequence(9),
        place: RecordLocation { segment: 7, offset: 0x1000, bytes: 0x0102 },
    };
    let row = |value: Option<&'static [u8]>, is_missed| {
        Body::Row(RowBody {
            head: RowHead { ballot: ballot(), digest: [0xd0; 32], committed: true },
            tombstone: false,
            is_missed,
            flag_logged: value.is_none(),
            head_bytes: 3,
            inline_bytes: 0x0a,
            value: value.map(Bytes::from_static),
        })
    };
    let bodies = [
        row(Some(&[1, 2, 3]), false),
        row(None, false),
        row(None, true),
        Body::Shard { key: object(), bytes: 0x0102 },
        Body::Heal { entry: Bytes::from_static(&[8, 9]) },
        Body::State(Subject::Epoch { slot: Slot(0x0102), epoch: Epoch(3) }),
        Body::Release { entry: Bytes::from_static(&[8, 9]) },
    ];
    let begin = "0500000000000000030000000000000009000000000000000700000000000000 0010000002010000";
    let head = format!("01020304050607081112131415161718{}030000000a000000", "d0".repeat(32));
    let golden = [
        format!("01 09 {head} 010203"),
        format!("01 05 {head}"),
        format!("01 15 {head}"),
        "02 02010000 b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b003000000612f6200".to_owned(),
        "03 0809".to_owned(),
        "04 07 02010300000000000000".to_owned(),
        "05 0809".to_owned(),
    ];
    for (body, golden) in bodies.into_iter().zip(golden) {
        let entry = Entry { origin, body };
        let golden: String = format!("{begin}{golden}").split_whitespace().collect();
        assert_eq!(hex(&entry.encode()), golden);
        assert_eq!(Entry::decode(entry.encode()), Ok(entry));
    }
    assert_eq!(
        hex(&table::unsettled_key(&table::row_key(&object()))),
        format!("0401{}612f62", "b0".repeat(16))
    );
}

#[test]
fn segments_keep_their_names() {
    let path = log::segment_path(std::path::Path::new("log"), 70_001);
    assert_eq!(path, std::path::Path::new("log/00000000000000070001.seg"));
    assert_eq!(log::parse_segment_name("00000000000000070001.seg"), Some(70_001));
    for other in ["70001.seg", "00000000000000070001.spare", "+0000000000000070001.seg"] {
        assert_eq!(log::parse_segment_name(other), None);
    }
}

#[test]
fn no_prefix_of_a_subject_is_one_and_no_flipped_byte_panics() {
    for (subject, name) in subjects() {
        let bytes = subject.encode();
        for length in 0..bytes.len() {
            // A delete's key is the rest of the record, so its prefixes are deletes of other keys; fewer
            // notes of a peer are notes of it, too.
            let is_list = subject.kind() == Kind::PeerNotes && length >= 20 && (length - 20) % 16 == 0;
            if subject.kind() != Kind::Delete && !is_list {
                assert!(Subject::decode(subject.kind(), bytes.slice(..length)).is_err(), "{name} {length}");
            }
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 0xff;
            let _ = Subject::decode(subject.kind(), flipped.into());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..20_u8) {
        let seed = Seed::of(VolumeId([1; 16]), 1);
        let whole = Bytes::from(bytes.clone());
        let _ = SegmentHeader::decode(&bytes);
        let _ = FrameHeader::decode(&bytes, seed, 4096);
        if let Ok(header) = RecordHeader::decode(&bytes) {
            let _ = header.open(seed, &whole);
        }
        if let Some(kind) = Kind::from_u8(kind)
            && let Ok(subject) = Subject::decode(kind, whole.clone())
        {
            assert_eq!(subject.encode(), whole, "a subject has one stored form");
        }
        if let Ok(hints) = decode_hints(Flags::default(), whole.clone()) {
            assert_eq!(encode_hints(&hints), whole);
        }
        if let Ok(entry) = Entry::decode(whole.clone()) {
            assert_eq!(entry.encode(), whole);
        }
        let _ = (table::parse_row_key(&whole), table::parse_shard_key(&whole), table::parse_heal_key(&whole));
        let _ = table::parse_release_key(&whole);
    }

    #[test]
    fn any_kind_byte_before_any_subject_is_decoded_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        kind in 1..20_u8,
    ) {
        let origin = [0; 40];
        for body in 1..6_u8 {
            let entry = Bytes::from([&origin[..], &[body, kind], &bytes].concat());
            if let Ok(decoded) = Entry::decode(entry.clone()) {
                assert_eq!(decoded.encode(), entry);
            }
        }
    }
}
