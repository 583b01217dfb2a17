//! A peer that answers wrongly where bytes of shards are read or written: the caller names what was wrong,
//! and takes none of it for bytes of the shard.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;

use sherd_core::id::{Epoch, VolumeId};
use sherd_core::record::Home;
use sherd_proto::frame;
use sherd_proto::v1::{Empty, WriteReply, write_reply};
use sherd_volume::options::Durability;

use super::super::shard_bytes::response;
use super::shards::{header, range};
use super::{Authorities, CLUSTER, identity, reason, target};
use crate::grpc::{GrpcPeer, Link, LinkConfig};
use crate::tls::Role;
use crate::wire::messages::{READ_PATH, WRITE_PATH};
use crate::wire::{ConnectionAge, TrackedExecutor};
use sherd_store::machine::system::SystemRng;
use sherd_store::observe::metrics::Metrics;
use sherd_store::peer::Peer as _;
use sherd_store::peer::remote::RemoteVolumes;
use sherd_store::testing::{DEADLINE, between_looks, body};

const VOLUME: VolumeId = VolumeId([3; 16]);
const ASKED: usize = 1000;

/// Answer of the peer where bytes are read or written.
type Lie = fn(Incoming) -> http::Response<Body>;

struct LyingPeer {
    peer: GrpcPeer,
    stop: CancellationToken,
    tasks: TaskTracker,
    _authorities: Authorities,
}

impl LyingPeer {
    async fn new(lie: Lie) -> Self {
        let (authorities, stop, tasks) = (Authorities::new(), CancellationToken::new(), TaskTracker::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (trust, connections) = (authorities.trust("n2", Role::Node), tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (trust, executor) = (trust.clone(), TrackedExecutor(connections.clone()));
                connections.spawn(async move {
                    let Ok(accepted) = trust.accept(stream).await else { return };
                    let answer = service_fn(move |request: http::Request<Incoming>| async move {
                        Ok::<_, Infallible>(match request.uri().path() {
                            READ_PATH | WRITE_PATH => lie(request.into_body()),
                            _ => response(stream::pending()),
                        })
                    });
                    let mut server = http2::Builder::new(executor);
                    server.timer(TokioTimer::new());
                    drop(server.serve_connection(TokioIo::new(accepted), answer).await);
                });
            }
        }));
        let config = LinkConfig {
            peer: identity("n2", Role::Node),
            address,
            cluster: CLUSTER,
            epoch: Some(Epoch::FIRST),
            age: ConnectionAge::of_at_most(Duration::from_hours(1)),
            metrics: Metrics::new(Durability::Fsync).link("n2"),
        };
        let own = authorities.trust("n1", Role::Node);
        let link = Link::start(config, &own, &(Arc::new(SystemRng) as _), &tasks, &stop);
        let up = async {
            while !link.is_up() {
                between_looks().await;
            }
        };
        tokio::time::timeout(DEADLINE, up).await.expect("it is connected");
        let peer = GrpcPeer::new(link, RemoteVolumes::default());
        Self { peer, stop, tasks, _authorities: authorities }
    }

    async fn close(self) {
        let Self { peer, stop, tasks, _authorities } = self;
        drop(peer);
        stop.cancel();
        tasks.close();
        tokio::time::timeout(DEADLINE, tasks.wait()).await.expect("every task ends");
    }
}

fn taken() -> Bytes {
    frame::message(&WriteReply { reply: Some(write_reply::Reply::Taken(Empty {})) })
}

fn buffers(buffers: Vec<Bytes>) -> http::Response<Body> {
    response(stream::iter(buffers.into_iter().map(Ok)))
}

