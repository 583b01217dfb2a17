//! Values of every shape for property tests: each variant of each enum, each option both ways.

use proptest::array::uniform16;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::id::{ObjectKey, PartKey, ProposerId, RegisterKey, Timestamp};
use crate::limits;

/// Values.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    (changes(), state()).prop_map(|(changes, state)| Value { changes, state })
}

/// Parts as a completed upload lists them.
pub(crate) fn parts(count_max: usize) -> impl Strategy<Value = Vec<PartRef>> {
    vec(part_ref(), 1..=count_max).prop_map(|mut parts| {
        parts.sort_by_key(|part| part.number);
        parts.dedup_by_key(|part| part.number);
        parts
    })
}

/// Register keys of objects and of parts.
pub(crate) fn register_key() -> impl Strategy<Value = RegisterKey> {
    let part = (uniform16(any::<u8>()), prop_oneof![Just(PartKey::ATTRIBUTES), part_number()])
        .prop_map(|(upload, number)| PartKey { upload: UploadId(upload), number });
    let key = "\\PC{1,40}".prop_map(|text| ObjectKey::new(text).expect("1 to 40 characters of text"));
    (uniform16(any::<u8>()), key, option::of(part)).prop_map(|(bucket, key, part)| RegisterKey {
        bucket: BucketId(bucket),
        key,
        part,
    })
}

/// Data references.
pub(crate) fn data_ref() -> impl Strategy<Value = DataRef> {
    let geometry = (1..=32_u8).prop_flat_map(|k| (Just(k), 0..=(32 - k)));
    (
        data_id(),
        (0..limits::VOLUMES_MAX).prop_map(|set| SetId(u32::try_from(set).expect("few"))),
        1..=limits::DATA_BYTES_MAX,
        geometry,
        1..=limits::STRIPE_UNIT_BYTES_MAX,
        prop_oneof![Just(Home::Packed), Just(Home::File)],
    )
        .prop_map(|(id, set, size, (data_shards, parity_shards), stripe_unit, home)| DataRef {
            id,
            set,
            size,
            data_shards,
            parity_shards,
            stripe_unit,
            home,
        })
}

/// Data ids.
pub(crate) fn data_id() -> impl Strategy<Value = DataId> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(birth, maker)| DataId { birth: Timestamp::from_u64(birth), proposer: ProposerId(maker) })
}

fn changes() -> impl Strategy<Value = Changes> {
    let few = vec(conditional_change(), 1..=limits::CONDITIONAL_CHANGES_MIN);
    let many = vec(conditional_change(), limits::CONDITIONAL_CHANGES_MAX);
    let conditional = prop_oneof![5 => Just(Vec::new()), 5 => few, 1 => many];
    (any::<u64>(), vec(change_try(), 0..=limits::CHANGE_IDS), conditional)
        .prop_map(|(count, recent, conditional)| Changes { count, recent, conditional })
}

fn conditional_change() -> impl Strategy<Value = ConditionalChange> {
    (uniform16(any::<u8>()), any::<u32>(), kept_answer())
        .prop_map(|(token, second, answer)| ConditionalChange { token: CallToken(token), second, answer })
}

fn kept_answer() -> impl Strategy<Value = KeptAnswer> {
    (option::of("[0-9a-f]{1,40}"), option::of(uniform16(any::<u8>()))).prop_map(|(etag, version)| {
        KeptAnswer { etag: etag.map(String::into_boxed_str), version: version.map(VersionId) }
    })
}

fn change_try() -> impl Strategy<Value = ChangeTry> {
    (change_id(), any::<u16>()).prop_map(|(change, number)| ChangeTry { change, number })
}

fn change_id() -> impl Strategy<Value = ChangeId> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(made, maker)| ChangeId { made: Timestamp::from_u64(made), proposer: ProposerId(maker) })
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        1 => Just(State::Tombstone),
        6 => object().prop_map(State::Object),
        2 => (any::<u64>(), part_ref()).prop_map(|(modified_ms, part)| State::Part(Part { modified_ms, part })),
        2 => bucket().prop_map(State::Bucket),
        1 => attributes().prop_map(State::UploadAttributes),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    (vec(version(), 0..4), vec(upload(), 0..4)).prop_map(|(versions, uploads)| Object { versions, uploads })
}

