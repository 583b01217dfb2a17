//! The smallest client of HTTP: a socket that blocks, one request after the other, and no
//! allocation once its buffers have grown. What it costs is two system calls and a signature.

use std::io::{self, IoSlice, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clients::BlockingClient;
use super::error::{Error, Failure};
use super::payload::Body;
use super::sign::{PAYLOAD, Signer};
use super::store::BUCKET;
use super::work::{Op, Work};
use crate::blocking::{read_some, write_some};

/// Bytes read at one time.
const INPUT_BYTES: usize = 256 << 10;
/// A server that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_mins(1);
/// What ends a head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A connection with a client on it.
pub(super) struct WireClient {
    pub(super) work: Work,
    stream: TcpStream,
    signer: Arc<Signer>,
    path: String,
    scratch: Vec<u8>,
    output: Vec<u8>,
    input: Vec<u8>,
}

/// The head of an answer, and which bytes of the input follow it.
struct Head {
    status: u16,
    length: u64,
    rest: std::ops::Range<usize>,
}

impl WireClient {
    /// Connects.
    pub(super) fn new(address: SocketAddr, signer: &Arc<Signer>, work: Work) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).map_err(Error::setup("connect"))?;
        stream.set_nodelay(true).map_err(Error::setup("set TCP_NODELAY"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(Error::setup("set a timeout"))?;
        Ok(Self {
            work,
            stream,
            signer: Arc::clone(signer),
            path: String::new(),
            scratch: Vec::new(),
            output: Vec::new(),
            input: vec![0; INPUT_BYTES],
        })
    }

    /// Makes the bucket.
    ///
    /// # Errors
    /// The node's.
    pub(super) fn make_bucket(&mut self) -> Result<(), Failure> {
        self.name(None);
        let nothing = self.work.arena.body(0, 0);
        self.exchange("PUT", nothing.clone(), nothing).map(drop)
    }

    /// Writes an object.
    ///
    /// # Errors
    /// The node's.
    pub(super) fn put(&mut self, number: u64) -> Result<Duration, Failure> {
        self.name(Some(number));
        self.exchange("PUT", self.work.body(number), self.work.arena.body(0, 0))
    }

    fn get(&mut self, number: u64) -> Result<Duration, Failure> {
        self.name(Some(number));
        self.exchange("GET", self.work.arena.body(0, 0), self.work.body(number))
    }

    fn name(&mut self, number: Option<u64>) {
        use std::fmt::Write as _;
        self.path.clear();
        let written = match number {
            Some(number) => write!(self.path, "/{BUCKET}/{}", super::work::Key(number)),
            None => write!(self.path, "/{BUCKET}"),
        };
        written.expect("a String takes every text");
    }

    /// Sends a request with a body and takes the answer, whose body must be `expected`.
    fn exchange(&mut self, method: &str, body: Body, mut expected: Body) -> Result<Duration, Failure> {
        let is_put = method == "PUT";
        self.write_head(method, is_put.then(|| body.left()));
        let begun = Instant::now();
        self.send(body)?;
        let head = self.read_head()?;
        let mut left = head.length;
        let mut range = head.rest;
        loop {
            let bytes = self.input.get(range).unwrap_or_default();
            if head.status != 200 {
                let text = String::from_utf8_lossy(bytes).into_owned();
                return Err(Failure::Answer { status: head.status, text });
            }
            if !expected.is_next(bytes) {
                return Err(Failure::OtherBytes);
            }
            left = left.checked_sub(bytes.len() as u64).ok_or(Failure::OtherBytes)?;
            if left == 0 {
                break;
            }
            range = 0..self.read(0)?;
        }
        let took = begun.elapsed();
        if expected.left() > 0 { Err(Failure::OtherBytes) } else { Ok(took) }
    }

    fn write_head(&mut self, method: &str, length: Option<u64>) {
        let Self { signer, path, scratch, output, .. } = self;
        output.clear();
        for part in [
            method,
            " ",
            path,
            " HTTP/1.1\r\nhost: ",
            signer.host(),
            "\r\nx-amz-date: ",
            signer.date(),
            "\r\nx-amz-content-sha256: ",
            PAYLOAD,
            "\r\nauthorization: ",
        ] {
            output.extend_from_slice(part.as_bytes());
        }
        signer.authorize(method, path, scratch, output);
        if let Some(length) = length {
            write!(output, "\r\ncontent-length: {length}").expect("a Vec takes every byte");
        }
        output.extend_from_slice(HEAD_END);
    }

    /// Sends the head and the body, the first bytes of both in one call.
    fn send(&mut self, mut body: Body) -> io::Result<()> {
        let first = body.next_piece().unwrap_or_default();
        let slices = [IoSlice::new(&self.output), IoSlice::new(&first)];
        let sent = write_some(&mut self.stream, &slices)?;
        self.stream.write_all(self.output.get(sent..).unwrap_or_default())?;
        self.stream.write_all(first.get(sent.saturating_sub(self.output.len())..).unwrap_or_default())?;
        body.try_for_each(|piece| self.stream.write_all(&piece))
    }

    /// Reads behind what is there; how much is there then.
    fn read(&mut self, there: usize) -> io::Result<usize> {
        let room = self.input.get_mut(there..).filter(|room| !room.is_empty());
        let read = read_some(&mut self.stream, room.ok_or(io::ErrorKind::InvalidData)?)?;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(there + read) }
    }

    fn read_head(&mut self) -> Result<Head, Failure> {
        let mut there = 0;
        loop {
            there = self.read(there)?;
            let input = self.input.get(..there).unwrap_or_default();
            let end = input.windows(HEAD_END.len()).position(|window| window == HEAD_END);
            let Some(end) = end else { continue };
            let parsed = std::str::from_utf8(&input[..end]).ok().and_then(parse_head);
            let (status, length) = parsed.ok_or_else(|| Failure::of("an answer without status or length"))?;
            return Ok(Head { status, length, rest: end + HEAD_END.len()..there });
        }
    }
}

/// Status and length of an answer.
fn parse_head(head: &str) -> Option<(u16, u64)> {
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let lengths = lines.filter_map(|line| line.split_once(':'));
    let length =
        lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).map(|(_, value)| value);
    Some((status, length.last()?.trim().parse().ok()?))
}

impl BlockingClient for WireClient {
    fn one(&mut self) -> Result<Duration, Failure> {
        let number = self.work.next();
        match self.work.op {
            Op::Put => self.put(number),
            Op::Get => self.get(number),
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.work.written().map_or(Ok(()), |number| self.get(number).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_its_status_and_its_length() {
        assert_eq!(parse_head("HTTP/1.1 200 OK\r\na: b\r\nContent-Length: 7"), Some((200, 7)));
        assert_eq!(parse_head("HTTP/1.1 503 Slow Down\r\ncontent-length:0"), Some((503, 0)));
        assert_eq!(parse_head("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked"), None);
        assert_eq!(parse_head("HTTP"), None);
    }
}
