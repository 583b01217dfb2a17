//! Whole as of a cut: from when on it is known that a volume holds what it should.
//!
//! A cut is a moment T of the monotonic clock of the volume's node. A volume that is whole as of T holds, of
//! every value that was acknowledged before T and is still the newest, the row and its shard. A round of
//! looks belongs to one opening: a restart forgets it, and no part of it counts in the next. Guards I-23 and
//! I-24.

use crate::register::quorum::Quorums;

/// State of a volume since a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutFacts {
    /// Whether it votes.
    pub votes: bool,
    /// Whether the volume walked its own rows for shards since it last lost its state, or never did lose it.
    pub has_walked: bool,
    /// Other volumes of the set that voted in one life throughout a look that began after the cut and went
    /// through: every row that they showed was passed.
    pub looked_through: usize,
    /// Wants logged until the last of these looks was through that neither ended nor are flagged as lost.
    pub open_wants: u64,
}

/// Whether a volume is whole as of the cut.
///
/// A value acknowledged before the cut was accepted by A volumes before any of these looks began; of any
/// P - 1 others one shows it, or a row above it. Equal rows are not wholeness: a row is stored before its
/// shard is there, and a rebuilt volume has its rows before it walked them.
pub const fn is_whole(facts: CutFacts, quorums: Quorums) -> bool {
    facts.votes && facts.has_walked && facts.looked_through + 1 >= quorums.prepare() && facts.open_wants == 0
}

/// Whether a volume is a source of one whose directory was seen empty at `seen_empty`: it is whole as of a
/// later cut. An earlier cut says nothing of what was written in between, whose shards may lie on the disk
/// that is missing.
///
/// Both are moments of the clock of the node that decides. Of another node's cut only the age is known: it
/// counts from the moment at which the question was sent, or it looks younger by the time that the answer
/// took.
pub fn is_source<T: Ord + Copy>(whole_cut: Option<T>, seen_empty: T) -> bool {
    whole_cut.is_some_and(|cut| cut > seen_empty)
}

/// Whether a volume is healed where all volumes of its set have been there since `all_there`: it is whole as
/// of a later cut. Moments as of [`is_source`].
pub fn is_healed<T: Ord + Copy>(whole_cut: Option<T>, all_there: T) -> bool {
    whole_cut.is_some_and(|cut| cut > all_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: CutFacts = CutFacts { votes: true, has_walked: true, looked_through: 1, open_wants: 0 };

    #[test]
    fn a_volume_is_whole_when_it_looked_at_p_minus_1_others_and_wants_nothing() {
        let whole = |facts| is_whole(facts, Quorums::of(4));
        assert!(whole(FACTS));
        assert!(!whole(CutFacts { votes: false, ..FACTS }));
        assert!(!whole(CutFacts { has_walked: false, ..FACTS }));
        assert!(!whole(CutFacts { open_wants: 1, ..FACTS }));
        assert!(!whole(CutFacts { looked_through: 0, ..FACTS }));
        assert!(!is_whole(FACTS, Quorums::of(5)), "two others of five");
        assert!(is_whole(CutFacts { looked_through: 2, ..FACTS }, Quorums::of(5)));
    }

    #[test]
    fn a_volume_alone_in_its_set_looks_at_no_other() {
        assert!(is_whole(CutFacts { looked_through: 0, ..FACTS }, Quorums::of(1)));
        assert!(is_whole(CutFacts { looked_through: 0, ..FACTS }, Quorums::of(2)), "both took what counts");
    }

    #[test]
    fn a_source_is_whole_as_of_a_later_cut() {
        assert!(is_source(Some(6), 5));
        assert!(!is_source(Some(5), 5));
        assert!(!is_source(None, 5));
        assert!(is_healed(Some(6), 5));
        assert!(!is_healed(Some(5), 5));
        assert!(!is_healed(None, 5));
    }
}
