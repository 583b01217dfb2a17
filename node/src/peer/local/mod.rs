//! This node's own volumes as a peer.
//!
//! Nothing here blocks its caller. What is in memory is answered on the caller's thread; what may
//! touch the disk goes to the volume's read or write workers; what changes the log goes to its
//! queue. Every queue is bounded, and a full one answers `Busy`.

use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{Ballot, RegisterKey, ShardId, VolumeId};
use sherd_core::message::{Error, Result};
use sherd_core::record::Home;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::register::{Accept, Positions, Prepare, Vote};
use sherd_core::release::{ReleaseEntry, ReleaseId};
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::read::list::{ListPage, ListScan, RowPage, ScannedRow};
use sherd_volume::read::reader::Reader;
use sherd_volume::request::{
    AdoptedRow, Answer, Completion, Control, Guarantees, Op, ShardFileHeader, Target,
};
use sherd_volume::shard_file::{FilePage, ShardWriter};

use super::{
    AnswerSender, PartsScan, Peer, Pending, ReadPurpose, RowScan, ShardPage, ShardRange, ShardScan, ShardSink,
};
use crate::machine::workers::Workers;
use crate::volumes::{ServingVolume, Volumes, unreachable_because};

/// Bytes verified between two looks at the pool: a mebibyte.
const VERIFY_STEP_BYTES: u64 = 1 << 20;

/// The volumes of this node, without a network.
#[derive(Debug, Clone)]
pub struct LocalPeer {
    volumes: Volumes,
}

impl LocalPeer {
    /// Reaches the given volumes.
    pub const fn new(volumes: Volumes) -> Self {
        Self { volumes }
    }

    fn serving(&self, volume: VolumeId) -> Result<Arc<ServingVolume>> {
        match self.volumes.get(volume) {
            Some(volume) => volume.serving(),
            None => Err(unreachable_because(&format!("volume {volume} is not on this node"))),
        }
    }

