//! Values of core for property tests: each variant of each enum that travels, each option both ways.

use std::sync::Arc;

use bytes::Bytes;
use proptest::array::uniform16;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use sherd_core::heal::{DamagedData, HealEntry, HealId};
use sherd_core::id::{
    Ballot, BucketId, ChangeId, DataId, Epoch, Life, ObjectKey, PartKey, ProposerId, RegisterKey, Sequence,
    ShardId, Slot, Timestamp, UploadId, VersionId, VolumeId,
};
use sherd_core::limits::{CHANGE_IDS, LEASES_IN_CALL_MAX, PARTS_MAX, SET_VOLUMES_MAX, SLOTS};
use sherd_core::message::call::{RegisterCall, ShardCall, UpkeepCall};
use sherd_core::message::{
    self, AdoptedRow, Answer, Control, LeaseAnswer, ListPage, ListScan, ListedRow, LookPage, LookScan,
    PartsScan, PulledRow, ReadPurpose, ReaderLeases, RowPage, RowScan, ScannedRow, SeenShard,
    ShardFileHeader, ShardPage, ShardRange, ShardScan, ShownHead, Target, UnsettledKind, UnsettledPage,
    UnsettledRow, ValueLimit,
};
use sherd_core::placement;
use sherd_core::record::{
    Attributes, Body, Bucket, BucketPhase, ChangeTry, Changes, Content, Home, Object, State, Value, Version,
    VersionKind,
};
use sherd_core::register::heal::look::PeerCursor;
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::recover::opening::{Opening, OpeningHistory};
use sherd_core::register::{
    Accept, Answerer, CommitHint, DurableShards, EncodedValue, Positions, Prepare, Refusal, Row, RowHead,
    ValueOrigin, Vote,
};
use sherd_core::release::{ReleaseEntry, ReleaseId};

/// An inline object, and its bytes.
pub(super) fn inline_object(versions: &[&[u8]]) -> (Value, Bytes) {
    let version = |bytes: &&[u8]| Version {
        id: VersionId::NULL,
        modified_ms: 5,
        kind: VersionKind::Content(Content {
            size: bytes.len() as u64,
            etag: "e".to_owned(),
            attributes: Attributes::default(),
            checksums: sherd_core::record::Checksums::new(),
            upload: None,
            body: Body::Inline { hash: *blake3::hash(bytes).as_bytes() },
            entries: sherd_core::record::Entries::default(),
        }),
    };
    let object = Object { versions: versions.iter().map(version).collect(), uploads: Vec::new() };
    let value = Value { changes: Changes::default(), state: State::Object(object) };
    (value, versions.concat().into())
}

fn stamped() -> impl Strategy<Value = (Timestamp, ProposerId)> {
    (any::<u64>(), any::<u64>()).prop_map(|(time, maker)| (Timestamp::from_u64(time), ProposerId(maker)))
}

fn ballot() -> impl Strategy<Value = Ballot> {
    stamped().prop_map(|(time, proposer)| Ballot { time, proposer })
}

fn data_id() -> impl Strategy<Value = DataId> {
    stamped().prop_map(|(birth, proposer)| DataId { birth, proposer })
}

fn change_id() -> impl Strategy<Value = ChangeId> {
    stamped().prop_map(|(made, proposer)| ChangeId { made, proposer })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_u64)
}

fn volume_id() -> impl Strategy<Value = VolumeId> {
    uniform16(any::<u8>()).prop_map(VolumeId)
}

fn bucket_id() -> impl Strategy<Value = BucketId> {
    uniform16(any::<u8>()).prop_map(BucketId)
}

fn slot() -> impl Strategy<Value = Slot> {
    (0..SLOTS).prop_map(Slot)
}

fn epoch() -> impl Strategy<Value = Epoch> {
    any::<u64>().prop_map(Epoch)
}

fn life() -> impl Strategy<Value = Life> {
    any::<u32>().prop_map(Life)
}

fn limit() -> impl Strategy<Value = usize> {
    0..=crate::limits::PAGE_ROWS_MAX
}

fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), range).prop_map(Bytes::from)
}

