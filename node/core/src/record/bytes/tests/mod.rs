//! Golden bytes pin version 4, version 5 in `entries.rs` and version 6 in `calls.rs`; properties hold for
//! values of every shape; no bytes make a decoder panic.

mod calls;
mod checksums;
mod entries;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::id::{DataId, ProposerId, SetId, Timestamp, VersionId};
use crate::limits;
use crate::record::{
    Attributes, Body, ChangeTry, Checksum, ChecksumAlgorithm, ChecksumBytes, ChecksumKind, Checksums,
    Content, DataRef, Entries, Home, Object, Part, PartRef, Tag, Upload, Version, VersionKind, strategy,
};

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex"))
        .collect()
}

fn change(made: u64) -> ChangeId {
    ChangeId { made: Timestamp::from_u64(made), proposer: ProposerId(0xbeef) }
}

fn numbered(made: u64, number: u16) -> ChangeTry {
    ChangeTry { change: change(made), number }
}

fn data(birth: u64) -> DataRef {
    DataRef {
        id: DataId { birth: Timestamp::from_u64(birth), proposer: ProposerId(7) },
        set: SetId(0x0a0b),
        size: 0x0102_0304,
        data_shards: 5,
        parity_shards: 3,
        stripe_unit: 256 << 10,
        home: Home::File,
    }
}

fn part(number: u16) -> PartRef {
    PartRef {
        number,
        tag: [0x0d; 16],
        checksum: Some(Checksum {
            algorithm: ChecksumAlgorithm::Crc32c,
            composite_of: None,
            value: ChecksumBytes::from_slice(&[1, 2, 3, 4]),
        }),
        data: Some(data(9)),
    }
}

fn attributes(name: &str, value: &str) -> Attributes {
    Attributes { pairs: vec![(name.to_owned(), value.to_owned())] }
}

fn content(body: Body) -> Content {
    Content {
        size: 4096,
        etag: "e1".to_owned(),
        attributes: attributes("a", "bc"),
        checksums: Checksums::from_iter([Checksum {
            algorithm: ChecksumAlgorithm::Crc64Nvme,
            composite_of: Some(2),
            value: ChecksumBytes::from_slice(&[8; 8]),
        }]),
        upload: Some(UploadId([0x0b; 16])),
        body,
        entries: Entries::default(),
    }
}

fn version(id: u8, kind: VersionKind) -> Version {
    Version { id: VersionId([id; 16]), modified_ms: 0x1122, kind }
}

fn of(state: State) -> Value {
    let recent = vec![numbered(1, 1), numbered(2, 0x0203)];
    Value { changes: Changes { count: 3, recent, conditional: Vec::new() }, state }
}

fn tombstone() -> Value {
    Value { changes: Changes::default(), state: State::Tombstone }
}

fn bucket() -> Value {
    of(State::Bucket(Bucket {
        id: BucketId([0xbb; 16]),
        created_ms: 5,
        location: "eu".to_owned(),
        phase: BucketPhase::Deleting { deletion: change(6) },
        tags: vec![Tag { key: "k".to_owned(), value: "v2".to_owned() }],
        entries: Entries::default(),
    }))
}

fn uploaded_part() -> Value {
    of(State::Part(Part { modified_ms: 77, part: part(10_000) }))
}

fn object() -> Value {
    of(State::Object(Object {
        versions: vec![
            version(1, VersionKind::Content(content(Body::Inline { hash: [0x44; 32] }))),
            version(2, VersionKind::DeleteMarker),
            version(3, VersionKind::Content(content(Body::Data(data(1))))),
            version(4, VersionKind::Content(content(Body::Parts(vec![part(1), part(3)])))),
            version(5, VersionKind::Content(content(Body::Manifest { page: data(2), parts: 10_000 }))),
        ],
        uploads: vec![
            Upload {
                id: UploadId([1; 16]),
                initiated_ms: 1,
                attributes: Some(attributes("n", "")),
                checksum: None,
            },
            Upload {
                id: UploadId([2; 16]),
                initiated_ms: 2,
                attributes: Some(Attributes::default()),
                checksum: Some((ChecksumAlgorithm::Sha256, ChecksumKind::FullObject)),
            },
            Upload { id: UploadId([3; 16]), initiated_ms: 3, attributes: None, checksum: None },
        ],
    }))
}

