//! The register's rules, each taken out in a small configuration that shows why it is there; and
//! the same configurations searched whole with every rule in.
//!
//! Where the counter-example is long, its beginning is given as a scenario and the search goes on
//! from there: the search is then exhaustive for that beginning only.

use crate::register::{ACTORS, Program, Register, Step};
use crate::report::{breaks, holds};
use crate::rules::Without;

use Program::{Delete, Drop, Put, PutIfAbsent, PutThenDelete, Read, Recover, Settle, Sweep};

/// A configuration with one ballot for each of these actors.
fn actors(programs: &[Program]) -> Register {
    let ballots = u8::try_from(programs.len()).expect("few");
    Register { actors: programs.to_vec(), ballots, ..Register::default() }
}

/// As [`actors`], where the first volume may be lost once; two ballots.
fn lossy(programs: &[Program]) -> Register {
    Register { losses: [1, 0], ballots: 2, ..actors(programs) }
}

fn needed(without: Without, model: &Register) {
    breaks(without, &Register { without, ..model.clone() });
    holds(&format!("with    {without:?}"), model);
}

const TWO_TRIES: [u8; ACTORS] = [2; ACTORS];

#[test]
fn an_accept_without_a_promises_loses_a_write_with_a_volume() {
    let model = lossy(&[Put(&[0]), Put(&[1]), Recover(0)]);
    needed(Without::APromises, &Register { volumes: 4, ..model });
}

#[test]
fn a_tombstone_without_history_makes_a_change_twice() {
    let model = actors(&[Put(&[0]), Delete(1)]);
    needed(Without::TombstoneHistory, &Register { tries: TWO_TRIES, ballots: 3, ..model });
}

#[test]
fn a_writer_that_does_not_look_for_its_id_makes_its_change_twice() {
    let model = actors(&[Put(&[0]), Settle]);
    needed(Without::OwnIdIsSuccess, &Register { tries: TWO_TRIES, ballots: 3, ..model });
}

#[test]
fn a_writer_that_does_not_settle_its_own_value_loses_it() {
    needed(Without::SettleOwn, &Register { tries: TWO_TRIES, ballots: 3, ..actors(&[Put(&[0])]) });
}

/// Of two conditional writes one wins: the loser's history would lack the winner's change.
#[test]
fn a_failed_condition_is_answered_after_its_cause_is_committed() {
    let model = actors(&[PutIfAbsent(0), PutIfAbsent(1)]);
    needed(Without::SettleFailed, &Register { tries: TWO_TRIES, ballots: 4, ..model });
}

#[test]
fn four_more_changes_push_an_id_out_of_the_ring() {
    let prefix = vec![
        Step::Start { actor: 0, ballot: 1 },
        Step::Promise { actor: 0, at: 0 },
        Step::Promise { actor: 0, at: 1 },
        Step::Decide { actor: 0, from: 3 },
        Step::Accept { ballot: 1, at: 0 },
        Step::Start { actor: 1, ballot: 2 },
        Step::Promise { actor: 1, at: 1 },
        Step::Promise { actor: 1, at: 0 },
        Step::Decide { actor: 1, from: 3 },
    ];
    let model = actors(&[Put(&[0]), Put(&[1, 2, 3, 4])]);
    needed(Without::RingOverflow, &Register { tries: [2, 1, 0, 0, 1], ballots: 6, prefix, ..model });
}

