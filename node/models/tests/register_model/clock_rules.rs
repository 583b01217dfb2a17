//! The rules about clocks, each taken out where it is needed; and the same searched with all of them in.

use crate::clocks::{Clocks, HOUR_MS};
use crate::report::{breaks, holds};
use crate::rules::Without;

const DAY_MS: u64 = 24 * HOUR_MS;

fn needed(without: Without, model: &Clocks) {
    breaks(without, &Clocks { without, ..model.clone() });
    holds(&format!("with    {without:?}"), model);
}

/// A gateway with an arbitrary clock, and volumes whose clocks are right.
fn bad_gateway() -> Clocks {
    Clocks { bad_messages: 4, ..Clocks::default() }
}

/// The clocks of all are ahead, and set back.
fn set_back(all_ms: u64) -> Clocks {
    Clocks { all_ms, gateway_restarts: 1, ..Clocks::default() }
}

/// The first volume's clock is ahead.
fn bad_volume(volume_ms: u64) -> Clocks {
    Clocks { volume_ms, restarts: 1, ..Clocks::default() }
}

#[test]
fn the_clocks_of_all_are_set_back_by_up_to_a_day() {
    for all_ms in [HOUR_MS, 23 * HOUR_MS, DAY_MS] {
        let model = Clocks { writes: 3, restarts: 3, ..set_back(all_ms) };
        holds(&format!("set back by {all_ms} ms"), &model);
    }
}

#[test]
fn one_gateway_with_a_bad_clock_stops_no_other() {
    let model = Clocks { bad_messages: 5, bad_floors: 1, restarts: 1, ..bad_gateway() };
    holds("a bad gateway", &model);
}

#[test]
fn one_volume_with_a_bad_clock_costs_that_volume() {
    for volume_ms in [HOUR_MS, 23 * HOUR_MS, 10 * DAY_MS] {
        let model = Clocks { writes: 3, restarts: 2, other_messages: 1, ..bad_volume(volume_ms) };
        holds(&format!("a volume {volume_ms} ms ahead"), &model);
    }
}

#[test]
fn one_volume_with_a_bad_clock_costs_that_volume_after_a_recovery_too() {
    for volume_ms in [HOUR_MS, 23 * HOUR_MS, 10 * DAY_MS] {
        let model = Clocks { writes: 2, recoveries: 1, bad_floors: 1, ..bad_volume(volume_ms) };
        holds(&format!("a volume {volume_ms} ms ahead, and a recovery"), &model);
        let running = Clocks { restarts: 0, ..model };
        holds(&format!("a volume {volume_ms} ms ahead, never restarted, and a recovery"), &running);
    }
}

/// Two volumes, each twice five minutes further than its clock.
#[test]
fn a_row_takes_no_other_ballot_further() {
    needed(Without::RowsDoNotCount, &bad_gateway());
}

#[test]
fn a_promised_bound_takes_no_other_ballot_further() {
    needed(Without::BoundsDoNotCount, &bad_gateway());
}

#[test]
fn a_ballot_far_ahead_of_the_clock_is_refused() {
    needed(Without::FarAheadIsRefused, &bad_gateway());
}

#[test]
fn a_volume_remembers_what_its_own_clock_said() {
    needed(Without::OwnReadingCounts, &set_back(HOUR_MS));
}

#[test]
fn a_proposer_follows_a_step_of_all_clocks() {
    needed(Without::StepsAreFollowed, &set_back(HOUR_MS));
}

#[test]
fn of_the_bounds_after_a_step_the_lowest_is_followed_first() {
    // A volume that was away while the clocks were ahead would be a second one that is missed.
    let model = Clocks { volume_ms: 22 * HOUR_MS, restarts: 3, all_answer: true, ..set_back(HOUR_MS) };
    needed(Without::LowestFirst, &model);
}

#[test]
fn a_proposer_follows_no_bound_more_than_four_minutes_that_it_can_do_without() {
    needed(Without::FollowFourMinutes, &Clocks { other_messages: 1, ..bad_volume(HOUR_MS) });
}

#[test]
fn a_gateway_whose_clock_alone_was_ahead_starts_over() {
    needed(Without::BeginAnew, &Clocks { gateway_ms: HOUR_MS, writes: 2, ..Clocks::default() });
}

#[test]
fn voters_report_what_they_promised_not_the_bound_that_their_clock_extends() {
    needed(Without::PromisesNotBound, &Clocks { recoveries: 1, restarts: 0, ..bad_volume(HOUR_MS) });
}

#[test]
fn a_volume_more_than_a_day_ahead_does_not_vote_in_a_recovery() {
    needed(Without::FarAheadIsNoVoter, &Clocks { recoveries: 1, ..bad_volume(10 * DAY_MS) });
}

#[test]
fn a_data_floor_stays_behind_the_volumes_own_clock() {
    needed(Without::DataFloorsAreJudged, &Clocks { bad_floors: 1, ..Clocks::default() });
}

/// A bad sweeper and a bad volume on one node, and another volume that recovers from it.
#[test]
fn data_is_born_above_every_data_floor_that_refused_its_gateway() {
    needed(Without::BirthsAboveFloors, &Clocks { bad_floors: 1, recoveries: 1, ..bad_volume(10 * DAY_MS) });
}
