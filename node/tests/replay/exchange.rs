//! One request over one connection to one server, and what comes back.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::compare::Outcome;
use crate::message::{Answer, split_answer};

/// How long an answer may take: longer than a server waits for a body that stands still.
const DEADLINE: Duration = Duration::from_secs(100);
/// Bytes of a read at least.
const READ_BYTES: usize = 64 << 10;

/// A connection of the recording, made again to one server.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<(OwnedReadHalf, OwnedWriteHalf)>,
}

/// The bytes to send, and how.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The body is sent once the server asks for it.
    pub(crate) expects: bool,
    /// The sending half is closed behind the request.
    pub(crate) is_last: bool,
    /// The answer has no body.
    pub(crate) is_head: bool,
}

impl Connection {
    pub(crate) const fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Sends a request and reads its answer, over a new connection where the last one has ended.
    pub(crate) async fn exchange(&mut self, sending: &Sending<'_>) -> Outcome {
        let (mut read, mut write) = if let Some(halves) = self.stream.take() {
            halves
        } else {
            let stream = TcpStream::connect(self.address).await.expect("the node listens");
            stream.set_nodelay(true).expect("the connection is open");
            stream.into_split()
        };
        let exchange = timeout(DEADLINE, exchange(sending, &mut read, &mut write));
        let (outcome, is_sent) = exchange.await.unwrap_or((Outcome::Silent, false));
        let goes_on = |answer: &Answer| {
            answer.is_whole
                && !answer.head.values("connection").any(|value| value.eq_ignore_ascii_case("close"))
        };
        if let Outcome::Answer(answer) = &outcome
            && is_sent
            && !sending.is_last
            && goes_on(answer)
        {
            self.stream = Some((read, write));
        }
        outcome
    }
}

/// Sends a request and reads what comes back; says also whether all of the request was sent.
async fn exchange(
    sending: &Sending<'_>,
    read: &mut OwnedReadHalf,
    write: &mut OwnedWriteHalf,
) -> (Outcome, bool) {
    let mut buffer = Vec::new();
    if sending.expects {
        // The end of a connection shows where its answer is read.
        drop(write.write_all(sending.head).await);
        let asks = |answer: &[u8]| {
            answer.starts_with(b"HTTP/1.1 1") && answer.windows(4).any(|end| end == b"\r\n\r\n")
        };
        while !asks(&buffer) {
            if let Some(outcome) = receive_some(read, &mut buffer, sending.is_head).await {
                return (outcome, false);
            }
        }
    }
    let send = async {
        let bytes = [if sending.expects { b"" } else { sending.head }, sending.body];
        // A server that has refused the request may read no more of it.
        let is_sent = write.write_all(&bytes.concat()).await.is_ok();
        if sending.is_last {
            drop(write.shutdown().await);
        }
        is_sent
    };
    let receive = async {
        loop {
            if let Some(outcome) = receive_some(read, &mut buffer, sending.is_head).await {
                return outcome;
            }
        }
    };
    tokio::pin!(receive);
    // Cancel-safe: an answer ends the exchange, and bytes that are not sent by then stay unsent.
    tokio::select! {
        biased;
        outcome = &mut receive => (outcome, false),
        is_sent = send => (receive.await, is_sent),
    }
}

/// Reads some more, and says what came of the exchange once it is over.
async fn receive_some(read: &mut OwnedReadHalf, buffer: &mut Vec<u8>, is_head: bool) -> Option<Outcome> {
    buffer.reserve(READ_BYTES);
    let is_ended = !read.read_buf(buffer).await.is_ok_and(|count| count > 0);
    match split_answer(buffer, is_head, is_ended) {
        Some((answer, _)) => Some(Outcome::Answer(Box::new(answer))),
        None if is_ended => Some(Outcome::Closed(buffer.clone())),
        None => None,
    }
}
