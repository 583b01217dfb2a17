//! A gateway's batch: writers of the key that come while it is open, are decided together in their order, and
//! may leave at any time.
//!
//! Beside the answers runs a ghost: a change whose writer was refused, or got the answer that nothing
//! changed, must never be seen; one whose writer got success must be in a committed value.

use sherd_core::record::ConditionalChange;
use sherd_core::register::batch::{Batch, GiveBack, LeaveReply, RefusedMember, decide_in_order, give_back};
use sherd_core::register::call::earlier_success;
use sherd_core::register::proposer::{AfterConflict, Tries};
use sherd_core::register::release::CommittedValue;

use super::act::{clear, found_value, small};
use super::check::{history_of, observe};
use super::wire::{Kept, after as after_change, ballot, change, changes, conditional, count_of, token};
use super::{Kind, Phase, Program, Register, State, Step, Value};
use crate::rules::Without;

/// Most writers of one batch.
pub(crate) const MEMBERS: usize = 2;

/// Wish of a writer of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Put(u8),
    PutIfAbsent(u8),
    PutIfPresent(u8),
    /// A sending of a client's call, which others may be sendings of, too: the change, and the call.
    CallIfAbsent(u8, u8),
    CallIfPresent(u8, u8),
    /// The same, to delete.
    CallDelete(u8, u8),
}

impl Write {
    pub(super) const fn change(self) -> u8 {
        match self {
            Self::Put(change) | Self::PutIfAbsent(change) | Self::PutIfPresent(change) => change,
            Self::CallIfAbsent(change, _) | Self::CallIfPresent(change, _) | Self::CallDelete(change, _) => {
                change
            }
        }
    }

    pub(super) const fn call(self) -> Option<u8> {
        match self {
            Self::Put(_) | Self::PutIfAbsent(_) | Self::PutIfPresent(_) => None,
            Self::CallIfAbsent(_, call) | Self::CallIfPresent(_, call) | Self::CallDelete(_, call) => {
                Some(call)
            }
        }
    }

    const fn deletes(self) -> bool {
        matches!(self, Self::CallDelete(..))
    }

    pub(super) const fn admits(self, kind: Kind) -> bool {
        match self {
            Self::Put(_) => true,
            Self::PutIfAbsent(_) | Self::CallIfAbsent(..) => !matches!(kind, Kind::Object),
            Self::PutIfPresent(_) | Self::CallIfPresent(..) | Self::CallDelete(..) => {
                matches!(kind, Kind::Object)
            }
        }
    }
}

/// Where a writer of a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Place {
    #[default]
    Away,
    In,
    Left,
    Told,
}

/// A writer of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Member {
    pub(super) place: Place,
    /// It came after the prepare under way was sent.
    pub(super) late: bool,
    /// Changes acknowledged before it came.
    pub(super) before: u8,
    /// The last decision, and that of each of the batch's tries (a mask, the first lowest).
    decided: bool,
    made: u8,
    /// By which of them it found that another sending of its call had made its change; the highest bit is
    /// what was decided last. And the ghost: by which it was refused although another sending had.
    repeats: u8,
    wronged: u8,
    /// The ballot of the last accept that named its data; 0 for none.
    named: u8,
}

/// Changes of the members so far, as they are decided one after the other.
#[derive(Debug, Clone, Copy)]
struct Made {
    value: Value,
    members: u8,
    /// The calls that they are sendings of.
    calls: u8,
}

/// The bit of a mask of tries that stands for what was decided last.
const LAST: u8 = 1 << 7;

