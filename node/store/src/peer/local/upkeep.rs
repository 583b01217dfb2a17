//! What this node's own volumes keep for upkeep.

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{BucketId, VolumeId};
use sherd_core::message::Answer;
use sherd_core::register::Answerer;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::seal::StoredSeals;
use sherd_core::release::{ReleaseEntry, ReleaseId};
use sherd_volume::request::Op;

use super::LocalPeer;
use crate::peer::watch::CallLength;
use crate::peer::{Pending, UpkeepPeer};

impl UpkeepPeer for LocalPeer {
    fn heals(&self, volume: VolumeId, after: Option<HealId>, limit: usize) -> Pending<Vec<(HealId, Bytes)>> {
        self.on_readers(volume, CallLength::Long, move |reader| reader.heals(after, limit))
    }

    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()> {
        let (id, entry) = (entry.id(), entry.encode());
        self.on_log(volume, CallLength::Long, |done| Op::HealPut { id, entry, done })
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
        self.on_readers(volume, CallLength::Long, move |reader| reader.releases(after, limit))
    }

    fn release_put(&self, volume: VolumeId, entry: &ReleaseEntry) {
        self.tell_log(volume, Op::ReleasePut { id: entry.id(), entry: entry.encode() });
    }

    fn release_done(&self, volume: VolumeId, id: ReleaseId) {
        self.tell_log(volume, Op::ReleaseDone { id });
    }

    fn position(&self, volume: VolumeId) -> Pending<Answerer> {
        Pending::ready(self.serving(volume).map(|serving| serving.reader.answerer()))
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

    fn seals(
        &self,
        volume: VolumeId,
        after: Option<BucketId>,
        limit: usize,
    ) -> Pending<Answer<Vec<StoredSeals>>> {
        Pending::ready(self.serving(volume).map(|serving| {
            // The life first: a volume that votes begins another one only when it is opened again, by another reader.
            let from = serving.reader.answerer();
            Answer { from, result: Ok(serving.reader.seals(after, limit)) }
        }))
    }

    fn remembers(&self, volume: VolumeId, asker: Option<&Asker>) -> Pending<Answer<Memory>> {
        Pending::ready(self.serving(volume).map(|serving| {
            let from = serving.reader.answerer();
            let memory = serving.reader.memory();
            if let Some(asker) = asker.filter(|asker| asker.volume != volume) {
                // What is not dropped now is by the next question.
                drop(serving.submit(Op::Asked(asker.clone())));
            }
            Answer { from, result: Ok(memory) }
        }))
    }
}
