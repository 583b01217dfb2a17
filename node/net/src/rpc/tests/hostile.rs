//! Peers that send or take the bytes of shards wrongly: each is refused by name, what it wrote is removed,
//! and nothing is held for it.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::{Code, Status};

use sherd_core::checksum::{BlockHasher, ShardDigest};
use sherd_core::record::Home;
use sherd_proto::convert::Wire;
use sherd_proto::convert::shard::digest_to_wire;
use sherd_proto::convert::value::VolumeAddress;
use sherd_proto::frame::{self, FrameReader};
use sherd_proto::limits::{SHARD_FRAME_BYTES_MAX, TIMEOUT_MS_MAX};
use sherd_proto::v1::write_shard::{Begin, Finish, Step};
use sherd_proto::v1::{ReadShard, ShardBytes, WriteReply, WriteShard, write_reply};

use super::shards::{BYTES, abandoned, begun_again, header, range, removed, shard};
use super::{Pair, identity, target};
use crate::tls::Role;
use crate::wire::limits::RESETS_MAX;
use crate::wire::messages::{BodyPart, MessageBody, READ_PATH, WRITE_PATH};
use sherd_store::peer::{Peer as _, ShardPeer as _};
use sherd_store::testing::{DEADLINE, body};

/// The stream of a writer that keeps no rules.
struct RawWriter {
    body: Option<mpsc::UnboundedSender<Bytes>>,
    answer: tokio::task::JoinHandle<Result<Vec<write_reply::Reply>, Status>>,
}

impl RawWriter {
    /// Begins shard `n`, which is to have [`BYTES`].
    fn begin(pair: &Pair, n: u64) -> Self {
        let (body, buffers) = mpsc::unbounded_channel();
        let buffers = futures::stream::unfold(buffers, |mut buffers: mpsc::UnboundedReceiver<Bytes>| async {
            let buffer = buffers.recv().await?;
            Some((Ok::<_, Status>(Frame::data(buffer)), buffers))
        });
        let mut connection = pair.link.connection_for_tests().expect("it is connected");
        let opened = connection.ask(WRITE_PATH, Body::new(StreamBody::new(buffers.boxed())));
        let answer = pair.tasks.spawn(async {
            let mut replies =
                MessageBody::of_answer(opened.await.expect("an answer"), FrameReader::of_messages())?;
            let mut read = Vec::new();
            while let Some(next) = replies.next::<WriteReply>().await? {
                let BodyPart::Message(WriteReply { reply: Some(reply) }) = next else { panic!("no reply") };
                read.push(reply);
            }
            replies.ended_well().map(|()| read)
        });
        let writer = Self { body: Some(body), answer };
        writer.step(Step::Begin(Begin {
            sender: Some(pair.link.sender()),
            to: Some(VolumeAddress { volume: pair.volume, life: None, request: 0 }.to_wire()),
            target: Some(target("k").to_wire()),
            file: Some(header(n).to_wire()),
            replace: false,
        }));
        writer
    }

    fn step(&self, step: Step) {
        self.raw(frame::message(&WriteShard { step: Some(step) }));
    }

    fn raw(&self, buffer: Bytes) {
        // A stream that has ended takes no more.
        drop(self.body.as_ref().expect("it goes on").send(buffer));
    }

    fn bytes(&self, bytes: &Bytes) {
        for piece in bytes.chunks(SHARD_FRAME_BYTES_MAX) {
            self.step(Step::Bytes(Bytes::copy_from_slice(piece)));
        }
    }

    async fn ended(self) -> Result<Vec<write_reply::Reply>, Status> {
        tokio::time::timeout(DEADLINE, self.answer).await.expect("it is answered").expect("no panic")
    }
}

/// The text of the failure that a stream ends with.
fn told(replies: Result<Vec<write_reply::Reply>, Status>) -> String {
    match replies.expect("a reply").pop() {
        Some(write_reply::Reply::Failure(failed)) => format!("{failed:?}"),
        other => panic!("no failure: {other:?}"),
    }
}

