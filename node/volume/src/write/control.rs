//! Changes of what a volume guarantees: floors, seals, epochs, the lives of peers, and the steps of
//! its own recovery.
//!
//! Each is a record and becomes durable with its batch; the answer carries the volume's guarantees after
//! that. A guarantee that others rely on (a floor, a seal, a recorded life) is not sent before it is durable,
//! and never falls.

use std::sync::Arc;

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, BucketId, ChangeId, Life, Sequence, VolumeId};
use sherd_core::limits;
use sherd_core::message::{Answer, Control, Target};
use sherd_core::register::Refusal;
use sherd_core::register::acceptor::{
    VoterStatus, judge_data_floor, judge_epoch, judge_floor, judge_raise, raise_data_floor, raise_floor,
};
use sherd_core::register::position::Position;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Asker;
use sherd_core::register::recover::opening::PeerNotes;
use sherd_core::register::seal::{Seals, StoredSeals};
use sherd_core::release::ReleaseId;

use crate::error::Error;
use crate::format::{Hint, Phase, Subject};
use crate::index::table::key_of;
use crate::limits::{ENDS_WAITING_MAX, HINTS_BYTES_MAX, RELEASE_ENTRY_BYTES_MAX, RELEASES_WAITING_MAX};
use crate::log::append::{HintedCommit, NewRecord};
use crate::request::{Completion, Op};
use crate::write::piggyback_queue::hint_bytes;
use crate::write::plan::{BatchPlan, JudgedPlace};
use crate::write::volume::Volume;

const SMALL_RECORD_BYTES: usize = 128;

pub(crate) fn control_bytes(control: &Control) -> usize {
    match control {
        // Seals come in as many batches as they need.
        Control::TakeGuarantees { guarantees, seals: _ } => (guarantees.lives.len() + 4) * SMALL_RECORD_BYTES,
        Control::RecordLife { .. }
        | Control::RaiseFloor { .. }
        | Control::RaiseDataFloor { .. }
        | Control::RecordEpoch { .. }
        | Control::Seal { .. }
        | Control::Unseal { .. }
        | Control::SealForEver { .. }
        | Control::FinishRecovery { .. }
        | Control::ForceRecovery => SMALL_RECORD_BYTES,
    }
}

impl Volume {
    /// Judges a change of guarantees.
    pub(crate) fn control(
        &mut self,
        plan: &mut BatchPlan,
        control: Control,
        done: Completion<Answer<Guarantees>>,
    ) -> JudgedPlace {
        if let Control::Unseal { bucket, deletion } = control {
            return self.unseal(plan, bucket, deletion, done);
        }
        if let Control::TakeGuarantees { guarantees: _, seals } = &control
            && self.working.standing().has_lost_state()
            && !self.take_seals(plan, seals)
        {
            // A bucket that this batch seals is found sealed by the next.
            return JudgedPlace::Later(Op::Control { control, done });
        }
        match self.change(plan, &control) {
            Ok(Ok(())) => self.report(plan, done),
            Ok(Err(refusal)) => self.answer(plan, plan.changes_state, done, Err(refusal)),
            Err(error) => done.complete(Err(error)),
        }
        JudgedPlace::Done
    }

