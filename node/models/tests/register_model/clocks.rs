//! Clocks: what one bad clock costs, and what becomes of writes when the clocks of all are set back.
//!
//! ```text
//! three acceptors, each with a clock        a gateway that writes, in rounds of production's decisions
//! a gateway and a sweeper with bad clocks   a recovery of the last acceptor, in one step
//! ```
//! One key. Ballots, bounds, floors and clocks are production's timestamps; true time stands still while
//! things happen. In every state a write is tried a minute later: it must succeed, and where one clock
//! alone is bad, at a ballot that volumes with good clocks take without having been asked to forget theirs.

use sherd_core::id::{Ballot, DataId, Epoch, Life, ProposerId, Sequence, Timestamp, VolumeId};
use sherd_core::limits::{BALLOT_AHEAD_MS_MAX, BODY_MS_MAX, FOLLOW_BOUND_MS_MAX};
use sherd_core::register::acceptor::{
    AcceptorState, Circumstances, KeyState, VoterStatus, after_restart, judge_accept, judge_data_floor,
    judge_floor, judge_prepare, next_reading, raise_data_floor, raise_floor,
};
use sherd_core::register::position::OpeningId;
use sherd_core::register::proposer::{
    AcceptOutcome, PrepareOutcome, PrepareProgress, after_accept, after_prepare,
};
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply};
use sherd_core::register::recover::{Adoption, Guarantees, adopt, barrier};
use sherd_core::register::{Answerer, Refusal, Row, RowHead, Vote};

use crate::rules::Without;
use sherd_models::search::Model;

const VOLUMES: usize = 3;
/// The volume that is lost and recovered, from the two others.
const VICTIM: usize = 2;
const SET: Quorums = Quorums::of(VOLUMES);
const MINUTE_MS: u64 = 60_000;
pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;
/// True time.
const NOW_MS: u64 = 100 * 24 * HOUR_MS;
/// A clock that says nothing.
const FAR: Timestamp = Timestamp::from_ms(20 * NOW_MS);
/// Rounds of one write: more than any that comes to an end takes.
const ROUNDS: usize = 8;

/// A configuration to search: how wrong clocks are, and how often what may happen.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    pub(crate) without: Without,
    /// How far the clocks of all are ahead, until they are set back.
    pub(crate) all_ms: u64,
    /// How far that of the first volume is ahead for ever.
    pub(crate) volume_ms: u64,
    /// How far that of the gateway is ahead, until it is set back.
    pub(crate) gateway_ms: u64,
    pub(crate) writes: u8,
    /// Whether all volumes answer each write.
    pub(crate) all_answer: bool,
    pub(crate) restarts: u8,
    pub(crate) gateway_restarts: u8,
    /// Prepares and accepts of a gateway with an arbitrary clock.
    pub(crate) bad_messages: u8,
    /// Prepares of one whose clock is three minutes ahead, which is good enough.
    pub(crate) other_messages: u8,
    /// Data floors from a sweeper with an arbitrary clock.
    pub(crate) bad_floors: u8,
    pub(crate) recoveries: u8,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            without: Without::Nothing,
            all_ms: 0,
            volume_ms: 0,
            gateway_ms: 0,
            writes: 1,
            all_answer: false,
            restarts: 0,
            gateway_restarts: 0,
            bad_messages: 0,
            other_messages: 0,
            bad_floors: 0,
            recoveries: 0,
        }
    }
}

/// One volume's guarantees, and its row of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Acceptor {
    reading: Timestamp,
    durable_bound: Ballot,
    restart_bound: Ballot,
    floor: Ballot,
    data_floor: Timestamp,
    /// Since the restart.
    promised: Ballot,
    row: Ballot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    volumes: [Acceptor; VOLUMES],
    /// Whether the clocks of all, and of the gateway, are still ahead.
    all_ahead: bool,
    gateway_ahead: bool,
    /// Milliseconds since everything happened.
    passed_ms: u64,
    /// The gateway's last ballot and last birth.
    last: Ballot,
    last_birth: Timestamp,
    left: [u8; 7],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The gateway writes; these volumes answer.
    Write {
        mask: u8,
    },
    Restart {
        at: usize,
    },
    RestartGateway,
    /// The bad gateway prepares as far ahead as the volume lets it.
    BadPrepare {
        at: usize,
    },
    /// The bad gateway's accept, as far ahead as the volume lets it.
    BadAccept {
        at: usize,
    },
    /// A gateway three minutes ahead prepares.
    OtherPrepare {
        at: usize,
    },
    BadFloor {
        at: usize,
    },
    /// The clocks of all are set back.
    SetBack,
    /// The gateway's clock is set back.
    SetGatewayBack,
    Recover,
}

