//! One round: a question to volumes of a set, and the replies that came.
//!
//! A volume that does not answer, or cannot read its row, has no reply; it is only counted down.

use sherd_core::id::{Timestamp, VolumeId};
use sherd_core::message;
use sherd_core::message::Answer;
use sherd_core::register::proposer::{Decision, PrepareProgress, is_skewed};
use sherd_core::register::quorum::{Lives, Order, Reply};
use sherd_core::register::{Positions, Refusal};

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::Registers;
use super::failure::Failure;
use crate::cluster::{SET_USUAL, SetView};
use crate::observe::metrics::Metrics;
use crate::observe::trace::{Phase, RequestTrace, VolumeCall};
use crate::peer::{Gather, LATE_LOOK_EVERY, Pending, VolumeRoute};

/// The replies to one question so far.
#[derive(Debug)]
pub(super) struct Round<R> {
    pub(super) set: Arc<SetView>,
    pub(super) replies: Vec<Reply<R>>,
    pub(super) gather: Gather<Answer<R>>,
    /// Places whose volume failed to answer, and why.
    pub(super) failed: Vec<(usize, message::Error)>,
    arrivals: u32,
    /// For each place, the arrivals counted when it was asked.
    asked: SmallVec<[u32; SET_USUAL]>,
    deadline: Instant,
    /// A place that had not answered at the deadline.
    late: Option<(usize, Duration)>,
}

/// Durations of the rounds of a change, and the slowest of the calls that they waited for.
#[derive(Debug, Default)]
pub(super) struct RoundTimes {
    pub(super) prepare: Duration,
    pub(super) accept: Duration,
    pub(super) slowest: Option<VolumeCall>,
}

impl RoundTimes {
    pub(super) fn called(&mut self, call: Option<VolumeCall>) {
        if let Some(call) = call
            && self.slowest.as_ref().is_none_or(|slowest| slowest.took < call.took)
        {
            self.slowest = Some(call);
        }
    }

    /// Adds them to the times of a request.
    pub(super) fn count_for(&self, request: &RequestTrace) {
        request.add(Phase::Prepare, self.prepare);
        request.add(Phase::Accept, self.accept);
        if let Some(call) = &self.slowest {
            request.called(|| call.clone(), call.took);
        }
    }
}

impl<R: Unpin> Round<R> {
    /// Begins a round without questions.
    pub(super) fn new(set: Arc<SetView>, deadline: Instant) -> Self {
        let asked = SmallVec::from_elem(0, set.routes.len());
        Self {
            set,
            replies: Vec::new(),
            gather: Gather::new([]),
            failed: Vec::new(),
            arrivals: 0,
            asked,
            deadline,
            late: None,
        }
    }

    pub(super) fn ask(&mut self, place: usize, pending: Pending<Answer<R>>) {
        self.asked[place] = self.arrivals;
        self.gather.push(place, pending);
    }

    /// Counts the round, which was decided, by the time of its slowest answer, and gives that call.
    pub(super) fn count(&self, phase: Phase, metrics: &Metrics) -> Option<VolumeCall> {
        let slowest = [self.late, self.gather.slowest()].into_iter().flatten().max_by_key(|(_, took)| *took);
        let (place, took) = slowest?;
        metrics.register.round_took(phase, took);
        let call = self.set.call(phase, place, took);
        tracing::debug!(?phase, node = &*call.node, volume = %call.volume, ?took, "round decided; its slowest answer");
        Some(call)
    }

    /// Notes the volume that is waited for and has not answered.
    pub(super) fn note_late(&mut self) {
        self.late = self.gather.waits_for().or(self.late);
    }

    /// How far the logs of the volumes that answered are.
    pub(super) fn positions(&self) -> Positions {
        self.replies.iter().map(|reply| (reply.volume, reply.from.position())).collect()
    }

    pub(super) fn outstanding(&self) -> usize {
        self.gather.len()
    }

