//! Wrong messages, each refused by the name of the field at fault; and texts that are cut to their limit
//! instead.

use std::time::Duration;

use bytes::Bytes;

use sherd_core::codec::DecodeError;
use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, ClusterId, DataId, Epoch, Life, ObjectKey, ProcessId, RegisterKey, ShardId, Slot,
    Timestamp, VolumeId,
};
use sherd_core::limits::{PARTS_MAX, SET_VOLUMES_MAX, SLOTS};
use sherd_core::message::call::RegisterCall;
use sherd_core::message::{
    self, AdoptedRow, Answer, Control, ListScan, PartsScan, ScannedRow, ShardFileHeader, ShardRange,
    ShardScan, Target,
};
use sherd_core::placement;
use sherd_core::record::{Home, Value};
use sherd_core::register::{Accept, EncodedValue, Positions, Refusal, Row, RowHead, ValueOrigin, Vote};
use sherd_core::report::{NodeReport, VolumeCondition, VolumeReport, VolumeStanding};

use super::strategy::inline_object;
use crate::convert::admin::volume_ids_from_wire;
use crate::convert::answer::answer;
use crate::convert::register::{accept_from_wire, accept_to_wire};
use crate::convert::value::{VolumeAddress, other_life};
use crate::convert::{ConvertError, FieldFault, Wire, check_frame, timeout_from_wire, timeout_to_wire};
use crate::limits::{
    FRAME_CALLS_MAX, INTRODUCES_MAX, LIST_BOUND_BYTES_MAX, NODE_VOLUMES_MAX, PAGE_ROWS_MAX, POSITIONS_MAX,
    REASON_BYTES_MAX, REGISTER_KEY_BYTES_MAX, TIMEOUT_MS_MAX,
};
use crate::v1;
use crate::v1::register_reply::Reply;

pub(super) fn key() -> RegisterKey {
    RegisterKey::object(BucketId([2; 16]), ObjectKey::new("k").expect("a key"))
}

fn target() -> Target {
    Target::new(key(), placement::slot(&key()), Epoch::FIRST)
}

fn ballot() -> Ballot {
    Ballot { time: Timestamp::from_ms(3), ..Ballot::ZERO }
}

fn row() -> Row {
    let (value, _) = inline_object(&[b"bytes"]);
    let value = value.encode();
    Row {
        head: RowHead { ballot: ballot(), digest: Value::digest(&value), committed: true },
        value_bytes: u32::try_from(value.len()).expect("within its limits"),
        value: Some(value),
    }
}

fn accept() -> Accept {
    let (value, inline) = inline_object(&[b"bytes"]);
    let value = EncodedValue::of(&value, inline).expect("within its limits");
    Accept {
        ballot: ballot(),
        value,
        introduces: Vec::new(),
        finishes: false,
        positions: Positions::default(),
        origin: ValueOrigin::default(),
    }
}

/// A volume that answers, in its first life.
fn answerer() -> v1::Answerer {
    v1::Answerer { life: 1, votes: true, peers: Vec::new(), durable: 9, opening: 5 }
}

fn fault<T: std::fmt::Debug>(result: Result<T, ConvertError>) -> (&'static str, FieldFault) {
    let ConvertError { field, fault } = result.expect_err("no value");
    (field, fault)
}

const fn over(count: usize, max: usize) -> FieldFault {
    FieldFault::OverLimit { count, max }
}

#[test]
fn ids_have_their_length() {
    let short = Bytes::from_static(&[1; 15]);
    let fifteen = FieldFault::Length { bytes: 15, expected: 16 };
    assert_eq!(fault(Ballot::from_wire(short.clone())), ("ballot", fifteen.clone()));
    assert_eq!(fault(VolumeId::from_wire(short.clone())), ("volume id", fifteen.clone()));
    assert_eq!(fault(HealId::from_wire(short)), ("heal id", fifteen));
    let seventeen = FieldFault::Length { bytes: 17, expected: 16 };
    assert_eq!(fault(DataId::from_wire(Bytes::from_static(&[1; 17]))), ("data id", seventeen));
    assert_eq!(fault(ClusterId::from_wire(Bytes::new())).0, "cluster id");
}

