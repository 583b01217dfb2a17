//! A volume's work beside its steps, on a thread that may block: index flushes, spare segments, the ballast;
//! and its status.

use std::sync::atomic::Ordering;

use sherd_core::id::Life;
use sherd_core::register::acceptor::VoterStatus;

use crate::error::Error;
use crate::histogram::Distribution;
use crate::identity::failure::FailureSpan;
use crate::index::{Index, IndexError};
use crate::limits::MERGES_MAX;
use crate::limits::{FILES_UNMERGED_MAX, FLUSHES_PENDING_MAX};
use crate::options::Durability;
use crate::read::reader::Reader;
use crate::read::view::VolumeShared;

/// State of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Votes.
    Serving,
    /// Votes once its peers confirmed that it has its state.
    Unconfirmed,
    /// State lost, recovery not done yet: no vote.
    Recovering {
        /// Whether it took its voters' guarantees, and stores writes.
        may_write: bool,
    },
    /// Does nothing until it is opened again.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A volume's figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// State of the volume.
    pub state: State,
    /// Life of the volume.
    pub life: Life,
    /// Whether new data is refused for lack of space.
    pub full: bool,
    /// Bytes of its filesystem.
    pub total_bytes: u64,
    /// Bytes free on it.
    pub free_bytes: u64,
    /// Segments of the log.
    pub segments: usize,
    /// Spare segments.
    pub spares: usize,
    /// Bytes of records in the log that are needed.
    pub live_bytes: u64,
    /// Committed rows that are listed, for another volume of the set may lack them.
    pub missed_rows: u64,
    /// Such rows that had no place in the list, since it was opened.
    pub unlisted_rows: u64,
    /// Wants logged since it was opened.
    pub wants_logged: u64,
    /// Microseconds that syncs of the log took since it was opened.
    pub sync_us: Distribution,
    /// Microseconds that the longest took.
    pub sync_us_max: u64,
    /// Records of the frames written since it was opened.
    pub frame_records: Distribution,
    /// Bytes of these frames' records.
    pub frame_bytes: u64,
    /// Operations waiting.
    pub queue_len: usize,
    /// Promises remembered.
    pub promises: usize,
    /// Reads that found other bytes than were written.
    pub corrupt_reads: u64,
    /// Bytes applied to the index and not flushed.
    pub index_pending_bytes: u64,
    /// Files of the index that were flushed and not merged behind the last flush or merge.
    pub index_unmerged: usize,
}

