//! One batch while it is put together: records, rows that are judged and not yet durable, and who
//! waits for the sync.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::id::Ballot;
use sherd_core::register::{Answerer, Refusal, RowHead};

use crate::error::Error;
use crate::format::Subject;
use crate::log::append::NewRecord;
use crate::request::{Answer, Completion};
use crate::state::Small;
use crate::table::key_of;

/// What a waiter learns after the sync.
pub(crate) struct Outcome<'a> {
    pub(crate) from: Answerer,
    pub(crate) small: &'a Small,
}

type Waiter = Box<dyn FnOnce(Result<&Outcome<'_>, Error>) + Send>;

/// A row that this batch writes.
#[derive(Debug, Clone)]
pub(crate) struct PendingRow {
    pub(crate) head: RowHead,
    pub(crate) value: Bytes,
}

/// A batch that is put together.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) records: Vec<NewRecord>,
    pub(crate) bytes: usize,
    /// Rows written (or dropped) by this batch.
    pub(crate) rows: BTreeMap<Bytes, Option<PendingRow>>,
    /// All index keys written by this batch.
    pub(crate) keys: BTreeSet<Bytes>,
    /// The bound that this batch makes durable.
    pub(crate) bound: Option<Ballot>,
    /// Whether guarantees change: an answer that tells them waits for the sync.
    pub(crate) changes_state: bool,
    /// Whether somebody is told that this batch is durable.
    pub(crate) is_awaited: bool,
    waiters: Vec<Waiter>,
}

impl Plan {
    /// Adds a record.
    pub(crate) fn push(&mut self, record: NewRecord) {
        self.bytes += record.bytes();
        match &record.subject {
            Subject::Delete { key, .. } => {
                self.keys.insert(key.clone());
            }
            subject => self.keys.extend(key_of(subject)),
        }
        self.records.push(record);
    }

    /// Adds a piece of state, and tells the working copy.
    pub(crate) fn push_state(&mut self, subject: Subject, working: &mut Small) {
        working.learn(&subject);
        if let Subject::Bound(bound) = &subject {
            self.bound = Some(*bound);
        } else {
            self.changes_state = true;
        }
        self.push(NewRecord::bare(subject));
    }

    /// Calls `done` after the sync.
    pub(crate) fn after(&mut self, waiter: impl FnOnce(Result<&Outcome<'_>, Error>) + Send + 'static) {
        self.is_awaited = true;
        self.waiters.push(Box::new(waiter));
    }

    /// Gives an answer after the sync.
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

    /// Confirms after the sync.
    pub(crate) fn confirm(&mut self, done: Completion<()>) {
        self.after(move |outcome| done.complete(outcome.map(|_| ())));
    }

    /// Takes the waiters out.
    pub(crate) fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiters)
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}
