//! Bytes in the place of each message: they do not decode, or are refused by name, or become a value that is
//! written and read again. Built for tests and for fuzzing only.
//!
//! Each function says whether the bytes became a value, so that a test can tell a seed from noise.

use std::fmt::Debug;

use bytes::Bytes;
use prost::Message;

use sherd_core::heal::HealId;
use sherd_core::id::{BucketId, ChangeId, ClusterId, Life, ShardId};
use sherd_core::message::call::{RegisterCall, ShardCall, UpkeepCall};
use sherd_core::message::{
    self, Answer, ListPage, LookPage, RowPage, ScannedRow, ShardFileHeader, ShardRange, Target,
};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::register::{Answerer, Vote};
use sherd_core::report::NodeReport;

use crate::convert::answer::{AnswerIn, ReplyMessage, answer, reply};
use crate::convert::value::VolumeAddress;
use crate::convert::{Wire, timeout_from_wire, timeout_to_wire};
use crate::frame::{FramePart, FrameReader};
use crate::limits;
use crate::sender::{self, VersionRule};
use crate::v1;
use crate::v1::{put_reply, register_reply, shard_bytes, shard_reply, upkeep_reply, write_reply};

/// The messages that bytes are taken for, by the first of them.
pub const KINDS: [fn(Bytes) -> bool; 14] = [
    register_call,
    register_answer,
    shard_call,
    shard_answer,
    upkeep_call,
    upkeep_answer,
    put_shard,
    put_answer,
    write_shard,
    write_answer,
    read_shard,
    read_answer,
    sent_by,
    node_state,
];

/// Takes bytes for the message that the first of them names; gives whether they became a value.
pub fn message(data: &[u8]) -> bool {
    let Some((kind, rest)) = data.split_first() else { return false };
    KINDS.get(usize::from(*kind)).is_some_and(|take| take(Bytes::copy_from_slice(rest)))
}

/// Takes bytes for a body of messages of shards: the first byte is the length of the buffers that it comes
/// in. Gives whether it is whole.
///
/// # Panics
/// When more bytes come out than went in, or others than were announced, or more are kept than a message has.
pub fn shard_stream(data: &[u8]) -> bool {
    let Some((length, body)) = data.split_first() else { return false };
    let (mut reader, mut announced, mut taken) = (FrameReader::of_bytes(), 0, 0);
    for buffer in body.chunks(usize::from(*length).max(1)) {
        reader.push(Bytes::copy_from_slice(buffer));
        loop {
            match reader.part() {
                Ok(Some(FramePart::Start(count))) => {
                    assert!((1..=limits::SHARD_FRAME_BYTES_MAX).contains(&count) && announced == 0);
                    announced = count;
                }
                Ok(Some(FramePart::Bytes(bytes))) => {
                    assert!(!bytes.is_empty() && bytes.len() <= announced);
                    announced -= bytes.len();
                    taken += bytes.len();
                }
                Ok(Some(FramePart::Message(message))) => {
                    assert!(announced == 0, "a message amid the bytes of another one");
                    taken += message.len();
                    drop(v1::WriteShard::decode(message));
                }
                Ok(None) => break,
                Err(fault) => {
                    assert_eq!(reader.part(), Err(fault), "nothing is read behind a fault");
                    return false;
                }
            }
        }
    }
    assert!(taken <= body.len());
    reader.end().is_ok()
}

fn decoded<M: Message + Default>(bytes: Bytes) -> Option<M> {
    M::decode(bytes).ok().filter(|message| message.encoded_len() <= limits::MESSAGE_BYTES_MAX)
}

/// Checks that a value which converts is the same after it was written and read.
fn comes_back<T: Wire + PartialEq + Debug>(message: Option<T::Message>) -> bool {
    let Some(Ok(value)) = message.map(T::from_wire) else { return false };
    assert_eq!(T::from_wire(value.to_wire()), Ok(value));
    true
}

fn answer_comes_back<R: ReplyMessage, A: AnswerIn<R> + PartialEq + Debug>(message: R) -> bool {
    let Ok(result) = answer::<R, A>(Some(message)) else { return false };
    assert_eq!(answer::<R, A>(Some(reply(&result))), Ok(result));
    true
}

fn addressed(to: Option<v1::Addressed>, timeout_ms: u32) -> bool {
    if let Ok(timeout) = timeout_from_wire(timeout_ms) {
        assert_eq!(timeout_from_wire(timeout_to_wire(timeout)), Ok(timeout));
    }
    comes_back::<VolumeAddress>(to)
}

fn register_call(bytes: Bytes) -> bool {
    let Some(v1::RegisterCall { number: _, timeout_ms, to, call }) = decoded(bytes) else { return false };
    let is_addressed = addressed(to, timeout_ms);
    comes_back::<RegisterCall>(call) && is_addressed
}

fn register_answer(bytes: Bytes) -> bool {
    use register_reply::Reply;
    let Some(v1::RegisterReply { number: _, reply: Some(reply) }) = decoded(bytes) else { return false };
    match reply {
        reply @ (Reply::Failure(_) | Reply::Vote(_)) => answer_comes_back::<_, Answer<Vote>>(reply),
        reply @ Reply::Done(_) => answer_comes_back::<_, Answer<()>>(reply),
        reply @ Reply::Inline(_) => answer_comes_back::<_, Bytes>(reply),
        reply @ Reply::Verified(_) => answer_comes_back::<_, ()>(reply),
        reply @ Reply::List(_) => answer_comes_back::<_, Answer<ListPage>>(reply),
        reply @ Reply::Parts(_) => answer_comes_back::<_, Answer<Vec<ScannedRow>>>(reply),
        reply @ Reply::Rows(_) => answer_comes_back::<_, Answer<RowPage>>(reply),
        reply @ Reply::Look(_) => answer_comes_back::<_, Answer<LookPage>>(reply),
        reply @ Reply::Unsettled(_) => answer_comes_back::<_, message::UnsettledPage>(reply),
        reply @ Reply::Guarantees(_) => answer_comes_back::<_, Answer<Guarantees>>(reply),
    }
}

