//! One batch from its first prepare to its end: its members, their joint change, the answer to each.
//!
//! `sherd_core::register::batch` makes the decisions. A batch is closed when its first accept is sent; no
//! member is answered, and no data released, before the commit. A member that disconnected or timed out is
//! removed: with 503 while nothing was sent, with 500 afterwards.

use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, DataId, RegisterKey};
use sherd_core::record::{DataRef, State, Value};
use sherd_core::register::batch::{
    BatchDecision, GiveBack, LeaveReply, RefusedMember, decide_in_order, give_back,
};
use sherd_core::register::proposer::AfterConflict;
use sherd_core::register::release::{CommittedValue, Releaser, may_release};
use sherd_core::register::{Accept, ValueOrigin};

use super::Registers;
use super::change::{
    AcceptRoundOutcome, Draft, DraftInline, DraftValue, PrepareRoundOutcome, PreparedKey, RegisterChange,
};
use super::failure::Failure;
use super::turn::{KeyTurn, OrderedPrepare};
use super::writer::{Answer, DecisionBasis, Inline, Member, MemberData, Proposal};
use crate::observe::trace::{self, RequestTrace};

/// A batch at work.
pub(super) struct BatchRun<'a> {
    registers: &'a Registers,
    turn: &'a KeyTurn,
    change: RegisterChange<'a>,
    members: Vec<Member>,
    /// Data of members that left after the first accept: what is committed decides about it.
    left: Vec<MemberData>,
    /// For each of its own tries, by number from 1: the data that it takes out of the register.
    tried: Vec<ReplacedValue>,
}

/// Data that a try takes out of the register.
#[derive(Debug, Default)]
struct ReplacedValue {
    /// Data that the found value names, or that members made and others overwrote.
    data: Vec<DataRef>,
    /// The manifest pages among it.
    pages: Vec<DataRef>,
    /// Data that another register names from now on.
    handed_over: Vec<DataId>,
    /// Repairs that are due on the data that the new value names.
    heals: Vec<HealEntry>,
}

/// A committed value, as far as its data is concerned.
struct CommittedData {
    ballot: Ballot,
    named: Vec<DataRef>,
}

enum BatchStep {
    Ended,
    /// Prepare above this ballot.
    Again(Ballot),
}

impl<'a> BatchRun<'a> {
    pub(super) fn new(registers: &'a Registers, turn: &'a KeyTurn) -> Self {
        let change = RegisterChange::new(
            registers,
            turn.key.hash,
            Instant::now() + registers.inner.timeouts.operation,
        );
        Self { registers, turn, change, members: Vec::new(), left: Vec::new(), tried: Vec::new() }
    }

    /// Runs it to its end. `ahead` is a prepare that was sent for the `first`.
    pub(super) async fn run(mut self, first: Option<Member>, ahead: Option<OrderedPrepare>) {
        self.members.extend(first);
        if self.members.is_empty() {
            self.admit();
        }
        self.change.deadline = self.first_deadline();
        // Peers get the id of one of the requests that share the batch.
        let request = self.members.iter().find_map(Member::request_trace).map_or(0, RequestTrace::id);
        trace::with_id(request, self.tries(ahead)).await;
    }

    /// Tries until every member has its answer.
    async fn tries(mut self, ahead: Option<OrderedPrepare>) {
        let (mut prepare, mut above) = (ahead, Ballot::ZERO);
        loop {
            // With an accept under way each change of another gateway brings it nearer to an unknown outcome:
            // those that have none wait for it, and it waits for none.
            let may_wait = self.change.batch.tries.is_none();
            if prepare.is_none() && may_wait && self.registers.inner.contention.is_noted(self.turn.key.hash) {
                // In a box: the future of every write is kept small.
                Box::pin(self.look()).await;
            }
            if self.members.is_empty() {
                return;
            }
            let prepare = prepare.take().unwrap_or_else(|| self.turn.prepare_above(above));
            match self.one_try(prepare).await {
                Ok(BatchStep::Ended) => return,
                Ok(BatchStep::Again(refused_at)) => above = refused_at,
                Err(failure) => {
                    // The deadline may be that of a few members only.
                    self.let_go();
                    if self.members.is_empty() || Instant::now() < self.change.deadline {
                        return self.fail(failure);
                    }
                    self.change.deadline = self.first_deadline();
                    above = Ballot::ZERO;
                }
            }
        }
    }

