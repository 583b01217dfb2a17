//! Version 6: values that keep conditional changes.

use super::entries::{NONE, TWO, golden_version_behind, one_version, two};
use super::*;
use crate::id::VersionId;
use crate::limits::{CONDITIONAL_CHANGES_MAX, ETAG_BYTES_MAX};
use crate::record::{CallToken, ConditionalChange, KeptAnswer};

const CALLS: &str = "0300 0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c 04030201 00
     0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d 05030201 01 02 6530
     0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e ffffffff 03 02 6531 99999999999999999999999999999999";
fn made(token: u8, second: u32, etag: Option<&str>, version: Option<VersionId>) -> ConditionalChange {
    let answer = KeptAnswer { etag: etag.map(Into::into), version };
    ConditionalChange { token: CallToken([token; 16]), second, answer }
}

fn calls() -> Vec<ConditionalChange> {
    vec![
        made(0x0c, 0x0102_0304, None, None),
        made(0x0d, 0x0102_0305, Some("e0"), None),
        made(0x0e, u32::MAX, Some("e1"), Some(VersionId([0x99; 16]))),
    ]
}

fn with(conditional: Vec<ConditionalChange>, value: Value) -> Value {
    Value { changes: Changes { conditional, ..value.changes }, ..value }
}

/// A tombstone that has these bytes where its conditional changes lie.
fn golden_tombstone(version: u8, calls: &str) -> Bytes {
    unhex(&format!("{version:02x} {CHANGES} {calls} 00"))
}

fn refused(field: &'static str) -> Result<Value, DecodeError> {
    Err(DecodeError::Invalid { field })
}

#[test]
fn version_6_is_these_bytes() {
    let attributes_of_an_upload = of(State::UploadAttributes(attributes("k", "v2")));
    for (value, golden) in [
        (of(State::Tombstone), golden_tombstone(6, CALLS)),
        (
            uploaded_part(),
            unhex(&format!("06 {CHANGES} {CALLS} 02 4d00000000000000 {}", golden_part("1027"))),
        ),
        (
            attributes_of_an_upload,
            unhex(&format!("06 {CHANGES} {CALLS} 04 01000000 01000000 6b 02000000 7632")),
        ),
        (one_version(Entries::default()), golden_version_behind(6, CALLS, NONE)),
        (one_version(two()), golden_version_behind(6, CALLS, TWO)),
    ] {
        let value = with(calls(), value);
        assert_eq!(hex(&value.encode()), hex(&golden));
        assert_eq!(Value::decode(golden.clone()), Ok(value));
        for length in 0..golden.len() {
            assert!(Value::decode(golden.slice(..length)).is_err(), "the first {length} bytes decode");
        }
    }
}

#[test]
fn a_value_whose_last_conditional_change_goes_is_of_an_older_version_again() {
    let stored = |value: &Value| (with(calls(), value.clone()).encode(), value.encode());
    for (value, version) in [(object(), 4), (one_version(two()), 5)] {
        let (with, without) = stored(&value);
        assert_eq!((with.first(), without.first()), (Some(&6), Some(&version)));
    }
    assert_eq!(Value::decode(golden_tombstone(6, "0000")), refused("conditional changes"));
    let one = format!("01 {} 00000000", "0c".repeat(16));
    assert_eq!(Value::decode(golden_tombstone(4, &one)), refused("conditional changes"));
}

#[test]
fn a_conditional_change_that_can_be_answered_without_its_etag_takes_21_bytes() {
    let of = |count| with(vec![made(1, 1, None, None); count], object()).encode().len();
    assert_eq!(of(CONDITIONAL_CHANGES_MAX) - of(1), (CONDITIONAL_CHANGES_MAX - 1) * 21);
}

#[test]
fn conditional_changes_past_their_limits_are_refused() {
    let over = |field| Err(OverLimit { field });
    let stored = |count, etag: Option<&str>| {
        with(vec![made(1, 1, etag, None); count], tombstone()).try_encode().map(|bytes| bytes.len())
    };
    assert!(stored(CONDITIONAL_CHANGES_MAX, Some(&"e".repeat(ETAG_BYTES_MAX))).is_ok());
    assert_eq!(stored(CONDITIONAL_CHANGES_MAX + 1, None), over("conditional changes"));
    assert_eq!(stored(1, Some(&"e".repeat(ETAG_BYTES_MAX + 1))), over("conditional etag"));
    assert_eq!(stored(1, Some("")), over("conditional etag"));

    let read = |answer: &str| {
        Value::decode(golden_tombstone(
            6,
            &format!("0100 0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c 00000000 {answer}"),
        ))
    };
    assert!(read("00").is_ok() && read("01 01 65").is_ok());
    assert_eq!(read("04"), refused("call answer"));
    assert_eq!(read("01 00"), refused("conditional etag"));
    assert_eq!(read("01 01 ff"), refused("conditional etag"));
    assert_eq!(read(&format!("01 41 {}", "65".repeat(65))), refused("conditional etag"));
    let many = format!("0101 {}", "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c 00000000 00".repeat(257));
    assert_eq!(Value::decode(golden_tombstone(6, &many)), refused("conditional changes"));
}
