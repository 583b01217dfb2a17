//! Answers of an HTTP/1.1 server, taken apart as they arrive.
//!
//! A [`Decoder`] takes the bytes of one read and passes the body on in slices of them, without copying; only
//! a head that arrives in pieces is held. Requests are not pipelined, so bytes after the end of an answer are
//! an error like every other violation of the protocol.

use std::mem;

use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, SIZE_LINE_BYTES_MAX};

/// The parts of an answer's head that the generator uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// `content-length`.
    pub length: Option<u64>,
    /// `etag` as it stands, with its quotes.
    pub etag: Option<String>,
    /// Whether the server ends the connection after this answer.
    pub closes: bool,
    /// Whether the body comes in the chunked coding.
    pub chunked: bool,
}

/// The part of an answer that a decoder expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodeStage {
    Head,
    /// The body, of known length: its bytes left.
    Length(u64),
    /// The body lasts as long as the connection.
    UntilClose,
    /// The size line of a piece: its value so far, its bytes, and whether its digits have ended.
    PieceSize {
        size: u64,
        bytes: usize,
        ended: bool,
    },
    PieceData(u64),
    /// The line end behind a piece's data.
    PieceEnd,
    /// A line of the trailer, with its bytes so far.
    Trailer(usize),
    Done,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// The answer is whole.
    Done,
}

/// The bytes are not an answer of HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedResponse {
    /// The head is not one.
    #[error("malformed head of an answer")]
    Head,
    /// The chunked coding is broken.
    #[error("malformed chunked coding")]
    Piece,
    /// Bytes follow the answer's end.
    #[error("bytes behind an answer")]
    Excess,
    /// The connection ended within an answer.
    #[error("answer cut short")]
    Short,
}

/// Takes one answer after another apart.
#[derive(Debug)]
pub struct Decoder {
    stage: DecodeStage,
    /// A head that came in part.
    held: Vec<u8>,
    head: Head,
    bodiless: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { stage: DecodeStage::Done, held: Vec::new(), head: Head::default(), bodiless: false }
    }
}

impl Decoder {
    /// Waits for the next answer; `bodiless` for the answer to a HEAD.
    pub fn begin(&mut self, bodiless: bool) {
        self.stage = DecodeStage::Head;
        self.held.clear();
        self.bodiless = bodiless;
    }

    /// The head, once it has come.
    pub fn head(&self) -> Option<&Head> {
        (self.stage != DecodeStage::Head).then_some(&self.head)
    }

