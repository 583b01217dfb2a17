//! Handshakes of a listener that speaks TLS: within a time, within a number, and logged where they fail.
//!
//! A client that connects and sends nothing costs a place, and [`ConnectionPlaces`] gives it to another when
//! all are taken. A client that speaks HTTP in clear gets an answer in clear.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client_stream::TimedStream;
use sherd_net::tls::limits::ACCEPT_TIMEOUT;
use sherd_net::tls::{ClientRefusal, ConnectionPlaces, RefusalLog, ServedCertificate, ServedStream};

/// The answer to a client that speaks HTTP in clear.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 38\r\n\
    Connection: close\r\n\r\nthis port speaks TLS: ask by https://\n";

#[derive(Debug)]
pub(super) struct Handshakes {
    certificate: ServedCertificate,
    places: ConnectionPlaces,
    refusals: RefusalLog,
}

impl Handshakes {
    pub(super) fn new(certificate: ServedCertificate, places: ConnectionPlaces) -> Self {
        Self { certificate, places, refusals: RefusalLog::default() }
    }

    /// Does the server's side of a handshake; `None` where it fails, which is logged.
    pub(super) async fn accept(
        &self,
        stream: TimedStream<TcpStream>,
        from: SocketAddr,
    ) -> Option<ServedStream<TimedStream<TcpStream>>> {
        let place = self.places.take(from.ip());
        // Cancel-safe: a handshake that is dropped closes its socket.
        let accepted = tokio::select! {
            biased;
            () = place.lost() => Err(ClientRefusal::GaveWay),
            accepted = timeout(ACCEPT_TIMEOUT, self.shake(stream)) => accepted.unwrap_or(Err(ClientRefusal::TimedOut)),
        };
        accepted.inspect_err(|refusal| self.refusals.log_client(from, refusal)).ok()
    }

    async fn shake(
        &self,
        mut stream: TimedStream<TcpStream>,
    ) -> Result<ServedStream<TimedStream<TcpStream>>, ClientRefusal> {
        let mut first = [0];
        match stream.socket().peek(&mut first).await.map_err(ClientRefusal::from_io)? {
            0 => return Err(ClientRefusal::Closed),
            // A record of TLS begins with 22, a request with the letter of a method.
            _ if first[0].is_ascii_uppercase() => {
                stream.linger_at_close();
                // The alert reaches the client only if it still reads.
                let _told = stream.write_all(PLAIN_ANSWER).await;
                let _closed = stream.shutdown().await;
                return Err(ClientRefusal::PlainHttp);
            }
            _ => {}
        }
        let accepted = self.certificate.accept(stream).await;
        accepted.map_err(ClientRefusal::from_io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_clear_is_as_long_as_it_says() {
        let text = std::str::from_utf8(PLAIN_ANSWER).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
