//! Work after a commit: one hint a row, with whether every volume stored it, and a look at the volumes that
//! may lack it.

use futures::future::join_all;
use tokio::time::Instant;

use sherd_core::id::Ballot;
use sherd_core::message::{Answer, Target, ValueLimit};
use sherd_core::register::{CommitHint, Refusal};

use super::Registers;
use super::limits::{FASTER_ONE_ENDS, HINT_PATIENCE};
use super::round::Round;

impl Registers {
    /// Sends every volume the hint that the value is committed and whether all have it, and looks after those
    /// that may lack it.
    ///
    /// It is one hint a row, which waits a little for the last answers. A proposer that dies before leaves
    /// the row unsettled where it is; one that dies later has left it listed on those that have it.
    pub(super) fn committed(&self, round: Round<()>, target: &Target, ballot: Ballot) {
        let was_missed = round.was_missed(self.now());
        if was_missed {
            self.inner.damage.row(&target.key);
        }
        let is_sent = was_missed || round.waits_for_late_alone();
        if is_sent {
            send_hint(&round, target, ballot);
        }
        if !was_missed && (round.outstanding() > 0 || round.refused().next().is_some()) {
            let (registers, target) = (self.clone(), target.clone());
            self.inner.tasks.spawn(async move {
                let round = registers.send_late_hint(round, &target, ballot, is_sent).await;
                if registers.may_be_missed(round, &target, ballot).await {
                    registers.inner.damage.row(&target.key);
                }
            });
        }
    }

    /// Waits for the rest of a decided round. Sends the hint, unless it is sent, when all have answered or it
    /// took long; and once more where those that took long have the row after all. Reports clocks that late
    /// answers show to be far off: the decision reported those that it saw.
    async fn send_late_hint(
        &self,
        mut round: Round<()>,
        target: &Target,
        ballot: Ballot,
        is_sent: bool,
    ) -> Round<()> {
        let reported = round.skewed(self.now());
        if !is_sent {
            round.receive_until(self, Instant::now() + HINT_PATIENCE).await;
            send_hint(&round, target, ballot);
        }
        if round.outstanding() > 0 {
            while round.outstanding() > 0 {
                round.next(self).await;
            }
            if round.is_everywhere() {
                send_hint(&round, target, ballot);
            }
        }
        let mut skewed = round.skewed(self.now());
        skewed.retain(|volume| !reported.contains(volume));
        self.note_skew(&skewed);
        round
    }

    /// Says whether a volume may lack what a round decided, or newer; all have answered, or failed to.
    async fn may_be_missed(&self, round: Round<()>, target: &Target, ballot: Ballot) -> bool {
        if round.was_missed(self.now()) {
            return true;
        }
        if round.refused().next().is_none() {
            return false;
        }
        // In a box: the future of every write is kept small.
        Box::pin(self.look_again(&round, target, ballot)).await
    }

    /// Asks those that refused once more, after a faster proposer has ended.
    async fn look_again(&self, round: &Round<()>, target: &Target, ballot: Ballot) -> bool {
        // Where too many wait here, the heal of the row looks at it.
        let Ok(_place) = self.inner.second_looks.try_acquire() else {
            return round.refused().any(|(_, votes)| votes);
        };
        tokio::time::sleep(FASTER_ONE_ENDS).await;
        let looks = round.refused().map(|(route, _)| async move {
            let pending = route.peer.read(route.volume, target, ValueLimit::NOTHING);
            match tokio::time::timeout(self.inner.timeouts.round, pending).await {
                Ok(Ok(Answer { result: Ok(vote), .. })) => {
                    vote.row.is_none_or(|row| row.head.ballot < ballot)
                }
                // A recovering volume is compared with the others, or gets all rows, from a point behind this
                // row.
                Ok(Ok(Answer { result: Err(Refusal::Recovering), .. })) => false,
                Ok(Ok(_) | Err(_)) | Err(_) => true,
            }
        });
        join_all(looks).await.contains(&true)
    }
}

/// Sends every volume the hint that the value is committed, and whether every one has it.
fn send_hint(round: &Round<()>, target: &Target, ballot: Ballot) {
    // After the accepts: an idle volume's position would otherwise be noted with the next write.
    let commit = CommitHint { ballot, is_everywhere: round.is_everywhere(), positions: round.positions() };
    for route in &round.set.routes {
        route.peer.commit(route.volume, target, &commit);
    }
}
