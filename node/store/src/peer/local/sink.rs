//! A shard file that is written on a volume of this node.
//!
//! ```text
//! append, append, finish -> [queue of the file] -> a write worker, one step a turn -> ShardWriter
//! ```
//! Its steps are done in their order, one at a time, though a volume has several workers; files take turns.
//! Dropped before its finish, the sink ends the file, and it is removed. A refused step ends it, too: the
//! bytes of the next append would stand where those of the refused one belong.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::checksum::ShardDigest;
use sherd_core::id::Life;
use sherd_core::message::{Error, Result, ShardFileHeader};
use sherd_volume::shard_file::ShardWriter;

use super::finish;
use crate::machine::call_times::CallTimes;
use crate::machine::workers::Workers;
use crate::peer::limits::APPENDS_UNDER_WAY_MAX;
use crate::peer::watch::{CallWatch, TransferPlace};
use crate::peer::{AnswerSender, Pending, ShardSink};
use crate::volumes::{ServingVolume, unreachable_because};

/// A shard file under way on a local volume. Its steps are done in their order by the volume's write workers,
/// one at a time: a worker that has the file does what was queued meanwhile.
#[derive(Debug)]
pub(super) struct LocalSink {
    opening: Result<SinkOpening>,
    /// Why a step was not queued: none is from then on.
    refused: Option<Error>,
    steps: Arc<Mutex<SinkSteps>>,
    watch: CallWatch,
    /// Where the time of appends is counted: that of a finish goes by the size of the file.
    times: Option<Arc<CallTimes>>,
    expected: Option<ShardDigest>,
}

/// The opening of the volume that a shard file is written under.
#[derive(Debug)]
struct SinkOpening {
    /// Held by the steps alone: a body that comes slowly may outlive the opening by hours, and a strong
    /// reference would hold the lock that the next one needs.
    serving: Weak<ServingVolume>,
    writes: Arc<Workers>,
}

#[derive(Debug)]
struct SinkSteps {
    queued: VecDeque<SinkStep>,
    /// `None` while a worker has it, and when it has ended.
    file: Option<SinkFile>,
    /// Whether a worker does the steps, or is about to.
    is_worked_on: bool,
    /// Whether no further step comes: the file is dropped behind the last.
    is_ended: bool,
}

#[derive(Debug)]
struct SinkStep {
    serving: Arc<ServingVolume>,
    work: SinkWork,
}

#[derive(Debug)]
enum SinkWork {
    Append(Vec<Bytes>, Vec<AppendAnswer>),
    Finish(AnswerSender<Life>, Option<ShardDigest>),
}

/// The answer to an append, and the place of its bytes until then.
type AppendAnswer = (AnswerSender<()>, TransferPlace);

#[derive(Debug)]
pub(super) enum SinkFile {
    New { header: ShardFileHeader, replace: bool },
    Open(Box<ShardWriter>),
}

impl SinkFile {
    /// The writer, once the file is open.
    fn writer(self, serving: &ServingVolume) -> Result<Box<ShardWriter>> {
        Ok(match self {
            Self::New { header, replace: false } => Box::new(serving.reader.shard_files().create(&header)?),
            Self::New { header, replace: true } => Box::new(serving.reader.shard_files().heal(&header)?),
            Self::Open(writer) => writer,
        })
    }

    /// Writes; after an error the file is given up, and removed.
    fn append(self, serving: &ServingVolume, bytes: &[Bytes]) -> Result<Self> {
        let mut writer = self.writer(serving)?;
        writer.append(bytes)?;
        Ok(Self::Open(writer))
    }
}

impl SinkWork {
    /// The volume owes the answer from here on.
    fn owed(&mut self, watch: &CallWatch) {
        match self {
            Self::Append(_, answers) => answers.iter_mut().for_each(|(answering, _)| answering.owed(watch)),
            Self::Finish(answering, _) => answering.owed(watch),
        }
    }
}

impl SinkStep {
    /// Does it; gives the file as long as it can be written.
    fn run(self, file: Option<SinkFile>) -> Option<SinkFile> {
        let Self { serving, work } = self;
        let file = file.ok_or_else(|| unreachable_because("an earlier write of the shard failed"));
        match work {
            // The caller gave the file up.
            SinkWork::Append(_, answers) if answers.iter().any(|(answering, _)| answering.is_closed()) => {
                None
            }
            SinkWork::Append(bytes, answers) => {
                let (left, appended) = match file.and_then(|file| file.append(&serving, &bytes)) {
                    Ok(file) => (Some(file), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                drop(bytes);
                for (answering, place) in answers {
                    drop(place);
                    answer(&serving, answering, appended.clone());
                }
                left
            }
            SinkWork::Finish(answering, expected) => {
                let life = serving.reader.answerer().life;
                let finished = file.and_then(|file| {
                    let mut writer = file.writer(&serving)?;
                    if let Some(expected) = expected {
                        writer.expect(expected);
                    }
                    Ok(writer.finish()?)
                });
                answer(&serving, answering, finished.map(|()| life));
                None
            }
        }
    }
}

/// Answers a step. Bytes that came wrongly do not count as a fault of the volume that refuses them.
fn answer<R>(serving: &ServingVolume, answering: AnswerSender<R>, result: Result<R>) {
    match result {
        Err(Error::Corrupt { .. }) => answering.answer(result),
        _ => finish(serving, answering, result),
    }
}

impl SinkSteps {
    /// Takes the next step: appends that wait behind one another as one, since the device takes a large write
    /// in nearly the time of a small one.
    fn take(&mut self) -> Option<SinkStep> {
        let mut step = self.queued.pop_front()?;
        if let SinkWork::Append(bytes, answers) = &mut step.work {
            while let Some(SinkWork::Append(more, owed)) = self.queued.front_mut().map(|next| &mut next.work)
            {
                bytes.append(more);
                answers.append(owed);
                self.queued.pop_front();
            }
        }
        Some(step)
    }
}

/// A worker's turn at the first step of a file.
struct SinkTurn {
    steps: Arc<Mutex<SinkSteps>>,
    watch: CallWatch,
    /// Queued jobs must not keep the workers that they wait for.
    workers: Weak<Workers>,
}

/// A step that panics drops its answers, and those of the steps behind it.
impl Drop for SinkTurn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.steps.lock();
            state.queued.clear();
            state.is_worked_on = false;
        }
    }
}

