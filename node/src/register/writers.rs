//! The writers of each key at this gateway: who comes while others are at work waits for the next batch.
//!
//! ```text
//! begin --(nobody else: prepare goes out)--> WriteTicket --change--> at work: batch after batch, one task
//!                                                           `------> waiting --^
//! ```
//! A key has an entry while somebody has a ticket, waits, or is at work, and no longer. A writer alone starts
//! at once: its prepare goes out with its ticket, beside the last syncs of its data.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::id::{Ballot, RegisterKey};
use sherd_core::limits::{BATCH_WRITERS_MAX, KEY_WRITERS_BYTES_MAX, KEY_WRITERS_MAX};

use super::batch::BatchRun;
use super::change::PrepareRound;
use super::writer::{ChangeError, Member, Writer};
use super::{Failure, Registers};

/// Parts of the table, each with a lock of its own.
const TABLE_PARTS: usize = 64;

/// Every key that somebody of this process writes at this moment.
#[derive(Debug)]
pub(super) struct Writers {
    parts: Vec<Mutex<HashTable<KeyWriters>>>,
    hasher: RandomState,
    order: AtomicU64,
}

/// A key and its hash in the table of writers.
#[derive(Debug, Clone)]
struct HashedKey {
    key: RegisterKey,
    hash: u64,
}

/// The writers of one key.
#[derive(Debug)]
struct KeyWriters {
    of: HashedKey,
    /// Writers that have not handed their change over.
    tickets: usize,
    /// A batch is at work; who runs it takes those who wait when it ends.
    at_work: bool,
    /// When the last prepare of this gateway went out: one from before that is overtaken.
    prepared: u64,
    waiting: VecDeque<Member>,
    waiting_bytes: usize,
}

/// A prepare that was sent, and its place in the order of writers and prepares.
#[derive(Debug)]
pub(super) struct OrderedPrepare {
    pub(super) round: PrepareRound,
    pub(super) order: u64,
}

/// What the next prepare of a key goes out with.
#[derive(Debug, Clone, Copy)]
struct PreparePlace {
    order: u64,
    ballot: Ballot,
}

/// The place of a writer to come. Dropped, it is given up.
#[derive(Debug)]
pub(crate) struct WriteTicket {
    registers: Registers,
    key: HashedKey,
    came: u64,
    deadline: Instant,
    /// Sent where nobody else was at work.
    ahead: Option<OrderedPrepare>,
}

/// The right to run the batches of a key, one after the other.
#[derive(Debug)]
pub(super) struct KeyTurn {
    registers: Registers,
    key: HashedKey,
    is_over: bool,
}

