//! Tables of the proposer's decisions.

use super::*;
use crate::id::{Life, ProposerId, Sequence};
use crate::record::ChangeTry;
use crate::register::position::OpeningId;
use crate::register::quorum::Order;
use crate::register::{Answerer, Row, RowHead};

const NOW: Timestamp = Timestamp::from_ms(1_000_000);

fn ballot(seconds: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(seconds * 1_000), proposer: ProposerId(1) }
}

fn reply<T>(volume: u8, result: Result<T, Refusal>) -> Reply<T> {
    let from = Answerer {
        life: Life(1),
        votes: true,
        peers: [].into(),
        opening: OpeningId::NONE,
        durable: Sequence(0),
    };
    Reply { volume: VolumeId([volume; 16]), from, order: Order::default(), result }
}

fn promise(volume: u8, row: Option<(u64, bool)>, floor: u64) -> Reply<Vote> {
    let head = |(seconds, committed)| RowHead { ballot: ballot(seconds), digest: [7; 32], committed };
    let row = row.map(|row| Row { head: head(row), value_bytes: 1, value: None });
    reply(volume, Ok(Vote { row, floor: ballot(floor) }))
}

fn refused<T>(volume: u8, bound: u64) -> Reply<T> {
    reply(volume, Err(Refusal::Below { bound: ballot(bound) }))
}

fn prepared(replies: &[Reply<Vote>], outstanding: usize) -> PrepareOutcome {
    prepared_in(3, replies, outstanding).outcome
}

fn prepared_in(volumes: usize, replies: &[Reply<Vote>], outstanding: usize) -> Decision<PrepareOutcome> {
    let lives = Lives::default();
    after_prepare(
        replies,
        &[],
        PrepareProgress { quorums: Quorums::of(volumes), outstanding, now: NOW, lives: &lives },
    )
}

fn accepted(replies: &[Reply<()>], outstanding: usize) -> Decision<AcceptOutcome> {
    accepted_in(3, replies, outstanding)
}

fn accepted_in(volumes: usize, replies: &[Reply<()>], outstanding: usize) -> Decision<AcceptOutcome> {
    let lives = Lives::default();
    after_accept(
        replies,
        PrepareProgress { quorums: Quorums::of(volumes), outstanding, now: NOW, lives: &lives },
    )
}