fn register_key() -> impl Strategy<Value = RegisterKey> {
    let part = (uniform16(any::<u8>()), 0..=PARTS_MAX)
        .prop_map(|(upload, number)| PartKey { upload: UploadId(upload), number });
    let key = "\\PC{1,40}".prop_map(|text| ObjectKey::new(text).expect("1 to 40 characters of text"));
    (bucket_id(), key, option::of(part)).prop_map(|(bucket, key, part)| RegisterKey { bucket, key, part })
}

fn target() -> impl Strategy<Value = Target> {
    (register_key(), epoch()).prop_map(|(key, epoch)| {
        let slot = placement::slot(&key);
        Target::new(key, slot, epoch)
    })
}

fn position() -> impl Strategy<Value = (VolumeId, Position)> {
    (volume_id(), life(), any::<u64>(), any::<u64>()).prop_map(|(volume, life, opening, durable)| {
        (volume, Position { life, opening: OpeningId(opening), durable: Sequence(durable) })
    })
}

fn openings() -> impl Strategy<Value = OpeningHistory> {
    let opening =
        (any::<u64>(), any::<u64>()).prop_map(|(id, end)| Opening { id: OpeningId(id), end: Sequence(end) });
    (life(), vec(opening, 0..4)).prop_map(|(life, openings)| OpeningHistory::new(life, openings))
}

fn asker() -> impl Strategy<Value = Asker> {
    (volume_id(), openings()).prop_map(|(volume, openings)| Asker { volume, openings })
}

fn positions() -> impl Strategy<Value = Positions> {
    vec(position(), 0..4).prop_map(Into::into)
}

fn peer_life() -> impl Strategy<Value = (VolumeId, Life)> {
    (volume_id(), life())
}

/// Values with their inline bytes.
fn value() -> impl Strategy<Value = (Value, Bytes)> {
    let phase = prop_oneof![
        Just(BucketPhase::Active),
        change_id().prop_map(|deletion| BucketPhase::Deleting { deletion }),
        Just(BucketPhase::Deleted),
    ];
    let bucket = (bucket_id(), phase).prop_map(|(id, phase)| {
        State::Bucket(Bucket {
            id,
            created_ms: 7,
            location: "here".to_owned(),
            phase,
            tags: Vec::new(),
            entries: sherd_core::record::Entries::default(),
        })
    });
    let state = prop_oneof![
        Just((State::Tombstone, Bytes::new())),
        bucket.prop_map(|state| (state, Bytes::new())),
        vec(vec(any::<u8>(), 0..50), 0..3).prop_map(|bodies| {
            let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
            let (value, inline) = inline_object(&bodies);
            (value.state, inline)
        }),
    ];
    let made = (change_id(), any::<u16>()).prop_map(|(change, number)| ChangeTry { change, number });
    (any::<u64>(), vec(made, 0..=CHANGE_IDS), state).prop_map(|(count, recent, (state, inline))| {
        (Value { changes: Changes { count, recent, ..Changes::default() }, state }, inline)
    })
}

fn encoded_value() -> impl Strategy<Value = EncodedValue> {
    value().prop_map(|(value, inline)| EncodedValue::of(&value, inline).expect("within its limits"))
}

fn head_of(value: &Bytes, ballot: Ballot, committed: bool) -> RowHead {
    RowHead { ballot, digest: Value::digest(value), committed }
}

fn row() -> impl Strategy<Value = Row> {
    (encoded_value(), ballot(), any::<bool>(), any::<bool>()).prop_map(
        |(value, ballot, committed, want_value)| Row {
            head: head_of(&value.head, ballot, committed),
            value_bytes: u32::try_from(value.head.len()).expect("within its limits"),
            value: want_value.then_some(value.head),
        },
    )
}

fn adopted_row() -> impl Strategy<Value = AdoptedRow> {
    let flags = (any::<bool>(), any::<bool>());
    let parts = (register_key(), encoded_value(), ballot(), flags);
    parts.prop_map(|(key, value, ballot, (committed, is_missed))| {
        let head = head_of(&value.head, ballot, committed);
        AdoptedRow { key, head, value, is_missed }
    })
}