#[test]
fn a_register_key_is_one_stored_form_and_nothing_behind_it() {
    let stored = key().to_wire();
    let longer: Bytes = [&stored[..], &[0]].concat().into();
    let behind = FieldFault::Undecodable(DecodeError::Trailing { field: "register key" });
    assert_eq!(fault(RegisterKey::from_wire(longer)), ("register key", behind));
    let cut = stored.slice(..stored.len() - 1);
    assert!(matches!(fault(RegisterKey::from_wire(cut)), ("register key", FieldFault::Undecodable(_))));
    let long = Bytes::from(vec![0; REGISTER_KEY_BYTES_MAX + 1]);
    let too_long = over(REGISTER_KEY_BYTES_MAX + 1, REGISTER_KEY_BYTES_MAX);
    assert_eq!(fault(RegisterKey::from_wire(long)), ("register key", too_long));
}

#[test]
fn the_longest_register_key_can_be_sent() {
    let name = ObjectKey::new(vec![b'a'; 1024]).expect("a key");
    let part = sherd_core::id::PartKey { upload: sherd_core::id::UploadId([1; 16]), number: PARTS_MAX };
    let key = RegisterKey::part(BucketId([2; 16]), name, part);
    assert_eq!(key.to_wire().len(), REGISTER_KEY_BYTES_MAX);
    assert_eq!(RegisterKey::from_wire(key.to_wire()), Ok(key));
}

#[test]
fn a_target_has_the_slot_of_its_key() {
    let right = target().to_wire();
    assert_eq!(Target::from_wire(right.clone()), Ok(target()));
    let other = u32::from(u16::from(right.slot == 0));
    let wrong = v1::Target { slot: other, ..right.clone() };
    let range = |number: u32| FieldFault::Range { number: u64::from(number) };
    assert_eq!(fault(Target::from_wire(wrong)), ("slot of the target", range(other)));
    let beyond = u32::from(SLOTS);
    assert_eq!(
        fault(Target::from_wire(v1::Target { slot: beyond, ..right.clone() })),
        ("slot", range(beyond))
    );
    let wide = (1 << 16) | right.slot;
    assert_eq!(fault(Target::from_wire(v1::Target { slot: wide, ..right })), ("slot", range(wide)));
    assert!(Slot::from_wire(u32::from(SLOTS) - 1).is_ok());
}

#[test]
fn a_row_with_another_value_than_its_head_names_is_refused_wherever_it_stands() {
    let mut wrong = row().to_wire();
    wrong.value = Some(Bytes::from_static(b"other"));
    assert_eq!(fault(Row::from_wire(wrong.clone())), ("value", FieldFault::Digest));
    let scanned =
        v1::ScannedRow { key: key().to_wire(), row: Some(wrong.clone()), tombstone: false, missed: false };
    assert_eq!(fault(ScannedRow::from_wire(scanned.clone())), ("value", FieldFault::Digest));

    let from = Some(answerer());
    let vote = v1::Vote { row: Some(wrong), floor: ballot().to_wire() };
    let vote = v1::VoteAnswer { from: from.clone(), result: Some(v1::vote_answer::Result::Vote(vote)) };
    assert_eq!(fault(answer::<_, Answer<Vote>>(Some(Reply::Vote(vote)))), ("value", FieldFault::Digest));
    let page = v1::ListPage {
        entries: vec![v1::ListedRow { prefix: None, row: Some(scanned.clone()) }],
        next: None,
        hidden: 0,
        floor: ballot().to_wire(),
    };
    let page = v1::ListAnswer { from: from.clone(), result: Some(v1::list_answer::Result::Page(page)) };
    let read = answer::<_, Answer<message::ListPage>>(Some(Reply::List(page)));
    assert_eq!(fault(read), ("value", FieldFault::Digest));
    let page = v1::RowPage { rows: vec![scanned], next: None };
    let page = v1::RowsAnswer { from, result: Some(v1::rows_answer::Result::Page(page)) };
    let read = answer::<_, Answer<message::RowPage>>(Some(Reply::Rows(page)));
    assert_eq!(fault(read), ("value", FieldFault::Digest));
}

#[test]
fn a_head_alone_needs_no_value() {
    let head = v1::Row { value: None, ..row().to_wire() };
    assert_eq!(Row::from_wire(head), Ok(Row { value: None, ..row() }));
    let none = v1::Row { head: None, ..row().to_wire() };
    assert_eq!(fault(Row::from_wire(none)), ("head of a row", FieldFault::Missing));
}