    /// Takes `bytes`, all of them, and gives the pieces of the body that are in them to `body`.
    ///
    /// # Errors
    /// The bytes are not an answer, or more than one.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        body: &mut impl FnMut(&Head, &[u8]),
    ) -> Result<Progress, MalformedResponse> {
        let mut rest = bytes;
        if self.stage == DecodeStage::Head {
            if self.held.is_empty() {
                match self.parse_head(rest)? {
                    Some(length) => rest = &rest[length..],
                    None => self.hold(rest)?,
                }
            } else {
                self.hold(rest)?;
                let held = mem::take(&mut self.held);
                match self.parse_head(&held)? {
                    // The rest of the held bytes can only be among those that were just added.
                    Some(length) => rest = &rest[rest.len() - (held.len() - length)..],
                    None => self.held = held,
                }
            }
            if self.stage == DecodeStage::Head {
                return Ok(Progress::More);
            }
        }
        while !rest.is_empty() {
            rest = self.feed_body(rest, body)?;
        }
        Ok(if self.stage == DecodeStage::Done { Progress::Done } else { Progress::More })
    }

    /// Ends the answer under way with the end of the connection.
    ///
    /// # Errors
    /// The answer is cut short by it.
    pub fn close(&mut self) -> Result<(), MalformedResponse> {
        match self.stage {
            DecodeStage::UntilClose | DecodeStage::Done => {
                self.stage = DecodeStage::Done;
                Ok(())
            }
            _ => Err(MalformedResponse::Short),
        }
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), MalformedResponse> {
        if self.held.len() + bytes.len() > HEAD_BYTES_MAX {
            return Err(MalformedResponse::Head);
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads the head at the start of `bytes` and returns its length, or nothing when it is not whole.
    /// Interim answers before it are part of it.
    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, MalformedResponse> {
        let mut begin = 0;
        let head = loop {
            let Some((head, length)) = parse_one_head(&bytes[begin..])? else {
                return Ok(None);
            };
            begin += length;
            if !(100..200).contains(&head.status) {
                break head;
            }
        };
        self.stage = match head {
            _ if self.bodiless || head.status == 204 || head.status == 304 => DecodeStage::Done,
            Head { chunked: true, .. } => DecodeStage::PieceSize { size: 0, bytes: 0, ended: false },
            Head { length: Some(0), .. } => DecodeStage::Done,
            Head { length: Some(length), .. } => DecodeStage::Length(length),
            Head { length: None, .. } => DecodeStage::UntilClose,
        };
        self.head = head;
        Ok(Some(begin))
    }

    /// Takes the first piece off `bytes` and returns the rest.
    fn feed_body<'a>(
        &mut self,
        bytes: &'a [u8],
        body: &mut impl FnMut(&Head, &[u8]),
    ) -> Result<&'a [u8], MalformedResponse> {
        let (&first, behind_first) = bytes.split_first().ok_or(MalformedResponse::Short)?;
        match self.stage {
            DecodeStage::Head | DecodeStage::Done => Err(MalformedResponse::Excess),
            DecodeStage::UntilClose => {
                body(&self.head, bytes);
                Ok(&[])
            }
            DecodeStage::Length(left) | DecodeStage::PieceData(left) => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let (piece, rest) = bytes.split_at(taken);
                body(&self.head, piece);
                let left = left - taken as u64;
                self.stage = match self.stage {
                    DecodeStage::PieceData(_) if left == 0 => DecodeStage::PieceEnd,
                    DecodeStage::PieceData(_) => DecodeStage::PieceData(left),
                    _ if left == 0 => DecodeStage::Done,
                    _ => DecodeStage::Length(left),
                };
                Ok(rest)
            }
            DecodeStage::PieceSize { size, bytes: count, ended } => {
                self.stage = piece_size(first, size, count, ended)?;
                Ok(behind_first)
            }
            DecodeStage::PieceEnd => {
                match first {
                    b'\r' => {}
                    b'\n' => self.stage = DecodeStage::PieceSize { size: 0, bytes: 0, ended: false },
                    _ => return Err(MalformedResponse::Piece),
                }
                Ok(behind_first)
            }
            DecodeStage::Trailer(count) => {
                self.stage = match first {
                    b'\n' if count == 0 => DecodeStage::Done,
                    b'\n' => DecodeStage::Trailer(0),
                    b'\r' => DecodeStage::Trailer(count),
                    _ if count >= SIZE_LINE_BYTES_MAX => return Err(MalformedResponse::Piece),
                    _ => DecodeStage::Trailer(count + 1),
                };
                Ok(behind_first)
            }
        }
    }
}

/// The text that stands between `before` and `after` in an answer's text.
pub(crate) fn between(text: &[u8], before: &str, after: &str) -> Option<String> {
    let begin = memchr::memmem::find(text, before.as_bytes())? + before.len();
    let length = memchr::memmem::find(&text[begin..], after.as_bytes())?;
    String::from_utf8(text[begin..begin + length].to_vec()).ok()
}

/// Reads one head at the start of `bytes`, or nothing when it is not whole, and its length.
fn parse_one_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, MalformedResponse> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes).map_err(|_| MalformedResponse::Head)?
    else {
        return Ok(None);
    };
    let mut head = Head { status: response.code.ok_or(MalformedResponse::Head)?, ..Head::default() };
    for header in response.headers.iter() {
        let value = || std::str::from_utf8(header.value).map(str::trim).map_err(|_| MalformedResponse::Head);
        if header.name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value()?.parse().map_err(|_| MalformedResponse::Head)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            head.chunked = value()?.eq_ignore_ascii_case("chunked");
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.closes = value()?.eq_ignore_ascii_case("close");
        } else if header.name.eq_ignore_ascii_case("etag") {
            head.etag = Some(value()?.to_owned());
        }
    }
    Ok(Some((head, length)))
}

