//! Counters of what is planned and done, and events for each object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::error::Error;
use crate::limits::EVENTS_AHEAD_MAX;
use crate::payload::Meter;

/// The end of one file or object of a run.
#[derive(Debug)]
pub enum Event {
    /// The object is copied, moved, or deleted.
    Done {
        /// `copy`, `move`, `delete`.
        verb: &'static str,
        /// Where it was.
        source: String,
        /// Where it is; none for what is deleted.
        target: Option<String>,
        /// The size.
        bytes: u64,
    },
    /// The object would be copied, moved or deleted; a dry run does nothing.
    Planned {
        /// `copy`, `move`, `delete`.
        verb: &'static str,
        /// Where it is.
        source: String,
        /// Where it would be; none for what would be deleted.
        target: Option<String>,
        /// The size.
        bytes: u64,
    },
    /// The object is as it was.
    Failed {
        /// `copy`, `move`, `delete`, `read`.
        verb: &'static str,
        /// Where it is.
        source: String,
        /// Why.
        error: Error,
    },
}

/// The counters of a run.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes that moved.
    pub bytes: Arc<AtomicU64>,
    /// Bytes of what is planned up to here.
    pub bytes_planned: AtomicU64,
    /// Files and objects that are done.
    pub done: AtomicU64,
    /// Files and objects that are planned up to here.
    pub planned: AtomicU64,
    /// Files and objects that failed.
    pub failed: AtomicU64,
}

/// Where transfers report. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Progress {
    counters: Arc<Counters>,
    events: mpsc::Sender<Event>,
}

impl Progress {
    /// Makes a place to report to, and the stream of its events, which must be read.
    pub fn new() -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(EVENTS_AHEAD_MAX);
        (Self { counters: Arc::default(), events }, receiver)
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter::of(&self.counters.bytes)
    }

    pub(crate) fn planned(&self, bytes: u64) {
        self.counters.planned.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes_planned.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reports an event; waits while too many are unread.
    pub(crate) async fn report(&self, event: Event) {
        match &event {
            Event::Done { .. } => self.counters.done.fetch_add(1, Ordering::Relaxed),
            Event::Failed { .. } => self.counters.failed.fetch_add(1, Ordering::Relaxed),
            Event::Planned { .. } => 0,
        };
        let _reader_is_gone = self.events.send(event).await;
    }
}
