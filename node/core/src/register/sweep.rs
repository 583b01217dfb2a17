//! Orphans: data that no register names, and how it is proved that none ever will.
//!
//! ```text
//! 1. all N volumes of the set durably refuse accepts that introduce data born before H
//! 2. the key gets an identity write at a fresh ballot (a tombstone where nothing was found)
//! 3. what was born before H and that committed value does not name is an orphan
//! ```
//! Step 1 keeps out what would come later, step 2 what was sent before and lies on a minority. Both
//! are needed: looking first and deleting then lets a slow writer's accept name deleted data.
//! Guards I-9.

use crate::id::{DataId, Timestamp};
use crate::limits::ORPHAN_AGE_MS;
use crate::register::quorum::{Lives, Quorums, Reply, voters};

/// Value that an identity write proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettleWith<T> {
    /// The value that the prepare found, unchanged.
    Found(T),
    /// A tombstone: "nothing" excludes no accept that is under way, a row does.
    Tombstone,
}

/// The birth before which data may be swept now: 48 hours ago.
pub fn horizon(now: Timestamp) -> Timestamp {
    now.minus_ms(ORPHAN_AGE_MS)
}

/// Whether keys may be settled for a sweep of what was born before `horizon`: all N volumes of the
/// set, voting and in their current life, answered with a durable data floor at or above it. One
/// that was left out could take the one accept that names the data.
pub fn may_sweep(
    horizon: Timestamp,
    data_floors: &[Reply<Timestamp>],
    quorums: Quorums,
    lives: &Lives,
) -> bool {
    voters(data_floors, lives).filter(|(_, floor)| **floor >= horizon).count() >= quorums.volumes
}

/// Value that an identity write at a fresh ballot proposes, by the value that its prepare found: in a sweep,
/// an identity write begun after [`may_sweep`] allowed it.
pub fn settle_with<T>(found: Option<T>) -> SettleWith<T> {
    found.map_or(SettleWith::Tombstone, SettleWith::Found)
}

/// Whether data is an orphan, given whether the value that the identity write committed names it.
pub fn is_orphan(data: DataId, horizon: Timestamp, committed_names: bool) -> bool {
    data.birth < horizon && !committed_names
}

/// The data ids that an accept introduces: named by its value, not by the value that its proposer's
/// prepare found, nor by the parts of the upload that it completes.
pub fn introduced(
    named: impl IntoIterator<Item = DataId>,
    found_named: &[DataId],
    carried: &[DataId],
) -> Vec<DataId> {
    named.into_iter().filter(|data| !found_named.contains(data) && !carried.contains(data)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Life, ProposerId, Sequence, VolumeId};
    use crate::register::position::OpeningId;
    use crate::register::quorum::Order;
    use crate::register::{Answerer, Refusal};

    fn floor(volume: u8, hours: u64) -> Reply<Timestamp> {
        Reply {
            volume: VolumeId([volume; 16]),
            from: Answerer {
                life: Life(1),
                votes: true,
                peers: [].into(),
                opening: OpeningId::NONE,
                durable: Sequence(0),
            },
            order: Order::default(),
            result: Ok(Timestamp::from_ms(hours * 3_600_000)),
        }
    }

    #[test]
    fn a_sweep_waits_for_every_volume() {
        let horizon = Timestamp::from_ms(10 * 3_600_000);
        let sweeps =
            |replies: &[Reply<Timestamp>]| may_sweep(horizon, replies, Quorums::of(3), &Lives::default());
        assert!(sweeps(&[floor(1, 10), floor(2, 11), floor(3, 10)]));
        assert!(!sweeps(&[floor(1, 10), floor(2, 9), floor(3, 10)]));
        assert!(!sweeps(&[floor(1, 10), floor(2, 10)]));
        let mut refused = [floor(1, 10), floor(2, 10), floor(3, 10)];
        refused[0].result = Err(Refusal::Recovering);
        assert!(!sweeps(&refused));
    }

    #[test]
    fn only_old_data_without_a_name_is_an_orphan() {
        let horizon = horizon(Timestamp::from_ms(100 * 3_600_000));
        let born =
            |hours: u64| DataId { birth: Timestamp::from_ms(hours * 3_600_000), proposer: ProposerId(1) };
        assert!(is_orphan(born(51), horizon, false));
        assert!(!is_orphan(born(52), horizon, false), "not yet 48 hours old");
        assert!(!is_orphan(born(51), horizon, true));
    }

    #[test]
    fn an_identity_write_introduces_nothing() {
        let data = |n| DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) };
        assert_eq!(introduced([data(1), data(2)], &[data(1), data(2)], &[]), []);
        assert_eq!(introduced([data(1), data(2)], &[data(1)], &[]), [data(2)]);
        assert_eq!(introduced([data(1), data(2)], &[data(1)], &[data(2)]), []);
        assert_eq!(settle_with(Some(1)), SettleWith::Found(1));
        assert_eq!(settle_with::<u8>(None), SettleWith::Tombstone);
    }
}
