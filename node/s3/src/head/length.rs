//! The length and the digest of a body, as its head declares them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::CONTENT_LENGTH;

use crate::head::request_head::{DECODED_LENGTH, RequestHead};
use crate::wire::limits::SHORT_DOCUMENT_BYTES_MAX;
use crate::wire::refusal::{Code, Refusal};

/// The length of the body without its frames; `None` where none is declared.
///
/// # Errors
/// MissingContentLength where frames come without it, InvalidArgument for any other text than digits.
pub(crate) fn declared(head: &RequestHead<'_>, is_framed: bool) -> Result<Option<u64>, Refusal> {
    let name = if is_framed { DECODED_LENGTH } else { CONTENT_LENGTH.as_str() };
    let Some(value) = head.get(name) else {
        return if is_framed { Err(Refusal::new(Code::MissingContentLength)) } else { Ok(None) };
    };
    // `+5` is a number to Rust and none to HTTP.
    let digits = value.to_str().ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(|| {
        Refusal::says(Code::InvalidArgument, "The length is not a number").with("ArgumentName", name)
    })
}

/// Whether a document takes no room while it arrives, by all that its head says of its length.
pub(crate) fn is_short(head: &RequestHead<'_>) -> bool {
    let lengths = [CONTENT_LENGTH.as_str(), DECODED_LENGTH].map(|name| head.get(name));
    let bytes = |text: &str| text.parse::<u64>().ok();
    lengths.into_iter().flatten().all(|value| {
        value.to_str().ok().and_then(bytes).is_some_and(|bytes| bytes <= SHORT_DOCUMENT_BYTES_MAX)
    })
}

/// The MD5 that a head declares.
///
/// # Errors
/// InvalidDigest for any other value than the base64 of 16 bytes.
pub(crate) fn md5(head: &RequestHead<'_>) -> Result<Option<[u8; 16]>, Refusal> {
    let Some(value) = head.get("content-md5") else { return Ok(None) };
    let mut digest = [0; 18];
    match STANDARD.decode_slice(value.as_bytes(), &mut digest) {
        Ok(16) => Ok(digest.first_chunk().copied()),
        _ => {
            Err(Refusal::new(Code::InvalidDigest)
                .with("Content-MD5", String::from_utf8_lossy(value.as_bytes())))
        }
    }
}
