//! Where a connection stands between a request and its answer, and what follows for its place.
//!
//! ```text
//! accepted -> Head -- begin --> Work -- answer --> Answer -- its body ends, all is sent --> Head
//! ```
//! In `Head` a connection is idle, at its handshake, or has no whole head: its place may be given to another.
//! From `begin` on a request is under way, and the place is kept, but while the reader of an object pauses.
//! `server::connection` takes the steps around
//! the service; the transport reads the stage, and ends an answer once its last byte went to the socket.
//!
//! A write that was read after the process stood still asks the transport to look at its client before it is
//! begun (see [`ProcessPulse`]).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::audit::AnswerCount;
use crate::server::limits::LOOK_AFTER;
use sherd_net::tls::ConnectionPlace;
use sherd_store::machine::pulse::{ClientDoubt, LONG_DOUBT, ProcessPulse, WholeWrite};

/// Lines of a head beside its headers: the request line and the empty one.
const LINES_BESIDE_HEADERS: usize = 2;

/// The exchange of one connection. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Exchange(Arc<ExchangeState>);

#[derive(Debug)]
struct ExchangeState {
    place: ConnectionPlace,
    stage: AtomicU8,
    /// Lines that were read since the connection began to wait for a head, and whether the last one is whole.
    lines: AtomicUsize,
    ends_with_line: AtomicBool,
    look: AtomicU8,
    /// The doubt about the client when the head of a write came, and until when it counts: the write may wait
    /// for a place meanwhile.
    begun_in: Mutex<Option<(ClientDoubt, Instant)>>,
    pulse: Arc<ProcessPulse>,
}

/// A look at the client of a write that was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ClientLook {
    /// No look was asked for.
    None,
    Asked,
    /// The client is there.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ExchangeStage {
    Head,
    /// A read is worked on, and nothing was read behind its head: it ends when its client goes.
    Read,
    /// Another request is worked on, or one with others behind it.
    Work,
    Answer,
    /// The answer's body has ended; bytes of it may wait for the socket.
    Flush,
}

impl Exchange {
    pub(super) fn new(place: ConnectionPlace, pulse: Arc<ProcessPulse>) -> Self {
        Self(Arc::new(ExchangeState {
            place,
            stage: AtomicU8::new(ExchangeStage::Head as u8),
            lines: AtomicUsize::new(0),
            ends_with_line: AtomicBool::new(false),
            look: AtomicU8::new(ClientLook::None as u8),
            begun_in: Mutex::default(),
            pulse,
        }))
    }

