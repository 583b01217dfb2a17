//! The writers of each key at this gateway: who comes while others are at work waits for the next batch.
//!
//! ```text
//! begin --(nobody else: prepare goes out)--> WriteTicket --change--> waiting --> batch after batch, one task
//! ```
//! A key has an entry while somebody has a ticket, waits, or is at work, and no longer. A writer alone starts
//! at once: its prepare goes out with its ticket, beside the last syncs of its data.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
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
    parts: Vec<Mutex<HashMap<RegisterKey, KeyWriters>>>,
    hasher: RandomState,
    order: AtomicU64,
}

/// The writers of one key.
#[derive(Debug, Default)]
struct KeyWriters {
    /// Writers that have not handed their change over.
    tickets: usize,
    /// A batch is at work; the task that runs it takes who waits when it ends.
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
    key: RegisterKey,
    came: u64,
    deadline: Instant,
    /// Sent where nobody else was at work.
    ahead: Option<OrderedPrepare>,
}

/// The right to run the batches of a key, one after the other.
#[derive(Debug)]
pub(super) struct Turn {
    registers: Registers,
    pub(super) key: RegisterKey,
    is_over: bool,
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

    fn part(&self, key: &RegisterKey) -> MutexGuard<'_, HashMap<RegisterKey, KeyWriters>> {
        let hash = self.hasher.hash_one(key);
        let index = usize::try_from(hash % TABLE_PARTS as u64).expect("below the number of parts");
        self.parts[index].lock()
    }

    /// Keys in the table.
    #[cfg(test)]
    pub(super) fn keys_count(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Writers of a key that wait.
    #[cfg(test)]
    pub(super) fn waiting_count(&self, key: &RegisterKey) -> usize {
        self.part(key).get(key).map_or(0, |writers| writers.waiting.len())
    }

    /// Changes the entry of a key, which is gone afterwards if nobody is left in it.
    fn update<T>(&self, key: &RegisterKey, change: impl FnOnce(&mut KeyWriters) -> T) -> T {
        let mut part = self.part(key);
        let writers = part.entry(key.clone()).or_default();
        let result = change(writers);
        if writers.tickets == 0 && !writers.at_work && writers.waiting.is_empty() {
            part.remove(key);
        }
        result
    }
}

impl KeyWriters {
    fn has_room_for(&self, member: &Member) -> bool {
        self.waiting.len() < KEY_WRITERS_MAX && self.waiting_bytes + member.bytes() <= KEY_WRITERS_BYTES_MAX
    }

    fn push(&mut self, member: Member) {
        self.waiting_bytes += member.bytes();
        self.waiting.push_back(member);
    }

    fn take(&mut self, most: usize) -> Vec<Member> {
        let taken: Vec<Member> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        self.waiting_bytes -= taken.iter().map(Member::bytes).sum::<usize>();
        taken
    }
}

impl Registers {
    /// Takes a writer's place at a key. Where nobody else has one, the prepare goes out now.
    pub(crate) fn begin(&self, key: &RegisterKey) -> WriteTicket {
        let writers = &self.inner.writers;
        let came = writers.next_place();
        let alone = writers.update(key, |entry| {
            entry.tickets += 1;
            (entry.tickets == 1 && !entry.at_work).then(|| self.next_prepare(entry, Ballot::ZERO))
        });
        let ahead = alone.map(|place| self.prepare_at(key, place));
        let deadline = Instant::now() + self.inner.patience.operation;
        WriteTicket { registers: self.clone(), key: key.clone(), came, deadline, ahead }
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
        let mut member = Some(member);
        let first = self.inner.writers.update(&ticket.key, |entry| {
            entry.push(member.take_if(|member| entry.has_room_for(member))?);
            let first = !entry.at_work;
            entry.at_work = true;
            Some(first.then(|| ahead.filter(|ahead| ahead.order == entry.prepared)))
        });
        let Some(first) = first else { return Err(ChangeError::Failed(Failure::Overloaded)) };
        if let Some(ahead) = first {
            let turn = Turn { registers: self.clone(), key: ticket.key.clone(), is_over: false };
            self.inner.tasks.spawn(self.clone().run_batches(turn, ahead));
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
    async fn run_batches(self, turn: Turn, ahead: Option<OrderedPrepare>) {
        let mut turn = turn;
        let mut ahead = ahead;
        while !turn.ends() {
            BatchRun::new(&self, &turn).run(ahead.take()).await;
        }
    }
}

impl Turn {
    /// A turn of its own.
    #[cfg(test)]
    pub(super) fn of(registers: &Registers, key: RegisterKey) -> Self {
        Self { registers: registers.clone(), key, is_over: true }
    }

    /// The next of those who wait, in their order.
    pub(super) fn take_waiting(&self, already: usize) -> Vec<Member> {
        let most = BATCH_WRITERS_MAX.saturating_sub(already);
        self.registers.inner.writers.update(&self.key, |entry| entry.take(most))
    }

    /// Sends a prepare above a ballot.
    pub(super) fn prepare_above(&self, above: Ballot) -> OrderedPrepare {
        let registers = &self.registers;
        let writers = &registers.inner.writers;
        let place = writers.update(&self.key, |entry| registers.next_prepare(entry, above));
        registers.prepare_at(&self.key, place)
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

impl Drop for Turn {
    /// The task was dropped or has failed: nobody else would ever tell those who wait.
    fn drop(&mut self) {
        if !self.is_over {
            let waiting = self.registers.inner.writers.update(&self.key, |entry| {
                entry.at_work = false;
                entry.take(usize::MAX)
            });
            drop(waiting);
        }
    }
}

impl Drop for WriteTicket {
    fn drop(&mut self) {
        self.registers.inner.writers.update(&self.key, |entry| entry.tickets -= 1);
    }
}
