//! The rules of healing, each taken out in a small configuration that shows why it is there. `heal_holds`
//! searches the same configurations with every rule in.

use crate::report::breaks;

use crate::cluster::{Cluster, Kind};
use crate::rules::Without;

use Kind::{Append, Complete, Delete, Put};

fn needed(without: Without, model: Cluster) {
    breaks(without, &Cluster { without, ..model });
}

/// Two puts, of which each may miss one volume, and a restart.
pub(crate) fn two_puts_and_a_restart() -> Cluster {
    Cluster { writes: &[&[Put], &[Put]], crashes: 1, ..Cluster::default() }
}

/// Two puts, of which each may miss two volumes.
pub(crate) fn two_puts_that_miss_two() -> Cluster {
    Cluster { writes: &[&[Put], &[Put]], misses: 2, ..Cluster::default() }
}

pub(crate) fn a_put_and_an_append() -> Cluster {
    Cluster { writes: &[&[Put], &[Put, Append]], ..Cluster::default() }
}

pub(crate) fn a_put_and_a_wiped_volume() -> Cluster {
    Cluster { wipes: 1, ..Cluster::default() }
}

/// A put, and the volume that looks or the one that it looks at wiped, with cursors from before.
pub(crate) fn a_put_and_a_wiped_asker_or_source() -> Cluster {
    Cluster { wipes: 1, victims: 2, first_sequence: 2, ..Cluster::default() }
}

pub(crate) fn a_put_and_a_volume_that_goes_back() -> Cluster {
    Cluster { rollbacks: 1, ..Cluster::default() }
}

/// Two volumes of 2+2 wiped beside one that is behind.
pub(crate) fn two_wiped_beside_one_behind() -> Cluster {
    Cluster { volumes: 4, data_shards: 2, wipes: 2, victims: 3, converges: false, ..Cluster::default() }
}

/// A part that is uploaded, completed to an object, and deleted.
pub(crate) fn an_upload() -> Cluster {
    let writes: &[&[Kind]] = &[&[Put], &[Complete], &[Delete]];
    Cluster { keys: 2, is_upload: true, writes, ..Cluster::default() }
}

pub(crate) fn five_volumes() -> Cluster {
    Cluster { volumes: 5, data_shards: 3, misses: 2, ..Cluster::default() }
}

#[test]
fn a_hint_that_says_committed_leaves_a_row_listed() {
    needed(Without::HintLeavesListed, two_puts_and_a_restart());
}

#[test]
fn a_row_leaves_the_list_by_the_cursors_of_all_others() {
    needed(Without::AllSent, two_puts_and_a_restart());
}

#[test]
fn a_row_without_a_place_on_the_list_raises_the_horizon() {
    needed(Without::Horizon, Cluster { keys: 2, list_max: 0, ..two_puts_and_a_restart() });
}

#[test]
fn adopted_rows_are_listed() {
    needed(Without::AdoptedAreListed, a_put_and_a_wiped_asker_or_source());
}

#[test]
fn a_cursor_is_durable_before_it_is_sent() {
    needed(Without::CursorDurableBeforeSent, two_puts_and_a_restart());
}

#[test]
fn a_cursor_is_durable_after_the_rows_that_its_look_pulled() {
    needed(Without::CursorAfterRows, two_puts_and_a_restart());
}

#[test]
fn a_cursor_of_another_life_says_nothing() {
    needed(Without::CursorOfThisLife, a_put_and_a_wiped_asker_or_source());
}

#[test]
fn a_peer_reads_its_durable_sequence_before_its_rows() {
    needed(Without::DurableReadFirst, two_puts_and_a_restart());
}

#[test]
fn a_row_that_was_refused_is_not_passed() {
    needed(Without::RefusedIsNotPassed, two_puts_and_a_restart());
}

/// The own row is a write's that never wins, and the peer moved on to it as well: it hides the acknowledged
/// row on both.
#[test]
fn a_higher_row_that_is_not_committed_passes_nothing() {
    needed(Without::HigherIsCommitted, two_puts_that_miss_two());
}

#[test]
fn an_equal_row_that_is_not_committed_passes_nothing() {
    let model = Cluster { volumes: 4, data_shards: 2, ..two_puts_that_miss_two() };
    needed(Without::EqualIsCommitted, model);
}

#[test]
fn a_restart_ends_a_look() {
    needed(Without::RestartEndsLook, two_puts_and_a_restart());
}

#[test]
fn a_volume_that_an_accept_does_not_name_wants_its_shard() {
    needed(Without::IntroducedIsWanted, two_puts_and_a_restart());
}

#[test]
fn a_shard_of_a_life_that_is_over_is_wanted_again() {
    needed(Without::IntroducedByLife, a_put_and_a_wiped_volume());
}

/// No comparison of rows would ever find it: the value made elsewhere names data that this volume never had.
#[test]
fn data_that_a_value_carries_on_is_wanted_where_the_row_before_was_another() {
    needed(Without::CarriedIsWanted, a_put_and_an_append());
}

/// The row of the part, which a volume missed, is gone before the volume is shown it.
#[test]
fn data_of_parts_is_wanted_when_an_upload_is_completed() {
    needed(Without::CompletedIsWanted, an_upload());
}

#[test]
fn data_of_a_pulled_row_is_wanted() {
    needed(Without::PulledIsWanted, two_puts_and_a_restart());
}

#[test]
fn a_want_does_not_end_by_an_own_row_that_may_lose() {
    needed(Without::WantEndsByCommitted, two_puts_that_miss_two());
}

#[test]
fn a_want_does_not_end_by_the_row_of_another_volume() {
    needed(Without::WantEndsByOwn, a_put_and_an_append());
}

#[test]
fn data_is_lost_only_when_every_volume_votes() {
    needed(Without::LostByAll, two_wiped_beside_one_behind());
}

#[test]
fn equal_rows_are_not_wholeness() {
    needed(Without::WantsKeepFromWhole, two_puts_and_a_restart());
    needed(Without::WantsKeepFromWhole, two_wiped_beside_one_behind());
}

#[test]
fn a_whole_volume_looked_at_p_minus_1_others() {
    needed(Without::EnoughPeers, five_volumes());
}

#[test]
fn a_volume_that_recovered_is_not_whole_before_it_walked_its_rows() {
    needed(Without::WalkBeforeWhole, a_put_and_a_wiped_volume());
}

#[test]
fn a_volume_that_went_back_in_time_walks_its_rows() {
    needed(Without::RolledBackWalks, a_put_and_a_volume_that_goes_back());
}

#[test]
fn cursors_of_a_recovered_volume_are_from_the_beginning_of_its_scan() {
    needed(Without::CursorsAtBeginning, a_put_and_a_wiped_volume());
}

#[test]
fn a_source_is_whole_as_of_a_cut_after_the_directory_was_seen_empty() {
    needed(Without::CutAfterEmpty, two_wiped_beside_one_behind());
}

/// A known limit: nothing in healing finds a rollback that an opening did not see.
#[test]
fn a_rollback_that_is_not_seen_is_not_healed() {
    needed(Without::RollbackIsSeen, a_put_and_a_volume_that_goes_back());
}
