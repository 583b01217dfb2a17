//! The acceptor's judgement: what a volume promises, stores, answers and forgets.
//!
//! Plain functions over small values that the volume fills in. They decide; the volume makes
//! durable what they decided before it answers. Guards that a promise is never broken (I-3): not by
//! a restart (the bound), not by a drop (the floor), not by a lost disk (recovery). Guards I-16 and I-17.

use crate::id::{Ballot, DataId, Epoch, ProposerId, Timestamp};
use crate::limits::{
    BALLOT_AHEAD_MS_MAX, BOUND_AHEAD_MS, BOUND_PAST_BALLOT_MS, CLOCK_STEP_MS_MAX, DATA_FLOOR_BEHIND_MS_MIN,
    FOLLOW_STEP_MS_MAX,
};
use crate::register::{Refusal, RowHead};

/// Whether a volume has the state that its votes speak for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VoterStatus {
    /// Has all that it acknowledged: votes.
    #[default]
    Voting,
    /// Opened with a whole log, peers have not confirmed it yet: answers nothing, and takes no write.
    Unconfirmed,
    /// State lost, voters' guarantees not copied yet: answers nothing. A write taken here could be one that a
    /// forgotten promise excludes.
    Lost,
    /// State lost, voters' guarantees copied: stores writes above the floor it took, so that it misses none,
    /// but its answers count nowhere.
    Refilling,
}

impl VoterStatus {
    /// Goes into [`crate::register::Answerer::votes`].
    pub const fn votes(self) -> bool {
        matches!(self, Self::Voting)
    }

    /// Whether its state is known to be lost, and not recovered yet.
    pub const fn has_lost_state(self) -> bool {
        matches!(self, Self::Lost | Self::Refilling)
    }
}

/// Guarantees that a volume gives for all its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AcceptorState {
    /// Every ballot at or below is refused. Durable; never falls.
    pub floor: Ballot,
    /// Every ballot at or below may have been promised before the last restart, or by a promise
    /// that was put out of a full table; refused. Never falls.
    pub restart_bound: Ballot,
    /// The durable upper bound on what may have been promised: no promise above it is answered
    /// before it was raised, durably. The next run's [`Self::restart_bound`].
    pub durable_bound: Ballot,
    /// The highest durable reading of the volume's own clock. Never falls.
    pub clock_reading: Timestamp,
    /// Accepts that introduce data born before are refused. Durable; never falls.
    pub data_floor: Timestamp,
    /// Whether it votes.
    pub standing: VoterStatus,
}

/// State that a volume holds for the key in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyState<'a> {
    /// Row of the key, rows still in the batch included; an answer that depends on such a row leaves after
    /// its sync.
    pub row: Option<&'a RowHead>,
    /// The highest ballot promised for the key since the restart; [`Ballot::ZERO`] for none. A drop
    /// of the row leaves it as it is: a drop forgets no promise.
    pub promised: Ballot,
    /// Whether the key's bucket is sealed here.
    pub sealed: bool,
    /// The highest epoch recorded for the key's slot.
    pub epoch_seen: Epoch,
}

impl KeyState<'_> {
    fn row_ballot(&self) -> Ballot {
        self.row.map_or(Ballot::ZERO, |row| row.ballot)
    }
}

/// Circumstances of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Circumstances {
    /// By which topology the volume was found.
    pub epoch: Epoch,
    /// The volume's clock.
    pub now: Timestamp,
}

/// A promise that may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The bound to make durable before the promise is answered; `None` when the durable one covers
    /// it. A promise answered above the durable bound is forgotten by a crash, and the value that it
    /// kept out is accepted after it.
    pub needs_bound: Option<Ballot>,
}

/// Answer to an accept that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcceptVerdict {
    /// Store the row, durably, and only then answer.
    Store,
    /// The row of this very ballot is there: answer once that row is durable. A ballot names one
    /// value, so there is nothing to compare.
    AlreadyStored,
}

/// Judges a prepare. On success the volume notes `ballot` as the key's promise, makes
/// [`Promise::needs_bound`] durable, and answers with its row and floor.
///
/// A repeated prepare is promised again: nothing below it was accepted since, so the answer is the
/// same.
///
/// # Errors
/// [`Refusal`]; a refused ballot carries the bound above which the next may succeed.
pub fn judge_prepare(
    state: &AcceptorState,
    key: &KeyState<'_>,
    circumstances: Circumstances,
    ballot: Ballot,
) -> Result<Promise, Refusal> {
    judge_vote(state, key, circumstances)?;
    let closed = state.floor.max(state.restart_bound).max(key.row_ballot());
    if ballot <= closed || ballot < key.promised {
        return Err(Refusal::Below { bound: closed.max(key.promised) });
    }
    judge_ahead(state, circumstances, ballot)?;
    let needs_bound = (ballot > state.durable_bound).then(|| next_bound(ballot, circumstances.now));
    Ok(Promise { needs_bound })
}

