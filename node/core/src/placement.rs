//! Where things live: key to slot, data id to the order of its shards, and how many shards make a
//! write durable enough.
//!
//! Pure functions of names; the topology maps slots to sets and positions to volumes. Laws, in
//! `tests/laws.rs`: slots and rotations are even, the shards of one data id are on different
//! volumes, and `home` and `shard_at` undo each other.

use crate::erasure::{Availability, Geometry};
use crate::id::{DataId, RegisterKey, Slot};
use crate::limits;

/// The slot of a register's key: the first 8 bytes (little endian) of blake3(bucket id, key),
/// modulo the number of slots. Parts share the slot of their object's key.
pub fn slot(key: &RegisterKey) -> Slot {
    let RegisterKey { bucket, key, part: _ } = key;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bucket.0);
    hasher.update(key.as_bytes());
    let slot = first_u64(&hasher.finalize()) % u64::from(limits::SLOTS);
    Slot(u16::try_from(slot).expect("there are fewer slots than a u16 counts"))
}

/// By how many positions of its set the shards of a data id are turned: the first 8 bytes (little
/// endian) of blake3(data id), modulo the volumes of the set.
///
/// # Panics
/// When the set has no volumes.
pub fn rotation(id: DataId, volumes: usize) -> usize {
    assert!(volumes > 0, "a set has volumes");
    let volumes = u64::try_from(volumes).expect("a set has few volumes");
    let rotation = first_u64(&blake3::hash(&id.to_bytes())) % volumes;
    usize::try_from(rotation).expect("less than the volumes of a set")
}

/// The position in its set of the volume that holds shard `index` of a data id.
///
/// # Panics
/// When the set has no shard of that index.
pub fn home(id: DataId, index: u8, volumes: usize) -> usize {
    assert!(usize::from(index) < volumes, "one shard per volume");
    (usize::from(index) + rotation(id, volumes)) % volumes
}

/// Returns the index of the shard that the volume at `position` of its set holds of a data id: undoes
/// [`home`].
///
/// # Panics
/// When the set has no such position, or more than a shard's index can count.
pub fn shard_at(id: DataId, position: usize, volumes: usize) -> u8 {
    assert!(position < volumes, "a position in the set");
    let index = (position + volumes - rotation(id, volumes)) % volumes;
    u8::try_from(index).expect("a set has at most SET_VOLUMES_MAX volumes")
}

/// How many shards must be durable before a version may be proposed.
///
/// k + f while every node of the set is up, so that the node lost next takes nothing with it; else
/// k + 1, on nodes that are up. `volumes_per_node` is f, the most volumes of the set on one node; where
/// losing a node is an outage anyway it counts as 1. Without parity it is k, for there is nothing more.
pub fn durable_enough(geometry: Geometry, volumes_per_node: usize, every_node_up: bool) -> usize {
    let spare = if geometry.parity_shards() == 0 {
        0
    } else if every_node_up && geometry.standing(volumes_per_node) == Availability::AllWorks {
        volumes_per_node
    } else {
        1
    };
    geometry.data_shards() + spare
}

fn first_u64(hash: &blake3::Hash) -> u64 {
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash is 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{BucketId, ObjectKey, PartKey, ProposerId, Timestamp, UploadId};

    fn key(name: &str) -> RegisterKey {
        RegisterKey::object(BucketId([1; 16]), ObjectKey::new(name.to_owned()).expect("a key"))
    }

    /// Another slot or rotation than these would lose every object stored before.
    #[test]
    fn slots_and_rotations_never_change() {
        // Slots are a power of two, so the low two bytes of the hash decide alone.
        let by_hand = |name: &str| {
            let named = [&[1; 16], name.as_bytes()].concat();
            let hash = blake3::hash(&named);
            Slot(u16::from_le_bytes([hash.as_bytes()[0], hash.as_bytes()[1]]) % 16_384)
        };
        for name in ["a", "photos/2024/cat.jpg", "\u{1F9F1}"] {
            assert_eq!(slot(&key(name)), by_hand(name));
        }
        assert_eq!(slot(&key("a")), Slot(6083));
        let id = DataId { birth: Timestamp::from_u64(5), proposer: ProposerId(9) };
        assert_eq!([1, 2, 8, 12, 32].map(|volumes| rotation(id, volumes)), [0, 0, 2, 10, 10]);
    }

    #[test]
    fn parts_share_the_slot_of_their_object() {
        let mut part = key("a");
        part.part = Some(PartKey { upload: UploadId([7; 16]), number: 3 });
        assert_eq!(slot(&part), slot(&key("a")));
        let elsewhere = RegisterKey { bucket: BucketId([2; 16]), ..key("a") };
        assert_ne!(slot(&elsewhere), slot(&key("a")));
    }

    #[test]
    fn durable_enough_follows_the_table() {
        // k, m, f, with every node up, with a node down
        for (k, m, f, up, down) in [
            (1, 0, 1, 1, 1),   // 1 x 1
            (2, 2, 4, 3, 3),   // 1 x 4: the node cannot be lost anyway
            (1, 1, 1, 2, 2),   // 2 x 1: neither here
            (2, 2, 2, 3, 3),   // 2 x 2
            (3, 3, 3, 4, 4),   // 2 x 3
            (1, 2, 1, 2, 2),   // 3 x 1
            (3, 3, 2, 5, 4),   // 3 x 2
            (2, 2, 1, 3, 3),   // 4 x 1
            (5, 3, 2, 7, 6),   // 4 x 4, 4 x 8
            (9, 3, 2, 11, 10), // 6 x 2
            (7, 1, 2, 8, 8),   // 4 x 4 with too little parity
            (8, 0, 2, 8, 8),   // 4 x 4 without parity
        ] {
            let geometry = Geometry::new(k, m).expect("a geometry");
            assert_eq!(durable_enough(geometry, f, true), up, "{geometry}, {f} a node, all up");
            assert_eq!(durable_enough(geometry, f, false), down, "{geometry}, {f} a node, one down");
        }
    }
}
