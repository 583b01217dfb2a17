//! A socket whose peer must go on reading, and is heard out.
//!
//! A client that asks for a gigabyte and reads none of it would hold the buffers of the response.
//! A write that makes no progress for the stall timeout fails the connection. Reads have no
//! deadline here: an idle connection is the header timeout's business, a request body its own.
//!
//! Where an answer went out before the request was read, the rest of the request is read and dropped
//! before the socket is closed: for as long as the client goes on sending, within limits.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::Traffic;
use super::request_body::Unread;

/// How long a client is heard out after an early answer; then it may lose it.
const LINGER_MAX: Duration = Duration::from_secs(30);
/// How long it may be silent meanwhile.
const LINGER_IDLE: Duration = Duration::from_secs(5);
/// Bytes that are dropped at a time.
const LINGER_BYTES: usize = 16 << 10;

/// A stream with a deadline on writes, and counted.
#[derive(Debug)]
pub(super) struct Patient<T> {
    stream: T,
    traffic: Traffic,
    timeout: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    waiting: bool,
    unread: Unread,
    linger: Option<Linger>,
}

/// Our side is shut; the client's rest is on its way.
#[derive(Debug)]
struct Linger {
    /// Until when it is heard out.
    ends: Instant,
    /// The end of its silence.
    silent: Pin<Box<Sleep>>,
    dropped: Box<[u8]>,
}

impl Linger {
    fn begin() -> Self {
        Self {
            ends: Instant::now() + LINGER_MAX,
            silent: Box::pin(tokio::time::sleep(LINGER_IDLE)),
            dropped: vec![0; LINGER_BYTES].into(),
        }
    }

    /// Ready when the client ended its side, or there was enough of it.
    fn poll<T: AsyncRead + Unpin>(&mut self, stream: &mut T, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut buffer = ReadBuf::new(&mut self.dropped);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let now = Instant::now();
                    if now >= self.ends {
                        return Poll::Ready(());
                    }
                    self.silent.as_mut().reset(self.ends.min(now + LINGER_IDLE));
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.silent.as_mut().poll(cx),
            }
        }
    }
}

impl<T> Patient<T> {
    pub(super) fn new(stream: T, timeout: Duration, traffic: Traffic, unread: Unread) -> Self {
        Self { stream, traffic, timeout, deadline: None, waiting: false, unread, linger: None }
    }

    /// Passes progress on, and turns too long a lack of it into an error.
    fn judge(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &progress {
            self.traffic.sent_bytes.inc_by(written.as_ref().map_or(0, |&bytes| bytes as u64));
            self.waiting = false;
            return progress;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if !self.waiting {
            self.waiting = true;
            deadline.as_mut().reset(Instant::now() + timeout);
        }
        deadline.as_mut().poll(cx).map(|()| Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.traffic.received_bytes.inc_by((buffer.filled().len() - before) as u64);
        progress
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.judge(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, unread, linger, .. } = &mut *self;
        if linger.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            if !unread.is_some() {
                return Poll::Ready(Ok(()));
            }
        }
        linger.get_or_insert_with(Linger::begin).poll(stream, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::config::settings::Durability;
    use crate::metrics::Metrics;

    fn traffic() -> Traffic {
        Metrics::new(Durability::Fsync).s3.traffic
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_reads_fails_the_write() {
        let (near, _far) = tokio::io::duplex(4);
        let mut near = Patient::new(near, Duration::from_mins(1), traffic(), Unread::default());
        let error = near.write_all(b"more than four bytes").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_goes_on_reading_is_served() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut near = Patient::new(near, Duration::from_mins(1), traffic(), Unread::default());
        let reader = async {
            let mut text = Vec::new();
            for _ in 0..5 {
                // Together far beyond the timeout, each within it. The clock is a paused one.
                tokio::time::advance(Duration::from_secs(50)).await;
                text.push(far.read_u8().await.expect("the writer is there"));
            }
            text
        };
        let (written, read) = tokio::join!(near.write_all(b"bytes"), reader);
        written.expect("every byte was read in time");
        assert_eq!(read, b"bytes");
        assert_eq!(near.traffic.sent_bytes.get(), 5);
    }
}