#[test]
fn a_promises_find_the_highest_row_and_floor() {
    let outcome = prepared(&[promise(1, Some((5, false)), 3), promise(2, Some((9, true)), 1)], 1);
    let PrepareOutcome::Prepared(PrepareResult { found: Some(found), floor }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((found.ballot, found.committed, floor), (ballot(9), true, ballot(3)));
    assert_eq!(found.holders, [VolumeId([2; 16])]);
    let nothing = prepared(&[promise(1, None, 0), promise(2, None, 0)], 0);
    assert_eq!(nothing, PrepareOutcome::Prepared(PrepareResult { found: None, floor: ballot(0) }));
}

#[test]
fn the_committed_flag_of_a_lower_row_says_nothing() {
    let outcome = prepared(&[promise(1, Some((5, true)), 0), promise(2, Some((9, false)), 0)], 0);
    assert!(matches!(
        outcome,
        PrepareOutcome::Prepared(PrepareResult { found: Some(HighestRow { committed: false, .. }), .. })
    ));
}

/// No hint has come yet: a change that is refused on such a row needs no write for its answer.
#[test]
fn a_row_that_an_accept_quorum_shows_is_committed() {
    let is_committed = |volumes, replies: &[Reply<Vote>]| match prepared_in(volumes, replies, 1).outcome {
        PrepareOutcome::Prepared(PrepareResult { found: Some(found), .. }) => found.committed,
        other => panic!("{other:?}"),
    };
    let row = |seconds| move |volume| promise(volume, Some((seconds, false)), 0);
    let equal: Vec<_> = (1..=4).map(row(9)).collect();
    assert!(is_committed(3, &equal[..2]) && is_committed(4, &equal[..3]) && is_committed(5, &equal[..3]));
    let one_older = |count| (1..count).map(row(9)).chain([row(5)(count)]).collect::<Vec<_>>();
    assert!(!is_committed(3, &one_older(2)), "one of three holds it");
    assert!(!is_committed(4, &one_older(3)), "two of four hold it, and that may be all");
    assert!(!is_committed(5, &one_older(3)));
    assert!(is_committed(4, &one_older(4)), "three of four hold it");
    // The floor of the third covers its row: it may have adopted that, and promised a higher ballot in its
    // old life.
    let copied = |floor| [row(9)(1), row(9)(2), promise(3, Some((9, false)), floor)];
    assert!(!is_committed(5, &copied(9)) && is_committed(5, &copied(8)));
    let known = [row(9)(1), row(9)(2), promise(3, Some((9, true)), 9)];
    assert!(is_committed(5, &known), "a copy of what is known to be committed");
}

#[test]
fn a_row_that_its_volume_cannot_give_is_left_out_with_its_promise() {
    // N = 4: A = 3.
    let rotten = UnreadableRow { volume: VolumeId([3; 16]), ballot: ballot(9) };
    let decide = |replies: &[Reply<Vote>], outstanding| {
        let (quorums, lives) = (Quorums::of(4), Lives::default());
        after_prepare(replies, &[rotten], PrepareProgress { quorums, outstanding, now: NOW, lives: &lives })
            .outcome
    };
    let shown = promise(3, Some((9, false)), 4);
    let three = [promise(1, Some((5, true)), 0), promise(2, Some((5, true)), 0), shown.clone()];
    assert_eq!(decide(&three, 1), PrepareOutcome::Wait, "two promises are left");
    assert_eq!(decide(&three, 0), PrepareOutcome::Unavailable);
    let found = |replies: &[Reply<Vote>]| match decide(replies, 0) {
        PrepareOutcome::Prepared(PrepareResult { found, floor }) => (found.map(|found| found.ballot), floor),
        other => panic!("{other:?}"),
    };
    let nothing = [promise(1, None, 0), promise(2, None, 0), shown.clone(), promise(4, None, 0)];
    assert_eq!(found(&nothing), (None, ballot(4)), "its floor counts");
    let held = [promise(1, None, 0), promise(2, Some((9, false)), 0), shown, promise(4, None, 0)];
    assert_eq!(found(&held), (Some(ballot(9)), ballot(4)), "another has it, too");
    let replaced = [promise(1, None, 0), promise(2, None, 0), promise(3, Some((11, false)), 0)];
    assert_eq!(found(&replaced).0, Some(ballot(11)), "this row of it was not asked for");
}

/// An answer also carries the lives of the volume's peers, which do not depend on the row.
#[test]
fn a_volume_whose_row_is_left_out_still_names_a_later_life() {
    let mut knowing = promise(3, Some((9, false)), 0);
    knowing.from.peers = [(VolumeId([1; 16]), Life(2))].into();
    let replies = [promise(1, None, 0), promise(2, None, 0), knowing];
    let rotten = UnreadableRow { volume: VolumeId([3; 16]), ballot: ballot(9) };
    let lives = Lives::default();
    let progress = PrepareProgress { quorums: Quorums::of(3), outstanding: 0, now: NOW, lives: &lives };
    assert_eq!(after_prepare(&replies, &[rotten], progress).outcome, PrepareOutcome::Unavailable);
}

#[test]
fn p_promises_are_not_enough() {
    // N = 4: P = 2, A = 3.
    let replies = [promise(1, None, 0), promise(2, None, 0)];
    assert_eq!(prepared_in(4, &replies, 1).outcome, PrepareOutcome::Wait);
    assert_eq!(prepared_in(4, &replies, 0).outcome, PrepareOutcome::Unavailable);
}

#[test]
fn a_refused_prepare_follows_the_highest_bound() {
    let replies = [refused(1, 1_100), refused(2, 1_050), promise(3, None, 0)];
    assert_eq!(prepared(&replies, 0), PrepareOutcome::Retry { above: ballot(1_100) });
    assert_eq!(prepared(&[refused(1, 1_100)], 2), PrepareOutcome::Wait, "two others may still promise");
    assert_eq!(
        prepared(&[refused(1, 1_100)], 0),
        PrepareOutcome::Unavailable,
        "one volume is no quorum at any ballot"
    );
}

#[test]
fn a_bound_more_than_four_minutes_ahead_is_not_followed() {
    let edge = [refused(1, 1_240), refused(2, 1_050), promise(3, None, 0)];
    assert_eq!(prepared(&edge, 0), PrepareOutcome::Retry { above: ballot(1_240) });
    let beyond = prepared_in(3, &[refused(1, 1_241), refused(2, 1_050), promise(3, None, 0)], 0);
    assert_eq!(beyond.outcome, PrepareOutcome::Retry { above: ballot(1_050) });
    assert_eq!(beyond.skewed, [VolumeId([1; 16])]);
    let one = prepared_in(3, &[refused(1, 1_241), promise(2, None, 0), promise(3, None, 0)], 0);
    assert!(matches!(one.outcome, PrepareOutcome::Prepared(_)), "one bad clock costs one volume");
    assert_eq!(one.skewed, [VolumeId([1; 16])]);
}

#[test]
fn bounds_that_leave_no_quorum_within_four_minutes_are_followed_the_lowest_first() {
    const DAY: u64 = 86_400;
    let two = [refused(1, 90_000), refused(2, 4_600), promise(3, None, 0)];
    assert_eq!(prepared(&two, 0), PrepareOutcome::Retry { above: ballot(4_600) });
    let all = [refused(1, 90_000), refused(2, 4_600), refused(3, 4_800)];
    assert_eq!(prepared(&all, 0), PrepareOutcome::Retry { above: ballot(4_800) }, "two of them are needed");
    let near = [refused(1, 90_000), refused(2, 4_600), refused(3, 1_100)];
    assert_eq!(prepared(&near, 0), PrepareOutcome::Retry { above: ballot(4_600) });
    let edge = |seconds| prepared(&[refused(1, seconds), refused(2, seconds), promise(3, None, 0)], 0);
    assert_eq!(edge(1_600 + DAY), PrepareOutcome::Retry { above: ballot(1_600 + DAY) });
    assert_eq!(edge(1_601 + DAY), PrepareOutcome::Unavailable, "a day and ten minutes at most");
    let one = [refused(1, 4_600), promise(2, None, 0)];
    assert_eq!(prepared(&one, 1), PrepareOutcome::Wait, "another volume may still promise");
    let conflict = accepted(&[refused(1, 4_600), refused(2, 4_700)], 0).outcome;
    assert_eq!(conflict, AcceptOutcome::Conflict { above: ballot(4_700) });
}

#[test]
fn a_ballot_that_is_too_far_ahead_for_a_quorum_is_an_outcome_of_its_own() {
    let ahead = |volume| reply(volume, Err(Refusal::TooFarAhead { latest: NOW }));
    assert_eq!(prepared(&[ahead(1), ahead(2), promise(3, None, 0)], 0), PrepareOutcome::TooFarAhead);
    assert_eq!(prepared(&[ahead(1), refused(2, 4_600)], 0), PrepareOutcome::Unavailable, "one is silent");
    let one = prepared_in(3, &[ahead(1), promise(2, None, 0), promise(3, None, 0)], 0);
    assert!(matches!(one.outcome, PrepareOutcome::Prepared(_)), "one bad clock costs one volume");
    assert_eq!(one.skewed, [VolumeId([1; 16])]);
}

#[test]
fn a_seal_is_noted_and_decides_only_when_a_quorum_is_out_of_reach() {
    let sealed = || reply(1, Err(Refusal::Sealed));
    let enough = prepared_in(3, &[sealed(), promise(2, None, 0), promise(3, None, 0)], 0);
    assert!(matches!(enough.outcome, PrepareOutcome::Prepared(_)));
    assert!(enough.seal_seen);
    let two = [sealed(), reply(2, Err(Refusal::Sealed)), promise(3, None, 0)];
    assert_eq!(prepared(&two, 0), PrepareOutcome::Sealed);
    let stale = reply(2, Err(Refusal::StaleEpoch { epoch: Epoch(9) }));
    assert_eq!(prepared(&[refused(1, 5), stale], 0), PrepareOutcome::StaleEpoch { epoch: Epoch(9) });
}

#[test]
fn a_accepts_commit_with_any_other_answers() {
    assert_eq!(
        accepted(&[reply(1, Ok(())), reply(2, Ok(())), refused(3, 5)], 0).outcome,
        AcceptOutcome::Committed
    );
    assert_eq!(accepted(&[reply(1, Ok(()))], 2).outcome, AcceptOutcome::Wait);
    assert_eq!(
        accepted(&[reply(1, Ok(())), refused(2, 5), refused(3, 7)], 0).outcome,
        AcceptOutcome::Conflict { above: ballot(7) }
    );
    assert_eq!(accepted(&[reply(1, Ok(()))], 0).outcome, AcceptOutcome::Undecided);
    let floor = Timestamp::from_ms(1);
    let old = [
        reply(1, Ok(())),
        reply(2, Err(Refusal::DataTooOld { floor })),
        reply(3, Err(Refusal::DataTooOld { floor })),
    ];
    assert_eq!(accepted(&old, 0).outcome, AcceptOutcome::DataTooOld);
    let sealed = [reply(1, Ok(())), reply(2, Err(Refusal::Sealed)), refused(3, 5)];
    assert_eq!(accepted(&sealed, 0).outcome, AcceptOutcome::Sealed);
}

#[test]
fn an_accept_stored_by_a_recovering_volume_does_not_count() {
    let mut refilling = reply(2, Ok(()));
    refilling.from.votes = false;
    assert_eq!(accepted(&[reply(1, Ok(())), refilling], 0).outcome, AcceptOutcome::Undecided);
}

/// How many of a round's volumes did what: promised (or accepted), may still answer, refuse with a bound
/// that is near, with one an hour ahead, or the ballot as too far ahead. The others are silent.
#[derive(Debug, Clone, Copy)]
struct Round {
    volumes: usize,
    votes: usize,
    outstanding: usize,
    near: usize,
    far: usize,
    ahead: usize,
}

impl Round {
    /// Every round of one to five volumes.
    fn all() -> impl Iterator<Item = Self> {
        let counts = || (0..=5).flat_map(|a| (0..=5).map(move |b| (a, b)));
        let split = move |volumes| {
            counts().flat_map(move |(votes, outstanding)| {
                counts().flat_map(move |(near, far)| {
                    (0..=5).map(move |ahead| Self { volumes, votes, outstanding, near, far, ahead })
                })
            })
        };
        let answered = |round: &Self| round.votes + round.outstanding + round.near + round.far + round.ahead;
        (1..=5).flat_map(split).filter(move |round| answered(round) <= round.volumes)
    }

    fn replies<T: Clone>(self, vote: &T) -> Vec<Reply<T>> {
        let Self { volumes: _, votes, outstanding: _, near, far, ahead } = self;
        let results = std::iter::repeat_n(Ok(vote.clone()), votes)
            .chain(std::iter::repeat_n(Err(Refusal::Below { bound: ballot(1_100) }), near))
            .chain((4_600..).take(far).map(|seconds| Err(Refusal::Below { bound: ballot(seconds) })))
            .chain(std::iter::repeat_n(Err(Refusal::TooFarAhead { latest: NOW }), ahead));
        (1..).zip(results).map(|(volume, result)| reply(volume, result)).collect()
    }

    /// The lowest ballot above which as many volumes as are needed can vote, found by trying each.
    fn follows(self) -> Option<Ballot> {
        let open = self.votes + self.outstanding;
        let near = (self.near > 0).then_some((1_100, open + self.near));
        let far = (4_600..).zip(open + self.near + 1..).take(self.far);
        let reached = near.into_iter().chain(far).find(|(_, voters)| self.is_quorum(*voters));
        reached.map(|(seconds, _)| ballot(seconds))
    }

    /// More than half of the volumes.
    fn is_quorum(self, volumes: usize) -> bool {
        volumes * 2 > self.volumes
    }
}

#[test]
fn a_prepare_is_decided_by_who_can_still_promise_in_every_round_of_up_to_five_volumes() {
    for round in Round::all() {
        let Round { volumes, votes, outstanding, near, ahead, .. } = round;
        let nothing = Vote { row: None, floor: ballot(0) };
        let outcome = prepared_in(volumes, &round.replies(&nothing), outstanding).outcome;
        let open = votes + outstanding;
        let expected = if round.is_quorum(votes) {
            PrepareOutcome::Prepared(PrepareResult { found: None, floor: ballot(0) })
        } else if round.is_quorum(open) {
            PrepareOutcome::Wait
        } else if let Some(above) = round.follows() {
            PrepareOutcome::Retry { above }
        } else if round.is_quorum(open + near + ahead) {
            PrepareOutcome::TooFarAhead
        } else {
            PrepareOutcome::Unavailable
        };
        assert_eq!(outcome, expected, "{round:?}");
    }
}

#[test]
fn an_accept_is_decided_by_who_can_still_accept_in_every_round_of_up_to_five_volumes() {
    for round in Round::all() {
        let outcome = accepted_in(round.volumes, &round.replies(&()), round.outstanding).outcome;
        let expected = if round.is_quorum(round.votes) {
            AcceptOutcome::Committed
        } else if round.is_quorum(round.votes + round.outstanding) {
            AcceptOutcome::Wait
        } else {
            round.follows().map_or(AcceptOutcome::Undecided, |above| AcceptOutcome::Conflict { above })
        };
        assert_eq!(outcome, expected, "{round:?}");
    }
}

#[test]
fn volumes_that_may_still_answer_count_towards_a_higher_ballot() {
    // N = 5: A = 3. One promise, one outstanding, and the one volume that is missing from three.
    let ahead = reply(2, Err(Refusal::TooFarAhead { latest: NOW }));
    let with = |other| prepared_in(5, &[promise(1, None, 0), other], 1).outcome;
    assert_eq!(with(refused(2, 1_100)), PrepareOutcome::Retry { above: ballot(1_100) });
    assert_eq!(with(ahead.clone()), PrepareOutcome::TooFarAhead);
    let none = [promise(1, None, 0), refused(3, 1_100), ahead];
    assert_eq!(prepared_in(5, &none, 0).outcome, PrepareOutcome::TooFarAhead);
    assert_eq!(prepared_in(5, &none[..2], 0).outcome, PrepareOutcome::Unavailable, "one less");
    let accepts = [reply(1, Ok(())), refused(2, 1_100)];
    assert_eq!(accepted_in(5, &accepts, 1).outcome, AcceptOutcome::Conflict { above: ballot(1_100) });
    assert_eq!(accepted_in(5, &accepts, 0).outcome, AcceptOutcome::Undecided, "one less");
    assert_eq!(accepted(&accepts[..1], 1).outcome, AcceptOutcome::Wait, "exactly two of three");
}

fn id(number: u64) -> ChangeId {
    ChangeId { made: Timestamp::from_ms(number), proposer: ProposerId(1) }
}

fn made_by(number: u64) -> ChangeTry {
    ChangeTry { change: id(number), number: 1 }
}

#[test]
fn a_writer_finds_its_change_or_gets_an_unknown_outcome() {
    let tries = Tries { change: id(1), first_accept: ballot(10), lowest_count: 5, highest_floor: ballot(9) };
    let found = |count, ids: Vec<u64>| Changes {
        count,
        recent: ids.into_iter().map(made_by).collect(),
        ..Changes::default()
    };
    assert_eq!(after_conflict(&found(6, vec![9, 1]), true, &tries), AfterConflict::Committed { number: 1 });
    assert_eq!(after_conflict(&found(6, vec![9, 1]), false, &tries), AfterConflict::Settle { number: 1 });
    assert_eq!(after_conflict(&found(20, (5..21).collect()), true, &tries), AfterConflict::TryAgain);
    assert_eq!(after_conflict(&found(21, (6..22).collect()), true, &tries), AfterConflict::Unknown);
    assert_eq!(after_conflict(&Changes::default(), false, &tries), AfterConflict::TryAgain);
    let dropped = Tries { highest_floor: ballot(10), ..tries };
    assert_eq!(after_conflict(&Changes::default(), false, &dropped), AfterConflict::Unknown);
    assert_eq!(
        after_conflict(&found(21, vec![1]), true, &dropped),
        AfterConflict::Committed { number: 1 },
        "what is found is found"
    );
}
