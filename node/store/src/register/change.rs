//! The write rounds: prepare, decide, accept, commit, and the response to a faster competitor.
//!
//! ```text
//! begin --prepare--> found --decide--> proposal --accept--> committed --commit hints-->
//!   ^                  |                              |
//!   +--- a higher ballot, after a pause <-- conflict -+
//! ```

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, ChangeId, DataId, RegisterKey, VolumeId};
use sherd_core::message;
use sherd_core::message::ValueLimit;
use sherd_core::record::{Changes, ConditionalChange, DataRef, State, Value};
use sherd_core::register::batch::Batch;
use sherd_core::register::proposer::{
    AcceptOutcome, AfterConflict, HighestRow, PrepareOutcome, PrepareProgress, UnreadableRow, after_accept,
    after_prepare,
};
use sherd_core::register::sweep::{SettleWith, introduced, settle_with};
use sherd_core::register::{Accept, EncodedValue, Positions, Prepare, ValueOrigin, Vote};

use super::failure::Failure;
use super::limits::PAUSES_WITH_ACCEPT_MAX;
use super::round::{Round, RoundTimes};
use super::{QuorumRow, Registers, RegistersShared, RowAnswer};
use crate::cluster::KeyRoute;
use crate::observe::trace::{self, Phase};

/// New state of a register that the members of a batch make together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// The new state; `None` while no member has changed anything.
    pub(super) state: Option<State>,
    pub(super) inline: DraftInline,
    /// As in [`super::Proposal`], of all members.
    pub(super) carried: Vec<DataId>,
    pub(super) handed_over: Vec<DataId>,
    /// Repairs that are due, the latest member's first.
    pub(super) heals: Vec<HealEntry>,
    /// Data of the states that it passed through, the found one first, and the manifest pages among it.
    pub(super) passed: Vec<DataRef>,
    pub(super) passed_pages: Vec<DataRef>,
    /// The changes of members that are remembered for when their clients send them again, in order.
    pub(super) conditional: Vec<ConditionalChange>,
}

/// Where a draft's inline bytes come from.
#[derive(Debug, Clone, Default)]
pub(super) enum DraftInline {
    #[default]
    Found,
    /// The state names none.
    Nothing,
    New(Bytes),
}

/// A draft as it can be proposed, without its inline bytes.
#[derive(Debug)]
pub(super) struct DraftValue {
    pub(super) encoded: EncodedValue,
    pub(super) named: Vec<DataRef>,
    /// Data of the proposed value that the found value does not name.
    pub(super) introduces: Vec<DataId>,
    /// The ballot of the found value, where the value has no data but its own and that one's.
    pub(super) made_from: Option<Ballot>,
    /// The count of changes that it proposes.
    pub(super) count: u64,
}

#[derive(Debug)]
pub(super) struct PrepareRound {
    route: KeyRoute,
    pub(super) ballot: Ballot,
    round: Round<Vote>,
}

impl PrepareRound {
    /// How far the logs of the volumes that answered are.
    pub(super) fn positions(&self) -> Positions {
        self.round.positions()
    }
}

/// The rounds of one batch, or of one identity write, over all tries.
pub(super) struct RegisterChange<'a> {
    registers: &'a Registers,
    pub(super) batch: Batch,
    /// Until when it is tried again.
    pub(super) deadline: Instant,
    /// The hash of its key in the table of writers.
    hash: u64,
    /// How often it paused for the next try.
    pauses: u32,
    /// Until when it waits for a seal to be taken back, since it first saw that.
    unsealed_by: Option<Instant>,
    highest_floor: Ballot,
    /// Rows that a prepare found and no volume gave, the last one of each volume: the next prepare is decided
    /// without.
    unreadable: Vec<UnreadableRow>,
    /// Whether its ballots began at the clock again: once is enough.
    began_anew: bool,
    /// Of its rounds since they were last counted for a request.
    pub(super) times: RoundTimes,
}

