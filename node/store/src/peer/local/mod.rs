//! This node's own volumes as a peer.
//!
//! Nothing here blocks its caller. Calls that memory can answer are answered on the caller's thread; those
//! that may touch the disk go to the volume's read or write workers; those that change the log go to its
//! queue. Every queue is bounded, and a full one answers `Busy`.

use std::sync::Arc;

use parking_lot::Mutex;

use sherd_core::id::{DataId, Life, RegisterKey, VolumeId};
use sherd_core::message::call::VolumeAnswer;
use sherd_core::message::{Error, Result};
use sherd_volume::lookup::Lookup;
use sherd_volume::read::reader::Reader;
use sherd_volume::request::{Completion, Op};

use super::watch::{CallLength, CallWatches};
use super::{AnswerSender, Pending};
use crate::machine::call_times::CallTimes;
use crate::machine::workers::Workers;
use crate::observe::trace;
use crate::volumes::{HEAL_TURN_MAX, ServingVolume, Volumes, unreachable_because};

mod scans;
mod registers;
mod shards;
mod sink;
mod seam;

pub use scans::{CountedPage, PageShare, ScanRoom, entry_bytes, row_bytes};
pub use seam::WorkForPeer;

/// The volumes of this node, without a network.
#[derive(Debug, Clone)]
pub struct LocalPeer {
    volumes: Volumes,
    watches: CallWatches,
}

impl LocalPeer {
    /// Reaches the given volumes.
    pub fn new(volumes: Volumes) -> Self {
        Self { volumes, watches: CallWatches::default() }
    }

    /// Whether a volume is of this node, open or not.
    pub fn has(&self, volume: VolumeId) -> bool {
        self.volumes.get(volume).is_some()
    }

    /// The life that a volume is in.
    ///
    /// # Errors
    /// [`Error::Unreachable`] while it is not open, or not of this node.
    pub fn life(&self, volume: VolumeId) -> Result<Life> {
        self.serving(volume).map(|serving| serving.reader.answerer().life)
    }

    /// Lets the sweep look after data whose writer went away while it wrote a shard file.
    pub fn note_abandoned(&self, volume: VolumeId, data: DataId, key: RegisterKey) {
        if let Some(volume) = self.volumes.get(volume) {
            volume.abandoned().note(data, key);
        }
    }

    fn serving(&self, volume: VolumeId) -> Result<Arc<ServingVolume>> {
        match self.volumes.get(volume) {
            Some(volume) => volume.serving(),
            None => Err(unreachable_because(&format!("volume {volume} is not on this node"))),
        }
    }

    /// An answer to come; the volume is late while that of a short call does not.
    fn waiting<R>(&self, volume: VolumeId, length: CallLength) -> (AnswerSender<R>, Pending<R>) {
        let (answering, pending) = Pending::begin(length, &self.watches.of(volume));
        (answering.timed_in(self.times(length)), pending)
    }

    /// Where the time of a call is counted that begins here: of one that a request waits for, this node's or
    /// the peer's that the call is made for.
    fn times(&self, length: CallLength) -> Option<&Arc<CallTimes>> {
        let is_waited_for = length == CallLength::Short && trace::current_id() != 0;
        is_waited_for.then(|| self.volumes.call_times())
    }

    /// Waits until a peer's heal may move bytes on a volume of this node, for 5 s at most.
    pub async fn admit_heal(&self, volume: VolumeId, bytes: u64) {
        self.volumes.heal_lanes().take(volume, bytes, HEAL_TURN_MAX).await;
    }

    /// Runs a blocking read, unless its caller is gone when its turn comes.
    fn on_readers<R: Into<VolumeAnswer>>(
        &self,
        volume: VolumeId,
        length: CallLength,
        read: impl FnOnce(&Reader) -> std::result::Result<R, sherd_volume::error::Error> + Send + 'static,
    ) -> Pending<VolumeAnswer> {
        self.answer_on_readers(volume, length, move |serving, answering| {
            answer_read(serving, answering, read(&serving.reader).map(R::into));
        })
    }