#[test]
fn inline_bytes_are_those_that_the_value_names() {
    let (value, inline) = inline_object(&[b"first", b"", b"second"]);
    let right = v1::Value { head: value.encode(), inline: inline.clone() };
    assert_eq!(EncodedValue::from_wire(right.clone()), Ok(EncodedValue::new(value.encode(), inline)));
    let with = |inline: &'static [u8]| {
        fault(EncodedValue::from_wire(v1::Value { inline: Bytes::from_static(inline), ..right.clone() }))
    };
    assert_eq!(with(b"firstsecons"), ("inline bytes", FieldFault::Digest));
    assert_eq!(with(b"firstsecon"), ("inline bytes", FieldFault::Length { bytes: 5, expected: 6 }));
    assert_eq!(with(b""), ("inline bytes", FieldFault::Length { bytes: 0, expected: 5 }));
    assert_eq!(with(b"firstsecond!"), ("bytes behind the inline bytes", over(1, 0)));
}

/// A volume's log thread asks each value for its traits: to decode it there again would hold every writer up.
#[test]
fn a_value_that_was_decoded_here_is_not_decoded_again() {
    let (value, inline) = inline_object(&[b"first"]);
    let message = v1::Value { head: value.encode(), inline };
    let mut received = EncodedValue::from_wire(message).expect("a value");
    let traits = received.traits().expect("decoded");
    // Bytes that cannot be decoded show whether they are.
    received.head = Bytes::from_static(b"no value");
    assert_eq!(received.traits(), Ok(traits));
}

#[test]
fn bytes_that_are_no_value_are_accepted_nowhere() {
    let no_value = v1::Value { head: Bytes::from_static(b"x"), inline: Bytes::new() };
    let mut message = accept_to_wire(&target(), &accept(), None);
    assert_eq!(accept_from_wire(message.clone()), Ok((target(), accept(), None)));
    message.value = Some(no_value.clone());
    assert!(matches!(fault(accept_from_wire(message.clone())), ("value", FieldFault::Undecodable(_))));
    message.value = None;
    assert_eq!(fault(accept_from_wire(message)), ("value", FieldFault::Missing));

    let value = accept().value;
    let head = RowHead { ballot: ballot(), digest: Value::digest(&value.head), committed: false };
    let mut adopted = AdoptedRow { key: key(), head, value, is_missed: false }.to_wire();
    assert!(AdoptedRow::from_wire(adopted.clone()).is_ok());
    adopted.value.as_mut().expect("a value").head = no_value.head;
    assert_eq!(fault(AdoptedRow::from_wire(adopted)), ("value", FieldFault::Digest));
}

#[test]
fn lists_have_limits() {
    let mut message = accept_to_wire(&target(), &accept(), None);
    message.introduces = vec![DataId::ZERO.to_wire(); INTRODUCES_MAX];
    assert!(accept_from_wire(message.clone()).is_ok());
    message.introduces.push(DataId::ZERO.to_wire());
    let introduced = ("introduced data", over(INTRODUCES_MAX + 1, INTRODUCES_MAX));
    assert_eq!(fault(accept_from_wire(message.clone())), introduced);
    message.introduces.clear();
    message.positions =
        vec![v1::Position { volume: VolumeId([1; 16]).to_wire(), life: 1, durable: 1, opening: 1 }; 33];
    assert_eq!(fault(accept_from_wire(message)), ("positions", over(33, POSITIONS_MAX)));

    let scanned = ScannedRow { key: key(), row: row(), tombstone: false, is_missed: false }.to_wire();
    let rows = v1::ScannedRows { rows: vec![scanned; PAGE_ROWS_MAX + 1] };
    let page = ("rows of a page", over(PAGE_ROWS_MAX + 1, PAGE_ROWS_MAX));
    assert_eq!(fault(Vec::<ScannedRow>::from_wire(rows)), page);
    let ids = vec![VolumeId([1; 16]).to_wire(); NODE_VOLUMES_MAX + 1];
    assert_eq!(fault(volume_ids_from_wire(ids)).0, "volumes of a node");
    assert_eq!(check_frame(FRAME_CALLS_MAX), Ok(()));
    assert_eq!(fault(check_frame(FRAME_CALLS_MAX + 1)).0, "frame");
}

#[test]
fn more_rows_than_a_page_are_asked_for_a_page_at_a_time() {
    let scan = ShardScan::Packed { after: None, limit: usize::MAX };
    assert_eq!(
        ShardScan::from_wire(scan.to_wire()),
        Ok(ShardScan::Packed { after: None, limit: PAGE_ROWS_MAX })
    );
    let asked = v1::shard_call::Page { limit: u32::MAX, ..scan.to_wire() };
    assert_eq!(ShardScan::from_wire(asked), Ok(ShardScan::Packed { after: None, limit: PAGE_ROWS_MAX }));
}

