//! Keys that this process writes at this moment, and the writers that wait for their turn.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use parking_lot::Mutex;

use sherd_core::id::RegisterKey;
use sherd_core::limits::{KEY_WRITERS_BYTES_MAX, KEY_WRITERS_MAX};

use super::writer::Member;

/// Parts of the table, each with a lock of its own.
const TABLE_PARTS: usize = 64;

/// All keys that this process writes at this moment.
#[derive(Debug)]
pub(super) struct Writers {
    parts: Vec<Mutex<HashTable<KeyWriters>>>,
    hasher: RandomState,
    pub(super) order: AtomicU64,
}

/// A key and its hash in the table of writers.
#[derive(Debug, Clone)]
pub(super) struct HashedKey {
    pub(super) key: RegisterKey,
    pub(super) hash: u64,
}

#[derive(Debug)]
pub(super) struct KeyWriters {
    pub(super) of: HashedKey,
    /// Writers that have not handed their change over.
    pub(super) tickets: usize,
    /// A batch is at work; the task that runs it takes the waiting writers when it ends.
    pub(super) at_work: bool,
    /// When the last prepare of this gateway went out: one from before that is overtaken.
    pub(super) prepared: u64,
    pub(super) waiting: VecDeque<Member>,
    pub(super) waiting_bytes: usize,
}

impl Default for Writers {
    fn default() -> Self {
        Self {
            parts: std::iter::repeat_with(Mutex::default).take(TABLE_PARTS).collect(),
            hasher: RandomState::new(),
            order: AtomicU64::new(0),
        }
    }
}

impl Writers {
    /// A place in the order of writers and prepares: later than every one given before.
    pub(super) fn next_place(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn hashed(&self, key: &RegisterKey) -> HashedKey {
        HashedKey { key: key.clone(), hash: self.hasher.hash_one(key) }
    }

    pub(super) fn part(&self, hash: u64) -> &Mutex<HashTable<KeyWriters>> {
        let index = usize::try_from(hash % TABLE_PARTS as u64).expect("below the number of parts");
        &self.parts[index]
    }

    #[cfg(test)]
    pub(super) fn keys_count(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    #[cfg(test)]
    pub(super) fn waiting_count(&self, key: &RegisterKey) -> usize {
        let key = self.hashed(key);
        let part = self.part(key.hash).lock();
        part.find(key.hash, |writers| writers.of.key == key.key).map_or(0, |writers| writers.waiting.len())
    }

    /// Changes the entry of a key, and removes the entry if it is empty afterwards.
    pub(super) fn update<T>(&self, key: &HashedKey, change: impl FnOnce(&mut KeyWriters) -> T) -> T {
        let mut part = self.part(key.hash).lock();
        let entry = part.entry(key.hash, |writers| writers.of.key == key.key, |writers| writers.of.hash);
        let mut entry = entry.or_insert_with(|| KeyWriters::of(key.clone()));
        let result = change(entry.get_mut());
        if entry.get().is_empty() {
            entry.remove();
        }
        result
    }
}

impl KeyWriters {
    pub(super) fn of(key: HashedKey) -> Self {
        Self { of: key, tickets: 0, at_work: false, prepared: 0, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tickets == 0 && !self.at_work && self.waiting.is_empty()
    }

    pub(super) fn has_room_for(&self, member: &Member) -> bool {
        self.waiting.len() < KEY_WRITERS_MAX && self.waiting_bytes + member.bytes() <= KEY_WRITERS_BYTES_MAX
    }

    pub(super) fn push(&mut self, member: Member) {
        self.waiting_bytes += member.bytes();
        self.waiting.push_back(member);
    }

    /// Moves the members that have waited longest.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<Member>) {
        let from = into.len();
        into.extend(self.waiting.drain(..most.min(self.waiting.len())));
        self.waiting_bytes -= into[from..].iter().map(Member::bytes).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::Instant;

    use super::*;
    use crate::register::tests::key;
    use crate::register::{Proposal, Writer};

    #[tokio::test(start_paused = true)]
    async fn a_taken_member_makes_room_for_others() {
        let key = key();
        let mut entry = KeyWriters::of(Writers::default().hashed(&key));
        let body = Bytes::from(vec![0; KEY_WRITERS_BYTES_MAX / 3]);
        let member = || {
            let writer = Writer::<()>::new(|_| Ok(Proposal::of(sherd_core::record::State::Tombstone)));
            Member::new(writer.carrying(body.clone()), 0, Instant::now()).0
        };
        for _ in 0..3 {
            assert!(entry.has_room_for(&member()));
            entry.push(member());
            assert!(entry.has_room_for(&member()));
            entry.push(member());
            assert!(!entry.has_room_for(&member()), "with what each costs it is more than thrice a third");
            let mut taken = Vec::new();
            entry.take(1, &mut taken);
            assert_eq!(taken.len(), 1);
            assert!(entry.has_room_for(&member()));
            entry.take(usize::MAX, &mut taken);
            assert_eq!((taken.len(), entry.waiting_bytes), (2, 0));
        }
    }
}
