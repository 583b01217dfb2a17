//! The write rounds: prepare, decide, accept, commit, and what to do when somebody was faster.
//!
//! ```text
//! begin --prepare--> found --decide--> proposal --accept--> committed --commit hints-->
//!   ^                  |                              |
//!   +--- a higher ballot, after a pause <-- conflict -+
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, ChangeId, DataId, RegisterKey};
use sherd_core::record::{ChangeTry, Changes, DataRef, State, Value};
use sherd_core::register::proposer::{
    AcceptOutcome, AfterConflict, Found as FoundHead, PrepareOutcome, Tries, after_accept, after_conflict,
    after_prepare,
};
use sherd_core::register::release::{CommittedValue, Releaser, may_release};
use sherd_core::register::sweep::{SettleWith, introduced, settle_with};
use sherd_core::register::{Accept, Encoded, Prepare, Vote};
use sherd_volume::request::Target;

use super::round::Round;
use super::{Failure, Found, Registers};
use crate::peer;
use crate::stripe::Staged;

/// The pause after the first conflict; each further one is up to twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A value to propose, without its history: that is the register's own business.
#[derive(Debug)]
pub(crate) struct Proposal {
    /// What the register shall be.
    pub(crate) state: State,
    /// The inline bytes that the state names.
    pub(crate) inline: Inline,
    /// Data ids that the state names and that another register of this key names already: the
    /// parts of the upload being completed.
    pub(crate) carried: Vec<DataId>,
    /// What is still to be mended about the data, made durable together with the value.
    pub(crate) heal: Option<HealEntry>,
}

/// Where a proposal's inline bytes come from.
#[derive(Debug)]
pub(crate) enum Inline {
    /// The state names none.
    Nothing,
    /// The caller's.
    New(Bytes),
    /// The found value's.
    Kept,
}

/// A change that is committed.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The value that it was made from.
    pub(crate) replaced: Option<Found>,
    /// The value that it made.
    pub(crate) value: Value,
    /// The ballot at which that is committed.
    pub(crate) ballot: Ballot,
}

impl Changed {
    /// The data that this change replaced and its maker therefore releases, with grace.
    pub(crate) fn released(&self) -> Vec<DataRef> {
        let kept = self.value.data_refs();
        let may_go = |data: &DataRef| {
            let committed = CommittedValue { ballot: self.ballot, names: kept.contains(data) };
            // What is asked about stands in the value that was found.
            may_release(Releaser::Replacer { found_names: true }, Some(committed))
        };
        let found = self.replaced.as_ref().map(|found| found.value.data_refs());
        found.unwrap_or_default().into_iter().filter(may_go).collect()
    }
}

/// A change that was not made.
#[derive(Debug)]
pub(crate) enum ChangeError<E> {
    /// The caller's decision; the value that it judged is committed.
    Refused(E),
    /// The rounds failed.
    Failed(Failure),
}

impl<E> From<Failure> for ChangeError<E> {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A prepare round under way.
#[derive(Debug)]
pub(crate) struct Begun {
    target: Target,
    ballot: Ballot,
    round: Round<Vote>,
}

impl Begun {
    /// Whether so many volumes are full that too few would accept what needs room.
    fn lacks_room(&self) -> bool {
        let set = &self.round.set;
        let with_room = set.reach.iter().filter(|reach| !reach.peer.is_full(reach.volume)).count();
        with_room < set.quorums().accept()
    }
}

/// One change over all of its tries.
struct Change<'a> {
    registers: &'a Registers,
    id: ChangeId,
    deadline: Instant,
    pause: Duration,
    highest_floor: Ballot,
    /// Whether its ballots began at the clock again: once is enough.
    began_anew: bool,
    /// Set when the first accept was sent: from there on the outcome may be unknown.
    tries: Option<Tries>,
    /// Proposals of its own that were sent: each has a number.
    tries_count: u16,
}

/// A prepared ballot and what it found.
struct Ready {
    begun: Begun,
    found: Option<Found>,
}

/// What one accept round came to.
enum Accepted {
    Committed,
    Conflict {
        above: Ballot,
    },
    /// Whether any volume may hold the value is told by `stored`.
    Failed {
        failure: Failure,
        stored: bool,
    },
}

impl Registers {
    /// Sends the prepare of a change to come.
    pub(crate) fn begin(&self, key: &RegisterKey) -> Begun {
        self.begin_above(self.inner.cluster.target(key.clone()), Ballot::ZERO)
    }

