//! Tables of a read's decisions.

use super::*;
use crate::id::{Life, ProposerId, Sequence, Timestamp};
use crate::register::position::OpeningId;
use crate::register::quorum::Order;
use crate::register::{Answerer, Row, RowHead};

fn ballot(time: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
}

fn vote(volume: u8, row: Option<(u64, bool)>, floor: u64) -> Reply<Vote> {
    let from = Answerer {
        life: Life(1),
        votes: true,
        peers: [].into(),
        opening: OpeningId::NONE,
        durable: Sequence(0),
    };
    let head = |(time, committed)| RowHead { ballot: ballot(time), digest: [0; 32], committed };
    let row = row.map(|row| Row { head: head(row), value_bytes: 1, value: None });
    let result = Ok(Vote { row, floor: ballot(floor) });
    Reply { volume: VolumeId([volume; 16]), from, order: Order { asked: 0, arrived: 1 }, result }
}

fn decide(volumes: usize, replies: &[Reply<Vote>], outstanding: usize, patience_over: bool) -> ReadDecision {
    let lives = Lives::default();
    decide_read(
        replies,
        ReadProgress { quorums: Quorums::of(volumes), outstanding, lives: &lives, patience_over },
    )
}

fn value_of(decision: &ReadDecision) -> Option<Ballot> {
    if let ReadDecision::Value(found) = decision { Some(found.ballot) } else { None }
}

#[test]
fn the_highest_ballot_is_returned_when_it_is_known_committed() {
    let known = decide(3, &[vote(1, Some((5, true)), 0), vote(2, Some((5, false)), 0)], 1, false);
    assert_eq!(value_of(&known), Some(ballot(5)));
    let behind = decide(3, &[vote(1, Some((4, true)), 0), vote(2, Some((5, true)), 0)], 0, false);
    assert_eq!(value_of(&behind), Some(ballot(5)));
    let higher = decide(3, &[vote(1, Some((4, true)), 0), vote(2, Some((5, false)), 0)], 0, false);
    assert_eq!(higher, ReadDecision::AskAgain, "a higher one is under way");
}

#[test]
fn a_replies_with_one_ballot_are_enough() {
    let same = decide(3, &[vote(1, Some((5, false)), 0), vote(2, Some((5, false)), 0)], 0, false);
    assert_eq!(value_of(&same), Some(ballot(5)));
    // N = 4: P = 2 replies that agree are fewer than an accept quorum.
    let pair = [vote(1, Some((5, false)), 0), vote(2, Some((5, false)), 0)];
    assert_eq!(decide(4, &pair, 2, false), ReadDecision::Wait);
    assert_eq!(decide(4, &pair, 0, false), ReadDecision::AskAgain);
    assert_eq!(decide(4, &pair, 0, true), ReadDecision::Finish);
}

#[test]
fn p_times_nothing_is_absent() {
    assert_eq!(decide(3, &[vote(1, None, 0), vote(2, None, 0)], 1, false), ReadDecision::Absent);
    let minority = [vote(1, None, 0), vote(2, None, 0), vote(3, Some((5, false)), 0)];
    assert_eq!(decide(3, &minority, 0, false), ReadDecision::Absent);
    assert_eq!(decide(3, &[vote(1, None, 0)], 1, false), ReadDecision::Wait);
    assert_eq!(decide(3, &[vote(1, None, 0)], 0, false), ReadDecision::Unavailable);
}

#[test]
fn a_row_at_or_below_the_floor_of_a_nothing_is_asked_for_once_more() {
    let row = vote(1, Some((5, true)), 0);
    let again = ReadDecision::AskOnceMore { volumes: vec![VolumeId([1; 16])] };
    assert_eq!(decide(3, &[row.clone(), vote(2, None, 5)], 0, false), again);
    assert_eq!(value_of(&decide(3, &[row.clone(), vote(2, None, 4)], 0, false)), Some(ballot(5)));
    let asked_later = Reply { order: Order { asked: 1, arrived: 2 }, ..row.clone() };
    assert_eq!(value_of(&decide(3, &[asked_later, vote(2, None, 5)], 0, false)), Some(ballot(5)));
    let holds = [row, vote(2, Some((3, true)), 5)];
    assert_eq!(value_of(&decide(3, &holds, 0, false)), Some(ballot(5)), "no nothing, no drop in between");
}

#[test]
fn without_a_quorum_the_refusals_say_why() {
    let refused = |volume, refusal| Reply { result: Err(refusal), ..vote(volume, None, 0) };
    let sealed = [refused(1, Refusal::Sealed), refused(2, Refusal::Sealed), vote(3, None, 0)];
    assert_eq!(decide(3, &sealed, 0, false), ReadDecision::Sealed);
    let epoch = Epoch(4);
    let stale = [refused(1, Refusal::StaleEpoch { epoch }), refused(2, Refusal::Recovering)];
    assert_eq!(decide(3, &stale, 0, false), ReadDecision::StaleEpoch { epoch });
    assert_eq!(decide(3, &stale, 2, false), ReadDecision::Wait);
}
