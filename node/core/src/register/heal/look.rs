//! One look of a volume at a peer: which rows it asks for, what it does with each, and how far it got. Guards
//! I-22 and I-23.

use crate::id::{Ballot, Life, Sequence, Timestamp};
use crate::limits::FINISH_AFTER_MS;
use crate::register::recover::{Adoption, adopt};
use crate::register::{Answerer, RowHead};

/// How far a volume has every row of a peer: those of this life of the peer's log, up to this sequence.
///
/// Its holder writes it by looks alone, durably, after the rows that it pulled and their wants are durable,
/// and sends it to the peer only when it is durable itself: a cursor that a crash takes back would have
/// taken rows off the peer's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerCursor {
    /// Life of the peer.
    pub life: Life,
    /// Every row of the peer at or below was passed.
    pub sequence: Sequence,
}

/// Treatment of a row that a peer showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShownRow {
    /// Fetch the value and take it as a late accept
    /// ([`judge_accept`](crate::register::acceptor::judge_accept) with nothing introduced), with the
    /// committed flag of the peer's row.
    Pull,
    /// Note that the own row, of the same ballot, is committed.
    LearnCommitted,
    /// Nothing is to be fetched.
    Keep,
}

/// Whether the peer gives all its rows above the cursor, and not the listed ones alone: V has no cursor, or
/// one of another life of the peer, whose sequences say nothing about this one; or the cursor lies below the
/// peer's horizon, up to which its list is not whole.
pub fn needs_walk(cursor: Option<PeerCursor>, life: Life, horizon: Sequence) -> bool {
    cursor.is_none_or(|cursor| cursor.life != life || cursor.sequence < horizon)
}

/// The sequence above which the peer gives rows: the cursor's, or 0 for a cursor of another life.
pub fn rows_above(cursor: Option<PeerCursor>, life: Life) -> Sequence {
    cursor.filter(|cursor| cursor.life == life).map_or(Sequence(0), |cursor| cursor.sequence)
}

/// Whether an answer belongs to a look that began in this life of the peer. One that does not vote, or is in
/// another life, voids the whole look.
pub fn continues_look(life: Life, from: &Answerer) -> bool {
    from.votes && from.life == life
}

/// Treatment of a row that a peer showed by a volume with this own row.
pub fn treat_shown(own: Option<&RowHead>, shown: &RowHead) -> ShownRow {
    match adopt(own, shown) {
        Adoption::Take => ShownRow::Pull,
        Adoption::LearnCommitted => ShownRow::LearnCommitted,
        Adoption::Keep => ShownRow::Keep,
    }
}

/// Whether a row that a peer showed at this ballot is passed: V holds that ballot or a higher one in a row
/// that it has noted as committed. A row under a final seal is passed without a row of V's.
///
/// An own row that is not known committed passes nothing, neither a lower ballot nor its own: it may lose,
/// and cover on V and on the peer the committed value that V lacks. A ballot that is not passed is judged
/// again when V's row has changed; one that was passed stays so.
pub fn is_passed(own: Option<&RowHead>, shown: Ballot) -> bool {
    own.is_some_and(|own| own.ballot >= shown && own.committed)
}

/// How far a look got: to D, the durable sequence that the peer read before it gave its rows, where every
/// row was passed, else just below the lowest sequence that was not. Only a look without such a row went
/// through.
///
/// A row that was not passed may lie above D: it then took the place of one at or below D that V has not
/// seen, so the cursor stays below D.
pub fn cursor_after(durable: Sequence, lowest_not_passed: Option<Sequence>) -> Sequence {
    lowest_not_passed.map_or(durable, |lowest| Sequence(lowest.min(durable).0.saturating_sub(1)))
}