    /// Reads the key, while other gateways write it, too. That waits for a write under way, whose accept a
    /// prepare would refuse. Members that came before and fail on what it shows get that answer: nothing of
    /// them was sent, and what they were judged on is committed.
    async fn look(&mut self) {
        self.admit();
        self.let_go();
        if self.members.is_empty() {
            return;
        }
        let look = tokio::time::timeout_at(self.first_deadline(), self.registers.look(&self.turn.route));
        let Ok(Some(found)) = look.await else { return };
        let judged = RefusedMember { found_is_certain: true, came_before_asking: true };
        if self.change.batch.may_refuse_at_once(judged) {
            let found = found.as_ref().map_or_else(DecisionBasis::default, |found| found_in(&found.value));
            // Data that was proposed is given back after a commit.
            let is_refused =
                |member: &mut Member| member.data.named().is_none() && member.decide(found, false).is_none();
            for member in self.members.extract_if(.., is_refused) {
                member.answer(Answer::AsDecided);
            }
        }
    }

    /// Takes in waiting writers, while it is open.
    fn admit(&mut self) {
        if !self.change.batch.is_closed {
            self.turn.take_waiting(&mut self.members);
            self.change.deadline = self.first_deadline();
        }
    }

    /// Adds the time of the rounds since the last call to that of each member's request.
    fn count_rounds(&mut self) {
        let times = std::mem::take(&mut self.change.times);
        self.members.iter().filter_map(Member::request_trace).for_each(|request| times.count_for(request));
    }

    fn first_deadline(&self) -> Instant {
        let deadlines = self.members.iter().map(|member| member.deadline);
        deadlines.min().unwrap_or(self.change.deadline)
    }

    async fn one_try(&mut self, prepare: OrderedPrepare) -> Result<BatchStep, Failure> {
        let OrderedPrepare { round, order } = prepare;
        let prepared = self.change.prepared(round).await;
        self.count_rounds();
        let mut ready = match prepared? {
            PrepareRoundOutcome::Prepared(ready) => ready,
            PrepareRoundOutcome::Again { above } => return Ok(BatchStep::Again(above)),
        };
        self.admit();
        self.let_go();
        if self.members.is_empty() {
            return Ok(BatchStep::Ended);
        }
        match self.change.verdict(ready.found.as_ref()) {
            None => {}
            Some(AfterConflict::TryAgain) => {
                if let Some(found) = &ready.found {
                    self.change.batch.forget_tries(found.ballot, found.committed);
                }
            }
            Some(AfterConflict::Unknown) => return Err(Failure::OutcomeUnknown),
            Some(AfterConflict::Committed { number }) => {
                let found = ready.found.as_ref().expect("a change in a value's history has a value");
                let committed = CommittedData { ballot: found.ballot, named: found.value.data_refs() };
                return Ok(self.end(Answer::AsTried { number }, &committed));
            }
            Some(AfterConflict::Settle { number }) => {
                return self.settle(&ready, Answer::AsTried { number }).await;
            }
        }
        let mut decided = self.decide(&ready, false);
        let mut value = self.change.value_of(&ready, &mut decided.state);
        if matches!(value, Err(Failure::Full | Failure::OverLimit(_))) {
            decided = self.decide(&ready, true);
            value = self.change.value_of(&ready, &mut decided.state);
        }
        match value.map_err(|failure| self.change.failed(failure))? {
            Some(value) => self.propose(&ready, decided.state, value).await,
            None => self.refuse(&mut ready, order).await,
        }
    }

    /// Decides the members in order. Where the limits of a value or the room of the volumes would be
    /// exceeded, `one_by_one` finds whose proposals do that.
    fn decide(&mut self, ready: &PreparedKey, one_by_one: bool) -> BatchDecision<Draft> {
        let change = &self.change;
        let may_take_effect = change.batch.tries.is_some();
        let found = ready.found.as_ref().map_or_else(DecisionBasis::default, |found| found_in(&found.value));
        // The prepare was answered by a volume that has recorded every life that began before its ballot
        // could be accepted.
        let lives = self.registers.known_lives();
        let since_ms = ready.round.ballot.time.as_ms();
        decide_in_order(&mut self.members, Draft::default(), |member, draft| {
            let before = draft.state.as_ref().or(found.state);
            let basis = DecisionBasis { state: before, drafted: &draft.conditional, ..found };
            let proposal = member.decide(basis, may_take_effect)?;
            let outlived = member.data.outlived(&lives).map(|data| heal_of(self.turn.key(), data, since_ms));
            let mut next = draft.after(before, proposal, member);
            next.heals.splice(..0, outlived);
            if one_by_one && let Err(failure) = change.value_of(ready, &mut next) {
                member.fail(failure);
                return None;
            }
            Some(next)
        })
    }

