//! One batch while it is put together: records, rows that are judged and not yet durable, and the waiters for
//! the sync.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;

use sherd_core::id::Ballot;
use sherd_core::message::Answer;
use sherd_core::register::acceptor::judge_commit;
use sherd_core::register::{Answerer, Refusal, RowHead};

use crate::error::Error;
use crate::format::{Flags, Subject, encode_hints};
use crate::index::table::key_of;
use crate::limits::PLAN_ROOM_MAX;
use crate::log::append::{HintedCommit, KnownRows, NewRecord};
use crate::read::view::VolumeShared;
use crate::request::{Completion, Op};
use crate::state::SmallState;
use crate::state::apply::Changes;
use crate::write::piggyback_queue::PiggybackBatch;

pub(crate) struct BatchOutcome<'a> {
    pub(crate) from: Answerer,
    pub(crate) small: &'a SmallState,
}

type BatchListener = Box<dyn FnOnce(Result<&BatchOutcome<'_>, Error>) + Send>;

/// A waiter that is answered after the sync.
enum Waiter {
    Accept(Completion<Answer<()>>, Result<(), Refusal>),
    Confirm(Completion<()>),
    Other(BatchListener),
}

impl Waiter {
    fn tell(self, outcome: Result<&BatchOutcome<'_>, Error>) {
        match self {
            Self::Accept(done, result) => {
                done.complete(outcome.map(|outcome| Answer { from: outcome.from.clone(), result }));
            }
            Self::Confirm(done) => done.complete(outcome.map(|_| ())),
            Self::Other(tell) => tell(outcome),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PendingRow {
    pub(crate) head: RowHead,
    pub(crate) value: Bytes,
}

#[expect(clippy::large_enum_variant, reason = "it lives for one call, on the stack")]
pub(crate) enum JudgedPlace {
    /// Answered, or part of the batch.
    Done,
    /// The operation depends on the state after this batch: it begins the next one.
    Later(Op),
}

#[derive(Default)]
pub(crate) struct BatchPlan {
    pub(crate) records: Vec<NewRecord>,
    pub(crate) bytes: usize,
    /// Rows written (or dropped) by this batch.
    pub(crate) rows: HashMap<Bytes, Option<PendingRow>>,
    /// Index keys of its other records, but for those of peers.
    pub(crate) keys: HashSet<Bytes>,
    pub(crate) hints: Vec<HintedCommit>,
    pub(crate) changes: Changes,
    pub(crate) bound: Option<Ballot>,
    /// Whether guarantees change: an answer that carries them waits for the sync.
    pub(crate) changes_state: bool,
    /// Whether a waiter is answered when this batch is durable.
    pub(crate) is_awaited: bool,
    /// Wants among its records.
    pub(crate) wants_count: u64,
    /// The records that no one waits for.
    pub(crate) piggyback: PiggybackBatch,
    waiters: Vec<Waiter>,
}

impl std::fmt::Debug for BatchPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchPlan").field("records", &self.records).finish_non_exhaustive()
    }
}

impl BatchPlan {
    /// Nothing, in the room of a batch that is done.
    pub(crate) fn emptied(mut self) -> Self {
        let entries = self.records.capacity().max(self.changes.capacity()).max(self.keys.capacity());
        if entries.max(self.rows.capacity()).max(self.waiters.capacity()).max(self.hints.capacity())
            > 2 * PLAN_ROOM_MAX
        {
            return Self::default();
        }
        self.records.clear();
        self.rows.clear();
        self.keys.clear();
        self.hints.clear();
        self.changes.clear();
        self.waiters.clear();
        let Self { records, rows, keys, hints, changes, waiters, .. } = self;
        Self { records, rows, keys, hints, changes, waiters, ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: NewRecord) {
        self.bytes += record.bytes();
        match &record.subject {
            // Rows stand in a map of their own; no operation looks whether a batch has a record of a peer.
            Subject::Row { .. } | Subject::Peer { .. } | Subject::PeerNotes { .. } => {}
            Subject::Delete { key, .. } => {
                self.keys.insert(key.clone());
            }
            subject => self.keys.extend(key_of(subject)),
        }
        self.records.push(record);
    }

    /// Adds commit hints: one record of those that every volume has, one of the others.
    pub(crate) fn push_hints(&mut self, hints: impl IntoIterator<Item = HintedCommit>) {
        let start = self.hints.len();
        self.hints.extend(hints);
        let end = self.hints.len();
        let hints = &mut self.hints[start..];
        hints.sort_by_key(|one| !one.hint.is_everywhere);
        let missed_from = start + hints.partition_point(|one| one.hint.is_everywhere);
        for HintedCommit { hint, keys } in hints {
            if let Some(Some(row)) = self.rows.get_mut(keys.row())
                && judge_commit(Some(&row.head), hint.ballot)
            {
                row.head.committed = true;
            }
        }
        for (range, is_missed) in [(start..missed_from, false), (missed_from..end, true)] {
            if range.is_empty() {
                continue;
            }
            let payload = encode_hints(self.hints[range.clone()].iter().map(|one| &one.hint));
            let flags = Flags::default().with(Flags::MISSED, is_missed);
            let record = NewRecord::new(Subject::Hints, flags, [payload]);
            self.push(record.knowing(KnownRows::Hints(range)));
        }
    }

    /// Adds a piece of state, and applies it to the working copy. Bounds and readings of the clock are not
    /// sent to callers, so no answer waits for them but the promise that needs one.
    pub(crate) fn push_state(&mut self, subject: Subject, working: &mut SmallState) {
        working.learn(&subject);
        match &subject {
            Subject::Bound(bound) => self.bound = Some(*bound),
            Subject::ClockReading(_) => {}
            _ => self.changes_state = true,
        }
        self.push(NewRecord::bare(subject));
    }

    /// Calls `done` after the sync.
    pub(crate) fn after(&mut self, waiter: impl FnOnce(Result<&BatchOutcome<'_>, Error>) + Send + 'static) {
        self.wait(Waiter::Other(Box::new(waiter)));
    }

    fn wait(&mut self, waiter: Waiter) {
        self.is_awaited = true;
        self.waiters.push(waiter);
    }

    pub(crate) fn answer_accept(&mut self, done: Completion<Answer<()>>, result: Result<(), Refusal>) {
        self.wait(Waiter::Accept(done, result));
    }

    pub(crate) fn answer<R: Send + 'static>(
        &mut self,
        done: Completion<Answer<R>>,
        result: Result<R, Refusal>,
    ) {
        self.after(move |outcome| {
            done.complete(outcome.map(|outcome| Answer { from: outcome.from.clone(), result }));
        });
    }

    /// An operation that takes several batches is answered by its last one, and fails with any of
    /// them. Gives the completion for the rest of it.
    pub(crate) fn answer_with_later<R: Send + 'static>(&mut self, done: Completion<R>) -> Completion<R> {
        let whole = Arc::new(Mutex::new(Some(done)));
        let rest = Arc::clone(&whole);
        self.after(move |outcome| {
            if let Err(error) = outcome
                && let Some(done) = whole.lock().take()
            {
                done.complete(Err(error));
            }
        });
        Completion::new(move |result| {
            if let Some(done) = rest.lock().take() {
                done.complete(result);
            }
        })
    }

    pub(crate) fn confirm(&mut self, done: Completion<()>) {
        self.wait(Waiter::Confirm(done));
    }

    pub(crate) fn tell(&mut self, outcome: Result<&BatchOutcome<'_>, &Error>) {
        for waiter in self.waiters.drain(..) {
            waiter.tell(outcome.map_err(Error::clone));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// The record that deletes the entry under an index key, if there is one.
pub(crate) fn delete_of(shared: &VolumeShared, key: Bytes) -> Result<Option<Subject>, Error> {
    Ok(shared.entry(&key)?.map(|entry| Subject::Delete {
        key,
        oldest: entry.origin.oldest,
        newest: entry.origin.placed,
    }))
}