    fn change(&mut self, plan: &mut BatchPlan, control: &Control) -> Result<Result<(), Refusal>, Error> {
        let standing = self.working.standing();
        let judged = match control {
            Control::RecordLife { .. } | Control::RecordEpoch { .. } => judge_raise(standing),
            Control::RaiseFloor { floor } => judge_floor(standing, *floor, self.working.floor, self.now()),
            Control::RaiseDataFloor { floor } => judge_data_floor(standing, *floor, self.now()),
            Control::Seal { epoch, .. } => {
                // A volume with a later topology for any slot does not seal for an older one.
                judge_raise(standing).and_then(|()| judge_epoch(*epoch, self.working.epoch_max()))
            }
            Control::TakeGuarantees { .. } | Control::FinishRecovery { .. } | Control::ForceRecovery
                if !standing.has_lost_state() =>
            {
                return Err(not_recovering());
            }
            Control::FinishRecovery { .. } if standing == VoterStatus::Lost => Err(Refusal::Recovering),
            Control::Unseal { .. }
            | Control::SealForEver { .. }
            | Control::TakeGuarantees { .. }
            | Control::FinishRecovery { .. }
            | Control::ForceRecovery => Ok(()),
        };
        if judged.is_err() {
            return Ok(judged);
        }
        match control {
            Control::RecordLife { volume, life } => {
                self.learn_life(plan, *volume, *life);
            }
            Control::RaiseFloor { floor } => self.raise_floor(plan, *floor),
            Control::RaiseDataFloor { floor } => {
                let raised = raise_data_floor(self.working.data_floor, *floor);
                if raised > self.working.data_floor {
                    plan.push_state(Subject::DataFloor(raised), &mut self.working);
                }
            }
            Control::RecordEpoch { slot, epoch } => {
                if *epoch > self.working.epoch_of(*slot) {
                    plan.push_state(Subject::Epoch { slot: *slot, epoch: *epoch }, &mut self.working);
                }
            }
            Control::Seal { bucket, deletion, .. } => self.seal(plan, *bucket, Some(*deletion)),
            Control::SealForEver { bucket } => self.seal(plan, *bucket, None),
            Control::Unseal { .. } => {}
            // The seals before it: in an earlier batch, or in this one.
            Control::TakeGuarantees { guarantees, seals: _ } => self.take_guarantees(plan, guarantees),
            Control::FinishRecovery { remembered } => {
                self.see_positions(remembered);
                let recovery = self.recovery();
                self.push_phase(plan, Phase::Voting, recovery.rows_after, recovery.kept_after);
            }
            Control::ForceRecovery => {
                let recovery = self.recovery();
                self.push_phase(plan, Phase::Voting, recovery.kept_after, recovery.kept_after);
            }
        }
        Ok(Ok(()))
    }

    fn report(&self, plan: &mut BatchPlan, done: Completion<Answer<Guarantees>>) {
        if plan.is_empty() {
            let from = self.shared.answerer();
            let promised = self.shared.promises.lock().highest();
            return done.complete(Ok(Answer { from, result: Ok(self.working.guarantees(promised)) }));
        }
        let shared = Arc::clone(&self.shared);
        plan.after(move |outcome| {
            done.complete(outcome.map(|outcome| {
                // Read after the batch became visible: what was promised before that was promised under
                // what it changed, and is here; what comes later is promised under the new state.
                let promised = shared.promises.lock().highest();
                Answer { from: outcome.from.clone(), result: Ok(outcome.small.guarantees(promised)) }
            }));
        });
    }

    fn raise_floor(&mut self, plan: &mut BatchPlan, floor: Ballot) {
        let raised = raise_floor(self.working.floor, floor);
        if raised > self.working.floor {
            plan.push_state(Subject::Floor(raised), &mut self.working);
        }
    }

    fn seal(&mut self, plan: &mut BatchPlan, bucket: BucketId, deletion: Option<ChangeId>) {
        let held = self.working.seals_of(bucket);
        let is_held = match (&held, deletion) {
            (Seals::Final, _) => true,
            (Seals::Held(held), Some(deletion)) => held.contains(&deletion),
            _ => false,
        };
        if !is_held {
            plan.push_state(Subject::Seal { bucket, deletion }, &mut self.working);
        }
    }

    fn unseal(
        &mut self,
        plan: &mut BatchPlan,
        bucket: BucketId,
        deletion: ChangeId,
        done: Completion<Answer<Guarantees>>,
    ) -> JudgedPlace {
        let subject = Subject::Seal { bucket, deletion: Some(deletion) };
        let key = key_of(&subject).expect("a seal has an index key");
        if plan.keys.contains(&key) {
            let control = Control::Unseal { bucket, deletion };
            return JudgedPlace::Later(Op::Control { control, done });
        }
        match self.shared.entry(&key) {
            Ok(Some(entry)) => {
                self.working.forget(&key);
                plan.changes_state = true;
                let (oldest, newest) = (entry.origin.oldest, entry.origin.placed);
                plan.push(NewRecord::bare(Subject::Delete { key, oldest, newest }));
            }
            Ok(None) => {}
            Err(error) => {
                done.complete(Err(error));
                return JudgedPlace::Done;
            }
        }
        self.report(plan, done);
        JudgedPlace::Done
    }

    fn learn_life(&mut self, plan: &mut BatchPlan, volume: VolumeId, life: Life) {
        let known = self.working.peers.get(&volume).map(|(life, _)| *life);
        if known.is_none_or(|known| known < life) {
            // A new life counts its sequence from the start.
            let subject = Subject::Peer { volume, life, durable: Sequence(0) };
            plan.push_state(subject, &mut self.working);
        }
    }

