//! The list of a volume's rows that may not be everywhere: each that is not known committed there, and each
//! committed one until it is known that all N volumes have it.
//!
//! ```text
//! sequences   0 ........ horizon ................. D
//! list        incomplete |  each row that may not be everywhere
//! ```
//! A row leaves the list when it is replaced or dropped, when a commit hint says that all N took it, or when
//! each of the other volumes sent a cursor at or above its sequence. List and horizon are derived state,
//! durable with the index; after a rebuild of the index the horizon is the end of the log, unless the
//! rebuilt list had room for every row. Guards I-23.

use crate::id::Sequence;

/// Where a row goes that may not be everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListPlace {
    /// Onto the list.
    Listed,
    /// Nowhere: the horizon rises to its sequence ([`horizon_after`]).
    BelowHorizon,
}

/// Where a row goes that was stored, or that a commit hint left on the list. A row that is not known
/// committed is always listed: a proposer that died left no other memory of it. Of committed ones the list
/// holds `committed_max`; `committed_count` of other keys are there.
pub fn place_row(is_committed: bool, committed_count: usize, committed_max: usize) -> ListPlace {
    if is_committed && committed_count >= committed_max { ListPlace::BelowHorizon } else { ListPlace::Listed }
}

/// The horizon after a committed row found no place. It never falls in one life: the rows below are found by
/// a walk alone.
#[must_use]
pub fn horizon_after(horizon: Sequence, sequence: Sequence) -> Sequence {
    horizon.max(sequence)
}

/// Whether a commit hint takes the row off the list. One that says "committed" alone does not: a volume that
/// missed the accept finds it by its own look alone, and that goes by the list.
pub fn hint_unlists(is_everywhere: bool) -> bool {
    is_everywhere
}

/// How far all other volumes of the set have every row of this one: the lowest of the highest cursors of
/// this life that each of the other N - 1 sent; [`Sequence::MAX`] for a volume alone in its set. `None` while
/// one of them sent none since this volume was opened: cursors of others are kept in memory.
pub fn sent_by_all(cursors: impl IntoIterator<Item = Option<Sequence>>) -> Option<Sequence> {
    cursors.into_iter().try_fold(Sequence::MAX, |lowest, cursor| Some(lowest.min(cursor?)))
}

/// Whether a row at this sequence leaves the list because all other volumes have it, by [`sent_by_all`].
/// A row that is not known committed stays: it is to be settled.
pub fn may_leave_list(sent: Option<Sequence>, sequence: Sequence, is_committed: bool) -> bool {
    is_committed && sent.is_some_and(|sent| sent >= sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committed_row_without_a_place_raises_the_horizon() {
        assert_eq!(place_row(true, 1, 2), ListPlace::Listed);
        assert_eq!(place_row(true, 2, 2), ListPlace::BelowHorizon);
        assert_eq!(place_row(true, 0, 0), ListPlace::BelowHorizon);
        assert_eq!(place_row(false, 9, 2), ListPlace::Listed, "it is to be settled");
        assert_eq!(horizon_after(Sequence(4), Sequence(7)), Sequence(7));
        assert_eq!(horizon_after(Sequence(7), Sequence(4)), Sequence(7));
    }

    #[test]
    fn only_a_hint_that_all_took_the_row_unlists_it() {
        assert!(hint_unlists(true));
        assert!(!hint_unlists(false));
    }

    #[test]
    fn a_row_leaves_the_list_when_each_other_volume_sent_a_cursor_above_it() {
        let sent = |sent: &[Option<u64>]| sent_by_all(sent.iter().map(|cursor| cursor.map(Sequence)));
        assert_eq!(sent(&[Some(5), Some(3), Some(9)]), Some(Sequence(3)));
        assert_eq!(sent(&[Some(5), None, Some(9)]), None, "one sent nothing");
        assert_eq!(sent(&[]), Some(Sequence::MAX), "a volume alone");
        let leaves = |cursor, committed| may_leave_list(sent(&[Some(5), cursor]), Sequence(4), committed);
        assert!(leaves(Some(4), true));
        assert!(!leaves(Some(3), true));
        assert!(!leaves(None, true));
        assert!(!leaves(Some(9), false), "it is to be settled");
    }
}
