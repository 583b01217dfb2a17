//! The seam to this node's own volumes: each call to its work, by what it asks.

use bytes::Bytes;

use sherd_core::id::{Life, ShardId, VolumeId};
use sherd_core::message::call::{RegisterCall, UpkeepCall, VolumeAnswer, VolumeCall};
use sherd_core::message::{Answer, Result, ShardFileHeader, ShardRange, Target};
use sherd_volume::read::reader::Reader;
use sherd_volume::request::Op;

use super::LocalPeer;
use super::scans::{self, CountedPage, ScanRoom};
use crate::peer::watch::CallLength;
use crate::peer::{Peer, Pending, ShardSink};
use crate::volumes::unreachable_because;

impl Peer for LocalPeer {
    fn ask(&self, volume: VolumeId, call: VolumeCall) -> Pending<VolumeAnswer> {
        let name = call.name();
        self.begin(volume, call)
            .unwrap_or_else(|| Pending::ready(Err(unreachable_because(&format!("{name} has no answer")))))
    }

    fn tell(&self, volume: VolumeId, call: VolumeCall) {
        drop(self.begin(volume, call));
    }

    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Life> {
        self.put_packed(volume, shard, target, payload)
    }

    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink> {
        self.begin_file(volume, target, header, replace)
    }

    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>> {
        self.read_range(volume, range)
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.serving(volume).is_ok_and(|serving| serving.reader.is_full())
    }

    fn is_late(&self, volume: VolumeId) -> bool {
        self.watches.of(volume).is_late()
    }

    fn has_overdue(&self, volume: VolumeId) -> bool {
        self.watches.of(volume).has_overdue()
    }

    fn is_returning(&self, _volume: VolumeId) -> bool {
        false
    }
}

/// A call that another node made.
#[derive(Debug)]
pub enum WorkForPeer {
    /// An answer follows.
    Answer(Pending<VolumeAnswer>),
    /// A page of rows follows.
    Page(Pending<CountedPage>),
    /// No answer follows.
    WithoutAnswer,
}

impl LocalPeer {
    /// Begins the work of a call that another node made: a page of rows holds room until it is dropped.
    pub fn begin_for_peer(&self, volume: VolumeId, call: VolumeCall, room: &ScanRoom) -> WorkForPeer {
        let length = CallLength::of_own_volume(call.class());
        WorkForPeer::Page(match call {
            VolumeCall::Register(RegisterCall::List { scan }) => {
                self.counted(volume, length, room, move |reader| reader.list(&scan))
            }
            VolumeCall::Register(RegisterCall::Parts { scan }) => {
                self.counted(volume, length, room, move |reader| reader.parts(&scan))
            }
            VolumeCall::Register(RegisterCall::Rows { scan }) => {
                self.counted(volume, length, room, move |reader| scans::rows(reader, &scan))
            }
            call => return self.begin(volume, call).map_or(WorkForPeer::WithoutAnswer, WorkForPeer::Answer),
        })
    }

    /// Begins the work of a call; `None` where it has no answer.
    fn begin(&self, volume: VolumeId, call: VolumeCall) -> Option<Pending<VolumeAnswer>> {
        let length = CallLength::of_own_volume(call.class());
        match call {
            VolumeCall::Register(call) => self.begin_register_call(volume, length, call),
            VolumeCall::Shard(call) => Some(self.begin_shard_call(volume, length, call)),
            VolumeCall::Upkeep(call) => self.begin_upkeep_call(volume, length, call),
        }
    }

    fn begin_upkeep_call(
        &self,
        volume: VolumeId,
        length: CallLength,
        call: UpkeepCall,
    ) -> Option<Pending<VolumeAnswer>> {
        Some(match call {
            UpkeepCall::Heals { after, limit } => {
                self.on_readers(volume, length, move |reader| reader.heals(after, limit))
            }
            UpkeepCall::HealPut { entry } => {
                let (id, entry) = (entry.id(), entry.encode());
                self.on_log(volume, length, |done| Op::HealPut { id, entry, done })
            }
            UpkeepCall::HealDone { id } => {
                self.queue_lazily(volume, Op::HealDone { id });
                return None;
            }
            UpkeepCall::Releases { after, limit } => {
                self.on_readers(volume, length, move |reader| reader.releases(after, limit))
            }
            UpkeepCall::ReleasePut { entry } => {
                self.queue_lazily(volume, Op::ReleasePut { id: entry.id(), entry: entry.encode() });
                return None;
            }
            UpkeepCall::ReleaseDone { id } => {
                self.queue_lazily(volume, Op::ReleaseDone { id });
                return None;
            }
            UpkeepCall::Position {} => self.answer_now(volume, |reader| reader.answerer().into()),
            UpkeepCall::Guarantees {} => self.answer_now(volume, |reader| {
                let (from, guarantees) = (reader.answerer(), reader.guarantees());
                Answer { from, result: Ok(guarantees) }.into()
            }),
            UpkeepCall::Seals { after, limit } => self.answer_now(volume, |reader| {
                // The life first: a volume that votes begins another one only when it is opened again, by
                // another reader.
                let from = reader.answerer();
                Answer { from, result: Ok(reader.seals(after, limit)) }.into()
            }),
            UpkeepCall::Remembers { asker } => Pending::ready(self.serving(volume).map(|serving| {
                let from = serving.reader.answerer();
                let memory = serving.reader.memory();
                if let Some(asker) = asker.filter(|asker| asker.volume != volume) {
                    // An entry that is not dropped now is dropped by the next question.
                    drop(serving.submit(Op::Asked(asker)));
                }
                Answer { from, result: Ok(memory) }.into()
            })),
        })
    }

    /// Answers from memory.
    fn answer_now(
        &self,
        volume: VolumeId,
        answer: impl FnOnce(&Reader) -> VolumeAnswer,
    ) -> Pending<VolumeAnswer> {
        let answer: Result<VolumeAnswer> = self.serving(volume).map(|serving| answer(&serving.reader));
        Pending::ready(answer)
    }
}
