//! The shards that whole stripes are read from: any k of them give all bytes, so those that cost least.
//!
//! ```text
//! own data, own parity, data of other nodes, parity of other nodes
//! ```
//! A shard of another node costs the connection's work on both ends, and computing the bytes of one that is
//! not read a tenth of that with two data shards (docs/performance.md), more with more of them: up to
//! eight of them own parity comes before data of other nodes. A shard that failed, or whose volume is late,
//! is left out while k others can be read.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::SmallVec;

use sherd_core::erasure::{Code, ErasureError};
use sherd_volume::buffer::Buffer;

/// Shards of most codes: lists of them need no allocation.
pub(super) const SHARDS_USUAL: usize = 4;

/// Where the bytes of a shard would come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ShardPlace {
    OwnNode,
    OtherNode,
}

/// Numbers of shards, in their order.
pub(super) type ShardIndexes = SmallVec<[u8; SHARDS_USUAL]>;

/// Chooses `needed` shards of those that can be read soon, data shards being those below `needed`; `None`
/// where there are fewer.
pub(super) fn cheapest(readable: impl Iterator<Item = (u8, ShardPlace)>, needed: u8) -> Option<ShardIndexes> {
    let mut costs: SmallVec<[(ShardPlace, bool, u8); 2 * SHARDS_USUAL]> =
        readable.map(|(index, place)| (place, index >= needed, index)).collect();
    costs.sort_unstable();
    costs.truncate(usize::from(needed));
    let mut chosen: ShardIndexes = costs.iter().map(|(_, _, index)| *index).collect();
    chosen.sort_unstable();
    (chosen.len() == usize::from(needed)).then_some(chosen)
}

/// Bytes of a shard, in the buffers that they came in.
pub(super) type ShardColumns = VecDeque<Bytes>;

/// Computes shards that were not read, at the columns that `known` holds of k others: as many bytes of each
/// as the buffers have. They are taken where they lie, however they are cut.
///
/// # Errors
/// As [`Code::plan`], and [`ErasureError::Length`] where a shard has other bytes than the buffers.
pub(super) fn compute(
    code: &Code,
    known: &[(u8, &ShardColumns)],
    missing: &mut [(u8, Buffer)],
) -> Result<(), ErasureError> {
    let indexes: ShardIndexes = known.iter().map(|(index, _)| *index).collect();
    let wanted: ShardIndexes = missing.iter().map(|(index, _)| *index).collect();
    let plan = code.plan(&indexes, &wanted)?;
    let length = missing.iter().map(|(_, out)| out.len()).max().unwrap_or(0);
    let mut left: Vec<ShardColumns> = known.iter().map(|(_, bytes)| (*bytes).clone()).collect();
    let mut at = 0;
    while at < length {
        let shortest = left.iter().map(|bytes| bytes.front().map_or(0, Bytes::len)).min().unwrap_or(0);
        if shortest == 0 || missing.iter().any(|(_, out)| out.len() < at + shortest) {
            return Err(ErasureError::Length { bytes: at, other_bytes: length });
        }
        let sources: Vec<Bytes> = left.iter_mut().filter_map(|bytes| take(bytes, shortest)).collect();
        let sources: SmallVec<[&[u8]; SHARDS_USUAL]> = sources.iter().map(AsRef::as_ref).collect();
        let mut computed: SmallVec<[&mut [u8]; SHARDS_USUAL]> =
            missing.iter_mut().map(|(_, out)| &mut out[at..at + shortest]).collect();
        plan.run(&sources, &mut computed)?;
        at += shortest;
    }
    Ok(())
}