    /// Takes seals over, as many as a batch holds; whether these were all.
    fn take_seals(&mut self, plan: &mut BatchPlan, seals: &[StoredSeals]) -> bool {
        let limit = self.log.batch_bytes_max() / 2;
        for (bucket, deletions) in seals {
            if plan.bytes > limit {
                return false;
            }
            if deletions.is_empty() {
                self.seal(plan, *bucket, None);
            }
            for deletion in deletions {
                self.seal(plan, *bucket, Some(*deletion));
            }
        }
        true
    }

    fn take_guarantees(&mut self, plan: &mut BatchPlan, guarantees: &Guarantees) {
        let Guarantees { bound, floor, highest, data_floor, lives } = guarantees;
        self.raise_floor(plan, *bound.max(floor).max(highest));
        let raised = raise_data_floor(self.working.data_floor, *data_floor);
        if raised > self.working.data_floor {
            plan.push_state(Subject::DataFloor(raised), &mut self.working);
        }
        for (volume, life) in lives {
            self.learn_life(plan, *volume, *life);
        }
        let recovery = self.recovery();
        self.push_phase(plan, Phase::Adopting, recovery.rows_after, recovery.kept_after);
    }

    pub(crate) fn lazy_hint(&mut self, target: &Target, ballot: Ballot, is_everywhere: bool) {
        if self.piggyback.hints_bytes < HINTS_BYTES_MAX {
            let hint = Hint { key: target.key.clone(), ballot, is_everywhere };
            self.piggyback.hints_bytes += hint_bytes(&hint);
            self.piggyback.hints.push(HintedCommit { hint, keys: target.rows().clone() });
            self.piggyback_begins();
        }
    }

    pub(crate) fn lazy_healed(&mut self, id: HealId) {
        if self.piggyback.healed.len() < ENDS_WAITING_MAX {
            self.piggyback.healed.insert(id);
            self.piggyback_begins();
        }
    }

    pub(crate) fn lazy_release(&mut self, id: ReleaseId, entry: Bytes) {
        if entry.len() <= RELEASE_ENTRY_BYTES_MAX && self.piggyback.releases.len() < RELEASES_WAITING_MAX {
            self.piggyback.released.remove(&id);
            self.piggyback.releases.insert(id, entry);
            self.piggyback_begins();
            // A crash forgets what no frame holds, and the data waits for the sweeper: the frame that follows
            // that of the row takes the note along, or one as soon.
            let now_us = self.shared.clock.monotonic_us();
            self.unprotected_since_us.get_or_insert(now_us);
        }
    }

    pub(crate) fn lazy_released(&mut self, id: ReleaseId) {
        self.piggyback.releases.remove(&id);
        if self.piggyback.released.len() < ENDS_WAITING_MAX {
            self.piggyback.released.insert(id);
            self.piggyback_begins();
        }
    }

    /// Notes the positions of its peers' logs for the next frame: that of the accept which carried them.
    pub(crate) fn see_positions(&mut self, positions: &[(VolumeId, Position)]) {
        for (volume, position) in positions {
            if *volume == self.id || self.working.notes.get(volume).is_some_and(|known| known.has(position)) {
                continue;
            }
            if let Some(waiting) = self.piggyback.notes.get_mut(volume) {
                waiting.note(*position);
            } else if self.piggyback.notes.len() < limits::POSITIONS_WAITING_MAX {
                let mut news = PeerNotes::new(position.life);
                news.note(*position);
                self.piggyback.notes.insert(*volume, news);
                self.piggyback_begins();
            }
        }
    }

    /// Drops what is remembered of a peer and its own openings cover. One record says what is dropped and
    /// what is noted in its place.
    pub(crate) fn cover(&mut self, plan: &mut BatchPlan, asker: &Asker) {
        let Asker { volume, openings } = asker;
        let Some(known) = self.working.notes.get(volume) else { return };
        let mut notes = known.clone();
        if notes.cover(openings) {
            plan.push_state(Subject::PeerNotes { volume: *volume, notes }, &mut self.working);
        }
    }

    pub(crate) fn lazy_seen(&mut self, volume: VolumeId, life: Life, durable: Sequence) {
        let news = (life, durable);
        let known = self.piggyback.seen.get(&volume).or_else(|| self.working.peers.get(&volume));
        if known.is_none_or(|known| *known < news) {
            self.piggyback.seen.insert(volume, news);
            self.piggyback_begins();
        }
    }
}

pub(super) fn not_recovering() -> Error {
    Error::Corrupt { what: "the volume is not recovering".to_owned() }
}
