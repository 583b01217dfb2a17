//! Numbers of dropped calls at a server, also of a client that numbers wrongly.

use futures::{StreamExt, stream};

use sherd_core::record::Home;
use sherd_proto::convert::Wire;
use sherd_proto::convert::value::VolumeAddress;
use sherd_proto::limits::FRAME_CALLS_MAX;
use sherd_proto::v1::shard_call::Call;
use sherd_proto::v1::{ShardCall, ShardCalls, shard_reply};

use super::shards::{BYTES, files, header, shard};
use super::{Pair, target};
use sherd_store::peer::Peer;
use sherd_store::testing::{DEADLINE, body};

fn frame(pair: &Pair, calls: impl IntoIterator<Item = (u64, Call)>, dropped: Vec<u64>) -> ShardCalls {
    let to = VolumeAddress { volume: pair.volume, life: None, request: 0 }.to_wire();
    let call =
        |(number, call)| ShardCall { number, timeout_ms: 600_000, to: Some(to.clone()), call: Some(call) };
    ShardCalls { sender: Some(pair.link.sender()), calls: calls.into_iter().map(call).collect(), dropped }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_ends_what_reads_and_runs_on_with_the_rest_whatever_numbers_a_peer_drops() {
    let pair = Pair::new().await;
    let mut sink = pair.peer.create_shard(pair.volume, &target("k"), header(1), false);
    sink.append(vec![body(1, BYTES)]).await.expect("it is taken");
    sink.finish().await.expect("it is stored");
    let name = || (shard(1), Home::File).to_wire();
    let (reads, writes) = (pair.hang_reads(), pair.hang_writes());
    // Numbers of calls of the same frame, and numbers without a call.
    let calls = [(1, Call::Delete(name())), (2, Call::Verify(name())), (3, Call::Length(name()))];
    let first = frame(&pair, calls, vec![0, 1, 2, 99]);
    let again = frame(&pair, [(4, Call::Verify(name()))], vec![1, 2]);
    let frames = stream::iter([first, again]).chain(stream::pending());
    let mut client = pair.link.bytes_for_tests().expect("it is connected");
    let mut replies = client.calls(frames).await.expect("it begins").into_inner();
    pair.until("a call is dropped", || pair.metrics.rpc.shard.dropped.get() > 0).await;
    drop(writes);
    let mut next = async || {
        let frame = tokio::time::timeout(DEADLINE, replies.message()).await.expect("in time");
        frame.expect("it goes on").expect("a frame").replies
    };
    let reply = next().await.remove(0);
    assert_eq!((reply.number, reply.reply), (1, Some(shard_reply::Reply::Done(sherd_proto::v1::Empty {}))));
    assert_eq!(files(&pair), 0, "what was dropped in vain is done");
    drop(reads);
    let mut answered = Vec::new();
    while answered.len() < 2 {
        answered.extend(next().await.iter().map(|reply| reply.number));
    }
    answered.sort_unstable();
    assert_eq!((answered, pair.metrics.rpc.shard.dropped.get()), (vec![3, 4], 1));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_numbers_than_a_frame_has_calls_are_refused() {
    let pair = Pair::new().await;
    let long = frame(&pair, [], vec![7; FRAME_CALLS_MAX + 1]);
    let mut client = pair.link.bytes_for_tests().expect("it is connected");
    let mut replies = client.calls(stream::iter([long])).await.expect("it begins").into_inner();
    let refused = replies.message().await.expect_err("it is refused");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
    pair.close().await;
}
