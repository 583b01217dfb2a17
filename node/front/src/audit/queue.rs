//! The lines that wait for their writer: bounded in number and bytes, so that a writer that is slow, or
//! stands still, costs lines and never a request.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sherd_store::observe::metrics::AuditMetrics;

use super::limits::{BATCH_BYTES, QUEUE_BYTES_MAX, QUEUE_LINES_MAX};

/// The queue between requests and one writer, which blocks its thread.
#[derive(Debug)]
pub struct AuditQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    metrics: AuditMetrics,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<String>,
    /// Bytes of memory that they take.
    bytes: usize,
    must_reopen: bool,
    is_closed: bool,
}

/// The work of the writer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AuditBatch {
    /// Whole lines.
    pub text: Vec<u8>,
    /// How many.
    pub lines: u64,
    /// Whether the file is to be opened again before.
    pub must_reopen: bool,
    /// Whether no more lines come behind those that wait.
    pub is_closed: bool,
}

impl AuditQueue {
    /// An empty queue.
    pub fn new(metrics: AuditMetrics) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), metrics }
    }

    /// Queues a line; counts it where it does not fit.
    pub fn push(&self, line: String) {
        let mut state = self.state.lock();
        let bytes = state.bytes + line.capacity();
        if state.is_closed || bytes > QUEUE_BYTES_MAX || state.lines.len() >= QUEUE_LINES_MAX {
            drop(state);
            return self.metrics.dropped.inc();
        }
        state.bytes = bytes;
        state.lines.push_back(line);
        let was_empty = state.lines.len() == 1;
        drop(state);
        if was_empty {
            self.changed.notify_one();
        }
    }

    /// Has the writer open its file again.
    pub fn reopen(&self) {
        self.state.lock().must_reopen = true;
        self.changed.notify_one();
    }

    /// Takes no more lines: those that are there are the last ones.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for work, and takes some. Without lines and closed, it is the end.
    pub fn take(&self) -> AuditBatch {
        let mut state = self.state.lock();
        while state.lines.is_empty() && !state.must_reopen && !state.is_closed {
            self.changed.wait(&mut state);
        }
        let mut taken = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some(line) = state.lines.pop_front()
        {
            state.bytes -= line.capacity();
            bytes += line.len();
            taken.push(line);
        }
        let must_reopen = std::mem::take(&mut state.must_reopen);
        let is_closed = state.is_closed;
        drop(state);
        AuditBatch { lines: taken.len() as u64, text: taken.concat().into_bytes(), must_reopen, is_closed }
    }

    /// Lets the writer pause; a call of [`Self::reopen`] or [`Self::close`] ends the pause. Returns whether
    /// the queue is closed, and whether the file is to be opened again.
    pub fn pause(&self, longest: Duration) -> (bool, bool) {
        let mut state = self.state.lock();
        if !state.is_closed && !state.must_reopen {
            self.changed.wait_for(&mut state, longest);
        }
        (state.is_closed, std::mem::take(&mut state.must_reopen))
    }
}