impl Register {
    pub(super) fn writes(&self, actor: usize) -> &'static [Write] {
        match self.actors[actor] {
            Program::Batch(writes) => writes,
            _ => &[],
        }
    }

    /// The changes of all sendings of a call.
    pub(super) fn sendings(&self, call: Option<u8>) -> u8 {
        let writes = (0..self.actors.len()).flat_map(|actor| self.writes(actor));
        let sendings = writes.filter(|write| call.is_some() && write.call() == call);
        sendings.fold(0, |changes, write| changes | 1 << write.change())
    }

    /// Whether another sending of a write's call is known to have made its change: by a found value, which
    /// keeps these, or a member before it in its batch.
    pub(super) fn has_made(&self, write: Write, kept: &[ConditionalChange], drafted: u8) -> bool {
        let drafted = if self.without == Without::DraftedCalls { 0 } else { drafted };
        let looks = self.without != Without::CallsLookedUp;
        looks && earlier_success(write.call().map(token), kept, &conditional(drafted)).is_some()
    }

    /// Production's view of a batch.
    pub(super) fn batch(&self, state: &State, actor: usize) -> Batch {
        let me = &state.actors[actor];
        let change = change(self.writes(actor)[0].change());
        let tries = (me.first_accept > 0).then(|| Tries {
            change,
            first_accept: ballot(me.first_accept),
            lowest_count: count_of(me.counts[0]),
            highest_floor: ballot(0),
        });
        let highest_accept = ballot(me.last_accept);
        Batch { change, tries, tries_count: u16::from(me.sent), highest_accept, is_closed: me.closed }
    }

    pub(super) fn batch_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let me = &state.actors[actor];
        if me.phase == Phase::Done {
            return;
        }
        if me.members.iter().any(|member| member.place == Place::In) {
            self.start_steps(state, actor, out);
        }
        let is_open = !self.batch(state, actor).is_closed;
        for (at, write) in self.writes(actor).iter().enumerate() {
            let step_member = small(at);
            let comes_next = at == 0 || me.members[at - 1].place != Place::Away;
            match me.members[at].place {
                Place::Away if comes_next && (is_open || self.without == Without::BatchClosed) => {
                    let mut after = *state;
                    let member = &mut after.actors[actor].members[at];
                    (member.place, member.before, member.late) =
                        (Place::In, state.acked, me.phase != Phase::Idle);
                    // A member that joins a value which was already sent is answered by its outcome.
                    member.made = if is_open { 0 } else { u8::MAX };
                    out.push((Step::Come { actor: small(actor), member: step_member }, after));
                }
                Place::In => {
                    let mut after = *state;
                    self.leave(&mut after, actor, at, *write);
                    out.push((Step::Leave { actor: small(actor), member: step_member }, after));
                }
                Place::Away | Place::Left | Place::Told => {}
            }
        }
        if self.looks {
            self.look_steps(state, actor, out);
        }
        self.proposer_steps(state, actor, out);
    }

    /// A writer is cancelled, or past its deadline.
    fn leave(&self, after: &mut State, actor: usize, at: usize, write: Write) {
        let leaving = match self.without {
            Without::LeavingIsUnknown => LeaveReply::NothingChanged,
            _ => self.batch(after, actor).leaving(),
        };
        let bit = 1 << write.change();
        if leaving == LeaveReply::NothingChanged {
            after.refused |= bit;
        }
        let member = &mut after.actors[actor].members[at];
        member.place = Place::Left;
        let named = (member.named > 0).then(|| ballot(member.named));
        let at_once = give_back(named, None) == GiveBack::AtOnce || self.without == Without::LeftDataWaits;
        if self.release && at_once {
            after.released |= bit;
        }
        let me = &after.actors[actor];
        if self.without != Without::LeftIsLeftOut && me.members.iter().all(|member| member.place != Place::In)
        {
            // No member is left to propose for.
            if me.closed {
                clear(after, actor);
                after.actors[actor].phase = Phase::Done;
            }
        }
    }

    pub(super) fn decide_batch(&self, after: &mut State, actor: usize, committed: bool) {
        let me = after.actors[actor];
        let is_left_alone = me.members.iter().all(|member| member.place != Place::In);
        if is_left_alone && self.without != Without::LeftIsLeftOut {
            after.actors[actor].phase = Phase::Done;
            return;
        }
        let found = found_value(after, me.found);
        let batch = self.batch(after, actor);
        match batch.verdict(&changes(&found), committed, ballot(me.floors)) {
            Some(AfterConflict::Committed { number }) => {
                self.end_batch(after, actor, small(usize::from(number)), me.found);
            }
            Some(AfterConflict::Settle { number }) => {
                after.actors[actor].aux = small(usize::from(number));
                propose_found(after, actor);
            }
            Some(AfterConflict::Unknown) => {
                for (write, member) in self.writes(actor).iter().zip(me.members) {
                    let named = (member.named > 0).then(|| ballot(member.named));
                    let at_once = give_back(named, None) == GiveBack::AtOnce;
                    if self.release && (at_once || self.without == Without::UnknownKeepsData) {
                        after.released |= 1 << write.change();
                    }
                }
                after.actors[actor].phase = Phase::Done;
            }
            None => self.judge_members(after, actor, committed),
            Some(AfterConflict::TryAgain) => {
                self.forget_tries(after, actor, committed);
                self.judge_members(after, actor, committed);
            }
        }
    }

    fn forget_tries(&self, after: &mut State, actor: usize, committed: bool) {
        let found = after.actors[actor].found;
        let mut batch = self.batch(after, actor);
        if self.without == Without::ForgottenAbove && found > 0 {
            batch.highest_accept = ballot(0);
        }
        let committed = committed || self.without == Without::ForgottenCommitted;
        if found > 0 {
            batch.forget_tries(ballot(found), committed);
        }
        if batch.tries.is_none() {
            (after.actors[actor].first_accept, after.actors[actor].counts) = (0, [0; 3]);
        }
    }

    fn judge_members(&self, after: &mut State, actor: usize, committed: bool) {
        let me = after.actors[actor];
        let history = history_of(after, me.found);
        let found = Value { history, twice: false, overruled: false, ..found_value(after, me.found) };
        let again = self.without == Without::DecidedAnew && me.sent > 0;
        let takes_part = |member: &super::batch::Member| match member.place {
            Place::In => true,
            Place::Left => self.without == Without::LeftIsLeftOut,
            Place::Away | Place::Told => false,
        };
        let writes = self.writes(actor).iter().enumerate().filter(|(at, _)| takes_part(&me.members[*at]));
        let kept = conditional(found.calls);
        let (mut repeats, mut wronged) = (0, 0);
        let decided =
            decide_in_order(writes, Made { value: found, members: 0, calls: 0 }, |(at, write), made| {
                if self.has_made(*write, &kept, made.calls) {
                    repeats |= 1 << at;
                    return None;
                }
                let holds = write.admits(made.value.kind);
                if !holds && made.value.history & self.sendings(write.call()) != 0 {
                    wronged |= 1 << at;
                }
                let is_made = if again { me.members[at].decided } else { holds };
                if !is_made {
                    return None;
                }
                let own = write.change();
                let value = Value {
                    kind: if write.deletes() { Kind::Tombstone } else { Kind::Object },
                    history: made.value.history | 1 << own,
                    data: if write.deletes() { 0 } else { own + 1 },
                    twice: made.value.twice || made.value.history & 1 << own != 0,
                    overruled: made.value.overruled || !holds,
                    ..made.value
                };
                let calls = write.call().map_or(0, |call| 1 << call);
                let calls =
                    if self.without == Without::EachBringsItsOwn { calls } else { made.calls | calls };
                Some(Made { value, members: made.members | 1 << at, calls })
            });
        for (at, member) in after.actors[actor].members.iter_mut().enumerate() {
            member.decided = decided.state.members & 1 << at != 0;
            let last = |mask: u8| if mask & 1 << at != 0 { LAST } else { 0 };
            member.repeats = member.repeats & !LAST | last(repeats);
            member.wronged = member.wronged & !LAST | last(wronged);
        }
        if decided.made_count == 0 {
            self.refuse_members(after, actor, committed);
        } else {
            self.propose_members(after, actor, decided.state);
        }
    }

    fn refuse_members(&self, after: &mut State, actor: usize, committed: bool) {
        let me = after.actors[actor];
        let mut batch = self.batch(after, actor);
        if self.without == Without::RefusedWithoutAccept {
            batch.tries = None;
        }
        let at_once = me.members.iter().filter(|member| member.place == Place::In).all(|member| {
            let is_repeated = member.repeats & LAST != 0;
            let overruled = self.without == Without::RefusedOnCertain
                || (is_repeated && self.without == Without::RepeatedOnCertain);
            batch.may_refuse_at_once(RefusedMember {
                found_is_certain: committed || me.found == 0 || overruled,
                came_before_asking: !member.late || self.without == Without::RefusedCameBefore,
            })
        });
        if at_once || (me.found == 0 && self.without == Without::RefusedTombstone) {
            self.end_batch(after, actor, 0, me.found);
        } else {
            after.actors[actor].aux = 0;
            propose_found(after, actor);
        }
    }

    fn propose_members(&self, after: &mut State, actor: usize, made: Made) {
        let me = after.actors[actor];
        let found = found_value(after, me.found);
        let own = self.writes(actor)[0].change();
        let number = me.sent + 1;
        let mut changes = changes(&found);
        let mut drafted = conditional(made.calls);
        if made.value.kind == Kind::Tombstone && self.without == Without::TombstoneCalls {
            (changes.conditional, drafted) = (Vec::new(), Vec::new());
        }
        let Kept { count, ring, calls } = after_change(&changes, own, number, &drafted);
        let introduces = made.value.data > 0 && made.value.data != found.data;
        let value = Value { count, ring, calls, introduces, ..made.value };
        after.values[usize::from(me.ballot)] = value;
        let early = |without| self.without == without;
        for (at, write) in self.writes(actor).iter().enumerate() {
            let member = &mut after.actors[actor].members[at];
            let bit = 1 << write.change();
            member.made |= u8::from(member.decided) << (number - 1);
            member.repeats |= u8::from(member.repeats & LAST != 0) << (number - 1);
            member.wronged |= u8::from(member.wronged & LAST != 0) << (number - 1);
            if value.data == write.change() + 1 {
                member.named = me.ballot;
            } else if self.release && early(Without::GiveBackAfterCommit) && member.place == Place::In {
                after.released |= bit;
            }
            let member = &mut after.actors[actor].members[at];
            if early(Without::AnswerAfterCommit) && member.place == Place::In && !member.decided {
                member.place = Place::Told;
                after.refused |= bit;
                after.acked |= value.history;
            }
        }
        let me = &mut after.actors[actor];
        if me.first_accept == 0 {
            (me.first_accept, me.counts) = (me.ballot, [count; 3]);
        }
        me.last_accept = me.ballot;
        me.counts = [me.counts[0].min(count), me.counts[1], count];
        (me.sent, me.closed) = (number, true);
        (me.phase, me.settling) = (Phase::Accepting, false);
    }

    /// All members are answered as the try of this number judged them (0: by the last decision), and data
    /// that the value of `committed` does not name is released. Ballot 0 means that nothing was found.
    pub(super) fn end_batch(&self, state: &mut State, actor: usize, number: u8, committed: u8) {
        let me = state.actors[actor];
        let history = history_of(state, committed);
        let number = if self.without == Without::TryNumbers && number > 0 { me.sent } else { number };
        for (write, member) in self.writes(actor).iter().zip(me.members) {
            let bit = 1 << write.change();
            if member.place == Place::In {
                let by = if number == 0 { LAST } else { 1 << (number - 1) };
                let made = if number == 0 { member.decided } else { member.made & by != 0 };
                if member.repeats & by != 0 && history & self.sendings(write.call()) == 0 {
                    state.wrong =
                        Some("a call was answered with success, and none of its sendings made its change");
                }
                if !made && member.wronged & by != 0 {
                    state.wrong = Some("a call was refused for its own success");
                }
                if member.before & !history != 0 {
                    state.wrong = Some("a writer was judged on a value from before it came");
                }
                if made && history & bit == 0 {
                    state.wrong = Some("a writer was told that its change was made, and it was not");
                }
                state.refused |= if made { 0 } else { bit };
            }
            if self.release && member.place != Place::Away {
                let names = found_value(state, committed).data == write.change() + 1;
                let seen = (committed > 0).then(|| CommittedValue { ballot: ballot(committed), names });
                let named = (member.named > 0).then(|| ballot(member.named));
                if give_back(named, seen) != GiveBack::Nothing {
                    state.released |= bit;
                }
            }
        }
        observe(state, actor, history);
        clear(state, actor);
        state.actors[actor] = super::Actor { phase: Phase::Done, ..super::Actor::default() };
    }

    /// Answers of a batch's committed ballot to its members.
    pub(super) fn batch_committed(&self, state: &mut State, actor: usize, committed: u8) {
        let me = state.actors[actor];
        let number = if me.settling { me.aux } else { me.sent };
        self.end_batch(state, actor, number, committed);
    }
}

/// An identity write; a tombstone where nothing was found.
fn propose_found(after: &mut State, actor: usize) {
    let me = after.actors[actor];
    let history = history_of(after, me.found);
    let found = found_value(after, me.found);
    let kind = if me.found == 0 { Kind::Tombstone } else { found.kind };
    let value = Value { kind, history, introduces: false, twice: false, overruled: false, ..found };
    after.values[usize::from(me.ballot)] = value;
    let me = &mut after.actors[actor];
    (me.phase, me.settling, me.closed) = (Phase::Accepting, true, true);
}