fn pulled_row() -> impl Strategy<Value = PulledRow> {
    (encoded_value(), ballot(), any::<bool>()).prop_map(|(value, ballot, committed)| PulledRow {
        head: head_of(&value.head, ballot, committed),
        value,
    })
}

fn scanned_row() -> impl Strategy<Value = ScannedRow> {
    let parts = (register_key(), row(), any::<bool>(), any::<bool>());
    parts.prop_map(|(key, row, tombstone, is_missed)| ScannedRow { key, row, tombstone, is_missed })
}

fn heal_entry() -> impl Strategy<Value = HealEntry> {
    (register_key(), option::of(data_id()), any::<u64>()).prop_map(|(key, data, since_ms)| HealEntry {
        key,
        data: data.map(DamagedData::Id),
        since_ms,
    })
}

fn release_entry() -> impl Strategy<Value = ReleaseEntry> {
    (register_key(), any::<u64>()).prop_map(|(key, since_ms)| ReleaseEntry {
        key,
        data: Vec::new(),
        since_ms,
    })
}

fn accept() -> impl Strategy<Value = Accept> {
    (ballot(), encoded_value(), vec(data_id(), 0..4), any::<bool>(), positions(), value_origin()).prop_map(
        |(ballot, value, introduces, finishes, positions, origin)| Accept {
            ballot,
            value,
            introduces,
            finishes,
            positions,
            origin,
        },
    )
}

fn value_origin() -> impl Strategy<Value = ValueOrigin> {
    let shards = (data_id(), vec(peer_life(), 0..4));
    let shards = shards.prop_map(|(data, lives)| DurableShards { data, lives: lives.into() });
    (vec(shards, 0..3), option::of(ballot()))
        .prop_map(|(durable, made_from)| ValueOrigin { durable: durable.into(), made_from })
}

fn guarantees() -> impl Strategy<Value = Guarantees> {
    (ballot(), ballot(), ballot(), timestamp(), vec(peer_life(), 0..3)).prop_map(
        |(bound, floor, highest, data_floor, lives)| Guarantees { bound, floor, highest, data_floor, lives },
    )
}

fn control() -> impl Strategy<Value = Control> {
    prop_oneof![
        peer_life().prop_map(|(volume, life)| Control::RecordLife { volume, life }),
        ballot().prop_map(|floor| Control::RaiseFloor { floor }),
        timestamp().prop_map(|floor| Control::RaiseDataFloor { floor }),
        (slot(), epoch()).prop_map(|(slot, epoch)| Control::RecordEpoch { slot, epoch }),
        (bucket_id(), change_id(), epoch()).prop_map(|(bucket, deletion, epoch)| Control::Seal {
            bucket,
            deletion,
            epoch
        }),
        (bucket_id(), change_id()).prop_map(|(bucket, deletion)| Control::Unseal { bucket, deletion }),
        bucket_id().prop_map(|bucket| Control::SealForEver { bucket }),
        (guarantees(), seals()).prop_map(|(guarantees, seals)| Control::TakeGuarantees { guarantees, seals }),
        positions().prop_map(|remembered| Control::FinishRecovery { remembered }),
        Just(Control::ForceRecovery),
    ]
}

fn list_scan() -> impl Strategy<Value = ListScan> {
    let text = || bytes(0..20);
    let bounds = (limit(), 1..=u32::MAX);
    (bucket_id(), epoch(), option::of(change_id()), text(), text(), option::of(text()), bounds).prop_map(
        |(bucket, epoch, deletion, prefix, from, delimiter, (limit, passed_max))| ListScan {
            bucket,
            epoch,
            deletion,
            prefix,
            from,
            delimiter,
            limit,
            passed_max,
        },
    )
}

fn parts_scan() -> impl Strategy<Value = PartsScan> {
    (bucket_id(), uniform16(any::<u8>()), slot(), epoch(), option::of(0..=PARTS_MAX), limit()).prop_map(
        |(bucket, upload, slot, epoch, after, limit)| PartsScan {
            bucket,
            upload: UploadId(upload),
            slot,
            epoch,
            after,
            limit,
        },
    )
}

