//! Version 5: values of which a record has entries. Without them a value has version 4's bytes.

use super::*;
use crate::limits;
use crate::record::Entry;

pub(super) const NONE: &str = "00";
pub(super) const TWO: &str = "02 0700 03000000 010203 ff01 00000000";

pub(super) fn two() -> Entries {
    let entry = |kind, bytes: &'static [u8]| Entry { kind, bytes: Bytes::from_static(bytes) };
    Entries::in_order(vec![entry(7, &[1, 2, 3]), entry(0x01ff, &[])]).expect("ascending kinds")
}

fn bucket_with(entries: Entries) -> Value {
    let mut value = bucket();
    let State::Bucket(held) = &mut value.state else { unreachable!("it is one") };
    held.entries = entries;
    value
}

/// The golden object, whose version at this place has entries.
fn object_with(place: usize, entries: Entries) -> Value {
    let mut value = object();
    let State::Object(object) = &mut value.state else { unreachable!("the golden object is one") };
    let VersionKind::Content(content) = &mut object.versions[place].kind else {
        unreachable!("it has bytes")
    };
    content.entries = entries;
    value
}

fn golden_bucket(entries: &str) -> Bytes {
    let of_version_4 = goldens().into_iter().nth(1).expect("a bucket").1;
    unhex(&format!("05 {} {entries}", hex(&of_version_4.slice(1..))))
}

/// One inline version with these entries, in a version's form; version 4 has none.
fn golden_version_of(version: u8, entries: &str) -> Bytes {
    golden_version_behind(version, NO_CALLS, entries)
}

/// As [`golden_version_of`], behind these conditional changes.
pub(super) fn golden_version_behind(version: u8, calls: &str, entries: &str) -> Bytes {
    let inline = golden_content(&format!("01 {}", "44".repeat(32)));
    let newest = golden_version("01", &format!("01 {inline} {entries}"));
    unhex(&format!("{version:02x} {CHANGES} {calls} 01 01000000 {newest} 00000000"))
}

pub(super) fn one_version(entries: Entries) -> Value {
    let content = Content { entries, ..content(Body::Inline { hash: [0x44; 32] }) };
    let versions = vec![version(1, VersionKind::Content(content))];
    of(State::Object(Object { versions, uploads: Vec::new() }))
}

#[test]
fn version_5_is_these_bytes() {
    for (value, golden) in
        [(bucket_with(two()), golden_bucket(TWO)), (one_version(two()), golden_version_of(5, TWO))]
    {
        assert_eq!(hex(&value.encode()), hex(&golden));
        assert_eq!(Value::decode(golden.clone()), Ok(value));
        for length in 0..golden.len() {
            assert!(Value::decode(golden.slice(..length)).is_err(), "the first {length} bytes decode");
        }
    }
    assert_eq!(one_version(Entries::default()).encode(), golden_version_of(4, ""));
}

#[test]
fn each_content_of_a_value_has_its_entries() {
    for place in [0, 2, 3, 4] {
        let value = object_with(place, two());
        let bytes = value.encode();
        assert_eq!(bytes.first(), Some(&5));
        assert_eq!(bytes.len() - object().encode().len(), 4 + unhex(TWO).len() - 1, "four contents");
        assert_eq!(Value::decode(bytes), Ok(value));
    }
}

#[test]
fn a_value_whose_last_entry_goes_is_of_version_4_again() {
    let mut entries = two();
    entries.remove(7);
    assert_eq!(bucket_with(entries.clone()).encode().first(), Some(&5));
    entries.remove(0x01ff);
    assert_eq!(bucket_with(entries).encode(), bucket().encode());
}

#[test]
fn a_value_has_one_stored_form_with_entries_too() {
    let refused = |bytes| assert_eq!(Value::decode(bytes), Err(DecodeError::Invalid { field: "entries" }));
    refused(golden_bucket(NONE));
    refused(golden_version_of(5, NONE));
    refused(unhex("05 0000000000000000 00 00 00"));
    // Kinds twice, and out of their order.
    refused(golden_bucket("02 0700 00000000 0700 00000000"));
    refused(golden_bucket("02 0800 00000000 0700 00000000"));
    refused(golden_bucket(&format!("21 {}", "0000 00000000".repeat(33))));
}

#[test]
fn entries_past_their_limits_are_refused_before_they_are_stored() {
    let of = |lengths: &[usize]| {
        let mut entries = Entries::default();
        for (kind, length) in (1..).zip(lengths) {
            entries.set(kind, vec![0; *length].into());
        }
        let stored = [bucket_with(entries.clone()), one_version(entries)].map(|value| value.try_encode());
        let [bucket, version] = stored.map(|stored| stored.map(|_| ()));
        assert_eq!(bucket, version);
        version
    };
    let over = |field| Err(OverLimit { field });
    assert_eq!(of(&[1; 32]), Ok(()));
    assert_eq!(of(&[1; 33]), over("entries"));
    assert_eq!(of(&[16 << 10, 16 << 10]), Ok(()));
    assert_eq!(of(&[(16 << 10) + 1]), over("entry"));
    assert_eq!(of(&[16 << 10, 16 << 10, 1]), over("entries"));
}

proptest! {
    #[test]
    fn entries_of_unknown_kinds_come_back_byte_for_byte(value in strategy::value(), kind: u16, bytes: Vec<u8>) {
        let mut value = value;
        let entries = match &mut value.state {
            State::Bucket(bucket) => Some(&mut bucket.entries),
            State::Object(object) => object.versions.iter_mut().find_map(|version| match &mut version.kind {
                VersionKind::Content(content) => Some(&mut content.entries),
                VersionKind::DeleteMarker => None,
            }),
            State::Tombstone | State::Part(_) | State::UploadAttributes(_) => None,
        };
        prop_assume!(entries.as_ref().is_some_and(|entries| entries.iter().len() < limits::ENTRIES_MAX));
        if let Some(entries) = entries {
            entries.set(kind, bytes.into());
        }
        let stored = value.encode();
        let version = if value.changes.conditional.is_empty() { 5 } else { 6 };
        prop_assert_eq!(stored.first(), Some(&version));
        let read = Value::decode(stored.clone());
        prop_assert_eq!(read.as_ref(), Ok(&value));
        prop_assert_eq!(read.map(|read| read.encode()), Ok(stored));
    }
}