    /// Runs a blocking read.
    fn on_readers<R: Send + 'static>(
        &self,
        volume: VolumeId,
        read: impl FnOnce(&Reader) -> std::result::Result<R, sherd_volume::error::Error> + Send + 'static,
    ) -> Pending<R> {
        self.answer_on_readers(volume, move |serving, answering| {
            let result = read(&serving.reader).map_err(Error::from);
            finish(serving, answering, result);
        })
    }

    fn answer_on_readers<R: Send + 'static>(
        &self,
        volume: VolumeId,
        job: impl FnOnce(&Arc<ServingVolume>, AnswerSender<R>) + Send + 'static,
    ) -> Pending<R> {
        match self.serving(volume) {
            Ok(serving) => run_on(&serving.reads, &serving, job),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// The answer, where memory has it. Whatever else comes of it (a failure, too) is left to a
    /// thread that may wait.
    fn answer_at_once<R>(
        &self,
        volume: VolumeId,
        look: impl FnOnce(&ServingVolume) -> std::result::Result<Lookup<R>, sherd_volume::error::Error>,
    ) -> Option<R> {
        match look(self.serving(volume).ok()?.as_ref()) {
            Ok(Lookup::Immediate(answer)) => Some(answer),
            Ok(Lookup::Pending) | Err(_) => None,
        }
    }

    /// Queues an operation on the log.
    fn on_log<R: Send + 'static>(
        &self,
        volume: VolumeId,
        op: impl FnOnce(Completion<R>) -> Op,
    ) -> Pending<R> {
        match self.serving(volume) {
            Ok(serving) => {
                let (answering, pending) = Pending::waiting();
                match submit(&serving, answering, op) {
                    Ok(()) => pending,
                    Err(error) => Pending::ready(Err(error)),
                }
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Queues an operation that answers nobody, and rides with a frame to come.
    fn tell_log(&self, volume: VolumeId, op: Op) {
        if let Ok(serving) = self.serving(volume) {
            // Lazy by contract: what is lost here is learnt again.
            drop(serving.submit_lazily(op));
        }
    }
}

fn run_on<R: Send + 'static>(
    workers: &Workers,
    serving: &Arc<ServingVolume>,
    job: impl FnOnce(&Arc<ServingVolume>, AnswerSender<R>) + Send + 'static,
) -> Pending<R> {
    let (answering, pending) = Pending::waiting();
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

fn submit<R: Send + 'static>(
    serving: &ServingVolume,
    answering: AnswerSender<R>,
    op: impl FnOnce(Completion<R>) -> Op,
) -> Result<()> {
    let faults = Arc::clone(&serving.faults);
    let done = Completion::new(move |result: std::result::Result<R, sherd_volume::error::Error>| {
        let result = result.map_err(Error::from);
        if let Err(error) = &result {
            faults.note(error);
        }
        answering.answer(result);
    });
    serving.submit(op(done))
}

/// Answers from memory or disk, or queues the operation where a row is pending.
fn look_up<R: Send + 'static>(
    serving: &ServingVolume,
    answering: AnswerSender<R>,
    found: std::result::Result<Lookup<R>, sherd_volume::error::Error>,
    op: impl FnOnce(Completion<R>) -> Op,
) {
    match found {
        Ok(Lookup::Immediate(answer)) => answering.answer(Ok(answer)),
        Ok(Lookup::Pending) => {
            // A refused operation drops the answer, so it is given here.
            let slot = Arc::new(Mutex::new(Some(answering)));
            let later = Arc::clone(&slot);
            let done = Completion::new(move |result: std::result::Result<R, sherd_volume::error::Error>| {
                if let Some(answering) = later.lock().take() {
                    answering.answer(result.map_err(Error::from));
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

impl Peer for LocalPeer {
    fn prepare(
        &self,
        volume: VolumeId,
        target: &Target,
        prepare: Prepare,
        want_value: bool,
    ) -> Pending<Answer<Vote>> {
        let known =
            |serving: &ServingVolume| serving.reader.prepare(target, &prepare, want_value, Source::Cache);
        if let Some(answer) = self.answer_at_once(volume, known) {
            return Pending::ready(Ok(answer));
        }
        let target = target.clone();
        self.answer_on_readers(volume, move |serving, answering| {
            let found = serving.reader.prepare(&target, &prepare, want_value, Source::Disk);
            look_up(serving, answering, found, |done| Op::Prepare { target, prepare, want_value, done });
        })
    }

    fn accept(
        &self,
        volume: VolumeId,
        target: &Target,
        accept: &Accept,
        heal: Option<&HealEntry>,
    ) -> Pending<Answer<()>> {
        let (target, accept) = (target.clone(), accept.clone());
        let heal = heal.map(|entry| (entry.id(), entry.encode()));
        self.on_log(volume, |done| Op::Accept { target, accept, heal, done })
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.serving(volume).is_ok_and(|serving| serving.reader.is_full())
    }

    fn commit(&self, volume: VolumeId, target: &Target, ballot: Ballot, positions: &Positions) {
        let positions = Arc::clone(positions);
        self.tell_log(volume, Op::Commit { target: target.clone(), ballot, positions });
    }

    fn read(&self, volume: VolumeId, target: &Target, want_value: bool) -> Pending<Answer<Vote>> {
        let known = |serving: &ServingVolume| serving.reader.row(target, want_value, Source::Cache);
        if let Some(answer) = self.answer_at_once(volume, known) {
            return Pending::ready(Ok(answer));
        }
        let target = target.clone();
        self.answer_on_readers(volume, move |serving, answering| {
            let found = serving.reader.row(&target, want_value, Source::Disk);
            look_up(serving, answering, found, |done| Op::Read { target, want_value, done });
        })
    }

    fn inline(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Bytes> {
        if let Some(bytes) =
            self.answer_at_once(volume, |serving| serving.reader.inline(target, ballot, Source::Cache))
        {
            return Pending::ready(Ok(bytes));
        }
        let target = target.clone();
        self.on_readers(volume, move |reader| reader.inline(&target, ballot, Source::Disk)?.told())
    }

    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<()> {
        let target = target.clone();
        self.on_log(volume, |done| Op::PutShard { shard, target, payload, done })
    }

    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink> {
        let opening = self.serving(volume).and_then(|serving| {
            serving.reader.judge_epoch(target)?;
            Ok(SinkOpening { serving: Arc::downgrade(&serving), writes: Arc::clone(&serving.writes) })
        });
        Box::new(LocalSink { opening, file: Some(Arc::new(Mutex::new(File::New { header, replace }))) })
    }

    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>> {
        let serving = match self.serving(volume) {
            Ok(serving) => serving,
            Err(error) => return Pending::ready(Err(error)),
        };
        let ShardRange { shard, home, offset, length, wanted } = range;
        let bytes = offset..offset.saturating_add(length);
        // What nobody asked for shall not push out of memory what somebody did.
        let is_aside = home == Home::File && wanted == ReadPurpose::ByUpkeep;
        let cached = if is_aside {
            Ok(Lookup::Pending)
        } else {
            read_from(&serving.reader, shard, home, bytes.clone(), Source::Cache)
        };
        match cached {
            Ok(Lookup::Immediate(read)) => Pending::ready(Ok(read)),
            Ok(Lookup::Pending) => run_on(&serving.reads, &serving, move |serving, answering| {
                let source = if is_aside { Source::Device } else { Source::Disk };
                let read = read_from(&serving.reader, shard, home, bytes, source).and_then(Lookup::told);
                finish(serving, answering, read.map_err(Error::from));
            }),
            Err(error) => {
                let error = Error::from(error);
                serving.faults.note(&error);
                Pending::ready(Err(error))
            }
        }
    }

    fn delete_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<()> {
        match home {
            Home::Packed => self.on_log(volume, |done| Op::DeleteShard { shard, done }),
            Home::File => match self.serving(volume) {
                Ok(serving) => run_on(&serving.writes, &serving, move |serving, answering| {
                    let result = serving.reader.shard_files().delete(shard);
                    finish(serving, answering, result.map_err(Error::from));
                }),
                Err(error) => Pending::ready(Err(error)),
            },
        }
    }

    fn shard_bytes(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64> {
        self.on_readers(volume, move |reader| match home {
            Home::Packed => reader.packed_len(shard),
            Home::File => reader.shard_files().header(shard).map(|header| header.shard_bytes),
        })
    }

    fn verify_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64> {
        self.on_readers(volume, move |reader| match home {
            Home::Packed => reader.verify_packed(shard),
            Home::File => verify_file(reader, shard),
        })
    }

    fn verify_row(&self, volume: VolumeId, key: &RegisterKey) -> Pending<()> {
        let key = key.clone();
        self.on_readers(volume, move |reader| reader.verify_row(&key))
    }

    fn list(&self, volume: VolumeId, request: &ListScan) -> Pending<Answer<ListPage>> {
        let request = request.clone();
        self.on_readers(volume, move |reader| reader.list(&request))
    }

    fn parts(&self, volume: VolumeId, request: &PartsScan) -> Pending<Answer<Vec<ScannedRow>>> {
        let request = *request;
        self.on_readers(volume, move |reader| reader.parts(&request))
    }

    fn rows(&self, volume: VolumeId, request: &RowScan) -> Pending<Answer<RowPage>> {
        let RowScan { epoch, after, since, until, limit, want_value } = request.clone();
        self.on_readers(volume, move |reader| {
            let scan = sherd_volume::read::list::RowScan { epoch, limit, want_value, since, until };
            let before = reader.answerer();
            let result = match reader.rows(after.as_ref(), scan) {
                Ok(page) => Ok(page),
                Err(sherd_volume::error::Error::Refused(refusal)) => Err(refusal),
                Err(error) => return Err(error),
            };
            // Rows that were read before the volume voted may be without some that it got before it did.
            let mut from = reader.answerer();
            from.votes &= before.votes && before.incarnation == from.incarnation;
            Ok(Answer { from, result })
        })
    }

    fn unsettled(
        &self,
        volume: VolumeId,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Pending<Vec<(RegisterKey, Ballot)>> {
        let after = after.cloned();
        self.on_readers(volume, move |reader| reader.unsettled(after.as_ref(), limit))
    }

    fn heals(&self, volume: VolumeId, after: Option<HealId>, limit: usize) -> Pending<Vec<(HealId, Bytes)>> {
        self.on_readers(volume, move |reader| reader.heals(after, limit))
    }

    fn shards(&self, volume: VolumeId, request: ShardScan) -> Pending<ShardPage> {
        self.on_readers(volume, move |reader| match request {
            ShardScan::Packed { after, limit } => {
                let shards = reader.shards(after, limit)?;
                let next = (shards.len() >= limit).then(|| shards.last().map(|seen| seen.shard)).flatten();
                Ok(ShardPage { shards, next })
            }
            ShardScan::Files { directory, after, limit } => shard_files(reader, directory, after, limit),
        })
    }

    fn guarantees(&self, volume: VolumeId) -> Pending<Answer<Guarantees>> {
        match self.serving(volume) {
            Ok(serving) => {
                let (from, guarantees) = (serving.reader.answerer(), serving.reader.guarantees());
                Pending::ready(Ok(Answer { from, result: Ok(guarantees) }))
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn remembers(&self, volume: VolumeId) -> Pending<Answer<Memory>> {
        Pending::ready(self.serving(volume).map(|serving| {
            let from = serving.reader.answerer();
            Answer { from, result: Ok(serving.reader.memory()) }
        }))
    }

    fn control(&self, volume: VolumeId, control: Control) -> Pending<Answer<Guarantees>> {
        self.on_log(volume, |done| Op::Control { control, done })
    }

    fn adopt(&self, volume: VolumeId, rows: Vec<AdoptedRow>) -> Pending<Answer<()>> {
        self.on_log(volume, |done| Op::Adopt { rows, done })
    }

    fn drop_row(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Answer<()>> {
        let target = target.clone();
        self.on_log(volume, |done| Op::Drop { target, ballot, done })
    }

    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()> {
        let (id, entry) = (entry.id(), entry.encode());
        self.on_log(volume, |done| Op::HealPut { id, entry, done })
    }

    fn heal_done(&self, volume: VolumeId, id: HealId) {
        self.tell_log(volume, Op::HealDone { id });
    }

    fn releases(
        &self,
        volume: VolumeId,
        after: Option<ReleaseId>,
        limit: usize,
    ) -> Pending<Vec<(ReleaseId, Bytes)>> {
        self.on_readers(volume, move |reader| reader.releases(after, limit))
    }

    fn release_put(&self, volume: VolumeId, entry: &ReleaseEntry) {
        self.tell_log(volume, Op::ReleasePut { id: entry.id(), entry: entry.encode() });
    }

    fn release_done(&self, volume: VolumeId, id: ReleaseId) {
        self.tell_log(volume, Op::ReleaseDone { id });
    }
}

/// One page of the shard files in a directory, with the keys that their headers name.
fn shard_files(
    reader: &Reader,
    directory: u8,
    after: Option<ShardId>,
    limit: usize,
) -> std::result::Result<ShardPage, sherd_volume::error::Error> {
    let files = reader.shard_files();
    let FilePage { shards: ids, has_more } = files.page(directory, after, limit)?;
    let next = ids.last().copied().filter(|_| has_more);
    let (mut shards, before) = (Vec::with_capacity(ids.len()), files.cleared_away());
    for shard in ids {
        shards.extend(files.seen(shard)?);
    }
    let count = files.cleared_away() - before;
    if count > 0 {
        tracing::warn!(directory, count, "removed old shard files without a header and without an end");
    }
    Ok(ShardPage { shards, next })
}

/// A range of a shard, wherever it lives.
fn read_from(
    reader: &Reader,
    shard: ShardId,
    home: Home,
    range: Range<u64>,
    source: Source,
) -> std::result::Result<Lookup<Vec<Bytes>>, sherd_volume::error::Error> {
    match home {
        Home::Packed => reader.packed(shard, range, source),
        Home::File => reader.shard_files().read(shard, range, source),
    }
}

/// Verifies a shard file from its first byte to its last.
fn verify_file(reader: &Reader, shard: ShardId) -> std::result::Result<u64, sherd_volume::error::Error> {
    let mut check = reader.shard_files().check(shard)?;
    while !check.step(VERIFY_STEP_BYTES)? {}
    Ok(check.header().shard_bytes)
}

/// A shard file under way on a local volume. Appends run on its write workers; the lock is taken
/// only there, and by one job at a time.
#[derive(Debug)]
struct LocalSink {
    opening: Result<SinkOpening>,
    /// Present until the last job was queued.
    file: Option<Arc<Mutex<File>>>,
}

/// The opening of the volume that a shard file is written under.
#[derive(Debug)]
struct SinkOpening {
    /// Held by the jobs alone: a body that comes slowly may outlive the opening by hours, and whoever holds it
    /// holds the lock that the next one needs.
    serving: Weak<ServingVolume>,
    writes: Arc<Workers>,
}

/// How far the file is.
#[derive(Debug)]
enum File {
    New { header: ShardFileHeader, replace: bool },
    Open(Box<ShardWriter>),
    Ended,
}

impl File {
    /// Takes the writer out, opening the file first where that was not done.
    fn writer(&mut self, serving: &ServingVolume) -> Result<Box<ShardWriter>> {
        match std::mem::replace(self, Self::Ended) {
            Self::New { header, replace: false } => {
                Ok(Box::new(serving.reader.shard_files().create(&header)?))
            }
            Self::New { header, replace: true } => Ok(Box::new(serving.reader.shard_files().heal(&header)?)),
            Self::Open(writer) => Ok(writer),
            Self::Ended => Err(unreachable_because("an earlier write of the shard failed")),
        }
    }

    /// Writes; after an error the file is given up, and removed.
    fn append(&mut self, serving: &ServingVolume, bytes: &[Bytes]) -> Result<()> {
        let mut writer = self.writer(serving)?;
        writer.append(bytes)?;
        *self = Self::Open(writer);
        Ok(())
    }
}

impl LocalSink {
    fn on_writers(
        &self,
        file: Option<Arc<Mutex<File>>>,
        job: impl FnOnce(&ServingVolume, &mut File) -> Result<()> + Send + 'static,
    ) -> Pending<()> {
        let (opening, file) = match (&self.opening, file) {
            (Ok(opening), Some(file)) => (opening, file),
            (Err(error), _) => return Pending::ready(Err(error.clone())),
            (Ok(_), None) => return Pending::ready(Err(unreachable_because("the shard was finished"))),
        };
        let Some(serving) = opening.serving.upgrade() else {
            return Pending::ready(Err(unreachable_because(
                "the volume was shut while the shard was written",
            )));
        };
        run_on(&opening.writes, &serving, move |serving, answering| {
            let result = job(serving, &mut file.lock());
            finish(serving, answering, result);
        })
    }
}

impl ShardSink for LocalSink {
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()> {
        self.on_writers(self.file.clone(), move |serving, file| file.append(serving, &bytes))
    }

    fn finish(mut self: Box<Self>) -> Pending<()> {
        let file = self.file.take();
        self.on_writers(file, |serving, file| Ok(file.writer(serving)?.finish()?))
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if let (Ok(opening), Some(file)) = (&self.opening, self.file.take()) {
            // Removing the unfinished file touches the disk, so it is done where files are
            // written. A job that still holds the file outlives this, and removes it then.
            let _ = opening.writes.run(move || drop(file));
        }
    }
}

#[cfg(test)]
mod tests;
