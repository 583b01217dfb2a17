//! The volume's writing end: what it is, and how a batch becomes durable and is published.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sherd_core::id::{Ballot, Life, Sequence, Timestamp, VolumeId};
use sherd_core::limits;
use sherd_core::message::Answer;
use sherd_core::register::Refusal;
use sherd_core::register::acceptor::{extend_bound, next_reading};

use crate::error::Error;
use crate::format::{Flags, Phase, Subject, encode_hints};
use crate::identity::failure::{FailureFile, FailureSpan};
use crate::index::IndexError;
use crate::index::table::{Payload, opening_key};
use crate::log::append::{AppendError, KnownRows, Log, NewRecord, RecordPlace};
use crate::read::reader::Reader;
use crate::read::view::VolumeShared;
use crate::request::{Completion, Op};
use crate::state::apply::{DerivedState, EntryBatch, FetchedEntries, WrittenRecord};
use crate::state::{Recovery, SmallState};
use crate::write::compaction::Compaction;
use crate::write::piggyback_queue::PiggybackQueue;
use crate::write::plan::{BatchOutcome, BatchPlan, delete_of};

/// After this time a frame without a follower is followed by an empty one, and a waiting release note gets a
/// frame.
pub(super) const TRAIL_US: u64 = 100_000;
/// After this time what waits for a frame gets one of its own.
pub(super) const LAZY_US: u64 = 1_000_000;
/// After this time what is visible is folded into the index: later than a hint of it comes.
pub(super) const FOLD_US: u64 = 2 * LAZY_US;
/// How often the space left is measured.
pub(super) const SPACE_US: u64 = 100_000;

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
    pub(crate) piggyback: PiggybackQueue,
    pub(crate) compaction: Compaction,
    pub(crate) sticky: Arc<FailureFile>,
    pub(crate) queue: VecDeque<Op>,
    pub(crate) room: BatchPlan,
    pub(crate) unprotected_since_us: Option<u64>,
    /// Since when batches are durable and not in the index.
    pub(crate) unfolded_since_us: Option<u64>,
    pub(crate) measured_us: u64,
    /// Until when frames without a waiter are held back: the last one was refused.
    pub(crate) blocked_until_us: u64,
}

impl Volume {
    /// The reading end.
    pub fn reader(&self) -> Arc<Reader> {
        Arc::clone(&self.reader)
    }

    pub(crate) fn bound_to_extend(&self) -> Option<Ballot> {
        if !self.shared.promises.lock().is_active {
            return None;
        }
        extend_bound(self.durable_bound, self.now())
    }

