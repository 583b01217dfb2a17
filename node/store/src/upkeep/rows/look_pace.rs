//! The moments at which a volume looks at its peers: soon after it was opened, or a peer came back, or the
//! process stood still; else once in a while.

use std::collections::BTreeSet;

use sherd_core::id::VolumeId;

use crate::upkeep::limits::{LOOK_AFTER_OPENING_MS, LOOK_AGAIN_MS, LOOK_AT_PEERS_EVERY_MS, STOOD_STILL_MS};

/// When the next look of one volume is due, by the clock that never steps.
#[derive(Debug, Default)]
pub(super) struct LookPace {
    /// `None` while the volume does not vote.
    opening: Option<u32>,
    /// The peers that voted when it was asked before.
    voting: BTreeSet<VolumeId>,
    checked_ms: u64,
    due_ms: u64,
    /// Before that nothing makes another look due.
    rests_until_ms: u64,
    /// Looks in a row that were not through.
    failures: u32,
}

impl LookPace {
    pub(super) fn does_not_vote(&mut self) {
        self.opening = None;
    }

    /// Whether a look is due for a volume in this opening, while these peers vote. Asked every second.
    pub(super) fn is_due(&mut self, opening: u32, voting: BTreeSet<VolumeId>, now_ms: u64) -> bool {
        let is_opened = self.opening.replace(opening) != Some(opening);
        let is_back = !voting.is_subset(&self.voting);
        let stood_still = now_ms.saturating_sub(self.checked_ms) >= STOOD_STILL_MS;
        (self.voting, self.checked_ms) = (voting, now_ms);
        if is_opened {
            // Until then it refuses rows that are not ahead of the clock.
            self.due_ms = now_ms + LOOK_AFTER_OPENING_MS;
        } else if is_back || stood_still {
            self.due_ms = self.due_ms.min(now_ms.max(self.rests_until_ms));
        }
        now_ms >= self.due_ms
    }

    /// A look ended; it is made again sooner where too few peers were looked through, if not time after time.
    pub(super) fn looked(&mut self, is_through: bool, now_ms: u64) {
        self.rests_until_ms = now_ms + LOOK_AGAIN_MS;
        let again_ms = (LOOK_AGAIN_MS << self.failures.min(8)).min(LOOK_AT_PEERS_EVERY_MS);
        self.due_ms = now_ms + if is_through { LOOK_AT_PEERS_EVERY_MS } else { again_ms };
        self.failures = if is_through { 0 } else { self.failures + 1 };
        self.checked_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(peers: &[u8]) -> BTreeSet<VolumeId> {
        peers.iter().map(|n| VolumeId([*n; 16])).collect()
    }

    /// The first second from `from_s` on at which a look is due, with the peers that vote at each.
    fn due_at(pace: &mut LookPace, from_s: u64, voting: impl Fn(u64) -> BTreeSet<VolumeId>) -> u64 {
        (from_s..from_s + 1_000)
            .find(|second| pace.is_due(1, voting(*second), second * 1_000))
            .expect("it ends")
    }

    #[test]
    fn a_volume_looks_soon_after_it_was_opened_and_then_each_minute() {
        let mut pace = LookPace::default();
        assert_eq!(due_at(&mut pace, 100, |_| peers(&[2, 3])), 103);
        pace.looked(true, 104_000);
        assert_eq!(due_at(&mut pace, 105, |_| peers(&[2, 3])), 164);
        pace.looked(false, 165_000);
        assert_eq!(due_at(&mut pace, 166, |_| peers(&[2, 3])), 175, "too few peers answered");
        pace.looked(false, 175_000);
        assert_eq!(due_at(&mut pace, 176, |_| peers(&[2, 3])), 195, "again");
        pace.looked(true, 196_000);
        assert!(!pace.is_due(2, peers(&[2, 3]), 197_000));
        assert!(pace.is_due(2, peers(&[2, 3]), 200_000), "another opening");
        pace.looked(true, 201_000);
        pace.does_not_vote();
        assert!(!pace.is_due(2, peers(&[2, 3]), 202_000));
        assert!(pace.is_due(2, peers(&[2, 3]), 205_000), "it was confirmed again");
    }

    #[test]
    fn a_peer_that_is_back_is_looked_at_and_one_that_comes_and_goes_not_all_the_time() {
        let mut pace = LookPace::default();
        due_at(&mut pace, 0, |_| peers(&[2, 3]));
        pace.looked(true, 3_000);
        assert_eq!(due_at(&mut pace, 4, |second| peers(if second < 30 { &[2] } else { &[2, 3] })), 30);
        pace.looked(true, 30_000);
        let comes_and_goes = |second: u64| peers(if second.is_multiple_of(2) { &[2] } else { &[2, 3] });
        assert_eq!(due_at(&mut pace, 31, comes_and_goes), 40);
        pace.looked(true, 40_000);
        assert_eq!(due_at(&mut pace, 41, |_| peers(&[2])), 100, "one that left is not looked at");
    }

    #[test]
    fn a_process_that_stood_still_looks_at_once() {
        let mut pace = LookPace::default();
        due_at(&mut pace, 0, |_| peers(&[2]));
        pace.looked(true, 3_000);
        let seconds = (4_000..16_000).step_by(1_000);
        assert!(seconds.chain([15_000 + STOOD_STILL_MS - 1]).all(|ms| !pace.is_due(1, peers(&[2]), ms)));
        assert!(pace.is_due(1, peers(&[2]), 14_999 + 2 * STOOD_STILL_MS));
    }
}