    /// No member changes anything: the value that they were judged on must be committed, and no accept under
    /// way.
    async fn refuse(&mut self, ready: &mut PreparedKey, order: u64) -> Result<BatchStep, Failure> {
        let batch = self.change.batch;
        let found_is_certain = batch.tries.is_none() && self.change.is_certain(ready).await;
        let at_once = |member: &Member| {
            let refused = RefusedMember { found_is_certain, came_before_asking: member.came < order };
            // Data that was proposed is given back after a commit.
            let is_alone = member.data.named().is_none();
            is_alone && (batch.may_refuse_at_once(refused) || (member.has_failed() && batch.tries.is_none()))
        };
        for member in self.members.extract_if(.., |member| at_once(member)) {
            member.answer(Answer::AsDecided);
        }
        let are_alone = self.members.iter().all(|member| member.data.named().is_none());
        if !self.members.is_empty() && found_is_certain && are_alone {
            // Members that came after the prepare: a read is as good for them as a write. It may need the
            // room that the found value takes.
            ready.found = None;
            Box::pin(self.look()).await;
            if !self.members.is_empty() {
                return Ok(BatchStep::Again(ready.round.ballot));
            }
        }
        if self.members.is_empty() {
            return Ok(BatchStep::Ended);
        }
        self.settle(ready, Answer::AsDecided).await
    }

    /// Commits what was found, unchanged, and then answers.
    async fn settle(&mut self, ready: &PreparedKey, answer: Answer) -> Result<BatchStep, Failure> {
        let accepted = self.change.repropose(ready).await;
        self.count_rounds();
        match accepted {
            AcceptRoundOutcome::Committed => {
                let named = ready.found.as_ref().map(|found| found.value.data_refs()).unwrap_or_default();
                Ok(self.end(answer, &CommittedData { ballot: ready.round.ballot, named }))
            }
            other => Ok(BatchStep::Again(self.change.above(other).await?)),
        }
    }

    /// Proposes what the members made together.
    async fn propose(
        &mut self,
        ready: &PreparedKey,
        draft: Draft,
        value: DraftValue,
    ) -> Result<BatchStep, Failure> {
        let ballot = ready.round.ballot;
        let Some(inline) = self.change.inline_of(ready, &draft.inline).await else {
            return Ok(BatchStep::Again(
                self.change.above(AcceptRoundOutcome::Conflict { above: ballot }).await?,
            ));
        };
        if self.change.batch.tries.is_none() && self.members.iter().any(Member::is_given_up) {
            // The process stood still since they were judged.
            return Ok(BatchStep::Again(ballot));
        }
        let DraftValue { mut encoded, named, introduces, made_from, count } = value;
        encoded.inline = inline;
        self.members.iter_mut().for_each(|member| member.note_try(&named, ballot));
        let replaced = draft.replaced(&named);
        let heal = replaced.heals.first().cloned();
        self.tried.push(replaced);
        let committed = CommittedData { ballot, named };
        let positions = ready.round.positions();
        let durable = self.members.iter().filter_map(|member| member.data.durable());
        let durable = durable.filter(|durable| introduces.contains(&durable.data)).collect();
        let origin = ValueOrigin { durable, made_from };
        let accept = Accept { ballot, value: encoded, introduces, finishes: false, positions, origin };
        let accepted = self.change.propose(ready, &accept, count, heal.as_ref()).await;
        self.count_rounds();
        if self.change.batch.tries.is_none() && self.change.batch.tries_count == 1 {
            // No volume took it, and none another.
            self.members.iter_mut().for_each(|member| member.data.set_unnamed());
        }
        match accepted {
            AcceptRoundOutcome::Committed => {
                let number = self.change.batch.tries_count;
                Ok(self.end(Answer::AsTried { number }, &committed))
            }
            other => Ok(BatchStep::Again(self.change.above(other).await?)),
        }
    }

    /// Gives back what the committed value does not name, and answers all members.
    fn end(&mut self, answer: Answer, committed: &CommittedData) -> BatchStep {
        let mut gone: Vec<DataRef> = Vec::new();
        let mut pages = Vec::new();
        if let Answer::AsTried { number } = answer
            && let Some(replaced) = usize::from(number).checked_sub(1).and_then(|at| self.tried.get_mut(at))
        {
            let ReplacedValue { data, pages: listed, handed_over, heals } = std::mem::take(replaced);
            let replacer = Releaser::Replacer { found_names: true };
            gone.extend(data.into_iter().filter(|data| {
                !handed_over.contains(&data.id) && may_release(replacer, Some(committed.without(*data)))
            }));
            pages = listed;
            for heal in heals {
                self.registers.inner.damage.heal(heal);
            }
        }
        self.report_outlived(committed);
        let mut left = std::mem::take(&mut self.left);
        for member in self.members.iter_mut().map(|member| &mut member.data).chain(&mut left) {
            if let Some(data) = member.unnamed() {
                if pages.contains(&data) {
                    // The data that it lists is released with it, so it must be readable until then.
                    member.leave();
                } else {
                    gone.retain(|gone| gone.id != data.id);
                }
            }
            let Some((data, ballot)) = member.named() else { continue };
            let back = give_back(Some(ballot), Some(committed.without(data)));
            if back == GiveBack::AfterGrace && !gone.contains(&data) {
                gone.push(data);
            }
        }
        if !gone.is_empty() {
            pages.retain(|page| gone.contains(page));
            self.registers.inner.damage.superseded(self.turn.key(), gone, pages);
        }
        for member in self.members.drain(..) {
            member.answer(answer);
        }
        BatchStep::Ended
    }