    pub(crate) fn piggyback_begins(&mut self) {
        self.piggyback.begin(self.shared.clock.monotonic_us());
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.shared.clock.wall_ms())
    }

    /// Puts a bound into the batch, and with it the clock that it was made by: should that be set back,
    /// ballots up to here are still taken.
    pub(crate) fn push_bound(&mut self, plan: &mut BatchPlan, bound: Ballot, now: Timestamp) {
        plan.push_state(Subject::Bound(bound), &mut self.working);
        if let Some(reading) = next_reading(self.working.clock_reading, now) {
            plan.push_state(Subject::ClockReading(reading), &mut self.working);
        }
    }

    /// Writes a batch, makes it visible, and answers; the index follows when much has gathered.
    ///
    /// # Errors
    /// As the waiters of the batch are answered.
    pub(crate) fn commit(&mut self, mut plan: BatchPlan, now_us: u64) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let written = self.fetch_entries(&shared, &plan).and_then(|entries| {
            let placed = self.log.append(&mut plan.records, self.working.promised());
            Ok((entries, placed.map_err(|refused| self.append_refused(refused))?))
        });
        let (entries, placed) = match written {
            Ok(written) => written,
            Err(error) => {
                // Operations that need a frame but have no waiter ask again a little later.
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
        // A release note that did not fit keeps its first waiting time.
        let note_since_us = self.unprotected_since_us.filter(|_| !self.piggyback.releases.is_empty());
        self.unprotected_since_us = note_since_us.or(plan.is_awaited.then_some(now_us));
        let outcome = BatchOutcome { from: self.working.answerer(durable), small: &self.working };
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

    pub(crate) fn fold(&mut self) -> Result<(), Error> {
        if self.unfolded_since_us.take().is_none() {
            return Ok(());
        }
        let now_us = self.shared.clock.monotonic_us();
        let since = &self.shared.counters.pending_since_us;
        let _ = since.compare_exchange(0, now_us.max(1), Ordering::Relaxed, Ordering::Relaxed);
        let durable = Sequence(self.log.next().0.saturating_sub(1));
        let derived = self.derived.take_changes(durable);
        // Numbers taken from the counters are not given back.
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
    fn fetch_entries<'a>(
        &self,
        shared: &'a VolumeShared,
        plan: &BatchPlan,
    ) -> Result<FetchedEntries<'a>, Error> {
        let mut entries = FetchedEntries::new(shared);
        let mut sealed = self.log.may_seal(&plan.records);
        sealed
            .try_for_each(|number| entries.fetch(&crate::index::table::segment_key(number)))
            .and_then(|()| plan.records.iter().try_for_each(|one| entries.fetch_for(one, &plan.hints)))
            .map_err(|error| shared.index_failed(&error))?;
        Ok(entries)
    }

    fn effects(
        &mut self,
        entries: &FetchedEntries<'_>,
        plan: &mut BatchPlan,
        placed: &[RecordPlace],
    ) -> Result<(), IndexError> {
        let BatchPlan { records, hints, changes, .. } = plan;
        let mut batch = EntryBatch::new(entries, &mut self.derived, changes);
        for (record, placed) in records.iter().zip(placed) {
            let payload = Payload { length: record.payload_bytes(), intact: Some(&record.payload) };
            let (subject, flags, known) = (&record.subject, record.flags, &record.known);
            let hinted = match known {
                KnownRows::Hints(range) => hints.get(range.clone()),
                KnownRows::Nothing | KnownRows::Row { .. } => None,
            };
            batch.record(&WrittenRecord { subject, flags, payload, placed: *placed, known, hinted })?;
            if let Subject::Row { ballot, .. } = subject {
                self.working.highest = self.working.highest.max(*ballot);
            }
        }
        for (key, value) in changes {
            self.working.change(key, value.as_ref())?;
        }
        Ok(())
    }

    fn publish(&mut self, plan: &mut BatchPlan, durable: Sequence) {
        self.working.settle();
        self.shared.counters.show_horizon(self.derived.horizon());
        self.shared.publish(&mut plan.changes, self.working.highest, durable);
        self.durable_bound = self.working.bound;
        self.durable_reading = self.working.clock_reading;
        self.shared.counters.live_bytes.store(self.derived.live_total(), Ordering::Relaxed);
        self.shared.counters.missed_rows.store(self.derived.missed_count(), Ordering::Relaxed);
        self.shared.counters.unlisted_rows.store(self.derived.unlisted_count(), Ordering::Relaxed);
        self.shared.counters.wants_logged.fetch_add(plan.wants_count, Ordering::Release);
        let mut promises = self.shared.promises.lock();
        promises.end_all();
        for (key, row) in &plan.rows {
            if let Some(row) = row {
                promises.kept_by_row(key, row.head.ballot);
            }
        }
    }

    /// Once the log says that this life votes, volume.json records it before any answer shows it: a log that
    /// is lost after that is a loss. Returns whether the recovery ended with this batch.
    fn note_recovered(&self) -> Result<bool, Error> {
        if !self.working.is_recovering || !self.working.standing().votes() {
            return Ok(false);
        }
        self.sticky.note_whole().map_err(|error| {
            let failure = &self.shared.failure;
            failure.judge_identity(&error);
            // The log says that it votes, and no answer may show it yet: the next open makes up for it.
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

    /// Nothing of a batch was written: all waiters are answered so, and its decisions are void.
    fn give_up(&mut self, mut plan: BatchPlan, error: &Error) {
        self.working = self.shared.view.read().small.clone();
        {
            let mut promises = self.shared.promises.lock();
            promises.end_all();
            promises.is_active |= plan.bound.is_some();
        }
        self.piggyback.take_back(&mut plan);
        plan.tell(Err(error));
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
    pub fn begin_life(&mut self, life: Life) -> Result<(), Error> {
        self.shared.check()?;
        if !self.working.standing().has_lost_state() || life.0 <= self.working.life {
            return Err(Error::Corrupt { what: "a new life is higher, and of a lost volume".to_owned() });
        }
        self.sticky.begin_life(life).map_err(|error| self.shared.failure.judge_identity(&error))?;
        let end = Sequence(self.log.next().0.saturating_sub(1));
        self.working.begin_life(life, end);
        self.shared.view.write().small.begin_life(life, end);
        self.settle_phase()
    }

    /// Names the opening, and the phase that the volume's life begins with. A disk that refuses for the
    /// moment keeps no volume from serving what it has: the opening is named with the next frame then.
    pub(crate) fn settle_opening(&mut self) -> Result<(), Error> {
        let is_begun = !self.working.is_recovering || self.is_recovery_known();
        match self.settle_phase() {
            Err(Error::Full | Error::Busy) if is_begun => Ok(()),
            settled => settled,
        }
    }

    /// Writes the phase that the volume's life begins with, and its opening.
    pub(crate) fn settle_phase(&mut self) -> Result<(), Error> {
        let mut plan = BatchPlan::default();
        self.begin_recovery(&mut plan);
        self.push_opening(&mut plan)?;
        if !plan.is_empty() {
            let now_us = self.shared.clock.monotonic_us();
            self.commit(plan, now_us)?;
        }
        self.shared.check()
    }

    /// Writes down that a life without its state begins, and which segments it keeps that no record names.
    pub(crate) fn start_over(&mut self, unnamed: &[Subject]) -> Result<(), Error> {
        let mut plan = BatchPlan::default();
        self.begin_recovery(&mut plan);
        self.push_opening(&mut plan)?;
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
        let mut plan = BatchPlan::default();
        plan.push(NewRecord::new(Subject::Hints, Flags::default(), [encode_hints([])]));
        let now_us = self.shared.clock.monotonic_us();
        self.commit(plan, now_us)
    }

    /// Progress of this life's recovery; without a record it has just begun.
    pub(crate) fn recovery(&self) -> Recovery {
        let life = Life(self.working.life);
        let kept_after = self.working.rows_after();
        self.working.recovery.filter(|recovery| recovery.life == life).unwrap_or(Recovery {
            life,
            phase: Phase::Waiting,
            rows_after: Sequence(self.log.next().0.saturating_sub(1)),
            kept_after,
        })
    }

    pub(crate) fn push_phase(
        &mut self,
        plan: &mut BatchPlan,
        phase: Phase,
        rows_after: Sequence,
        kept_after: Sequence,
    ) {
        let life = Life(self.working.life);
        let subject = Subject::Phase { life, phase, rows_after, kept_after };
        plan.push_state(subject, &mut self.working);
    }

    pub(crate) fn is_recovery_known(&self) -> bool {
        self.working.recovery.is_some_and(|known| known.life.0 == self.working.life)
    }

    /// Writes down that this life's recovery begins here, unless a record has it already.
    pub(crate) fn begin_recovery(&mut self, plan: &mut BatchPlan) {
        if self.working.is_recovering && !self.is_recovery_known() {
            let recovery = self.recovery();
            self.push_phase(plan, Phase::Waiting, recovery.rows_after, recovery.kept_after);
        }
    }

    /// Names the current opening where the log does not name it yet in this life: its answers tell of no
    /// position before that is durable. Openings that the log need not name any more go, a few at a time.
    pub(crate) fn push_opening(&mut self, plan: &mut BatchPlan) -> Result<(), Error> {
        let Some(opening) = self.working.unnamed_opening() else { return Ok(()) };
        let life = Life(self.working.life);
        plan.push_state(Subject::Opening { life, opening }, &mut self.working);
        for (life, end) in self.working.old_openings(limits::OPENINGS_FORGOTTEN_MAX) {
            if let Some(gone) = delete_of(&self.shared, opening_key(life, end))? {
                plan.push(NewRecord::bare(gone));
            }
        }
        Ok(())
    }

    /// Answers at once, or after the sync.
    pub(crate) fn answer<R: Send + 'static>(
        &self,
        plan: &mut BatchPlan,
        waits: bool,
        done: Completion<Answer<R>>,
        result: Result<R, Refusal>,
    ) {
        if waits && !plan.is_empty() {
            plan.answer(done, result);
        } else {
            done.complete(Ok(Answer { from: self.shared.answerer(), result }));
        }
    }
}