fn ballot(time: Timestamp, proposer: u64) -> Ballot {
    Ballot { time, proposer: ProposerId(proposer) }
}

fn after(time: Timestamp) -> Timestamp {
    Timestamp::from_u64(time.as_u64() + 1)
}

fn reply<T>(at: usize, result: Result<T, Refusal>) -> Reply<T> {
    let from = Answerer {
        life: Life(1),
        votes: true,
        peers: [].into(),
        opening: OpeningId::NONE,
        durable: Sequence(0),
    };
    let volume = VolumeId([u8::try_from(at).expect("few volumes"); 16]);
    Reply { volume, from, order: Order::default(), result }
}

fn head(row: Ballot) -> Option<RowHead> {
    (row > Ballot::ZERO).then_some(RowHead { ballot: row, digest: [0; 32], committed: false })
}

impl Acceptor {
    fn guarantees(&self, without: Without) -> Guarantees {
        let promised = self.promised.max(self.restart_bound);
        let bound = if without == Without::PromisesNotBound { self.durable_bound } else { promised };
        Guarantees {
            bound,
            floor: self.floor,
            highest: self.row,
            data_floor: self.data_floor,
            lives: vec![(victim(), Life(2))],
        }
    }
}

fn victim() -> VolumeId {
    reply(VICTIM, Ok(())).volume
}

impl Clocks {
    /// A volume that was restarted with its clock ahead takes a set along that recovers from it.
    const fn may_recover_ahead(&self) -> bool {
        self.recoveries > 0 && self.restarts > 0
    }

    fn common(&self, state: &State) -> Timestamp {
        let ahead_ms = if state.all_ahead { self.all_ms } else { 0 };
        Timestamp::from_ms(NOW_MS + ahead_ms + state.passed_ms)
    }

    fn clock_of(&self, state: &State, at: usize) -> Timestamp {
        self.common(state).plus_ms(if at == 0 { self.volume_ms } else { 0 })
    }

    fn gateway_clock(&self, state: &State) -> Timestamp {
        self.common(state).plus_ms(if state.gateway_ahead { self.gateway_ms } else { 0 })
    }

    fn acceptor(&self, volume: &Acceptor) -> AcceptorState {
        let is_out = self.without == Without::OwnReadingCounts;
        AcceptorState {
            floor: volume.floor,
            restart_bound: volume.restart_bound,
            durable_bound: volume.durable_bound,
            clock_reading: if is_out { Timestamp::ZERO } else { volume.reading },
            data_floor: volume.data_floor,
            standing: VoterStatus::Voting,
        }
    }

    fn asked(&self, state: &State, at: usize, ballot: Ballot) -> Circumstances {
        let volume = &state.volumes[at];
        let now = self.clock_of(state, at);
        let now = match self.without {
            Without::RowsDoNotCount => now.max(volume.row.time),
            Without::BoundsDoNotCount => now.max(volume.durable_bound.time),
            Without::FarAheadIsRefused => now.max(ballot.time),
            _ => now,
        };
        Circumstances { epoch: Epoch(0), now }
    }

    fn prepare(&self, state: &mut State, at: usize, ballot: Ballot) -> Result<Vote, Refusal> {
        let volume = state.volumes[at];
        let row = head(volume.row);
        let key = KeyState { row: row.as_ref(), promised: volume.promised, ..KeyState::default() };
        let asked = self.asked(state, at, ballot);
        let promise = judge_prepare(&self.acceptor(&volume), &key, asked, ballot)?;
        let clock = self.clock_of(state, at);
        let changed = &mut state.volumes[at];
        changed.promised = ballot;
        if let Some(bound) = promise.needs_bound {
            changed.durable_bound = changed.durable_bound.max(bound);
            changed.reading = next_reading(changed.reading, clock).unwrap_or(changed.reading);
        }
        Ok(Vote { row: row.map(|head| Row { head, value_bytes: 1, value: None }), floor: volume.floor })
    }

    fn accept(&self, state: &mut State, at: usize, ballot: Ballot, data: &[DataId]) -> Result<(), Refusal> {
        let volume = state.volumes[at];
        let row = head(volume.row);
        let key = KeyState { row: row.as_ref(), promised: volume.promised, ..KeyState::default() };
        judge_accept(&self.acceptor(&volume), &key, self.asked(state, at, ballot), ballot, data)?;
        let changed = &mut state.volumes[at];
        (changed.row, changed.promised) = (ballot, changed.promised.max(ballot));
        Ok(())
    }

