//! Requests as bytes: one head, signed, and what follows it.

use std::io::{self, IoSlice, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use md5::{Digest, Md5};

use super::checksum::Checksum;
use super::payload::{Payloads, STAMP_BYTES};
use super::sign::{Canonical, Credentials, Signer, UNSIGNED_PAYLOAD};
use crate::blocking::write_some;

/// Pieces of a body that one system call takes, besides the head and the stamp.
const WINDOWS_PER_WRITE: usize = 2;

/// A request on its way out.
#[derive(Debug, Default)]
pub struct RequestBytes {
    /// Head, and a body that is text.
    text: Vec<u8>,
    sent: usize,
    object: Option<Part>,
}

/// Bytes `at..end` of object `key`.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Number of the object.
    pub key: u64,
    /// The next byte to send.
    pub at: u64,
    /// Where the part ends.
    pub end: u64,
}

impl RequestBytes {
    /// Whether all of it was sent.
    pub fn is_sent(&self) -> bool {
        self.sent == self.text.len() && self.object.is_none()
    }

    /// Sends as much as `socket` takes in one call, and says how much that was.
    ///
    /// # Errors
    /// The socket's error; `WouldBlock` when it is full.
    pub fn send(&mut self, socket: &mut impl Write, payloads: &Payloads) -> io::Result<usize> {
        let stamp;
        let mut slices = [IoSlice::new(&[]); 2 + WINDOWS_PER_WRITE];
        slices[0] = IoSlice::new(&self.text[self.sent..]);
        if let Some(Part { key, mut at, end }) = self.object {
            if at < STAMP_BYTES as u64 {
                stamp = payloads.stamp(key);
                let from = usize::try_from(at).expect("below the stamp's length");
                let to = usize::try_from(end.min(STAMP_BYTES as u64)).expect("at most the stamp's length");
                slices[1] = IoSlice::new(&stamp[from..to]);
                at = end.min(STAMP_BYTES as u64);
            }
            for slice in &mut slices[2..] {
                if at < end {
                    let window = payloads.window(key, at);
                    let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(window.len());
                    *slice = IoSlice::new(&window[..length]);
                    at += length as u64;
                }
            }
        }
        let written = write_some(socket, &slices)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.advance(written);
        Ok(written)
    }

    fn advance(&mut self, written: usize) {
        let of_text = written.min(self.text.len() - self.sent);
        self.sent += of_text;
        if let Some(part) = &mut self.object {
            part.at += (written - of_text) as u64;
            if part.at >= part.end {
                self.object = None;
            }
        }
    }
}

/// Builds the requests of one thread.
#[derive(Debug)]
pub struct Requests {
    signer: Signer,
    host: String,
    bucket: String,
    path: String,
}

/// A body that comes with a request.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// No body, and no `content-length` either.
    None,
    /// This text.
    Text(&'a [u8]),
    /// Bytes of an object.
    Object(Part),
}

/// Headers of a request beside those that every one has.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// The body's checksum and its value, which is signed.
    pub checksum: Option<(Checksum, &'a str)>,
    /// Headers that are not signed, each with its line's end.
    pub more: &'a str,
}

impl Headers<'_> {
    /// No checksum and no further header.
    pub const NONE: Self = Self { checksum: None, more: "" };
}

impl Requests {
    /// Requests to `bucket` at `host`, as it stands in the `host` header.
    pub fn new(credentials: Credentials, host: &str, bucket: &str) -> Self {
        let signer = Signer::new(credentials);
        Self { signer, host: host.to_owned(), bucket: bucket.to_owned(), path: String::new() }
    }

    /// Writes a request for what `name` appends to the bucket's path into `out`. The query's names are
    /// in order and percent-encoded.
    pub fn build(
        &mut self,
        method: &str,
        name: impl FnOnce(&mut String),
        query: &str,
        headers: Headers<'_>,
        body: Body<'_>,
        out: &mut RequestBytes,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.signer.set_time(now.as_secs());
        self.path.clear();
        self.path.push('/');
        self.path.push_str(&self.bucket);
        self.path.push('/');
        name(&mut self.path);
        if self.path.len() == self.bucket.len() + 2 {
            self.path.pop();
        }
        out.text.clear();
        out.sent = 0;
        out.object = None;
        let question = if query.is_empty() { "" } else { "?" };
        for piece in [method, " ", &self.path, question, query, " HTTP/1.1\r\n"] {
            out.text.extend_from_slice(piece.as_bytes());
        }
        let Headers { checksum, more } = headers;
        let canonical = Canonical {
            method,
            path: &self.path,
            query,
            host: &self.host,
            checksum: checksum.map(|(checksum, value)| (checksum.header(), value)),
            payload: UNSIGNED_PAYLOAD,
        };
        self.signer.sign(&canonical, &mut out.text);
        out.text.extend_from_slice(more.as_bytes());
        let length = match body {
            Body::None => None,
            Body::Text(text) => Some(text.len() as u64),
            Body::Object(part) => Some(part.end - part.at),
        };
        if let Some(length) = length {
            write!(out.text, "content-length: {length}\r\n").expect("a vector takes what is written");
        }
        out.text.extend_from_slice(b"\r\n");
        match body {
            Body::None => {}
            Body::Text(text) => out.text.extend_from_slice(text),
            Body::Object(part) => out.object = (part.at < part.end).then_some(part),
        }
    }
}