    /// Waits for the next answer a little; says whether one came (or a volume failed).
    pub(super) async fn next_soon(&mut self, registers: &Registers) -> bool {
        tokio::time::timeout(registers.inner.timeouts.hedge, self.next(registers)).await.is_ok()
    }

    /// Takes what answers until then.
    pub(super) async fn receive_until(&mut self, registers: &Registers, until: Instant) {
        // Cancel-safe: an answer that was taken was counted.
        while self.outstanding() > 0 && tokio::time::timeout_at(until, self.next(registers)).await.is_ok() {}
    }

    /// Waits for the next answer. At the deadline, volumes that have not answered count as failed.
    pub(super) async fn next(&mut self, registers: &Registers) {
        self.next_after(registers, 1).await;
    }

    /// Whether no answer is to come but those of late volumes.
    pub(super) fn waits_for_late_alone(&self) -> bool {
        self.gather.places().all(|place| self.set.is_late(place))
    }

    /// Waits for the next answer, as long as a quorum of others does not make those that are late unneeded:
    /// then they have failed, as at the deadline.
    pub(super) async fn next_needed(&mut self, registers: &Registers, quorum: usize, enough: usize) {
        loop {
            let (lives, now) = (registers.known_lives(), registers.now());
            let counts = |reply: &&Reply<R>| {
                lives.counts(reply.volume, &reply.from) && replaces_late(reply.result.as_ref().err(), now)
            };
            if self.replies.iter().filter(counts).count() < quorum {
                return self.next_after(registers, enough).await;
            }
            if self.waits_for_late_alone() {
                return self.give_up(registers);
            }
            // Cancel-safe: an answer is taken only in the poll that ends the wait.
            let next = self.next_after(registers, enough);
            if tokio::time::timeout(LATE_LOOK_EVERY, next).await.is_ok() {
                return;
            }
        }
    }

    /// Counts volumes that have not answered as failed.
    fn give_up(&mut self, registers: &Registers) {
        while let Some((place, result)) = self.gather.take_now() {
            self.receive(registers, place, result);
        }
        self.note_late();
        let late = std::mem::replace(&mut self.gather, Gather::new([]));
        for place in late.places() {
            self.fail(place, message::Error::Unreachable { reason: "no answer in time".to_owned() });
        }
    }

    /// Takes the next answer once `enough` of them are there.
    async fn next_after(&mut self, registers: &Registers, enough: usize) {
        let gather = &mut self.gather;
        let next = async {
            if enough > 1 {
                gather.gathered(enough).await;
            }
            gather.next().await
        };
        match tokio::time::timeout_at(self.deadline, next).await {
            Ok(Some((place, result))) => self.receive(registers, place, result),
            Ok(None) => {}
            Err(_elapsed) => self.give_up(registers),
        }
    }