    /// One write of the gateway, which these volumes answer: at which ballot it is committed.
    fn write(&self, state: &mut State, mask: u8) -> Option<Ballot> {
        let lives = Lives::default();
        let reached = || (0..VOLUMES).filter(move |at| mask & 1 << at != 0);
        let (mut above, mut began_anew) = (Ballot::ZERO, false);
        for _ in 0..ROUNDS {
            let now = self.gateway_clock(state);
            let time = now.max(after(state.last.time)).max(after(above.time));
            state.last.time = time;
            let ballot = state.last;
            let progress = PrepareProgress { quorums: SET, outstanding: 0, now, lives: &lives };
            let replies: Vec<_> = reached().map(|at| reply(at, self.prepare(state, at, ballot))).collect();
            above = match after_prepare(&replies, &[], progress).outcome {
                PrepareOutcome::Prepared(_) => match self.accepted(state, &replies, progress) {
                    AcceptOutcome::Committed => return Some(ballot),
                    AcceptOutcome::Conflict { above } => above,
                    // The next request's data is born above the floors that refused this one.
                    AcceptOutcome::DataTooOld => Ballot::ZERO,
                    _ => return None,
                },
                PrepareOutcome::Retry { above } => self.follow(above, &replies, now)?,
                PrepareOutcome::TooFarAhead
                    if !began_anew
                        && self.without != Without::BeginAnew
                        && ballot.time > now.plus_ms(FOLLOW_BOUND_MS_MAX) =>
                {
                    began_anew = true;
                    state.last = self::ballot(Timestamp::ZERO, ballot.proposer.0 + 1);
                    Ballot::ZERO
                }
                _ => return None,
            };
        }
        None
    }

    /// Bound above which the gateway goes.
    fn follow(&self, above: Ballot, replies: &[Reply<Vote>], now: Timestamp) -> Option<Ballot> {
        let bounds = replies.iter().filter_map(|reply| match reply.result {
            Err(Refusal::Below { bound }) => Some(bound),
            _ => None,
        });
        let is_far = above.time > now.plus_ms(FOLLOW_BOUND_MS_MAX);
        match self.without {
            Without::StepsAreFollowed if is_far => None,
            Without::LowestFirst if is_far => bounds.max(),
            Without::FollowFourMinutes => bounds.max(),
            _ => Some(above),
        }
    }

    fn accepted(
        &self,
        state: &mut State,
        votes: &[Reply<Vote>],
        progress: PrepareProgress<'_>,
    ) -> AcceptOutcome {
        state.last_birth = progress.now.max(after(state.last_birth));
        let data = [DataId { birth: state.last_birth, proposer: state.last.proposer }];
        let ballot = state.last;
        let replies: Vec<_> = votes
            .iter()
            .map(|vote| usize::from(vote.volume.0[0]))
            .map(|at| reply(at, self.accept(state, at, ballot, &data)))
            .collect();
        for told in &replies {
            if let Err(Refusal::DataTooOld { floor }) = told.result
                && self.without != Without::BirthsAboveFloors
            {
                state.last_birth = state.last_birth.max(floor);
            }
        }
        after_accept(&replies, progress).outcome
    }

    /// The latest ballot of a bad gateway that a volume takes.
    fn worst(&self, state: &State, at: usize) -> Ballot {
        let mut tried = *state;
        match self.prepare(&mut tried, at, ballot(FAR, 99)) {
            Err(Refusal::TooFarAhead { latest }) => ballot(latest, 99),
            _ => ballot(FAR, 99),
        }
    }

    fn recover(&self, state: &mut State) -> bool {
        let voters = [0, 1];
        let reports: Vec<_> =
            voters.map(|at| reply(at, Ok(state.volumes[at].guarantees(self.without)))).into();
        let now = if self.without == Without::FarAheadIsNoVoter { FAR } else { self.common(state) };
        let found = barrier(victim(), Life(2), &reports, SET, &Lives::default(), now);
        let Some(found) = found else { return false };
        let mut lost =
            Acceptor { floor: found.floor, data_floor: found.guarantees.data_floor, ..Acceptor::default() };
        for at in voters {
            let clock = self.clock_of(state, at);
            let voter = &mut state.volumes[at];
            let judged = judge_floor(VoterStatus::Voting, found.floor, voter.floor, clock);
            if judged.is_err() && self.without != Without::FarAheadIsNoVoter {
                return false;
            }
            voter.floor = raise_floor(voter.floor, found.floor);
            if let Some(row) = head(voter.row)
                && adopt(head(lost.row).as_ref(), &row) == Adoption::Take
            {
                lost.row = voter.row;
            }
        }
        state.volumes[VICTIM] = lost;
        true
    }