fn version() -> impl Strategy<Value = Version> {
    let kind = prop_oneof![
        1 => Just(VersionKind::DeleteMarker),
        4 => content().prop_map(VersionKind::Content),
    ];
    (uniform16(any::<u8>()), any::<u64>(), kind).prop_map(|(id, modified_ms, kind)| Version {
        id: VersionId(id),
        modified_ms,
        kind,
    })
}

fn content() -> impl Strategy<Value = Content> {
    (
        0..=limits::OBJECT_BYTES_MAX,
        "[0-9a-f]{32}(-[0-9]{1,5})?",
        attributes(),
        vec(checksum(), 0..=limits::CHECKSUMS_MAX),
        option::of(uniform16(any::<u8>()).prop_map(UploadId)),
        body(),
        entries(),
    )
        .prop_map(|(size, etag, attributes, checksums, upload, body, entries)| Content {
            size,
            etag,
            attributes,
            checksums: checksums.into(),
            upload,
            body,
            entries,
        })
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(|hash| Body::Inline { hash }),
        data_ref().prop_map(Body::Data),
        parts(5).prop_map(Body::Parts),
        (data_ref(), part_number()).prop_map(|(page, parts)| Body::Manifest { page, parts }),
    ]
}

fn part_ref() -> impl Strategy<Value = PartRef> {
    (part_number(), uniform16(any::<u8>()), option::of(checksum()), option::of(data_ref()))
        .prop_map(|(number, tag, checksum, data)| PartRef { number, tag, checksum, data })
}

fn part_number() -> impl Strategy<Value = u16> {
    1..=limits::PARTS_MAX
}

fn checksum() -> impl Strategy<Value = Checksum> {
    (algorithm(), option::of(part_number()), vec(any::<u8>(), 64)).prop_map(
        |(algorithm, composite_of, bytes)| Checksum {
            algorithm,
            composite_of,
            value: ChecksumBytes::from_slice(&bytes[..algorithm.bytes()]),
        },
    )
}

fn algorithm() -> impl Strategy<Value = ChecksumAlgorithm> {
    proptest::sample::select(&ChecksumAlgorithm::ALL[..])
}

fn attributes() -> impl Strategy<Value = Attributes> {
    vec(("[a-z-]{1,20}", "\\PC{0,20}"), 0..5).prop_map(|pairs| Attributes { pairs })
}

fn upload() -> impl Strategy<Value = Upload> {
    let kind = prop_oneof![Just(ChecksumKind::Composite), Just(ChecksumKind::FullObject)];
    let attributes = option::of(attributes());
    (uniform16(any::<u8>()), any::<u64>(), attributes, option::of((algorithm(), kind))).prop_map(
        |(id, initiated_ms, attributes, checksum)| Upload {
            id: UploadId(id),
            initiated_ms,
            attributes,
            checksum,
        },
    )
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let phase = prop_oneof![
        Just(BucketPhase::Active),
        change_id().prop_map(|deletion| BucketPhase::Deleting { deletion }),
        Just(BucketPhase::Deleted),
    ];
    let tags = vec(("\\PC{1,20}", "\\PC{0,20}").prop_map(|(key, value)| Tag { key, value }), 0..4);
    (uniform16(any::<u8>()), any::<u64>(), "[a-z0-9-]{0,20}", phase, tags, entries()).prop_map(
        |(id, created_ms, location, phase, tags, entries)| Bucket {
            id: BucketId(id),
            created_ms,
            location,
            phase,
            tags,
            entries,
        },
    )
}

fn entries() -> impl Strategy<Value = Entries> {
    let some = vec((any::<u16>(), vec(any::<u8>(), 0..40)), 1..=limits::ENTRIES_MAX).prop_map(|list| {
        let mut entries = Entries::default();
        for (kind, bytes) in list {
            entries.set(kind, bytes.into());
        }
        entries
    });
    prop_oneof![2 => Just(Entries::default()), 1 => some]
}
