//! Blocks of large shards that were read for clients since the process began: a bit each.
//!
//! The first read of a block comes from the device past the page cache, later ones come through the cache
//! and fill it. A block that is forgotten here is read past the cache once more, and no more follows from it.

use std::collections::HashMap;
use std::ops::Range;

use parking_lot::Mutex;

use sherd_core::id::ShardId;

use crate::limits::{READ_SHARDS_MAX, READ_WORDS_MAX};

#[derive(Debug, Default)]
pub(super) struct ReadHistory(Mutex<ReadHistoryState>);

#[derive(Debug, Default)]
struct ReadHistoryState {
    shards: HashMap<ShardId, ReadBlocks>,
    /// Of all shards.
    words: usize,
    uses: u64,
}

#[derive(Debug, Default)]
struct ReadBlocks {
    /// A bit for each block, as far as the last one that was read.
    words: Vec<u64>,
    used: u64,
}

impl ReadHistory {
    /// Notes that blocks are about to be read. Whether all of them were noted before.
    pub(super) fn note(&self, shard: ShardId, blocks: Range<u64>) -> bool {
        let state = &mut *self.0.lock();
        let words = usize::try_from(blocks.end.div_ceil(64)).unwrap_or(usize::MAX);
        if words > READ_WORDS_MAX {
            // The page cache takes it: too long to be remembered.
            return true;
        }
        state.uses += 1;
        let known = state.shards.entry(shard).or_default();
        known.used = state.uses;
        if known.words.len() < words {
            state.words += words - known.words.len();
            known.words.resize(words, 0);
        }
        let mut all = true;
        for block in blocks {
            let index = usize::try_from(block / 64).expect("as many words as memory has");
            let (word, bit) = (&mut known.words[index], 1 << (block % 64));
            all &= *word & bit != 0;
            *word |= bit;
        }
        while state.words > READ_WORDS_MAX || state.shards.len() > READ_SHARDS_MAX {
            let oldest = state.shards.iter().min_by_key(|(_, blocks)| blocks.used);
            let Some(oldest) = oldest.map(|(shard, _)| *shard) else { break };
            state.remove(oldest);
        }
        all
    }

    /// Forgets a shard that is deleted or replaced.
    pub(super) fn forget(&self, shard: ShardId) {
        self.0.lock().remove(shard);
    }
}

impl ReadHistoryState {
    fn remove(&mut self, shard: ShardId) {
        if let Some(blocks) = self.shards.remove(&shard) {
            self.words -= blocks.words.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{DataId, ProposerId, Timestamp};

    fn shard(n: u64) -> ShardId {
        ShardId { data: DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) }, index: 0 }
    }

    #[test]
    fn blocks_are_known_once_they_were_noted() {
        let history = ReadHistory::default();
        assert!(!history.note(shard(1), 60..70));
        assert!(history.note(shard(1), 60..70));
        assert!(!history.note(shard(1), 59..61), "one of them is new");
        assert!(history.note(shard(1), 59..70));
        assert!(!history.note(shard(2), 60..61), "another shard");
        history.forget(shard(1));
        assert!(!history.note(shard(1), 60..61));
    }

    #[test]
    fn shards_and_blocks_are_bounded_and_what_was_used_last_stays() {
        let history = ReadHistory::default();
        for n in 0..=READ_SHARDS_MAX as u64 {
            history.note(shard(n), 0..1);
            history.note(shard(0), 0..1);
        }
        assert_eq!(history.0.lock().shards.len(), READ_SHARDS_MAX);
        assert!(history.note(shard(0), 0..1), "used all the time");
        assert!(!history.note(shard(1), 0..1), "the oldest was forgotten");
        let most = READ_WORDS_MAX as u64 * 64;
        assert!(history.note(shard(7), most..most + 1), "too long: left to the page cache");
        assert!(!history.note(shard(8), most - 1..most));
        let state = history.0.lock();
        assert_eq!((state.words, state.shards.len()), (READ_WORDS_MAX, 1));
    }
}
