//! Work after a commit: one hint a row, with whether every volume stored it, and a look at the volumes that
//! may lack it.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use sherd_core::id::Ballot;
use sherd_core::message::{Answer, Target, ValueLimit};
use sherd_core::register::{CommitHint, Refusal};

use super::Registers;
use super::round::Round;

/// After which a faster proposer has brought a newer row to a volume that refused ours for it.
const FASTER_ONE_ENDS: Duration = Duration::from_secs(1);
/// How long the hint of a commit waits for the answers that the quorum did not need, so that one hint says
/// whether every volume took the row; for late volumes it does not wait. A volume writes a hint with its next
/// frame, and one that gets no other writes within about a second: until then readers ask whether the row is
/// committed.
const HINT_PATIENCE: Duration = Duration::from_millis(100);

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
        let is_told = was_missed || round.waits_for_late_alone();
        if is_told {
            tell_committed(&round, target, ballot);
        }
        if !was_missed && (round.outstanding() > 0 || round.refused().next().is_some()) {
            let (registers, target) = (self.clone(), target.clone());
            self.inner.tasks.spawn(async move {
                let round = registers.tell_late(round, &target, ballot, is_told).await;
                if registers.somebody_lacks(round, &target, ballot).await {
                    registers.inner.damage.row(&target.key);
                }
            });
        }
    }

    /// Waits for the rest of a decided round. Sends the hint, unless it is sent, when all have answered or it
    /// took long; and once more where those that took long have the row after all. Reports clocks that late
    /// answers show to be far off: the decision reported those that it saw.
    async fn tell_late(
        &self,
        mut round: Round<()>,
        target: &Target,
        ballot: Ballot,
        is_told: bool,
    ) -> Round<()> {
        let reported = round.skewed(self.now());
        if !is_told {
            round.hear_until(self, Instant::now() + HINT_PATIENCE).await;
            tell_committed(&round, target, ballot);
        }
        if round.outstanding() > 0 {
            while round.outstanding() > 0 {
                round.next(self).await;
            }
            if round.is_everywhere() {
                tell_committed(&round, target, ballot);
            }
        }
        let mut skewed = round.skewed(self.now());
        skewed.retain(|volume| !reported.contains(volume));
        self.note_skew(&skewed);
        round
    }

    /// Says whether a volume may lack what a round decided, or newer; all have answered, or failed to.
    async fn somebody_lacks(&self, round: Round<()>, target: &Target, ballot: Ballot) -> bool {
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
            let pending = route.registers.read(route.volume, target, ValueLimit::NOTHING);
            match tokio::time::timeout(self.inner.timeouts.round, pending).await {
                Ok(Ok(Answer { result: Ok(vote), .. })) => {
                    vote.row.is_none_or(|row| row.head.ballot < ballot)
                }
                // It is compared with the others, or gets all rows, from a point behind this one.
                Ok(Ok(Answer { result: Err(Refusal::Recovering), .. })) => false,
                Ok(Ok(_) | Err(_)) | Err(_) => true,
            }
        });
        join_all(looks).await.contains(&true)
    }
}

/// Sends every volume the hint that the value is committed, and whether every one has it.
fn tell_committed(round: &Round<()>, target: &Target, ballot: Ballot) {
    // After the accepts: an idle volume's position would otherwise be noted with the next write.
    let commit = CommitHint { ballot, is_everywhere: round.is_everywhere(), positions: round.positions() };
    for route in &round.set.routes {
        route.registers.commit(route.volume, target, &commit);
    }
}