/// Whether V's node finishes a row that is not passed, by an identity write at a fresh ballot: it waited for
/// [`FINISH_AFTER_MS`], and V's clock is past V's restart bound, below which V takes no accept: the identity
/// write would miss V, for which it is made.
pub fn may_finish(waited_ms: u64, restart_bound: Ballot, now: Timestamp) -> bool {
    waited_ms >= FINISH_AFTER_MS && now > restart_bound.time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ProposerId;
    use crate::register::position::OpeningId;

    fn ballot(time: u64) -> Ballot {
        Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
    }

    fn row(time: u64, committed: bool) -> RowHead {
        RowHead { ballot: ballot(time), digest: [0; 32], committed }
    }

    fn cursor(life: u32, sequence: u64) -> PeerCursor {
        PeerCursor { life: Life(life), sequence: Sequence(sequence) }
    }

    #[test]
    fn a_walk_is_needed_without_a_cursor_of_this_life_above_the_horizon() {
        let walks = |cursor, horizon| needs_walk(cursor, Life(2), Sequence(horizon));
        assert!(walks(None, 0));
        assert!(walks(Some(cursor(1, 9)), 0), "a cursor of another life");
        assert!(walks(Some(cursor(3, 9)), 0));
        assert!(walks(Some(cursor(2, 4)), 5), "below the horizon");
        assert!(!walks(Some(cursor(2, 5)), 5));
        assert!(!walks(Some(cursor(2, 0)), 0));
    }

    #[test]
    fn rows_are_given_above_a_cursor_of_this_life_alone() {
        assert_eq!(rows_above(Some(cursor(2, 7)), Life(2)), Sequence(7));
        assert_eq!(rows_above(Some(cursor(1, 7)), Life(2)), Sequence(0));
        assert_eq!(rows_above(None, Life(2)), Sequence(0));
    }

    #[test]
    fn another_life_or_one_that_does_not_vote_voids_a_look() {
        let answer = |life, votes| Answerer {
            life: Life(life),
            votes,
            peers: [].into(),
            opening: OpeningId(1),
            durable: Sequence(1),
        };
        assert!(continues_look(Life(2), &answer(2, true)));
        assert!(!continues_look(Life(2), &answer(2, false)));
        assert!(!continues_look(Life(2), &answer(3, true)));
        assert!(!continues_look(Life(2), &answer(1, true)));
    }

    #[test]
    fn a_lower_row_is_pulled_over_and_an_equal_one_learns_the_flag() {
        assert_eq!(treat_shown(None, &row(5, false)), ShownRow::Pull);
        assert_eq!(treat_shown(Some(&row(4, true)), &row(5, false)), ShownRow::Pull);
        assert_eq!(treat_shown(Some(&row(5, false)), &row(5, true)), ShownRow::LearnCommitted);
        assert_eq!(treat_shown(Some(&row(5, true)), &row(5, true)), ShownRow::Keep);
        assert_eq!(treat_shown(Some(&row(5, false)), &row(5, false)), ShownRow::Keep);
        assert_eq!(treat_shown(Some(&row(6, false)), &row(5, true)), ShownRow::Keep);
    }

    #[test]
    fn only_a_row_known_committed_passes_another() {
        assert!(is_passed(Some(&row(5, true)), ballot(5)));
        assert!(is_passed(Some(&row(6, true)), ballot(5)));
        assert!(!is_passed(Some(&row(5, false)), ballot(5)), "it may lose");
        assert!(!is_passed(Some(&row(6, false)), ballot(5)), "it may cover the value that is");
        assert!(!is_passed(Some(&row(4, true)), ballot(5)), "a row that was refused");
        assert!(!is_passed(None, ballot(5)));
    }

    #[test]
    fn a_cursor_stops_below_the_lowest_row_that_was_not_passed() {
        assert_eq!(cursor_after(Sequence(9), None), Sequence(9));
        assert_eq!(cursor_after(Sequence(9), Some(Sequence(4))), Sequence(3));
        assert_eq!(
            cursor_after(Sequence(9), Some(Sequence(12))),
            Sequence(8),
            "what it replaced is not seen"
        );
        assert_eq!(cursor_after(Sequence(0), Some(Sequence(1))), Sequence(0));
    }

    #[test]
    fn a_row_is_finished_after_its_wait_and_the_restart_bound() {
        let now = Timestamp::from_ms(50);
        assert!(may_finish(FINISH_AFTER_MS, ballot(49), now));
        assert!(!may_finish(FINISH_AFTER_MS - 1, ballot(49), now));
        assert!(!may_finish(FINISH_AFTER_MS, ballot(50), now), "V would refuse the accept");
    }
}
