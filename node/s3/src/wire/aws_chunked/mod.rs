//! The aws-chunked framing of bodies, decoded as it comes.
//!
//! ```text
//! signed:    1000;chunk-signature=<64 hex>\r\n <bytes> \r\n ... 0;chunk-signature=<64 hex>\r\n
//! unsigned:  1000\r\n <bytes> \r\n ... 0\r\n
//! trailer:   x-amz-checksum-crc32c:sOO8/Q==\r\n [x-amz-trailer-signature:<64 hex>\r\n]
//! end:       \r\n
//! ```
//! Bytes leave as slices of what came in: no frame is ever held whole, and nothing is copied but
//! frame heads and trailer lines that straddle two reads. A frame's signature is known only at its
//! end, so bytes are true only when [`Decoder::is_done`]; the body around this holds the last ones
//! back until then.

use bytes::{Buf as _, Bytes};
use http::HeaderValue;
use sha2::{Digest as _, Sha256};
use sherd_core::limits::PUT_BYTES_MAX;
use sherd_core::record::ChecksumAlgorithm;

use sherd_signature::frames::FrameSigner;

use crate::wire::checksum;
use crate::wire::limits::{FRAME_BYTES_MIN, FRAME_HEAD_BYTES_MAX, TRAILER_LINE_BYTES_MAX};

/// Lines of a trailer, blank ones included.
const TRAILER_LINES_MAX: u8 = 8;
/// Line ends that may follow the end: some clients send one more.
const PADDING_BYTES_MAX: u8 = 4;
/// The trailer line that carries the trailer's signature.
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// Why a framed body is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A frame's head is not what it should be.
    #[error("malformed frame")]
    Malformed,
    /// A signed frame is longer than the limit.
    #[error("a signed frame of {bytes} bytes is too long")]
    FrameTooLong {
        /// The length of the frame in bytes.
        bytes: u64,
    },
    /// A frame that is not the last is shorter than AWS allows.
    #[error("a frame that is not the last has fewer than {FRAME_BYTES_MIN} bytes")]
    FrameTooShort,
    /// A frame or the trailer has a wrong signature.
    #[error("a frame's or the trailer's signature does not match")]
    Signature,
    /// The trailer is not well formed, or not what was declared.
    #[error("malformed trailer")]
    Trailer,
    /// The trailer's checksum has not the shape of its algorithm.
    #[error("the trailer's checksum has the wrong shape")]
    TrailerValue {
        /// The announced algorithm.
        algorithm: ChecksumAlgorithm,
    },
    /// Something follows the end.
    #[error("bytes follow the end of the body")]
    Trailing,
}

/// The form that a body is expected to have.
#[derive(Debug, Clone)]
pub struct ChunkedFraming {
    /// Signs its frames and its trailer, when they are signed.
    pub signer: Option<FrameSigner>,
    /// The checksum that its trailer carries, when there is one.
    pub trailer: Option<ChecksumAlgorithm>,
    /// Bytes of a signed frame at most.
    pub signed_frame_bytes_max: u64,
}

/// The checksum that stood in the trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailerChecksum {
    /// The algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// The value in base64, of the right shape; its reader compares it with the computed one.
    pub value: HeaderValue,
}

#[derive(Debug)]
enum State {
    /// Before or within a frame's head.
    Head,
    /// Within a frame's bytes.
    Payload { left: u64 },
    /// Before the line end that closes a frame; `seen` of its two bytes came.
    PayloadEnd { seen: u8 },
    /// After the last frame.
    Trailer,
    /// After the end.
    Done { padding: u8 },
}

/// Decodes one body.
#[derive(Debug)]
pub struct Decoder {
    framing: ChunkedFraming,
    state: State,
    /// A line that has not ended yet.
    line: Vec<u8>,
    /// The signature that the current frame's head declared.
    declared: [u8; 64],
    hash: Sha256,
    last_was_short: bool,
    trailer: Option<TrailerChecksum>,
    trailer_lines: u8,
    trailer_hash: Sha256,
    trailer_is_signed: bool,
}

