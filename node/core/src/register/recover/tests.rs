//! Tables of the barrier.

use super::*;
use crate::id::{ChangeId, ProposerId, Sequence};
use crate::register::Answerer;
use crate::register::position::OpeningId;
use crate::register::quorum::Order;

fn ballot(time: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
}

fn volume(number: u8) -> VolumeId {
    VolumeId([number; 16])
}

fn reply<T>(number: u8, asked: u32, value: T) -> Reply<T> {
    let from = Answerer {
        life: Life(1),
        votes: true,
        peers: [].into(),
        opening: OpeningId::NONE,
        durable: Sequence(0),
    };
    Reply { volume: volume(number), from, order: Order { asked, arrived: asked + 1 }, result: Ok(value) }
}

/// A report of a voter that has volume 9 in this life.
fn report(number: u8, life: u32, bound: u64, floor: u64, highest: u64) -> Reply<Guarantees> {
    let guarantees = Guarantees {
        bound: ballot(bound),
        floor: ballot(floor),
        highest: ballot(highest),
        lives: vec![(volume(9), Life(life))],
        ..Guarantees::default()
    };
    reply(number, 0, guarantees)
}

const SET: Quorums = Quorums::of(3);
const NOW: Timestamp = Timestamp::from_ms(1_000);

fn of(reports: &[Reply<Guarantees>]) -> Option<Barrier> {
    barrier(volume(9), Life(2), reports, SET, &Lives::default(), NOW)
}

#[test]
fn a_life_is_one_more_than_any_report_names() {
    let lives = Lives::default();
    let next =
        |own, known: &[Reply<Guarantees>], lives: &Lives| next_life(volume(9), Life(own), known, SET, lives);
    let known = [report(1, 1, 0, 0, 0), report(2, 4, 0, 0, 0)];
    assert_eq!(next(1, &known, &lives), Some(Life(5)));
    assert_eq!(next(7, &known, &lives), Some(Life(8)));
    assert_eq!(next(1, &known[..1], &lives), None, "fewer than P voters");
    let mut heard = Lives::default();
    heard.learn(volume(9), Life(6));
    assert_eq!(next(1, &known, &heard), Some(Life(7)));
}

#[test]
fn f_is_the_maximum_of_p_reports_made_after_the_recording() {
    let found = of(&[report(1, 2, 7, 1, 3), report(2, 2, 2, 5, 6)]).expect("two reports");
    assert_eq!(found.floor, ballot(7));
    assert_eq!(found.guarantees.floor, ballot(7));
    assert_eq!(found.voters, [(volume(1), Life(1)), (volume(2), Life(1))]);
    assert_eq!(of(&[report(1, 2, 0, 0, 9), report(2, 2, 0, 0, 0)]).map(|b| b.floor), Some(ballot(9)));
    assert_eq!(of(&[report(1, 2, 0, 9, 0), report(2, 2, 0, 0, 0)]).map(|b| b.floor), Some(ballot(9)));
    assert_eq!(of(&[report(1, 2, 7, 1, 3), report(2, 1, 2, 5, 6)]), None, "reported before it recorded");
    assert_eq!(of(&[report(1, 2, 7, 1, 3), report(9, 2, 2, 5, 6)]), None, "no volume counts for itself");
    let mut recovering = report(2, 2, 0, 0, 0);
    recovering.from.votes = false;
    assert_eq!(of(&[report(1, 2, 7, 1, 3), recovering]), None);
}

#[test]
fn guarantees_merge_to_the_strongest() {
    let with = |floor, life| Guarantees {
        data_floor: Timestamp::from_ms(floor),
        lives: vec![(volume(5), Life(life))],
        ..Guarantees::default()
    };
    let both = merge([&with(3, 2), &with(5, 4)].into_iter());
    assert_eq!(both.data_floor, Timestamp::from_ms(5));
    assert_eq!(both.life_of(volume(5)), Life(4));
}

#[test]
fn the_seals_of_all_voters_are_taken_together() {
    let bucket = |n| BucketId([n; 16]);
    let deletions = [1, 2].map(|ms| ChangeId { made: Timestamp::from_ms(ms), ..ChangeId::ZERO });
    let mut all = VoterSeals::default();
    all.add(vec![(bucket(1), deletions[..1].to_vec()), (bucket(3), Vec::new())]);
    all.add(vec![(bucket(1), deletions[1..].to_vec()), (bucket(2), deletions.to_vec())]);
    let expected = [(1, deletions.to_vec()), (2, deletions.to_vec()), (3, Vec::new())];
    assert_eq!(all.clone().into_stored(), expected.map(|(n, deletions)| (bucket(n), deletions)));
    all.add(vec![(bucket(1), Vec::new()), (bucket(3), deletions.to_vec())]);
    let expected = [(1, Vec::new()), (2, deletions.to_vec()), (3, Vec::new())];
    let expected = expected.map(|(n, deletions)| (bucket(n), deletions));
    assert_eq!(all.into_stored(), expected, "a final seal outlasts all others");
    assert_eq!(VoterSeals::default().into_stored(), []);
}