fn row_scan() -> impl Strategy<Value = RowScan> {
    (epoch(), option::of(register_key()), any::<u64>(), any::<u64>(), limit(), any::<bool>()).prop_map(
        |(epoch, after, since, until, limit, want_value)| RowScan {
            epoch,
            after,
            since: Sequence(since),
            until: Sequence(until),
            limit,
            want_value,
        },
    )
}

fn value_limit() -> impl Strategy<Value = ValueLimit> {
    any::<u32>().prop_map(ValueLimit::of)
}

/// Every call to a register.
pub(super) fn register_request() -> impl Strategy<Value = RegisterCall> {
    use RegisterCall as Request;
    let named = || (target(), ballot());
    prop_oneof![
        (named(), value_limit()).prop_map(|((target, ballot), values)| Request::Prepare {
            target,
            prepare: Prepare { ballot },
            values,
        }),
        (target(), accept(), option::of(heal_entry())).prop_map(|(target, accept, heal)| Request::Accept {
            target,
            accept,
            heal
        }),
        (named(), positions(), any::<bool>()).prop_map(|((target, ballot), positions, is_everywhere)| {
            Request::Commit { target, commit: CommitHint { ballot, is_everywhere, positions } }
        }),
        (target(), value_limit()).prop_map(|(target, values)| Request::Read { target, values }),
        named().prop_map(|(target, ballot)| Request::Inline { target, ballot }),
        register_key().prop_map(|key| Request::VerifyRow { key }),
        list_scan().prop_map(|scan| Request::List { scan }),
        parts_scan().prop_map(|scan| Request::Parts { scan }),
        row_scan().prop_map(|scan| Request::Rows { scan }),
        (unsettled_kind(), option::of(register_key()), limit())
            .prop_map(|(kind, after, limit)| Request::Unsettled { kind, after, limit }),
        look_scan().prop_map(|scan| Request::RowsBehind { scan }),
        control().prop_map(|control| Request::Control { control }),
        vec(adopted_row(), 0..3).prop_map(|rows| Request::Adopt { rows }),
        (target(), pulled_row()).prop_map(|(target, row)| Request::Pull { target, row }),
        named().prop_map(|(target, ballot)| Request::DropRow { target, ballot }),
    ]
}

pub(super) fn answerer() -> impl Strategy<Value = Answerer> {
    (life(), any::<bool>(), vec(peer_life(), 0..3), any::<u64>(), any::<u64>()).prop_map(
        |(life, votes, peers, opening, durable)| Answerer {
            life,
            votes,
            peers: Arc::from(peers),
            opening: OpeningId(opening),
            durable: Sequence(durable),
        },
    )
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        ballot().prop_map(|bound| Refusal::Below { bound }),
        timestamp().prop_map(|latest| Refusal::TooFarAhead { latest }),
        epoch().prop_map(|epoch| Refusal::StaleEpoch { epoch }),
        Just(Refusal::Sealed),
        timestamp().prop_map(|floor| Refusal::DataTooOld { floor }),
        Just(Refusal::Recovering),
    ]
}

/// A result of the seam: an answer, or a failure of any kind.
pub(super) fn result_of<A: std::fmt::Debug + Clone>(
    answer: impl Strategy<Value = A>,
) -> impl Strategy<Value = message::Result<A>> {
    let error = prop_oneof![
        Just(message::Error::NotFound),
        "\\PC{0,40}".prop_map(|what| message::Error::Corrupt { what }),
        Just(message::Error::Full),
        Just(message::Error::Busy),
        refusal().prop_map(message::Error::Refused),
        "\\PC{0,40}".prop_map(|reason| message::Error::Unreachable { reason }),
    ];
    prop_oneof![3 => answer.prop_map(Ok), 1 => error.prop_map(Err)]
}

/// An acceptor's answer: what was asked for, or a refusal.
pub(super) fn answer_of<R: std::fmt::Debug + Clone>(
    inner: impl Strategy<Value = R>,
) -> impl Strategy<Value = Answer<R>> {
    let result = prop_oneof![3 => inner.prop_map(Ok), 1 => refusal().prop_map(Err)];
    (answerer(), result).prop_map(|(from, result)| Answer { from, result })
}