/// Nothing is left of a writer, and another one writes the same shard.
async fn is_well(pair: &Pair, n: u64) {
    removed(pair).await;
    pair.until("nothing is held", || pair.node.held_bytes() == 0).await;
    begun_again(pair, n, body(n, BYTES)).await.finish().await.expect("durable");
    pair.peer.delete_shard(pair.volume, shard(n), Home::File).await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_stands_still_amid_bytes_loses_its_stream() {
    let pair = Pair::of_stall(Duration::from_millis(500)).await;
    let writer = RawWriter::begin(&pair, 1);
    writer.raw(frame::bytes_head(SHARD_FRAME_BYTES_MAX));
    writer.raw(body(1, SHARD_FRAME_BYTES_MAX / 2));
    let refused = writer.ended().await.expect_err("refused");
    assert_eq!(refused.code(), Code::DeadlineExceeded);
    assert!(refused.message().contains("no byte of the shard moved"), "{refused:?}");
    assert_eq!(abandoned(&pair), [shard(1).data], "the sweep looks after the rest of it");
    is_well(&pair, 1).await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_cut_or_no_body_of_messages_is_refused_by_name() {
    let pair = Pair::new().await;
    let half = body(2, 1000);
    let cases: [(&str, Vec<Bytes>); 4] = [
        ("in the middle of a message", vec![frame::bytes_head(2000), half.clone()]),
        (
            "1048577 bytes, and 1048576 at most",
            vec![frame::message(&WriteShard { step: Some(Step::Bytes(body(2, SHARD_FRAME_BYTES_MAX + 1))) })],
        ),
        ("compressed (flag 1)", vec![Bytes::from_static(&[1, 0, 0, 0, 0])]),
        ("4294967295 bytes", vec![Bytes::from_static(&[0, 255, 255, 255, 255, 0x12])]),
    ];
    for (name, buffers) in cases {
        let mut writer = RawWriter::begin(&pair, 2);
        for buffer in buffers {
            writer.raw(buffer);
        }
        writer.body = None;
        let refused = writer.ended().await.expect_err("refused");
        assert_eq!(refused.code(), Code::InvalidArgument, "{name}");
        assert!(refused.message().contains(name), "{name}: {refused:?}");
        is_well(&pair, 2).await;
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_and_more_bytes_than_begun_are_no_shard() {
    let pair = Pair::new().await;
    let short = RawWriter::begin(&pair, 3);
    short.bytes(&body(3, BYTES - 1));
    short.step(Step::Finish(Finish::default()));
    let refused = told(short.ended().await);
    assert!(refused.contains(&format!("{} bytes came, not {BYTES}", BYTES - 1)), "{refused}");
    is_well(&pair, 3).await;
    let long = RawWriter::begin(&pair, 3);
    long.bytes(&body(3, BYTES + 1));
    let refused = told(long.ended().await);
    assert!(refused.contains(&format!("{} bytes came, not {BYTES}", BYTES + 1)), "{refused}");
    is_well(&pair, 3).await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_with_another_digest_than_they_left_with_are_no_shard() {
    let pair = Pair::new().await;
    let bytes = body(4, BYTES);
    let mut hasher = BlockHasher::new();
    hasher.update(&bytes);
    let right = ShardDigest::of(&hasher.finish());
    let mut changed = bytes.to_vec();
    changed[BYTES / 2] ^= 1;
    let writer = RawWriter::begin(&pair, 4);
    writer.bytes(&changed.into());
    writer.step(Step::Finish(digest_to_wire(right)));
    let refused = told(writer.ended().await);
    assert!(refused.contains("another digest"), "{refused}");
    is_well(&pair, 4).await;
    let writer = RawWriter::begin(&pair, 4);
    writer.bytes(&bytes);
    writer.step(Step::Finish(Finish { digest: Bytes::from_static(&[1; 31]) }));
    let refused = told(writer.ended().await);
    assert!(refused.contains("bytes of a digest"), "{refused}");
    is_well(&pair, 4).await;
    // A node of an earlier build names none.
    let writer = RawWriter::begin(&pair, 4);
    writer.bytes(&bytes);
    writer.step(Step::Finish(Finish::default()));
    let stored = writer.ended().await.expect("it is stored");
    assert!(matches!(stored.last(), Some(write_reply::Reply::Life(_))), "{stored:?}");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_takes_nothing_loses_its_bytes() {
    let pair = Pair::of_stall(Duration::from_millis(500)).await;
    let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(5), false);
    sink.append(vec![body(5, BYTES)]).await.expect("appended");
    sink.finish().await.expect("durable");
    pair.until("nothing is held", || pair.node.held_bytes() == 0).await;
    let request = ReadShard {
        sender: Some(pair.link.sender()),
        to: Some(VolumeAddress { volume: pair.volume, life: None, request: 0 }.to_wire()),
        timeout_ms: TIMEOUT_MS_MAX,
        range: Some(range(5, Home::File, BYTES).to_wire()),
    };
    let asked = http_body_util::Full::new(frame::message(&request)).map_err(|never| match never {});
    let mut connection = pair.link.connection_for_tests().expect("it is connected");
    let answer = connection.ask(READ_PATH, Body::new(asked)).await.expect("an answer");
    // Three messages of 256 KiB are with HTTP/2, beside a window of them.
    let kept = (2 << 20) + (4 << 18);
    pair.until("the others are given up", || pair.node.held_bytes() <= kept).await;
    let mut parts = MessageBody::of_answer(answer, FrameReader::of_bytes()).expect("bytes");
    let (mut count, mut ended) = (0, Ok(()));
    while let Some(part) = parts.next::<ShardBytes>().await.unwrap_or_else(|status| {
        ended = Err(status);
        None
    }) {
        count += if let BodyPart::Bytes(bytes) = part { bytes.len() } else { 0 };
    }
    assert!(count < BYTES, "{count} bytes were on their way");
    let refused = ended.and_then(|()| parts.ended_well()).expect_err("not the whole range");
    assert!(refused.message().contains("reads too slowly"), "{refused:?}");
    pair.until("nothing is held", || pair.node.held_bytes() == 0).await;
    pair.close().await;
}

/// A node may have a volume that hangs beside one that is well, and both are written over one connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_ahead_of_a_hung_volume_leave_others_the_connection() {
    let pair = Pair::new().await;
    let hung = pair.hang_writes();
    let mut sinks = Vec::new();
    let mut owed = Vec::new();
    for n in 0..30 {
        let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(100 + n), false);
        owed.extend((0..4).map(|_| sink.append(vec![body(n, 256 << 10)])));
        sinks.push(sink);
    }
    pair.until("bytes wait for the volume", || pair.node.held_bytes() > 0).await;
    // Bytes for another volume go over the same connection. The node has no such volume, and refuses them.
    let other = sherd_core::id::VolumeId([9; 16]);
    let answered = tokio::time::timeout(DEADLINE, async {
        for n in 0..40 {
            let put = pair.peer.put_shard(other, shard(n), &target("k"), vec![body(n, 200 << 10)]).await;
            let refused = super::reason(put);
            assert!(refused.contains("not on this node"), "{refused}");
        }
    });
    answered.await.expect("the connection has room");
    drop((sinks, owed, hung));
    pair.close().await;
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// A frame of HTTP/2: its type, flags, stream and payload.
fn h2_frame([kind, flags]: [u8; 2], stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A peer may make its node answer by resets, as many as it likes, and read none of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_sends_bytes_of_streams_that_ended_loses_its_connection() {
    let pair = Pair::new().await;
    let trust = pair.authorities.trust("n1", Role::Node);
    let at = pair.served_at.to_string();
    let mut stream = trust.connect(&at, &identity("n2", Role::Node)).await.expect("it is trusted");
    let resets_max = u32::try_from(RESETS_MAX).expect("few");
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(h2_frame([SETTINGS, 0], 0, &[]));
    // Streams before a stream that was opened have ended. POST, https, /.
    sent.extend(h2_frame([HEADERS, 5], 2 * resets_max + 3, &[0x83, 0x87, 0x84]));
    let (mut resets, mut asked) = (0, 0);
    let ended = loop {
        if resets == asked {
            // Not all at once: a ping is to be answered in time.
            for id in (asked..=resets_max).take(4096) {
                sent.extend(h2_frame([DATA, 0], 2 * id + 1, &[]));
                asked += 1;
            }
        }
        stream.write_all(&std::mem::take(&mut sent)).await.expect("it is read");
        stream.flush().await.expect("it is read");
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("the connection is there");
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).await.expect("a whole frame");
        match (head[3], head[4]) {
            (RST_STREAM, _) => resets += 1,
            (PING, 0) => sent.extend(h2_frame([PING, 1], 0, &payload)),
            (GOAWAY, _) => break payload,
            _ => {}
        }
    };
    assert!(ended.ends_with(b"too_many_internal_resets"), "{ended:?}");
    assert!(resets <= resets_max, "{resets}");
    pair.close().await;
}