fn shard_call(bytes: Bytes) -> bool {
    let Some(v1::ShardCall { number: _, timeout_ms, to, call }) = decoded(bytes) else { return false };
    let is_addressed = addressed(to, timeout_ms);
    comes_back::<ShardCall>(call) && is_addressed
}

fn shard_answer(bytes: Bytes) -> bool {
    use shard_reply::Reply;
    let Some(v1::ShardReply { number: _, reply: Some(reply) }) = decoded(bytes) else { return false };
    match reply {
        reply @ (Reply::Failure(_) | Reply::Done(_)) => answer_comes_back::<_, ()>(reply),
        reply @ Reply::Bytes(_) => answer_comes_back::<_, u64>(reply),
        reply @ Reply::Page(_) => answer_comes_back::<_, message::ShardPage>(reply),
        reply @ Reply::Released(_) => answer_comes_back::<_, bool>(reply),
        reply @ Reply::LeasesRefused(_) => answer_comes_back::<_, message::LeaseAnswer>(reply),
    }
}

fn upkeep_call(bytes: Bytes) -> bool {
    let Some(v1::UpkeepCall { number: _, timeout_ms, to, call }) = decoded(bytes) else { return false };
    let is_addressed = addressed(to, timeout_ms);
    comes_back::<UpkeepCall>(call) && is_addressed
}

fn upkeep_answer(bytes: Bytes) -> bool {
    use upkeep_reply::Reply;
    let Some(v1::UpkeepReply { number: _, reply: Some(reply) }) = decoded(bytes) else { return false };
    match reply {
        reply @ (Reply::Failure(_) | Reply::Done(_)) => answer_comes_back::<_, ()>(reply),
        reply @ Reply::Entries(_) => answer_comes_back::<_, Vec<(HealId, Bytes)>>(reply),
        reply @ Reply::Guarantees(_) => answer_comes_back::<_, Answer<Guarantees>>(reply),
        reply @ Reply::Memory(_) => answer_comes_back::<_, Answer<Memory>>(reply),
        reply @ Reply::Position(_) => answer_comes_back::<_, Answerer>(reply),
        reply @ Reply::Seals(_) => answer_comes_back::<_, Answer<Vec<(BucketId, Vec<ChangeId>)>>>(reply),
    }
}

fn put_shard(bytes: Bytes) -> bool {
    let Some(message) = decoded(bytes) else { return false };
    let v1::PutShard { sender: _, to, timeout_ms, shard, target, payload: _ } = message;
    let is_addressed = addressed(to, timeout_ms);
    let is_named = comes_back::<ShardId>(shard);
    comes_back::<Target>(target) && is_named && is_addressed
}

fn put_answer(bytes: Bytes) -> bool {
    let Some(v1::PutReply { reply: Some(reply) }) = decoded(bytes) else { return false };
    answer_comes_back::<put_reply::Reply, Life>(reply)
}

fn write_shard(bytes: Bytes) -> bool {
    use v1::write_shard::{Begin, Step};
    let Some(v1::WriteShard { step: Some(Step::Begin(begin)) }) = decoded(bytes) else { return false };
    let Begin { sender: _, to, target, file, replace: _ } = begin;
    let is_addressed = addressed(to, 0);
    let is_file = comes_back::<ShardFileHeader>(file);
    comes_back::<Target>(target) && is_file && is_addressed
}

fn write_answer(bytes: Bytes) -> bool {
    use write_reply::Reply;
    let Some(v1::WriteReply { reply: Some(reply) }) = decoded(bytes) else { return false };
    match reply {
        reply @ Reply::Taken(_) => answer_comes_back::<_, ()>(reply),
        reply @ (Reply::Failure(_) | Reply::Life(_)) => answer_comes_back::<_, Life>(reply),
    }
}

fn read_shard(bytes: Bytes) -> bool {
    let Some(v1::ReadShard { sender: _, to, timeout_ms, range }) = decoded(bytes) else { return false };
    let is_addressed = addressed(to, timeout_ms);
    comes_back::<ShardRange>(range) && is_addressed
}

fn read_answer(bytes: Bytes) -> bool {
    let Some(v1::ShardBytes { part: Some(part) }) = decoded(bytes) else { return false };
    answer_comes_back::<shard_bytes::Part, Bytes>(part)
}

fn sent_by(bytes: Bytes) -> bool {
    let Some(sent) = decoded::<v1::Sender>(bytes) else { return false };
    let Ok(cluster) = ClusterId::from_wire(sent.cluster.clone()) else {
        assert!(sender::check(Some(sent), ClusterId([0; 16]), VersionRule::Admins).is_err());
        return false;
    };
    let Ok(epoch) = sender::check(Some(sent), cluster, VersionRule::Admins) else { return false };
    assert_eq!(sender::check(Some(sender::sender(cluster, epoch)), cluster, VersionRule::Nodes), Ok(epoch));
    true
}

fn node_state(bytes: Bytes) -> bool {
    comes_back::<NodeReport>(decoded(bytes))
}
