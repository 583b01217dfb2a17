//! A TCP relay between two nodes: it forwards bytes, records them where asked to, and can harm the link.
//!
//! A relay stands for one direction of dialling: `n1` reaches `n2` through one, `n2` reaches `n1` through
//! another, so that one of the two can be harmed alone. A link that is cut ends its connections at once and
//! every new one as soon as it is made, as a host does that is there and whose port is closed. One that is
//! held keeps its connections and lets no byte through in one direction or both, as a network does that loses
//! packets; what was held goes on when it is mended. Recorded bytes are searched for texts that must not be
//! on the wire.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Bytes that a relay keeps of all its connections: more than any story sends.
const RECORDED_BYTES_MAX: usize = 256 << 20;
/// Reads of one direction that may be under way, delayed: a story sends few at a time.
const DELAYED_READS_MAX: usize = 1024;
/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Bytes of a needle: no encrypted bytes happen to be the same.
pub(crate) const NEEDLE_BYTES: usize = 16;

/// A link's treatment of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// Forwards all bytes.
    Open,
    /// Ends all connections, and those to come.
    Cut,
    /// Keeps back the bytes of one side.
    Held(Way),
    /// Keeps back the bytes of both sides.
    Silent,
    /// Forwards all bytes after this delay.
    Slow(Duration),
}

/// A direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the dialler.
    Requests,
    /// To the dialler.
    Replies,
}

impl Link {
    /// Whether bytes of a direction stay where they are.
    fn holds(self, way: Way) -> bool {
        match self {
            Self::Held(held) => held == way,
            Self::Silent => true,
            Self::Open | Self::Cut | Self::Slow(_) => false,
        }
    }

    const fn delay(self) -> Duration {
        match self {
            Self::Slow(delay) => delay,
            Self::Open | Self::Cut | Self::Held(_) | Self::Silent => Duration::ZERO,
        }
    }
}

/// A relay to one address; it ends with the value.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    link: watch::Sender<Link>,
    records: bool,
    /// The bytes that went through, one text for each direction of each connection.
    recorded: Mutex<Vec<Vec<u8>>>,
}