impl Decoder {
    /// Makes a decoder.
    pub fn new(framing: ChunkedFraming) -> Self {
        Self {
            framing,
            state: State::Head,
            line: Vec::new(),
            declared: [0; 64],
            hash: Sha256::new(),
            last_was_short: false,
            trailer: None,
            trailer_lines: 0,
            trailer_hash: Sha256::new(),
            trailer_is_signed: false,
        }
    }

    /// Whether the body ended and everything that is signed was verified.
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done { .. })
    }

    /// Whether the body is whole but for the checksum that was declared: an empty line stands in its place.
    /// S3 takes that for a malformed trailer where the body is not signed, and for a body cut short where it
    /// is (github.com/versity/versitygw/issues/1600 and 1695). Any other end before the last line is one cut
    /// short.
    pub const fn lacks_checksum(&self) -> bool {
        let declared = self.framing.trailer.is_some() && self.trailer.is_none();
        let is_unsigned = self.framing.signer.is_none();
        let has_end = self.trailer_lines > 0 && self.line.is_empty();
        matches!(self.state, State::Trailer) && declared && is_unsigned && has_end
    }

    /// The trailer, once the body ended.
    pub const fn take_trailer(&mut self) -> Option<TrailerChecksum> {
        self.trailer.take()
    }

    /// Takes from `input` until there are bytes to hand out; nothing when `input` is used up.
    ///
    /// # Errors
    /// [`FramingError`]; the decoder is of no use after it.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, FramingError> {
        while !input.is_empty() {
            match self.state {
                State::Head => {
                    if let Some(line) =
                        self.take_line(input, FRAME_HEAD_BYTES_MAX, FramingError::Malformed)?
                    {
                        self.start_frame(&line)?;
                    }
                }
                State::Payload { left } => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let payload = input.split_to(length);
                    if self.framing.signer.is_some() {
                        self.hash.update(&payload);
                    }
                    let left = left - length as u64;
                    self.state =
                        if left == 0 { State::PayloadEnd { seen: 0 } } else { State::Payload { left } };
                    return Ok(Some(payload));
                }
                State::PayloadEnd { seen } => {
                    let expected = if seen == 0 { b'\r' } else { b'\n' };
                    if input.get_u8() != expected {
                        return Err(FramingError::Malformed);
                    }
                    if seen == 0 {
                        self.state = State::PayloadEnd { seen: 1 };
                    } else {
                        self.verify_frame()?;
                        self.state = State::Head;
                    }
                }
                State::Trailer => {
                    if let Some(line) =
                        self.take_line(input, TRAILER_LINE_BYTES_MAX, FramingError::Trailer)?
                    {
                        self.trailer_line(&line)?;
                    }
                }
                State::Done { padding } => {
                    if !matches!(input.get_u8(), b'\r' | b'\n') || padding >= PADDING_BYTES_MAX {
                        return Err(FramingError::Trailing);
                    }
                    self.state = State::Done { padding: padding + 1 };
                }
            }
        }
        Ok(None)
    }

    /// Takes a line without its end, when all of it is there. `\n` ends a line, and a `\r` before
    /// it belongs to the end.
    fn take_line(
        &mut self,
        input: &mut Bytes,
        bytes_max: usize,
        too_long: FramingError,
    ) -> Result<Option<Bytes>, FramingError> {
        let end = input.iter().take(bytes_max + 1).position(|byte| *byte == b'\n');
        let piece = match end {
            Some(end) => {
                let piece = input.split_to(end);
                input.advance(1);
                piece
            }
            None => input.split_to(input.len().min(bytes_max + 1)),
        };
        if self.line.len() + piece.len() > bytes_max {
            return Err(too_long);
        }
        if end.is_none() {
            self.line.extend_from_slice(&piece);
            return Ok(None);
        }
        let mut line = if self.line.is_empty() {
            piece
        } else {
            self.line.extend_from_slice(&piece);
            Bytes::from(std::mem::take(&mut self.line))
        };
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Ok(Some(line))
    }

    fn start_frame(&mut self, head: &[u8]) -> Result<(), FramingError> {
        let text = std::str::from_utf8(head).map_err(|_| FramingError::Malformed)?;
        let (size, signature) = match text.split_once(';') {
            Some((size, extension)) => (size, extension.strip_prefix("chunk-signature=")),
            None => (text, None),
        };
        if size.is_empty() || size.len() > 16 || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(FramingError::Malformed);
        }
        let bytes = u64::from_str_radix(size, 16).map_err(|_| FramingError::Malformed)?;
        match (&self.framing.signer, signature) {
            (Some(_), Some(signature)) => {
                self.declared = signature.as_bytes().try_into().map_err(|_| FramingError::Malformed)?;
                if bytes > self.framing.signed_frame_bytes_max {
                    return Err(FramingError::FrameTooLong { bytes });
                }
            }
            (None, None) if !text.contains(';') && bytes <= PUT_BYTES_MAX => {}
            _ => return Err(FramingError::Malformed),
        }
        if bytes == 0 {
            self.verify_frame()?;
            self.state = State::Trailer;
            return Ok(());
        }
        if self.last_was_short {
            return Err(FramingError::FrameTooShort);
        }
        self.last_was_short = bytes < FRAME_BYTES_MIN;
        self.state = State::Payload { left: bytes };
        Ok(())
    }

    /// Compares the signature of the frame that just ended, in constant time.
    fn verify_frame(&mut self) -> Result<(), FramingError> {
        let Some(signer) = &mut self.framing.signer else { return Ok(()) };
        let hash = self.hash.finalize_reset().into();
        if signer.frame(&hash).matches(&self.declared) { Ok(()) } else { Err(FramingError::Signature) }
    }

    /// Takes one line after the last frame. A blank line is the end once everything that was
    /// declared has come; before that some clients send one as a separator.
    fn trailer_line(&mut self, line: &[u8]) -> Result<(), FramingError> {
        self.trailer_lines += 1;
        if self.trailer_lines > TRAILER_LINES_MAX {
            return Err(FramingError::Trailer);
        }
        let is_signed = self.framing.signer.is_none() || self.trailer_is_signed;
        if line.is_empty() {
            if self.framing.trailer.is_none() || (self.trailer.is_some() && is_signed) {
                self.state = State::Done { padding: 0 };
            }
            return Ok(());
        }
        let Some(algorithm) = self.framing.trailer else { return Err(FramingError::Trailer) };
        let line = std::str::from_utf8(line).map_err(|_| FramingError::Trailer)?;
        let (name, value) = line.split_once(':').ok_or(FramingError::Trailer)?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case(TRAILER_SIGNATURE) {
            let Some(signer) = self.framing.signer.as_mut() else { return Err(FramingError::Trailer) };
            if self.trailer.is_none() || self.trailer_is_signed {
                return Err(FramingError::Trailer);
            }
            let hash = self.trailer_hash.finalize_reset().into();
            if !signer.trailer(&hash).matches(value.as_bytes()) {
                return Err(FramingError::Signature);
            }
            self.trailer_is_signed = true;
            return Ok(());
        }
        if !name.eq_ignore_ascii_case(checksum::header(algorithm)) || self.trailer.is_some() {
            return Err(FramingError::Trailer);
        }
        if !checksum::has_shape(algorithm, value.as_bytes()) {
            return Err(FramingError::TrailerValue { algorithm });
        }
        for piece in [checksum::header(algorithm), ":", value, "\n"] {
            self.trailer_hash.update(piece);
        }
        let value = HeaderValue::from_str(value).map_err(|_| FramingError::Trailer)?;
        self.trailer = Some(TrailerChecksum { algorithm, value });
        Ok(())
    }
}

/// Decodes a body that came in these pieces; the last element says whether it was whole. For
/// tests and fuzzing.
///
/// # Errors
/// [`FramingError`] as soon as the body cannot become a valid one.
pub fn decode(
    framing: ChunkedFraming,
    pieces: impl IntoIterator<Item = Bytes>,
) -> Result<(Vec<u8>, Option<TrailerChecksum>, bool), FramingError> {
    let mut decoder = Decoder::new(framing);
    let mut payload = Vec::new();
    for mut piece in pieces {
        while let Some(bytes) = decoder.next(&mut piece)? {
            payload.extend_from_slice(&bytes);
        }
    }
    Ok((payload, decoder.take_trailer(), decoder.is_done()))
}

#[cfg(test)]
mod tests;
