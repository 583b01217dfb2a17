//! A peer that begins messages and ends none of them: what is held for it has a bound and a time, and the
//! other peers' calls go on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{StreamExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::{Code, Status};

use sherd_core::id::Epoch;
use sherd_core::message::ValueLimit;
use sherd_proto::frame::FrameReader;
use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::v1::WriteReply;

use super::super::limits::{CODEC_STREAM_BYTES, PEER_CODEC_BYTES_MAX, PUT_BYTES_MAX};
use super::shards::shard;
use super::{CLUSTER, Pair, identity, target};
use crate::grpc::{Link, LinkConfig};
use crate::tls::Role;
use crate::wire::ConnectionAge;
use crate::wire::messages::{MessageBody, PUT_PATH};
use sherd_store::machine::system::SystemRng;
use sherd_store::peer::{Peer as _, RegisterPeer as _};
use sherd_store::testing::{DEADLINE, body};

const CALLS: [&str; 3] =
    ["/sherd.v1.RegisterService/Calls", "/sherd.v1.ShardService/Calls", "/sherd.v1.UpkeepService/Calls"];

/// Another node than that of the pair's link, with a certificate.
struct Attacker {
    link: Link,
    name: String,
    streams: FuturesUnordered<JoinHandle<Status>>,
}

impl Attacker {
    async fn new(pair: &Pair) -> Self {
        let own = pair.authorities.trust("n3", Role::Node);
        let config = LinkConfig {
            peer: identity("n2", Role::Node),
            address: pair.served_at.to_string(),
            cluster: CLUSTER,
            epoch: Some(Epoch::FIRST),
            age: ConnectionAge::of_at_most(Duration::from_hours(1)),
            metrics: pair.metrics.link("attacked"),
        };
        let link = Link::start(config, &own, &(Arc::new(SystemRng) as _), &pair.tasks, &pair.stop);
        pair.until("the attacker is connected", || link.is_up()).await;
        let name = identity("n3", Role::Node).dns_name();
        Self { link, name, streams: FuturesUnordered::new() }
    }

    /// Announces a message, sends a part of it, and waits for the end of the stream.
    fn begin(&mut self, pair: &Pair, path: &'static str, announced: usize, sent: usize) {
        let length = u32::try_from(announced).expect("short").to_be_bytes();
        let begun = [Bytes::copy_from_slice(&[&[0], &length[..]].concat()), body(1, sent)];
        let buffers = stream::iter(begun.map(|buffer| Ok::<_, Status>(Frame::data(buffer))));
        let request = Body::new(StreamBody::new(buffers.chain(stream::pending())));
        let opened = self.link.connection_for_tests().expect("connected").ask(path, request);
        self.streams.push(pair.tasks.spawn(async {
            let read = async {
                let answer = opened.await.map_err(|error| Status::unknown(error.to_string()))?;
                let mut replies = MessageBody::of_answer(answer, FrameReader::of_messages())?;
                while replies.next::<WriteReply>().await?.is_some() {}
                replies.ended_well()
            };
            read.await.expect_err("the message is not whole")
        }));
    }

    /// The next stream that the node ends.
    async fn ended(&mut self) -> Status {
        let ended = tokio::time::timeout(DEADLINE, self.streams.next()).await.expect("one is ended");
        ended.expect("a stream").expect("no panic")
    }
}

async fn others_go_on(pair: &Pair) {
    pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await.expect("it answers");
    let put = pair.peer.put_shard(pair.volume, shard(1), &target("k"), vec![body(1, 200_000)]);
    put.await.expect("it is stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_not_ended_take_no_more_than_the_room_of_their_peer() {
    let pair = Pair::of_stall(Duration::from_hours(1)).await;
    let mut attacker = Attacker::new(&pair).await;
    let part = 7 * MESSAGE_BYTES_MAX / 8;
    let fit = PEER_CODEC_BYTES_MAX / part;
    for path in CALLS.into_iter().cycle().take(fit + 1) {
        attacker.begin(&pair, path, MESSAGE_BYTES_MAX, part);
    }
    let refused = attacker.ended().await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains(&attacker.name), "{refused:?}");
    let (held, of_peer) = (pair.codec.unfinished_bytes(), pair.codec.peer_bytes(&attacker.name));
    assert!(held <= of_peer && of_peer <= PEER_CODEC_BYTES_MAX, "{held} of {of_peer}");
    others_go_on(&pair).await;
    pair.until("all but the refused are held", || pair.codec.unfinished_bytes() == fit * (part + 5)).await;
    // The connection ends, and with it the streams.
    drop(attacker);
    pair.stop.cancel();
    pair.until("nothing is held", || pair.codec.unfinished_bytes() == 0).await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_not_ended_in_time_end_their_streams() {
    let pair = Pair::of_stall(Duration::from_millis(500)).await;
    let mut attacker = Attacker::new(&pair).await;
    let idle = 3 * CODEC_STREAM_BYTES;
    assert_eq!(pair.codec.peer_bytes(&attacker.name), idle, "a link has three streams of calls");
    for path in [&CALLS[..], &[PUT_PATH]].concat() {
        attacker.begin(&pair, path, PUT_BYTES_MAX, PUT_BYTES_MAX / 2);
        attacker.begin(&pair, path, 1, 0);
    }
    for _ in 0..8 {
        let ended = attacker.ended().await;
        assert_eq!(ended.code(), Code::DeadlineExceeded, "{ended:?}");
    }
    let is_free = || pair.codec.unfinished_bytes() == 0 && pair.codec.peer_bytes(&attacker.name) == idle;
    pair.until("nothing is held", is_free).await;
    attacker.begin(&pair, PUT_PATH, PUT_BYTES_MAX + 1, 1);
    assert_eq!(attacker.ended().await.code(), Code::OutOfRange);
    others_go_on(&pair).await;
    pair.close().await;
}