impl Relay {
    /// Starts a relay to `target`, which need not listen yet, that records what passes or does not.
    pub(crate) async fn start(target: SocketAddr, records: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (link, recorded) = (watch::Sender::new(Link::Open), Mutex::default());
        let shared = Arc::new(Shared { target, link, records, recorded });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _tasks: tasks }
    }

    /// Has the link be like that from here on.
    pub(crate) fn set(&self, link: Link) {
        self.shared.link.send_replace(link);
    }

    /// Ends all connections, and those to come.
    pub(crate) fn cut(&self) {
        self.set(Link::Cut);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.set(Link::Open);
    }

    /// Lets bytes take so much longer, in each direction; their order stays.
    pub(crate) fn delay(&self, delay: Duration) {
        self.set(Link::Slow(delay));
    }

    /// How many bytes went through.
    pub(crate) fn bytes(&self) -> usize {
        self.recorded().iter().map(Vec::len).sum()
    }

    /// How many pieces of `text` went through: pieces of [`NEEDLE_BYTES`], one from each `step` bytes.
    pub(crate) fn pieces_of(&self, text: &[u8], step: usize) -> usize {
        let needles = needles(text, step);
        self.recorded().iter().map(|recorded| count(recorded, &needles)).sum()
    }

    fn recorded(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.shared.recorded.lock().expect("no relay panics while it records")
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        connections.spawn(connection(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards both directions until either ends or the link is cut; dropping the streams ends them.
async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let mut link = shared.link.subscribe();
    if *link.borrow_and_update() == Link::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(shared.target).await else { return };
    for stream in [&client, &server] {
        // Small calls must not wait for more bytes; without the option they are slower.
        let _slower = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Cancel-safe: a cut drops both directions with the bytes under way, as it should.
    tokio::select! {
        biased;
        _ = link.wait_for(|link| *link == Link::Cut) => {}
        () = forward(Way::Requests, from_client, to_server, &shared) => {}
        () = forward(Way::Replies, from_server, to_client, &shared) => {}
    }
}

async fn forward(
    way: Way,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    shared: &Shared,
) {
    let mut link = shared.link.subscribe();
    let index = {
        let mut recorded = shared.recorded.lock().expect("no relay panics while it records");
        recorded.push(Vec::new());
        recorded.len() - 1
    };
    // Delayed bytes wait between the two, so that more can follow them.
    let (arrived, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(DELAYED_READS_MAX);
    let delay = || shared.link.borrow().delay();
    let read = async {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = from.read(&mut buffer).await.unwrap_or(0);
            let at = Instant::now() + delay();
            if count == 0 || arrived.send((at, buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            // The sender of changes lives as long as the connection.
            drop(link.wait_for(|link| !link.holds(way)).await);
            if to.write_all(&bytes).await.is_err() {
                return;
            }
            if shared.records {
                let mut recorded = shared.recorded.lock().expect("no relay panics while it records");
                let all: usize = recorded.iter().map(Vec::len).sum();
                assert!(all < RECORDED_BYTES_MAX, "a relay records one story");
                recorded[index].extend_from_slice(&bytes);
            }
        }
    };
    // Cancel-safe: what the first that ends leaves over is dropped with the connection.
    tokio::select! {
        biased;
        () = read => {}
        () = write => {}
    }
}

/// Pieces of a text, by their first two bytes.
fn needles(text: &[u8], step: usize) -> HashMap<[u8; 2], Vec<[u8; NEEDLE_BYTES]>> {
    let mut needles: HashMap<_, Vec<_>> = HashMap::new();
    for at in (0..=text.len().saturating_sub(NEEDLE_BYTES)).step_by(step) {
        let needle: [u8; NEEDLE_BYTES] = text[at..at + NEEDLE_BYTES].try_into().expect("as long as that");
        needles.entry([needle[0], needle[1]]).or_default().push(needle);
    }
    needles
}

/// How many needles stand in a text.
fn count(text: &[u8], needles: &HashMap<[u8; 2], Vec<[u8; NEEDLE_BYTES]>>) -> usize {
    let mut wanted = vec![false; 1 << 16];
    for first in needles.keys() {
        wanted[usize::from(u16::from_le_bytes(*first))] = true;
    }
    let windows = text.windows(NEEDLE_BYTES);
    let candidates = windows.filter(|window| wanted[usize::from(u16::from_le_bytes([window[0], window[1]]))]);
    candidates.filter(|window| needles[&[window[0], window[1]]].iter().any(|needle| needle == window)).count()
}

#[tokio::test]
async fn a_relay_forwards_records_and_cuts() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let relay = Relay::start(server.local_addr().expect("bound"), true).await;
    let text: Vec<u8> =
        (0..4096_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut client = TcpStream::connect(relay.address).await.expect("the relay listens");
    let (mut peer, _) = server.accept().await.expect("the relay dials");
    client.write_all(&text).await.expect("it is forwarded");
    let mut received = vec![0; text.len()];
    peer.read_exact(&mut received).await.expect("it is forwarded");
    assert_eq!(received, text);
    // The peer's answer passes after its request was recorded.
    peer.write_all(b"seen").await.expect("it is forwarded");
    client.read_exact(&mut received[..4]).await.expect("it is forwarded");
    assert!(relay.bytes() >= text.len());
    assert_eq!(relay.pieces_of(&text, 1024), text.len().div_ceil(1024));
    assert_eq!(relay.pieces_of(&vec![7; 4096], 1024), 0);

    relay.cut();
    assert_eq!(client.read(&mut received).await.unwrap_or(0), 0, "the connection ends");
    let mut refused = TcpStream::connect(relay.address).await.expect("the relay listens");
    assert_eq!(refused.read(&mut received).await.unwrap_or(0), 0, "so does a new one");
    relay.mend();
    let mut client = TcpStream::connect(relay.address).await.expect("the relay listens");
    client.write_all(b"again").await.expect("it is forwarded");
    let (mut peer, _) = server.accept().await.expect("the relay dials");
    peer.read_exact(&mut received[..5]).await.expect("it is forwarded");
    assert_eq!(&received[..5], b"again");
}

#[tokio::test]
async fn a_link_that_is_held_keeps_what_one_side_sends_until_it_is_mended() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let relay = Relay::start(server.local_addr().expect("bound"), false).await;
    let mut client = TcpStream::connect(relay.address).await.expect("the relay listens");
    let (mut peer, _) = server.accept().await.expect("the relay dials");
    relay.set(Link::Held(Way::Requests));
    client.write_all(b"held").await.expect("the connection is there");
    // The answer passes, and shows that the other direction had its time.
    peer.write_all(b"passes").await.expect("it is forwarded");
    let mut received = [0; 6];
    client.read_exact(&mut received).await.expect("it is forwarded");
    assert_eq!(&received, b"passes");
    assert!(peer.try_read(&mut received).is_err(), "nothing came through");
    relay.mend();
    peer.read_exact(&mut received[..4]).await.expect("it is forwarded at last");
    assert_eq!(&received[..4], b"held");
    assert_eq!(relay.bytes(), 0, "it does not record");
    relay.set(Link::Slow(Duration::from_millis(50)));
    let sent = std::time::Instant::now();
    client.write_all(b"late").await.expect("it is forwarded");
    peer.read_exact(&mut received[..4]).await.expect("it is forwarded");
    assert!(sent.elapsed() >= Duration::from_millis(50));
}
