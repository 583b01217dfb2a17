//! A recorder between a client and a server: it keeps every request and every answer of a test in a file.
//!
//! With `SHERD_RECORD=folder` each node or server of a test is reached through a relay that forwards bytes as
//! they are and appends them to `folder/<test binary>-<test>-<number>.rec`. `node/tests/replay` sends these
//! requests to two builds and compares what they answer. A file is a sequence of frames, in the order in
//! which things happened:
//!
//! ```text
//! <kind> <connection> <bytes>\n   start | stop | object | request | request-end | answer | answer-end
//! <payload>\n
//! ```

#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Bytes of one read, and of a frame at most.
const READ_BYTES: usize = 64 << 10;

/// The file of one node, or of one server, of a test.
#[derive(Debug)]
pub(crate) struct Recording {
    file: Mutex<File>,
    connections: AtomicU64,
}

/// How the server was started, as far as its answers depend on it.
#[derive(Debug)]
pub(crate) struct StartOptions<'a> {
    /// `dev`, `serve`, or `protocol` for the layer alone.
    pub(crate) how: &'static str,
    pub(crate) volume_count: usize,
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    /// Seconds since 1970 of the server's clock.
    pub(crate) clock_s: u64,
    /// Lines of its configuration.
    pub(crate) lines: &'a str,
}

impl Recording {
    /// A new recording of the test that runs on this thread; nothing unless recordings are asked for.
    pub(crate) fn of_this_test() -> Option<Arc<Self>> {
        let dir = PathBuf::from(std::env::var_os("SHERD_RECORD")?);
        fs::create_dir_all(&dir).expect("SHERD_RECORD names a folder that can be made");
        let binary = std::env::current_exe().expect("this process has a file");
        let binary = binary.file_stem().expect("a file has a name").to_string_lossy();
        // Cargo adds a hash to the name of a test binary.
        let suite = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
        let test = thread::current().name().unwrap_or("unnamed").replace("::", ".");
        let first_free = |number: &u32| !path(&dir, suite, &test, *number).exists();
        let number = (1..1000).find(first_free).expect("a free number");
        let file = File::create_new(path(&dir, suite, &test, number)).expect("a new file in SHERD_RECORD");
        Some(Arc::new(Self { file: Mutex::new(file), connections: AtomicU64::new(0) }))
    }

    /// Notes that a server started, on what the one before it in this recording left.
    pub(crate) fn started(&self, options: &StartOptions<'_>) {
        let StartOptions { how, volume_count, access_key, secret_key, clock_s, lines } = options;
        let text = format!(
            "how={how}\nvolumes={volume_count}\naccess_key={access_key}\nsecret_key={secret_key}\n\
             clock_s={clock_s}\n\n{lines}"
        );
        self.frame("start", 0, text.as_bytes());
    }

    /// Notes that the node ended: `stop` or `kill`.
    pub(crate) fn stopped(&self, how: &str) {
        self.frame("stop", 0, how.as_bytes());
    }

    /// Notes that an object was put there by no request.
    pub(crate) fn object(&self, bucket: &str, key: &str, body: &str) {
        self.frame("object", 0, format!("{bucket}\n{key}\n{body}").as_bytes());
    }

    fn frame(&self, kind: &str, connection: u64, payload: &[u8]) {
        let mut frame = format!("{kind} {connection} {}\n", payload.len()).into_bytes();
        frame.extend_from_slice(payload);
        frame.push(b'\n');
        let mut file = self.file.lock().expect("no relay panics while it records");
        file.write_all(&frame).expect("SHERD_RECORD has room");
    }
}

fn path(dir: &Path, suite: &str, test: &str, number: u32) -> PathBuf {
    dir.join(format!("{suite}-{test}-{number}.rec"))
}

/// A relay to one address; it ends with the value.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Starts a relay to `target` that appends to `recording`.
    pub(crate) async fn start(target: SocketAddr, recording: Arc<Recording>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                connections.spawn(relay(client, target, Arc::clone(&recording)));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, _tasks: tasks }
    }
}

/// Forwards both directions until both have ended, or the client has gone.
async fn relay(client: TcpStream, target: SocketAddr, recording: Arc<Recording>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    for stream in [&client, &server] {
        // Small pieces must not wait for more bytes; without the option they are slower.
        let _slower = stream.set_nodelay(true);
    }
    let connection = recording.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let answers = forward(from_server, to_client, |bytes| match bytes {
        Some(bytes) => recording.frame("answer", connection, bytes),
        None => recording.frame("answer-end", connection, &[]),
    });
    let requests = forward(from_client, to_server, |bytes| match bytes {
        Some(bytes) => recording.frame("request", connection, bytes),
        None => recording.frame("request-end", connection, &[]),
    });
    tokio::join!(answers, requests);
}

/// Forwards one direction to its end and passes the end on.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, note: impl Fn(Option<&[u8]>)) {
    let mut buffer = vec![0; READ_BYTES];
    // A peer that reads no more may still send: its bytes are read away, and the other direction goes on.
    let mut is_taken = true;
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            note(None);
            // The other end may have gone.
            drop(to.shutdown().await);
            return;
        }
        note(Some(&buffer[..count]));
        is_taken = is_taken && to.write_all(&buffer[..count]).await.is_ok();
    }
}

#[tokio::test]
async fn a_recorder_keeps_both_directions_and_passes_the_end_on() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let recording =
        Recording { file: Mutex::new(file.reopen().expect("it is there")), connections: 0.into() };
    let recorder = Recorder::start(server.local_addr().expect("bound"), Arc::new(recording)).await;
    let mut client = TcpStream::connect(recorder.address).await.expect("the recorder listens");
    let (mut peer, _) = server.accept().await.expect("the recorder dials");
    client.write_all(b"asked").await.expect("it is forwarded");
    client.shutdown().await.expect("the connection is open");
    let mut received = Vec::new();
    peer.read_to_end(&mut received).await.expect("the end is passed on");
    assert_eq!(received, b"asked");
    peer.write_all(b"answered").await.expect("the other direction is open");
    drop(peer);
    received.clear();
    client.read_to_end(&mut received).await.expect("the end is passed on");
    assert_eq!(received, b"answered");
    let frames = fs::read_to_string(file.path()).expect("text");
    assert_eq!(frames, "request 1 5\nasked\nrequest-end 1 0\n\nanswer 1 8\nanswered\nanswer-end 1 0\n\n");
}
