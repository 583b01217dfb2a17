//! The stream below HTTP: the socket itself, or TLS over it; heads are read in small pieces.
//!
//! ```text
//! hyper <-> Transport (small reads) <-> [TLS]
//!       <-> TimedStream (deadlines, counts, lingering close) <-> socket
//! ```
//! Also the deadlines of a head and of an answer, and the end of a read whose client has gone, or of a write
//! that was not begun before the process stood still. HTTP polls a flush whenever the connection is polled,
//! also while the service works: that is where the transport looks at the client. A write of HTTP while it
//! waits for a head is its refusal of one ([`RefusedHead`]).

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::client_stream::TimedStream;
use super::exchange::Exchange;
use super::refused_head::RefusedHead;
use super::request_body::BodyState;
use crate::server::limits::AHEAD_BYTES_MAX;
use sherd_net::tls::ServedStream;
use sherd_store::machine::pulse::ClientDoubt;

#[derive(Debug)]
pub(super) struct Transport {
    wire: Wire,
    pub(super) body: BodyState,
    pub(super) exchange: Exchange,
    deadlines: Deadlines,
    ahead: ReadAhead,
    refused: RefusedHead,
}

/// How long a connection may take for what it does.
#[derive(Debug)]
pub(super) struct Deadlines {
    head_timeout: Duration,
    answer_timeout: Option<Duration>,
    /// Until when the head must be whole; none while the connection is idle.
    head_ends: Option<Instant>,
    head_timer: Option<Pin<Box<Sleep>>>,
    /// Until when the answer must be sent, from the first time on that its client let it wait.
    answer_ends: Option<Instant>,
}

impl Deadlines {
    /// Deadlines of a connection that was accepted now: its first head is due already.
    pub(super) fn of_accepted(head_timeout: Duration, answer_timeout: Option<Duration>) -> Self {
        let head_ends = Some(Instant::now() + head_timeout);
        Self { head_timeout, answer_timeout, head_ends, head_timer: None, answer_ends: None }
    }

    fn read_of_head(&mut self) {
        self.head_ends.get_or_insert_with(|| Instant::now() + self.head_timeout);
    }

    /// Ready when the head is overdue.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ends) = self.head_ends else { return Poll::Pending };
        let timer = self.head_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if timer.deadline() != ends {
            timer.as_mut().reset(ends);
        }
        timer.as_mut().poll(cx)
    }

    /// Fails where the client has let an answer wait for too long. A write that waits is polled again within
    /// a second.
    fn judge_answer(&mut self) -> io::Result<()> {
        let Some(timeout) = self.answer_timeout else { return Ok(()) };
        let now = Instant::now();
        if now < *self.answer_ends.get_or_insert(now + timeout) {
            return Ok(());
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The connection is idle from here on.
    fn answer_ended(&mut self) {
        (self.head_ends, self.answer_ends) = (None, None);
    }
}

/// The bytes read behind the head of a request that is worked on.
#[derive(Debug, Default)]
struct ReadAhead {
    bytes: Vec<u8>,
    taken: usize,
}

impl ReadAhead {
    /// Gives as many bytes as fit; `false` where there is not one.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let left = &self.bytes[self.taken..];
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.bytes.len() {
            *self = Self::default();
        }
        count > 0
    }
}

/// In clear, or not. TLS has a kilobyte of state.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "in clear a connection needs no further allocation")]
enum Wire {
    Plain(TimedStream<TcpStream>),
    Tls(Box<ServedStream<TimedStream<TcpStream>>>),
}

impl Transport {
    pub(super) fn plain(
        stream: TimedStream<TcpStream>,
        body: BodyState,
        exchange: Exchange,
        deadlines: Deadlines,
        refused: RefusedHead,
    ) -> Self {
        Self { wire: Wire::Plain(stream), body, exchange, deadlines, ahead: ReadAhead::default(), refused }
    }

    pub(super) fn tls(
        stream: ServedStream<TimedStream<TcpStream>>,
        body: BodyState,
        exchange: Exchange,
        deadlines: Deadlines,
        refused: RefusedHead,
    ) -> Self {
        let wire = Wire::Tls(Box::new(stream));
        Self { wire, body, exchange, deadlines, ahead: ReadAhead::default(), refused }
    }

    /// Fails where the client of a request that ends with it has ended its side, or its connection. One that
    /// sends more instead is not looked at any further: a read ends as a whole answer, or with the write
    /// that fails.
    fn look_at_client(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.ahead.bytes.is_empty() {
            return Ok(());
        }
        let mut bytes = [0; AHEAD_BYTES_MAX];
        let mut buffer = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.wire).poll_read(cx, &mut buffer) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Ready(Ok(())) => {
                self.ahead.bytes.extend_from_slice(buffer.filled());
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(error),
        }
    }

    /// Reads from the wire, as little as a head needs where no body comes.
    fn poll_wire(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = self.body.read_bytes_max();
        if buffer.remaining() <= most {
            return Pin::new(&mut self.wire).poll_read(cx, buffer);
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.wire).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }

    /// Writes the refusal of a head in place of HTTP's own, which is said to be written at its end. The rest
    /// of the head is read and dropped before the socket is closed.
    fn poll_refuse(&mut self, cx: &mut Context<'_>, bare: &[u8]) -> Poll<io::Result<usize>> {
        let left = self.refused.in_place_of(bare);
        while !left.is_empty() {
            match ready!(self.wire.poll_write(cx, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => left.advance(written),
            }
        }
        self.body.end();
        Poll::Ready(Ok(bare.len()))
    }

    /// Turns too long a wait for the client into an error.
    fn judge(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_pending() {
            self.deadlines.judge_answer()?;
        }
        written
    }
}

impl Wire {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if !self.ahead.give(buffer) {
            let read = self.poll_wire(cx, buffer);
            if read.is_pending() && self.exchange.waits_for_head() {
                ready!(self.deadlines.poll_head(cx));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            ready!(read)?;
        }
        let read = &buffer.filled()[before..];
        if self.exchange.waits_for_head() && !read.is_empty() {
            self.deadlines.read_of_head();
            self.exchange.read_of_head(read);
        }
        self.body.read(read.len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = if self.exchange.waits_for_head() {
            self.poll_refuse(cx, bytes)
        } else {
            self.wire.poll_write(cx, bytes)
        };
        self.judge(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.exchange.waits_for_head() {
            let bare: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
            let written = self.poll_refuse(cx, &bare);
            return self.judge(written);
        }
        let written = match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, buffers),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, buffers),
        };
        self.judge(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        if flushed.is_pending() {
            self.deadlines.judge_answer()?;
        }
        ready!(flushed)?;
        if self.exchange.all_is_sent() {
            self.deadlines.answer_ended();
        }
        let doubt = self.exchange.doubt();
        if doubt == ClientDoubt::Always {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.exchange.ends_with_client() || doubt == ClientDoubt::WhereEnded {
            self.look_at_client(cx)?;
        }
        self.exchange.client_is_there();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
