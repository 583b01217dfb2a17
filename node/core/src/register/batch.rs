//! Writers of one key at one gateway share a change: which writers are in it, which answer each of them gets
//! and when, and which of their data is given back.
//!
//! ```text
//! come ... come | prepare | come | decide in order | accept (closed) | committed: answer all, give back
//!                    ^                                  | conflict
//!                    +------ decide again for those that stayed
//! ```
//! The members are decided one after the other on the value that one prepare found, each on what the ones
//! before it made; one accept commits what came of it. A plain PUT that another member overwrites happened
//! just before that one. The change has one id, and each try its number: finding it in a value's history, the
//! members are answered as that try judged them, and not as a later one did. Guards I-6.

use crate::id::{Ballot, ChangeId};
use crate::record::{ChangeTry, Changes};
use crate::register::proposer::{AfterConflict, Tries, after_conflict};
use crate::register::release::{CommittedValue, Releaser, may_release};

/// A batch as its own gateway sees it. A writer alone is a batch of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Batch {
    /// The change that its members share.
    pub change: ChangeId,
    /// State of its accepts; `None` before the first that may be stored anywhere.
    pub tries: Option<Tries>,
    /// How many proposals of its own were sent.
    pub tries_count: u16,
    /// The highest ballot of one of them.
    pub highest_accept: Ballot,
    /// Whether the batch takes no more members.
    pub is_closed: bool,
}

/// When a member whose condition failed gets its refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RefusedMember {
    /// True if the value that the prepare found is committed, or it found none. A value that a read returns
    /// is always committed.
    pub found_is_certain: bool,
    /// Whether the member came before the prepare, or that read, was sent. One that came later may have seen
    /// a newer value than the answers show.
    pub came_before_asking: bool,
}

/// Answer to a member that is cancelled or times out before its batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaveReply {
    /// Nothing of it was proposed, and nothing will be.
    NothingChanged,
    /// An accept was sent: it may have taken effect, or still take effect.
    Unknown,
}

/// Fate of the data of a member that was answered or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GiveBack {
    /// A value may name it: the write that replaces that value releases it, or a sweep.
    Nothing,
    /// Never proposed: no volume has a value that names it.
    AtOnce,
    /// Proposed, and a committed value lacks it for good: after grace and pins.
    AfterGrace,
}

/// Decision of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchDecision<S> {
    /// The state after the last member.
    pub state: S,
    /// How many members changed something.
    pub made_count: usize,
}

/// Decides the members in their order, each on the state that the ones before it left; `judge` gives the
/// state after a member, or `None` where its condition does not hold.
pub fn decide_in_order<M, S>(
    members: impl IntoIterator<Item = M>,
    found: S,
    mut judge: impl FnMut(M, &S) -> Option<S>,
) -> BatchDecision<S> {
    let mut decided = BatchDecision { state: found, made_count: 0 };
    for member in members {
        if let Some(state) = judge(member, &decided.state) {
            decided = BatchDecision { state, made_count: decided.made_count + 1 };
        }
    }
    decided
}

impl Batch {
    /// A batch that has sent nothing.
    pub const fn new(change: ChangeId) -> Self {
        Self { change, tries: None, tries_count: 0, highest_accept: Ballot::ZERO, is_closed: false }
    }

    /// How the next proposal of its own stands in a value's history; `None` when the numbers are used up.
    pub fn next_try(&self) -> Option<ChangeTry> {
        let number = self.tries_count.checked_add(1)?;
        Some(ChangeTry { change: self.change, number })
    }

    /// Notes that an accept is about to be sent: no member joins from here on. `count` is the count of
    /// changes that it proposes where the change is the batch's own, `None` for an identity write.
    pub fn note_accept(&mut self, ballot: Ballot, count: Option<u64>) {
        self.is_closed = true;
        let Some(count) = count else { return };
        self.tries_count = self.tries_count.saturating_add(1);
        self.highest_accept = self.highest_accept.max(ballot);
        let tries = self.tries.get_or_insert(Tries {
            change: self.change,
            first_accept: ballot,
            lowest_count: count,
            highest_floor: Ballot::ZERO,
        });
        // Ballots begin at the clock again where that was set back.
        tries.first_accept = tries.first_accept.min(ballot);
        tries.lowest_count = tries.lowest_count.min(count);
    }

    /// Outcome of its earlier tries, judged by the value that a prepare found; `None` if there were no tries.
    pub fn verdict(&self, found: &Changes, found_committed: bool, floor: Ballot) -> Option<AfterConflict> {
        let tries = Tries { highest_floor: floor, ..self.tries? };
        Some(after_conflict(found, found_committed, &tries))
    }

    /// Forgets its tries once they have all come to nothing: the value that was found lacks the change, whose
    /// verdict is to try again, is committed, and lies above each of them. Every later value is made from
    /// that one, so no earlier try can become part of it. From there, the changes that may come before the
    /// outcome is unknown are counted from the next accept, and a member that leaves before that has changed
    /// nothing.
    pub fn forget_tries(&mut self, found: Ballot, found_committed: bool) {
        if found_committed && found > self.highest_accept {
            self.tries = None;
        }
    }

    /// Whether a failed condition may be answered without a write of what it was judged on: only then can
    /// neither an accept under way nor an answered write change what the answer says.
    pub const fn may_refuse_at_once(&self, member: RefusedMember) -> bool {
        self.tries.is_none() && member.found_is_certain && member.came_before_asking
    }

    /// Answer to a member that is cancelled or times out before its batch ends.
    pub const fn leaving(&self) -> LeaveReply {
        if self.tries.is_some() { LeaveReply::Unknown } else { LeaveReply::NothingChanged }
    }
}

