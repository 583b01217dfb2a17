//! A client socket with a write deadline and a lingering close.
//!
//! A client that asks for a gigabyte and reads none of it would hold the buffers of the response.
//! A write that makes no progress for the stall timeout fails the connection; so does one that makes
//! little of it while others wait for the buffers that it holds. Reads have no
//! deadline here: an idle connection is the header timeout's business, a request body its own.
//! Under TLS it is the socket below it: all that TLS writes, also of its own accord, has the deadline.
//!
//! Where an answer went out before the request was read, the rest of the request is read and dropped
//! before the socket is closed: for as long as the client goes on sending, within limits.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use super::request_body::BodyState;
use crate::server::limits::{LINGER_BYTES, LINGER_IDLE, LINGER_MAX};
use sherd_store::machine::pace::Pace;
use sherd_store::machine::reclaim::HeldBuffers;
use sherd_store::observe::metrics::Traffic;

/// A stream with a deadline on writes, and counted.
#[derive(Debug)]
pub(super) struct TimedStream<T> {
    stream: T,
    traffic: Traffic,
    timeout: Duration,
    held: HeldBuffers,
    /// How fast the client reads what is written for it.
    pace: Pace,
    /// The next look at a write that waits.
    look: Option<Pin<Box<Sleep>>>,
    /// Since when a write has made no progress.
    waiting_since: Option<Instant>,
    body: BodyState,
    lingers: Arc<Semaphore>,
    linger: Option<LingeringClose>,
}

/// Our side is shut; the client's rest is on its way.
#[derive(Debug)]
struct LingeringClose {
    /// Until when its close lingers.
    ends: Instant,
    /// The end of its silence.
    silent: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl LingeringClose {
    fn begin(place: OwnedSemaphorePermit) -> Self {
        Self {
            ends: Instant::now() + LINGER_MAX,
            silent: Box::pin(tokio::time::sleep(LINGER_IDLE)),
            _place: place,
        }
    }

    /// Ready when the client ended its side, or there was enough of it.
    fn poll<T: AsyncRead + Unpin>(&mut self, stream: &mut T, cx: &mut Context<'_>) -> Poll<()> {
        let mut dropped = [0; LINGER_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut dropped);
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

impl<T> TimedStream<T> {
    /// `lingers` has places for connections whose close lingers: their buffers stay with them.
    pub(super) fn new(
        stream: T,
        timeout: Duration,
        traffic: Traffic,
        held: HeldBuffers,
        body: BodyState,
        lingers: Arc<Semaphore>,
    ) -> Self {
        let pace = Pace::new(Instant::now());
        let (look, waiting_since, linger) = (None, None, None);
        Self { stream, traffic, timeout, held, pace, look, waiting_since, body, lingers, linger }
    }

    pub(super) fn socket(&self) -> &T {
        &self.stream
    }

    /// Further bytes of the peer are dropped before the socket is closed.
    pub(super) fn linger_at_close(&self) {
        self.body.end();
    }

    /// Passes progress on, and turns too long a lack of it into an error, or too little of it while
    /// others wait for buffers.
    fn judge(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        if let Poll::Ready(written) = &progress {
            let bytes = written.as_ref().map_or(0, |&bytes| bytes as u64);
            self.traffic.sent_bytes.inc_by(bytes);
            self.pace.progress(bytes, now);
            self.waiting_since = None;
            return progress;
        }
        let since = *self.waiting_since.get_or_insert_with(|| {
            self.pace.wait(now);
            now
        });
        let ends = since + self.timeout;
        let look = self.look.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if since == now {
            look.as_mut().reset(ends.min(self.pace.next_look()));
        }
        while look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let slow = self.pace.bytes_per_second(now).is_some_and(|pace| self.held.takes(pace));
            if slow || now >= ends {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)));
            }
            look.as_mut().reset(ends.min(self.pace.next_look()));
        }
        Poll::Pending
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, traffic, .. } = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buffer))?;
        traffic.received_bytes.inc_by((buffer.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<T> {
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
        let Self { stream, body, lingers, linger, .. } = &mut *self;
        if linger.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            if !body.is_unread() {
                return Poll::Ready(Ok(()));
            }
            let Ok(place) = Arc::clone(lingers).try_acquire_owned() else { return Poll::Ready(Ok(())) };
            *linger = Some(LingeringClose::begin(place));
        }
        let linger = linger.as_mut().expect("begun above");
        linger.poll(stream, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use sherd_volume::options::Durability;

    use super::*;
    use sherd_store::machine::reclaim::Reclaim;
    use sherd_store::observe::metrics::Metrics;

    fn traffic() -> Traffic {
        Metrics::new(Durability::Fsync).s3.traffic
    }

    fn places(count: usize) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(count))
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_heard_out_as_there_are_places() {
        let lingers = places(1);
        let close = || {
            let (near, far) = tokio::io::duplex(64);
            let (held, body) = (HeldBuffers::new(Reclaim::default()), BodyState::default());
            body.end();
            let near = TimedStream::new(near, LINGER_MAX, traffic(), held, body, Arc::clone(&lingers));
            (tokio::spawn(async move { (Pin::new(&mut { near }).shutdown().await, Instant::now()) }), far)
        };
        let begun = Instant::now();
        let (first, _far) = close();
        tokio::task::yield_now().await;
        let (second, _far) = close();
        assert_eq!(second.await.expect("it does not panic").1, begun);
        assert_eq!(first.await.expect("it does not panic").1, begun + LINGER_IDLE);
        assert_eq!(lingers.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_reads_fails_the_write() {
        let (near, _far) = tokio::io::duplex(4);
        let mut near = TimedStream::new(
            near,
            Duration::from_mins(1),
            traffic(),
            HeldBuffers::new(Reclaim::default()),
            BodyState::default(),
            places(1),
        );
        let error = near.write_all(b"more than four bytes").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_goes_on_reading_is_served() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut near = TimedStream::new(
            near,
            Duration::from_mins(1),
            traffic(),
            HeldBuffers::new(Reclaim::default()),
            BodyState::default(),
            places(1),
        );
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

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_gives_up_when_others_wait_for_its_buffers_and_a_fast_one_does_not() {
        for (bytes_per_second, gives_up) in [(1, true), (100_000, false)] {
            let reclaim = Reclaim::default();
            let (near, mut far) = tokio::io::duplex(64);
            let minute = Duration::from_mins(1);
            let mut near = TimedStream::new(
                near,
                minute,
                traffic(),
                HeldBuffers::new(reclaim.clone()),
                BodyState::default(),
                places(1),
            );
            let reader = async {
                let mut taken = vec![0; bytes_per_second];
                for _ in 0..10 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    reclaim.ask(Duration::from_secs(3));
                    far.read_exact(&mut taken).await.expect("the other end is there");
                }
            };
            let body = vec![7; 1_000_000];
            let write = tokio::time::timeout(minute, near.write_all(&body));
            let (written, _) = tokio::join!(write, tokio::time::timeout(minute, reader));
            let outcome = written.expect("judged within the minute");
            assert_eq!(outcome.is_err(), gives_up, "{bytes_per_second}: {outcome:?}");
        }
    }
}
