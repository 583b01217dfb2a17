//! Handshakes of a listener that speaks TLS: within a time, within a number, and logged where they fail.
//!
//! A client that connects and says nothing costs a place. When all places are taken the oldest handshake gives way to
//! the newest, so silent clients never keep others waiting; an honest handshake takes two round trips and is
//! seldom the oldest of a thousand. A client that speaks HTTP in clear is told so in clear.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::patient::TimedStream;
use crate::trust::limits::ACCEPT_TIMEOUT;
use crate::trust::{ClientRefusal, RefusalLog, ServedCertificate};

/// Handshakes under way at one time: with their buffers 32 MiB.
const HANDSHAKES_MAX: usize = 1024;
/// What a client is told that speaks HTTP in clear.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 38\r\n\
    Connection: close\r\n\r\nthis port speaks TLS: ask by https://\n";

/// Turns connections into TLS of one certificate.
#[derive(Debug)]
pub(super) struct Handshakes {
    certificate: ServedCertificate,
    places: HandshakePlaces,
    refusals: RefusalLog,
}

impl Handshakes {
    /// `connections_max` is that of the listener: half of its places are never taken by handshakes.
    pub(super) fn new(certificate: ServedCertificate, connections_max: usize) -> Self {
        let places = HandshakePlaces::new((connections_max / 2).clamp(1, HANDSHAKES_MAX));
        Self { certificate, places, refusals: RefusalLog::default() }
    }

    /// Does the server's side of a handshake; `None` where it fails, which is logged.
    pub(super) async fn accept(
        &self,
        stream: TimedStream<TcpStream>,
        from: SocketAddr,
    ) -> Option<TlsStream<TimedStream<TcpStream>>> {
        let place = self.places.enter();
        // Cancel-safe: a handshake that is dropped closes its socket.
        let accepted = tokio::select! {
            biased;
            () = place.gave_way.cancelled() => Err(ClientRefusal::GaveWay),
            accepted = timeout(ACCEPT_TIMEOUT, self.shake(stream)) => accepted.unwrap_or(Err(ClientRefusal::TimedOut)),
        };
        accepted.inspect_err(|refusal| self.refusals.log_client(from, refusal)).ok()
    }

    async fn shake(
        &self,
        mut stream: TimedStream<TcpStream>,
    ) -> Result<TlsStream<TimedStream<TcpStream>>, ClientRefusal> {
        let mut first = [0];
        match stream.socket().peek(&mut first).await.map_err(ClientRefusal::from_io)? {
            0 => return Err(ClientRefusal::Closed),
            // A record of TLS begins with 22, a request with the letter of a method.
            _ if first[0].is_ascii_uppercase() => {
                stream.linger_at_close();
                // The client is told as far as it listens.
                let _told = stream.write_all(PLAIN_ANSWER).await;
                let _closed = stream.shutdown().await;
                return Err(ClientRefusal::PlainHttp);
            }
            _ => {}
        }
        let accepted = TlsAcceptor::from(self.certificate.config()).accept(stream).await;
        accepted.map_err(ClientRefusal::from_io)
    }
}

/// Places for handshakes.
#[derive(Debug)]
struct HandshakePlaces {
    max: usize,
    state: Mutex<PlacesState>,
}

#[derive(Debug, Default)]
struct PlacesState {
    next: u64,
    /// In the order in which they came.
    under_way: BTreeMap<u64, CancellationToken>,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
struct HandshakePlace<'a> {
    places: &'a HandshakePlaces,
    number: u64,
    /// Cancelled when a newer handshake took the place.
    gave_way: CancellationToken,
}

impl HandshakePlaces {
    fn new(max: usize) -> Self {
        Self { max, state: Mutex::default() }
    }

    /// Takes a place, from the oldest handshake where none is free.
    fn enter(&self) -> HandshakePlace<'_> {
        let mut state = self.state.lock();
        if state.under_way.len() >= self.max
            && let Some((_, oldest)) = state.under_way.pop_first()
        {
            oldest.cancel();
        }
        let (number, gave_way) = (state.next, CancellationToken::new());
        state.next += 1;
        state.under_way.insert(number, gave_way.clone());
        HandshakePlace { places: self, number, gave_way }
    }
}

impl Drop for HandshakePlace<'_> {
    fn drop(&mut self) {
        self.places.state.lock().under_way.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_free_place_the_oldest_handshake_gives_way() {
        let places = HandshakePlaces::new(2);
        let (first, second) = (places.enter(), places.enter());
        assert!(!first.gave_way.is_cancelled() && !second.gave_way.is_cancelled());
        let third = places.enter();
        assert!(first.gave_way.is_cancelled() && !second.gave_way.is_cancelled());
        drop(first);
        assert_eq!(places.state.lock().under_way.len(), 2, "its place is another's");
        drop(second);
        let fourth = places.enter();
        assert!(!third.gave_way.is_cancelled(), "a place was free");
        drop((third, fourth));
        assert!(places.state.lock().under_way.is_empty());
    }

    #[test]
    fn the_answer_in_clear_is_as_long_as_it_says() {
        let text = std::str::from_utf8(PLAIN_ANSWER).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