#[test]
fn a_page_of_a_listing_without_a_floor_says_that_no_row_was_accepted() {
    let page = v1::ListPage { entries: Vec::new(), next: None, hidden: 0, floor: Bytes::new() };
    let page = message::ListPage::from_wire(page).expect("a node of before sends none");
    assert_eq!(page.floor, Ballot::MAX);
    let highest = Ballot { time: Timestamp::MAX, ..ballot() };
    assert!(!RowHead { committed: false, ballot: highest, ..row().head }.is_accepted(page.floor));
    let short = v1::ListPage { floor: Bytes::from_static(&[1; 15]), ..page.to_wire() };
    assert!(message::ListPage::from_wire(short).is_err());
}

#[test]
fn bounds_of_a_listing_have_a_limit() {
    let scan = ListScan {
        bucket: BucketId([2; 16]),
        epoch: Epoch::FIRST,
        deletion: None,
        prefix: vec![b'a'; LIST_BOUND_BYTES_MAX].into(),
        from: Bytes::new(),
        delimiter: None,
        limit: 1,
        passed_max: sherd_core::message::LIST_PASSED_MAX,
    };
    let message = scan.to_wire();
    assert_eq!(ListScan::from_wire(message.clone()), Ok(scan.clone()));
    let of_old_node = v1::register_call::List { passed_max: 0, ..message.clone() };
    assert_eq!(ListScan::from_wire(of_old_node), Ok(scan), "a call's own maximum");
    let long = Bytes::from(vec![b'a'; LIST_BOUND_BYTES_MAX + 1]);
    let refused = |message| fault(ListScan::from_wire(message)).0;
    assert_eq!(refused(v1::register_call::List { prefix: long.clone(), ..message.clone() }), "prefix");
    assert_eq!(
        refused(v1::register_call::List { from: long.clone(), ..message.clone() }),
        "start of a listing"
    );
    assert_eq!(refused(v1::register_call::List { delimiter: Some(long), ..message }), "delimiter");
}

#[test]
fn numbers_have_their_range() {
    let parts = v1::register_call::Parts {
        after: Some(u32::from(PARTS_MAX) + 1),
        ..v1::register_call::Parts {
            bucket: BucketId([2; 16]).to_wire(),
            upload: Bytes::from_static(&[3; 16]),
            slot: 0,
            epoch: 1,
            after: None,
            limit: 1,
        }
    };
    assert_eq!(fault(PartsScan::from_wire(parts)), ("part number", FieldFault::Range { number: 10_001 }));

    let shard = ShardId { data: DataId::ZERO, index: 31 };
    let beyond = v1::ShardId { index: u32::try_from(SET_VOLUMES_MAX).expect("few"), ..shard.to_wire() };
    assert_eq!(fault(ShardId::from_wire(beyond)), ("shard index", FieldFault::Range { number: 32 }));
    let name = v1::ShardName { home: 0, ..(shard, Home::File).to_wire() };
    assert_eq!(fault(<(ShardId, Home)>::from_wire(name)).0, "home of a shard");
    let range = v1::ShardRange {
        shard: Some((shard, Home::File).to_wire()),
        offset: u64::MAX,
        length: 2,
        aside: false,
    };
    assert_eq!(fault(ShardRange::from_wire(range)).0, "end of a shard's range");
    let page =
        v1::shard_call::Page { of: Some(v1::shard_call::page::Of::Directory(256)), after: None, limit: 1 };
    assert_eq!(fault(ShardScan::from_wire(page)).0, "directory of shards");

    let unseal = v1::control::SealBucket {
        bucket: BucketId([2; 16]).to_wire(),
        deletion: Bytes::from_static(&[3; 16]),
        epoch: 4,
    };
    let control = v1::Control { change: Some(v1::control::Change::Unseal(unseal)) };
    assert_eq!(fault(Control::from_wire(control)), ("epoch of an unseal", FieldFault::Range { number: 4 }));
}