/// Judges an accept. On [`AcceptVerdict::Store`] the volume stores the row, notes `ballot` as the
/// key's promise and answers after the sync. A recovering volume that took its guarantees stores
/// too; [`crate::register::Answerer::votes`] says that it does not count.
///
/// # Errors
/// [`Refusal`]; a refused ballot carries the bound above which the next may succeed.
pub fn judge_accept(
    state: &AcceptorState,
    key: &KeyState<'_>,
    circumstances: Circumstances,
    ballot: Ballot,
    introduces: &[DataId],
) -> Result<AcceptVerdict, Refusal> {
    if matches!(state.standing, VoterStatus::Lost | VoterStatus::Unconfirmed) {
        return Err(Refusal::Recovering);
    }
    judge_place(key, circumstances)?;
    // Not where it may have been adopted: see [`Vote::is_accepted`](super::Vote::is_accepted).
    if key.row.is_some_and(|row| row.ballot == ballot && row.is_accepted(state.floor)) {
        return Ok(AcceptVerdict::AlreadyStored);
    }
    let closed = state.floor.max(state.restart_bound);
    let open = key.promised.max(key.row_ballot());
    if ballot <= closed || ballot < open {
        return Err(Refusal::Below { bound: closed.max(open) });
    }
    judge_ahead(state, circumstances, ballot)?;
    if introduces.iter().any(|data| data.birth < state.data_floor) {
        return Err(Refusal::DataTooOld { floor: state.data_floor });
    }
    Ok(AcceptVerdict::Store)
}

/// Judges whether the volume may answer a read of the key with its row and floor.
///
/// # Errors
/// [`Refusal`] when it does not vote, has a later epoch, or holds a seal on the bucket.
pub fn judge_read(
    state: &AcceptorState,
    key: &KeyState<'_>,
    circumstances: Circumstances,
) -> Result<(), Refusal> {
    judge_vote(state, key, circumstances)
}

/// Whether a commit hint is for the row that is there. A hint for another ballot says nothing about
/// this row and is ignored.
pub fn judge_commit(row: Option<&RowHead>, ballot: Ballot) -> bool {
    row.is_some_and(|row| row.ballot == ballot)
}

/// Whether the row of a dropped tombstone may go: it is still that tombstone, and the floor keeps out what it
/// kept out. A row that was replaced meanwhile is another write's, and acknowledged.
pub fn judge_drop(row: Option<&RowHead>, ballot: Ballot, floor: Ballot) -> bool {
    ballot <= floor && row.is_some_and(|row| row.ballot == ballot)
}

/// The floor after a request to raise it. Floors never fall: what one drop relies on, the next must
/// not take back.
#[must_use]
pub fn raise_floor(current: Ballot, requested: Ballot) -> Ballot {
    current.max(requested)
}

/// The data floor after a request to raise it; never falls either.
#[must_use]
pub fn raise_data_floor(current: Timestamp, requested: Timestamp) -> Timestamp {
    current.max(requested)
}

/// Judges whether the volume may raise its floor for a caller that relies on all N volumes. A recovering one
/// may not: rows that it has yet to adopt could lie below.
///
/// # Errors
/// [`Refusal::Recovering`].
pub fn judge_raise(standing: VoterStatus) -> Result<(), Refusal> {
    if standing.votes() { Ok(()) } else { Err(Refusal::Recovering) }
}

/// Judges whether the volume may raise its floor so far. Floors never fall, so one that is years ahead would
/// close the set to every proposer until then. A recovery's floor lies a day ahead at most
/// (`recover::Guarantees::is_far_ahead`), by a clock that may differ from this volume's; one that the volume
/// has reached already says nothing new.
///
/// # Errors
/// [`Refusal::Recovering`]; [`Refusal::TooFarAhead`].
pub fn judge_floor(
    standing: VoterStatus,
    floor: Ballot,
    current: Ballot,
    now: Timestamp,
) -> Result<(), Refusal> {
    judge_raise(standing)?;
    let latest = now.plus_ms(FOLLOW_STEP_MS_MAX).max(current.time);
    if floor.time > latest { Err(Refusal::TooFarAhead { latest }) } else { Ok(()) }
}