    /// The exchange of the only connection.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        let place = sherd_net::tls::ConnectionPlaces::new(1).take(std::net::Ipv4Addr::LOCALHOST.into());
        Self::new(place, Arc::new(ProcessPulse::new()))
    }

    fn is_at(&self, stage: ExchangeStage) -> bool {
        self.0.stage.load(Ordering::Acquire) == stage as u8
    }

    fn go_to(&self, stage: ExchangeStage) {
        self.0.stage.store(stage as u8, Ordering::Release);
    }

    /// Returns once the connection's place is another's. Cancel-safe.
    pub(super) async fn lost(&self) {
        self.0.place.lost().await;
    }

    /// Takes note of bytes that were read while a head is waited for.
    #[expect(clippy::naive_bytecount, reason = "a head is a kilobyte: no crate for that")]
    pub(super) fn read_of_head(&self, bytes: &[u8]) {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.0.lines.fetch_add(lines, Ordering::Relaxed);
        self.0.ends_with_line.store(bytes.last() == Some(&b'\n'), Ordering::Relaxed);
    }

    /// A request's head is whole: its place is kept. `changes` says whether it may change something. `false`
    /// where the place was lost a moment before.
    pub(super) fn begin<B: Body>(&self, request: &Request<B>, changes: bool) -> bool {
        let lines = self.0.lines.load(Ordering::Relaxed);
        let is_read = !changes
            && matches!(*request.method(), Method::GET | Method::HEAD)
            && request.body().is_end_stream();
        // Bytes behind the head are another request's. One that came as the rest of an earlier read has no
        // lines here.
        let is_last = lines == request.headers().len() + LINES_BESIDE_HEADERS
            && self.0.ends_with_line.load(Ordering::Relaxed);
        self.0.look.store(ClientLook::None as u8, Ordering::Release);
        if !is_read {
            let doubt = self.0.pulse.doubt();
            let begun_in = (doubt != ClientDoubt::None).then(|| (doubt, Instant::now() + LONG_DOUBT));
            *self.0.begun_in.lock() = begun_in;
        }
        self.go_to(if is_read && is_last { ExchangeStage::Read } else { ExchangeStage::Work });
        self.0.place.keep()
    }

    /// The head of the answer is there. The place is kept until the answer's body is dropped and all of it
    /// sent.
    pub(super) fn answer<B>(&self, body: B, count: Option<AnswerCount>) -> AnswerBody<B> {
        self.go_to(ExchangeStage::Answer);
        AnswerBody { body, exchange: self.clone(), count }
    }

    /// Whether an answer is on its way, and no further request under way.
    pub(super) fn is_answering(&self) -> bool {
        self.is_at(ExchangeStage::Answer) || self.is_at(ExchangeStage::Flush)
    }

    /// The client takes nothing of the answer: the place may be given to another one meanwhile.
    pub(super) fn pause(&self) {
        self.0.place.offer();
    }

    /// The client goes on, and the place is kept while a request or its answer is under way; `false` where it
    /// was lost a moment before.
    pub(super) fn go_on(&self) -> bool {
        self.waits_for_head() || self.0.place.keep()
    }

    /// Notes that all bytes were sent. `true` where that ends an answer: the connection waits for a head
    /// again.
    pub(super) fn all_is_sent(&self) -> bool {
        let ends = self.is_at(ExchangeStage::Flush);
        if ends {
            self.0.lines.store(0, Ordering::Relaxed);
            self.go_to(ExchangeStage::Head);
            self.0.place.offer();
        }
        ends
    }

    /// Whether the connection is idle, or its head is not whole.
    pub(super) fn waits_for_head(&self) -> bool {
        self.is_at(ExchangeStage::Head)
    }

    /// Whether the client of a write that was read at this moment is in doubt.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt_of_client() != ClientDoubt::None
    }

    /// The write under way, whose last byte is read at this moment.
    pub(super) fn whole_write(&self) -> WholeWrite {
        WholeWrite::new(Arc::clone(&self.0.pulse))
    }

    /// The doubt at this moment, or when the write began where that is greater and not long ago.
    fn doubt_of_client(&self) -> ClientDoubt {
        let begun_in = *self.0.begun_in.lock();
        let counts = begun_in.filter(|(_, until)| Instant::now() < *until);
        counts.map_or(ClientDoubt::None, |(doubt, _)| doubt).max(self.0.pulse.doubt())
    }

    /// Returns when the transport has looked at the client of a write that did not begin. It ends the
    /// connection of one that has gone, and this future with it. It looks in the same turn of the
    /// connection's task, which has to be the one that waits.
    pub(super) async fn look(self) {
        // The end of the client's side may be an event behind that of its last bytes. A flush that waits for
        // the client of an earlier answer keeps the transport from looking: it is asked again, without haste.
        tokio::time::sleep(LOOK_AFTER).await;
        self.0.look.store(ClientLook::Asked as u8, Ordering::Release);
        while self.0.look.load(Ordering::Acquire) != ClientLook::Done as u8 {
            tokio::time::sleep(LOOK_AFTER).await;
        }
    }

    /// Whether a write asks whether its client is there, and what is in doubt.
    pub(super) fn doubt(&self) -> ClientDoubt {
        if self.0.look.load(Ordering::Acquire) != ClientLook::Asked as u8 {
            return ClientDoubt::None;
        }
        self.doubt_of_client()
    }

    /// The client of a write that asks is there.
    pub(super) fn client_is_there(&self) {
        let (asked, done) = (ClientLook::Asked as u8, ClientLook::Done as u8);
        let _not_asked = self.0.look.compare_exchange(asked, done, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether a read is worked on that ends when its client goes.
    pub(super) fn ends_with_client(&self) -> bool {
        self.is_at(ExchangeStage::Read)
    }
}

#[derive(Debug)]
pub(super) struct AnswerBody<B> {
    body: B,
    exchange: Exchange,
    count: Option<AnswerCount>,
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        self.exchange.go_to(ExchangeStage::Flush);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(count) = &mut self.count {
            count.count(frame.as_ref());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use http_body_util::Full;

    use super::*;
    use sherd_core::sender::SenderNetwork;
    use sherd_net::tls::ConnectionPlaces;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn pulse() -> Arc<ProcessPulse> {
        Arc::new(ProcessPulse::new())
    }

    fn request(method: Method, body: &'static str) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri("/").header("host", "a").header("x", "y");
        request.body(Full::from(body)).expect("a valid request")
    }

    #[test]
    fn only_a_read_with_nothing_behind_it_ends_with_its_client() {
        let head: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n\r\n";
        let two = [head, head].concat();
        for (pieces, request, ends) in [
            (vec![head], request(Method::GET, ""), true),
            (vec![head], request(Method::HEAD, ""), true),
            (vec![&head[..20], &head[20..]], request(Method::GET, ""), true),
            (vec![&two], request(Method::GET, ""), false),
            (vec![&two[..head.len() + 3]], request(Method::GET, ""), false),
            (vec![], request(Method::GET, ""), false),
            (vec![head], request(Method::GET, "body"), false),
            (vec![head], request(Method::PUT, ""), false),
            (vec![head], request(Method::DELETE, ""), false),
        ] {
            let exchange = Exchange::new(ConnectionPlaces::new(1).take(LOCAL), pulse());
            for piece in &pieces {
                exchange.read_of_head(piece);
            }
            assert!(exchange.begin(&request, !matches!(*request.method(), Method::GET | Method::HEAD)));
            assert_eq!(exchange.ends_with_client(), ends, "{pieces:?} {request:?}");
        }
    }

    #[test]
    fn a_place_is_kept_until_the_last_byte_of_the_answer_went_out() {
        let places = ConnectionPlaces::new(1);
        let exchange = Exchange::new(places.take(LOCAL), pulse());
        assert!(exchange.waits_for_head() && exchange.begin(&request(Method::GET, ""), false));
        let answer = exchange.answer(Full::<Bytes>::from("text"), None);
        assert!(!exchange.all_is_sent(), "its body is not read");
        drop(answer);
        let kept = places.take(LOCAL);
        assert_eq!(kept.taken_from(), None);
        drop(kept);
        assert!(exchange.all_is_sent() && exchange.waits_for_head());
        assert_eq!(places.take(LOCAL).taken_from(), Some(SenderNetwork::of(LOCAL)));
        assert!(!exchange.begin(&request(Method::GET, ""), false), "its place is another's");
    }
}