#[test]
fn a_shard_file_is_of_a_code_that_a_set_holds() {
    let header = ShardFileHeader {
        shard: ShardId { data: DataId::ZERO, index: 3 },
        key: key(),
        data_shards: 2,
        parity_shards: 2,
        stripe_unit: 1 << 18,
        shard_bytes: 1 << 30,
    };
    let right = header.to_wire();
    assert_eq!(ShardFileHeader::from_wire(right.clone()), Ok(header));
    let refused = |message| fault(ShardFileHeader::from_wire(message)).0;
    assert_eq!(refused(v1::ShardFile { data_shards: 0, ..right.clone() }), "data shards");
    assert_eq!(refused(v1::ShardFile { data_shards: 31, ..right.clone() }), "data shards");
    assert_eq!(refused(v1::ShardFile { data_shards: 257, ..right.clone() }), "shards of a code");
    assert_eq!(refused(v1::ShardFile { parity_shards: 1, ..right.clone() }), "shard index");
    assert_eq!(refused(v1::ShardFile { stripe_unit: 0, ..right.clone() }), "stripe unit");
    assert_eq!(refused(v1::ShardFile { stripe_unit: u32::MAX, ..right.clone() }), "stripe unit");
    assert_eq!(refused(v1::ShardFile { shard_bytes: 0, ..right.clone() }), "shard bytes");
    assert_eq!(refused(v1::ShardFile { shard_bytes: u64::MAX, ..right.clone() }), "shard bytes");
    assert_eq!(refused(v1::ShardFile { shard: None, ..right }), "shard");
}

#[test]
fn what_must_be_there_is_missed_by_name() {
    let missing = |result: Result<RegisterCall, ConvertError>| {
        let (field, fault) = fault(result);
        assert_eq!(fault, FieldFault::Missing);
        field
    };
    let read = v1::register_call::Call::Read(v1::register_call::Read {
        target: None,
        want_value: true,
        value_bytes_max: 1,
    });
    assert_eq!(missing(RegisterCall::from_wire(read)), "target");
    let control = v1::register_call::Call::Control(v1::Control { change: None });
    assert_eq!(missing(RegisterCall::from_wire(control)), "change of a guarantee");
    assert_eq!(fault(Refusal::from_wire(v1::Refusal { why: None })).0, "refusal");
    assert_eq!(fault(message::Error::from_wire(v1::Failure { why: None })).0, "failure");
    assert_eq!(fault(answer::<v1::register_reply::Reply, Bytes>(None)).0, "reply");
    let unsaid = v1::DoneAnswer { from: None, refused: None };
    assert_eq!(fault(Answer::<()>::from_wire(unsaid)).0, "answerer");
    let unsaid = v1::VoteAnswer { from: Some(answerer()), result: None };
    assert_eq!(fault(Answer::<Vote>::from_wire(unsaid)).0, "Vote");
}

#[test]
fn a_reply_of_another_kind_is_none() {
    let verified = v1::register_reply::Reply::Verified(v1::Empty {});
    assert_eq!(fault(answer::<_, Bytes>(Some(verified.clone()))), ("Inline", FieldFault::Missing));
    assert_eq!(answer::<_, ()>(Some(verified)), Ok(Ok(())));
}

#[test]
fn another_life_is_told_and_nothing_was_done() {
    let told = message::Error::from_wire(other_life(Life(4)));
    assert_eq!(told, Ok(message::Error::Unreachable { reason: "the volume is in life 4".to_owned() }));
    let to = VolumeAddress { volume: VolumeId([1; 16]), life: None, request: 7 };
    assert_eq!(to.to_wire().life, 0);
    assert_eq!(VolumeAddress::from_wire(to.to_wire()), Ok(to));
}

#[test]
fn a_reason_is_cut_between_two_characters() {
    let long = "\u{e9}".repeat(REASON_BYTES_MAX);
    let failure = message::Error::Unreachable { reason: format!("x{long}") };
    let Ok(message::Error::Unreachable { reason }) = message::Error::from_wire(failure.to_wire()) else {
        panic!("a failure is a failure")
    };
    assert_eq!(reason.len(), REASON_BYTES_MAX - 1);
    let sent = v1::Failure { why: Some(v1::failure::Why::Corrupt("y".repeat(REASON_BYTES_MAX + 1))) };
    let Ok(message::Error::Corrupt { what }) = message::Error::from_wire(sent) else {
        panic!("a failure is a failure")
    };
    assert_eq!(what.len(), REASON_BYTES_MAX);
}

#[test]
fn a_caller_waits_some_time_and_not_for_ever() {
    assert_eq!(timeout_to_wire(Duration::ZERO), 1);
    assert_eq!(timeout_to_wire(Duration::MAX), TIMEOUT_MS_MAX);
    assert_eq!(timeout_from_wire(5000), Ok(Duration::from_secs(5)));
    assert_eq!(timeout_from_wire(u32::MAX), Ok(Duration::from_millis(u64::from(TIMEOUT_MS_MAX))));
    assert_eq!(fault(timeout_from_wire(0)).0, "timeout");
}

