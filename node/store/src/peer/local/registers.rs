//! Registers of this node's own volumes.

use sherd_core::id::{Ballot, VolumeId};
use sherd_core::message::call::{RegisterCall, VolumeAnswer};
use sherd_core::message::{Target, ValueLimit};
use sherd_core::register::{CommitHint, Prepare};
use sherd_volume::lookup::Source;
use sherd_volume::request::Op;

use super::{LocalPeer, look_up, scans};
use crate::peer::Pending;
use crate::peer::watch::CallLength;
use crate::volumes::ServingVolume;

impl LocalPeer {
    pub(super) fn begin_register_call(
        &self,
        volume: VolumeId,
        length: CallLength,
        call: RegisterCall,
    ) -> Option<Pending<VolumeAnswer>> {
        Some(match call {
            RegisterCall::Prepare { target, prepare, values } => {
                self.prepare_row(volume, length, target, prepare, values)
            }
            RegisterCall::Accept { target, accept, heal } => {
                let heal = heal.map(|entry| (entry.id(), entry.encode()));
                self.on_log(volume, length, |done| Op::Accept { target, accept, heal, done })
            }
            RegisterCall::Commit { target, commit: CommitHint { ballot, is_everywhere, positions } } => {
                self.queue_lazily(volume, Op::Commit { target, ballot, is_everywhere, positions });
                return None;
            }
            RegisterCall::Read { target, values } => self.read_row(volume, length, target, values),
            RegisterCall::Inline { target, ballot } => self.read_inline(volume, length, target, ballot),
            RegisterCall::VerifyRow { key } => {
                self.on_readers(volume, length, move |reader| reader.verify_row(&key))
            }
            RegisterCall::List { scan } => {
                self.in_line(volume, length, move |reader| reader.list(&scan).map(Into::into))
            }
            RegisterCall::Parts { scan } => {
                self.in_line(volume, length, move |reader| reader.parts(&scan).map(Into::into))
            }
            RegisterCall::Rows { scan } => {
                self.in_line(volume, length, move |reader| scans::rows(reader, &scan).map(Into::into))
            }
            RegisterCall::Unsettled { kind, after, limit } => self.in_line(volume, length, move |reader| {
                reader.unsettled(kind, after.as_ref(), limit).map(Into::into)
            }),
            RegisterCall::RowsBehind { scan } => {
                self.in_line(volume, length, move |reader| scans::rows_behind(reader, &scan).map(Into::into))
            }
            RegisterCall::Control { control } => {
                self.on_log(volume, length, |done| Op::Control { control, done })
            }
            RegisterCall::Adopt { rows } => self.on_log(volume, length, |done| Op::Adopt { rows, done }),
            RegisterCall::Pull { target, row } => {
                self.on_log(volume, length, |done| Op::Pull { target, row, done })
            }
            RegisterCall::DropRow { target, ballot } => {
                self.on_log(volume, length, |done| Op::Drop { target, ballot, done })
            }
        })
    }

    fn prepare_row(
        &self,
        volume: VolumeId,
        length: CallLength,
        target: Target,
        prepare: Prepare,
        values: ValueLimit,
    ) -> Pending<VolumeAnswer> {
        let known =
            |serving: &ServingVolume| serving.reader.prepare(&target, &prepare, values, Source::Cache);
        if let Some(answered) = self.answer_at_once(volume, known) {
            return answered;
        }
        self.answer_on_readers(volume, length, move |serving, answering| {
            let found = serving.reader.prepare(&target, &prepare, values, Source::Disk);
            look_up(serving, answering, found, |done| Op::Prepare { target, prepare, values, done });
        })
    }

    fn read_row(
        &self,
        volume: VolumeId,
        length: CallLength,
        target: Target,
        values: ValueLimit,
    ) -> Pending<VolumeAnswer> {
        let known = |serving: &ServingVolume| serving.reader.row(&target, values, Source::Cache);
        if let Some(answered) = self.answer_at_once(volume, known) {
            return answered;
        }
        self.answer_on_readers(volume, length, move |serving, answering| {
            let found = serving.reader.row(&target, values, Source::Disk);
            look_up(serving, answering, found, |done| Op::Read { target, values, done });
        })
    }

    fn read_inline(
        &self,
        volume: VolumeId,
        length: CallLength,
        target: Target,
        ballot: Ballot,
    ) -> Pending<VolumeAnswer> {
        let known = |serving: &ServingVolume| serving.reader.inline(&target, ballot, Source::Cache);
        if let Some(answered) = self.answer_at_once(volume, known) {
            return answered;
        }
        self.on_readers(volume, length, move |reader| reader.inline(&target, ballot, Source::Disk)?.or_busy())
    }
}