/// Takes the first `count` bytes, which are in one buffer.
fn take(columns: &mut ShardColumns, count: usize) -> Option<Bytes> {
    let first = columns.front_mut()?;
    let taken = first.split_to(count);
    if first.is_empty() {
        columns.pop_front();
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ShardPlace::{OtherNode, OwnNode};
    use proptest::prelude::*;
    use sherd_core::erasure::Geometry;
    use sherd_volume::buffer::{BufferPool, PoolLimits};

    fn chosen(places: &[(u8, ShardPlace)], needed: u8) -> Option<Vec<u8>> {
        cheapest(places.iter().copied(), needed).map(|chosen| chosen.to_vec())
    }

    #[test]
    fn what_is_on_this_node_is_read_before_what_is_not() {
        let on = |own: &[u8]| -> Vec<(u8, ShardPlace)> {
            (0..4).map(|index| (index, if own.contains(&index) { OwnNode } else { OtherNode })).collect()
        };
        assert_eq!(chosen(&on(&[0, 1, 2, 3]), 2), Some(vec![0, 1]), "data where all is near");
        assert_eq!(chosen(&on(&[1]), 2), Some(vec![0, 1]));
        assert_eq!(chosen(&on(&[2]), 2), Some(vec![0, 2]), "own parity in place of other nodes' data");
        assert_eq!(chosen(&on(&[2, 3]), 2), Some(vec![2, 3]));
        assert_eq!(chosen(&on(&[]), 2), Some(vec![0, 1]), "no parity of other nodes in place of their data");
        assert_eq!(chosen(&on(&[3])[1..], 2), Some(vec![1, 3]), "without the one that failed");
        assert_eq!(chosen(&on(&[3])[3..], 2), None);
    }

    fn cut(bytes: &[u8], lengths: &[usize]) -> ShardColumns {
        let (mut left, mut cut) = (Bytes::copy_from_slice(bytes), VecDeque::new());
        for length in lengths.iter().cycle() {
            if left.is_empty() {
                return cut;
            }
            cut.push_back(left.split_to(left.len().min(*length)));
        }
        cut
    }

    proptest! {
        /// However the buffers are cut, the computed shards are those that were encoded.
        #[test]
        fn shards_are_computed_from_buffers_of_any_lengths(
            data in prop::collection::vec(prop::collection::vec(any::<u8>(), 300), 3),
            lengths in prop::collection::vec(prop::collection::vec(1_usize..200, 1..4), 5),
            lost in prop::sample::subsequence(vec![0_u8, 1, 2, 3, 4], 2),
        ) {
            let code = Code::of(Geometry::new(3, 2).expect("a code"));
            let mut shards = data;
            shards.resize(5, vec![0; 300]);
            let (data, parity) = shards.split_at_mut(3);
            let data: Vec<(u8, &[u8])> = (0..).zip(data.iter().map(Vec::as_slice)).collect();
            let mut parity: Vec<(u8, &mut [u8])> = (3..).zip(parity.iter_mut().map(Vec::as_mut_slice)).collect();
            code.reconstruct(&data, &mut parity).expect("parity");
            let pool = BufferPool::new(PoolLimits { cap_bytes: 4 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 });
            let left: Vec<(u8, ShardColumns)> = (0..5_u8)
                .filter(|index| !lost.contains(index))
                .map(|index| (index, cut(&shards[usize::from(index)], &lengths[usize::from(index)])))
                .collect();
            let known: Vec<(u8, &ShardColumns)> = left.iter().map(|(index, bytes)| (*index, bytes)).collect();
            let buffer = |index: &u8| (*index, pool.try_take(300).expect("the pool is large"));
            let mut missing: Vec<(u8, Buffer)> = lost.iter().map(buffer).collect();
            compute(&code, &known, &mut missing).expect("enough shards");
            for (index, out) in &missing {
                prop_assert!(out[..] == shards[usize::from(*index)][..], "shard {}", index);
            }
            let mut short = known.clone();
            let none = VecDeque::new();
            short[0].1 = &none;
            let is_refused = matches!(compute(&code, &short, &mut missing), Err(ErasureError::Length { .. }));
            prop_assert!(is_refused);
        }
    }
}