    fn begin_above(&self, target: Target, above: Ballot) -> Begun {
        let ballot = self.inner.ballots.above(above);
        let set = self.inner.cluster.set_of(&target.key);
        let start = usize::from(target.slot.0) % set.reach.len();
        let mut round = Round::new(set, Instant::now() + self.inner.patience.round);
        for place in 0..round.set.reach.len() {
            let reach = round.set.reach[place].clone();
            let pending = reach.peer.prepare(reach.volume, &target, Prepare { ballot }, place == start);
            round.ask(place, pending);
        }
        self.inner.metrics.register.prepare_rounds.inc();
        Begun { target, ballot, round }
    }

    /// Makes one change: `decide` turns what is found into what shall be, or refuses. It is asked
    /// again when somebody else was faster. `staged` is the data that the proposal will name.
    pub(crate) async fn change<E>(
        &self,
        begun: Begun,
        staged: &mut Option<Staged>,
        mut decide: impl FnMut(Option<&Found>) -> Result<Proposal, E>,
    ) -> Result<Changed, ChangeError<E>> {
        let mut change = self.new_change();
        let mut begun = begun;
        loop {
            let ready = change.prepared(begun).await?;
            match change.verdict(ready.found.as_ref()) {
                None | Some(AfterConflict::TryAgain) => {}
                Some(AfterConflict::Unknown) => return Err(Failure::OutcomeUnknown.into()),
                Some(AfterConflict::Committed) => return Ok(own(ready.found)),
                Some(AfterConflict::Settle) => match change.repropose(&ready).await? {
                    Accepted::Committed => return Ok(own(ready.found)),
                    other => {
                        begun = change.again(ready.begun.target, other).await?;
                        continue;
                    }
                },
            }
            let proposal = match decide(ready.found.as_ref()) {
                Ok(proposal) => proposal,
                Err(refusal) => match change.settle_refused(&ready).await? {
                    Accepted::Committed => return Err(ChangeError::Refused(refusal)),
                    other => {
                        begun = change.again(ready.begun.target, other).await?;
                        continue;
                    }
                },
            };
            let (value, accepted) = change.propose(&ready, proposal, staged).await?;
            match accepted {
                Accepted::Committed => {
                    return Ok(Changed { replaced: ready.found, value, ballot: ready.begun.ballot });
                }
                other => begun = change.again(ready.begun.target, other).await?,
            }
        }
    }

    /// Finishes a write that a read found: whatever a prepare at a fresh ballot finds is proposed
    /// unchanged.
    pub(super) async fn finish(&self, key: &RegisterKey) -> Result<Option<Found>, Failure> {
        self.inner.metrics.register.repairs.inc();
        let mut change = self.new_change();
        let mut begun = self.begin(key);
        loop {
            let ready = change.prepared(begun).await?;
            match change.repropose(&ready).await? {
                Accepted::Committed => {
                    return Ok(ready.found.map(|mut found| {
                        found.committed = true;
                        found
                    }));
                }
                other => begun = change.again(ready.begun.target, other).await?,
            }
        }
    }

    /// Brings the committed value to every volume of the set that can be reached, at a fresh
    /// ballot. Returns it.
    pub(crate) async fn settle(&self, key: &RegisterKey) -> Result<Option<Found>, Failure> {
        self.finish(key).await
    }

    fn new_change(&self) -> Change<'_> {
        Change {
            registers: self,
            id: ChangeId { made: self.inner.clock.tick(), proposer: self.inner.proposer },
            deadline: Instant::now() + self.inner.patience.operation,
            pause: FIRST_PAUSE,
            highest_floor: Ballot::ZERO,
            began_anew: false,
            tries: None,
            tries_count: 0,
        }
    }
}

/// The change was finished by somebody who found it. Which of its tries that was, and so what it
/// replaced, cannot be told: what it replaced is left to the sweeper.
fn own(found: Option<Found>) -> Changed {
    let found = found.expect("a change in a value's history has a value");
    Changed { replaced: None, value: found.value, ballot: found.ballot }
}

