//! The rules about disks that come back, each taken out once, in sets of two to five volumes.

use crate::report::{breaks, holds, holds_when_full};
use crate::returning::{ReturningDisks, Without};

/// One volume is lost and its disk comes back, or an earlier copy of it does.
fn one_disk(volumes: usize) -> ReturningDisks {
    ReturningDisks {
        without: Without::Nothing,
        volumes,
        victims: 1,
        writes: 3,
        records: 0,
        has_tails: false,
        has_refusals: false,
        losses: [1, 0],
        copies: 1,
        kept: 1,
        returns: 1,
        restarts: 1,
    }
}

/// Two volumes are.
fn two_disks(volumes: usize) -> ReturningDisks {
    ReturningDisks { victims: 2, writes: 2, losses: [1, 1], restarts: 0, ..one_disk(volumes) }
}

/// A volume that is never lost is rolled back once, and takes records and answers in every standing.
fn rolled_back() -> ReturningDisks {
    ReturningDisks { writes: 2, records: 2, has_refusals: true, losses: [0, 0], restarts: 0, ..one_disk(3) }
}

/// The victim is restarted, too.
fn restarted() -> ReturningDisks {
    ReturningDisks { restarts: 1, records: 1, ..rolled_back() }
}

fn needed(without: Without, model: &ReturningDisks) {
    breaks(without, &ReturningDisks { without, ..model.clone() });
    holds(&format!("with    {without:?}, {} volumes", model.volumes), model);
}

/// Where the rules hold in a configuration that takes minutes.
fn needed_when_full(without: Without, model: &ReturningDisks) {
    breaks(without, &ReturningDisks { without, ..model.clone() });
    holds_when_full(&format!("with    {without:?}, {} volumes", model.volumes), model);
}

#[test]
fn enough_peers_say_what_they_remember_before_a_volume_votes() {
    for volumes in 2..=5 {
        needed(Without::EnoughPeers, &one_disk(volumes));
    }
}

/// In an odd set every quorum with the old life has a volume that recorded the later one.
#[test]
fn a_remembered_life_above_ones_own_is_lost_state() {
    for volumes in [2, 4] {
        needed(Without::LaterLives, &ReturningDisks { writes: 2, ..one_disk(volumes) });
    }
}

#[test]
fn a_remembered_record_above_ones_own_is_lost_state() {
    for volumes in 2..=5 {
        needed(Without::LaterRecords, &ReturningDisks { losses: [0, 0], ..one_disk(volumes) });
    }
}

/// The only other volume that is there lost its state, and what it remembered with it.
#[test]
fn a_volume_that_lost_its_own_state_does_not_confirm_another() {
    needed(Without::WholePeers, &two_disks(4));
    let restarted = ReturningDisks { restarts: 1, ..two_disks(4) };
    holds_when_full("two volumes lost, one disk back, one restart", &restarted);
}

#[test]
fn a_volume_that_is_rebuilt_remembers_what_its_voters_do() {
    needed(Without::AdoptMemory, &two_disks(4));
}

/// Two disks come back, each of them from before the other's loss was known.
#[test]
fn a_volume_that_was_rolled_back_itself_does_not_confirm_another() {
    needed(Without::CurrentPeers, &ReturningDisks { returns: 2, copies: 0, ..two_disks(4) });
}

/// Records of no write take an unconfirmed volume past what its peers remember of it.
#[test]
fn memory_is_not_compared_with_the_present_end_of_the_log() {
    needed(Without::Openings, &rolled_back());
}

/// Peers that are asked late remember what the volume wrote since it was opened.
#[test]
fn memory_is_compared_within_its_opening() {
    needed(Without::OpeningIds, &restarted());
    needed(Without::CurrentOpening, &restarted());
}

#[test]
fn how_far_an_opening_came_is_remembered_with_it() {
    needed(Without::Ends, &rolled_back());
}

/// Two logs that went apart at the same place would name the same opening.
#[test]
fn openings_are_drawn_and_not_counted() {
    needed_when_full(Without::RandomOpenings, &ReturningDisks { returns: 2, records: 3, ..rolled_back() });
}

#[test]
fn every_opening_is_remembered_for_itself() {
    needed(Without::NoteOfEach, &rolled_back());
    needed(Without::NoteOfEachLower, &rolled_back());
}

/// A later opening that began above a position does not prove that its log had it.
#[test]
fn only_a_question_takes_a_note_away() {
    needed_when_full(Without::Questions, &ReturningDisks { returns: 2, copies: 2, kept: 2, ..rolled_back() });
}

#[test]
fn a_question_that_covers_notes_leaves_a_note_of_its_opening() {
    needed(Without::Replacement, &restarted());
}

#[test]
fn a_volume_answers_with_what_is_synced() {
    needed(Without::SyncedAnswers, &ReturningDisks { has_tails: true, ..restarted() });
}

#[test]
fn an_opening_is_durable_before_it_answers() {
    needed_when_full(Without::DurableOpenings, &ReturningDisks { restarts: 2, ..restarted() });
}

#[test]
fn a_log_names_all_openings_of_its_life() {
    let restarted_twice = ReturningDisks { restarts: 2, records: 0, writes: 1, ..restarted() };
    needed(Without::AllOpenings, &restarted_twice);
}

#[test]
fn disks_come_back_in_every_order_with_every_rule_in() {
    let tails = |model: ReturningDisks| ReturningDisks { has_tails: true, ..model };
    holds_when_full("two volumes", &tails(ReturningDisks { volumes: 2, restarts: 1, ..rolled_back() }));
    holds_when_full("three volumes", &tails(ReturningDisks { restarts: 1, ..rolled_back() }));
    let twice = ReturningDisks { returns: 2, copies: 2, ..rolled_back() };
    holds_when_full("rolled back twice to two copies", &ReturningDisks { kept: 2, ..twice.clone() });
    holds_when_full("rolled back twice to one copy, restarted", &ReturningDisks { restarts: 1, ..twice });
    holds_when_full("lost and rolled back", &ReturningDisks { losses: [1, 0], ..restarted() });
    holds_when_full("four volumes", &tails(ReturningDisks { volumes: 4, ..restarted() }));
    holds_when_full("five volumes", &ReturningDisks { volumes: 5, ..restarted() });
}
