//! Frames as AWS publishes them, in every split, and one fault after the other.

use super::*;
use crate::fuzzing::{CHECKSUM, framed, framing};
use proptest::prelude::*;

fn whole(
    framing: &ChunkedFraming,
    bytes: &[u8],
) -> Result<(Vec<u8>, Option<TrailerChecksum>, bool), FramingError> {
    decode(framing.clone(), [Bytes::copy_from_slice(bytes)])
}

/// The four forms: signed or not, with a trailer or not.
fn forms() -> impl Iterator<Item = ChunkedFraming> {
    [(true, true), (true, false), (false, true), (false, false)]
        .into_iter()
        .map(|(signed, trailer)| framing(signed, trailer))
}

#[test]
fn payloads_come_out_whole_and_uncopied() {
    for framing in forms() {
        let payload = [7; 9000];
        let bytes = Bytes::from(framed(&framing, &[&payload, b"end"]));
        let mut input = bytes.clone();
        let mut decoder = Decoder::new(framing.clone());
        let first = decoder.next(&mut input).expect("valid").expect("bytes");
        assert_eq!(first, payload[..]);
        assert!(bytes.as_ptr_range().contains(&first.as_ptr()), "a slice of what came in");
        assert_eq!(decoder.next(&mut input).expect("valid").as_deref(), Some(&b"end"[..]));
        assert!(!decoder.is_done());
        assert_eq!(decoder.next(&mut input), Ok(None));
        assert!(decoder.is_done());
        assert_eq!(decoder.take_trailer().is_some(), framing.trailer.is_some());
    }
}

#[test]
fn an_empty_body_is_a_body() {
    for framing in forms() {
        let (decoded, _, done) = whole(&framing, &framed(&framing, &[])).expect("valid");
        assert!(decoded.is_empty() && done);
    }
}

#[test]
fn every_truncation_is_noticed() {
    for framing in forms() {
        let bytes = framed(&framing, &[b"some bytes"]);
        for length in 0..bytes.len() {
            let (_, _, done) = whole(&framing, &bytes[..length]).expect("a prefix is no error");
            assert!(!done, "{length} of {}", bytes.len());
        }
    }
}

#[test]
fn every_changed_byte_of_a_signed_body_is_noticed() {
    let framing = framing(true, true);
    let bytes = framed(&framing, &[b"some bytes"]);
    let (expected, trailer, _) = whole(&framing, &bytes).expect("valid");
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        if let Ok((decoded, found, true)) = whole(&framing, &changed) {
            // Letter case of a name and the kind of a line end are not signed.
            assert_eq!((&decoded, &found), (&expected, &trailer), "byte {index} changed unnoticed");
        }
    }
}

#[test]
fn wrong_signatures_are_refused() {
    let framing = framing(true, true);
    let text = String::from_utf8(framed(&framing, &[b"some bytes"])).expect("ASCII");
    let wrong = |from: &str| {
        let at = text.find(from).expect("is there") + from.len();
        let digit = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
        let mut text = text.clone();
        text.replace_range(at..=at, digit);
        whole(&framing, text.as_bytes())
    };
    assert_eq!(wrong("a;chunk-signature="), Err(FramingError::Signature));
    assert_eq!(wrong("\r\n0;chunk-signature="), Err(FramingError::Signature));
    assert_eq!(wrong("x-amz-trailer-signature:"), Err(FramingError::Signature));
    let unsigned = text.replace("x-amz-trailer-signature", "x-amz-trailer-signatur3");
    assert_eq!(whole(&framing, unsigned.as_bytes()), Err(FramingError::Trailer));
    let cut = text.split("x-amz-trailer-signature").next().expect("a part");
    assert!(matches!(whole(&framing, format!("{cut}\r\n").as_bytes()), Ok((_, _, false))));
}

#[test]
fn malformed_frames_are_refused() {
    let (unsigned, signed) = (framing(false, false), framing(true, false));
    for text in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\na\r\n0\r\n\r\n",
        "1 \r\na\r\n",
        "11111111111111111\r\n",
        "ffffffffffffffff\r\n",
        "1;chunk-signature=ab\r\n",
        "1;\r\n",
        "1\r\nab\r\n",
        "1\r\na\n\r\n",
    ] {
        assert_eq!(whole(&unsigned, text.as_bytes()), Err(FramingError::Malformed), "{text:?}");
    }
    for text in ["1\r\na\r\n", "1;chunk-signature=ab\r\na\r\n", "1;signature=ab\r\na\r\n"] {
        assert_eq!(whole(&signed, text.as_bytes()), Err(FramingError::Malformed), "{text:?}");
    }
    assert_eq!(whole(&unsigned, &[b'1'; 200]), Err(FramingError::Malformed), "a head without an end");
}

#[test]
fn frames_have_a_shortest_and_signed_ones_a_longest_length() {
    let unsigned = framing(false, false);
    let short = framed(&unsigned, &[b"short", b"another"]);
    assert_eq!(whole(&unsigned, &short), Err(FramingError::FrameTooShort));
    let mut signed = framing(true, false);
    signed.signed_frame_bytes_max = 9000;
    whole(&signed, &framed(&signed, &[&[0; 9000]])).expect("at the limit");
    let long = whole(&signed, &framed(&signed, &[&[0; 9001]]));
    assert_eq!(long, Err(FramingError::FrameTooLong { bytes: 9001 }));
}

