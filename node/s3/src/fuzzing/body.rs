//! aws-chunked bodies: however they are cut, they decode to the same; what was framed comes back, and
//! what was signed comes back unchanged or not at all.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use sherd_core::record::ChecksumAlgorithm;
use sherd_signature::Secret;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::frames::FrameSigner;
use sherd_signature::signing_key::SigningKey;

use crate::wire::aws_chunked::{ChunkedFraming, FramingError, TrailerChecksum, decode};
use crate::wire::limits::FRAME_BYTES_MIN;

/// The trailer of a framed body that has one.
pub(crate) const CHECKSUM: &str = "x-amz-checksum-crc32c:sOO8/Q==";

/// A form, where to cut, and a body as it travels or a payload to frame: the first byte has the form
/// (bit 0 signed, bit 1 with a trailer, bit 2 the rest is a payload), the second where to cut.
pub fn framed_body(input: &[u8]) {
    let [form, cut, rest @ ..] = input else { return };
    let framing = framing(form & 1 != 0, form & 2 != 0);
    if form & 4 != 0 {
        return payload(&framing, usize::from(*cut), rest);
    }
    let whole = decode(framing.clone(), [Bytes::copy_from_slice(rest)]);
    assert_eq!(whole, pieces(&framing, rest, usize::from(*cut) + 1), "cut differently, read differently");
    let Ok((decoded, trailer, is_done)) = whole else { return };
    assert!(decoded.len() <= rest.len(), "no byte comes from nowhere");
    if is_done {
        assert_eq!(trailer.is_some(), framing.trailer.is_some(), "what was declared has come");
    }
    if is_done && framing.signer.is_none() {
        let again = decode(framing.clone(), [Bytes::from(framed(&framing, &[&decoded]))]);
        assert_eq!(again.map(|(again, _, is_done)| (again, is_done)), Ok((decoded, true)));
    }
}

/// A payload in frames of any length comes back, and no flipped bit of a signed one passes.
fn payload(framing: &ChunkedFraming, seed: usize, payload: &[u8]) {
    let (first, rest) = if payload.len() as u64 > FRAME_BYTES_MIN {
        payload.split_at(usize::try_from(FRAME_BYTES_MIN).unwrap_or(usize::MAX))
    } else {
        (payload, &[][..])
    };
    let parts: Vec<&[u8]> = [first, rest].into_iter().filter(|part| !part.is_empty()).collect();
    let bytes = framed(framing, &parts);
    let (decoded, trailer, is_done) = pieces(framing, &bytes, seed + 1).expect("as it was framed");
    assert!(is_done);
    assert_eq!(decoded, payload);
    assert_eq!(trailer.is_some(), framing.trailer.is_some());
    let mut flipped = bytes;
    let at = seed * 31 % flipped.len();
    if let Some(byte) = flipped.get_mut(at) {
        *byte ^= 1;
    }
    if let (Some(_), Ok((decoded, _, true))) = (&framing.signer, pieces(framing, &flipped, 7)) {
        assert_eq!(decoded, payload, "a flipped bit passed");
    }
}

/// The result of decoding: the payload, the trailer, and whether the body was whole.
type DecodeResult = Result<(Vec<u8>, Option<TrailerChecksum>, bool), FramingError>;

fn pieces(framing: &ChunkedFraming, bytes: &[u8], step: usize) -> DecodeResult {
    decode(framing.clone(), bytes.chunks(step).map(Bytes::copy_from_slice))
}

pub(crate) fn framing(is_signed: bool, trailer: bool) -> ChunkedFraming {
    let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let signer = is_signed.then(|| {
        let key = SigningKey::derive(&secret, "20130524", "us-east-1", "s3");
        let date = AmzDate::parse(b"20130524T000000Z").expect("a date");
        let seed = key.sign(&[b"seed"]);
        FrameSigner::new(key, &date, "20130524/us-east-1/s3/aws4_request", seed)
    });
    let trailer = trailer.then_some(ChecksumAlgorithm::Crc32c);
    ChunkedFraming { signer, trailer, signed_frame_bytes_max: 16 << 20 }
}

/// Frames `payloads` as a client would.
pub(crate) fn framed(framing: &ChunkedFraming, payloads: &[&[u8]]) -> Vec<u8> {
    let mut signer = framing.signer.clone();
    let mut out = Vec::new();
    let mut head = |out: &mut Vec<u8>, payload: &[u8]| {
        out.extend_from_slice(format!("{:x}", payload.len()).as_bytes());
        if let Some(signer) = &mut signer {
            out.extend_from_slice(b";chunk-signature=");
            out.extend_from_slice(signer.frame(&Sha256::digest(payload).into()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    };
    for payload in payloads.iter().filter(|payload| !payload.is_empty()) {
        head(&mut out, payload);
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }
    head(&mut out, b"");
    if framing.trailer.is_some() {
        out.extend_from_slice(format!("{CHECKSUM}\r\n").as_bytes());
        if let Some(signer) = &mut signer {
            let hash = Sha256::digest(format!("{CHECKSUM}\n")).into();
            out.extend_from_slice(b"x-amz-trailer-signature:");
            out.extend_from_slice(signer.trailer(&hash).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}
