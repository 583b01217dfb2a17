//! Long values over a real connection: a vote says how long, and the bytes travel only when they are asked
//! for by that length and the node has room for them.

use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::UploadId;
use sherd_core::limits::{PART_BYTES_MIN, VALUE_UNASKED_BYTES_MAX};
use sherd_core::message::call::RegisterCall;
use sherd_core::message::{Error, Target, ValueLimit};
use sherd_core::record::{Attributes, Changes, Object, State, Upload, Value};
use sherd_core::register::{Accept, EncodedValue, Prepare, Row};

use sherd_proto::convert::Wire;
use sherd_proto::convert::call::{NumberedCalls, RegisterStream};
use sherd_proto::convert::value::VolumeAddress;
use sherd_proto::v1::register_call::Call;

use super::registers::ballot;
use super::{Pair, target};
use crate::rpc::failure::CallFailure;
use crate::rpc::limits::{BYTES_HELD_MAX, VOLUME_BYTES_HELD_MAX};
use crate::rpc::work;
use sherd_store::peer::RegisterPeer;

/// A value with this number of uploads whose attributes, 2 KiB each, stand in the object's value itself.
fn value(uploads: usize) -> EncodedValue {
    let pairs = vec![("x-amz-meta-a".to_owned(), "v".repeat(2_000))];
    let upload = |n: usize| Upload {
        id: UploadId([u8::try_from(n).expect("few"); 16]),
        initiated_ms: PART_BYTES_MIN,
        attributes: Some(Attributes { pairs: pairs.clone() }),
        checksum: None,
    };
    let object = Object { versions: Vec::new(), uploads: (0..uploads).map(upload).collect() };
    let value = Value { changes: Changes::default(), state: State::Object(object) };
    EncodedValue::new(value.encode(), Bytes::new())
}

async fn stored(pair: &Pair, target: &Target, uploads: usize) -> Bytes {
    let value = value(uploads);
    let head = value.head.clone();
    let (introduces, positions) = (Vec::new(), Arc::default());
    let origin = sherd_core::register::ValueOrigin::default();
    let accept = Accept { ballot: ballot(0), value, introduces, finishes: false, positions, origin };
    let done = pair.peer.accept(pair.volume, target, &accept, None).await.expect("it answers");
    assert_eq!(done.result, Ok(()));
    head
}

async fn row_of(pair: &Pair, target: &Target, values: ValueLimit) -> Row {
    let answer = pair.peer.read(pair.volume, target, values).await.expect("it answers");
    answer.result.expect("a vote").row.expect("a row")
}

fn length(head: &Bytes) -> u32 {
    u32::try_from(head.len()).expect("a value")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_value_travels_only_when_it_is_asked_for_by_its_length() {
    let pair = Pair::new().await;
    let (long, short) = (target("long"), target("short"));
    let (head, other) = (stored(&pair, &long, 40).await, stored(&pair, &short, 20).await);
    assert!(other.len() < VALUE_UNASKED_BYTES_MAX && head.len() > VALUE_UNASKED_BYTES_MAX);
    for (limit, target, head, carries) in [
        (ValueLimit::NOTHING, &short, &other, false),
        (ValueLimit::USUAL, &short, &other, true),
        (ValueLimit::USUAL, &long, &head, false),
        (ValueLimit::of(length(&head) - 1), &long, &head, false),
        (ValueLimit::of(length(&head)), &long, &head, true),
    ] {
        let row = row_of(&pair, target, limit).await;
        assert_eq!((row.value_bytes, row.value), (length(head), carries.then(|| head.clone())), "{limit:?}");
        let local = pair.local.read(pair.volume, target, limit).await.expect("it answers");
        assert_eq!(local.result.expect("a vote").row, Some(row_of(&pair, target, limit).await));
    }
    let prepare = Prepare { ballot: ballot(1_000) };
    let vote = pair.peer.prepare(pair.volume, &long, prepare, ValueLimit::USUAL).await.expect("it answers");
    let row = vote.result.expect("a promise").row.expect("a row");
    assert_eq!((row.value_bytes, row.value), (length(&head), None));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_value_is_refused_while_its_volume_has_no_room_and_given_then() {
    let pair = Pair::new().await;
    let target = target("long");
    let head = stored(&pair, &target, 40).await;
    let limit = ValueLimit::of(length(&head));
    let others = pair.node.hold(pair.volume, VOLUME_BYTES_HELD_MAX - head.len()).expect("nothing is held");
    assert_eq!(row_of(&pair, &target, limit).await.value, Some(head.clone()), "it fits beside it");
    let more = pair.node.hold(pair.volume, 16 << 10).expect("what a reply held came back");
    assert_eq!(pair.peer.read(pair.volume, &target, limit).await, Err(Error::Busy));
    assert_eq!(row_of(&pair, &target, ValueLimit::USUAL).await.value_bytes, length(&head), "it votes");
    drop((others, more));
    assert_eq!(row_of(&pair, &target, limit).await.value, Some(head));
    pair.close().await;
}

/// A node without room must not pay for decoding and hashing the values of all calls that it refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_finds_no_room_is_refused_before_it_is_decoded() {
    let pair = Pair::new().await;
    let to = VolumeAddress { volume: pair.volume, life: None, request: 0 }.to_wire();
    let (introduces, positions) = (Vec::new(), Arc::default());
    let origin = sherd_core::register::ValueOrigin::default();
    let accept =
        Accept { ballot: ballot(0), value: value(20), introduces, finishes: false, positions, origin };
    let call = RegisterCall::Accept { target: target("a"), accept, heal: None };
    let mut call = RegisterStream::call(to.clone(), &call);
    let Some(Call::Accept(accept)) = &mut call.call else { panic!("an accept") };
    let value = accept.value.as_mut().expect("a value");
    value.head = vec![0xff; value.head.len()].into();
    let start = || work::start::<RegisterStream>(&pair.node, Some(to.clone()), call.clone()).map(drop);
    let refused = start().expect_err("it does not decode");
    assert!(
        matches!(&refused, CallFailure::Volume(Error::Unreachable { reason }) if reason.contains("refused"))
    );
    let others = pair.node.hold(pair.volume, VOLUME_BYTES_HELD_MAX).expect("nothing is held");
    assert_eq!(start(), Err(CallFailure::Volume(Error::Busy)));
    drop(others);
    assert_eq!(start(), Err(refused), "a refused call holds nothing");
    pair.close().await;
}

/// As of all peers together, who take their replies slowly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_whose_value_finds_no_room_says_its_length() {
    let pair = Pair::new().await;
    let target = target("short");
    let head = stored(&pair, &target, 20).await;
    let others: Vec<_> = (0..4_u8)
        .map(|n| pair.node.hold(sherd_core::id::VolumeId([n; 16]), BYTES_HELD_MAX / 4))
        .collect::<Result<_, _>>()
        .expect("nothing is held");
    let row = row_of(&pair, &target, ValueLimit::USUAL).await;
    assert_eq!((row.value_bytes, row.value), (length(&head), None));
    drop(others);
    assert_eq!(row_of(&pair, &target, ValueLimit::USUAL).await.value, Some(head));
    pair.close().await;
}
