//! A client socket with a write deadline and a lingering close.
//!
//! A client that asks for a gigabyte and reads none of it would hold the buffers of the response.
//! A write that makes no progress for the stall timeout fails the connection; so does one that makes
//! little of it while others wait for the buffers that it holds. The reader of an object pauses instead, for
//! an hour at most: what is read ahead of it is given back, and its place may be another's. Reads have no
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

use super::exchange::Exchange;
use super::request_body::BodyState;
use crate::server::limits::{LINGER_BYTES, LINGER_IDLE, LINGER_MAX, READER_PAUSE_MAX};
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
    /// There while the reader of an object takes nothing after the stall timeout.
    paused: Option<OwnedSemaphorePermit>,
    body: BodyState,
    exchange: Exchange,
    places: StreamPlaces,
    linger: Option<LingeringClose>,
}

/// Places that all connections of a listener share. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct StreamPlaces {
    /// Of connections whose close lingers: their buffers stay with them.
    lingers: Arc<Semaphore>,
    /// Of readers that pause.
    pauses: Arc<Semaphore>,
}

impl StreamPlaces {
    pub(super) fn new(lingers_max: usize, pauses_max: usize) -> Self {
        Self { lingers: Arc::new(Semaphore::new(lingers_max)), pauses: Arc::new(Semaphore::new(pauses_max)) }
    }
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
    pub(super) fn new(
        stream: T,
        timeout: Duration,
        traffic: Traffic,
        held: HeldBuffers,
        (body, exchange): (BodyState, Exchange),
        places: StreamPlaces,
    ) -> Self {
        let pace = Pace::new(Instant::now());
        let (look, waiting_since, paused, linger) = (None, None, None, None);
        Self {
            stream,
            traffic,
            timeout,
            held,
            pace,
            look,
            waiting_since,
            paused,
            body,
            exchange,
            places,
            linger,
        }
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
            if self.paused.take().is_some() && !self.exchange.go_on() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            return progress;
        }
        let since = *self.waiting_since.get_or_insert_with(|| {
            self.pace.wait(now);
            now
        });
        let pauses = self.paused.is_some() && self.exchange.is_answering();
        let mut ends = since + if pauses { READER_PAUSE_MAX } else { self.timeout };
        let mut look = self.look.take().unwrap_or_else(|| Box::pin(tokio::time::sleep_until(ends)));
        if since == now {
            look.as_mut().reset(ends.min(self.pace.next_look()));
        }
        while look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let slow = self.pace.bytes_per_second(now).is_some_and(|pace| self.held.takes(pace));
            if self.paused.is_some() {
                // A window that was being collected when the pause began is given back here.
                self.held.give_back_ahead();
            } else if now >= ends && self.pause() {
                ends = since + READER_PAUSE_MAX;
            }
            if slow || now >= ends {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)));
            }
            look.as_mut().reset(ends.min(self.pace.next_look()));
        }
        self.look = Some(look);
        Poll::Pending
    }

    /// Lets the reader of an object pause, where there is a place for that and nothing but its answer is
    /// under way.
    fn pause(&mut self) -> bool {
        let place = Arc::clone(&self.places.pauses).try_acquire_owned();
        let pauses = place.is_ok() && self.exchange.is_answering() && self.held.give_back_ahead();
        if pauses {
            self.exchange.pause();
            self.paused = place.ok();
        }
        pauses
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
        let Self { stream, body, places, linger, .. } = &mut *self;
        if linger.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            if !body.is_unread() {
                return Poll::Ready(Ok(()));
            }
            let Ok(place) = Arc::clone(&places.lingers).try_acquire_owned() else {
                return Poll::Ready(Ok(()));
            };
            *linger = Some(LingeringClose::begin(place));
        }
        let linger = linger.as_mut().expect("begun above");
        linger.poll(stream, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt as _;
    use http::Request;
    use sherd_net::tls::ConnectionPlaces;
    use sherd_store::machine::pulse::ProcessPulse;
    use sherd_volume::options::Durability;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use sherd_store::machine::reclaim::{ReadAhead, Reclaim};
    use sherd_store::observe::metrics::Metrics;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn traffic() -> Traffic {
        Metrics::new(Durability::Fsync).s3.traffic
    }

    fn places(count: usize) -> StreamPlaces {
        StreamPlaces::new(count, count)
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_heard_out_as_there_are_places() {
        let lingers = places(1);
        let close = || {
            let (near, far) = tokio::io::duplex(64);
            let (held, body) = (HeldBuffers::new(Reclaim::default()), BodyState::default());
            body.end();
            let exchange = Exchange::alone();
            let near = TimedStream::new(near, LINGER_MAX, traffic(), held, (body, exchange), lingers.clone());
            (tokio::spawn(async move { (Pin::new(&mut { near }).shutdown().await, Instant::now()) }), far)
        };
        let begun = Instant::now();
        let (first, _far) = close();
        tokio::task::yield_now().await;
        let (second, _far) = close();
        assert_eq!(second.await.expect("it does not panic").1, begun);
        assert_eq!(first.await.expect("it does not panic").1, begun + LINGER_IDLE);
        assert_eq!(lingers.lingers.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_reads_fails_the_write() {
        let (near, _far) = tokio::io::duplex(4);
        let mut near = TimedStream::new(
            near,
            Duration::from_mins(1),
            traffic(),
            HeldBuffers::new(Reclaim::default()),
            (BodyState::default(), Exchange::alone()),
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
            (BodyState::default(), Exchange::alone()),
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

    /// The reader of an object that takes nothing of what is written for it, with what its read holds ahead.
    struct PausingReader {
        near: TimedStream<DuplexStream>,
        far: DuplexStream,
        given_back: Arc<AtomicBool>,
        reclaim: Reclaim,
    }

    impl PausingReader {
        fn new(exchange: Exchange, pauses: usize) -> Self {
            let (near, far) = tokio::io::duplex(4);
            let (reclaim, ahead, given_back) =
                (Reclaim::default(), ReadAhead::default(), Arc::new(AtomicBool::new(false)));
            let counted = Arc::clone(&given_back);
            ahead.begin(move || {
                counted.store(true, Ordering::Relaxed);
            });
            let held = HeldBuffers::new(reclaim.clone());
            held.set(None, Some(ahead));
            let minute = Duration::from_mins(1);
            let (state, places) = ((BodyState::default(), exchange), StreamPlaces::new(0, pauses));
            let near = TimedStream::new(near, minute, traffic(), held, state, places);
            Self { near, far, given_back, reclaim }
        }

        /// A reader whose answer is on its way.
        fn of_answer(pauses: usize) -> Self {
            let exchange = Exchange::alone();
            drop(exchange.answer((), None));
            Self::new(exchange, pauses)
        }

        /// Writes eight bytes, of which four fit, while the reader does this; returns what became of it and
        /// after how long.
        async fn write(mut self, reader: impl AsyncFnOnce(&mut DuplexStream, &Reclaim)) -> WrittenTo {
            let begun = Instant::now();
            let Self { near, far, given_back, reclaim } = &mut self;
            let (written, ()) = tokio::join!(
                async { (near.write_all(b"12345678").await.map_err(|error| error.kind()), Instant::now()) },
                reader(far, reclaim)
            );
            (written.0, written.1 - begun, given_back.load(Ordering::Relaxed))
        }
    }

    /// The outcome, when it came, and whether the read gave back what it held ahead.
    type WrittenTo = (Result<(), io::ErrorKind>, Duration, bool);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_pauses_holds_nothing_and_goes_on_within_an_hour() {
        let (long, longer) = (READER_PAUSE_MAX.saturating_sub(Duration::from_secs(1)), READER_PAUSE_MAX * 2);
        for (pause, outcome, after) in
            [(long, Ok(()), long), (longer, Err(io::ErrorKind::TimedOut), READER_PAUSE_MAX)]
        {
            let written = PausingReader::of_answer(1).write(async |far, _| {
                tokio::time::sleep(pause).await;
                let mut taken = [0; 8];
                let _cut = far.read_exact(&mut taken[..4]).await;
            });
            assert_eq!(written.await, (outcome, after, true), "it pauses for {pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_pauses_gives_way_to_who_needs_its_buffers_or_its_place() {
        let pause = Duration::from_mins(10);
        let written = PausingReader::of_answer(1).write(async |_, reclaim| {
            tokio::time::sleep(pause).await;
            reclaim.ask(Duration::from_millis(250));
        });
        let (outcome, after, given_back) = written.await;
        assert_eq!((outcome, given_back), (Err(io::ErrorKind::TimedOut), true));
        assert!(after >= pause && after < pause + Duration::from_secs(1), "{after:?}");

        let places = ConnectionPlaces::new(1);
        let exchange = Exchange::new(places.take(LOCAL), Arc::new(ProcessPulse::new()));
        assert!(exchange.begin(&Request::new(String::new()), false));
        drop(exchange.answer((), None));
        let written = PausingReader::new(exchange.clone(), 1).write(async |far, _| {
            drop(places.take(LOCAL));
            assert!(exchange.lost().now_or_never().is_none(), "it reads");
            tokio::time::sleep(pause).await;
            let other = places.take(LOCAL);
            exchange.lost().await;
            // The exchange goes on before its connection is dropped.
            let _cut = far.read_exact(&mut [0; 4]).await;
            drop(other);
        });
        assert_eq!(written.await, (Err(io::ErrorKind::ConnectionAborted), pause, true));
    }

    /// The rest of an answer may be in the way of the answer to the next request.
    #[tokio::test(start_paused = true)]
    async fn a_reader_pauses_only_where_its_answer_alone_is_under_way_and_few_do() {
        let places = ConnectionPlaces::new(1);
        let exchange = Exchange::new(places.take(LOCAL), Arc::new(ProcessPulse::new()));
        let next = Request::put("/b/k").body("body".to_owned()).expect("a request");
        let stood_still = (Err(io::ErrorKind::TimedOut), Duration::from_mins(1), false);
        let written = PausingReader::new(exchange.clone(), 1).write(async |_, _| {
            assert!(exchange.begin(&next, true));
            drop(places.take(LOCAL));
            tokio::time::sleep(Duration::from_secs(61)).await;
            drop(places.take(LOCAL));
            assert!(exchange.lost().now_or_never().is_none(), "the request is under way");
        });
        assert_eq!(written.await, stood_still);
        let written = PausingReader::of_answer(0).write(async |_, _| {});
        assert_eq!(written.await, stood_still, "no place is left for one that pauses");
    }

    #[test]
    fn a_connection_that_waits_for_a_head_does_not_keep_its_place() {
        let places = ConnectionPlaces::new(1);
        let exchange = Exchange::new(places.take(LOCAL), Arc::new(ProcessPulse::new()));
        assert!(exchange.go_on());
        let _other = places.take(LOCAL);
        assert!(exchange.lost().now_or_never().is_some());
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
                (BodyState::default(), Exchange::alone()),
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
