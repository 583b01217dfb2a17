//! An open volume, as calls reach it: its reader, its workers, and the queue of its log.

use std::sync::Arc;

use tokio::sync::oneshot;

use sherd_core::env::Clock;
use sherd_core::heal::{HealEntry, HealId};
use sherd_core::message;
use sherd_volume::error::Error;
use sherd_volume::read::reader::Reader;
use sherd_volume::read::wants::{self, LoggedWant};
use sherd_volume::request::{Completion, Op};

use super::faults::Faults;
use super::limits::LAZY_PATIENCE;
use super::log_thread::{LogCommand, ThreadStatus};
use crate::machine::queue::{QueueRefusal, Sender};
use crate::machine::workers::Workers;

/// An open volume.
#[derive(Debug)]
pub struct ServingVolume {
    /// Reads that need no order.
    pub reader: Arc<Reader>,
    /// Blocking reads.
    pub reads: Workers,
    /// Pages of listings, parts and rows, in a line of their own: what one key asks never waits behind them.
    pub scans: Workers,
    /// Shard files. Those under way keep the threads, not the volume.
    pub writes: Arc<Workers>,
    pub(super) queue: Sender<LogCommand>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) thread: Arc<ThreadStatus>,
    pub(crate) faults: Arc<Faults>,
    /// Whether it may have promised ballots before it was opened: it refuses all up to these, which
    /// may be ahead of the clock.
    pub(crate) has_promised: bool,
}

impl ServingVolume {
    /// Queues an operation for the log thread.
    ///
    /// # Errors
    /// [`message::Error::Busy`] when too many wait, [`message::Error::Unreachable`] when the thread ended.
    pub fn submit(&self, op: Op) -> Result<(), message::Error> {
        self.command(LogCommand::Op { op, queued_us: self.clock.monotonic_us() })
    }

    /// Queues an operation that rides with a frame to come: the log thread is not woken for it when it
    /// wakes soon.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub(crate) fn submit_lazily(&self, op: Op) -> Result<(), message::Error> {
        let command = LogCommand::Op { op, queued_us: 0 };
        self.queue.try_send_idly(command, LAZY_PATIENCE).map_err(|error| refused(&error))
    }

    /// Logs a want of a walk over the volume's rows; durable when this returns.
    ///
    /// # Errors
    /// As the volume refuses it.
    pub(crate) async fn put_want(&self, want: HealEntry) -> Result<(), message::Error> {
        let (answer, done) = oneshot::channel();
        let done_with = Completion::new(move |result: Result<(), Error>| drop(answer.send(result)));
        self.submit(Op::WantPut { want, done: done_with })?;
        done.await.map_err(|_| unreachable_because("the volume is closing"))?.map_err(Into::into)
    }

    /// One page of the wants in the volume's log, behind `after`.
    ///
    /// # Errors
    /// [`message::Error::Busy`] when too many reads wait; else as the volume fails.
    pub(crate) async fn wants(
        self: &Arc<Self>,
        after: Option<HealId>,
        limit: usize,
    ) -> Result<Vec<LoggedWant>, message::Error> {
        let (answer, page) = oneshot::channel();
        let reader = Arc::clone(&self.reader);
        let job = move || drop(answer.send(wants::wants(&reader, after, limit)));
        self.reads.run(job).map_err(|crate::machine::workers::QueueFull| message::Error::Busy)?;
        // A volume that is closed drops what waits.
        page.await.map_err(|_| unreachable_because("the volume is closing"))?.map_err(Into::into)
    }

    pub(super) fn command(&self, command: LogCommand) -> Result<(), message::Error> {
        self.queue.try_send(command).map_err(|error| refused(&error))
    }
}

fn refused(error: &QueueRefusal<LogCommand>) -> message::Error {
    match error {
        QueueRefusal::Full(_) => message::Error::Busy,
        QueueRefusal::Closed(_) => unreachable_because("the volume is closing"),
    }
}

/// The error of a volume that cannot be asked.
pub fn unreachable_because(reason: &str) -> message::Error {
    message::Error::Unreachable { reason: reason.to_owned() }
}
