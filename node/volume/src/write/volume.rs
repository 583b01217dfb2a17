//! The volume's writing end: a queue, and a step that turns what is queued into one durable batch.
//!
//! ```text
//! submit -> queue -> judge each -> one frame: write, sync -> publish -> complete
//!                                                             ... many batches ... -> index
//! ```
//!
//! The owner calls [`Volume::step`] from one thread, whenever something was submitted and when the
//! last step asked to be woken. There is no thread, clock or entropy in here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sherd_core::id::{Ballot, Incarnation, Sequence, Timestamp, VolumeId};
use sherd_core::limits;
use sherd_core::register::acceptor::{extend_bound, next_reading};

use crate::error::Error;
use crate::format::{Flags, Hint, Subject, encode_hints};
use crate::identity::failure::{FailureFile, FailureSpan};
use crate::index::IndexError;
use crate::index::table::Payload;
use crate::log::append::{AppendError, KnownRows, Log, NewRecord, RecordPlace};
use crate::read::reader::Reader;
use crate::read::view::VolumeShared;
use crate::request::Op;
use crate::state::SmallState;
use crate::state::apply::{Batch, DerivedState, FetchedEntries, WrittenRecord};
use crate::write::compact::Compaction;
use crate::write::judge::{JudgedPlace, op_bytes};
use crate::write::plan::{Outcome, Plan};
use crate::write::ride_along::Lazy;

/// After this time a frame that nobody followed is followed by an empty one, and a note of replaced data gets one.
const TRAIL_US: u64 = 100_000;
/// After this time what waits for a frame gets one of its own.
const LAZY_US: u64 = 1_000_000;
/// After this time what is visible is folded into the index: later than a hint of it comes.
const FOLD_US: u64 = 2 * LAZY_US;
/// How often the space left is measured.
const SPACE_US: u64 = 100_000;

/// What a step asks of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Operations are left: step again.
    pub more: bool,
    /// When to step again though nothing is submitted, by [`sherd_core::env::Clock::monotonic_us`].
    pub wake_at_us: Option<u64>,
    /// [`Reader::upkeep`] has something to do.
    pub upkeep: bool,
}

/// One volume, open.
#[derive(Debug)]
pub struct Volume {
    pub(crate) id: VolumeId,
    pub(crate) shared: Arc<VolumeShared>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) log: Log,
    pub(crate) working: SmallState,
    pub(crate) durable_bound: Ballot,
    pub(crate) durable_reading: Timestamp,
    pub(crate) derived: DerivedState,
    pub(crate) lazy: Lazy,
    pub(crate) compaction: Compaction,
    pub(crate) sticky: Arc<FailureFile>,
    pub(crate) queue: VecDeque<Op>,
    /// The room of the batch before.
    pub(crate) room: Plan,
    pub(crate) unprotected_since_us: Option<u64>,
    /// Since when batches are durable and not in the index.
    pub(crate) unfolded_since_us: Option<u64>,
    pub(crate) measured_us: u64,
    /// Until when no frame is written that nobody waits for: the last one was refused.
    pub(crate) blocked_until_us: u64,
}