    fn receive(&mut self, registers: &Registers, place: usize, result: message::Result<Answer<R>>) {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return self.fail(place, error),
        };
        self.arrivals += 1;
        let volume = self.set.routes[place].volume;
        registers.learn(volume, &answer.from);
        if let Err(Refusal::DataTooOld { floor }) = &answer.result {
            registers.note_data_floor(*floor);
        }
        let order = Order { asked: self.asked[place], arrived: self.arrivals };
        self.replies.retain(|reply| reply.volume != volume);
        self.replies.push(Reply { volume, from: answer.from, order, result: answer.result });
    }

    fn fail(&mut self, place: usize, error: message::Error) {
        let volume = self.set.routes[place].volume;
        self.replies.retain(|reply| reply.volume != volume);
        self.failed.push((place, error));
    }

    /// Waits until `decide` no longer says that it waits.
    pub(super) async fn decide<T>(
        &mut self,
        registers: &Registers,
        decide: impl Fn(&[Reply<R>], PrepareProgress<'_>) -> Decision<T>,
        waits: impl Fn(&T) -> bool,
    ) -> Decision<T> {
        // Fewer votes decide nothing but a retry: the task sleeps until an accept quorum has answered.
        let quorum = self.set.quorums().accept();
        loop {
            let lives = registers.known_lives();
            let decision = decide(&self.replies, self.progress(registers.now(), &lives));
            if !waits(&decision.outcome) || self.outstanding() == 0 {
                registers.note_skew(&decision.skewed);
                return decision;
            }
            let missing = quorum.saturating_sub(self.replies.len());
            self.next_needed(registers, quorum, missing).await;
        }
    }

    pub(super) fn progress<'a>(&self, now: Timestamp, lives: &'a Lives) -> PrepareProgress<'a> {
        PrepareProgress { quorums: self.set.quorums(), outstanding: self.outstanding(), now, lives }
    }

    /// Whether every volume of the set took what was asked of it.
    pub(super) fn is_everywhere(&self) -> bool {
        self.replies.len() == self.set.routes.len() && self.replies.iter().all(|reply| reply.result.is_ok())
    }

    /// Whether some volume surely does not have what the others accepted: it did not answer, its clock is far
    /// from theirs, or it takes no data as old.
    pub(super) fn was_missed(&self, now: Timestamp) -> bool {
        let is_too_old = |reply: &Reply<R>| matches!(reply.result, Err(Refusal::DataTooOld { .. }));
        !self.failed.is_empty() || !self.skewed(now).is_empty() || self.replies.iter().any(is_too_old)
    }

    /// Volumes whose refusal says that their clock is far from this node's.
    pub(super) fn skewed(&self, now: Timestamp) -> Vec<VolumeId> {
        let refused =
            self.replies.iter().filter_map(|reply| Some((reply.volume, *reply.result.as_ref().err()?)));
        refused.filter(|(_, refusal)| is_skewed(*refusal, now)).map(|(volume, _)| volume).collect()
    }

    /// Volumes that refused, and whether they vote. A competing write usually reaches them, but not always: a
    /// prepare may have come to nothing, a bound stand behind a restart, a seal be taken back.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&VolumeRoute, bool)> {
        let refusals =
            self.replies.iter().filter_map(|reply| Some((reply.volume, reply.result.as_ref().err()?)));
        refusals.filter_map(|(volume, refusal)| {
            let route = self.set.routes.iter().find(|route| route.volume == volume)?;
            Some((route, *refusal != Refusal::Recovering))
        })
    }

    /// Why a round without a quorum failed, as the volumes that failed say it.
    pub(super) fn failure(&self) -> Failure {
        let any = |error: &message::Error| self.failed.iter().any(|(_, failed)| failed == error);
        if any(&message::Error::Full) {
            Failure::Full
        } else if any(&message::Error::Busy) {
            Failure::Overloaded
        } else {
            Failure::Unavailable
        }
    }
}

/// Whether an answer makes that of a late volume unneeded: it is a vote, or will be one at the next ballot.
/// With any other refusal in their place a quorum of votes may need the late one.
fn replaces_late(refusal: Option<&Refusal>, now: Timestamp) -> bool {
    let Some(refusal) = refusal else { return true };
    match refusal {
        // The next ballot is above the bound, where that is near. A bound of a clock that is far ahead is not
        // followed.
        Refusal::Below { .. } => !is_skewed(*refusal, now),
        // The volume's clock takes no ballot that the others' clocks give.
        Refusal::TooFarAhead { .. }
        // The volume refuses every ballot of the topology that the others vote in.
        | Refusal::StaleEpoch { .. }
        // The volume refuses every ballot until the seal is taken back, which the others may never have had.
        | Refusal::Sealed
        // The volume refuses this value at every ballot.
        | Refusal::DataTooOld { .. }
        // The volume votes when its peers have confirmed what it holds, not at a ballot.
        | Refusal::Recovering => false,
    }
}
