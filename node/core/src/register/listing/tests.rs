//! Tables of the listing rule.

use super::*;
use crate::id::{Ballot, ProposerId, Timestamp};

#[expect(clippy::unnecessary_wraps, reason = "an entry of a scan is an option")]
fn row(time: u64, committed: bool, live: bool) -> Option<ScannedEntry> {
    let ballot = Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) };
    Some(ScannedEntry { head: RowHead { ballot, digest: [0; 32], committed }, live })
}

fn key(name: &'static str) -> ObjectKey {
    ObjectKey::new(name).expect("a key")
}

#[test]
fn a_key_is_taken_from_p_rows_of_which_the_highest_is_committed() {
    let set = Quorums::of(3);
    assert_eq!(decide_key(&[row(5, true, true), row(4, true, true)], set), KeyDecision::Take { from: 0 });
    assert_eq!(
        decide_key(&[row(5, false, true), row(5, false, true)], set),
        KeyDecision::Read,
        "one of them may be a copy that a recovering volume made"
    );
    assert_eq!(decide_key(&[row(5, false, true), row(4, true, true)], set), KeyDecision::Read);
    assert_eq!(decide_key(&[row(5, true, true), None], set), KeyDecision::Read, "one row of two scans");
    assert_eq!(decide_key(&[None, None], set), KeyDecision::Absent);
    let four = Quorums::of(4);
    assert_eq!(decide_key(&[row(5, true, true), row(5, false, true)], four), KeyDecision::Take { from: 1 });
}

#[test]
fn a_prefix_is_taken_when_p_scans_name_one_live_witness() {
    let set = Quorums::of(3);
    let (a, b) = (key("p/a"), key("p/b"));
    let named = |key, row: Option<ScannedEntry>| row.map(|row| (key, row));
    let same = [named(&a, row(5, true, true)), named(&a, row(5, false, true))];
    assert_eq!(decide_prefix(&same, set), PrefixDecision::Take);
    let apart = [named(&b, row(5, true, true)), named(&a, row(6, true, true))];
    assert_eq!(decide_prefix(&apart, set), PrefixDecision::Judge { witness: 1 }, "the lowest first");
    let alone = [None, named(&a, row(6, true, true))];
    assert_eq!(decide_prefix(&alone, set), PrefixDecision::Judge { witness: 1 });
    let dead = [named(&a, row(6, true, false)), named(&a, row(6, false, false))];
    assert_eq!(decide_prefix(&dead, set), PrefixDecision::Reseek { witness: 0 });
    let unsure = [named(&a, row(6, false, true)), named(&a, row(5, false, true))];
    assert_eq!(decide_prefix(&unsure, set), PrefixDecision::Judge { witness: 0 });
    assert_eq!(decide_prefix(&[None, None], set), PrefixDecision::Absent);
    let third =
        [named(&a, row(4, false, false)), named(&b, row(5, true, true)), named(&b, row(5, true, true))];
    assert_eq!(decide_prefix(&third, set), PrefixDecision::Take, "a live key below it is enough");
}

#[test]
fn only_tombstones_known_committed_are_skipped() {
    assert!(!is_listed(true, true));
    assert!(is_listed(false, true) && is_listed(true, false) && is_listed(false, false));
}

#[test]
#[should_panic(expected = "fewer scans than P")]
fn fewer_scans_than_p_are_a_mistake() {
    decide_key(&[None], Quorums::of(3));
}