pub(super) fn vote() -> impl Strategy<Value = Vote> {
    (option::of(row()), ballot()).prop_map(|(row, floor)| Vote { row, floor })
}

pub(super) fn list_page() -> impl Strategy<Value = ListPage> {
    let entry = prop_oneof![
        scanned_row().prop_map(ListedRow::Row),
        (bytes(0..20), scanned_row()).prop_map(|(prefix, witness)| ListedRow::Prefix { prefix, witness }),
    ];
    (vec(entry, 0..4), option::of(bytes(0..20)), any::<u32>(), ballot())
        .prop_map(|(entries, next, hidden, floor)| ListPage { entries, next, hidden, floor })
}

pub(super) fn scanned_rows() -> impl Strategy<Value = Vec<ScannedRow>> {
    vec(scanned_row(), 0..4)
}

pub(super) fn row_page() -> impl Strategy<Value = RowPage> {
    (scanned_rows(), option::of(register_key())).prop_map(|(rows, next)| RowPage { rows, next })
}

fn unsettled_kind() -> impl Strategy<Value = UnsettledKind> {
    prop_oneof![Just(UnsettledKind::Uncommitted), Just(UnsettledKind::Missed)]
}

fn look_scan() -> impl Strategy<Value = LookScan> {
    let cursor =
        (life(), any::<u64>()).prop_map(|(life, sequence)| PeerCursor { life, sequence: Sequence(sequence) });
    (option::of(cursor), epoch(), option::of(register_key()), limit())
        .prop_map(|(cursor, epoch, after, limit)| LookScan { cursor, epoch, after, limit })
}

pub(super) fn look_page() -> impl Strategy<Value = LookPage> {
    let head = (encoded_value(), ballot(), any::<bool>())
        .prop_map(|(value, ballot, committed)| head_of(&value.head, ballot, committed));
    let row = (register_key(), head, any::<u64>()).prop_map(|(key, head, sequence)| ShownHead {
        key,
        head,
        sequence: Sequence(sequence),
    });
    (vec(row, 0..4), any::<u64>(), option::of(register_key())).prop_map(|(rows, horizon, next)| LookPage {
        rows,
        horizon: Sequence(horizon),
        next,
    })
}

pub(super) fn unsettled() -> impl Strategy<Value = UnsettledPage> {
    let row = (register_key(), ballot()).prop_map(|(key, ballot)| UnsettledRow { key, ballot });
    (vec(row, 0..4), option::of(register_key())).prop_map(|(rows, next)| UnsettledPage { rows, next })
}

pub(super) fn reported_guarantees() -> impl Strategy<Value = Guarantees> {
    guarantees()
}

fn shard_id() -> impl Strategy<Value = ShardId> {
    let index = 0..u8::try_from(SET_VOLUMES_MAX).expect("an index fits a byte");
    (data_id(), index).prop_map(|(data, index)| ShardId { data, index })
}

fn home() -> impl Strategy<Value = Home> {
    prop_oneof![Just(Home::Packed), Just(Home::File)]
}

fn reader_leases() -> impl Strategy<Value = ReaderLeases> {
    (any::<u64>(), vec(data_id(), 0..4), any::<bool>()).prop_map(|(holder, data, is_end)| ReaderLeases {
        holder: ProposerId(holder),
        data,
        is_end,
    })
}

pub(super) fn lease_answer() -> impl Strategy<Value = LeaseAnswer> {
    (0..=u32::try_from(LEASES_IN_CALL_MAX).expect("few"))
        .prop_map(|refused_count| LeaseAnswer { refused_count })
}