/// An accept that was sent, until its outcome is known. If it is given up before, its row is queued for a
/// look: volumes may hold it, and a proposer that commits it later does not know which volumes lack it.
struct OpenAccept<'a> {
    registers: &'a Registers,
    key: &'a RegisterKey,
    is_known: bool,
}

impl Drop for OpenAccept<'_> {
    fn drop(&mut self) {
        if !self.is_known {
            self.registers.inner.damage.row(self.key);
        }
    }
}

/// A prepared ballot and what it found.
pub(super) struct PreparedKey {
    pub(super) round: PrepareRound,
    pub(super) found: Option<QuorumRow>,
    /// See [`Self::lacks_room`].
    lacks_room: OnceLock<bool>,
}

impl PreparedKey {
    /// Whether full volumes leave too few that would accept a write which needs room. Read once for a try:
    /// its members and their value are judged by the same answer, although space comes and goes.
    fn lacks_room(&self) -> bool {
        *self.lacks_room.get_or_init(|| self.round.round.set.lacks_room())
    }

    /// The ballot of the found value, [`Ballot::ZERO`] where nothing was found.
    fn found_ballot(&self) -> Ballot {
        self.found.as_ref().map_or(Ballot::ZERO, |found| found.ballot)
    }

    /// The proposal of a draft with this value, unless it is too large or lacks room on the volumes.
    fn judge_value(&self, draft: &Draft, value: &Value) -> Result<DraftValue, Failure> {
        let before = self.found.as_ref().map(|found| &found.value);
        let named = value.data_refs();
        let ids = |data: &[DataRef]| data.iter().map(|data| data.id).collect::<Vec<_>>();
        let known = before.map(Value::data_refs).unwrap_or_default();
        let introduces = introduced(ids(&named), &ids(&known), &draft.carried);
        let encoded = EncodedValue::of(value, Bytes::new()).map_err(Failure::OverLimit)?;
        let brings_bytes = matches!(&draft.inline, DraftInline::New(bytes) if !bytes.is_empty());
        let replaced_bytes = self.found.as_ref().map(|found| found.head.len());
        let grows = brings_bytes || replaced_bytes.is_none_or(|replaced| encoded.head.len() >= replaced);
        // A value that names new data was admitted with its data.
        let needs_room = introduces.is_empty() && grows && !value.makes_way(before);
        if needs_room && self.lacks_room() {
            return Err(Failure::Full);
        }
        let made_from = draft.carried.is_empty().then(|| self.found_ballot());
        Ok(DraftValue { encoded, named, introduces, made_from, count: value.changes.count })
    }
}

pub(super) enum PrepareRoundOutcome {
    Prepared(Box<PreparedKey>),
    /// Prepare above this ballot.
    Again {
        above: Ballot,
    },
}

pub(super) enum AcceptRoundOutcome {
    Committed,
    Conflict {
        above: Ballot,
    },
    /// No volume holds the value, and none ever will: no reader can have seen it.
    Refused(Failure),
    /// Some volume may hold the value: a proposer that finds it there may finish it.
    Undecided,
}

impl Registers {
    pub(super) fn prepare_above(&self, route: &KeyRoute, above: Ballot) -> PrepareRound {
        self.prepare(route, self.inner.ballots.above(above))
    }

    pub(super) fn prepare(&self, route: &KeyRoute, ballot: Ballot) -> PrepareRound {
        let KeyRoute { set, target } = route;
        // The value is asked of one that answers soon: without it there is another question.
        let start = set.prompt_first(usize::from(target.slot.0) % set.routes.len())[0];
        let mut round = Round::new(Arc::clone(set), Instant::now() + self.inner.timeouts.round);
        for place in 0..round.set.routes.len() {
            let to = &set.routes[place];
            let values = if place == start { ValueLimit::USUAL } else { ValueLimit::NOTHING };
            let pending = to.peer.prepare(to.volume, target, Prepare { ballot }, values);
            round.ask(place, pending);
        }
        self.inner.metrics.register.prepare_rounds.inc();
        PrepareRound { route: route.clone(), ballot, round }
    }

