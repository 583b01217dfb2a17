//! Registers of this node's own volumes.

use bytes::Bytes;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message::{
    AdoptedRow, Answer, Control, ListPage, ListScan, PartsScan, RowPage, RowScan, ScannedRow, Target,
    UnsettledKind, UnsettledPage, ValueLimit,
};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Accept, CommitHint, Prepare, Vote};
use sherd_volume::lookup::Source;
use sherd_volume::request::Op;

use super::{LocalPeer, look_up, scans};
use crate::peer::watch::CallLength;
use crate::peer::{Pending, RegisterPeer};
use crate::volumes::ServingVolume;

impl RegisterPeer for LocalPeer {
    fn prepare(
        &self,
        volume: VolumeId,
        target: &Target,
        prepare: Prepare,
        values: ValueLimit,
    ) -> Pending<Answer<Vote>> {
        let known = |serving: &ServingVolume| serving.reader.prepare(target, &prepare, values, Source::Cache);
        if let Some(answer) = self.answer_at_once(volume, known) {
            return Pending::ready(Ok(answer));
        }
        let target = target.clone();
        self.answer_on_readers(volume, CallLength::Short, move |serving, answering| {
            let found = serving.reader.prepare(&target, &prepare, values, Source::Disk);
            look_up(serving, answering, found, |done| Op::Prepare { target, prepare, values, done });
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
        self.on_log(volume, CallLength::Short, |done| Op::Accept { target, accept, heal, done })
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.serving(volume).is_ok_and(|serving| serving.reader.is_full())
    }

    fn is_returning(&self, _volume: VolumeId) -> bool {
        false
    }

    fn is_late(&self, volume: VolumeId) -> bool {
        self.watches.of(volume).is_late()
    }

    fn has_overdue(&self, volume: VolumeId) -> bool {
        self.watches.of(volume).has_overdue()
    }

    fn commit(&self, volume: VolumeId, target: &Target, commit: &CommitHint) {
        let CommitHint { ballot, is_everywhere, positions } = commit.clone();
        self.tell_log(volume, Op::Commit { target: target.clone(), ballot, is_everywhere, positions });
    }

    fn read(&self, volume: VolumeId, target: &Target, values: ValueLimit) -> Pending<Answer<Vote>> {
        let known = |serving: &ServingVolume| serving.reader.row(target, values, Source::Cache);
        if let Some(answer) = self.answer_at_once(volume, known) {
            return Pending::ready(Ok(answer));
        }
        let target = target.clone();
        self.answer_on_readers(volume, CallLength::Short, move |serving, answering| {
            let found = serving.reader.row(&target, values, Source::Disk);
            look_up(serving, answering, found, |done| Op::Read { target, values, done });
        })
    }

    fn inline(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Bytes> {
        if let Some(bytes) =
            self.answer_at_once(volume, |serving| serving.reader.inline(target, ballot, Source::Cache))
        {
            return Pending::ready(Ok(bytes));
        }
        let target = target.clone();
        self.on_readers(volume, CallLength::Short, move |reader| {
            reader.inline(&target, ballot, Source::Disk)?.told()
        })
    }

    fn verify_row(&self, volume: VolumeId, key: &RegisterKey) -> Pending<()> {
        let key = key.clone();
        self.on_readers(volume, CallLength::Long, move |reader| reader.verify_row(&key))
    }

    fn list(&self, volume: VolumeId, request: &ListScan) -> Pending<Answer<ListPage>> {
        let request = request.clone();
        self.in_line(volume, CallLength::Short, move |reader| reader.list(&request))
    }

    fn parts(&self, volume: VolumeId, request: &PartsScan) -> Pending<Answer<Vec<ScannedRow>>> {
        let request = *request;
        self.in_line(volume, CallLength::Short, move |reader| reader.parts(&request))
    }

    fn rows(&self, volume: VolumeId, request: &RowScan) -> Pending<Answer<RowPage>> {
        let request = request.clone();
        self.in_line(volume, CallLength::Long, move |reader| scans::rows(reader, &request))
    }

    fn unsettled(
        &self,
        volume: VolumeId,
        kind: UnsettledKind,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Pending<UnsettledPage> {
        let after = after.cloned();
        self.in_line(volume, CallLength::Long, move |reader| reader.unsettled(kind, after.as_ref(), limit))
    }

    fn control(&self, volume: VolumeId, control: Control) -> Pending<Answer<Guarantees>> {
        self.on_log(volume, CallLength::Long, |done| Op::Control { control, done })
    }

    fn adopt(&self, volume: VolumeId, rows: Vec<AdoptedRow>) -> Pending<Answer<()>> {
        self.on_log(volume, CallLength::Long, |done| Op::Adopt { rows, done })
    }

    fn drop_row(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Answer<()>> {
        let target = target.clone();
        self.on_log(volume, CallLength::Long, |done| Op::Drop { target, ballot, done })
    }
}