const CHANGES: &str = "0300000000000000 02 0000000000000001000000000000beef 0100
     0000000000000002000000000000beef 0302";
/// Bytes that version 4 has behind it: no conditional changes.
const NO_CALLS: &str = "00";

const DATA_REF_TAIL: &str = "0000000000000007 0b0a0000 0403020100000000 05 03 00000400 02";

fn golden_content(body: &str) -> String {
    format!(
        "0010000000000000 02000000 6531 01000000 01000000 61 02000000 6263
         01 03 0200 0808080808080808 01 {upload} {body}",
        upload = "0b".repeat(16),
    )
}

fn golden_part(number: &str) -> String {
    format!("{number} {md5} 01 02 0000 01020304 01 0000000000000009 {DATA_REF_TAIL}", md5 = "0d".repeat(16))
}

fn golden_version(id: &str, rest: &str) -> String {
    format!("{} 2211000000000000 {rest}", id.repeat(16))
}

fn golden_object() -> String {
    [
        format!("04 {CHANGES} {NO_CALLS} 01 05000000"),
        golden_version("01", &format!("01 {}", golden_content(&format!("01 {}", "44".repeat(32))))),
        golden_version("02", "00"),
        golden_version(
            "03",
            &format!("01 {}", golden_content(&format!("02 0000000000000001 {DATA_REF_TAIL}"))),
        ),
        golden_version(
            "04",
            &format!(
                "01 {}",
                golden_content(&format!("03 02000000 {} {}", golden_part("0100"), golden_part("0300")))
            ),
        ),
        golden_version(
            "05",
            &format!("01 {}", golden_content(&format!("04 0000000000000002 {DATA_REF_TAIL} 1027"))),
        ),
        format!("03000000 {} 0100000000000000 01 01000000 01000000 6e 00000000 00", "01".repeat(16)),
        format!("{} 0200000000000000 01 00000000 05 02", "02".repeat(16)),
        "03030303030303030303030303030303 0300000000000000 00 00".to_owned(),
    ]
    .join(" ")
}

fn goldens() -> Vec<(Value, Bytes)> {
    let texts = [
        "04 0000000000000000 00 00 00".to_owned(),
        format!(
            "04 {CHANGES} {NO_CALLS} 03 {id} 0500000000000000 02000000 6575
             01 0000000000000006000000000000beef 01 01000000 6b 02000000 7632",
            id = "bb".repeat(16),
        ),
        format!("04 {CHANGES} {NO_CALLS} 02 4d00000000000000 {}", golden_part("1027")),
        golden_object(),
    ];
    let values = [tombstone(), bucket(), uploaded_part(), object()];
    values.into_iter().zip(texts.iter().map(|text| unhex(text))).collect()
}

#[test]
fn version_4_is_these_bytes() {
    for (value, golden) in goldens() {
        assert_eq!(hex(&value.encode()), hex(&golden));
        assert_eq!(Value::decode(golden), Ok(value));
    }
}

#[test]
fn the_attributes_of_an_upload_are_these_bytes() {
    let value = of(State::UploadAttributes(attributes("k", "v2")));
    let bytes = unhex(&format!("04 {CHANGES} {NO_CALLS} 04 01000000 01000000 6b 02000000 7632"));
    assert_eq!(hex(&value.encode()), hex(&bytes));
    assert_eq!(Value::decode(bytes.clone()), Ok(value));
    for length in 0..bytes.len() {
        assert!(Value::decode(bytes.slice(..length)).is_err(), "the first {length} bytes decode");
    }
    let many = of(State::UploadAttributes(attributes("a", &"x".repeat(limits::ATTRIBUTES_BYTES_MAX))));
    assert_eq!(many.try_encode(), Err(OverLimit { field: "attributes" }));
}