/// Fate of a member's data, once the member proposes no more: `highest_accept` is the ballot of the last
/// accept that named it, `committed` a value that is known to be committed.
pub fn give_back(highest_accept: Option<Ballot>, committed: Option<CommittedValue>) -> GiveBack {
    match highest_accept {
        _ if !may_release(Releaser::Writer { highest_accept, done: true }, committed) => GiveBack::Nothing,
        None => GiveBack::AtOnce,
        Some(_) => GiveBack::AfterGrace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ProposerId, Timestamp};

    fn ballot(time: u64) -> Ballot {
        Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
    }

    fn batch() -> Batch {
        Batch::new(ChangeId { made: Timestamp::from_ms(1), proposer: ProposerId(1) })
    }

    #[test]
    fn each_member_is_decided_on_what_the_ones_before_it_made() {
        // Each adds its number to what it asks for, or is refused.
        let members = [(0, 1), (0, 2), (1, 4), (9, 8)];
        let decided =
            decide_in_order(members, 0, |(asks, adds), state| (asks == *state).then(|| state + adds));
        assert_eq!(decided, BatchDecision { state: 5, made_count: 2 });
        let none = decide_in_order([(1, 1)], 0, |(asks, adds), state| (asks == *state).then(|| state + adds));
        assert_eq!(none, BatchDecision { state: 0, made_count: 0 });
    }

    #[test]
    fn a_batch_is_closed_by_its_first_accept_of_any_kind() {
        let mut own = batch();
        assert!(!own.is_closed);
        own.note_accept(ballot(5), Some(7));
        assert!(own.is_closed);
        let mut identity = batch();
        identity.note_accept(ballot(5), None);
        assert!(identity.is_closed && identity.tries.is_none());
        assert_eq!(identity.leaving(), LeaveReply::NothingChanged);
    }

    #[test]
    fn tries_are_numbered_and_the_lowest_count_is_kept() {
        let mut batch = batch();
        assert_eq!(batch.next_try().map(|own| own.number), Some(1));
        batch.note_accept(ballot(5), Some(7));
        batch.note_accept(ballot(6), Some(3));
        batch.note_accept(ballot(7), Some(9));
        assert_eq!(batch.next_try().map(|own| own.number), Some(4));
        let tries = batch.tries.expect("accepts were sent");
        assert_eq!((tries.first_accept, tries.lowest_count), (ballot(5), 3));
        assert_eq!(Batch { tries_count: u16::MAX, ..batch }.next_try(), None);
    }

    #[test]
    fn the_outcome_of_earlier_tries_is_judged_by_the_found_value_and_the_floor() {
        let nothing = Changes::default();
        assert_eq!(batch().verdict(&nothing, true, ballot(9)), None, "nothing was tried");
        let mut batch = batch();
        batch.note_accept(ballot(5), Some(7));
        assert_eq!(batch.verdict(&nothing, false, ballot(4)), Some(AfterConflict::TryAgain));
        assert_eq!(batch.verdict(&nothing, false, ballot(5)), Some(AfterConflict::Unknown));
        let own = ChangeTry { change: batch.change, number: 1 };
        let found = Changes { count: 7, recent: vec![own], ..Changes::default() };
        let verdict = |committed| batch.verdict(&found, committed, ballot(5));
        assert_eq!(verdict(true), Some(AfterConflict::Committed { number: 1 }));
        assert_eq!(verdict(false), Some(AfterConflict::Settle { number: 1 }));
    }

    #[test]
    fn tries_are_forgotten_by_a_committed_value_above_all_of_them() {
        let mut batch = batch();
        batch.note_accept(ballot(5), Some(7));
        batch.note_accept(ballot(9), Some(8));
        for (found, committed) in [(ballot(7), true), (ballot(9), true), (ballot(10), false)] {
            batch.forget_tries(found, committed);
            assert_eq!(batch.leaving(), LeaveReply::Unknown);
        }
        batch.forget_tries(ballot(10), true);
        assert_eq!((batch.tries, batch.leaving()), (None, LeaveReply::NothingChanged));
        assert!(batch.is_closed, "what it proposed is decided again by the same members");
        assert_eq!(batch.next_try().map(|own| own.number), Some(3));
        batch.note_accept(ballot(11), Some(20));
        assert_eq!(batch.tries.map(|tries| tries.lowest_count), Some(20));
    }

    #[test]
    fn a_failed_condition_is_answered_at_once_under_three_conditions() {
        let all = RefusedMember { found_is_certain: true, came_before_asking: true };
        assert!(batch().may_refuse_at_once(all));
        assert!(!batch().may_refuse_at_once(RefusedMember { found_is_certain: false, ..all }));
        assert!(!batch().may_refuse_at_once(RefusedMember { came_before_asking: false, ..all }));
        let mut tried = batch();
        tried.note_accept(ballot(5), Some(7));
        assert!(!tried.may_refuse_at_once(all));
        assert_eq!(tried.leaving(), LeaveReply::Unknown);
    }

    #[test]
    fn data_that_was_proposed_waits_for_a_committed_value_without_it() {
        let committed = |time, names| Some(CommittedValue { ballot: ballot(time), names });
        assert_eq!(give_back(None, None), GiveBack::AtOnce);
        assert_eq!(give_back(None, committed(6, false)), GiveBack::AtOnce);
        assert_eq!(give_back(Some(ballot(5)), None), GiveBack::Nothing);
        assert_eq!(give_back(Some(ballot(5)), committed(5, true)), GiveBack::Nothing);
        assert_eq!(give_back(Some(ballot(5)), committed(4, false)), GiveBack::Nothing);
        assert_eq!(give_back(Some(ballot(5)), committed(6, false)), GiveBack::AfterGrace);
    }
}
