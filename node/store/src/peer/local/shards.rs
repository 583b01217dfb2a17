//! Shards of this node's own volumes.

use std::ops::Range;

use bytes::Bytes;
use tokio::time::Instant;

use sherd_core::id::{Life, ShardId, VolumeId};
use sherd_core::message::call::{ShardCall, VolumeAnswer};
use sherd_core::message::{
    Error, ReadPurpose, ReaderLeases, Result, ShardFileHeader, ShardPage, ShardRange, ShardScan, Target,
};
use sherd_core::record::Home;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::read::reader::Reader;
use sherd_volume::request::{Completion, Op};
use sherd_volume::shard_file::{FilePage, ShardCheck};

use super::sink::{LocalSink, SinkFile};
use super::{LocalPeer, answer_read, finish, run_on};
use crate::peer::limits::VERIFY_TURNS_MAX;
use crate::peer::watch::CallLength;
use crate::peer::{Pending, ShardSink};
use crate::volumes::{HEAL_TURN_MAX, ServingVolume, unreachable_because};

/// Bytes verified in one turn: a mebibyte.
const VERIFY_STEP_BYTES: u64 = 1 << 20;

impl LocalPeer {
    pub(super) fn begin_shard_call(
        &self,
        volume: VolumeId,
        length: CallLength,
        call: ShardCall,
    ) -> Pending<VolumeAnswer> {
        match call {
            ShardCall::Delete { shard, home } => self.remove(volume, length, (shard, home), ().into()),
            ShardCall::Release { shard, home } => self.release(volume, length, shard, home),
            ShardCall::Leases { leases } => self.take_leases(volume, &leases),
            ShardCall::Length { shard, home } => self.on_readers(volume, length, move |reader| match home {
                Home::Packed => reader.packed_len(shard),
                Home::File => reader.shard_files().header(shard).map(|header| header.shard_bytes),
            }),
            ShardCall::Verify { shard, home } => {
                Pending::driven(self.clone().verify(volume, length, shard, home))
            }
            ShardCall::Page { scan } => self.on_readers(volume, length, move |reader| page(reader, scan)),
        }
    }

