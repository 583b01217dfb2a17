//! What HTTP is read from and written to: the socket itself, or TLS over it; heads are read in small pieces.
//!
//! ```text
//! hyper <-> Transport (small reads) <-> [TLS] <-> TimedStream (deadlines, counts, lingering close) <-> socket
//! ```

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::patient::TimedStream;
use super::request_body::BodyState;

/// A connection of a client, ready for requests.
#[derive(Debug)]
pub(super) struct Transport {
    wire: Wire,
    pub(super) body: BodyState,
}

/// In clear, or not. TLS has a kilobyte of state.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "in clear a connection needs no further allocation")]
enum Wire {
    Plain(TimedStream<TcpStream>),
    Tls(Box<TlsStream<TimedStream<TcpStream>>>),
}

impl Transport {
    pub(super) fn plain(stream: TimedStream<TcpStream>, body: BodyState) -> Self {
        Self { wire: Wire::Plain(stream), body }
    }

    pub(super) fn tls(stream: TlsStream<TimedStream<TcpStream>>, body: BodyState) -> Self {
        Self { wire: Wire::Tls(Box::new(stream)), body }
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
        let Self { wire, body } = &mut *self;
        let (before, most) = (buffer.filled().len(), body.read_bytes_max());
        if buffer.remaining() <= most {
            ready!(Pin::new(wire).poll_read(cx, buffer))?;
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
            ready!(Pin::new(wire).poll_read(cx, &mut part))?;
            let read = part.filled().len();
            buffer.advance(read);
        }
        body.read(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, buffers),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
