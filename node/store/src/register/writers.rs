//! The writers of each key at this gateway: one that comes while others are at work waits for the next batch.
//!
//! ```text
//! begin --(it is alone: prepare goes out)--> WriteTicket --change--> at work: batch after batch, one task
//!                                                           `------> waiting --^
//! ```
//! A key has an entry only while a writer has a ticket, waits, or is at work. A writer alone starts at once:
//! its prepare goes out with its ticket, beside the last syncs of its data.

use tokio::time::Instant;

use sherd_core::id::{Ballot, RegisterKey};

use super::Registers;
use super::batch::BatchRun;
use super::failure::Failure;
use super::key_writers::{HashedKey, KeyWriters};
use super::turn::{KeyTurn, OrderedPrepare, PreparePlace};
use super::writer::{ChangeError, Member, Writer};
use crate::cluster::KeyRoute;
use crate::observe::trace::{self, Phase};

/// The place of a writer to come. Dropped, it is given up.
#[derive(Debug)]
pub struct WriteTicket {
    registers: Registers,
    route: KeyRoute,
    key: HashedKey,
    came: u64,
    deadline: Instant,
    /// Sent if no other writer was at work.
    ahead: Option<OrderedPrepare>,
}

/// State of its key that a writer finds.
#[expect(clippy::large_enum_variant, reason = "it lives for one call, on the stack")]
enum WriterArrival {
    /// No batch is at work: it runs its batch, with the prepare sent ahead if nothing has overtaken it.
    First(Member, Option<OrderedPrepare>),
    Waits,
    NoRoom,
}

impl KeyWriters {
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
    /// Takes a writer's place at a key. Where no other writer has one, and no other gateway was noticed there
    /// lately, the prepare goes out now.
    pub fn begin(&self, key: &RegisterKey) -> WriteTicket {
        self.begin_at(&self.inner.cluster.route(key.clone()))
    }

    /// As [`Self::begin`], where the key's route is at hand.
    pub(crate) fn begin_at(&self, route: &KeyRoute) -> WriteTicket {
        let writers = &self.inner.writers;
        let key = writers.hashed(route.key());
        let came = writers.next_place();
        // Where other gateways write the key, its batch looks first.
        let is_quiet = !self.inner.contention.is_noted(key.hash);
        let alone = writers.update(&key, |entry| {
            entry.tickets += 1;
            (entry.tickets == 1 && !entry.at_work && is_quiet)
                .then(|| PreparePlace::next(self, entry, Ballot::ZERO))
        });
        let ahead = alone.map(|place| place.send(self, route));
        let deadline = Instant::now() + self.inner.timeouts.operation;
        WriteTicket { registers: self.clone(), route: route.clone(), key, came, deadline, ahead }
    }

    /// Makes one change, together with the other writers of the key in this process. Once an accept that
    /// names it was sent, it runs to its end even if its caller has gone.
    ///
    /// # Errors
    /// The writer's own refusal, or a [`Failure`] of the volumes: then the outcome may be unknown.
    pub async fn change<E: std::fmt::Debug + Send + 'static>(
        &self,
        ticket: WriteTicket,
        writer: Writer<E>,
    ) -> Result<(), ChangeError<E>> {
        let mut ticket = ticket;
        let (member, reply) = Member::new(writer, ticket.came, ticket.deadline);
        let ahead = ticket.ahead.take();
        match self.inner.writers.update(&ticket.key, |entry| entry.arrive(member, ahead)) {
            WriterArrival::NoRoom => return Err(ChangeError::Failed(Failure::Overloaded)),
            WriterArrival::Waits => {}
            WriterArrival::First(member, ahead) => {
                let (registers, route, key) = (self.clone(), ticket.route.clone(), ticket.key.clone());
                let turn = KeyTurn { registers, route, key, is_over: false };
                // In a box: a task is moved when it is made, and when it ends.
                let batches = Box::pin(self.clone().run_batches(turn, member, ahead));
                self.inner.tasks.spawn(batches);
            }
        }
        drop(ticket);
        // The task is gone when the process ends: the fate of its accepts is unknown.
        let outcome = trace::timed(Phase::Register, reply)
            .await
            .unwrap_or(Err(ChangeError::Failed(Failure::OutcomeUnknown)));
        if let Err(ChangeError::Failed(Failure::OutcomeUnknown)) = &outcome {
            self.inner.metrics.register.outcomes_unknown.inc();
        }
        outcome
    }

    async fn run_batches(self, turn: KeyTurn, first: Member, ahead: Option<OrderedPrepare>) {
        let mut turn = turn;
        BatchRun::new(&self, &turn).run(Some(first), ahead).await;
        while !turn.ends() {
            BatchRun::new(&self, &turn).run(None, None).await;
        }
    }
}

impl Drop for WriteTicket {
    fn drop(&mut self) {
        self.registers.inner.writers.update(&self.key, |entry| entry.tickets -= 1);
    }
}