/// A request for `DeleteObjects`: its text, and headers that are not signed.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The body.
    pub xml: String,
    /// The headers, each with its line's end.
    pub headers: String,
}

impl Deletion {
    /// The query of the request.
    pub const QUERY: &'static str = "delete=";

    /// Deletes the objects whose names, as they stand in XML, `names` append.
    pub fn of(names: impl Iterator<Item = impl FnOnce(&mut String)>) -> Self {
        let mut xml = "<Delete>".to_owned();
        for name in names {
            xml.push_str("<Object><Key>");
            name(&mut xml);
            xml.push_str("</Key></Object>");
        }
        xml.push_str("</Delete>");
        let md5 = base64::engine::general_purpose::STANDARD.encode(Md5::digest(&xml));
        let headers = format!("content-md5: {md5}\r\ncontent-type: application/xml\r\n");
        Self { xml, headers }
    }
}

/// `text` as a value in a query.
pub(crate) fn in_query(text: &str) -> String {
    const KEPT: percent_encoding::AsciiSet =
        percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    percent_encoding::utf8_percent_encode(text, &KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes at most this number of bytes per call.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut left = self.1;
            for slice in slices {
                let length = slice.len().min(left);
                self.0.extend_from_slice(&slice[..length]);
                left -= length;
            }
            Ok(self.1 - left)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn requests() -> Requests {
        let credentials = Credentials { access_key: "a".into(), secret_key: "s".into(), region: "r".into() };
        Requests::new(credentials, "h:1", "bucket")
    }

    #[test]
    fn an_object_is_sent_whole_however_little_the_socket_takes() {
        let payloads = Payloads::with_pool(1, 1 << 16);
        let size = 1_500_000;
        for narrow in [333, 4096, 700_000, usize::MAX] {
            let mut out = RequestBytes::default();
            let part = Part { key: 5, at: 0, end: size };
            requests().build("PUT", |path| path.push('k'), "", Headers::NONE, Body::Object(part), &mut out);
            let mut socket = Narrow(Vec::new(), narrow);
            while !out.is_sent() {
                out.send(&mut socket, &payloads).unwrap();
            }
            let text = socket.0;
            let end = memchr::memmem::find(&text, b"\r\n\r\n").unwrap() + 4;
            let head = std::str::from_utf8(&text[..end]).unwrap();
            assert!(head.starts_with("PUT /bucket/k HTTP/1.1\r\nhost: h:1\r\n"), "{head}");
            assert!(head.contains("\r\ncontent-length: 1500000\r\n"), "{head}");
            assert_eq!(text.len() - end, 1_500_000);
            payloads.verify(5, 0, &text[end..]).unwrap();
        }
    }

    #[test]
    fn a_part_within_an_object_and_objects_shorter_than_a_stamp_are_sent_right() {
        let payloads = Payloads::with_pool(1, 1 << 16);
        for (at, end) in [(0, 0), (0, 1), (0, 16), (0, 17), (5, 9), (1_048_570, 1_048_590), (8, 3_000_000)] {
            let mut out = RequestBytes::default();
            requests().build(
                "PUT",
                |_| {},
                "partNumber=1",
                Headers::NONE,
                Body::Object(Part { key: 5, at, end }),
                &mut out,
            );
            let mut socket = Narrow(Vec::new(), 1 << 30);
            while !out.is_sent() {
                out.send(&mut socket, &payloads).unwrap();
            }
            let begin = memchr::memmem::find(&socket.0, b"\r\n\r\n").unwrap() + 4;
            assert_eq!((socket.0.len() - begin) as u64, end - at);
            payloads.verify(5, at, &socket.0[begin..]).unwrap();
        }
    }

    #[test]
    fn the_bucket_itself_has_no_slash_behind_it() {
        let mut out = RequestBytes::default();
        let headers = Headers { checksum: Some((Checksum::Crc32c, "AAAA")), more: "x: y\r\n" };
        requests().build("GET", |_| {}, "list-type=2", headers, Body::None, &mut out);
        let text = String::from_utf8(out.text).unwrap();
        assert!(text.starts_with("GET /bucket?list-type=2 HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("\r\nx-amz-checksum-crc32c: AAAA\r\n"), "{text}");
        assert!(
            text.contains("SignedHeaders=host;x-amz-checksum-crc32c;x-amz-content-sha256;x-amz-date,"),
            "{text}"
        );
        assert!(text.ends_with("\r\nx: y\r\n\r\n"), "{text}");
    }
}