#[test]
fn guarantees_are_taken_when_the_seals_of_every_voter_were_read_after_its_report() {
    let reports = [report(1, 2, 7, 1, 3), report(2, 2, 2, 5, 6)];
    let goal = of(&reports).expect("two reports");
    let may = |read: &[Reply<()>]| may_take(&goal, &reports, read, &Lives::default());
    assert!(may(&[reply(1, 1, ()), reply(2, 2, ())]));
    assert!(!may(&[reply(1, 1, ()), reply(2, 0, ())]), "asked before its report had come");
    assert!(!may(&[reply(1, 1, ())]), "one is missing");
    assert!(!may(&[reply(1, 1, ()), reply(3, 1, ())]), "another volume speaks for no voter");
    let mut another_life = [reply(1, 1, ()), reply(2, 1, ())];
    another_life[1].from.life = Life(2);
    assert!(!may(&another_life), "it may have lost the seals that it reported to have");
    let mut recovering = [reply(1, 1, ()), reply(2, 1, ())];
    recovering[1].from.votes = false;
    assert!(!may(&recovering));
}

#[test]
fn a_volume_that_no_report_names_is_in_its_first_life() {
    let first = Guarantees { lives: vec![(volume(5), Life(1))], ..Guarantees::default() };
    let merged = merge([&first].into_iter());
    assert_eq!((merged.life_of(volume(5)), merged.lives), (Life(1), Vec::new()));
}

#[test]
fn a_voters_own_life_is_among_the_lives_that_are_adopted() {
    let mut second_life = report(1, 2, 0, 0, 0);
    second_life.from.life = Life(3);
    let found = of(&[second_life, report(2, 2, 0, 0, 0)]).expect("two reports");
    assert_eq!(found.guarantees.life_of(volume(1)), Life(3));
}

#[test]
fn a_volume_more_than_a_day_ahead_does_not_vote() {
    let day = 1_000 + CLOCK_STEP_MS_MAX;
    let near = report(1, 2, 7, 1, 3);
    for far in [report(2, 2, day + 1, 0, 0), report(2, 2, 0, day + 1, 0), report(2, 2, 0, 0, day + 1)] {
        assert_eq!(of(&[near.clone(), far.clone()]), None);
        assert!(of(&[near.clone(), far, report(3, 2, 1, 1, 1)]).is_some(), "the others are enough");
    }
    assert_eq!(of(&[near, report(2, 2, day, 0, 0)]).map(|found| found.floor), Some(ballot(day)));
}

#[test]
fn voters_are_scanned_after_all_of_them_have_f() {
    let lives = Lives::default();
    let goal = of(&[report(1, 2, 7, 1, 3), report(2, 2, 2, 5, 6)]).expect("two reports");
    let guards = |first, second| [report(1, 2, 0, first, 0), report(2, 2, 0, second, 0)];
    assert!(may_scan(&goal, &guards(7, 8), &lives));
    assert!(!may_scan(&goal, &guards(7, 6), &lives));
    assert!(!may_scan(&goal, &guards(7, 7)[..1], &lives));
    let another = [report(1, 2, 0, 7, 0), report(3, 2, 0, 7, 0)];
    assert!(!may_scan(&goal, &another, &lives), "another volume speaks for no voter");
    let mut another_life = guards(7, 7);
    another_life[0].from.life = Life(2);
    assert!(!may_scan(&goal, &another_life, &lives), "what it reported is gone");
}

#[test]
fn a_set_is_recovered_when_every_voter_was_scanned_after_its_floor() {
    let lives = Lives::default();
    let goal = of(&[report(1, 2, 7, 1, 3), report(2, 2, 2, 5, 6)]).expect("two reports");
    let guards = [report(1, 2, 0, 7, 0), report(2, 2, 0, 7, 0)];
    assert!(may_vote(&goal, &guards, &[reply(1, 1, ()), reply(2, 1, ())], &lives));
    assert!(!may_vote(&goal, &guards, &[reply(1, 1, ())], &lives));
    assert!(
        !may_vote(&goal, &guards, &[reply(1, 1, ()), reply(2, 0, ())], &lives),
        "scanned before its floor"
    );
    assert!(
        !may_vote(&goal, &guards, &[reply(1, 1, ()), reply(3, 1, ())], &lives),
        "another volume was scanned for a voter"
    );
    let mut late = guards;
    late[1].order = Order { asked: 4, arrived: 5 };
    assert!(
        !may_vote(&goal, &late, &[reply(1, 6, ()), reply(2, 1, ())], &lives),
        "scanned after the floor of the other, and before its own"
    );
    assert!(may_vote(&goal, &late, &[reply(1, 1, ()), reply(2, 5, ())], &lives));
}

#[test]
fn the_highest_row_is_adopted_with_its_flag() {
    let row = |time, committed| RowHead { ballot: ballot(time), digest: [0; 32], committed };
    assert_eq!(adopt(None, &row(5, false)), Adoption::Take);
    assert_eq!(adopt(Some(&row(4, true)), &row(5, false)), Adoption::Take);
    assert_eq!(adopt(Some(&row(5, false)), &row(5, true)), Adoption::LearnCommitted);
    assert_eq!(adopt(Some(&row(5, true)), &row(5, false)), Adoption::Keep);
    assert_eq!(adopt(Some(&row(6, false)), &row(5, true)), Adoption::Keep, "stored while it was recovering");
    assert_eq!(adopt(Some(&row(5, false)), &row(5, false)), Adoption::Keep, "no volume has it as committed");
    assert_eq!(adopt(Some(&row(5, true)), &row(5, true)), Adoption::Keep);
    for committed in [false, true] {
        assert_eq!(adopt(Some(&row(4, false)), &row(5, committed)), Adoption::Take, "another row");
    }
}