/// The stage after one more byte of a piece's size line.
fn piece_size(byte: u8, size: u64, bytes: usize, ended: bool) -> Result<DecodeStage, MalformedResponse> {
    if bytes >= SIZE_LINE_BYTES_MAX {
        return Err(MalformedResponse::Piece);
    }
    let digit = char::from(byte).to_digit(16).map(u64::from);
    match (byte, digit) {
        (b'\n', _) if bytes == 0 => Err(MalformedResponse::Piece),
        (b'\n', _) if size == 0 => Ok(DecodeStage::Trailer(0)),
        (b'\n', _) => Ok(DecodeStage::PieceData(size)),
        (_, Some(digit)) if !ended && size < 1 << 59 => {
            Ok(DecodeStage::PieceSize { size: size << 4 | digit, bytes: bytes + 1, ended })
        }
        (b'\r' | b';' | b' ', _) if bytes > 0 => Ok(DecodeStage::PieceSize { size, bytes, ended: true }),
        _ if ended => Ok(DecodeStage::PieceSize { size, bytes: bytes + 1, ended }),
        _ => Err(MalformedResponse::Piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nt: 1\r\n\r\n";
    const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    /// Feeds `bytes` in pieces of `piece` and returns the body.
    fn decode(bytes: &[u8], piece: usize, bodiless: bool) -> Result<(Head, Vec<u8>), MalformedResponse> {
        let mut decoder = Decoder::default();
        decoder.begin(bodiless);
        let mut body = Vec::new();
        let mut last = Progress::More;
        for part in bytes.chunks(piece) {
            assert_eq!(last, Progress::More, "done before the end");
            last = decoder.feed(part, &mut |_, piece| body.extend_from_slice(piece))?;
        }
        if last == Progress::More {
            decoder.close()?;
        }
        Ok((decoder.head().unwrap().clone(), body))
    }

    #[test]
    fn answers_are_the_same_in_pieces_of_every_length() {
        for answer in [PLAIN, CHUNKED, INTERIM] {
            for piece in 1..=answer.len() {
                let (head, body) = decode(answer, piece, false).unwrap();
                assert_eq!((head.status, body.as_slice()), (200, b"hello".as_slice()), "pieces of {piece}");
            }
        }
        assert_eq!(decode(PLAIN, 1000, false).unwrap().0.etag.as_deref(), Some("\"e\""));
    }

    #[test]
    fn answers_without_a_body_end_with_their_head() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(
            decode(head, 1000, true).unwrap(),
            (decode(PLAIN, 9, false).map(|(head, _)| Head { etag: None, ..head }).unwrap(), Vec::new())
        );
        assert!(decode(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 7, false).unwrap().0.closes);
    }

    #[test]
    fn a_body_without_a_length_lasts_until_the_connection_ends() {
        let (_, body) = decode(b"HTTP/1.1 200 OK\r\n\r\nhel lo", 4, false).unwrap();
        assert_eq!(body, b"hel lo");
    }

    #[test]
    fn departures_from_the_protocol_are_named() {
        assert_eq!(decode(&PLAIN[..PLAIN.len() - 1], 1000, false), Err(MalformedResponse::Short));
        assert_eq!(decode(&CHUNKED[..CHUNKED.len() - 2], 1000, false), Err(MalformedResponse::Short));
        assert_eq!(decode(b"SSH-2.0 hello\r\n\r\n", 1000, false), Err(MalformedResponse::Head));
        assert_eq!(decode(&[PLAIN, b"x"].concat(), 1000, false), Err(MalformedResponse::Excess));
        let coded = |line: &str| {
            let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{line}");
            decode(answer.as_bytes(), 1000, false)
        };
        assert_eq!(coded("\r\n"), Err(MalformedResponse::Piece));
        assert_eq!(coded("zz\r\n"), Err(MalformedResponse::Piece));
        assert_eq!(coded("ffffffffffffffffff\r\n"), Err(MalformedResponse::Piece));
        assert_eq!(coded("1\r\nab"), Err(MalformedResponse::Piece));
    }
}