    pub(super) fn put_packed(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Life> {
        let place = match self.watches.of(volume).transfer() {
            Ok(place) => place,
            Err(error) => return Pending::ready(Err(error)),
        };
        let (target, life) = (target.clone(), |serving: &ServingVolume| serving.reader.answerer().life);
        self.on_log_for(volume, CallLength::Short, life, |done| {
            let done = Completion::new(move |result| {
                drop(place);
                done.complete(result);
            });
            Op::PutShard { shard, target, payload, done }
        })
    }

    pub(super) fn begin_file(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink> {
        let opening = self.serving(volume).and_then(|serving| {
            serving.reader.judge_epoch(target)?;
            Ok(serving)
        });
        let times = self.times(CallLength::Short).cloned();
        Box::new(LocalSink::begin(opening, self.watches.of(volume), times, SinkFile::New { header, replace }))
    }

    pub(super) fn read_range(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>> {
        let serving = match self.serving(volume) {
            Ok(serving) => serving,
            Err(error) => return Pending::ready(Err(error)),
        };
        let ShardRange { shard, home, offset, length, wanted } = range;
        let bytes = offset..offset.saturating_add(length);
        // Data that upkeep reads must not push data that clients read out of memory.
        let is_aside = home == Home::File && wanted == ReadPurpose::ByUpkeep;
        let cached = if is_aside {
            Ok(Lookup::Pending)
        } else {
            read_from(&serving.reader, shard, home, bytes.clone(), Source::Cache)
        };
        match cached {
            Ok(Lookup::Immediate(read)) => Pending::ready(Ok(read)),
            Ok(Lookup::Pending) => {
                let length = match wanted {
                    ReadPurpose::ByClient => CallLength::Short,
                    ReadPurpose::ByUpkeep => CallLength::Long,
                };
                self.answer_on_readers(volume, length, move |serving, answering| {
                    let source = if is_aside { Source::Device } else { Source::Disk };
                    let read =
                        read_from(&serving.reader, shard, home, bytes, source).and_then(Lookup::or_busy);
                    answer_read(serving, answering, read);
                })
            }
            Err(error) => {
                let error = Error::from(error);
                serving.faults.note(&error);
                Pending::ready(Err(error))
            }
        }
    }

    fn release(
        &self,
        volume: VolumeId,
        length: CallLength,
        shard: ShardId,
        home: Home,
    ) -> Pending<VolumeAnswer> {
        // A lease that comes behind this look is of a reader that began within the grace, which is over.
        if self.volumes.get(volume).is_some_and(|local| local.leases().may_be_read(shard.data)) {
            return Pending::ready(Ok(false.into()));
        }
        self.remove(volume, length, (shard, home), true.into())
    }

    fn take_leases(&self, volume: VolumeId, leases: &ReaderLeases) -> Pending<VolumeAnswer> {
        Pending::ready(match self.volumes.get(volume) {
            // A volume that is not open takes them, too: it may be open again before they are renewed.
            Some(local) => Ok(local.leases().take(leases).into()),
            None => Err(unreachable_because(&format!("volume {volume} is not on this node"))),
        })
    }

    /// Verifies a shard, in steps that wait for their turns: upkeep alone asks for it, and a whole shard at
    /// one time would be in the way of clients.
    async fn verify(
        self,
        volume: VolumeId,
        length: CallLength,
        shard: ShardId,
        home: Home,
    ) -> Result<VolumeAnswer> {
        if home == Home::Packed {
            let verified = self.on_readers(volume, length, move |reader| reader.verify_packed(shard));
            let bytes = verified.typed::<u64>().await?;
            // How long it is, only the look has shown: it is one step.
            self.admit_heal(volume, bytes).await;
            return Ok(bytes.into());
        }
        let opened = self.answer_on_readers(volume, length, move |serving, answering| {
            answer_read(serving, answering, serving.reader.shard_files().check(shard));
        });
        let mut check: ShardCheck = opened.await?;
        let bytes = check.header().shard_bytes;
        let (mut left, until) = (bytes, Instant::now() + VERIFY_TURNS_MAX);
        loop {
            let patience = until.saturating_duration_since(Instant::now()).min(HEAL_TURN_MAX);
            self.volumes.heal_lanes().take(volume, left.min(VERIFY_STEP_BYTES), patience).await;
            let stepped = self.answer_on_readers(volume, length, move |serving, answering| {
                let stepped = check.step(VERIFY_STEP_BYTES).map(|is_whole| (check, is_whole));
                answer_read(serving, answering, stepped);
            });
            let is_whole;
            (check, is_whole) = stepped.await?;
            if is_whole {
                return Ok(bytes.into());
            }
            left = left.saturating_sub(VERIFY_STEP_BYTES);
        }
    }

    fn remove(
        &self,
        volume: VolumeId,
        length: CallLength,
        (shard, home): (ShardId, Home),
        removed: VolumeAnswer,
    ) -> Pending<VolumeAnswer> {
        match home {
            Home::Packed => {
                let op = |done| Op::DeleteShard { shard, done };
                self.on_log_for(volume, length, |_| removed, op)
            }
            Home::File => match self.serving(volume) {
                Ok(serving) => {
                    let waiting = self.waiting(volume, length);
                    run_on(&serving.writes, &serving, waiting, move |serving, answering| {
                        let result = serving.reader.shard_files().delete(shard).map(|()| removed);
                        finish(serving, answering, result.map_err(Error::from));
                    })
                }
                Err(error) => Pending::ready(Err(error)),
            },
        }
    }
}

/// One page of the shards of a volume.
fn page(reader: &Reader, scan: ShardScan) -> std::result::Result<ShardPage, sherd_volume::error::Error> {
    match scan {
        ShardScan::Packed { after, limit } => {
            let shards = reader.shards(after, limit)?;
            let next = (shards.len() >= limit).then(|| shards.last().map(|seen| seen.shard)).flatten();
            Ok(ShardPage { shards, next })
        }
        ShardScan::Files { directory, after, limit } => shard_files(reader, directory, after, limit),
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
