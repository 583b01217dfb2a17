//! Wants: the shards that a volume lacks, as it logs them itself, and how each of them ends.
//!
//! A want lies in the log of the volume that lacks the shard and in no other, in the frame of the row that
//! makes it. It ends by what lies on that volume alone, so that no message, and no other volume's state, can
//! end one that is still needed. Guards I-23.

use crate::id::{Ballot, DataId, Life, VolumeId};
use crate::register::ValueOrigin;

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

/// A volume that stores an accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoringVolume {
    /// The volume.
    pub volume: VolumeId,
    /// The life that it is in.
    pub life: Life,
    /// Ballot of its own row before, [`Ballot::ZERO`] for none.
    pub row_before: Ballot,
}

/// The want that an accept makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptWant {
    /// The shard of the one data id that it introduces and that is not durable here.
    Data(DataId),
    /// All that the row names: what it carries on may not be here, several shards are not, or the sender does
    /// not say where they are durable.
    Row,
}

/// The want that a volume logs with the row of an accept, if it may lack a shard. `carries` says whether the
/// value names data beside what it introduces, or a page that lists some: asked only where that decides.
pub fn want_of_accept(
    own: StoringVolume,
    introduces: &[DataId],
    origin: &ValueOrigin,
    carries: impl FnOnce() -> bool,
) -> Option<AcceptWant> {
    if may_lack_carried(own.row_before, origin.made_from) && carries() {
        return Some(AcceptWant::Row);
    }
    if introduces.iter().any(|data| origin.durable_in(*data).is_none()) {
        return Some(AcceptWant::Row);
    }
    let is_lacking = |data: &&DataId| {
        let durable = origin.durable_in(**data).unwrap_or_default();
        lacks_introduced(durable, own.volume, own.life)
    };
    let mut lacking = introduces.iter().filter(is_lacking);
    match (lacking.next(), lacking.next()) {
        (None, _) => None,
        (Some(data), None) => Some(AcceptWant::Data(*data)),
        (Some(_), Some(_)) => Some(AcceptWant::Row),
    }
}

/// Whether a want of all that a row names ends: no row is left, or the own row is known committed and the
/// shards of all that it names are here. A row that is not known committed ends none: the want may be of data
/// that the row before named.
pub const fn row_want_ends(row: OwnRow, all_here: bool) -> bool {
    match row {
        OwnRow::Absent => true,
        OwnRow::Read { committed, .. } => committed && all_here,
        OwnRow::Unreadable => false,
    }
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
    use crate::register::DurableShards;

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

    fn data(number: u64) -> DataId {
        DataId { birth: Timestamp::from_ms(number), proposer: ProposerId(1) }
    }

    /// The want of volume 1 in life 2, whose row before has this ballot.
    fn want(
        row_before: u64,
        introduces: &[DataId],
        origin: &ValueOrigin,
        carries: bool,
    ) -> Option<AcceptWant> {
        let row_before = match row_before {
            0 => Ballot::ZERO,
            time => Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) },
        };
        let own = StoringVolume { volume: VolumeId([1; 16]), life: Life(2), row_before };
        want_of_accept(own, introduces, origin, || carries)
    }

    fn origin(made_from: Option<u64>, durable: &[(DataId, &[(u8, u32)])]) -> ValueOrigin {
        let lives = |lives: &[(u8, u32)]| {
            lives.iter().map(|(volume, life)| (VolumeId([*volume; 16]), Life(*life))).collect()
        };
        let shards =
            |(data, durable): &(DataId, &[(u8, u32)])| DurableShards { data: *data, lives: lives(durable) };
        let ballot = |time| match time {
            0 => Ballot::ZERO,
            time => Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) },
        };
        ValueOrigin { durable: durable.iter().map(shards).collect(), made_from: made_from.map(ballot) }
    }

    #[test]
    fn an_accept_whose_shard_is_durable_here_makes_no_want() {
        let here: &[(u8, u32)] = &[(1, 2), (2, 1)];
        assert_eq!(want(0, &[data(1)], &origin(Some(0), &[(data(1), here)]), false), None);
        assert_eq!(
            want(5, &[data(1)], &origin(Some(3), &[(data(1), here)]), false),
            None,
            "nothing is carried"
        );
        assert_eq!(want(3, &[data(1)], &origin(Some(3), &[(data(1), here)]), true), None, "its own row");
        assert_eq!(want(5, &[], &origin(Some(3), &[]), false), None, "a tombstone");
    }

    #[test]
    fn introduced_data_is_wanted_where_this_life_is_not_named() {
        let another_life: &[(u8, u32)] = &[(1, 1), (2, 1)];
        let another_volume: &[(u8, u32)] = &[(2, 2)];
        let wanted = Some(AcceptWant::Data(data(1)));
        assert_eq!(want(0, &[data(1)], &origin(Some(0), &[(data(1), another_life)]), false), wanted);
        assert_eq!(want(0, &[data(1)], &origin(Some(0), &[(data(1), another_volume)]), false), wanted);
        let both = origin(Some(0), &[(data(1), another_life), (data(2), another_volume)]);
        assert_eq!(want(0, &[data(1), data(2)], &both, false), Some(AcceptWant::Row), "one want for several");
    }

    #[test]
    fn all_that_the_row_names_is_wanted_where_the_sender_says_nothing() {
        assert_eq!(want(0, &[data(1)], &ValueOrigin::default(), false), Some(AcceptWant::Row));
        assert_eq!(want(0, &[], &ValueOrigin::default(), true), Some(AcceptWant::Row));
        assert_eq!(want(0, &[], &ValueOrigin::default(), false), None, "no data at all");
    }

    #[test]
    fn carried_data_is_wanted_where_the_value_was_made_from_another_row() {
        for row_before in [0, 2, 4] {
            assert_eq!(want(row_before, &[], &origin(Some(3), &[]), true), Some(AcceptWant::Row));
        }
        assert_eq!(want(3, &[], &origin(None, &[]), true), Some(AcceptWant::Row), "an upload is completed");
    }

    #[test]
    fn a_want_of_a_row_ends_by_its_shards_once_the_row_is_known_committed() {
        assert!(row_want_ends(read(true, true), true));
        assert!(!row_want_ends(read(true, true), false));
        assert!(!row_want_ends(read(false, true), true), "the row before may come back");
        assert!(row_want_ends(OwnRow::Absent, false));
        assert!(!row_want_ends(OwnRow::Unreadable, true));
    }

    #[test]
    fn data_is_lost_when_every_volume_votes_and_too_few_hold_a_shard() {
        let search = ShardSearch { volumes: 4, voting: 4, whole_shards: 1, data_shards: 2 };
        assert!(is_lost(search));
        assert!(!is_lost(ShardSearch { voting: 3, ..search }), "one may come back with its shard");
        assert!(!is_lost(ShardSearch { whole_shards: 2, ..search }));
    }
}