/// Judges whether the volume may raise its data floor. The horizon of a sweeper whose clock is far
/// ahead would refuse bodies that are still arriving, and after those every new one.
///
/// # Errors
/// [`Refusal::Recovering`]; [`Refusal::TooFarAhead`] for one nearer to the volume's own clock than 24 hours.
pub fn judge_data_floor(standing: VoterStatus, floor: Timestamp, now: Timestamp) -> Result<(), Refusal> {
    judge_raise(standing)?;
    let latest = now.minus_ms(DATA_FLOOR_BEHIND_MS_MIN);
    if floor > latest { Err(Refusal::TooFarAhead { latest }) } else { Ok(()) }
}

/// The bound to make durable for a promise of `ballot`: all of the next 2 s, so that the promises of
/// a busy volume cost one write each 2 s and a restarted one is closed for 2 s; or a little past the
/// ballot, where that is more: the ballots of proposers whose clocks were set back count upwards from
/// where they were, each of them above the one before.
#[must_use]
pub fn next_bound(ballot: Ballot, now: Timestamp) -> Ballot {
    let time = now.plus_ms(BOUND_AHEAD_MS).max(ballot.time.plus_ms(BOUND_PAST_BALLOT_MS));
    Ballot { time, proposer: ProposerId(u64::MAX) }
}

/// The reading of its clock that a volume makes durable together with a bound, when it is a new highest.
#[must_use]
pub fn next_reading(durable: Timestamp, now: Timestamp) -> Option<Timestamp> {
    (now > durable).then_some(now)
}

/// The bound to make durable in the background, when less than half of the time ahead is left; so
/// that a promise never waits for it in steady state. Asked after a promise; an idle volume extends
/// nothing.
#[must_use]
pub fn extend_bound(durable: Ballot, now: Timestamp) -> Option<Ballot> {
    (durable.time < now.plus_ms(BOUND_AHEAD_MS / 2)).then(|| next_bound(durable, now))
}

/// The state with which a volume that kept its log serves after a restart: everything that it may
/// have promised is refused.
#[must_use]
pub fn after_restart(state: &AcceptorState) -> AcceptorState {
    AcceptorState { restart_bound: state.restart_bound.max(state.durable_bound), ..*state }
}

/// The restart bound after a promise was put out of a full table: everything at or below it is
/// refused for every key, as if the volume had restarted.
#[must_use]
pub fn after_forgetting(restart_bound: Ballot, promised: Ballot) -> Ballot {
    restart_bound.max(promised)
}

fn judge_vote(
    state: &AcceptorState,
    key: &KeyState<'_>,
    circumstances: Circumstances,
) -> Result<(), Refusal> {
    if !state.standing.votes() {
        return Err(Refusal::Recovering);
    }
    judge_place(key, circumstances)
}

/// Judges whether a request was sent by a topology that is still in force for what it is about, as
/// far as this volume has seen: its slot, or every slot of a scan.
///
/// # Errors
/// [`Refusal::StaleEpoch`].
pub fn judge_epoch(requested: Epoch, seen: Epoch) -> Result<(), Refusal> {
    if requested < seen { Err(Refusal::StaleEpoch { epoch: seen }) } else { Ok(()) }
}

fn judge_place(key: &KeyState<'_>, circumstances: Circumstances) -> Result<(), Refusal> {
    judge_epoch(circumstances.epoch, key.epoch_seen)?;
    if key.sealed {
        return Err(Refusal::Sealed);
    }
    Ok(())
}

/// One ballot from a clock that is years ahead would close the key to all others for years.
///
/// The volume's own clock decides: now, or up to a day ahead of that before it was set back. Rows and
/// promises do not count: one proposer could pull them up, each five minutes above the last.
fn judge_ahead(state: &AcceptorState, circumstances: Circumstances, ballot: Ballot) -> Result<(), Refusal> {
    let before_a_step = state.clock_reading.min(circumstances.now.plus_ms(CLOCK_STEP_MS_MAX));
    let known = circumstances.now.max(before_a_step).max(state.floor.time);
    let latest = known.plus_ms(BALLOT_AHEAD_MS_MAX);
    if ballot.time > latest { Err(Refusal::TooFarAhead { latest }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