/// Every small call for shards.
pub(super) fn shard_request() -> impl Strategy<Value = ShardCall> {
    let after = || option::of(shard_id());
    prop_oneof![
        (shard_id(), home()).prop_map(|(shard, home)| ShardCall::Delete { shard, home }),
        (shard_id(), home()).prop_map(|(shard, home)| ShardCall::Length { shard, home }),
        (shard_id(), home()).prop_map(|(shard, home)| ShardCall::Verify { shard, home }),
        (shard_id(), home()).prop_map(|(shard, home)| ShardCall::Release { shard, home }),
        reader_leases().prop_map(|leases| ShardCall::Leases { leases }),
        (after(), limit())
            .prop_map(|(after, limit)| ShardCall::Page { scan: ShardScan::Packed { after, limit } }),
        (any::<u8>(), after(), limit()).prop_map(|(directory, after, limit)| {
            ShardCall::Page { scan: ShardScan::Files { directory, after, limit } }
        }),
    ]
}

pub(super) fn shard_range() -> impl Strategy<Value = ShardRange> {
    let wanted = prop_oneof![Just(ReadPurpose::ByClient), Just(ReadPurpose::ByUpkeep)];
    (shard_id(), home(), 0..1_u64 << 31, 0..1_u64 << 31, wanted)
        .prop_map(|(shard, home, offset, length, wanted)| ShardRange { shard, home, offset, length, wanted })
}

pub(super) fn shard_file() -> impl Strategy<Value = ShardFileHeader> {
    let code = (1..=16_u8, 0..=16_u8).prop_flat_map(|(k, m)| (Just(k), Just(m), 0..k + m));
    (data_id(), code, register_key(), 1..=1_u32 << 22, 1..=1_u64 << 32).prop_map(
        |(data, (data_shards, parity_shards, index), key, stripe_unit, shard_bytes)| ShardFileHeader {
            shard: ShardId { data, index },
            key,
            data_shards,
            parity_shards,
            stripe_unit,
            shard_bytes,
        },
    )
}

pub(super) fn shard_page() -> impl Strategy<Value = ShardPage> {
    let seen = (shard_id(), register_key(), any::<bool>()).prop_map(|(shard, key, is_whole)| SeenShard {
        shard,
        key,
        is_whole,
    });
    (vec(seen, 0..4), option::of(shard_id())).prop_map(|(shards, next)| ShardPage { shards, next })
}

/// Every call of upkeep.
pub(super) fn upkeep_request() -> impl Strategy<Value = UpkeepCall> {
    use UpkeepCall as Request;
    let id = || uniform16(any::<u8>());
    prop_oneof![
        (option::of(id()), limit())
            .prop_map(|(after, limit)| Request::Heals { after: after.map(HealId), limit }),
        heal_entry().prop_map(|entry| Request::HealPut { entry }),
        id().prop_map(|id| Request::HealDone { id: HealId(id) }),
        (option::of(id()), limit())
            .prop_map(|(after, limit)| Request::Releases { after: after.map(ReleaseId), limit }),
        release_entry().prop_map(|entry| Request::ReleasePut { entry }),
        id().prop_map(|id| Request::ReleaseDone { id: ReleaseId(id) }),
        Just(Request::Guarantees {}),
        option::of(asker()).prop_map(|asker| Request::Remembers { asker }),
        Just(Request::Position {}),
        (option::of(bucket_id()), limit()).prop_map(|(after, limit)| Request::Seals { after, limit }),
    ]
}

pub(super) fn heals() -> impl Strategy<Value = Vec<(HealId, Bytes)>> {
    vec((uniform16(any::<u8>()).prop_map(HealId), bytes(0..40)), 0..4)
}

pub(super) fn releases() -> impl Strategy<Value = Vec<(ReleaseId, Bytes)>> {
    vec((uniform16(any::<u8>()).prop_map(ReleaseId), bytes(0..40)), 0..4)
}

pub(super) fn memory() -> impl Strategy<Value = Memory> {
    (any::<bool>(), vec(position(), 0..4), openings()).prop_map(|(is_whole, positions, openings)| Memory {
        is_whole,
        positions,
        openings,
    })
}

pub(super) fn seals() -> impl Strategy<Value = Vec<(BucketId, Vec<ChangeId>)>> {
    vec((bucket_id(), vec(change_id(), 0..3)), 0..4)
}

pub(super) fn some_life() -> impl Strategy<Value = Life> {
    life()
}

pub(super) fn some_bytes() -> impl Strategy<Value = Bytes> {
    bytes(0..60)
}