    fn bad_floor(&self, state: &mut State, at: usize) -> bool {
        let clock = self.clock_of(state, at);
        let floor = match judge_data_floor(VoterStatus::Voting, FAR, clock) {
            Err(Refusal::TooFarAhead { latest }) if self.without != Without::DataFloorsAreJudged => latest,
            _ => FAR,
        };
        let volume = &mut state.volumes[at];
        let raised = raise_data_floor(volume.data_floor, floor);
        let is_higher = raised > volume.data_floor;
        volume.data_floor = raised;
        is_higher
    }

    /// Takes a step; whether it changes anything.
    fn take(&self, state: &mut State, step: Step) -> bool {
        match step {
            Step::Write { mask } => {
                self.write(state, mask);
                true
            }
            Step::Restart { at } => {
                let volume = &mut state.volumes[at];
                volume.restart_bound = after_restart(&self.acceptor(volume)).restart_bound;
                volume.promised = Ballot::ZERO;
                true
            }
            Step::RestartGateway => {
                state.last = ballot(Timestamp::ZERO, state.last.proposer.0 + 1);
                state.last_birth = Timestamp::ZERO;
                true
            }
            Step::BadPrepare { at } => {
                let worst = self.worst(state, at);
                self.prepare(state, at, worst).is_ok()
            }
            Step::BadAccept { at } => {
                let worst = self.worst(state, at);
                self.accept(state, at, worst, &[]).is_ok()
            }
            Step::OtherPrepare { at } => {
                let time = self.common(state).plus_ms(3 * MINUTE_MS);
                self.prepare(state, at, ballot(time, 98)).is_ok()
            }
            Step::BadFloor { at } => self.bad_floor(state, at),
            Step::SetBack => std::mem::take(&mut state.all_ahead),
            Step::SetGatewayBack => std::mem::take(&mut state.gateway_ahead),
            Step::Recover => self.recover(state),
        }
    }
}

impl Model for Clocks {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State {
            volumes: [Acceptor::default(); VOLUMES],
            all_ahead: self.all_ms > 0,
            gateway_ahead: self.gateway_ms > 0,
            passed_ms: 0,
            last: ballot(Timestamp::ZERO, 1),
            last_birth: Timestamp::ZERO,
            left: [
                self.writes,
                self.restarts,
                self.gateway_restarts,
                self.bad_messages,
                self.other_messages,
                self.bad_floors,
                self.recoveries,
            ],
        }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        let mut step = |budget: Option<usize>, step: Step| {
            let mut after = *state;
            if let Some(budget) = budget {
                let Some(left) = after.left[budget].checked_sub(1) else { return };
                after.left[budget] = left;
            }
            if self.take(&mut after, step) {
                out.push((step, after));
            }
        };
        for mask in if self.all_answer { &[7][..] } else { &[3, 5, 6, 7] }.iter().copied() {
            step(Some(0), Step::Write { mask });
        }
        for at in 0..VOLUMES {
            step(Some(1), Step::Restart { at });
            step(Some(3), Step::BadPrepare { at });
            step(Some(3), Step::BadAccept { at });
            step(Some(4), Step::OtherPrepare { at });
            step(Some(5), Step::BadFloor { at });
        }
        step(Some(2), Step::RestartGateway);
        step(Some(6), Step::Recover);
        step(None, Step::SetBack);
        step(None, Step::SetGatewayBack);
    }

    fn violation(&self, state: &State) -> Option<String> {
        let mut later = State { passed_ms: MINUTE_MS, ..*state };
        let good = |at: &usize| *at > 0 || self.volume_ms == 0;
        let soon = self.common(state).minus_ms(BODY_MS_MAX);
        if self.recoveries == 0 && (0..VOLUMES).filter(good).any(|at| later.volumes[at].data_floor > soon) {
            return Some("a volume with a good clock refuses bodies that are under way".to_owned());
        }
        // A gateway whose clock is wrong now writes nothing, which is its own loss.
        if later.gateway_ahead {
            return None;
        }
        let latest = self.common(&later).plus_ms(BALLOT_AHEAD_MS_MAX);
        match self.write(&mut later, 7) {
            None => Some("a minute later a write fails".to_owned()),
            Some(ballot) if self.all_ms == 0 && !self.may_recover_ahead() && ballot.time > latest => {
                Some("one bad clock takes the ballots of all along".to_owned())
            }
            Some(_) => None,
        }
    }
}
