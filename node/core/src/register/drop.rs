//! Dropping a tombstone: the confirmations that are needed before a deleted key is forgotten.
//!
//! ```text
//! 1. every volume of the set raises its floor to the tombstone's ballot, durably
//! 2. every volume is then asked for its row: this very tombstone, or nothing; one has it as committed
//! 3. only then each drops it, if its row is still that tombstone (`acceptor::judge_drop`)
//! ```
//! All N, not a quorum: a volume that missed the tombstone still holds what it deleted, and once the
//! others have forgotten the tombstone, that old row is the highest of all. The floor is what stays:
//! a late accept from before the deletion is refused by it for ever.
//!
//! All N may show a tombstone that is not committed, or nothing: some of the rows are copies that a volume
//! adopted when it recovered, and an accept of a higher ballot, made from what the tombstone deletes, is
//! under way to a volume that shows nothing. Dropped then, the key would read as absent and have its earlier
//! value again. Guards I-10.

use crate::id::{Ballot, Timestamp};
use crate::limits::TOMBSTONE_AGE_MS;
use crate::register::Vote;
use crate::register::quorum::{Lives, Quorums, Reply, voters};

/// Whether a tombstone is old enough to be dropped: a day. Raising floors to a ballot of today would
/// refuse writes that are under way on other keys.
pub fn is_old_enough(tombstone: Ballot, now: Timestamp) -> bool {
    tombstone.time.plus_ms(TOMBSTONE_AGE_MS) <= now
}

/// Whether a vote confirms a drop of the tombstone at `ballot`: floor raised, and this very
/// tombstone or nothing held. An older row can never be replaced by this tombstone any more (the
/// floor refuses it): the key first gets an identity write at a fresh ballot.
pub fn confirms_drop(vote: &Vote, ballot: Ballot) -> bool {
    vote.floor >= ballot && vote.row.as_ref().is_none_or(|row| row.head.ballot == ballot)
}

/// Whether the tombstone at `ballot` may be dropped: all N volumes of the set, voting and in their
/// current life, confirm, and one of them holds it as committed. A volume's floor in its vote is durable.
pub fn may_drop(ballot: Ballot, votes: &[Reply<Vote>], quorums: Quorums, lives: &Lives) -> bool {
    let confirming = voters(votes, lives).filter(|(_, vote)| confirms_drop(vote, ballot));
    let is_committed = |vote: &Vote| vote.row.as_ref().is_some_and(|row| row.head.committed);
    confirming.clone().count() >= quorums.volumes
        && confirming.into_iter().any(|(_, vote)| is_committed(vote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ProposerId, Timestamp, VolumeId};
    use crate::register::position::OpeningId;
    use crate::register::quorum::Order;
    use crate::register::{Answerer, Row, RowHead};

    fn ballot(time: u64) -> Ballot {
        Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
    }

    fn vote(volume: u8, row: Option<u64>, floor: u64) -> Reply<Vote> {
        let from = Answerer {
            life: crate::id::Life(1),
            votes: true,
            peers: [].into(),
            opening: OpeningId::NONE,
            durable: crate::id::Sequence(0),
        };
        let row = row.map(|time| Row {
            head: RowHead { ballot: ballot(time), digest: [0; 32], committed: true },
            value_bytes: 1,
            value: None,
        });
        let result = Ok(Vote { row, floor: ballot(floor) });
        Reply { volume: VolumeId([volume; 16]), from, order: Order::default(), result }
    }

    #[test]
    fn all_volumes_must_hold_this_tombstone_or_nothing_above_the_floor() {
        let (set, lives) = (Quorums::of(3), Lives::default());
        let drops = |votes: &[Reply<Vote>]| may_drop(ballot(5), votes, set, &lives);
        assert!(drops(&[vote(1, Some(5), 5), vote(2, None, 7), vote(3, Some(5), 5)]));
        assert!(!drops(&[vote(1, Some(5), 5), vote(2, None, 7)]), "two of three");
        assert!(!drops(&[vote(1, Some(5), 5), vote(2, None, 4), vote(3, Some(5), 5)]), "a floor below");
        assert!(!drops(&[vote(1, Some(5), 5), vote(2, Some(3), 5), vote(3, Some(5), 5)]), "an older row");
        assert!(!drops(&[vote(1, Some(5), 5), vote(2, Some(9), 5), vote(3, Some(5), 5)]), "a newer row");
    }

    #[test]
    fn a_tombstone_that_none_of_them_holds_as_committed_is_kept() {
        let mut votes = [vote(1, Some(5), 5), vote(2, None, 5), vote(3, Some(5), 5)];
        let mut set_committed = |at: usize, committed| {
            let row = votes[at].result.as_mut().ok().and_then(|vote| vote.row.as_mut());
            row.expect("it shows the tombstone").head.committed = committed;
            may_drop(ballot(5), &votes, Quorums::of(3), &Lives::default())
        };
        assert!(set_committed(0, false), "the other one holds it as committed");
        assert!(!set_committed(2, false));
    }

    #[test]
    fn a_tombstone_of_today_is_kept() {
        let made = Timestamp::from_ms(5);
        assert!(!is_old_enough(ballot(5), made.plus_ms(TOMBSTONE_AGE_MS - 1)));
        assert!(is_old_enough(ballot(5), made.plus_ms(TOMBSTONE_AGE_MS)));
    }

    #[test]
    fn a_recovering_volume_confirms_nothing() {
        let mut votes = [vote(1, Some(5), 5), vote(2, None, 5), vote(3, None, 5)];
        votes[2].from.votes = false;
        assert!(!may_drop(ballot(5), &votes, Quorums::of(3), &Lives::default()));
    }
}
