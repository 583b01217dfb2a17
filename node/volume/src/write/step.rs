//! The volume's life, step by step: a queue, and a step that turns what is queued into one durable batch.
//!
//! ```text
//! submit -> queue -> judge each -> one frame: write, sync -> publish -> complete
//!                                                             ... many batches ... -> index
//! ```
//!
//! The owner calls [`Volume::step`] from one thread, whenever something was submitted and when the last step
//! asked to be woken. This crate has neither thread nor clock nor entropy.

use std::sync::atomic::Ordering;

use sherd_core::limits;

use crate::error::Error;
use crate::format::{Flags, Subject, encode_hints};
use crate::identity::failure::FailureSpan;
use crate::log::append::NewRecord;
use crate::request::Op;
use crate::write::judge::op_bytes;
use crate::write::plan::{BatchPlan, JudgedPlace};
use crate::write::volume::{FOLD_US, LAZY_US, SPACE_US, TRAIL_US, Volume};

/// Request of a step to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Operations are left: step again.
    pub more: bool,
    /// When to step again though nothing is submitted, by [`sherd_core::env::Clock::monotonic_us`].
    pub wake_at_us: Option<u64>,
    /// [`Reader::upkeep`](crate::read::reader::Reader::upkeep) has something to do.
    pub upkeep: bool,
}

impl Volume {
    /// Queues an operation. Never blocks: over the queue's limit the answer is [`Error::Busy`], and
    /// on a failed volume [`Error::Failed`].
    pub fn submit(&mut self, op: Op) {
        if let Err(error) = self.shared.check() {
            return refuse(op, &error);
        }
        if self.queue.len() >= limits::VOLUME_QUEUE_MAX {
            return refuse(op, &Error::Busy);
        }
        self.queue.push_back(op);
        self.shared.counters.queue_len.store(self.queue.len(), Ordering::Relaxed);
    }

    /// Turns what is queued into one durable batch, and answers.
    pub fn step(&mut self) -> Step {
        if let Err(error) = self.shared.check() {
            self.refuse_all(&error);
            return Step::default();
        }
        let now_us = self.shared.clock.monotonic_us();
        self.measure_space(now_us);
        if self.unfolded_since_us.is_some_and(|since| now_us >= since + FOLD_US) && self.fold().is_err() {
            return Step::default();
        }
        let mut plan = std::mem::take(&mut self.room);
        self.drain(&mut plan);
        let is_due = self.is_due(now_us);
        if !plan.is_empty() || is_due {
            self.add_piggyback(&mut plan);
            if plan.is_empty() {
                plan.push(NewRecord::new(Subject::Hints, Flags::default(), [encode_hints([])]));
            }
            // Waiters were answered; operations without a waiter ask again.
            let _ = self.commit(plan, now_us);
        } else {
            self.room = plan.emptied();
        }
        self.shared.counters.queue_len.store(self.queue.len(), Ordering::Relaxed);
        self.next_step()
    }

    fn drain(&mut self, plan: &mut BatchPlan) {
        let limit = self.log.batch_bytes_max();
        while let Some(op) = self.queue.pop_front() {
            let fits = plan.is_empty() || plan.bytes + op_bytes(&op) <= limit;
            let judged = if fits { self.judge(plan, op) } else { JudgedPlace::Later(op) };
            if let JudgedPlace::Later(op) = judged {
                self.queue.push_front(op);
                break;
            }
        }
    }

    fn add_piggyback(&mut self, plan: &mut BatchPlan) {
        // Entries that the index cannot read now go with a later opening.
        let _ = self.push_opening(plan);
        if plan.bound.is_none()
            && let Some(bound) = self.bound_to_extend()
        {
            self.push_bound(plan, bound, self.now());
            self.shared.promises.lock().is_active = false;
        }
        let frame_bytes_max = self.log.frame_bytes_max();
        self.piggyback.add_to(plan, &mut self.working, &self.shared, frame_bytes_max);
    }