impl Reader {
    /// The volume's figures. Waits for no disk: they are counters, and state behind locks that are held for
    /// as long as memory is copied. The index is not asked for its files: it holds its locks across syncs.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let counters = &shared.counters;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (state, life) = {
            let view = shared.view.read();
            let state = match (shared.failure.reason(), view.small.standing()) {
                (Some(reason), _) => State::Failed { reason: reason.to_owned() },
                (None, VoterStatus::Voting) => State::Serving,
                (None, VoterStatus::Unconfirmed) => State::Unconfirmed,
                (None, VoterStatus::Lost) => State::Recovering { may_write: false },
                (None, VoterStatus::Refilling) => State::Recovering { may_write: true },
            };
            (state, Life(view.small.life))
        };
        Status {
            state,
            life,
            full: shared.is_full(),
            total_bytes: load(&counters.total_bytes),
            free_bytes: load(&counters.free_bytes),
            segments: shared.segments.len(),
            spares: shared.spares.count(),
            live_bytes: load(&counters.live_bytes),
            missed_rows: load(&counters.missed_rows),
            unlisted_rows: load(&counters.unlisted_rows),
            wants_logged: counters.wants_logged.load(Ordering::Acquire),
            sync_us: counters.sync_us.distribution(),
            sync_us_max: load(&counters.sync_us_max),
            frame_records: counters.frame_records.distribution(),
            frame_bytes: load(&counters.frame_bytes),
            queue_len: counters.queue_len.load(Ordering::Relaxed),
            promises: shared.promises.lock().len(),
            corrupt_reads: load(&counters.corrupt_reads),
            index_pending_bytes: shared.index.pending_bytes(),
            index_unmerged: counters.index_unmerged.load(Ordering::Relaxed),
        }
    }

    /// When what was applied to the index is old enough to be flushed.
    pub(crate) fn flush_due_us(&self) -> Option<u64> {
        let since = self.shared.counters.pending_since_us.load(Ordering::Relaxed);
        (since > 0).then(|| since.saturating_add(self.shared.options.flush_after_us))
    }

    fn wants_flush(&self) -> bool {
        let now_us = self.shared.clock.monotonic_us();
        self.shared.index.pending_bytes() >= self.shared.options.flush_bytes
            || self.flush_due_us().is_some_and(|due| now_us >= due)
    }

    fn wants_spare(&self) -> bool {
        let options = &self.shared.options;
        let free = self.shared.counters.free_bytes.load(Ordering::Relaxed);
        // The space of a spare is part of the reserve: new data is refused long before.
        self.shared.spares.is_short() && free >= 2 * options.segment_bytes
    }

    fn wants_ballast(&self) -> bool {
        let shared = &self.shared;
        let free = shared.counters.free_bytes.load(Ordering::Relaxed);
        shared.ballast.is_wanted(free, shared.options.reserve_bytes, shared.clock.monotonic_us())
    }

    /// Whether [`Reader::upkeep`] has something to do.
    pub(crate) fn wants_upkeep(&self) -> bool {
        self.wants_flush() || self.wants_spare() || self.wants_ballast()
    }

    /// Flushes the index when it is due, makes spare segments and the ballast, and merges the index where
    /// that pays. Takes its time: between two merges, which may take a second each, it looks again what is
    /// due.
    ///
    /// # Errors
    /// [`Error::Failed`] when the index cannot be written; lack of space is not an error.
    pub fn upkeep(&self) -> Result<(), Error> {
        for _ in 0..MERGES_MAX {
            self.shared.check()?;
            if self.wants_flush() {
                self.flush()?;
            }
            self.keep_space_ready();
            if self.shared.is_closing.load(Ordering::Relaxed) || !self.merge()? {
                break;
            }
        }
        Ok(())
    }

    /// No merge begins any more: the volume closes.
    pub fn end_upkeep(&self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
    }

    fn keep_space_ready(&self) {
        let shared = &self.shared;
        if shared.measure_space().is_err() {
            return;
        }
        if self.wants_spare() {
            // Without space, or on a disk that fails, no spare is made; a write will show the reason.
            let _ = shared.spares.make_one();
        }
        let free = shared.counters.free_bytes.load(Ordering::Relaxed);
        let now_us = shared.clock.monotonic_us();
        if shared.ballast.has_room(free, shared.options.reserve_bytes, now_us) {
            shared.ballast.make(now_us);
        }
    }

    /// Makes everything applied to the index durable.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn flush(&self) -> Result<(), Error> {
        let shared = &self.shared;
        shared.check()?;
        shared.counters.pending_since_us.store(0, Ordering::Relaxed);
        let index: &dyn Index = shared.index.as_ref();
        let mut flushed = index.flush();
        if matches!(flushed, Err(IndexError::Full)) && shared.ballast.give_up() {
            flushed = index.flush();
        }
        shared.count_unmerged();
        let flushed = flushed.map_err(|error| shared.index_failed(&error));
        if matches!(flushed, Err(Error::Full | Error::Busy)) {
            // The log has everything; the index is flushed when there is what it lacks.
            let now_us = shared.clock.monotonic_us().max(1);
            shared.counters.pending_since_us.store(now_us, Ordering::Relaxed);
        }
        match flushed {
            Err(Error::Full) => Ok(()),
            flushed => flushed,
        }
    }

    fn merge(&self) -> Result<bool, Error> {
        let merged = self.shared.index.compact().map_err(|error| self.shared.index_failed(&error));
        self.shared.count_unmerged();
        match merged {
            // Files that cannot be merged now stay as they are: the next flush tries again.
            Err(Error::Full | Error::Busy) => Ok(false),
            merged => merged,
        }
    }

    /// Does upkeep's work on its caller's thread where upkeep is far behind: writers are slowed down, and
    /// neither the entries that wait for a flush nor the files that a lookup may have to read grow without a
    /// bound.
    pub(crate) fn relieve_upkeep(&self) {
        let shared = &self.shared;
        // The batch before is written, with any result of this: a failure is kept by the latch, and work that
        // cannot be done now is done later.
        if shared.index.pending_bytes() >= shared.options.flush_bytes.saturating_mul(FLUSHES_PENDING_MAX) {
            let _ = self.flush();
        }
        if shared.index.unmerged() >= FILES_UNMERGED_MAX {
            let _ = self.merge();
        }
    }

    /// Declares that this opening has lost state: peers remember a later one, of the life `remembered` or one
    /// before. The volume serves no more, and opens again as one that recovers. Where the directory is not
    /// the one that was opened, what is there is left alone.
    ///
    /// # Errors
    /// [`Error::Failed`], also when it cannot be noted: then the next opening is checked again.
    pub fn declare_lost(&self, reason: &str, remembered: Life) -> Result<(), Error> {
        self.shared.check()?;
        let failure = &self.shared.failure;
        failure.fail(FailureSpan::Run, reason);
        // A loss that cannot be noted is found again by the next opening, and by the one after it.
        self.sticky.declare_lost(reason, remembered).map_err(|error| {
            failure.judge_identity(&error);
            Error::Failed { reason: error.to_string() }
        })
    }

    /// Whether the volume's directory is still the one that was opened; called each second.
    ///
    /// # Errors
    /// [`Error::Failed`]; the volume serves no more. It can be opened again.
    pub fn check_directory(&self) -> Result<(), Error> {
        self.shared.check()?;
        self.sticky.file.still_here().map_err(|gone| self.shared.failure.fail(FailureSpan::Run, &gone.reason))
    }
}

/// Measures how many bytes per second the device of a volume takes and gives, the fewer of the two, in about
/// a tenth of a second. `None` where the volume has no ballast to do so in.
pub fn measure_device(reader: &Reader) -> Option<u64> {
    let VolumeShared { ballast, options, clock, .. } = &*reader.shared;
    ballast.measure(options.durability == Durability::Fsync, &|| clock.monotonic_us())
}