    /// Finishes the write that may be under way: what a prepare at a fresh ballot finds is proposed
    /// unchanged, and so is brought to every volume of the set that can be reached. Gives it.
    pub(crate) async fn finish(&self, key: &RegisterKey) -> Result<Option<QuorumRow>, Failure> {
        self.finish_above(key, Ballot::ZERO).await
    }

    /// As [`Self::finish`], at a ballot above one at or below which a volume refuses all: it would miss what
    /// is finished.
    pub(crate) async fn finish_above(
        &self,
        key: &RegisterKey,
        above: Ballot,
    ) -> Result<Option<QuorumRow>, Failure> {
        self.finish_route_above(&self.inner.cluster.route(key.clone()), above).await
    }

    /// As [`Self::finish`], where the key's route is at hand.
    pub(crate) async fn finish_at(&self, route: &KeyRoute) -> Result<Option<QuorumRow>, Failure> {
        self.finish_route_above(route, Ballot::ZERO).await
    }

    async fn finish_route_above(
        &self,
        route: &KeyRoute,
        mut above: Ballot,
    ) -> Result<Option<QuorumRow>, Failure> {
        self.inner.metrics.register.repairs.inc();
        let hash = self.inner.writers.hashed(route.key()).hash;
        let mut change = RegisterChange::new(self, hash, Instant::now() + self.inner.timeouts.operation);
        loop {
            let round = self.prepare_above(route, above);
            let ready = match change.prepared(round).await? {
                PrepareRoundOutcome::Prepared(ready) => ready,
                PrepareRoundOutcome::Again { above: refused_at } => {
                    above = refused_at;
                    continue;
                }
            };
            let accepted = change.repropose(&ready).await;
            if let Some(request) = trace::current() {
                std::mem::take(&mut change.times).count_for(&request);
            }
            match accepted {
                AcceptRoundOutcome::Committed => {
                    return Ok(ready.found.map(|mut found| {
                        found.committed = true;
                        found
                    }));
                }
                other => above = change.above(other).await?,
            }
        }
    }
}

impl<'a> RegisterChange<'a> {
    /// A change of a key, by the hash of that in the table of writers.
    pub(super) fn new(registers: &'a Registers, hash: u64, deadline: Instant) -> Self {
        let RegistersShared { clock, proposer, .. } = &*registers.inner;
        Self {
            registers,
            batch: Batch::new(ChangeId { made: clock.tick(), proposer: *proposer }),
            deadline,
            hash,
            pauses: 0,
            unsealed_by: None,
            highest_floor: Ballot::ZERO,
            unreadable: Vec::new(),
            began_anew: false,
            times: RoundTimes::default(),
        }
    }
}