    /// Whether a frame is to be written although no caller waits for one.
    fn is_due(&self, now_us: u64) -> bool {
        if now_us < self.blocked_until_us {
            return false;
        }
        let passed = |since: Option<u64>, after: u64| since.is_some_and(|since| now_us >= since + after);
        passed(self.unprotected_since_us, TRAIL_US)
            || (!self.piggyback.is_empty() && passed(self.piggyback.since_us, LAZY_US))
            || self.bound_to_extend().is_some()
            || self.working.unnamed_opening().is_some()
    }

    fn next_step(&self) -> Step {
        let mut wake_at_us = self.unprotected_since_us.map(|since| since + TRAIL_US);
        let mut sooner = |at: Option<u64>| {
            wake_at_us = match (wake_at_us, at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        };
        sooner(self.piggyback.since_us.map(|since| since + LAZY_US));
        sooner(self.unfolded_since_us.map(|since| since + FOLD_US));
        sooner(self.working.unnamed_opening().map(|_| self.blocked_until_us));
        if self.shared.promises.lock().is_active {
            let now_ms = self.shared.clock.wall_ms();
            let left_ms = self.durable_bound.time.as_ms().saturating_sub(now_ms);
            let wait_ms = (left_ms + 1).saturating_sub(limits::BOUND_AHEAD_MS / 2);
            sooner(Some(self.shared.clock.monotonic_us() + wait_ms * 1000));
        }
        let wake_at_us = wake_at_us.map(|at| at.max(self.blocked_until_us));
        let wake_at_us = [wake_at_us, self.reader.flush_due_us()].into_iter().flatten().min();
        Step { more: !self.queue.is_empty(), wake_at_us, upkeep: self.reader.wants_upkeep() }
    }

    fn measure_space(&mut self, now_us: u64) {
        if self.measured_us == 0 || now_us >= self.measured_us + SPACE_US {
            self.measured_us = now_us.max(1);
            // A filesystem that does not answer shows in the next write; the old figure stays.
            let _ = self.shared.measure_space();
        }
    }

    /// Fails the volume until it is replaced, for a reason that its owner gives.
    pub fn fail(&mut self, reason: &str) {
        let error = self.shared.failure.fail(FailureSpan::Life, reason);
        self.refuse_all(&error);
    }

    fn refuse_all(&mut self, error: &Error) {
        for op in std::mem::take(&mut self.queue) {
            refuse(op, error);
        }
        self.shared.counters.queue_len.store(0, Ordering::Relaxed);
    }

    /// Writes what waits, and makes the index whole: the next open replays nothing.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn close(mut self) -> Result<(), Error> {
        while self.step().more {}
        let mut waiting = usize::MAX;
        // Hints whose rows the index cannot read would wait for ever.
        while (self.unprotected_since_us.is_some() || !self.piggyback.is_empty())
            && self.piggyback.len() < waiting
        {
            waiting = self.piggyback.len();
            let mut plan = BatchPlan::default();
            self.add_piggyback(&mut plan);
            self.shared.check()?;
            let written = if plan.is_empty() { self.write_empty_frame() } else { self.commit(plan, 0) };
            match written {
                Ok(()) => {}
                // Waiting operations are lazy: the log is completed without them.
                Err(Error::Full | Error::Busy) => break,
                Err(error) => return Err(error),
            }
        }
        self.shared.check()?;
        self.checkpoint()
    }
}

fn refuse(op: Op, error: &Error) {
    match op {
        Op::Prepare { done, .. } | Op::Read { done, .. } => done.complete(Err(error.clone())),
        Op::Accept { done, .. } | Op::Adopt { done, .. } | Op::Pull { done, .. } | Op::Drop { done, .. } => {
            done.complete(Err(error.clone()));
        }
        Op::PutShard { done, .. }
        | Op::DeleteShard { done, .. }
        | Op::HealPut { done, .. }
        | Op::WantPut { done, .. } => {
            done.complete(Err(error.clone()));
        }
        Op::Control { done, .. } => done.complete(Err(error.clone())),
        Op::Commit { .. }
        | Op::HealDone { .. }
        | Op::WantDone { .. }
        | Op::ReleasePut { .. }
        | Op::ReleaseDone { .. }
        | Op::PeerSeen { .. }
        | Op::Asked(_) => {}
    }
}