/// An answer of these buffers, without a status behind them.
fn without_status(buffers: Vec<Bytes>) -> http::Response<Body> {
    let frames = buffers.into_iter().map(|buffer| Ok::<_, Status>(Frame::data(buffer)));
    http::Response::new(Body::new(StreamBody::new(stream::iter(frames))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_from_a_peer_that_lies_is_refused_by_name() {
    let cases: [(&str, Lie); 6] = [
        ("more bytes than were asked for", |_| {
            buffers(vec![frame::bytes_head(ASKED + 1), body(1, ASKED + 1)])
        }),
        ("the peer sent 999 bytes of 1000", |_| buffers(vec![frame::bytes_head(999), body(1, 999)])),
        ("in the middle of a message", |_| buffers(vec![frame::bytes_head(ASKED), body(1, 10)])),
        ("the answer has no status", |_| without_status(vec![frame::bytes_head(ASKED), body(1, ASKED)])),
        ("another volume", |_| Status::unavailable("another volume").into_http()),
        ("compressed (flag 7)", |_| buffers(vec![Bytes::from_static(&[7; 64])])),
    ];
    for (name, lie) in cases {
        let lying = LyingPeer::new(lie).await;
        let refused = reason(lying.peer.read_shard(VOLUME, range(1, Home::File, ASKED)).await);
        assert!(refused.contains(name), "{name}: {refused}");
        lying.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_a_peer_sends_one_by_one_are_read_as_few_pieces() {
    fn messages(lengths: impl Iterator<Item = usize>, total: usize) -> Vec<Bytes> {
        let mut left = body(1, total);
        lengths.flat_map(|length| [frame::bytes_head(length), left.split_to(length)]).collect()
    }
    const LONG: usize = 50_000;
    let cases: [(&str, usize, usize, Lie); 3] = [
        ("a frame each", ASKED, 1, |_| buffers(messages((0..ASKED).map(|_| 1), ASKED))),
        ("all in one frame", ASKED, 1, |_| {
            buffers(vec![messages((0..ASKED).map(|_| 1), ASKED).concat().into()])
        }),
        ("around long ones", 2 * LONG + 12, 5, |_| {
            let lengths = [1, 1, LONG, 1, 1, 1, 1, LONG, 1, 1, 1, 1, 1, 1];
            buffers(messages(lengths.into_iter(), 2 * LONG + 12))
        }),
    ];
    for (name, asked, pieces, lie) in cases {
        let lying = LyingPeer::new(lie).await;
        let read = lying.peer.read_shard(VOLUME, range(1, Home::File, asked)).await.expect("all came");
        assert_eq!(read.len(), pieces, "{name}");
        assert!(read.concat() == body(1, asked), "{name}");
        lying.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_a_peer_that_lies_fails_by_name() {
    let more: Lie = |_| buffers(vec![taken(); 3]);
    let cases: [(&str, Lie); 3] = [
        ("answers more than it was sent", more),
        ("failed to decode", |_| buffers(vec![frame::bytes_head(10), body(1, 10)])),
        ("the peer ended the stream", |_| buffers(vec![])),
    ];
    for (name, lie) in cases {
        let lying = LyingPeer::new(lie).await;
        let mut sink = lying.peer.create_shard(VOLUME, &target("k"), header(1), false);
        let mut failed = Ok(());
        while failed.is_ok() {
            failed = sink.append(vec![body(1, ASKED)]).await;
        }
        let refused = reason(failed);
        assert!(refused.contains(name), "{name}: {refused}");
        let after = reason(sink.append(vec![body(1, ASKED)]).await);
        assert!(after.contains("an earlier write of the shard failed"), "{after}");
        lying.close().await;
    }
}

/// Bytes that the peer's window has no room for stay here, as many as the peer says it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_a_peer_answers_before_they_left_end_the_stream() {
    // The peer reads `begin` and the first bytes, and then answers without reading.
    let lie: Lie = |mut body| {
        let answers = stream::once(async move {
            let mut read = 0;
            while read < 64 << 10 {
                let frame = body.frame().await.expect("bytes come").expect("they are whole");
                read += frame.data_ref().map_or(0, Bytes::len);
            }
            // The body is kept: one that is dropped would be reset.
            stream::unfold(body, async |body| Some((Ok(taken()), body)))
        });
        response(answers.flatten())
    };
    let lying = LyingPeer::new(lie).await;
    let mut sink = lying.peer.create_shard(VOLUME, &target("k"), header(1), false);
    let piece = body(1, 64 << 10);
    let pieces = || vec![piece.clone(); 64];
    let (mut appended, mut failed) = (0, Ok(()));
    while failed.is_ok() && appended < 4 {
        failed = sink.append(pieces()).await;
        appended += 1;
    }
    let refused = reason(failed);
    assert!(refused.contains("answers more than it was sent"), "{refused}");
    assert_eq!(appended, 1);
    let after = reason(sink.append(pieces()).await);
    assert!(after.contains("an earlier write of the shard failed"), "{after}");
    lying.close().await;
}
