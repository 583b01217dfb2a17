//! When bytes that were proposed may be deleted, and by which party.
//!
//! A value that was sent in an accept may be found and finished by any proposer, at any time, until a
//! committed value excludes it. So "my write failed" is not a reason to delete its bytes. There are two good
//! ones, and each names the party that may act on it; everything else is an orphan (`sweep`). Guards I-8.

use crate::id::Ballot;
use crate::limits::RELEASE_GRACE_MS_MIN;

/// Party that wants to delete data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Releaser {
    /// The proposer whose committed value lacks the data.
    Replacer {
        /// Whether the value that its prepare found, and from which it made its own, names the data.
        /// A value that merely happens to lack it proves nothing: the one that names it may be found
        /// and finished afterwards.
        found_names: bool,
    },
    /// The process that wrote the data.
    Writer {
        /// The highest ballot at which it sent an accept that names the data; `None` when it sent none.
        highest_accept: Option<Ballot>,
        /// Whether it will send no accept for this change any more.
        done: bool,
    },
}

/// A value known to be committed, as far as the data in question is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommittedValue {
    /// Ballot of the value.
    pub ballot: Ballot,
    /// Whether it names the data.
    pub names: bool,
}

/// Whether the data may be released, given a committed value that the releaser has seen; its grace still has
/// to pass ([`grace_left_ms`]), and no reader may have pinned it.
pub fn may_release(releaser: Releaser, committed: Option<CommittedValue>) -> bool {
    let lacking = committed.filter(|value| !value.names);
    match releaser {
        Releaser::Replacer { found_names } => found_names && lacking.is_some(),
        Releaser::Writer { done: false, .. } => false,
        Releaser::Writer { highest_accept: None, done: true } => true,
        Releaser::Writer { highest_accept: Some(accept), done: true } => {
            lacking.is_some_and(|value| value.ballot > accept)
        }
    }
}

/// How long replaced data still waits for its readers, in milliseconds, where a note says when it was
/// replaced: its grace, from then on.
///
/// The note is by the clock of the node that replaced it, which may be minutes behind this one's or ahead of
/// it. The result is never less than the shortest grace, in which each reader takes its lease, and never more
/// than the whole one.
pub fn grace_left_ms(replaced_ms: u64, now_ms: u64, grace_ms: u64) -> u64 {
    let left_ms = replaced_ms.saturating_add(grace_ms).saturating_sub(now_ms).min(grace_ms);
    left_ms.max(RELEASE_GRACE_MS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ProposerId, Timestamp};

    fn value(time: u64, names: bool) -> CommittedValue {
        CommittedValue { ballot: ballot(time), names }
    }

    fn ballot(time: u64) -> Ballot {
        Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
    }

    #[test]
    fn the_replacer_of_a_value_releases_its_data() {
        assert!(may_release(Releaser::Replacer { found_names: true }, Some(value(5, false))));
        assert!(!may_release(Releaser::Replacer { found_names: false }, Some(value(5, false))));
        assert!(!may_release(Releaser::Replacer { found_names: true }, Some(value(5, true))));
        assert!(!may_release(Releaser::Replacer { found_names: true }, None));
    }

    #[test]
    fn a_writer_waits_for_a_higher_ballot_and_stops_proposing_first() {
        let writer = |done| Releaser::Writer { highest_accept: Some(ballot(5)), done };
        assert!(may_release(writer(true), Some(value(6, false))));
        assert!(!may_release(writer(true), Some(value(5, false))));
        assert!(!may_release(writer(true), Some(value(6, true))));
        assert!(!may_release(writer(false), Some(value(6, false))));
        assert!(!may_release(writer(true), None));
    }

    #[test]
    fn before_any_accept_only_a_writer_that_gave_up_removes_its_data() {
        assert!(may_release(Releaser::Writer { highest_accept: None, done: true }, None));
        assert!(!may_release(Releaser::Writer { highest_accept: None, done: false }, None));
    }

    #[test]
    fn a_grace_begins_with_the_replacement_and_not_with_a_restart() {
        const MINUTE: u64 = 60_000;
        let left = |now_ms| grace_left_ms(10 * MINUTE, now_ms, 10 * MINUTE);
        assert_eq!(left(10 * MINUTE), 10 * MINUTE);
        assert_eq!(left(14 * MINUTE), 6 * MINUTE);
        assert_eq!(left(MINUTE), 10 * MINUTE, "a clock was set back");
    }

    #[test]
    fn a_writers_clock_that_is_behind_leaves_readers_the_time_to_take_their_leases() {
        const MINUTE: u64 = 60_000;
        let (replaced_ms, ahead_ms) = (10 * MINUTE, 3 * MINUTE);
        let left_ms = grace_left_ms(replaced_ms, replaced_ms + ahead_ms, RELEASE_GRACE_MS_MIN);
        assert_eq!(left_ms, RELEASE_GRACE_MS_MIN);
        assert_eq!(grace_left_ms(replaced_ms, replaced_ms + 90 * MINUTE, 10 * MINUTE), RELEASE_GRACE_MS_MIN);
    }
}
