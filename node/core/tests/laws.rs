//! The laws that hold between the parts of core: an object's bytes go through stripes, code and
//! placement to volumes and come back although a node and its volumes are gone; keys and data are
//! spread evenly; a topology that changes in one place leaves everything else where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use sherd_core::checksum::{self, BlockHasher};
use sherd_core::erasure::{Availability, Code, Geometry};
use sherd_core::id::{
    BucketId, ChangeId, ClusterId, DataId, NodeId, ObjectKey, PartKey, ProposerId, RegisterKey, SetId, Slot,
    Timestamp, UploadId, VolumeId,
};
use sherd_core::record::{ChangeTry, Changes, DataRef, Home, Part, PartRef, State, Value};
use sherd_core::stripe::{Layout, Piece};
use sherd_core::topology::{GeometryRequest, PoolNode, Topology};
use sherd_core::{limits, placement};

/// Nodes and volumes per node of the pools in the design's table that can lose a node.
const POOLS: [(u8, u8); 6] = [(3, 1), (3, 2), (4, 1), (4, 4), (4, 8), (6, 2)];

fn a_topology(nodes: u8, volumes: u8) -> Topology {
    let pool: Vec<PoolNode> = (0..nodes)
        .map(|node| PoolNode {
            id: NodeId([node; 16]),
            name: String::new(),
            zone: None,
            volumes: (0..volumes).map(|ordinal| volume(node, ordinal)).collect(),
        })
        .collect();
    Topology::form(ClusterId([9; 16]), &pool, GeometryRequest::default())
        .expect("a pool of the table")
        .topology
}

fn volume(node: u8, ordinal: u8) -> VolumeId {
    let mut id = [0xaa; 16];
    (id[0], id[1]) = (node, ordinal);
    VolumeId(id)
}

fn object(name: String) -> RegisterKey {
    RegisterKey::object(BucketId([5; 16]), ObjectKey::new(name).expect("a key"))
}

fn data_id(birth: u64) -> DataId {
    DataId { birth: Timestamp::from_u64(birth), proposer: ProposerId(0x5eed) }
}

fn sample(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("tests use small objects")
}

fn in_memory(range: &Range<u64>) -> Range<usize> {
    at(range.start)..at(range.end)
}

/// Whether every count is within `percent` of the mean.
fn even(counts: &[usize], percent: usize) -> bool {
    let mean = counts.iter().sum::<usize>() / counts.len();
    counts.iter().all(|count| count.abs_diff(mean) * 100 <= percent * mean)
}

#[test]
fn keys_spread_evenly_over_slots_and_sets() {
    let topology = a_topology(4, 8);
    let mut by_set: BTreeMap<SetId, usize> = BTreeMap::new();
    let mut by_slot_range = [0_usize; 64];
    for index in 0..40_000 {
        // Names as people give them: long common beginnings, counting ends.
        let slot = placement::slot(&object(format!("logs/2024/05/17/host-0042/part-{index:08}.gz")));
        assert!(Topology::has_slot(slot));
        *by_set.entry(topology.owner(slot)).or_default() += 1;
        by_slot_range[usize::from(slot.0) / 256] += 1;
    }
    assert_eq!(by_set.len(), topology.sets().len());
    assert!(even(&by_set.into_values().collect::<Vec<_>>(), 5));
    assert!(even(&by_slot_range, 25));
}

#[test]
fn shards_of_one_index_spread_evenly_over_the_volumes() {
    let topology = a_topology(6, 2);
    let set = topology.set_of(Slot(0));
    let mut firsts: BTreeMap<VolumeId, usize> = BTreeMap::new();
    for birth in 0..24_000 {
        *firsts.entry(set.home(data_id(birth), 0)).or_default() += 1;
    }
    assert_eq!(firsts.len(), 12);
    assert!(even(&firsts.into_values().collect::<Vec<_>>(), 10));
}

