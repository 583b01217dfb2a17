//! Wants: the shards that a volume lacks, as it logs them itself, and how each of them ends.
//!
//! A want lies in the log of the volume that lacks the shard and in no other, in the frame of the row that
//! makes it. It ends by what lies on that volume alone, so that no message, and no other volume's state, can
//! end one that is still needed. Guards I-23.

use crate::id::{Ballot, Life, VolumeId};

/// A volume's own row, as far as the data of a want is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnRow {
    /// No row of the key. A want is logged with a row, and a row goes by a drop or under a final seal alone:
    /// then no value names the data that could be read again.
    Absent,
    /// A row that cannot be read: it may name the data.
    Unreadable,
    /// A row whose value was read.
    Read {
        /// Whether the volume has noted it as committed.
        committed: bool,
        /// Whether the value names the data, or lists it on a page.
        names: bool,
    },
}

impl OwnRow {
    /// Whether the row proves that the volume's shard of the data is not needed. A row that is not known
    /// committed proves nothing: it may lose to the value that names the data.
    const fn excludes_data(self) -> bool {
        match self {
            Self::Absent | Self::Read { committed: true, names: false } => true,
            Self::Unreadable | Self::Read { .. } => false,
        }
    }
}

/// Whether a want of data ends: the volume's shard is there, read back and verified; or none of the own rows
/// that may name the data does: the key's, and for a part of an upload the part's and the object's.
///
/// The row of a volume other than this one proves nothing, however high: it may name what this volume lacks.
pub fn want_ends(shard_is_here: bool, own_rows: &[OwnRow]) -> bool {
    shard_is_here || (!own_rows.is_empty() && own_rows.iter().all(|row| row.excludes_data()))
}

/// Whether a volume that stores an accept lacks its shard of data that the accept introduces: its present
/// life is not among the volumes and lives in which the shard is durable. The shard that a life which is over
/// acknowledged was lost with it. A sender that names no lives makes every volume look.
pub fn lacks_introduced(durable: &[(VolumeId, Life)], own: VolumeId, life: Life) -> bool {
    !durable.contains(&(own, life))
}

/// Whether a volume that stores an accept may lack data that the value names and does not introduce, where
/// its own row before has the ballot `own_before`, [`Ballot::ZERO`] for none. A volume whose row was the one
/// that the value was made from has what that names, or wants it already.
///
/// `made_from` is `None` where the value carries data of other registers, too: a completed upload that of its
/// parts, whose rows this volume may have missed and may never be shown. So it is of a sender that does not
/// give it: that is not "made from nothing", which a volume without a row would take for its own.
pub fn may_lack_carried(own_before: Ballot, made_from: Option<Ballot>) -> bool {
    made_from != Some(own_before)
}

/// Answers of a set's volumes that were asked for the shards of wanted data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSearch {
    /// N: volumes of the set.
    pub volumes: usize,
    /// Volumes that vote and were asked in their present openings.
    pub voting: usize,
    /// Verified shards among the answers, the own volume's included.
    pub whole_shards: usize,
    /// k: shards that the data is read from.
    pub data_shards: usize,
}

/// Whether wanted data is lost: every volume of the set votes, and too few of them hold a whole shard. A
/// volume that is away may come back with one.
pub fn is_lost(search: ShardSearch) -> bool {
    search.voting >= search.volumes && search.whole_shards < search.data_shards
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ProposerId, Timestamp};

    fn read(committed: bool, names: bool) -> OwnRow {
        OwnRow::Read { committed, names }
    }

    #[test]
    fn a_want_ends_by_its_shard() {
        for row in [OwnRow::Unreadable, read(true, true), read(false, true), read(false, false)] {
            assert!(want_ends(true, &[row]));
        }
        assert!(want_ends(true, &[]));
        assert!(!want_ends(false, &[]));
    }

    #[test]
    fn a_want_ends_by_own_committed_rows_without_the_data() {
        assert!(want_ends(false, &[read(true, false)]));
        assert!(want_ends(false, &[OwnRow::Absent]), "dropped");
        assert!(!want_ends(false, &[read(false, false)]), "it may lose");
        assert!(!want_ends(false, &[read(true, true)]));
        assert!(!want_ends(false, &[OwnRow::Unreadable]));
    }

    #[test]
    fn a_want_of_a_part_ends_when_neither_the_part_nor_the_object_names_it() {
        assert!(want_ends(false, &[OwnRow::Absent, read(true, false)]));
        assert!(!want_ends(false, &[OwnRow::Absent, read(true, true)]), "the object was completed with it");
        assert!(!want_ends(false, &[read(true, true), read(true, false)]));
    }

    #[test]
    fn a_shard_of_another_life_is_not_there() {
        let (own, other) = (VolumeId([1; 16]), VolumeId([2; 16]));
        assert!(!lacks_introduced(&[(other, Life(4)), (own, Life(2))], own, Life(2)));
        assert!(lacks_introduced(&[(own, Life(1))], own, Life(2)), "lost with that life");
        assert!(lacks_introduced(&[(other, Life(2))], own, Life(2)));
        assert!(lacks_introduced(&[], own, Life(1)));
    }

    #[test]
    fn carried_data_may_lack_where_the_row_before_was_another() {
        let ballot = |time| Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) };
        assert!(!may_lack_carried(ballot(3), Some(ballot(3))));
        assert!(!may_lack_carried(Ballot::ZERO, Some(Ballot::ZERO)));
        assert!(may_lack_carried(Ballot::ZERO, Some(ballot(3))));
        assert!(may_lack_carried(ballot(2), Some(ballot(3))));
        assert!(may_lack_carried(ballot(4), Some(ballot(3))));
        assert!(may_lack_carried(Ballot::ZERO, None), "an upload is completed");
        assert!(may_lack_carried(ballot(3), None));
    }

    #[test]
    fn data_is_lost_when_every_volume_votes_and_too_few_hold_a_shard() {
        let search = ShardSearch { volumes: 4, voting: 4, whole_shards: 1, data_shards: 2 };
        assert!(is_lost(search));
        assert!(!is_lost(ShardSearch { voting: 3, ..search }), "one may come back with its shard");
        assert!(!is_lost(ShardSearch { whole_shards: 2, ..search }));
    }
}
