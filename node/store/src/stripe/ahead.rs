//! The bytes of a read that its caller has not taken yet: those that are here, and those that are being read.
//!
//! A caller that pauses gives them back with their memory. They are read again when it goes on, from the byte
//! on that it takes next: of the same data, which stays pinned.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::machine::budget::BudgetShare;
use crate::machine::reclaim::ReadAhead;

/// The bytes ahead of the caller of a read, in windows of this type.
#[derive(Debug)]
pub(super) struct BytesAhead<W>(Arc<Mutex<AheadState<W>>>);

#[derive(Debug)]
struct AheadState<W> {
    /// The place of the byte that the caller takes next.
    next: u64,
    /// The bytes for which no window was begun.
    left: Range<u64>,
    /// Being read, in order.
    windows: VecDeque<W>,
    ready: VecDeque<Bytes>,
    /// Part of the reader in the budget of downloads, while it holds anything ahead or its caller waits.
    taker: Option<BudgetShare>,
    /// The caller waits for bytes: nothing is given back meanwhile.
    is_wanted: bool,
}

/// The next step of a read.
pub(super) enum ReadStep<W> {
    /// The caller has these.
    Pass(Bytes),
    /// This window is to be collected.
    Collect(W),
    /// A window is to be begun, and collected.
    Begin,
    End,
}

impl<W: Send + 'static> BytesAhead<W> {
    /// Nothing is read of `range`.
    pub(super) fn new(range: Range<u64>) -> Self {
        let (windows, ready) = (VecDeque::new(), VecDeque::new());
        let state =
            AheadState { next: range.start, left: range, windows, ready, taker: None, is_wanted: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Lets the caller give back what is ahead.
    pub(super) fn hand_to(&self, caller: &ReadAhead) {
        let ahead = Arc::downgrade(&self.0);
        caller.begin(move || {
            if let Some(ahead) = ahead.upgrade() {
                ahead.lock().give_back();
            }
        });
    }

    /// The step by which the caller has its next bytes. It waits for them until [`Self::collected`].
    pub(super) fn step(&self, join: impl FnOnce() -> BudgetShare) -> ReadStep<W> {
        let mut state = self.0.lock();
        if let Some(bytes) = state.ready.pop_front() {
            state.next += bytes.len() as u64;
            return ReadStep::Pass(bytes);
        }
        if state.windows.is_empty() && state.left.is_empty() {
            return ReadStep::End;
        }
        state.is_wanted = true;
        state.taker.get_or_insert_with(join);
        state.windows.pop_front().map_or(ReadStep::Begin, ReadStep::Collect)
    }

    /// The bytes of a window are here.
    pub(super) fn collected(&self, ready: VecDeque<Bytes>) {
        let mut state = self.0.lock();
        (state.ready, state.is_wanted) = (ready, false);
    }

    /// The bytes for which no window was begun.
    pub(super) fn left(&self) -> Range<u64> {
        self.0.lock().left.clone()
    }

    /// Whether a further window may be begun, beside `windows_max` at most.
    pub(super) fn has_further(&self, windows_max: usize) -> bool {
        let state = self.0.lock();
        state.windows.len() < windows_max && !state.left.is_empty()
    }

    /// The range of a window that is begun and ends at `end`.
    pub(super) fn begin(&self, end: u64) -> Range<u64> {
        let mut state = self.0.lock();
        let range = state.left.start..end;
        state.left.start = end;
        range
    }

    /// Adds a window behind those that are being read.
    pub(super) fn push(&self, window: W) {
        self.0.lock().windows.push_back(window);
    }
}

impl<W> AheadState<W> {
    fn give_back(&mut self) {
        if !self.is_wanted {
            self.windows.clear();
            self.ready.clear();
            self.left.start = self.next;
            self.taker = None;
        }
    }
}
