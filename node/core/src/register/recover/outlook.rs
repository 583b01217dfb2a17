//! Whether a set whose volumes lost their state, or wait to be confirmed, comes back by itself.
//!
//! A volume that was opened votes once A - 1 whole peers sent their memory of it; one that lost its state
//! votes once P voters sent theirs. So with P volumes lost, those that are whole are fewer than A and cannot
//! confirm each other; and unless P of them vote already, none can recover. That wait never ends: an operator
//! has to state which of them lost nothing.

use crate::register::quorum::Quorums;

/// State of a set's volumes; each is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetStanding {
    /// Vote.
    pub voting: usize,
    /// Were opened, and wait for their peers before they vote.
    pub unconfirmed: usize,
    /// Are known to have lost their state, or have none: recovering, failed, or an empty directory.
    pub lost: usize,
    /// Cannot be asked now. They may come back as they went.
    pub away: usize,
}

/// Prospect of a set that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The set is whole, recovers, or does when those come back that are away.
    Open,
    /// The wait ends only if an operator vouches for volumes that were opened.
    NeedsVouching,
    /// Nor are there enough volumes to vouch for, before others come back as they were.
    NeedsVolumes,
}

/// Judges the volumes of one set.
pub const fn outlook(standing: SetStanding, quorums: Quorums) -> Outlook {
    let SetStanding { voting, unconfirmed, lost, away: _ } = standing;
    if lost < quorums.prepare() || voting >= quorums.prepare() {
        Outlook::Open
    } else if voting + unconfirmed >= quorums.prepare() {
        Outlook::NeedsVouching
    } else {
        Outlook::NeedsVolumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Life, Sequence, VolumeId};
    use crate::register::Answerer;
    use crate::register::position::OpeningId;
    use crate::register::quorum::{Order, Reply};
    use crate::register::recover::confirm::{Confirmation, Memory, OpenedVolume, confirm};
    use crate::register::recover::opening::OpeningHistory;

    fn volume(number: usize) -> VolumeId {
        VolumeId([u8::try_from(number).expect("few"); 16])
    }

    fn answer(peer: usize, is_whole: bool) -> Reply<Memory> {
        let openings = OpeningHistory::new(Life(1), Vec::new());
        let from = Answerer {
            life: openings.life,
            votes: false,
            peers: [].into(),
            opening: OpeningId(1),
            durable: Sequence(1),
        };
        let result = Ok(Memory { is_whole, positions: Vec::new(), openings });
        Reply { volume: volume(peer), from, order: Order::default(), result }
    }

    /// Whether anything ever changes, when all volumes that are away come back whole: by the rules
    /// themselves.
    fn goes_on(standing: SetStanding, quorums: Quorums) -> bool {
        let SetStanding { voting, unconfirmed, lost, away } = standing;
        let whole = voting + unconfirmed + away;
        let answers: Vec<_> = (1..whole + lost).map(|peer| answer(peer, peer < whole)).collect();
        let openings = OpeningHistory::new(Life(1), Vec::new());
        let opened = OpenedVolume { volume: volume(0), openings: &openings, remembers: &[] };
        let is_confirmed = whole > 0 && confirm(opened, &answers, quorums) == Confirmation::Confirmed;
        voting >= quorums.prepare() || is_confirmed
    }

    #[test]
    fn a_set_waits_for_ever_exactly_when_no_rule_lets_a_volume_vote() {
        for volumes in 1..=9 {
            let quorums = Quorums::of(volumes);
            for voting in 0..=volumes {
                for unconfirmed in 0..=volumes - voting {
                    for lost in 0..=volumes - voting - unconfirmed {
                        let away = volumes - voting - unconfirmed - lost;
                        let standing = SetStanding { voting, unconfirmed, lost, away };
                        let is_open = outlook(standing, quorums) == Outlook::Open;
                        assert_eq!(is_open, goes_on(standing, quorums), "{standing:?}");
                        // A volume that is vouched for votes, and the others recover from them.
                        let vouched =
                            SetStanding { voting: voting + unconfirmed, unconfirmed: 0, ..standing };
                        let vouching = outlook(standing, quorums) == Outlook::NeedsVouching;
                        assert!(!vouching || goes_on(vouched, quorums), "{standing:?}");
                        assert!(is_open || vouching == (vouched.voting >= quorums.prepare()), "{standing:?}");
                    }
                }
            }
        }
    }
}