impl Change<'_> {
    /// Waits for A promises, following higher ballots, and reads what they found.
    async fn prepared(&mut self, begun: Begun) -> Result<Ready, Failure> {
        let mut begun = begun;
        loop {
            let waits = |outcome: &PrepareOutcome| matches!(outcome, PrepareOutcome::Wait);
            let decision = begun.round.decide(self.registers, after_prepare, waits).await;
            let above = match decision.outcome {
                PrepareOutcome::Prepared(prepared) => {
                    self.highest_floor = self.highest_floor.max(prepared.floor);
                    match self.found(&begun, prepared.found).await? {
                        Some(found) => return Ok(Ready { begun, found }),
                        None => begun.ballot,
                    }
                }
                PrepareOutcome::Retry { above } => above,
                PrepareOutcome::TooFarAhead
                    if !self.began_anew && self.registers.inner.ballots.begin_anew(begun.ballot) =>
                {
                    self.began_anew = true;
                    Ballot::ZERO
                }
                PrepareOutcome::Sealed => return Err(self.failed(Failure::Sealed)),
                PrepareOutcome::Wait
                | PrepareOutcome::TooFarAhead
                | PrepareOutcome::StaleEpoch { .. }
                | PrepareOutcome::Unavailable => {
                    return Err(self.failed(begun.round.failure()));
                }
            };
            self.wait_a_little().await?;
            begun = self.registers.begin_above(begun.target, above);
        }
    }

    /// The value behind what the promises found; `None` when its holders have moved on.
    async fn found(&self, begun: &Begun, head: Option<FoundHead>) -> Result<Option<Option<Found>>, Failure> {
        let Some(head) = head else { return Ok(Some(None)) };
        let replies = &begun.round.replies;
        let value = self.registers.value_of(replies, &begun.round.set, &begun.target, &head).await;
        Ok(value.map_err(|failure| self.failed(failure))?.map(Some))
    }

    /// What became of an earlier try, judged by what is found after it.
    fn verdict(&self, found: Option<&Found>) -> Option<AfterConflict> {
        let tries = Tries { highest_floor: self.highest_floor, ..self.tries? };
        let nothing = Changes::default();
        let changes = found.map_or(&nothing, |found| &found.value.changes);
        Some(after_conflict(changes, found.is_some_and(|found| found.committed), &tries))
    }

    /// Proposes the decided value.
    async fn propose(
        &mut self,
        ready: &Ready,
        proposal: Proposal,
        staged: &mut Option<Staged>,
    ) -> Result<(Value, Accepted), Failure> {
        let Proposal { state, inline, carried, heal } = proposal;
        let before = ready.found.as_ref().map(|found| &found.value);
        let own = ChangeTry { change: self.id, number: self.tries_count.saturating_add(1) };
        let changes = before.map_or_else(Changes::default, |value| value.changes.clone()).after(own);
        let value = Value { changes, state };
        let brings_bytes = matches!(&inline, Inline::New(bytes) if !bytes.is_empty());
        let inline = match inline {
            Inline::Nothing => Bytes::new(),
            Inline::New(bytes) => bytes,
            Inline::Kept => match self.kept_inline(ready).await? {
                Some(bytes) => bytes,
                None => return Ok((value, Accepted::Conflict { above: ready.begun.ballot })),
            },
        };
        let ids = |value: &Value| value.data_refs().into_iter().map(|data| data.id).collect::<Vec<_>>();
        let introduces = introduced(ids(&value), &before.map(ids).unwrap_or_default(), &carried);
        if let Some(staged) = staged.take() {
            staged.named();
        }
        let encoded = Encoded::of(&value, inline).map_err(|over| self.failed(Failure::OverLimit(over)))?;
        let replaced_bytes = ready.found.as_ref().map(|found| found.head.len());
        let grows = brings_bytes || replaced_bytes.is_none_or(|replaced| encoded.head.len() >= replaced);
        // What names new data was admitted with its data.
        let needs_room = introduces.is_empty() && grows && !value.makes_way(before);
        if needs_room && ready.begun.lacks_room() {
            return Err(self.failed(Failure::Full));
        }
        let accept = Accept { ballot: ready.begun.ballot, value: encoded, introduces };
        let first = self.tries.is_none();
        self.note_try(ready.begun.ballot, value.changes.count);
        let accepted = self.accept(&ready.begun, &accept, heal.as_ref()).await;
        if let (Accepted::Committed, Some(heal)) = (&accepted, heal) {
            self.registers.inner.damage.heal(heal);
        }
        if first && matches!(accepted, Accepted::Failed { stored: false, .. }) {
            self.tries = None;
        }
        Ok((value, accepted))
    }

    fn note_try(&mut self, ballot: Ballot, count: u64) {
        self.tries_count = self.tries_count.saturating_add(1);
        let tries = self.tries.get_or_insert(Tries {
            change: self.id,
            first_accept: ballot,
            lowest_count: count,
            highest_floor: Ballot::ZERO,
        });
        tries.lowest_count = tries.lowest_count.min(count);
    }

    /// Proposes what was found, unchanged; a tombstone where nothing was.
    async fn repropose(&mut self, ready: &Ready) -> Result<Accepted, Failure> {
        let encoded = match settle_with(ready.found.as_ref()) {
            SettleWith::Found(found) => {
                let Some(inline) = self.kept_inline(ready).await? else {
                    return Ok(Accepted::Conflict { above: ready.begun.ballot });
                };
                Encoded::new(found.head.clone(), inline)
            }
            SettleWith::Tombstone => {
                let tombstone = Value { changes: Changes::default(), state: State::Tombstone };
                Encoded::new(tombstone.encode(), Bytes::new())
            }
        };
        let accept = Accept { ballot: ready.begun.ballot, value: encoded, introduces: Vec::new() };
        Ok(self.accept(&ready.begun, &accept, None).await)
    }

    /// Before a refusal is told, what it was judged on must be committed, and an earlier try of
    /// this change must be dead.
    async fn settle_refused(&mut self, ready: &Ready) -> Result<Accepted, Failure> {
        let certain = ready.found.as_ref().is_none_or(|found| found.committed);
        if certain && self.tries.is_none() { Ok(Accepted::Committed) } else { self.repropose(ready).await }
    }

    async fn kept_inline(&self, ready: &Ready) -> Result<Option<Bytes>, Failure> {
        match &ready.found {
            Some(found) if found.has_inline() => {
                let inline = self.registers.inline(&ready.begun.target.key, found).await;
                inline.map_err(|failure| self.failed(failure))
            }
            Some(_) | None => Ok(Some(Bytes::new())),
        }
    }

    async fn accept(&self, begun: &Begun, accept: &Accept, heal: Option<&HealEntry>) -> Accepted {
        let registers = self.registers;
        let deadline = Instant::now() + registers.inner.patience.round;
        let mut round: Round<()> = Round::new(Arc::clone(&begun.round.set), deadline);
        for place in 0..round.set.reach.len() {
            let reach = round.set.reach[place].clone();
            round.ask(place, reach.peer.accept(reach.volume, &begun.target, accept, heal));
        }
        registers.inner.metrics.register.accept_rounds.inc();
        let waits = |outcome: &AcceptOutcome| matches!(outcome, AcceptOutcome::Wait);
        let decision = round.decide(registers, after_accept, waits).await;
        let failure = match decision.outcome {
            AcceptOutcome::Committed => {
                registers.committed(round, &begun.target, accept.ballot);
                return Accepted::Committed;
            }
            AcceptOutcome::Conflict { above } => return Accepted::Conflict { above },
            AcceptOutcome::Sealed => Failure::Sealed,
            AcceptOutcome::Wait
            | AcceptOutcome::DataTooOld
            | AcceptOutcome::StaleEpoch { .. }
            | AcceptOutcome::Undecided => round.failure(),
        };
        let refused = |error: &peer::Error| matches!(error, peer::Error::Full | peer::Error::Busy);
        let stored = round.outstanding() > 0
            || round.replies.iter().any(|reply| reply.result.is_ok())
            || !round.failed.iter().all(|(_, error)| refused(error));
        Accepted::Failed { failure, stored }
    }

    /// Begins the next try, above whoever was faster.
    async fn again(&mut self, target: Target, accepted: Accepted) -> Result<Begun, Failure> {
        self.registers.inner.metrics.register.conflicts.inc();
        let above = match accepted {
            Accepted::Conflict { above } => above,
            Accepted::Failed { failure, stored: false } => return Err(self.failed(failure)),
            Accepted::Committed | Accepted::Failed { .. } => Ballot::ZERO,
        };
        self.wait_a_little().await?;
        Ok(self.registers.begin_above(target, above))
    }

    async fn wait_a_little(&mut self) -> Result<(), Failure> {
        if Instant::now() >= self.deadline {
            return Err(self.failed(Failure::Unavailable));
        }
        let most = u64::try_from(self.pause.as_micros()).unwrap_or(u64::MAX).max(1);
        let jitter = self.registers.inner.rng.next_u64() % most;
        tokio::time::sleep(Duration::from_micros(jitter)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// After an accept was sent, a failure does not tell the outcome.
    fn failed(&self, failure: Failure) -> Failure {
        if self.tries.is_some() { Failure::OutcomeUnknown } else { failure }
    }
}

impl Registers {
    /// Tells every volume that the value is committed, and looks after those that did not answer.
    fn committed(&self, round: Round<()>, target: &Target, ballot: Ballot) {
        let key = &target.key;
        for reach in &round.set.reach {
            reach.peer.commit(reach.volume, target, ballot);
        }
        if round.was_missed(self.now()) {
            self.inner.damage.row(key);
        } else if round.outstanding() > 0 {
            let registers = self.clone();
            let key = key.clone();
            self.inner.tasks.spawn(async move {
                let mut round = round;
                while round.outstanding() > 0 {
                    round.next(&registers).await;
                }
                if round.was_missed(registers.now()) {
                    registers.inner.damage.row(&key);
                }
            });
        }
    }
}