#[test]
fn trailers_are_what_was_declared() {
    let framing = framing(false, true);
    let body = |trailer: &str| whole(&framing, format!("1\r\na\r\n0\r\n{trailer}\r\n\r\n").as_bytes());
    assert!(matches!(body(CHECKSUM), Ok((_, Some(_), true))));
    assert!(matches!(body("X-Amz-Checksum-CRC32C: sOO8/Q== "), Ok((_, Some(_), true))));
    let shape = FramingError::TrailerValue { algorithm: ChecksumAlgorithm::Crc32c };
    for value in ["", "sOO8", "sOO8/Q", "sOO8/Q==AAAA", "????????"] {
        assert_eq!(body(&format!("x-amz-checksum-crc32c:{value}")), Err(shape), "{value}");
    }
    for trailer in [
        "x-amz-checksum-crc32:sOO8/Q==",
        "x-amz-checksum-crc32c",
        "x-amz-meta-a:b",
        "x-amz-trailer-signature:00",
        &format!("{CHECKSUM}\r\n{CHECKSUM}"),
    ] {
        assert_eq!(body(trailer), Err(FramingError::Trailer), "{trailer}");
    }
    assert!(matches!(body(""), Ok((_, None, false))), "declared, and did not come");
    let none = super::tests::framing(false, false);
    let undeclared = format!("0\r\n{CHECKSUM}\r\n\r\n");
    assert_eq!(whole(&none, undeclared.as_bytes()), Err(FramingError::Trailer));
}

#[test]
fn an_empty_line_is_a_malformed_trailer_where_nothing_is_signed() {
    let lacks = |framing: &ChunkedFraming, text: &str| {
        let mut decoder = Decoder::new(framing.clone());
        let mut input = Bytes::from(text.to_owned());
        while decoder.next(&mut input).expect("no fault").is_some() {}
        assert!(!decoder.is_done(), "{text}");
        decoder.lacks_checksum()
    };
    let (unsigned, signed) = (framing(false, true), framing(true, true));
    let whole = |framing: &ChunkedFraming| String::from_utf8(framed(framing, &[b"a"])).expect("ASCII");
    for (framing, expected) in [(&unsigned, true), (&signed, false)] {
        let text = whole(framing);
        let (frames, _) = text.split_once("x-amz-checksum").expect("a trailer");
        assert_eq!(lacks(framing, &format!("{frames}\r\n")), expected);
        for cut in [frames.len(), frames.len() + 5, text.len() - 3, text.len() - 2, text.len() - 1] {
            assert!(!lacks(framing, &text[..cut]), "{cut}");
        }
    }
}

#[test]
fn separators_and_padding_of_other_clients_are_understood() {
    let unsigned = framing(false, true);
    let padded = format!("1\r\na\r\n0\r\n{CHECKSUM}\n\r\n\r\n");
    assert!(matches!(whole(&unsigned, padded.as_bytes()), Ok((_, Some(_), true))));
    let signed = framing(true, true);
    let text = String::from_utf8(framed(&signed, &[b"a"])).expect("ASCII");
    let separated = text.replace(&format!("{CHECKSUM}\r\n"), &format!("{CHECKSUM}\n\r\n"));
    assert!(matches!(whole(&signed, separated.as_bytes()), Ok((_, Some(_), true))));
}

#[test]
fn what_follows_the_end_is_refused() {
    for framing in forms() {
        let mut bytes = framed(&framing, &[b"a"]);
        bytes.push(b'0');
        assert_eq!(whole(&framing, &bytes), Err(FramingError::Trailing));
        let mut bytes = framed(&framing, &[b"a"]);
        bytes.extend_from_slice(&[b'\n'; 5]);
        assert_eq!(whole(&framing, &bytes), Err(FramingError::Trailing));
    }
}

proptest! {
    #[test]
    fn every_split_decodes_the_same(
        signed: bool,
        trailer: bool,
        long in prop::collection::vec(any::<u8>(), 8192..9000),
        last in prop::collection::vec(any::<u8>(), 1..300),
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let framing = framing(signed, trailer);
        let bytes = Bytes::from(framed(&framing, &[&long, &last]));
        cuts.sort_by_key(|cut| cut.index(bytes.len()));
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts {
            let cut = cut.index(bytes.len());
            pieces.push(bytes.slice(start..cut));
            start = cut;
        }
        pieces.push(bytes.slice(start..));
        let at_once = decode(framing.clone(), [bytes.clone()]);
        prop_assert_eq!(&at_once, &decode(framing, pieces));
        let (decoded, _, done) = at_once.expect("valid");
        prop_assert_eq!(decoded, [long, last].concat());
        prop_assert!(done);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        signed: bool,
        trailer: bool,
        bytes in prop::collection::vec(prop::sample::select(&b"0123456789abcdef;:\r\nchunk-signature="[..]), 0..300),
    ) {
        let framing = framing(signed, trailer);
        let at_once = decode(framing.clone(), [Bytes::from(bytes.clone())]);
        let one_by_one = decode(framing, bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte])));
        prop_assert_eq!(at_once, one_by_one);
    }
}

#[test]
fn one_byte_at_a_time_decodes_the_same() {
    for framing in forms() {
        let bytes = framed(&framing, &[b"some bytes"]);
        let pieces = bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte]));
        assert_eq!(decode(framing.clone(), pieces), whole(&framing, &bytes));
    }
}