impl RegisterChange<'_> {
    /// Waits for A promises, and reads what they found. Where it takes another round it waits for the time of
    /// that.
    pub(super) async fn prepared(&mut self, round: PrepareRound) -> Result<PrepareRoundOutcome, Failure> {
        let mut begun = round;
        let waits = |outcome: &PrepareOutcome| matches!(outcome, PrepareOutcome::Wait);
        let decide =
            |replies: &[_], progress: PrepareProgress<'_>| after_prepare(replies, &self.unreadable, progress);
        let asked = Instant::now();
        let decision = begun.round.decide(self.registers, decide, waits).await;
        self.times.prepare += asked.elapsed();
        let slowest = begun.round.count(Phase::Prepare, &self.registers.inner.metrics);
        // The prepare may have been sent long before it is waited for.
        let round_took = slowest.as_ref().map(|call| call.took);
        self.times.called(slowest);
        let is_sealed = matches!(decision.outcome, PrepareOutcome::Sealed);
        let above = match decision.outcome {
            PrepareOutcome::Prepared(prepared) => {
                if let Some(took) = round_took {
                    self.registers.inner.contention.prepared(took);
                }
                self.highest_floor = self.highest_floor.max(prepared.floor);
                match self.found(&begun, prepared.found).await? {
                    Some(found) => {
                        self.note_others(found.as_ref());
                        let ready = PreparedKey { round: begun, found, lacks_room: OnceLock::new() };
                        return Ok(PrepareRoundOutcome::Prepared(Box::new(ready)));
                    }
                    None => begun.ballot,
                }
            }
            PrepareOutcome::Retry { above } => {
                self.registers.inner.contention.note(self.hash);
                above
            }
            PrepareOutcome::TooFarAhead
                if !self.began_anew && self.registers.inner.ballots.start_over(begun.ballot) =>
            {
                self.began_anew = true;
                Ballot::ZERO
            }
            // Remains of the try may be committed once the bucket is active again.
            PrepareOutcome::Sealed if self.batch.tries.is_some() && self.waits_for_unsealing() => {
                begun.ballot
            }
            PrepareOutcome::Sealed => return Err(self.failed(Failure::Sealed)),
            PrepareOutcome::Unavailable
                if begun.round.failure() == Failure::Unavailable
                    && self.registers.links_return(&begun.round.set, self.deadline).await =>
            {
                begun.ballot
            }
            PrepareOutcome::Wait
            | PrepareOutcome::TooFarAhead
            | PrepareOutcome::StaleEpoch { .. }
            | PrepareOutcome::Unavailable => return Err(self.failed(begun.round.failure())),
        };
        // The end of a deletion is waited for, and no other writer: pauses get as long as they may.
        self.wait_a_little(is_sealed).await?;
        Ok(PrepareRoundOutcome::Again { above })
    }

    fn waits_for_unsealing(&mut self) -> bool {
        let now = Instant::now();
        now < *self.unsealed_by.get_or_insert(now + self.registers.inner.timeouts.round)
    }

    /// Another gateway's write is under way where a prepare finds a row of it that may not be committed.
    fn note_others(&self, found: Option<&QuorumRow>) {
        let own = |ballot: Ballot| self.registers.inner.ballots.are_of(ballot.proposer);
        if found.is_some_and(|found| !found.committed && !own(found.ballot)) {
            self.registers.inner.contention.note(self.hash);
        }
    }

    /// Whether what a prepare found is committed, as far as the answers tell that its quorum did not need:
    /// they are about to come, or are there.
    pub(super) async fn is_certain(&self, ready: &mut PreparedKey) -> bool {
        let PreparedKey { round: PrepareRound { round, .. }, found, lacks_room: _ } = ready;
        let Some(found) = found else { return true };
        while !found.committed {
            let lives = self.registers.known_lives();
            let progress = round.progress(self.registers.now(), &lives);
            let shown = match after_prepare(&round.replies, &self.unreadable, progress).outcome {
                PrepareOutcome::Prepared(prepared) => prepared.found,
                _ => None,
            };
            found.committed = shown.is_some_and(|shown| shown.committed && shown.ballot == found.ballot);
            if !found.committed && (round.outstanding() == 0 || !round.next_soon(self.registers).await) {
                break;
            }
        }
        found.committed
    }

    /// The value behind what the promises found; `None` where a prepare shall find another.
    async fn found(
        &mut self,
        begun: &PrepareRound,
        head: Option<HighestRow>,
    ) -> Result<Option<Option<QuorumRow>>, Failure> {
        let Some(head) = head else { return Ok(Some(None)) };
        let replies = &begun.round.replies;
        let value = self.registers.value_of(replies, &begun.round.set, &begun.route.target, &head).await;
        let value = value.map_err(|failure| self.failed(failure))?;
        Ok(self.readable(&head.holders, head.ballot, value).map(Some))
    }

    /// The value that volumes returned for a row that they showed; `None` if a new prepare should find
    /// another row. A row that none of them returned is left out from then on.
    fn readable<T>(&mut self, holders: &[VolumeId], ballot: Ballot, answer: RowAnswer<T>) -> Option<T> {
        match answer {
            RowAnswer::Given(row) => return Some(row),
            RowAnswer::MovedOn => {}
            RowAnswer::Corrupt | RowAnswer::Late => {
                self.unreadable.retain(|row| !holders.contains(&row.volume));
                self.unreadable
                    .extend(holders.iter().map(|volume| UnreadableRow { volume: *volume, ballot }));
            }
        }
        None
    }

    /// Fate of an earlier try, judged by the value that was found after it.
    pub(super) fn verdict(&self, found: Option<&QuorumRow>) -> Option<AfterConflict> {
        let nothing = Changes::default();
        let changes = found.map_or(&nothing, |found| &found.value.changes);
        self.batch.verdict(changes, found.is_some_and(|found| found.committed), self.highest_floor)
    }

    /// The value that a draft proposes; `None` if no member has changed anything.
    pub(super) fn value_of(
        &self,
        ready: &PreparedKey,
        draft: &mut Draft,
    ) -> Result<Option<DraftValue>, Failure> {
        let own = self.batch.next_try().ok_or(Failure::OutcomeUnknown)?;
        let Some(state) = draft.state.take() else { return Ok(None) };
        let before = ready.found.as_ref().map(|found| &found.value);
        let mut changes =
            before.map_or_else(|| Changes::default().after(own), |value| value.changes.after(own));
        changes.remember(&draft.conditional, ready.round.ballot.time);
        let value = Value { changes, state };
        let judged = ready.judge_value(draft, &value);
        draft.state = Some(value.state);
        judged.map(Some)
    }

    /// A draft's inline bytes; `None` where the found row that has them moved on, or cannot be read.
    pub(super) async fn inline_of(&mut self, ready: &PreparedKey, inline: &DraftInline) -> Option<Bytes> {
        match inline {
            DraftInline::Found => self.kept_inline(ready).await,
            DraftInline::Nothing => Some(Bytes::new()),
            DraftInline::New(bytes) => Some(bytes.clone()),
        }
    }

    /// Proposes a value of its own.
    pub(super) async fn propose(
        &mut self,
        ready: &PreparedKey,
        accept: &Accept,
        count: u64,
        heal: Option<&HealEntry>,
    ) -> AcceptRoundOutcome {
        let is_first = self.batch.tries.is_none();
        self.batch.note_accept(accept.ballot, Some(count));
        let accepted = self.accept(&ready.round, accept, heal).await;
        if is_first && matches!(accepted, AcceptRoundOutcome::Refused(_)) {
            self.batch.tries = None;
        }
        accepted
    }

    pub(super) async fn repropose(&mut self, ready: &PreparedKey) -> AcceptRoundOutcome {
        let encoded = match settle_with(ready.found.as_ref()) {
            SettleWith::Found(found) => {
                let Some(inline) = self.kept_inline(ready).await else {
                    return AcceptRoundOutcome::Conflict { above: ready.round.ballot };
                };
                EncodedValue::new(found.head.clone(), inline)
            }
            SettleWith::Tombstone => {
                let tombstone = Value { changes: Changes::default(), state: State::Tombstone };
                EncodedValue::new(tombstone.encode(), Bytes::new())
            }
        };
        let positions = ready.round.positions();
        let ballot = ready.round.ballot;
        // A committed value can be read without the full volumes, and is brought to them when they have room:
        // their reserve is not for writes that they missed.
        let finishes = ready.found.as_ref().is_none_or(|found| !found.committed);
        let origin = ValueOrigin { made_from: Some(ready.found_ballot()), ..ValueOrigin::default() };
        let accept = Accept { ballot, value: encoded, introduces: Vec::new(), finishes, positions, origin };
        self.batch.note_accept(accept.ballot, None);
        self.accept(&ready.round, &accept, None).await
    }

    async fn kept_inline(&mut self, ready: &PreparedKey) -> Option<Bytes> {
        match &ready.found {
            Some(found) if found.value.state.has_inline() => {
                let inline = self.registers.inline(&ready.round.route, found).await;
                self.readable(&found.holders, found.ballot, inline)
            }
            Some(_) | None => Some(Bytes::new()),
        }
    }

    async fn accept(
        &mut self,
        begun: &PrepareRound,
        accept: &Accept,
        heal: Option<&HealEntry>,
    ) -> AcceptRoundOutcome {
        let registers = self.registers;
        let deadline = Instant::now() + registers.inner.timeouts.round;
        let mut round: Round<()> = Round::new(Arc::clone(&begun.round.set), deadline);
        for place in 0..round.set.routes.len() {
            let route = round.set.routes[place].clone();
            round.ask(place, route.peer.accept(route.volume, &begun.route.target, accept, heal));
        }
        let mut sent = OpenAccept { registers, key: &begun.route.target.key, is_known: false };
        registers.inner.metrics.register.accept_rounds.inc();
        let waits = |outcome: &AcceptOutcome| matches!(outcome, AcceptOutcome::Wait);
        let asked = Instant::now();
        let decision = round.decide(registers, after_accept, waits).await;
        self.times.accept += asked.elapsed();
        self.times.called(round.count(Phase::Accept, &registers.inner.metrics));
        let failure = match decision.outcome {
            AcceptOutcome::Committed => {
                sent.is_known = true;
                registers.inner.contention.accepted(asked.elapsed());
                registers.committed(round, &begun.route.target, accept.ballot);
                return AcceptRoundOutcome::Committed;
            }
            AcceptOutcome::Conflict { above } => {
                // Another write takes its place, or finishes it.
                sent.is_known = true;
                return AcceptRoundOutcome::Conflict { above };
            }
            AcceptOutcome::Sealed => Failure::Sealed,
            AcceptOutcome::Wait
            | AcceptOutcome::DataTooOld
            | AcceptOutcome::StaleEpoch { .. }
            | AcceptOutcome::Undecided => round.failure(),
        };
        // Enough volumes have refused; the value can be stored only where others did not.
        while round.outstanding() > 0 && round.next_soon(registers).await {}
        let refused = |error: &message::Error| matches!(error, message::Error::Full | message::Error::Busy);
        let is_refused = round.outstanding() == 0
            && round.replies.iter().all(|reply| reply.result.is_err())
            && round.failed.iter().all(|(_, error)| refused(error));
        sent.is_known = is_refused;
        if is_refused { AcceptRoundOutcome::Refused(failure) } else { AcceptRoundOutcome::Undecided }
    }

    /// Waits for the next try; says above which ballot it shall be.
    pub(super) async fn above(&mut self, accepted: AcceptRoundOutcome) -> Result<Ballot, Failure> {
        self.registers.inner.metrics.register.conflicts.inc();
        let above = match accepted {
            AcceptRoundOutcome::Conflict { above } => {
                self.registers.inner.contention.note(self.hash);
                above
            }
            AcceptRoundOutcome::Refused(failure) => return Err(self.failed(failure)),
            AcceptRoundOutcome::Committed | AcceptRoundOutcome::Undecided => Ballot::ZERO,
        };
        self.wait_a_little(false).await?;
        Ok(above)
    }

    async fn wait_a_little(&mut self, is_sealed: bool) -> Result<(), Failure> {
        if Instant::now() >= self.deadline {
            return Err(self.failed(Failure::Unavailable));
        }
        let RegistersShared { contention, rng, .. } = &*self.registers.inner;
        // Every change of another gateway brings a batch with an accept nearer to an unknown outcome.
        let most = if self.batch.tries.is_some() && !is_sealed { PAUSES_WITH_ACCEPT_MAX } else { u32::MAX };
        let pause = contention.pause(self.pauses.min(most), rng.next_u64());
        tokio::time::sleep(pause).await;
        self.pauses = self.pauses.saturating_add(1);
        Ok(())
    }

    /// After an accept was sent, a failure does not tell the outcome.
    pub(super) fn failed(&self, failure: Failure) -> Failure {
        if self.batch.tries.is_some() { Failure::OutcomeUnknown } else { failure }
    }
}