/// One writer's value on a minority, another's on a second one, the first writer's second try made from that;
/// then a third proposer goes on from the first try.
#[test]
fn changes_are_counted_from_the_lowest_try_not_from_the_latest() {
    let mut prefix = vec![
        Step::Start { actor: 0, ballot: 1 },
        Step::Promise { actor: 0, at: 0 },
        Step::Promise { actor: 0, at: 1 },
        Step::Decide { actor: 0, from: 3 },
        Step::Accept { ballot: 1, at: 0 },
        Step::Start { actor: 1, ballot: 2 },
        Step::Promise { actor: 1, at: 1 },
        Step::Promise { actor: 1, at: 2 },
        Step::Decide { actor: 1, from: 6 },
        Step::Accept { ballot: 2, at: 2 },
        Step::Start { actor: 0, ballot: 3 },
        Step::Promise { actor: 0, at: 1 },
        Step::Promise { actor: 0, at: 2 },
        Step::Decide { actor: 0, from: 6 },
    ];
    for ballot in [4, 5] {
        prefix.extend(whole_write(2, ballot));
    }
    let model = actors(&[Put(&[0]), Put(&[1]), Put(&[2, 3, 4, 5])]);
    needed(Without::LowestNotLatest, &Register { tries: [3, 1, 1, 0, 1], ballots: 8, prefix, ..model });
}

/// A first try made from a tombstone, which is then dropped: the second try counts from one again.
#[test]
fn changes_are_counted_from_the_lowest_try_not_from_the_first() {
    let mut prefix = Vec::new();
    for ballot in [1, 2] {
        prefix.extend(whole_write(1, ballot));
    }
    prefix.extend([
        Step::Accept { ballot: 2, at: 2 },
        Step::Start { actor: 0, ballot: 3 },
        Step::Promise { actor: 0, at: 0 },
        Step::Promise { actor: 0, at: 1 },
        Step::Decide { actor: 0, from: 3 },
        Step::Pick { actor: 2, ballot: 2 },
    ]);
    prefix.extend((0..3).flat_map(|at| [Step::Raise { actor: 2, at }, Step::Confirm { actor: 2, at }]));
    prefix.push(Step::Authorise { actor: 2 });
    prefix.extend((0..3).map(|at| Step::Drop { actor: 2, at }));
    prefix.extend([
        Step::Start { actor: 0, ballot: 4 },
        Step::Promise { actor: 0, at: 0 },
        Step::Promise { actor: 0, at: 1 },
        Step::Decide { actor: 0, from: 3 },
        Step::Accept { ballot: 4, at: 0 },
    ]);
    for ballot in [5, 6] {
        prefix.extend(whole_write(3, ballot));
    }
    let model = actors(&[Put(&[0]), PutThenDelete(&[1, 2]), Drop, Put(&[3, 4, 5, 6])]);
    needed(Without::LowestNotFirst, &Register { tries: [3, 1, 0, 1, 1], ballots: 9, prefix, ..model });
}

/// A write that goes through on the first two volumes.
fn whole_write(actor: u8, ballot: u8) -> [Step; 7] {
    [
        Step::Start { actor, ballot },
        Step::Promise { actor, at: 0 },
        Step::Promise { actor, at: 1 },
        Step::Decide { actor, from: 3 },
        Step::Accept { ballot, at: 0 },
        Step::Accept { ballot, at: 1 },
        Step::Count { actor, from: 3 },
    ]
}

#[test]
fn a_dropped_tombstone_took_the_ids_with_it() {
    let model = actors(&[Put(&[0]), Delete(1), Drop]);
    needed(Without::FloorsMakeUnknown, &Register { tries: [2, 1, 0, 0, 1], ballots: 3, ..model });
}

#[test]
fn equal_values_at_two_ballots_are_not_a_quorum() {
    let prefix = vec![
        Step::Start { actor: 0, ballot: 1 },
        Step::Promise { actor: 0, at: 0 },
        Step::Promise { actor: 0, at: 1 },
        Step::Decide { actor: 0, from: 3 },
        Step::Accept { ballot: 1, at: 0 },
    ];
    let model = actors(&[Put(&[0]), Put(&[1]), Settle, Read]);
    needed(Without::BallotsNotValues, &Register { ballots: 3, prefix, ..model });
}

