//! The ballots of this process: each above every one before, under one proposer id.
//!
//! A hybrid clock never goes back. Where the wall clock was ahead and was set back, its ballots stay ahead,
//! and that is right as long as the volumes' clocks were ahead with it. Volumes whose clocks were right all
//! the time refuse such ballots; then the proposer starts over at the wall clock, under another id: to the
//! volumes it is a process that was started again. Called by the rounds of [`super::change`].

use std::sync::Arc;

use parking_lot::RwLock;

use super::limits::RESTART_LOG_EVERY_US;
use sherd_core::env::{Clock, HybridClock, Rng};
use sherd_core::id::{Ballot, ProposerId, Timestamp};
use sherd_core::limits::FOLLOW_BOUND_MS_MAX;

#[derive(Debug)]
pub(super) struct Ballots {
    wall: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    proposer: RwLock<Proposer>,
}

/// One proposer id, and the times that it has used.
#[derive(Debug)]
struct Proposer {
    id: ProposerId,
    clock: HybridClock,
    /// Time of the last log line about a restart, by the clock that never steps.
    logged_us: Option<u64>,
}

impl Ballots {
    pub(super) fn new(wall: Arc<dyn Clock>, rng: Arc<dyn Rng>, id: ProposerId) -> Self {
        let clock = HybridClock::new(Arc::clone(&wall));
        let proposer = RwLock::new(Proposer { id, clock, logged_us: None });
        Self { wall, rng, proposer }
    }

    /// A ballot above every one of this proposer, and above `seen`.
    pub(super) fn above(&self, seen: Ballot) -> Ballot {
        let proposer = self.proposer.read();
        Ballot { time: proposer.clock.tick_above(seen.time), proposer: proposer.id }
    }

    pub(super) fn are_of(&self, proposer: ProposerId) -> bool {
        self.proposer.read().id == proposer
    }

    /// Too many volumes refuse `ballot` as too far ahead: starts over at the wall clock, where that is lower
    /// than what they were asked. Returns whether the next ballot is worth a try.
    pub(super) fn start_over(&self, ballot: Ballot) -> bool {
        let mut proposer = self.proposer.write();
        if ballot.proposer != proposer.id {
            return true;
        }
        let now = Timestamp::from_ms(self.wall.wall_ms());
        if ballot.time <= now.plus_ms(FOLLOW_BOUND_MS_MAX) {
            return false;
        }
        let id = ProposerId(self.rng.next_u64());
        let (now_us, mut logged_us) = (self.wall.monotonic_us(), proposer.logged_us);
        if logged_us.is_none_or(|logged_us| now_us.saturating_sub(logged_us) >= RESTART_LOG_EVERY_US) {
            tracing::warn!(
                "ballots were ahead of this clock and of the volumes': it was set back, or another node's is ahead; \
                 they begin at it again"
            );
            logged_us = Some(now_us);
        }
        *proposer = Proposer { id, clock: HybridClock::new(Arc::clone(&self.wall)), logged_us };
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::machine::system::SystemRng;

    #[derive(Debug)]
    struct Wall(AtomicU64);

    impl Clock for Wall {
        fn wall_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn monotonic_us(&self) -> u64 {
            0
        }
    }

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn ballots_of_one_proposer_increase_though_the_clock_steps_back() {
        let wall = Arc::new(Wall(AtomicU64::new(2 * HOUR_MS)));
        let ballots = Ballots::new(Arc::<Wall>::clone(&wall), Arc::new(SystemRng), ProposerId(7));
        let first = ballots.above(Ballot::ZERO);
        wall.0.store(HOUR_MS, Ordering::Relaxed);
        let second = ballots.above(Ballot::ZERO);
        assert!(second > first);
        assert_eq!(second.proposer, ProposerId(7));
    }

    #[test]
    fn a_proposer_that_is_refused_begins_at_its_clock_again_under_another_id() {
        let wall = Arc::new(Wall(AtomicU64::new(2 * HOUR_MS)));
        let ballots = Ballots::new(Arc::<Wall>::clone(&wall), Arc::new(SystemRng), ProposerId(7));
        let ahead = ballots.above(Ballot::ZERO);
        assert!(!ballots.start_over(ahead), "its clock says the same still");
        wall.0.store(HOUR_MS, Ordering::Relaxed);
        assert!(ballots.start_over(ahead));
        let next = ballots.above(Ballot::ZERO);
        assert_eq!(next.time.as_ms(), HOUR_MS);
        assert_ne!(next.proposer, ahead.proposer, "a ballot is never made twice");
        assert!(ballots.start_over(ahead), "another one was refused, too");
        assert_eq!(ballots.above(Ballot::ZERO).proposer, next.proposer);
    }
}