#[test]
fn giving_one_set_another_volume_leaves_everything_else() {
    let topology = a_topology(4, 4);
    let (out, into) = (volume(1, 1), VolumeId([0xee; 16]));
    let text = serde_json::to_string(&topology).expect("a topology is JSON");
    let text = text.replace(&out.to_string(), &into.to_string());
    let changed: Topology = serde_json::from_str(&text).expect("still a topology");
    let mut moved = 0;
    for birth in 0..200 {
        let slot = placement::slot(&object(format!("{birth}")));
        let (before, after) = (topology.set_of(slot), changed.set_of(slot));
        assert_eq!(before.geometry(), after.geometry());
        for index in 0..8 {
            let (before, after) = (before.home(data_id(birth), index), after.home(data_id(birth), index));
            assert!(before == after || (before, after) == (out, into));
            moved += usize::from(before != after);
        }
    }
    assert!((50..150).contains(&moved), "one shard of every object in one of two sets, not {moved}");
}

#[test]
fn data_that_is_durable_enough_survives_any_node_of_the_table() {
    for (nodes, volumes) in POOLS {
        let topology = a_topology(nodes, volumes);
        for set in topology.sets() {
            assert_eq!(set.geometry().standing(set.volumes_per_node()), Availability::AllWorks);
            let durable = set.durable_enough(true);
            assert!(durable - set.volumes_per_node() >= set.geometry().data_shards());
            let up = set.volumes().len() - set.volumes_per_node();
            assert!(set.durable_enough(false) <= up, "a write must succeed with a node down");
        }
    }
}

/// Writes an object's shards as a gateway does: stripe by stripe, each shard to its home.
fn store(topology: &Topology, layout: &Layout, id: DataId, body: &[u8]) -> BTreeMap<VolumeId, Vec<u8>> {
    let geometry = layout.geometry();
    let mut shards = vec![Vec::new(); geometry.volumes()];
    for stripe in 0..layout.stripes() {
        let unit = at(u64::from(layout.unit(stripe)));
        let mut padded = body[in_memory(&layout.stripe_range(stripe))].to_vec();
        padded.resize(unit * geometry.data_shards(), 0);
        let data: Vec<&[u8]> = padded.chunks(unit).collect();
        let mut parity = vec![vec![0; unit]; geometry.parity_shards()];
        let mut buffers: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        Code::of(geometry).encode(&data, &mut buffers);
        for (shard, unit) in shards.iter_mut().zip(data.into_iter().chain(parity.iter().map(Vec::as_slice))) {
            shard.extend_from_slice(unit);
        }
    }
    let set = topology.set_of(Slot(7));
    (0..).zip(shards).map(|(index, shard)| (set.home(id, index), shard)).collect()
}

/// Reads a range from the volumes that are there, rebuilding the data shards that are not.
fn load(
    topology: &Topology,
    layout: &Layout,
    id: DataId,
    stored: &BTreeMap<VolumeId, Vec<u8>>,
    range: Range<u64>,
) -> Vec<u8> {
    let set = topology.set_of(Slot(7));
    let mut shards: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for (volume, shard) in stored {
        let position = set.position(*volume).expect("a volume of the set");
        shards.insert(placement::shard_at(id, position, set.volumes().len()), shard.clone());
    }
    let data_shards = u8::try_from(layout.geometry().data_shards()).expect("few");
    let lost: Vec<u8> = (0..data_shards).filter(|index| !shards.contains_key(index)).collect();
    let mut rebuilt = vec![vec![0; at(layout.shard_bytes())]; lost.len()];
    let present: Vec<(u8, &[u8])> = shards.iter().map(|(index, shard)| (*index, shard.as_slice())).collect();
    let mut missing: Vec<(u8, &mut [u8])> =
        lost.iter().copied().zip(rebuilt.iter_mut().map(Vec::as_mut_slice)).collect();
    Code::of(layout.geometry()).reconstruct(&present, &mut missing).expect("k shards are there");
    shards.extend(lost.into_iter().zip(rebuilt));
    let bytes =
        |piece: Piece| shards[&piece.shard][in_memory(&(piece.offset..piece.offset + piece.length))].to_vec();
    layout.pieces(range).flat_map(bytes).collect()
}

