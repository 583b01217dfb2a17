//! The rules of a bucket's deletion, each taken out once; and the same configurations with all in.

use crate::bucket::{Bucket, Without};
use crate::report::{breaks, holds, holds_when_full};

fn one_gateway() -> Bucket {
    Bucket {
        without: Without::Nothing,
        volumes: 3,
        gateways: 1,
        tries: 1,
        deletes: false,
        upkeep: false,
        loses: false,
        recreates: false,
        cuts: false,
    }
}

fn needed(without: Without, model: &Bucket) {
    breaks(without, &Bucket { without, ..model.clone() });
    holds(&format!("with    {without:?}"), model);
}

#[test]
fn every_try_has_a_fresh_deletion_id() {
    needed(Without::FreshId, &Bucket { gateways: 2, ..one_gateway() });
}

#[test]
fn a_seal_quorum_outlives_the_loss_of_a_volume() {
    needed(Without::AcceptQuorum, &Bucket { volumes: 4, loses: true, ..one_gateway() });
}

#[test]
fn seals_of_several_deletions_stand_side_by_side() {
    needed(Without::SideBySide, &Bucket { tries: 2, upkeep: true, ..one_gateway() });
}

#[test]
fn a_volume_is_listed_after_its_own_seal() {
    needed(Without::ListAfterSeal, &one_gateway());
}

#[test]
fn the_sealed_volumes_are_the_listed_ones() {
    needed(Without::ListTheSealed, &one_gateway());
}

#[test]
fn the_register_is_active_before_a_seal_is_removed() {
    needed(Without::ActiveFirst, &Bucket { gateways: 2, ..one_gateway() });
}

#[test]
fn an_undone_deletion_removes_its_own_seals_only() {
    needed(Without::OnlyItsOwn, &Bucket { tries: 2, ..one_gateway() });
}

#[test]
fn upkeep_reads_the_register_after_it_saw_the_seal() {
    needed(Without::ReadAfterSeen, &Bucket { upkeep: true, ..one_gateway() });
}

#[test]
fn a_seal_stays_when_the_register_names_another_bucket() {
    needed(Without::NamesBucket, &Bucket { upkeep: true, recreates: true, ..one_gateway() });
}

#[test]
fn an_unsettled_row_keeps_a_bucket() {
    needed(Without::Unsettled, &Bucket { deletes: true, ..one_gateway() });
}

#[test]
fn a_volume_that_missed_a_tombstone_does_not_say_that_its_object_is_there() {
    needed(Without::EnoughShowIt, &Bucket { deletes: true, ..one_gateway() });
}

/// As many as are sealed: with fewer, the loss of one of them lets a write through that only others hold.
#[test]
fn a_volumes_are_empty_where_another_holds_a_row() {
    needed(Without::EmptyAccept, &Bucket { volumes: 4, loses: true, ..one_gateway() });
}

/// With P = A + 1 short: three volumes have A = P, and hide it.
#[test]
fn a_tombstone_is_gone_when_a_volumes_accepted_it() {
    needed(Without::AcceptedByA, &Bucket { volumes: 4, deletes: true, ..one_gateway() });
}

#[test]
fn a_copy_of_a_tombstone_is_not_accepted() {
    needed(Without::Copies, &Bucket { deletes: true, loses: true, ..one_gateway() });
}

#[test]
fn a_list_that_was_cut_does_not_say_that_nothing_is_there() {
    needed(Without::Complete, &Bucket { cuts: true, ..one_gateway() });
}

#[test]
fn seals_of_a_lost_life_do_not_count() {
    needed(Without::OldLives, &Bucket { loses: true, ..one_gateway() });
}

#[test]
fn a_recovering_volume_adopts_seals() {
    needed(Without::AdoptSeals, &Bucket { loses: true, ..one_gateway() });
}

#[test]
fn a_bucket_is_deleted_once_it_is_empty_beside_any_other_steps() {
    let two = Bucket { gateways: 2, deletes: true, ..one_gateway() };
    holds("two gateways, put and delete", &two);
    holds("upkeep, put and delete", &Bucket { upkeep: true, deletes: true, ..one_gateway() });
    holds("upkeep, a loss", &Bucket { upkeep: true, loses: true, ..one_gateway() });
    holds_when_full(
        "two gateways, put and delete, upkeep",
        &Bucket { upkeep: true, recreates: true, ..two.clone() },
    );
    holds_when_full("two gateways, a loss", &Bucket { loses: true, deletes: false, ..two });
    holds("5 volumes", &Bucket { volumes: 5, ..one_gateway() });
    let five = Bucket { volumes: 5, deletes: true, loses: true, ..one_gateway() };
    holds_when_full("put and delete, a loss, 5 volumes", &five);
    let four = Bucket { volumes: 4, tries: 2, loses: true, ..one_gateway() };
    holds_when_full("two tries, a loss, 4 volumes", &four);
}

/// Together, where the test before has them apart.
#[test]
#[ignore = "a minute"]
fn a_bucket_is_deleted_once_it_is_empty_beside_any_steps_at_once() {
    let model = Bucket { deletes: true, ..one_gateway() };
    holds("upkeep, put and delete, a loss", &Bucket { upkeep: true, loses: true, ..model.clone() });
    holds("put and delete, cuts, 5 volumes", &Bucket { volumes: 5, cuts: true, ..model });
}