#[test]
fn uploads_at_their_limit_fit_an_answer_unasked() {
    let upload = |n: u16| Upload {
        id: UploadId([n.to_le_bytes(); 8].concat().try_into().expect("16 bytes")),
        initiated_ms: u64::from(n),
        attributes: None,
        checksum: Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite)),
    };
    let uploads: Vec<Upload> = (0..1_000).map(upload).collect();
    let encoded = |uploads| of(State::Object(Object { versions: Vec::new(), uploads })).encode().len();
    let (without, with) = (encoded(Vec::new()), encoded(uploads.clone()));
    assert_eq!(with - without, limits::OPEN_UPLOADS_MAX * limits::UPLOAD_BYTES_MAX);
    assert!(with < limits::VALUE_UNASKED_BYTES_MAX, "{with}");
    // Each CreateMultipartUpload writes the row, and its own attributes.
    let pairs = of(State::UploadAttributes(attributes("x-amz-meta-a", &"v".repeat(2_000)))).encode().len();
    let written: usize = (1..=500).map(|count| encoded(uploads[..count].to_vec()) + pairs).sum();
    assert!(written < 5 << 20, "500 of them write {written} bytes");
}

#[test]
fn a_manifest_page_is_these_bytes() {
    let golden = unhex(&format!("02 02000000 {} {}", golden_part("0100"), golden_part("1027")));
    let parts = vec![part(1), part(10_000)];
    assert_eq!(hex(&encode_manifest(&parts)), hex(&golden));
    assert_eq!(decode_manifest(golden), Ok(parts));
}

#[test]
fn a_manifest_page_lists_parts_in_order() {
    let page = |parts: &[&str]| {
        let count = u8::try_from(parts.len()).expect("few");
        let parts: String = parts.iter().map(|number| golden_part(number)).collect();
        decode_manifest(unhex(&format!("02 {count:02x}000000 {parts}")))
    };
    let refused = |field| Err(DecodeError::Invalid { field });
    assert!(page(&["0100", "0200"]).is_ok());
    assert_eq!(page(&["0200", "0100"]), refused("part numbers"));
    assert_eq!(page(&["0200", "0200"]), refused("part numbers"));
    assert_eq!(page(&["0000", "0200"]), refused("part number"));
    assert_eq!(page(&["1127"]), refused("part number"));
    assert_eq!(page(&[]), refused("parts"));
}

#[test]
fn a_register_key_is_these_bytes() {
    let name = ObjectKey::new("k").expect("a key");
    let part = PartKey { upload: UploadId([3; 16]), number: 258 };
    let key = RegisterKey::part(BucketId([2; 16]), name, part);
    let mut writer = Writer::new();
    put_register_key(&mut writer, &key);
    let golden = unhex(&format!("{} 01000000 6b 01 {} 0201", "02".repeat(16), "03".repeat(16)));
    assert_eq!(hex(&writer.finish()), hex(&golden));
    assert_eq!(take_register_key(&mut Reader::new(golden)), Ok(key));
}

