//! The turn of the task that runs the batches of a key, and the prepares that go out for it.

use sherd_core::id::{Ballot, RegisterKey};
use sherd_core::limits::BATCH_WRITERS_MAX;

use super::Registers;
use super::change::PrepareRound;
use super::key_writers::{HashedKey, KeyWriters};
use super::writer::Member;
use crate::cluster::KeyRoute;

/// A prepare that was sent, and its place in the order of writers and prepares.
#[derive(Debug)]
pub(super) struct OrderedPrepare {
    pub(super) round: PrepareRound,
    pub(super) order: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PreparePlace {
    pub(super) order: u64,
    pub(super) ballot: Ballot,
}

/// The right to run the batches of a key, one after the other.
#[derive(Debug)]
pub(super) struct KeyTurn {
    pub(super) registers: Registers,
    pub(super) route: KeyRoute,
    pub(super) key: HashedKey,
    pub(super) is_over: bool,
}

impl PreparePlace {
    /// The next place among the prepares of a key, whose ballots rise in the same order.
    pub(super) fn next(registers: &Registers, entry: &mut KeyWriters, above: Ballot) -> Self {
        let inner = &registers.inner;
        let place = Self { order: inner.writers.next_place(), ballot: inner.ballots.above(above) };
        entry.prepared = place.order;
        place
    }

    pub(super) fn send(self, registers: &Registers, route: &KeyRoute) -> OrderedPrepare {
        OrderedPrepare { round: registers.prepare(route, self.ballot), order: self.order }
    }
}

impl KeyTurn {
    #[cfg(test)]
    pub(super) fn of(registers: &Registers, key: &RegisterKey) -> Self {
        let route = registers.inner.cluster.route(key.clone());
        let key = registers.inner.writers.hashed(key);
        Self { registers: registers.clone(), route, key, is_over: true }
    }

    pub(super) const fn key(&self) -> &RegisterKey {
        &self.key.key
    }

    /// Adds waiting writers in their order, up to the size of a batch.
    pub(super) fn take_waiting(&self, members: &mut Vec<Member>) {
        let most = BATCH_WRITERS_MAX.saturating_sub(members.len());
        self.registers.inner.writers.update(&self.key, |entry| entry.take(most, members));
    }

    pub(super) fn prepare_above(&self, above: Ballot) -> OrderedPrepare {
        let registers = &self.registers;
        let writers = &registers.inner.writers;
        let place = writers.update(&self.key, |entry| PreparePlace::next(registers, entry, above));
        place.send(registers, &self.route)
    }

    /// Ends the turn if no writer waits: the next one begins another.
    pub(super) fn ends(&mut self) -> bool {
        self.is_over = self.registers.inner.writers.update(&self.key, |entry| {
            entry.at_work = !entry.waiting.is_empty();
            !entry.at_work
        });
        self.is_over
    }
}

impl Drop for KeyTurn {
    /// The task was dropped or has failed: no one else would ever answer the waiting writers.
    fn drop(&mut self) {
        if !self.is_over {
            let mut waiting = Vec::new();
            self.registers.inner.writers.update(&self.key, |entry| {
                entry.at_work = false;
                entry.take(usize::MAX, &mut waiting);
            });
        }
    }
}