#[test]
fn a_digest_of_another_length_is_as_if_it_were_not_sent_but_for_the_topologys() {
    let report = NodeReport::of("n1".to_owned(), ProcessId([7; 16])).to_wire();
    let digest = || Bytes::from_static(&[7; 32]);
    let (short, long) = (|| Bytes::from_static(&[7; 31]), || Bytes::from_static(&[7; 64]));
    let whole = v1::NodeState { topology_digest: digest(), ..report.clone() };
    assert_eq!(NodeReport::from_wire(whole).expect("whole").topology_digest, Some([7; 32]));
    assert_eq!(NodeReport::from_wire(report.clone()).expect("whole").topology_digest, None);
    let later = v1::NodeState {
        config_digest: short(),
        credentials_proof: long(),
        secondary_credentials_proof: digest(),
        master_key_digest: short(),
        trusted_cas: vec![digest(), long()],
        reports_waiting: 3,
        ..report.clone()
    };
    let expected = NodeReport { reports_waiting: 3, ..NodeReport::of("n1".to_owned(), ProcessId([7; 16])) };
    assert_eq!(NodeReport::from_wire(later), Ok(expected));
    let nameless = v1::NodeState { process: short(), ..report.clone() };
    assert_eq!(fault(NodeReport::from_wire(nameless)).0, "process id");
    let elsewhere = v1::NodeState { topology_digest: long(), ..report };
    assert_eq!(
        fault(NodeReport::from_wire(elsewhere)).0,
        "topology's digest",
        "it is not a node without one"
    );
    assert_eq!(volume_ids_from_wire(vec![VolumeId([1; 16]).to_wire()]), Ok(vec![VolumeId([1; 16])]));
}

#[test]
fn what_a_node_reports_comes_back() {
    let volume = |byte, standing| VolumeReport {
        node: "n1".to_owned(),
        ordinal: 3,
        path: "/data/v3".to_owned(),
        condition: Some(VolumeCondition::Suspect),
        reason: "slow".to_owned(),
        life: Some(Life(4)),
        standing,
        is_open: true,
        has_room: true,
        healed_since_ms: Some(5),
        total_bytes: 6,
        free_bytes: 7,
        ..VolumeReport::of(VolumeId([byte; 16]))
    };
    let standings =
        [VolumeStanding::Voting, VolumeStanding::Unconfirmed, VolumeStanding::Lost, VolumeStanding::Away];
    let report = NodeReport {
        version: "1".to_owned(),
        config_digest: Some([1; 32]),
        trusted_cas: vec![[2; 32], [3; 32]],
        credentials_proofs: vec![[4; 32], [14; 32]],
        topology_digest: Some([5; 32]),
        is_stopping: true,
        volumes: standings.map(|standing| volume(9, standing)).to_vec(),
        reports_waiting: 8,
        damage_age: Some(Duration::from_secs(9)),
        master_key_digest: Some([6; 32]),
        ..NodeReport::of("n1".to_owned(), ProcessId([7; 16]))
    };
    assert_eq!(NodeReport::from_wire(report.to_wire()), Ok(report));
}

#[test]
fn a_volume_without_an_id_is_left_out_and_a_condition_that_is_not_known_is_none() {
    let known = VolumeReport::of(VolumeId([1; 16])).to_wire();
    let strange = v1::VolumeReport { volume: Bytes::from_static(&[1; 15]), ..known.clone() };
    let later = v1::VolumeReport { state: 99, votes: true, lost: true, ..known.clone() };
    let online = v1::VolumeReport { state: v1::VolumeState::Online.into(), healed: true, ..known };
    let node = NodeReport::of("n1".to_owned(), ProcessId([7; 16])).to_wire();
    let node = v1::NodeState { volumes: vec![strange, later, online], ..node };
    let volumes = NodeReport::from_wire(node).expect("whole").volumes;
    let seen: Vec<_> =
        volumes.iter().map(|volume| (volume.condition, volume.standing, volume.healed_since_ms)).collect();
    assert_eq!(
        seen,
        [
            (None, VolumeStanding::Voting, None),
            (Some(VolumeCondition::Online), VolumeStanding::Away, Some(0)),
        ]
    );
}
