//! A batch that looks: it reads the key before it prepares, and members that fail on what the read returns
//! are told so. What is proposed is decided on what the prepare finds, whatever the read returned.

use sherd_core::register::batch::RefusedMember;
use sherd_core::register::quorum::Lives;
use sherd_core::register::read::{ReadDecision, ReadProgress, decide_read};

use super::act::{clear, found_value, small};
use super::batch::Place;
use super::check::{history_of, observe};
use super::wire::{conditional, number};
use super::{Phase, Register, Slot, State, Step};
use crate::rules::Without;

/// Most looks of one batch.
const LOOKS_MAX: u8 = 1;

impl Register {
    pub(super) fn look_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let me = &state.actors[actor];
        if me.phase == Phase::Reading {
            self.answer_steps(state, actor, out);
            let smallest = self.quorums().prepare();
            for mask in self.answered(state, actor, 1).filter(|mask| mask.count_ones() as usize >= smallest) {
                if let Some(after) = self.looked(state, actor, mask) {
                    out.push((
                        Step::Judge { actor: small(actor), from: self.label_mask(state, mask) },
                        after,
                    ));
                }
            }
            return;
        }
        let is_waited_for = me.members.iter().any(|member| member.place == Place::In);
        // With an accept under way what it returns refuses no member, which is as if it did not look.
        let refuses = me.first_accept == 0 || self.without == Without::LookedWithoutAccept;
        let may_look = matches!(me.phase, Phase::Idle | Phase::Preparing | Phase::Accepting);
        if is_waited_for && refuses && may_look && me.op < LOOKS_MAX {
            let mut after = *state;
            clear(&mut after, actor);
            let me = &mut after.actors[actor];
            (me.phase, me.op) = (Phase::Reading, me.op + 1);
            (me.found, me.settling, me.aux) = (0, false, 0);
            // Those that are there came before it.
            me.members.iter_mut().for_each(|member| member.late = false);
            out.push((Step::Look { actor: small(actor) }, after));
        }
    }

    /// What follows from these answers; `None` where a read could not tell: a prepare may be sent at any
    /// time.
    fn looked(&self, state: &State, actor: usize, mask: u8) -> Option<State> {
        let lives = Lives::default();
        let slots = self.columns().filter(|at| mask & 1 << at != 0);
        let mut replies: Vec<_> = slots.map(|at| self.vote(at, &state.columns[at].slots[actor])).collect();
        if self.without == Without::LookedOnCertain {
            let rows = replies.iter_mut().filter_map(|reply| reply.result.as_mut().ok()?.row.as_mut());
            rows.for_each(|row| row.head.committed = true);
        }
        let reading =
            ReadProgress { quorums: self.quorums(), outstanding: 0, lives: &lives, patience_over: true };
        let found = match decide_read(&replies, reading) {
            ReadDecision::Value(found) => number(found.ballot),
            ReadDecision::Absent => 0,
            ReadDecision::AskOnceMore { volumes } if state.actors[actor].aux < 2 => {
                let mut after = *state;
                let is_kept =
                    |at: usize| mask & 1 << at != 0 && volumes.iter().all(|v| super::wire::at(*v) != at);
                for at in self.columns().filter(|at| !is_kept(*at)) {
                    after.columns[at].slots[actor] = Slot::default();
                }
                after.actors[actor].aux += 1;
                return Some(after);
            }
            _ => return None,
        };
        let mut after = *state;
        clear(&mut after, actor);
        (after.actors[actor].phase, after.actors[actor].aux) = (Phase::Idle, 0);
        self.refuse_looked(&mut after, actor, found);
        Some(after)
    }

    /// Each member that fails on what was found is told so.
    fn refuse_looked(&self, after: &mut State, actor: usize, found: u8) {
        let mut batch = self.batch(after, actor);
        if self.without == Without::LookedWithoutAccept {
            batch.tries = None;
        }
        let history = history_of(after, found);
        let is_gone = found > 0 && after.forgotten & 1 << found != 0;
        let value = found_value(after, if is_gone { 0 } else { found });
        let mut has_refused = false;
        for (at, write) in self.writes(actor).iter().enumerate() {
            let member = &mut after.actors[actor].members[at];
            let judged = RefusedMember {
                found_is_certain: true,
                came_before_asking: !member.late || self.without == Without::LookedCameBefore,
            };
            let repeated = self.has_made(*write, &conditional(value.calls), 0);
            let is_made = write.admits(value.kind) && !repeated;
            if member.place != Place::In || is_made || !batch.may_refuse_at_once(judged) {
                continue;
            }
            if !repeated && history & self.sendings(write.call()) != 0 {
                after.wrong = Some("a call was refused for its own success");
            }
            has_refused = true;
            member.place = Place::Told;
            after.refused |= 1 << write.change();
            if member.before & !history != 0 {
                after.wrong = Some("a writer was judged on a value from before it came");
            }
        }
        if has_refused {
            after.committed |= if found > 0 { 1 << found } else { 0 };
            observe(after, actor, history);
        }
    }
}