impl SinkTurn {
    fn again(&self) -> Self {
        let Self { steps, watch, workers } = self;
        Self { steps: Arc::clone(steps), watch: watch.clone(), workers: Weak::clone(workers) }
    }

    /// Does the step, and lets a worker do the next in its turn.
    fn run(&self) {
        loop {
            let mut state = self.steps.lock();
            let (step, file) = (state.take(), state.file.take());
            drop(state);
            let file = step.and_then(|step| step.run(file));
            let mut state = self.steps.lock();
            let Some(next) = state.queued.front_mut() else {
                state.is_worked_on = false;
                if !state.is_ended {
                    state.file = file;
                    return;
                }
                drop(state);
                return drop(file);
            };
            // The time in the queue of the workers counts.
            next.work.owed(&self.watch);
            state.file = file;
            drop(state);
            let again = self.again();
            if self.workers.upgrade().is_some_and(|workers| workers.run(move || again.run()).is_ok()) {
                return;
            }
        }
    }
}

impl LocalSink {
    /// A file of a volume that serves, or fails as `serving` does.
    pub(super) fn begin(
        serving: Result<Arc<ServingVolume>>,
        watch: CallWatch,
        times: Option<Arc<CallTimes>>,
        file: SinkFile,
    ) -> Self {
        let opening = serving.map(|serving| SinkOpening {
            serving: Arc::downgrade(&serving),
            writes: Arc::clone(&serving.writes),
        });
        let steps =
            SinkSteps { queued: VecDeque::new(), file: Some(file), is_worked_on: false, is_ended: false };
        let steps = Arc::new(Mutex::new(steps));
        Self { opening, refused: None, steps, watch, times, expected: None }
    }

    /// Queues a step, or says why it is refused: the caller ends the file then.
    fn queue<R>(
        &self,
        steps_max: usize,
        work: impl FnOnce(AnswerSender<R>) -> Result<SinkWork>,
    ) -> Result<Pending<R>> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let opening = self.opening.as_ref().map_err(Clone::clone)?;
        let serving = opening
            .serving
            .upgrade()
            .ok_or_else(|| unreachable_because("the volume was shut while the shard was written"))?;
        let (answering, pending) = Pending::waiting();
        let mut step = SinkStep { serving, work: work(answering)? };
        let mut state = self.steps.lock();
        if state.is_worked_on {
            if state.queued.len() >= steps_max {
                return Err(Error::Busy);
            }
            state.queued.push_back(step);
            return Ok(pending);
        }
        step.work.owed(&self.watch);
        state.queued.push_back(step);
        state.is_worked_on = true;
        drop(state);
        let workers = Arc::downgrade(&opening.writes);
        let turn = SinkTurn { steps: Arc::clone(&self.steps), watch: self.watch.clone(), workers };
        if opening.writes.run(move || turn.run()).is_ok() {
            return Ok(pending);
        }
        // A writer has one caller, so no step was queued behind this one.
        let mut state = self.steps.lock();
        state.is_worked_on = false;
        drop(state.queued.pop_back());
        Err(Error::Busy)
    }

    /// Lets the file go behind the steps that were queued.
    fn end(&self) {
        let mut state = self.steps.lock();
        state.is_ended = true;
        // A worker drops the file behind the last step.
        if !state.is_worked_on
            && let (Ok(opening), Some(file)) = (&self.opening, state.file.take())
        {
            drop(state);
            // Removing the unfinished file touches the disk, so it is done where files are written.
            let _ = opening.writes.run(move || drop(file));
        }
    }
}

impl ShardSink for LocalSink {
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()> {
        let queued = self.queue(APPENDS_UNDER_WAY_MAX, |answering| {
            let answering = answering.timed_in(self.times.as_ref());
            Ok(SinkWork::Append(bytes, vec![(answering, self.watch.transfer()?)]))
        });
        queued.unwrap_or_else(|error| {
            self.refused = Some(error.clone());
            self.end();
            Pending::ready(Err(error))
        })
    }

    fn expect(&mut self, digest: ShardDigest) {
        self.expected = Some(digest);
    }

    fn finish(self: Box<Self>) -> Pending<Life> {
        let expected = self.expected;
        let queued =
            self.queue(APPENDS_UNDER_WAY_MAX + 1, |answering| Ok(SinkWork::Finish(answering, expected)));
        queued.unwrap_or_else(|error| Pending::ready(Err(error)))
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        self.end();
    }
}