/// What a writer finds at its key.
#[expect(clippy::large_enum_variant, reason = "it lives for one call, on the stack")]
enum WriterArrival {
    /// Nobody is at work: it runs its batch, with the prepare sent ahead if nothing has overtaken it.
    First(Member, Option<OrderedPrepare>),
    /// It waits among others.
    Waits,
    /// Too many wait.
    NoRoom,
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
    fn next_place(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    fn hashed(&self, key: &RegisterKey) -> HashedKey {
        HashedKey { key: key.clone(), hash: self.hasher.hash_one(key) }
    }

    fn part(&self, hash: u64) -> &Mutex<HashTable<KeyWriters>> {
        let index = usize::try_from(hash % TABLE_PARTS as u64).expect("below the number of parts");
        &self.parts[index]
    }

    /// Keys in the table.
    #[cfg(test)]
    pub(super) fn keys_count(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Writers of a key that wait.
    #[cfg(test)]
    pub(super) fn waiting_count(&self, key: &RegisterKey) -> usize {
        let key = self.hashed(key);
        let part = self.part(key.hash).lock();
        part.find(key.hash, |writers| writers.of.key == key.key).map_or(0, |writers| writers.waiting.len())
    }

    /// Changes the entry of a key, which is gone afterwards if nobody is left in it.
    fn update<T>(&self, key: &HashedKey, change: impl FnOnce(&mut KeyWriters) -> T) -> T {
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
    fn of(key: HashedKey) -> Self {
        Self { of: key, tickets: 0, at_work: false, prepared: 0, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    fn is_empty(&self) -> bool {
        self.tickets == 0 && !self.at_work && self.waiting.is_empty()
    }

    fn has_room_for(&self, member: &Member) -> bool {
        self.waiting.len() < KEY_WRITERS_MAX && self.waiting_bytes + member.bytes() <= KEY_WRITERS_BYTES_MAX
    }

    fn push(&mut self, member: Member) {
        self.waiting_bytes += member.bytes();
        self.waiting.push_back(member);
    }

    /// Moves those who have waited longest.
    fn take(&mut self, most: usize, into: &mut Vec<Member>) {
        let from = into.len();
        into.extend(self.waiting.drain(..most.min(self.waiting.len())));
        self.waiting_bytes -= into[from..].iter().map(Member::bytes).sum::<usize>();
    }

    /// Takes in a writer that hands its change over.
    fn arrive(&mut self, member: Member, ahead: Option<OrderedPrepare>) -> WriterArrival {
        if !self.at_work {
            self.at_work = true;
            return WriterArrival::First(member, ahead.filter(|ahead| ahead.order == self.prepared));
        }
        if !self.has_room_for(&member) {
            return WriterArrival::NoRoom;
        }
        self.push(member);
        WriterArrival::Waits
    }
}

impl Registers {
    /// Takes a writer's place at a key. Where nobody else has one, the prepare goes out now.
    pub(crate) fn begin(&self, key: &RegisterKey) -> WriteTicket {
        let writers = &self.inner.writers;
        let key = writers.hashed(key);
        let came = writers.next_place();
        let alone = writers.update(&key, |entry| {
            entry.tickets += 1;
            (entry.tickets == 1 && !entry.at_work).then(|| self.next_prepare(entry, Ballot::ZERO))
        });
        let ahead = alone.map(|place| self.prepare_at(&key.key, place));
        let deadline = Instant::now() + self.inner.timeouts.operation;
        WriteTicket { registers: self.clone(), key, came, deadline, ahead }
    }

    /// The place of a prepare among those of its key, whose ballots rise in the same order.
    fn next_prepare(&self, entry: &mut KeyWriters, above: Ballot) -> PreparePlace {
        let place =
            PreparePlace { order: self.inner.writers.next_place(), ballot: self.inner.ballots.above(above) };
        entry.prepared = place.order;
        place
    }

    fn prepare_at(&self, key: &RegisterKey, place: PreparePlace) -> OrderedPrepare {
        let target = self.inner.cluster.target(key.clone());
        OrderedPrepare { round: self.prepare(target, place.ballot), order: place.order }
    }

    /// Makes one change, together with whoever else of this process writes the key at this moment. It runs to
    /// its end although nobody waits for it any more, once an accept that names it was sent.
    pub(crate) async fn change<E: std::fmt::Debug + Send + 'static>(
        &self,
        ticket: WriteTicket,
        writer: Writer<E>,
    ) -> Result<(), ChangeError<E>> {
        let mut ticket = ticket;
        let (member, heard) = Member::new(writer, ticket.came, ticket.deadline);
        let ahead = ticket.ahead.take();
        match self.inner.writers.update(&ticket.key, |entry| entry.arrive(member, ahead)) {
            WriterArrival::NoRoom => return Err(ChangeError::Failed(Failure::Overloaded)),
            WriterArrival::Waits => {}
            WriterArrival::First(member, ahead) => {
                let turn = KeyTurn { registers: self.clone(), key: ticket.key.clone(), is_over: false };
                // In a box: a task is moved when it is made, and when it ends.
                let batches = Box::pin(self.clone().run_batches(turn, member, ahead));
                self.inner.tasks.spawn(batches);
            }
        }
        drop(ticket);
        // The task is gone when the process ends: what it had sent nobody knows.
        let told = heard.await.unwrap_or(Err(ChangeError::Failed(Failure::OutcomeUnknown)));
        if let Err(ChangeError::Failed(Failure::OutcomeUnknown)) = &told {
            self.inner.metrics.register.outcomes_unknown.inc();
        }
        told
    }

    /// Runs batch after batch until nobody waits.
    async fn run_batches(self, turn: KeyTurn, first: Member, ahead: Option<OrderedPrepare>) {
        let mut turn = turn;
        BatchRun::new(&self, &turn).run(Some(first), ahead).await;
        while !turn.ends() {
            BatchRun::new(&self, &turn).run(None, None).await;
        }
    }
}

impl KeyTurn {
    /// A turn of its own.
    #[cfg(test)]
    pub(super) fn of(registers: &Registers, key: &RegisterKey) -> Self {
        Self { registers: registers.clone(), key: registers.inner.writers.hashed(key), is_over: true }
    }

    /// Whose turn it is.
    pub(super) const fn key(&self) -> &RegisterKey {
        &self.key.key
    }

    /// Adds those who wait, in their order, as far as a batch has room.
    pub(super) fn take_waiting(&self, members: &mut Vec<Member>) {
        let most = BATCH_WRITERS_MAX.saturating_sub(members.len());
        self.registers.inner.writers.update(&self.key, |entry| entry.take(most, members));
    }

    /// Sends a prepare above a ballot.
    pub(super) fn prepare_above(&self, above: Ballot) -> OrderedPrepare {
        let registers = &self.registers;
        let writers = &registers.inner.writers;
        let place = writers.update(&self.key, |entry| registers.next_prepare(entry, above));
        registers.prepare_at(&self.key.key, place)
    }

    /// Ends the turn if nobody waits: whoever comes next begins another.
    fn ends(&mut self) -> bool {
        self.is_over = self.registers.inner.writers.update(&self.key, |entry| {
            entry.at_work = !entry.waiting.is_empty();
            !entry.at_work
        });
        self.is_over
    }
}

impl Drop for KeyTurn {
    /// The task was dropped or has failed: nobody else would ever tell those who wait.
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

impl Drop for WriteTicket {
    fn drop(&mut self) {
        self.registers.inner.writers.update(&self.key, |entry| entry.tickets -= 1);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::register::Proposal;
    use crate::register::tests::key;

    #[tokio::test(start_paused = true)]
    async fn who_is_taken_makes_room_for_others() {
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