proptest! {
    #[test]
    fn an_object_comes_back_without_any_one_node(
        pool in prop::sample::select(POOLS.to_vec()),
        length in 0..5000_usize,
        unit in 1..600_u32,
        birth: u64,
        lost_node: u8,
        start in 0..5000_u64,
        wide in 0..5000_u64,
    ) {
        let topology = a_topology(pool.0, pool.1);
        let size = u64::try_from(length).expect("small");
        let geometry = topology.set_of(Slot(7)).geometry();
        let layout = Layout::new(size, geometry, unit).expect("small");
        let body = sample(length, birth);
        let mut stored = store(&topology, &layout, data_id(birth), &body);
        prop_assert_eq!(stored.len(), geometry.volumes(), "one shard per volume");
        let lost = NodeId([lost_node % pool.0; 16]);
        stored.retain(|id, _| topology.volume(*id).is_some_and(|volume| volume.node != lost));
        let read = load(&topology, &layout, data_id(birth), &stored, start..start + wide);
        prop_assert_eq!(read, &body[in_memory(&(start.min(size)..(start + wide).min(size)))]);
    }

    #[test]
    fn the_shards_of_one_data_id_are_on_different_volumes(
        birth: u64,
        volumes in 1..=limits::SET_VOLUMES_MAX,
    ) {
        let mut homes = BTreeSet::new();
        for index in 0..u8::try_from(volumes).expect("at most 32") {
            let position = placement::home(data_id(birth), index, volumes);
            prop_assert_eq!(placement::shard_at(data_id(birth), position, volumes), index);
            homes.insert(position);
        }
        prop_assert_eq!(homes.len(), volumes);
    }

    #[test]
    fn parts_live_in_the_slot_of_their_object(
        name in "\\PC{1,50}",
        upload: [u8; 16],
        number in 1..=10_000_u16,
    ) {
        let whole = object(name);
        let part = PartKey { upload: UploadId(upload), number };
        let part = RegisterKey::part(whole.bucket, whole.key.clone(), part);
        prop_assert_eq!(placement::slot(&part), placement::slot(&whole));
    }

    #[test]
    fn losing_more_never_helps(k in 1..=16_u8, m in 0..=16_u8, down in 0..40_usize) {
        let geometry = Geometry::new(k, m).expect("at most 32");
        let standing = geometry.standing(down);
        prop_assert!(geometry.standing(down + 1) <= standing);
        let up = geometry.volumes().saturating_sub(down);
        if standing == Availability::AllWorks {
            prop_assert!(2 * up > geometry.volumes());
            prop_assert!(placement::durable_enough(geometry, down.max(1), down == 0) <= geometry.volumes());
        }
        if standing >= Availability::CommittedReads {
            prop_assert!(up >= geometry.data_shards());
        }
    }

    #[test]
    fn data_that_a_record_names_can_be_laid_out_and_verified(
        size in 1..200_000_u64,
        data_shards in 1..=8_u8,
        stripe_unit in 1..100_000_u32,
    ) {
        let data =
            DataRef { id: data_id(size), set: SetId(0), size, data_shards, parity_shards: 2, stripe_unit, home: Home::File };
        let part = PartRef { number: 1, tag: [0; 16], checksum: None, data: Some(data) };
        let change = ChangeId { made: Timestamp::from_u64(1), proposer: ProposerId(2) };
        let change = ChangeTry { change, number: 1 };
        let value = Value {
            changes: Changes::default().after(change),
            state: State::Part(Part { modified_ms: 3, part }),
        };
        let read = Value::decode(value.encode()).expect("as encoded");
        let layout = read.data_refs()[0].layout().expect("a decoded reference can be laid out");
        let shard = Bytes::from(sample(at(layout.shard_bytes()), size));
        let mut hasher = BlockHasher::with_length(layout.shard_bytes());
        for buffer in shard.chunks(777) {
            hasher.update(buffer);
        }
        let hashes = hasher.finish();
        let blocks = checksum::blocks_of(&(0..layout.shard_bytes()));
        prop_assert_eq!(hashes.len(), at(blocks.end));
        for block in blocks {
            let bytes = &shard[in_memory(&checksum::block_range(block, layout.shard_bytes()))];
            prop_assert_eq!(checksum::verify(&hashes, at(block), bytes), Ok(()));
        }
    }
}