#[test]
fn a_read_uses_no_row_that_a_drop_may_have_overtaken() {
    let model = actors(&[PutThenDelete(&[0, 1]), Drop, Read]);
    needed(Without::AskOnceMore, &Register { ballots: 2, hints: true, ..model });
}

#[test]
fn a_row_that_cannot_be_read_is_not_nothing() {
    needed(Without::UnreadableIsNoVote, &Register { rot: true, ..actors(&[Put(&[0]), Read]) });
}

/// A volume that shows a row and cannot read it is left out with its promise: without it the other promises
/// are one short of A.
#[test]
fn the_promise_of_a_volume_whose_row_cannot_be_read_does_not_count_among_the_a() {
    needed(Without::UnreadablePromise, &Register { rot: true, ..actors(&[Put(&[0]), Put(&[1])]) });
    let model = actors(&[Put(&[0]), Settle]);
    needed(Without::UnreadablePromise, &Register { rot: true, tries: TWO_TRIES, ballots: 3, ..model });
}

#[test]
fn a_restarted_volume_refuses_what_it_may_have_promised_away() {
    needed(Without::RestartBound, &Register { restarts: 1, ..actors(&[Put(&[0]), Put(&[1])]) });
}

#[test]
fn a_bound_is_durable_before_the_promise_is_answered() {
    needed(Without::BoundBeforePromise, &Register { restarts: 1, ..actors(&[Put(&[0]), Put(&[1])]) });
}

#[test]
fn only_who_found_the_data_named_releases_it() {
    needed(Without::MadeFromNaming, &Register { release: true, ..actors(&[Put(&[0]), Put(&[1])]) });
}

#[test]
fn a_writer_releases_after_a_higher_ballot_only() {
    let model = actors(&[Put(&[0]), Put(&[1]), Settle]);
    needed(Without::WriterHigherBallot, &Register { release: true, ..model });
}

#[test]
fn a_writer_that_released_proposes_no_more() {
    let model = actors(&[Put(&[0]), Put(&[1])]);
    needed(Without::WriterStops, &Register { release: true, tries: TWO_TRIES, ballots: 3, ..model });
}

#[test]
fn a_sweep_has_the_data_floor_of_every_volume() {
    needed(Without::SweepAll, &actors(&[Put(&[0]), Sweep(0), Settle]));
}

#[test]
fn a_sweep_raises_data_floors() {
    needed(Without::SweepFloors, &actors(&[Put(&[0]), Sweep(0)]));
}

#[test]
fn a_sweep_writes_a_tombstone_where_it_finds_nothing() {
    needed(Without::SweepTombstone, &actors(&[Put(&[0]), Sweep(0), Settle]));
}

#[test]
fn a_sweep_settles_the_key_before_it_judges() {
    needed(Without::SweepSettles, &actors(&[Put(&[0]), Sweep(0), Settle]));
}

#[test]
fn every_volume_confirms_a_drop() {
    needed(Without::DropAll, &Register { ballots: 3, ..actors(&[PutThenDelete(&[0, 1]), Drop, Settle]) });
}

#[test]
fn a_drop_raises_floors() {
    needed(Without::DropFloors, &Register { ballots: 3, ..actors(&[PutThenDelete(&[0, 1]), Drop, Settle]) });
}

#[test]
fn a_volume_with_an_older_row_does_not_confirm_a_drop() {
    let model = actors(&[PutThenDelete(&[0, 1]), Drop, Settle]);
    needed(Without::DropThisTombstone, &Register { ballots: 3, ..model });
}

#[test]
fn a_drop_erases_nothing_but_its_tombstone() {
    needed(Without::DropIfStill, &Register { ballots: 2, ..actors(&[Delete(0), Drop, Put(&[1])]) });
}

#[test]
fn a_drop_forgets_no_promise() {
    let mut prefix = Vec::from(whole_write(0, 1));
    prefix.push(Step::Accept { ballot: 1, at: 2 });
    let model = actors(&[Delete(0), Drop, Put(&[1]), Put(&[2])]);
    needed(Without::DropKeepsPromise, &Register { ballots: 3, prefix, ..model });
}

