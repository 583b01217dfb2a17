//! Golden bytes and hostile bytes of every header of the log.

use sherd_core::id::{BucketId, ObjectKey, ProposerId, RegisterKey};

use super::*;

fn seed() -> Seed {
    Seed::of(VolumeId([7; 16]), 3)
}

fn header() -> FrameHeader {
    FrameHeader { first: Sequence(5), last: Sequence(6), durable: Sequence(4), used: 100, records: 2 }
}

#[test]
fn a_frame_header_is_of_one_segment_at_one_offset() {
    let bytes = header().encode(seed(), 4096);
    assert_eq!(FrameHeader::decode(&bytes, seed(), 4096), Ok(header()));
    assert!(FrameHeader::decode(&bytes, seed(), 8192).is_err());
    assert!(FrameHeader::decode(&bytes, Seed::of(VolumeId([7; 16]), 4), 4096).is_err());
    assert!(FrameHeader::decode(&bytes, Seed::of(VolumeId([8; 16]), 3), 4096).is_err());
}

#[test]
fn every_flipped_bit_of_a_frame_header_is_seen() {
    let bytes = header().encode(seed(), 4096);
    for bit in 0..bytes.len() * 8 {
        let mut rotten = bytes;
        rotten[bit / 8] ^= 1 << (bit % 8);
        assert!(FrameHeader::decode(&rotten, seed(), 4096).is_err(), "bit {bit}");
    }
}

#[test]
fn a_frame_header_that_contradicts_itself_is_refused() {
    for wrong in [
        FrameHeader { records: 3, ..header() },
        FrameHeader { durable: Sequence(5), ..header() },
        FrameHeader { last: Sequence(4), ..header() },
        FrameHeader { used: 10, ..header() },
        FrameHeader { used: u32::MAX, ..header() },
    ] {
        assert!(FrameHeader::decode(&wrong.encode(seed(), 0), seed(), 0).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_segment_header_comes_back_and_an_unknown_version_does_not() {
    let header = SegmentHeader {
        is_synced: true,
        is_longer: true,
        volume: VolumeId([7; 16]),
        number: 3,
        first: Sequence(9),
        previous: 2,
        previous_end: 8192,
        bound: Ballot { time: Timestamp::from_ms(1), proposer: ProposerId(2) },
        floor: Ballot::ZERO,
        data_floor: Timestamp::from_ms(4),
    };
    let bytes = header.encode();
    assert_eq!(bytes.len(), SEGMENT_HEADER_BYTES);
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header.clone()));
    let encoded_as = |version: u16| {
        let mut bytes = bytes.to_vec();
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let crc = Seed::of(header.volume, header.number).checksum(&[&bytes[..SEGMENT_FIELDS_BYTES]]);
        bytes[SEGMENT_FIELDS_BYTES..SEGMENT_FIELDS_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    for version in (0..VERSION).chain([VERSION + 1, u16::MAX]) {
        let refused = SegmentHeader::decode(&encoded_as(version));
        assert!(matches!(refused, Err(DecodeError::Version { .. })), "{version}: {refused:?}");
    }
    let mut torn = encoded_as(VERSION + 1);
    torn[8] = 1;
    assert!(matches!(SegmentHeader::decode(&torn), Err(DecodeError::Invalid { .. })));
    assert!(SegmentHeader::decode(&bytes[..50]).is_err());
}

#[test]
fn hashes_do_not_depend_on_how_a_payload_is_cut() {
    let whole: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
    let once = block_hashes(&[Bytes::from(whole.clone())]);
    let pieces: Vec<Bytes> = whole.chunks(999).map(Bytes::copy_from_slice).collect();
    assert_eq!(once, block_hashes(&pieces));
    assert_eq!(once.len(), 32 * 4);
    assert!(verify_block(&once, 3, &whole[3 * 65536..]));
    assert!(!verify_block(&once, 2, &whole[3 * 65536..]));
    assert!(!verify_block(&once, 4, b""));
}

#[test]
fn hints_come_back() {
    let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").unwrap());
    let hints = vec![Hint { key, ballot: Ballot::ZERO, is_everywhere: true }];
    assert_eq!(decode_hints(Flags::default(), encode_hints(&hints)), Ok(hints));
    assert!(decode_hints(Flags::default(), Bytes::from_static(&[255, 255, 255, 255])).is_err());
}

/// The numbers 16 and 17 were given once.
#[test]
fn a_number_of_no_kind_is_refused() {
    for number in [0, 16, 17, 20, u8::MAX] {
        assert_eq!(Kind::from_u8(number), None, "{number}");
    }
}