    fn answer_on_readers<R: Send + 'static>(
        &self,
        volume: VolumeId,
        length: CallLength,
        job: impl FnOnce(&Arc<ServingVolume>, AnswerSender<R>) + Send + 'static,
    ) -> Pending<R> {
        let unless_gone = move |serving: &Arc<ServingVolume>, answering: AnswerSender<R>| {
            if !answering.is_closed() {
                job(serving, answering);
            }
        };
        match self.serving(volume) {
            Ok(serving) => run_on(&serving.reads, &serving, self.waiting(volume, length), unless_gone),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// The answer, if memory has it. Every other outcome (a failure, too) is left to a thread that may wait.
    fn answer_at_once<R: Into<VolumeAnswer>>(
        &self,
        volume: VolumeId,
        look: impl FnOnce(&ServingVolume) -> std::result::Result<Lookup<R>, sherd_volume::error::Error>,
    ) -> Option<Pending<VolumeAnswer>> {
        match look(self.serving(volume).ok()?.as_ref()) {
            Ok(Lookup::Immediate(answer)) => Some(Pending::ready(Ok(answer.into()))),
            Ok(Lookup::Pending) | Err(_) => None,
        }
    }

    /// Queues an operation on the log. It is done, whether its caller waits or not.
    fn on_log<R: Into<VolumeAnswer>>(
        &self,
        volume: VolumeId,
        length: CallLength,
        op: impl FnOnce(Completion<R>) -> Op,
    ) -> Pending<VolumeAnswer> {
        match self.serving(volume) {
            Ok(serving) => {
                let (answering, pending) = self.waiting(volume, length);
                match submit(&serving, answering, op) {
                    Ok(()) => pending,
                    Err(error) => Pending::ready(Err(error)),
                }
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Queues an operation on the log, and answers what `answer` says of the volume when it is done.
    fn on_log_for<R: Send + 'static>(
        &self,
        volume: VolumeId,
        length: CallLength,
        answer: impl FnOnce(&ServingVolume) -> R,
        op: impl FnOnce(Completion<()>) -> Op,
    ) -> Pending<R> {
        let (answering, pending) = self.waiting(volume, length);
        let submitted = self.serving(volume).and_then(|serving| {
            let (answer, faults) = (answer(&serving), Arc::clone(&serving.faults));
            let done = Completion::new(move |result: std::result::Result<(), sherd_volume::error::Error>| {
                let result = result.map(|()| answer).map_err(Error::from);
                if let Err(error) = &result {
                    faults.note(error);
                }
                answering.answer(result);
            });
            serving.submit(op(done))
        });
        submitted.map_or_else(|error| Pending::ready(Err(error)), |()| pending)
    }

    /// Queues an operation without an answer, which goes with a later frame.
    fn queue_lazily(&self, volume: VolumeId, op: Op) {
        if let Ok(serving) = self.serving(volume) {
            // Lazy by contract: a lost operation is sent again later.
            drop(serving.submit_lazily(op));
        }
    }
}

fn run_on<R: Send + 'static>(
    workers: &Workers,
    serving: &Arc<ServingVolume>,
    (answering, pending): (AnswerSender<R>, Pending<R>),
    job: impl FnOnce(&Arc<ServingVolume>, AnswerSender<R>) + Send + 'static,
) -> Pending<R> {
    let held = Arc::clone(serving);
    match workers.run(move || job(&held, answering)) {
        Ok(()) => pending,
        Err(crate::machine::workers::QueueFull) => Pending::ready(Err(Error::Busy)),
    }
}

fn finish<R>(serving: &ServingVolume, answering: AnswerSender<R>, result: Result<R>) {
    if let Err(error) = &result {
        serving.faults.note(error);
    }
    answering.answer(result);
}

/// Answers a read. A shard file that was never finished is what a kill leaves, and no fault of its volume.
fn answer_read<R>(
    serving: &ServingVolume,
    answering: AnswerSender<R>,
    result: std::result::Result<R, sherd_volume::error::Error>,
) {
    match result {
        Err(error @ sherd_volume::error::Error::Unfinished { .. }) => answering.answer(Err(error.into())),
        result => finish(serving, answering, result.map_err(Error::from)),
    }
}

fn submit<R: Into<VolumeAnswer>>(
    serving: &ServingVolume,
    answering: AnswerSender<VolumeAnswer>,
    op: impl FnOnce(Completion<R>) -> Op,
) -> Result<()> {
    let faults = Arc::clone(&serving.faults);
    let done = Completion::new(move |result: std::result::Result<R, sherd_volume::error::Error>| {
        let result = result.map(R::into).map_err(Error::from);
        if let Err(error) = &result {
            faults.note(error);
        }
        answering.answer(result);
    });
    serving.submit(op(done))
}

/// Answers from memory or disk, or queues the operation where a row is pending.
fn look_up<R: Into<VolumeAnswer>>(
    serving: &ServingVolume,
    answering: AnswerSender<VolumeAnswer>,
    found: std::result::Result<Lookup<R>, sherd_volume::error::Error>,
    op: impl FnOnce(Completion<R>) -> Op,
) {
    match found {
        Ok(Lookup::Immediate(answer)) => answering.answer(Ok(answer.into())),
        Ok(Lookup::Pending) => {
            // A refused operation drops the answer, so it is given here.
            let slot = Arc::new(Mutex::new(Some(answering)));
            let later = Arc::clone(&slot);
            let done = Completion::new(move |result: std::result::Result<R, sherd_volume::error::Error>| {
                if let Some(answering) = later.lock().take() {
                    answering.answer(result.map(R::into).map_err(Error::from));
                }
            });
            if let Err(error) = serving.submit(op(done))
                && let Some(answering) = slot.lock().take()
            {
                answering.answer(Err(error));
            }
        }
        Err(error) => finish(serving, answering, Err(error.into())),
    }
}

#[cfg(test)]
mod tests;