#[test]
fn the_digest_is_blake3_of_the_head() {
    let head = tombstone().encode();
    assert_eq!(Value::digest(&head), *blake3::hash(&[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).as_bytes());
}

#[test]
fn every_truncation_of_a_value_is_refused() {
    for (_, golden) in goldens() {
        for length in 0..golden.len() {
            assert!(Value::decode(golden.slice(..length)).is_err(), "the first {length} bytes decode");
        }
    }
}

#[test]
fn every_corruption_of_one_byte_is_refused_or_is_another_value() {
    for (value, golden) in goldens() {
        for at in 0..golden.len() {
            for flip in 1..=255_u8 {
                let mut bytes = golden.to_vec();
                bytes[at] ^= flip;
                let bytes = Bytes::from(bytes);
                if let Ok(other) = Value::decode(bytes.clone()) {
                    assert_ne!(other, value);
                    assert_eq!(other.encode(), bytes, "a value has one stored form");
                }
            }
        }
    }
}

#[test]
fn every_damage_of_a_manifest_page_is_refused_or_is_another_page() {
    let parts = vec![part(1), part(2)];
    let page = encode_manifest(&parts);
    for length in 0..page.len() {
        assert!(decode_manifest(page.slice(..length)).is_err());
    }
    for at in 0..page.len() {
        for flip in 1..=255_u8 {
            let mut bytes = page.to_vec();
            bytes[at] ^= flip;
            assert_ne!(decode_manifest(bytes.into()), Ok(parts.clone()));
        }
    }
}

#[test]
fn unknown_versions_are_refused() {
    let unknown = |field, version| DecodeError::Version { field, version };
    for version in [0, 1, 2, 3, 7, 255] {
        let value = unhex(&format!("{version:02x} 0000000000000000 00 00 00"));
        assert_eq!(Value::decode(value), Err(unknown("value", version)));
    }
    for version in [0, 1, 3] {
        assert_eq!(
            decode_manifest(unhex(&format!("{version:02x} 00000000"))),
            Err(unknown("manifest", version))
        );
    }
}

#[test]
fn bytes_behind_a_value_are_refused() {
    let mut bytes = object().encode().to_vec();
    bytes.push(0);
    assert_eq!(Value::decode(bytes.into()), Err(DecodeError::Trailing { field: "value" }));
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let golden = bucket().encode().to_vec();
    let at = golden.windows(2).position(|pair| pair == b"eu").expect("the location");
    let mut bytes = golden;
    bytes[at] = 0xff;
    assert_eq!(Value::decode(bytes.into()), Err(DecodeError::Invalid { field: "bucket location" }));
}

/// Breaks the golden object in one place and gives what `try_encode` says of it.
fn broken(spoil: impl FnOnce(&mut Object)) -> Result<Bytes, OverLimit> {
    let mut value = object();
    let State::Object(object) = &mut value.state else { unreachable!("the golden object is one") };
    spoil(object);
    value.try_encode()
}

fn first_content(object: &mut Object) -> &mut Content {
    let VersionKind::Content(content) = &mut object.versions[0].kind else { unreachable!("it has bytes") };
    content
}

fn broken_content(spoil: impl FnOnce(&mut Content)) -> Result<Bytes, OverLimit> {
    broken(|object| spoil(first_content(object)))
}

#[test]
fn a_body_past_its_limits_is_refused_before_it_is_stored() {
    let over = |field| Err(OverLimit { field });
    assert_eq!(broken_content(|content| content.etag = "e".repeat(65)), over("etag"));
    assert_eq!(broken_content(|content| content.size = limits::OBJECT_BYTES_MAX + 1), over("size"));
    assert_eq!(
        broken_content(|content| content.attributes = attributes("a", &"x".repeat(8 << 10))),
        over("attributes")
    );
    assert_eq!(broken_content(|content| content.attributes = attributes("", "x")), over("attribute name"));
    let shorter = |content: &mut Content| content.checksums[0].value = ChecksumBytes::from_slice(&[0; 4]);
    assert_eq!(broken_content(shorter), over("checksum"));
    assert_eq!(broken_content(|content| content.checksums[0].composite_of = Some(0)), over("checksum parts"));
    let six = |content: &mut Content| content.checksums = vec![content.checksums[0].clone(); 6].into();
    assert_eq!(broken_content(six), over("checksums"));
    assert_eq!(broken_content(|content| content.body = Body::Parts(Vec::new())), over("parts"));
    let twice = |content: &mut Content| content.body = Body::Parts(vec![part(2), part(2)]);
    assert_eq!(broken_content(twice), over("part numbers"));
    assert_eq!(broken_content(|content| content.body = Body::Parts(vec![part(0)])), over("part number"));
    let many = |content: &mut Content| content.body = Body::Parts((1..=65).map(part).collect());
    assert_eq!(broken_content(many), over("parts"));
    let none = |content: &mut Content| content.body = Body::Manifest { page: data(1), parts: 0 };
    assert_eq!(broken_content(none), over("manifest parts"));
}

#[test]
fn a_data_reference_past_its_limits_is_refused_before_it_is_stored() {
    let with = |spoil: fn(&mut DataRef)| {
        broken_content(|content| {
            let mut spoilt = data(1);
            spoil(&mut spoilt);
            content.body = Body::Data(spoilt);
        })
    };
    let over = |field| Err(OverLimit { field });
    assert_eq!(with(|data| data.set = SetId(16_384)), over("data set"));
    assert_eq!(with(|data| data.set = SetId(u32::MAX)), over("data set"));
    assert!(with(|data| data.set = SetId(16_383)).is_ok());
    assert_eq!(with(|data| data.size = 0), over("data size"));
    assert_eq!(with(|data| data.size = limits::DATA_BYTES_MAX + 1), over("data size"));
    assert_eq!(with(|data| data.data_shards = 0), over("data geometry"));
    assert_eq!(with(|data| data.parity_shards = 28), over("data geometry"));
    assert_eq!(with(|data| data.stripe_unit = 0), over("stripe unit"));
    assert_eq!(with(|data| data.stripe_unit = limits::STRIPE_UNIT_BYTES_MAX + 1), over("stripe unit"));
    assert!(with(|data| data.parity_shards = 27).is_ok());
}

#[test]
fn a_data_reference_past_its_limits_is_refused_on_its_own() {
    for spoil in [
        |data: &mut DataRef| data.set = SetId(16_384),
        |data: &mut DataRef| data.size = 0,
        |data: &mut DataRef| data.data_shards = 0,
        |data: &mut DataRef| data.parity_shards = 28,
        |data: &mut DataRef| data.stripe_unit = 0,
    ] {
        let mut spoilt = data(1);
        spoil(&mut spoilt);
        let mut writer = Writer::new();
        put_data_ref(&mut writer, &spoilt);
        let refused = take_data_ref(&mut Reader::new(writer.finish()));
        assert!(matches!(refused, Err(DecodeError::Invalid { .. })), "{spoilt:?}");
    }
}

#[test]
fn a_part_number_past_s3s_is_refused_in_a_key() {
    let read_again = |number| {
        let name = ObjectKey::new("k").expect("a key");
        let key = RegisterKey::part(BucketId([2; 16]), name, PartKey { upload: UploadId([3; 16]), number });
        let mut writer = Writer::new();
        put_register_key(&mut writer, &key);
        (take_register_key(&mut Reader::new(writer.finish())), key)
    };
    for number in [PartKey::ATTRIBUTES, 1, 10_000] {
        let (read, key) = read_again(number);
        assert_eq!(read, Ok(key));
    }
    assert_eq!(read_again(10_001).0, Err(DecodeError::Invalid { field: "part number" }));
}

#[test]
fn a_register_past_its_limits_is_refused_before_it_is_stored() {
    let over = |field| Err(OverLimit { field });
    let upload = |object: &Object| object.uploads[1].clone();
    assert_eq!(broken(|object| object.uploads = vec![upload(object); 1001]), over("uploads"));
    assert!(broken(|object| object.uploads = vec![upload(object); 1000]).is_ok());
    let large = |object: &mut Object| {
        let upload = Upload { attributes: Some(attributes("a", &"x".repeat(8000))), ..upload(object) };
        object.uploads = vec![upload; 1000];
    };
    assert_eq!(broken(large), over("value"));
    let marker = version(2, VersionKind::DeleteMarker);
    let markers = |count| broken(|object| object.versions = vec![marker.clone(); count]);
    assert!(markers(1 + (16 << 10) / 25).is_ok());
    assert_eq!(markers(2 + (16 << 10) / 25), over("older versions"));
    let with = |changes| Value { changes, ..tombstone() }.try_encode();
    let changes = Changes { count: 17, recent: vec![numbered(1, 1); 17], ..Changes::default() };
    assert_eq!(with(changes), over("change ids"));
}

#[test]
fn a_bucket_past_its_limits_is_refused_before_it_is_stored() {
    let over = |field| Err(OverLimit { field });
    let tagged = |count, key: &str, value: &str| {
        let mut bucket = bucket();
        let State::Bucket(held) = &mut bucket.state else { unreachable!("it is one") };
        held.tags = vec![Tag { key: key.to_owned(), value: value.to_owned() }; count];
        bucket.try_encode().map(|_| ())
    };
    // Characters, not bytes.
    assert_eq!(tagged(50, &"\u{e4}".repeat(128), &"\u{e4}".repeat(256)), Ok(()));
    assert_eq!(tagged(51, "k", ""), over("bucket tags"));
    assert_eq!(tagged(1, "", "v"), over("tag key"));
    assert_eq!(tagged(1, &"k".repeat(129), ""), over("tag key"));
    assert_eq!(tagged(1, "k", &"v".repeat(257)), over("tag value"));
}

#[test]
fn lists_past_their_limits_are_refused_without_being_read() {
    let markers = 2 + (16 << 10) / 25;
    let mut writer = Writer::new();
    writer.raw(&unhex("04 0000000000000000 00 00 01")).count(markers).raw(&vec![0; markers * 25]).count(0);
    assert_eq!(Value::decode(writer.finish()), Err(DecodeError::Invalid { field: "older versions" }));

    let mut writer = Writer::new();
    writer.raw(&unhex("04 0000000000000000 00 00 01")).count(0).count(1001).raw(&vec![0; 1001 * 29]);
    assert_eq!(Value::decode(writer.finish()), Err(DecodeError::Invalid { field: "uploads" }));

    let mut writer = Writer::new();
    writer.u8(2).count(10_001).raw(&vec![0; 10_001 * 20]);
    assert_eq!(decode_manifest(writer.finish()), Err(DecodeError::Invalid { field: "parts" }));

    assert_eq!(
        Value::decode(vec![1; limits::VALUE_BYTES_MAX + 1].into()),
        Err(DecodeError::Invalid { field: "value" })
    );
}

#[test]
fn ten_thousand_parts_fit_a_manifest_page() {
    let parts: Vec<PartRef> = (1..=10_000).map(part).collect();
    assert_eq!(decode_manifest(encode_manifest(&parts)), Ok(parts));
}

proptest! {
    #[test]
    fn values_of_every_shape_come_back(value in strategy::value()) {
        prop_assert_eq!(Value::decode(value.encode()), Ok(value));
    }

    #[test]
    fn manifests_come_back(parts in strategy::parts(30)) {
        prop_assert_eq!(decode_manifest(encode_manifest(&parts)), Ok(parts));
    }

    #[test]
    fn register_keys_and_data_references_come_back(
        key in strategy::register_key(),
        data in strategy::data_ref(),
    ) {
        let mut writer = Writer::new();
        put_register_key(&mut writer, &key);
        put_data_ref(&mut writer, &data);
        let mut reader = Reader::new(writer.finish());
        prop_assert_eq!(take_register_key(&mut reader), Ok(key));
        prop_assert_eq!(take_data_ref(&mut reader), Ok(data));
        prop_assert_eq!(reader.finish("both"), Ok(()));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let behind_a_header =
            |version| [&[version, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &bytes].concat();
        for bytes in [behind_a_header(4), behind_a_header(5), behind_a_header(6), bytes] {
            let bytes = Bytes::from(bytes);
            if let Ok(value) = Value::decode(bytes.clone()) {
                let same = Value::decode(value.encode());
                prop_assert_eq!(same, Ok(value.clone()));
                prop_assert_eq!(value.encode(), bytes);
            }
        }
    }
}
