//! Any bytes decode to a piece of the log or of the index, or are refused; each has one stored form.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::id::VolumeId;
use sherd_volume::format::{
    Flags, FrameHeader, Kind, RecordHeader, Seed, SegmentHeader, Subject, decode_hints, encode_hints,
};
use sherd_volume::index::table::{Entry, parse_row_key, row_key};

fuzz_target!(|data: &[u8]| {
    let seed = Seed::of(VolumeId([1; 16]), 1);
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(header) = SegmentHeader::decode(&bytes) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
    if let Ok(header) = FrameHeader::decode(&bytes, seed, 4096) {
        assert_eq!(header.encode(seed, 4096), bytes[..48]);
    }
    if let Ok(header) = RecordHeader::decode(&bytes) {
        let _ = header.open(seed, &bytes);
    }
    if let Some((kind, rest)) = data.split_first()
        && let Some(kind) = Kind::from_u8(*kind)
        && let Ok(subject) = Subject::decode(kind, Bytes::copy_from_slice(rest))
    {
        assert_eq!(subject.encode(), rest);
    }
    if let Ok(hints) = decode_hints(Flags::default(), bytes.clone()) {
        assert_eq!(encode_hints(&hints), bytes);
    }
    if let Ok(entry) = Entry::decode(bytes.clone()) {
        assert_eq!(entry.encode(), bytes);
    }
    if let Some(key) = parse_row_key(&bytes) {
        assert_eq!(row_key(&key), bytes);
    }
});
