//! An open volume, as calls reach it: its reader, its workers, and the queue of its log.

use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_core::message;
use sherd_volume::read::reader::Reader;
use sherd_volume::request::Op;

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