impl Volume {
    /// The reading end.
    pub fn reader(&self) -> Arc<Reader> {
        Arc::clone(&self.reader)
    }

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
            self.ride_along(&mut plan);
            if plan.is_empty() {
                plan.push(NewRecord::new(Subject::Hints, Flags::default(), [encode_hints([])]));
            }
            // Whoever waits was told; whoever does not asks again.
            let _ = self.commit(plan, now_us);
        } else {
            self.room = plan.emptied();
        }
        self.shared.counters.queue_len.store(self.queue.len(), Ordering::Relaxed);
        self.next_step()
    }

    fn drain(&mut self, plan: &mut Plan) {
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

    /// Whether a frame is to be written though nobody waits for one.
    fn is_due(&self, now_us: u64) -> bool {
        if now_us < self.blocked_until_us {
            return false;
        }
        let passed = |since: Option<u64>, after: u64| since.is_some_and(|since| now_us >= since + after);
        passed(self.unprotected_since_us, TRAIL_US)
            || (!self.lazy.is_empty() && passed(self.lazy.since_us, LAZY_US))
            || self.bound_to_extend().is_some()
    }

    pub(crate) fn bound_to_extend(&self) -> Option<Ballot> {
        if !self.shared.promises.lock().is_active {
            return None;
        }
        extend_bound(self.durable_bound, self.now())
    }

    /// The volume's clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.shared.clock.wall_ms())
    }

    /// Puts a bound into the batch, and with it the clock that it was made by: should that be set back,
    /// ballots up to here are still taken.
    pub(crate) fn push_bound(&mut self, plan: &mut Plan, bound: Ballot, now: Timestamp) {
        plan.push_state(Subject::Bound(bound), &mut self.working);
        if let Some(reading) = next_reading(self.working.clock_reading, now) {
            plan.push_state(Subject::ClockReading(reading), &mut self.working);
        }
    }

    /// Writes a batch, makes it visible, and answers; the index follows when much has gathered.
    ///
    /// # Errors
    /// As whoever waits for the batch is told.
    pub(crate) fn commit(&mut self, mut plan: Plan, now_us: u64) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let written = self.fetch_entries(&shared, &plan).and_then(|entries| {
            let placed = self.log.append(&mut plan.records, self.working.promised());
            Ok((entries, placed.map_err(|refused| self.append_refused(refused))?))
        });
        let (entries, placed) = match written {
            Ok(written) => written,
            Err(error) => {
                // Whatever asks for a frame without anybody waiting for it asks again a little later.
                self.blocked_until_us = now_us.saturating_add(TRAIL_US);
                self.give_up(plan, &error);
                return Err(error);
            }
        };
        self.shared.counters.written(self.log.sync_us(), plan.records.len(), plan.bytes);
        let durable = Sequence(self.log.next().0.saturating_sub(1));
        if let Err(error) = self.effects(&entries, &mut plan, &placed) {
            // The log has the batch, and half of what it changes is counted: only a replay can end it.
            let error = self.shared.failure.fail(FailureSpan::Run, &error.to_string());
            self.give_up(plan, &error);
            return Err(error);
        }
        let is_recovered = match self.note_recovered() {
            Ok(is_recovered) => is_recovered,
            Err(error) => {
                self.give_up(plan, &error);
                return Err(error);
            }
        };
        self.publish(&mut plan, durable);
        if is_recovered {
            self.end_recovery();
        }
        // What had no room for a note of replaced data does not make it wait anew.
        let note_since_us = self.unprotected_since_us.filter(|_| !self.lazy.releases.is_empty());
        self.unprotected_since_us = note_since_us.or(plan.is_awaited.then_some(now_us));
        let outcome = Outcome { from: self.working.answerer(durable), small: &self.working };
        plan.tell(Ok(&outcome));
        self.room = plan.emptied();
        self.unfolded_since_us.get_or_insert_with(|| self.shared.clock.monotonic_us());
        let is_much = self.shared.view.read().overlay.len() >= self.shared.options.fold_entries;
        if is_much { self.fold() } else { Ok(()) }
    }

    fn append_refused(&self, refused: AppendError) -> Error {
        let failure = &self.shared.failure;
        match refused {
            AppendError::Full => {
                let until_us = self.shared.clock.monotonic_us().saturating_add(SPACE_US);
                self.shared.counters.full_until_us.store(until_us, Ordering::Relaxed);
                Error::Full
            }
            AppendError::Busy => Error::Busy,
            AppendError::Undecided(error) => {
                failure.fail(FailureSpan::Run, &format!("take a frame back: {error}"))
            }
            AppendError::Fatal(error) => failure.judge("write log", &error),
        }
    }

    /// Applies what is visible to the index.
    pub(crate) fn fold(&mut self) -> Result<(), Error> {
        if self.unfolded_since_us.take().is_none() {
            return Ok(());
        }
        let now_us = self.shared.clock.monotonic_us();
        let since = &self.shared.counters.pending_since_us;
        let _ = since.compare_exchange(0, now_us.max(1), Ordering::Relaxed, Ordering::Relaxed);
        let durable = Sequence(self.log.next().0.saturating_sub(1));
        let derived = self.derived.take_changes();
        // What was taken from the counts is not given back.
        let failure = &self.shared.failure;
        let folded = self.shared.fold(derived, durable);
        folded.map_err(|error| failure.fail(FailureSpan::Run, &error.to_string()))?;
        self.reader.relieve_upkeep();
        self.shared.check()
    }

    /// Makes the index whole: an open from here replays nothing.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Error> {
        self.fold()?;
        self.shared.index.flush().map_err(|error| self.shared.index_failed(&error))
    }

    /// Looks up what the batch will change, as long as nothing of it is written.
    fn fetch_entries<'a>(&self, shared: &'a VolumeShared, plan: &Plan) -> Result<FetchedEntries<'a>, Error> {
        let mut entries = FetchedEntries::new(shared);
        let mut sealed = self.log.may_seal(&plan.records);
        sealed
            .try_for_each(|number| entries.fetch(&crate::index::table::segment_key(number)))
            .and_then(|()| plan.records.iter().try_for_each(|one| entries.fetch_for(one, &plan.learnt)))
            .map_err(|error| shared.index_failed(&error))?;
        Ok(entries)
    }

    fn effects(
        &mut self,
        entries: &FetchedEntries<'_>,
        plan: &mut Plan,
        placed: &[RecordPlace],
    ) -> Result<(), IndexError> {
        let Plan { records, learnt, changes, .. } = plan;
        let mut batch = Batch::new(entries, &mut self.derived, changes);
        for (record, placed) in records.iter().zip(placed) {
            let payload = Payload { length: record.payload_bytes(), intact: Some(&record.payload) };
            let (subject, flags, known) = (&record.subject, record.flags, &record.known);
            let learnt = match known {
                KnownRows::Hints(range) => learnt.get(range.clone()),
                KnownRows::Nothing | KnownRows::Row { .. } => None,
            };
            batch.record(&WrittenRecord { subject, flags, payload, placed: *placed, known, learnt })?;
            if let Subject::Row { ballot, .. } = subject {
                self.working.highest = self.working.highest.max(*ballot);
            }
        }
        for (key, value) in changes {
            self.working.change(key, value.as_ref())?;
        }
        Ok(())
    }

    fn publish(&mut self, plan: &mut Plan, durable: Sequence) {
        self.working.settle();
        self.shared.publish(&mut plan.changes, self.working.highest, durable);
        self.durable_bound = self.working.bound;
        self.durable_reading = self.working.clock_reading;
        self.shared.counters.live_bytes.store(self.derived.live_total(), Ordering::Relaxed);
        let mut promises = self.shared.promises.lock();
        promises.end_all();
        for (key, row) in &plan.rows {
            if let Some(row) = row {
                promises.kept_by_row(key, row.head.ballot);
            }
        }
    }

    /// Once the log says that this life votes, volume.json says so before anybody hears of it: a
    /// log that is lost after that is a loss. Whether the recovery ended with this batch.
    fn note_recovered(&self) -> Result<bool, Error> {
        if !self.working.is_recovering || !self.working.standing().votes() {
            return Ok(false);
        }
        self.sticky.note_whole().map_err(|error| {
            let failure = &self.shared.failure;
            failure.judge_identity(&error);
            // The log says that it votes, and nobody may hear of it yet: the next open makes up for it.
            failure.fail(FailureSpan::Run, &error.to_string())
        })?;
        Ok(true)
    }

    /// The volume votes: its voters gave it its state, so it needs no other confirmation.
    fn end_recovery(&mut self) {
        for small in [&mut self.working, &mut self.shared.view.write().small] {
            small.is_recovering = false;
            small.is_confirmed = true;
        }
    }

    /// Nothing of a batch was written: everybody who waits learns so, and what was decided for it is
    /// undecided again.
    fn give_up(&mut self, mut plan: Plan, error: &Error) {
        self.working = self.shared.view.read().small.clone();
        {
            let mut promises = self.shared.promises.lock();
            promises.end_all();
            promises.is_active |= plan.bound.is_some();
        }
        self.ride_again(&mut plan);
        plan.tell(Err(error));
    }

    fn next_step(&self) -> Step {
        let mut wake_at_us = self.unprotected_since_us.map(|since| since + TRAIL_US);
        let mut sooner = |at: Option<u64>| {
            wake_at_us = match (wake_at_us, at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        };
        sooner(self.lazy.since_us.map(|since| since + LAZY_US));
        sooner(self.unfolded_since_us.map(|since| since + FOLD_US));
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

    /// Fails the volume until it is replaced, for a reason that its owner knows.
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

    /// Lets the volume vote, unless it lost its state: peers confirmed that they remember no later one.
    /// Until then a volume that was opened refuses every vote and every write of a row.
    pub fn confirm(&mut self) {
        self.working.is_confirmed = true;
        self.shared.view.write().small.is_confirmed = true;
    }

    /// Begins a life above every one that peers know of this volume, while it is recovering.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the volume is not recovering or the life is not a higher one,
    /// [`Error::Full`], [`Error::Busy`], [`Error::Failed`].
    pub fn begin_life(&mut self, incarnation: Incarnation) -> Result<(), Error> {
        self.shared.check()?;
        if !self.working.standing().has_lost_state() || incarnation.0 <= self.working.incarnation {
            return Err(Error::Corrupt { what: "a new life is higher, and of a lost volume".to_owned() });
        }
        self.sticky.begin_life(incarnation).map_err(|error| self.shared.failure.judge_identity(&error))?;
        self.working.incarnation = incarnation.0;
        self.shared.view.write().small.incarnation = incarnation.0;
        self.settle_phase()
    }

    /// Writes the phase that the volume's life begins with.
    pub(crate) fn settle_phase(&mut self) -> Result<(), Error> {
        let mut plan = Plan::default();
        self.begin_recovery(&mut plan);
        if !plan.is_empty() {
            let now_us = self.shared.clock.monotonic_us();
            self.commit(plan, now_us)?;
        }
        self.shared.check()
    }

    /// Writes down that a life without its state begins, and which segments it keeps that no record names.
    pub(crate) fn begin_anew(&mut self, unnamed: &[Subject]) -> Result<(), Error> {
        let mut plan = Plan::default();
        self.begin_recovery(&mut plan);
        for segment in unnamed {
            plan.push_state(segment.clone(), &mut self.working);
        }
        let kept: Vec<u64> = self.working.segments.keys().copied().collect();
        for number in kept.into_iter().filter(|number| self.shared.segments.get(*number).is_none()) {
            let key = crate::index::table::segment_key(number);
            if let Some(entry) = self.shared.entry(&key)? {
                let (oldest, newest) = (entry.origin.oldest, entry.origin.placed);
                plan.push(NewRecord::bare(Subject::Delete { key, oldest, newest }));
            }
        }
        if !plan.is_empty() {
            self.commit(plan, 0)?;
        }
        self.write_empty_frame()
    }

    /// Writes a frame with nothing in it: it protects the one before, and begins a log.
    pub(crate) fn write_empty_frame(&mut self) -> Result<(), Error> {
        let mut plan = Plan::default();
        plan.push(NewRecord::new(Subject::Hints, Flags::default(), [encode_hints([])]));
        let now_us = self.shared.clock.monotonic_us();
        self.commit(plan, now_us)
    }

    /// Writes what waits, and makes the index whole: the next open replays nothing.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn close(mut self) -> Result<(), Error> {
        while self.step().more {}
        let mut waiting = usize::MAX;
        // What the index cannot tell of would wait for ever.
        while (self.unprotected_since_us.is_some() || !self.lazy.is_empty()) && self.lazy.len() < waiting {
            waiting = self.lazy.len();
            let mut plan = Plan::default();
            self.ride_along(&mut plan);
            self.shared.check()?;
            let written = if plan.is_empty() { self.write_empty_frame() } else { self.commit(plan, 0) };
            match written {
                Ok(()) => {}
                // What waits is lazy: what stands in the log is made whole all the same.
                Err(Error::Full | Error::Busy) => break,
                Err(error) => return Err(error),
            }
        }
        self.shared.check()?;
        self.checkpoint()
    }
}

/// Bytes of a hint in a record, about.
pub(crate) fn hint_bytes(hint: &Hint) -> usize {
    64 + hint.key.key.as_bytes().len()
}

/// Answers an operation that is not done.
fn refuse(op: Op, error: &Error) {
    match op {
        Op::Prepare { done, .. } | Op::Read { done, .. } => done.complete(Err(error.clone())),
        Op::Accept { done, .. } | Op::Adopt { done, .. } | Op::Drop { done, .. } => {
            done.complete(Err(error.clone()));
        }
        Op::PutShard { done, .. } | Op::DeleteShard { done, .. } | Op::HealPut { done, .. } => {
            done.complete(Err(error.clone()));
        }
        Op::Control { done, .. } => done.complete(Err(error.clone())),
        Op::Commit { .. }
        | Op::HealDone { .. }
        | Op::ReleasePut { .. }
        | Op::ReleaseDone { .. }
        | Op::PeerSeen { .. } => {}
    }
}
