//! The owner of a volume's log, a thread in production: takes queued commands, makes one step, and waits.
//!
//! A panic on it fails this volume and no other. When it ends, everything queued is dropped, which
//! its callers see as a volume that went away.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use sherd_core::env::Clock;
use sherd_core::id::Life;
use sherd_volume::Histogram;
use sherd_volume::request::Op;
use sherd_volume::write::step::Step;
use sherd_volume::write::volume::Volume;

use super::compaction::{CompactionPace, STEP_BYTES};
use super::limits::{LOG_WAIT_MAX, TAKE_MAX};
use crate::machine::host::{Inbox, Next, Turns};
use crate::machine::queue::Receiver;
use crate::machine::workers::Workers;

/// Operations that are too many for a lone client: a batch of as many looks once more before it is synced.
const CROWD: usize = 3;

/// Bounds of how long operations wait in the queue: a sync of what came before takes some milliseconds, and
/// callers give up after 5 to 10 s.
const QUEUE_US: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every command is an operation")]
pub(crate) enum LogCommand {
    Op {
        op: Op,
        /// When it was queued, in monotonic microseconds; 0 for one that waits for others on purpose.
        queued_us: u64,
    },
    /// The peers confirmed the volume: it votes.
    Confirm(oneshot::Sender<()>),
    /// A recovering volume begins a higher life.
    BeginLife(Life, oneshot::Sender<Result<(), sherd_volume::error::Error>>),
    /// Sync, flush, and end.
    Close(oneshot::Sender<Result<(), String>>),
    /// End without a word to the disk: the directory is gone.
    Abandon,
}

/// Status of the thread, for others.
#[derive(Debug)]
pub(super) struct ThreadStatus {
    /// Microseconds that operations waited in the queue.
    pub(super) queue_us: Histogram,
    /// Monotonic microseconds at which the step under way began; 0 between steps.
    pub(super) step_since_us: AtomicU64,
    /// Why the thread ended.
    pub(super) ended: Mutex<Option<String>>,
}

impl Default for ThreadStatus {
    fn default() -> Self {
        Self {
            queue_us: Histogram::new(&QUEUE_US),
            step_since_us: AtomicU64::new(0),
            ended: Mutex::new(None),
        }
    }
}

/// The log of an open volume, until it ends.
pub(super) struct LogThread {
    /// Nothing behind its end.
    open: Option<OpenLog>,
}

pub(super) struct OpenLog {
    pub(super) volume: Volume,
    pub(super) queue: Receiver<LogCommand>,
    /// Taken from it, to be submitted.
    pub(super) taken: VecDeque<LogCommand>,
    /// The wish of the last step: more work, or a pause.
    pub(super) step: Step,
    /// Whether it waited since: when nothing came, it was for the time.
    pub(super) has_waited: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) maintenance: Workers,
    pub(super) compaction: CompactionPace,
    pub(super) thread: Arc<ThreadStatus>,
    /// Notifies the keeper that the thread ended.
    pub(super) notify: Box<dyn Fn() + Send>,
}

enum QueueTake {
    Nothing,
    Ops,
    Close(oneshot::Sender<Result<(), String>>),
    Abandon,
}

enum TurnOutcome {
    Next(Next),
    Close(oneshot::Sender<Result<(), String>>),
    Abandon,
}

impl LogThread {
    pub(super) const fn new(open: OpenLog) -> Self {
        Self { open: Some(open) }
    }
}

impl Turns for LogThread {
    fn turn(&mut self) -> Next {
        let Some(log) = &mut self.open else { return Next::End };
        let turned = catch_unwind(AssertUnwindSafe(|| log.serve_once()));
        if let Ok(TurnOutcome::Next(next)) = turned {
            return next;
        }
        let Some(mut log) = self.open.take() else { return Next::End };
        log.thread.step_since_us.store(0, Ordering::Release);
        match turned {
            Ok(TurnOutcome::Close(done)) => log.close(done),
            Ok(_) => log.end("closed"),
            Err(_) => {
                // The volume may be in any state: what it can still do is remember that it failed.
                drop(catch_unwind(AssertUnwindSafe(|| log.volume.fail("its log thread panicked"))));
                log.end("its log thread panicked");
            }
        }
        Next::End
    }

    fn inbox(&mut self) -> &dyn Inbox {
        let log = self.open.as_ref().expect("one that ended waits for nothing");
        &log.queue
    }
}

