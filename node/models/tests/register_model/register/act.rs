//! Writers, settlers and readers, and the acceptors' side of their questions.

use sherd_core::id::VolumeId;
use sherd_core::register::RowHead;
use sherd_core::register::acceptor::{AcceptVerdict, judge_accept, judge_prepare, judge_read};
use sherd_core::register::proposer::{
    AcceptOutcome, AfterConflict, PrepareOutcome, PrepareResult, Tries, UnreadableRow, after_accept,
    after_conflict, after_prepare,
};
use sherd_core::register::quorum::{Lives, Quorums};
use sherd_core::register::read::{ReadDecision, ReadProgress, decide_read};
use sherd_core::register::release::{CommittedValue, Releaser, may_release};
use sherd_core::register::sweep::introduced;

use super::check::history_of;
use super::wire;
use super::wire::{ASKED, asking, at as position, ballot, change, changes, count_of, head, key, number};
use super::{Kind, Phase, Program, Register, Slot, State, Step, Value};
use crate::rules::Without;

impl Register {
    pub(super) fn writer_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let me = &state.actors[actor];
        let may_propose = !me.stopped || self.without == Without::WriterStops;
        match me.phase {
            Phase::Idle | Phase::Preparing | Phase::Accepting if may_propose => {
                self.start_steps(state, actor, out);
            }
            Phase::Done if me.stopped && !me.acked && may_propose => self.start_steps(state, actor, out),
            _ => {}
        }
        self.proposer_steps(state, actor, out);
    }

    /// Begins a try at any unused ballot above the actor's last.
    pub(super) fn start_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let me = &state.actors[actor];
        if me.tries >= self.tries[actor] {
            return;
        }
        for number in me.ballot + 1..=self.ballots {
            if state.used & 1 << number != 0 {
                continue;
            }
            let mut after = *state;
            clear(&mut after, actor);
            after.used |= 1 << number;
            let me = &mut after.actors[actor];
            if me.tries == 0 && me.phase == Phase::Idle {
                me.before = state.acked;
            }
            me.tries += 1;
            (me.phase, me.ballot, me.found, me.settling) = (Phase::Preparing, number, 0, false);
            me.members.iter_mut().for_each(|member| member.late = false);
            out.push((Step::Start { actor: small(actor), ballot: number }, after));
        }
    }

    /// Promises, decisions and counts of whoever proposes.
    pub(super) fn proposer_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        match state.actors[actor].phase {
            Phase::Preparing => {
                self.promise_steps(state, actor, out);
                let smallest = self.needed_promises().accept();
                for mask in
                    self.answered(state, actor, 1).filter(|mask| mask.count_ones() as usize >= smallest)
                {
                    if let Some(after) = self.decide(state, actor, mask) {
                        let from = self.label_mask(state, mask);
                        out.push((Step::Decide { actor: small(actor), from }, after));
                    }
                }
            }
            Phase::Accepting => {
                let accept = self.quorums().accept();
                for mask in self.answered(state, actor, 1).filter(|mask| mask.count_ones() as usize == accept)
                {
                    let lives = Lives::default();
                    let slots = self.columns().filter(|at| mask & 1 << at != 0);
                    let replies: Vec<_> =
                        slots.map(|at| self.reply(at, &state.columns[at].slots[actor], ())).collect();
                    let decision = after_accept(&replies, asking(self.quorums(), &lives));
                    if decision.outcome == AcceptOutcome::Committed {
                        let mut after = *state;
                        self.finish(&mut after, actor, state.actors[actor].ballot);
                        let from = self.label_mask(state, mask);
                        out.push((Step::Count { actor: small(actor), from }, after));
                    }
                }
            }
            _ => {}
        }
    }

    fn needed_promises(&self) -> Quorums {
        // A set of 2P - 1 volumes has P as its accept quorum.
        let small = Quorums::of(2 * self.quorums().prepare() - 1);
        if self.without == Without::APromises { small } else { self.quorums() }
    }

    /// Every set of columns from which the actor has an answer of this stage.
    pub(super) fn answered(
        &self,
        state: &State,
        actor: usize,
        stage: u8,
    ) -> impl Iterator<Item = u8> + use<> {
        let all: u8 = self
            .columns()
            .filter(|at| state.columns[*at].slots[actor].stage == stage)
            .map(|at| 1 << at)
            .sum();
        (1..=all).filter(move |mask| mask & !all == 0)
    }

    fn promise_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let wanted = state.actors[actor].ballot;
        for at in self.columns() {
            let column = &state.columns[at];
            if column.slots[actor].stage != 0 {
                continue;
            }
            let row = head(column.row);
            let key = key(column, row.as_ref());
            let Ok(promise) = judge_prepare(&self.acceptor(column), &key, ASKED, ballot(wanted)) else {
                continue;
            };
            let mut after = *state;
            let changed = &mut after.columns[at];
            changed.promised = wanted;
            if let Some(bound) = promise.needs_bound.filter(|_| self.without != Without::BoundBeforePromise) {
                // Two seconds ahead of a clock that stands still at zero.
                changed.durable_bound = number(bound).max(wanted);
            }
            changed.slots[actor] = self.shown(changed);
            out.push((Step::Promise { actor: small(actor), at: state.labels[at] }, after));
        }
    }

    fn decide(&self, state: &State, actor: usize, mask: u8) -> Option<State> {
        let lives = Lives::default();
        let slots = self.columns().filter(|at| mask & 1 << at != 0);
        let mut replies: Vec<_> = slots.map(|at| self.vote(at, &state.columns[at].slots[actor])).collect();
        let asking = asking(self.needed_promises(), &lives);
        let mut decision = after_prepare(&replies, &[], asking);
        if let Some(unreadable) = unreadable(state, &decision.outcome) {
            if self.without == Without::UnreadablePromise {
                let votes =
                    replies.iter_mut().filter_map(|reply| Some((reply.volume, reply.result.as_mut().ok()?)));
                let left_out = |volume| unreadable.iter().any(|row| row.volume == volume);
                votes.filter(|(volume, _)| left_out(*volume)).for_each(|(_, vote)| vote.row = None);
            }
            decision = after_prepare(&replies, &unreadable, asking);
        }
        let PrepareOutcome::Prepared(prepared) = decision.outcome else { return None };
        // Where copies vote they do so without their floor, which a writer sees all the same.
        let floors =
            self.columns().filter(|at| mask & 1 << at != 0).map(|at| state.columns[at].slots[actor].floor);
        let hidden_floor = floors.max().filter(|_| self.without.copies_vote()).unwrap_or(0);
        let mut after = *state;
        clear(&mut after, actor);
        let me = &mut after.actors[actor];
        let committed = prepared.found.as_ref().is_some_and(|found| found.committed);
        me.found = prepared.found.as_ref().map_or(0, |found| number(found.ballot));
        me.floors = me.floors.max(number(prepared.floor)).max(hidden_floor);
        match self.change_of(actor, me.op) {
            None if matches!(self.actors[actor], Program::Batch(_)) => {
                self.decide_batch(&mut after, actor, committed);
            }
            None => self.propose_settled(&mut after, actor),
            Some(own) => self.decide_write(&mut after, actor, own, committed),
        }
        Some(after)
    }

    fn decide_write(&self, after: &mut State, actor: usize, own: u8, committed: bool) {
        let me = after.actors[actor];
        let found = found_value(after, me.found);
        if me.first_accept == 0 {
            return self.propose_if(after, actor, own, committed);
        }
        let [lowest, first, latest] = me.counts;
        let tries = Tries {
            change: change(own),
            first_accept: ballot(me.first_accept),
            lowest_count: match self.without {
                Without::RingOverflow => u64::MAX,
                Without::LowestNotLatest => count_of(latest),
                Without::LowestNotFirst => count_of(first),
                _ => count_of(lowest),
            },
            highest_floor: ballot(if self.without == Without::FloorsMakeUnknown { 0 } else { me.floors }),
        };
        let mut verdict = after_conflict(&changes(&found), committed, &tries);
        if let AfterConflict::Committed { number } | AfterConflict::Settle { number } = verdict {
            match self.without {
                Without::OwnIdIsSuccess => verdict = AfterConflict::TryAgain,
                Without::SettleOwn => verdict = AfterConflict::Committed { number },
                _ => {}
            }
        }
        match verdict {
            AfterConflict::Committed { .. } => self.finish_found(after, actor),
            AfterConflict::Settle { .. } => self.propose_settled(after, actor),
            AfterConflict::TryAgain => self.propose_if(after, actor, own, committed),
            AfterConflict::Unknown => {
                (after.actors[actor].phase, after.actors[actor].stopped) = (Phase::Done, true);
            }
        }
    }

    /// Completes with the found value, which is committed; nothing was proposed at the prepared ballot. What
    /// is released afterwards is judged by the value that is committed.
    fn finish_found(&self, after: &mut State, actor: usize) {
        let me = &mut after.actors[actor];
        let found = me.found;
        if self.release {
            me.ballot = found;
        }
        self.finish(after, actor, found);
    }

    /// Judges the condition by what was found; a failed one is answered once that is committed.
    fn propose_if(&self, after: &mut State, actor: usize, own: u8, committed: bool) {
        let found = after.actors[actor].found;
        let is_conditional = matches!(self.actors[actor], Program::PutIfAbsent(_));
        if !is_conditional || found_value(after, found).kind != Kind::Object {
            return self.propose_change(after, actor, own);
        }
        if committed || self.without == Without::SettleFailed {
            self.finish_found(after, actor);
        } else {
            self.propose_settled(after, actor);
        }
    }

    fn propose_change(&self, after: &mut State, actor: usize, own: u8) {
        let history = history_of(after, after.actors[actor].found);
        let me = &mut after.actors[actor];
        let found = Value { history, ..after.values[usize::from(me.found)] };
        let deletes = self.deletes(actor, me.op);
        let ids = if deletes && self.without == Without::TombstoneHistory { Value::default() } else { found };
        let mut changes = changes(&ids);
        if deletes && self.without == Without::TombstoneCalls {
            changes.conditional.clear();
        }
        let wire::Kept { count, ring, calls } = wire::after(&changes, own, me.tries, &[]);
        let data = if deletes { 0 } else { own + 1 };
        let named = (data > 0).then(|| self.data_id(own));
        let found_named: Vec<_> =
            (found.data > 0).then(|| self.data_id(found.data - 1)).into_iter().collect();
        after.values[usize::from(me.ballot)] = Value {
            kind: if deletes { Kind::Tombstone } else { Kind::Object },
            history: found.history | 1 << own,
            count,
            ring,
            calls,
            data,
            introduces: !introduced(named, &found_named, &[]).is_empty(),
            twice: found.history & 1 << own != 0,
            overruled: false,
        };
        if me.first_accept == 0 {
            (me.first_accept, me.counts) = (me.ballot, [count; 3]);
        }
        me.counts = [me.counts[0].min(count), me.counts[1], count];
        me.phase = Phase::Accepting;
    }

    /// Proposes what was found, unchanged; a settler or reader that found nothing is done.
    fn propose_settled(&self, after: &mut State, actor: usize) {
        let me = &mut after.actors[actor];
        if let Program::Sweep(_) = self.actors[actor] {
            return self.propose_swept(after, actor);
        }
        if me.found == 0 {
            return self.finish_absent(after, actor);
        }
        me.settling = true;
        me.phase = Phase::Accepting;
        let found = Value {
            history: history_of(after, after.actors[actor].found),
            ..found_value(after, after.actors[actor].found)
        };
        let ballot = usize::from(after.actors[actor].ballot);
        after.values[ballot] = Value { introduces: false, twice: false, overruled: false, ..found };
    }

    /// Accepts travel for ever: late, and twice.
    pub(super) fn accept_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for proposed in 1..=self.ballots {
            let value = state.values[usize::from(proposed)];
            if value.kind == Kind::None {
                continue;
            }
            let named: Vec<_> = value.introduces.then(|| self.data_id(value.data - 1)).into_iter().collect();
            let waiting = (0..self.actors.len()).find(|actor| {
                state.actors[*actor].phase == Phase::Accepting && state.actors[*actor].ballot == proposed
            });
            for at in self.columns() {
                let column = &state.columns[at];
                let counts_copies = self.without.copies_accept();
                let as_accepted =
                    |head: RowHead| RowHead { committed: head.committed || counts_copies, ..head };
                let row = head(column.row).map(as_accepted);
                let key = key(column, row.as_ref());
                let verdict = judge_accept(&self.acceptor(column), &key, ASKED, ballot(proposed), &named);
                // A volume that stored it while it was recovering says so again when it votes.
                let votes = self.acceptor(column).standing.votes();
                let unheard = waiting.filter(|actor| {
                    let slot = &column.slots[*actor];
                    slot.stage == 0 || (votes && !slot.votes)
                });
                match verdict {
                    Err(_) => continue,
                    Ok(AcceptVerdict::AlreadyStored) if unheard.is_none() => continue,
                    Ok(_) => {}
                }
                let mut after = *state;
                if verdict == Ok(AcceptVerdict::Store) {
                    if value.twice {
                        after.wrong = Some("a change was made twice");
                    }
                    if value.overruled {
                        after.wrong = Some("a change was made although its condition does not hold");
                    }
                    let changed = &mut after.columns[at];
                    (changed.row.ballot, changed.row.committed) = (proposed, false);
                    changed.rotten = false;
                    changed.promised = changed.promised.max(proposed);
                    if value.kind == Kind::Tombstone && self.actors.contains(&Program::Drop) {
                        changed.tombstones |= 1 << proposed;
                    }
                }
                if let Some(actor) = unheard {
                    // What matters of an accept's answer is who says it.
                    let changed = &mut after.columns[at];
                    changed.slots[actor] =
                        Slot { row: super::Row::default(), floor: 0, data_floor: 0, ..self.slot(changed, 1) };
                }
                out.push((Step::Accept { ballot: proposed, at: state.labels[at] }, after));
            }
        }
    }

    pub(super) fn reader_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        match state.actors[actor].phase {
            Phase::Idle | Phase::Reading => {}
            Phase::Preparing | Phase::Accepting => return self.writer_steps(state, actor, out),
            _ => return,
        }
        self.answer_steps(state, actor, out);
        let smallest = self.quorums().prepare();
        for mask in self.answered(state, actor, 1).filter(|mask| mask.count_ones() as usize >= smallest) {
            let first = out.len();
            self.judge(state, actor, mask, out);
            let from = self.label_mask(state, mask);
            for (step, _) in &mut out[first..] {
                *step = Step::Judge { actor: small(actor), from };
            }
        }
    }

    /// Acceptors answer a read.
    pub(super) fn answer_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        for at in self.columns() {
            let column = &state.columns[at];
            let row = head(column.row);
            let answers = judge_read(&self.acceptor(column), &key(column, row.as_ref()), ASKED).is_ok();
            if column.slots[actor].stage != 0 || !answers {
                continue;
            }
            let mut after = *state;
            let slot = Slot { round: state.actors[actor].aux, ..self.shown(column) };
            after.columns[at].slots[actor] = slot;
            let me = &mut after.actors[actor];
            if me.phase == Phase::Idle {
                (me.phase, me.before) = (Phase::Reading, state.acked);
            }
            out.push((Step::Answer { actor: small(actor), at: state.labels[at] }, after));
        }
    }

    fn judge(&self, state: &State, actor: usize, mask: u8, out: &mut Vec<(Step, State)>) {
        let lives = Lives::default();
        let slots = self.columns().filter(|at| mask & 1 << at != 0);
        let mut replies: Vec<_> = slots.map(|at| self.vote(at, &state.columns[at].slots[actor])).collect();
        for reply in &mut replies {
            if self.without == Without::AskOnceMore {
                reply.order.asked = u32::MAX;
            }
        }
        if self.without == Without::BallotsNotValues {
            let top = replies
                .iter()
                .filter_map(|reply| Some(reply.result.as_ref().ok()?.row.as_ref()?.head.ballot))
                .max();
            let value = |ballot| Value { introduces: false, ..state.values[usize::from(number(ballot))] };
            for row in replies.iter_mut().filter_map(|reply| reply.result.as_mut().ok()?.row.as_mut()) {
                row.head.ballot =
                    top.filter(|top| value(*top) == value(row.head.ballot)).unwrap_or(row.head.ballot);
            }
        }
        let reading =
            ReadProgress { quorums: self.quorums(), outstanding: 0, lives: &lives, patience_over: true };
        let mut after = *state;
        match decide_read(&replies, reading) {
            // The volumes that showed it cannot give it: a write finds what the others hold.
            ReadDecision::Value(found)
                if found.holders.iter().all(|holder| state.columns[position(*holder)].rotten) =>
            {
                return self.start_steps(state, actor, out);
            }
            ReadDecision::Value(found) => self.finish(&mut after, actor, number(found.ballot)),
            ReadDecision::Absent => self.finish_absent(&mut after, actor),
            // A reader that had to ask twice already gives up.
            ReadDecision::AskOnceMore { .. } if state.actors[actor].aux == 2 => return,
            ReadDecision::AskOnceMore { volumes } => {
                for at in self.columns() {
                    let again = mask & 1 << at == 0 || volumes.iter().any(|volume| position(*volume) == at);
                    if again {
                        after.columns[at].slots[actor] = Slot::default();
                    }
                }
                after.actors[actor].aux += 1;
            }
            ReadDecision::Finish => {
                // The start of a proposal; its own steps go on from there.
                return self.start_steps(state, actor, out);
            }
            _ => return,
        }
        out.push((Step::Judge { actor: small(actor), from: 0 }, after));
    }

    /// What a replacer or a writer may release.
    pub(super) fn release_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for actor in 0..self.actors.len() {
            let me = &state.actors[actor];
            if let Some(own) = self.change_of(actor, 0).filter(|_| !self.deletes(actor, 0)) {
                self.writer_release(state, actor, own, out);
                if me.phase == Phase::Accepting && !me.stopped {
                    let mut after = *state;
                    clear(&mut after, actor);
                    (after.actors[actor].phase, after.actors[actor].stopped) = (Phase::Done, true);
                    out.push((Step::GiveUp { actor: small(actor) }, after));
                }
            }
            if !(me.phase == Phase::Done && me.acked) {
                continue;
            }
            let value = &state.values[usize::from(me.ballot)];
            for data in (1..=8).filter(|data| state.released & 1 << (data - 1) == 0) {
                let proposed = state.values.iter().any(|value| value.data == data);
                let found_names =
                    found_value(state, me.found).data == data || self.without == Without::MadeFromNaming;
                let committed = CommittedValue { ballot: ballot(me.ballot), names: value.data == data };
                if proposed && may_release(Releaser::Replacer { found_names }, Some(committed)) {
                    out.push(released(state, actor, data - 1));
                }
            }
        }
    }

    fn writer_release(&self, state: &State, actor: usize, own: u8, out: &mut Vec<(Step, State)>) {
        let me = &state.actors[actor];
        if me.acked || state.released & 1 << own != 0 || me.phase != Phase::Done {
            return;
        }
        let committed = (1..=self.ballots).filter(|number| state.committed & 1 << number != 0);
        let may = |number: u8| {
            let names = state.values[usize::from(number)].data == own + 1;
            let higher = self.without == Without::WriterHigherBallot;
            let seen = CommittedValue { ballot: ballot(if higher { u8::MAX } else { number }), names };
            let highest_accept = (me.first_accept > 0).then(|| ballot(me.ballot));
            may_release(Releaser::Writer { highest_accept, done: me.stopped }, Some(seen))
        };
        if committed.into_iter().any(may) {
            out.push(released(state, actor, own));
        }
    }

    /// The change of an actor's operation; `None` for who settles what it finds.
    pub(super) fn change_of(&self, actor: usize, op: u8) -> Option<u8> {
        match self.actors[actor] {
            Program::Put(changes) | Program::PutThenDelete(changes) => changes.get(usize::from(op)).copied(),
            Program::Delete(change) | Program::PutIfAbsent(change) => (op == 0).then_some(change),
            _ => None,
        }
    }

    fn deletes(&self, actor: usize, op: u8) -> bool {
        match self.actors[actor] {
            Program::PutThenDelete(changes) => usize::from(op) + 1 == changes.len(),
            Program::Delete(_) => true,
            _ => false,
        }
    }
}

/// The rows that were found and that none of those that showed them can give.
fn unreadable(state: &State, outcome: &PrepareOutcome) -> Option<Vec<UnreadableRow>> {
    let PrepareOutcome::Prepared(PrepareResult { found: Some(found), .. }) = outcome else { return None };
    let cannot = |volume: &VolumeId| state.columns[position(*volume)].rotten;
    let rows = found.holders.iter().map(|volume| UnreadableRow { volume: *volume, ballot: found.ballot });
    found.holders.iter().all(cannot).then(|| rows.collect())
}

/// Forgets what an actor was answered.
pub(super) fn clear(state: &mut State, actor: usize) {
    state.columns.iter_mut().for_each(|column| column.slots[actor] = Slot::default());
}

pub(super) fn found_value(state: &State, found: u8) -> Value {
    if found == 0 { Value::default() } else { state.values[usize::from(found)] }
}

pub(super) fn small(actor: usize) -> u8 {
    u8::try_from(actor).expect("few actors")
}

fn released(state: &State, actor: usize, data: u8) -> (Step, State) {
    let mut after = *state;
    after.released |= 1 << data;
    (Step::Release { actor: small(actor), data }, after)
}