/// A tombstone, an object and another tombstone; when the last is dropped, the request that raised
/// floors for the first arrives once more, and after it the object's late accept.
#[test]
fn floors_never_fall() {
    let mut prefix = Vec::from(whole_write(0, 1));
    prefix.push(Step::Pick { actor: 2, ballot: 1 });
    for ballot in [2, 3] {
        prefix.extend(whole_write(1, ballot));
    }
    let model = actors(&[Delete(0), PutThenDelete(&[1, 2]), Drop]);
    needed(Without::FloorsNeverFall, &Register { ballots: 3, prefix, ..model });
}

#[test]
fn a_volume_without_its_state_takes_no_writes() {
    needed(Without::LostTakesNoWrites, &lossy(&[PutThenDelete(&[0, 1]), Drop, Recover(0)]));
}

#[test]
fn a_recovering_volume_does_not_vote() {
    needed(Without::RefillingDoesNotVote, &lossy(&[Put(&[0]), Put(&[1]), Recover(0)]));
}

#[test]
fn voters_record_the_new_life_before_they_report() {
    needed(Without::RecordThenReport, &lossy(&[Put(&[0]), Put(&[1]), Recover(0)]));
}

#[test]
fn replies_of_an_older_life_do_not_count() {
    needed(Without::OldLivesDiscarded, &lossy(&[Put(&[0]), Put(&[1]), Recover(0)]));
}

/// Where copies count as well: see `copies_rules`.
#[test]
fn voters_have_the_floor_before_they_are_scanned() {
    needed(Without::FloorAndCopies, &lossy(&[Put(&[0]), Put(&[1]), Recover(0)]));
}

#[test]
fn a_recovering_volume_takes_the_floor() {
    needed(Without::TakeFloor, &lossy(&[Put(&[0]), Put(&[1]), Recover(0)]));
}

#[test]
fn a_recovering_volume_adopts_from_all_its_voters() {
    needed(Without::AdoptFromAll, &lossy(&[Put(&[0]), Put(&[1]), Recover(0)]));
}

#[test]
fn a_recovering_volume_adopts_data_floors() {
    let mut prefix: Vec<_> = (0..3).map(|at| Step::Raise { actor: 1, at }).collect();
    prefix.extend([Step::Floored { actor: 1, from: 7 }, Step::Lose { at: 0 }]);
    prefix.push(Step::Rebuild { actor: 3, from: 6 });
    prefix.extend([1, 2].map(|at| Step::Record { actor: 3, at }));
    let model = lossy(&[Put(&[0]), Sweep(0), Settle, Recover(0)]);
    needed(Without::AdoptDataFloors, &Register { ballots: 3, prefix, ..model });
}

/// A promise of a first volume's old life; the only peer that counts it lost its record of that life.
#[test]
fn a_recovering_volume_adopts_the_lives_of_its_peers() {
    let mut prefix = vec![
        Step::Start { actor: 1, ballot: 2 },
        Step::Promise { actor: 1, at: 0 },
        Step::Lose { at: 0 },
        Step::Rebuild { actor: 2, from: 6 },
    ];
    for at in [1, 2] {
        prefix.push(Step::Record { actor: 2, at });
    }
    prefix.push(Step::Take { actor: 2, from: 6 });
    prefix.extend([1, 2].map(|at| Step::Guard { actor: 2, at }));
    prefix.extend([1, 2].map(|at| Step::Scan { actor: 2, at }));
    prefix.extend([Step::Vote { actor: 2 }, Step::Lose { at: 1 }]);
    let model = lossy(&[Put(&[0]), Put(&[1]), Recover(0), Recover(1)]);
    needed(Without::AdoptLives, &Register { losses: [1, 1], prefix, ..model });
}