impl OpenLog {
    fn close(self, done: oneshot::Sender<Result<(), String>>) {
        let Self { volume, queue, maintenance, thread, notify, .. } = self;
        drop(queue);
        // Closed means that none of its threads touch the directory any more: another process may open it.
        volume.reader().end_upkeep();
        maintenance.finish();
        let result = catch_unwind(AssertUnwindSafe(|| volume.close())).unwrap_or_else(|_| {
            Err(sherd_volume::error::Error::Failed { reason: "closing panicked".to_owned() })
        });
        *thread.ended.lock() = Some("closed".to_owned());
        drop(done.send(result.map_err(|error| error.to_string())));
        notify();
    }

    fn end(self, reason: &str) {
        let Self { volume, queue, thread, notify, .. } = self;
        // The lock of the directory must be free before the keeper opens it again.
        drop(catch_unwind(AssertUnwindSafe(|| drop(volume))));
        *thread.ended.lock() = Some(reason.to_owned());
        drop(queue);
        notify();
    }

    /// Takes what is queued and makes a step, or says until when there is nothing to do.
    fn serve_once(&mut self) -> TurnOutcome {
        let has_waited = std::mem::take(&mut self.has_waited);
        match self.take() {
            QueueTake::Close(done) => return TurnOutcome::Close(done),
            QueueTake::Abandon => return TurnOutcome::Abandon,
            QueueTake::Nothing if !self.step.more && !has_waited => {
                self.has_waited = true;
                return TurnOutcome::Next(Next::Wait(Some(self.wait())));
            }
            QueueTake::Ops | QueueTake::Nothing => {}
        }
        self.step = self.step();
        self.compact();
        TurnOutcome::Next(Next::Turn)
    }

    fn step(&mut self) -> Step {
        self.thread.step_since_us.store(self.clock.monotonic_us().max(1), Ordering::Release);
        let step = self.volume.step();
        self.thread.step_since_us.store(0, Ordering::Release);
        if step.upkeep {
            let reader = self.volume.reader();
            // One job at a time: while the worker is busy with the last, the next step asks again.
            let _ = self.maintenance.run(move || {
                if let Err(error) = reader.upkeep() {
                    tracing::warn!(%error, "index upkeep failed");
                }
            });
        }
        step
    }

    fn take(&mut self) -> QueueTake {
        if self.queue.take(TAKE_MAX, &mut self.taken).is_err() {
            return QueueTake::Abandon;
        }
        if self.taken.len() >= CROWD && self.taken.len() < TAKE_MAX {
            // Threads that are ready to run may have more for this batch; the log thread does not wait for
            // them.
            std::thread::yield_now();
            // Commands that were taken must still be answered, whether or not more can come.
            let _ = self.queue.take(TAKE_MAX - self.taken.len(), &mut self.taken);
        }
        let mut taken = QueueTake::Nothing;
        while let Some(command) = self.taken.pop_front() {
            match self.submit(command) {
                QueueTake::Nothing => {}
                QueueTake::Ops => taken = QueueTake::Ops,
                end => return end,
            }
        }
        taken
    }

    fn submit(&mut self, command: LogCommand) -> QueueTake {
        match command {
            LogCommand::Op { op, queued_us } => {
                if queued_us > 0 {
                    self.thread.queue_us.count(self.clock.monotonic_us().saturating_sub(queued_us));
                }
                self.volume.submit(op);
                QueueTake::Ops
            }
            LogCommand::Confirm(done) => {
                self.volume.confirm();
                // The caller may have gone.
                let _ = done.send(());
                QueueTake::Nothing
            }
            LogCommand::BeginLife(life, done) => {
                drop(done.send(self.volume.begin_life(life)));
                QueueTake::Nothing
            }
            LogCommand::Close(done) => {
                // Operations that were queued before are written first.
                while self.step().more {}
                QueueTake::Close(done)
            }
            LogCommand::Abandon => QueueTake::Abandon,
        }
    }

    /// How long there is nothing to do unless something comes.
    fn wait(&self) -> Duration {
        let now_us = self.clock.monotonic_us();
        let wake_us = self.step.wake_at_us.unwrap_or(u64::MAX).min(self.compaction.next_us());
        Duration::from_micros(wake_us.saturating_sub(now_us)).min(LOG_WAIT_MAX)
    }

    fn compact(&mut self) {
        if self.clock.monotonic_us() < self.compaction.next_us() {
            return;
        }
        let result = self.volume.compact_step(STEP_BYTES);
        if let Err(error) = &result {
            tracing::warn!(%error, "log compaction failed");
        }
        self.compaction.stepped(&result, self.clock.monotonic_us());
    }
}
