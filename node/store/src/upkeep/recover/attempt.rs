//! One try to recover a volume: the others of its set are asked, and what they say of lives and floors is
//! collected. Steps 1 and 2 of the barrier of `core::register::recover`.

use tokio::time::Instant;

use sherd_core::id::{Life, Timestamp, VolumeId};
use sherd_core::message::{Answer, Control};
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply};
use sherd_core::register::recover::{Barrier, Guarantees, barrier, may_scan, next_life};

use super::stall::RecoveryStall;
use crate::peer::{Gather, Pending, VolumeRoute};
use crate::upkeep::recover::limits::CONTROL_PATIENCE;
use crate::volumes::{LocalVolume, VolumeState};

/// One try: its own count of events, and the lives that it was answered in.
pub(super) struct RecoveryTry {
    pub(super) volume: VolumeId,
    pub(super) others: Vec<VolumeRoute>,
    pub(super) quorums: Quorums,
    pub(super) lives: Lives,
    pub(super) arrivals: u32,
}

impl RecoveryTry {
    /// Asks the other volumes of the set, all at one time, and counts arrivals.
    async fn ask_others(
        &mut self,
        question: impl Fn(&VolumeRoute) -> Pending<Answer<Guarantees>>,
    ) -> Vec<Reply<Guarantees>> {
        let asked = self.arrivals;
        let pendings = self.others.iter().enumerate();
        let mut gather = Gather::new(pendings.map(|(place, route)| (place, question(route))));
        let deadline = Instant::now() + CONTROL_PATIENCE;
        let mut replies = Vec::new();
        while let Ok(Some((place, answer))) = tokio::time::timeout_at(deadline, gather.next()).await {
            let Ok(Answer { from, result }) = answer else { continue };
            self.arrivals += 1;
            let volume = self.others[place].volume;
            self.lives.learn_from(volume, &from);
            let order = Order { asked, arrived: self.arrivals };
            replies.push(Reply { volume, from, order, result });
        }
        replies
    }

    fn too_few(&self, replies: &[Reply<Guarantees>]) -> RecoveryStall {
        let voters = replies.iter().filter(|reply| reply.from.votes && reply.result.is_ok()).count();
        RecoveryStall::Voters { voters, needed: self.quorums.prepare() }
    }

    /// A life above every one that is known, begun durably on the volume itself.
    pub(super) async fn begin_life(&mut self, volume: &LocalVolume) -> Result<Life, RecoveryStall> {
        let known = self.ask_others(|route| route.peer.guarantees(route.volume)).await;
        let own = match volume.serving() {
            Ok(serving) => serving.reader.answerer().life,
            Err(_) => Life(0),
        };
        let life = next_life(self.volume, own, &known, self.quorums, &self.lives)
            .ok_or_else(|| self.too_few(&known))?;
        match volume.state() {
            VolumeState::Vacant { .. } => {
                volume.adopt(life).await.map_err(|error| RecoveryStall::Own(error.to_string()))?;
            }
            _ => volume.begin_life(life).await.map_err(|error| RecoveryStall::Own(error.to_string()))?,
        }
        Ok(life)
    }

    /// Step 1: P voters durably record the life, and then report.
    pub(super) async fn raise_barrier(
        &mut self,
        life: Life,
        now: Timestamp,
    ) -> Result<(Barrier, Vec<Reply<Guarantees>>), RecoveryStall> {
        let lost = self.volume;
        self.lives.learn(lost, life);
        let record = Control::RecordLife { volume: lost, life };
        let mut reports = self.ask_others(|route| route.peer.control(route.volume, record.clone())).await;
        reports.retain(|reply| reply.from.votes && reply.result.is_ok());
        let is_far = |reply: &Reply<Guarantees>| {
            reply.result.as_ref().is_ok_and(|guarantees| guarantees.is_far_ahead(now))
        };
        let far = reports.iter().find(|reply| is_far(reply)).map(|reply| reply.volume);
        reports.retain(|reply| !is_far(reply));
        // P are enough, and each more would have to be scanned.
        reports.truncate(self.quorums.prepare());
        match barrier(lost, life, &reports, self.quorums, &self.lives, now) {
            Some(barrier) => Ok((barrier, reports)),
            None => {
                Err(far.map_or_else(|| self.too_few(&reports), |volume| RecoveryStall::FarAhead { volume }))
            }
        }
    }

    /// Step 2: F is the durable floor of each of them.
    pub(super) async fn raise_floors(
        &mut self,
        barrier: &Barrier,
    ) -> Result<Vec<Reply<Guarantees>>, RecoveryStall> {
        let raise = Control::RaiseFloor { floor: barrier.floor };
        let voters: Vec<VolumeId> = barrier.voters.iter().map(|(volume, _)| *volume).collect();
        self.others.retain(|route| voters.contains(&route.volume));
        let confirmations = self.ask_others(|route| route.peer.control(route.volume, raise.clone())).await;
        if may_scan(barrier, &confirmations, &self.lives) {
            Ok(confirmations)
        } else {
            Err(RecoveryStall::Changed)
        }
    }

    /// The voters to scan.
    pub(super) fn sources(&self) -> &[VolumeRoute] {
        &self.others
    }

    /// The count of events so far: a question that is sent now was sent after all of them.
    pub(super) const fn now(&self) -> u32 {
        self.arrivals
    }
}