    /// Reports committed data of which a volume lost its shard while the accept was under way.
    fn report_outlived(&self, committed: &CommittedData) {
        let lives = self.registers.known_lives();
        let data = self.members.iter().map(|member| &member.data).chain(&self.left);
        for data in data.filter_map(|data| data.outlived(&lives)) {
            if committed.named.contains(&data) {
                let heal = heal_of(self.turn.key(), data, committed.ballot.time.as_ms());
                self.registers.inner.damage.heal(heal);
            }
        }
    }

    /// Removes members that disconnected or timed out: later proposals leave them out.
    fn let_go(&mut self) {
        let now = Instant::now();
        let failure = match self.change.batch.leaving() {
            LeaveReply::NothingChanged => Failure::Unavailable,
            LeaveReply::Unknown => Failure::OutcomeUnknown,
        };
        for member in self.members.extract_if(.., |member| member.has_left() || member.deadline <= now) {
            let mut member = member;
            if failure == Failure::OutcomeUnknown || member.data.named().is_some() {
                self.left.push(std::mem::take(&mut member.data));
            }
            member.answer(Answer::Failed(failure));
        }
    }

    /// Ends without a committed value: data that an accept named stays where it is.
    fn fail(&mut self, failure: Failure) {
        for member in self.members.drain(..) {
            member.answer(Answer::Failed(failure));
        }
    }
}

impl CommittedData {
    /// The value, as far as one data id is concerned.
    fn without(&self, data: DataRef) -> CommittedValue {
        CommittedValue { ballot: self.ballot, names: self.named.iter().any(|named| named.id == data.id) }
    }
}

impl Draft {
    /// The state that a member makes of it.
    fn after(&self, before: Option<&State>, proposal: Proposal, member: &Member) -> Self {
        let Proposal { state, inline, carried, handed_over, heal, conditional } = proposal;
        let inline = match inline {
            Inline::Nothing => DraftInline::Nothing,
            Inline::New => DraftInline::New(member.inline.clone()),
            Inline::Kept => self.inline.clone(),
        };
        let (data, pages) = data_and_pages(before);
        Self {
            state: Some(state),
            inline,
            carried: self.carried.iter().copied().chain(carried).collect(),
            handed_over: self.handed_over.iter().copied().chain(handed_over).collect(),
            heals: heal.into_iter().chain(self.heals.iter().cloned()).collect(),
            passed: self.passed.iter().copied().chain(data).collect(),
            passed_pages: self.passed_pages.iter().copied().chain(pages).collect(),
            conditional: self.conditional.iter().cloned().chain(conditional).collect(),
        }
    }

    /// Data that it takes out of the register when the new value names `named`.
    fn replaced(self, named: &[DataRef]) -> ReplacedValue {
        let Self {
            state: _,
            inline: _,
            carried: _,
            handed_over,
            heals,
            passed,
            passed_pages,
            conditional: _,
        } = self;
        let is_gone = |data: &DataRef| !named.contains(data);
        let mut data: Vec<DataRef> = passed.into_iter().filter(is_gone).collect();
        data.sort_unstable_by_key(|data| data.id);
        data.dedup();
        let is_named = |heal: &HealEntry| {
            heal.data.is_some_and(|damaged| named.iter().any(|data| data.id == damaged.id()))
        };
        let heals = heals.into_iter().filter(is_named).collect();
        ReplacedValue { data, pages: passed_pages.into_iter().filter(is_gone).collect(), handed_over, heals }
    }
}

fn heal_of(key: &RegisterKey, data: DataRef, since_ms: u64) -> HealEntry {
    HealEntry { key: key.clone(), data: Some(data.into()), since_ms }
}

/// Basis for the first member's decision.
fn found_in(value: &Value) -> DecisionBasis<'_> {
    DecisionBasis { state: Some(&value.state), kept: &value.changes.conditional, drafted: &[] }
}

fn data_and_pages(state: Option<&State>) -> (Vec<DataRef>, Vec<DataRef>) {
    state.map(|state| (state.data_refs(), state.manifest_pages())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
