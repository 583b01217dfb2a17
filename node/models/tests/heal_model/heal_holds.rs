//! Healing with every rule in.

use crate::report::{holds, holds_up_to};

use crate::cluster::{Cluster, Kind};
use crate::heal_rules::{
    a_put_and_a_volume_that_goes_back, a_put_and_a_wiped_asker_or_source, a_put_and_a_wiped_volume,
    a_put_and_an_append, an_upload, five_volumes, two_puts_and_a_restart, two_puts_that_miss_two,
    two_wiped_beside_one_behind,
};

use Kind::{Append, Delete, Put};

/// States of a search that does not end: some 3 GiB.
const STATES_MAX: usize = 5_000_000;

#[test]
fn a_volume_that_restarts_becomes_whole() {
    holds("a put and a restart", &Cluster { crashes: 1, ..Cluster::default() });
}

#[test]
fn a_wiped_volume_becomes_whole() {
    holds("a put and a wiped volume", &a_put_and_a_wiped_volume());
}

#[test]
#[ignore = "half a minute"]
fn a_volume_that_goes_back_becomes_whole() {
    holds("a put and a volume that goes back", &a_put_and_a_volume_that_goes_back());
}

#[test]
#[ignore = "half a minute"]
fn a_wiped_source_is_looked_at_again() {
    holds("a put and a wiped asker or source", &a_put_and_a_wiped_asker_or_source());
}

#[test]
#[ignore = "a minute"]
fn larger_sets_become_whole() {
    holds_up_to("five volumes", &five_volumes(), STATES_MAX);
    let away = Cluster { volumes: 4, data_shards: 2, misses: 2, aways: 1, crashes: 1, ..Cluster::default() };
    holds_up_to("four volumes, one away, one restarts", &away, STATES_MAX);
    holds_up_to("two wiped beside one behind", &two_wiped_beside_one_behind(), STATES_MAX);
}

#[test]
#[ignore = "minutes"]
fn volumes_become_whole_beside_several_writes() {
    holds_up_to("two puts and a restart", &two_puts_and_a_restart(), STATES_MAX);
    holds_up_to("two puts that miss two", &two_puts_that_miss_two(), STATES_MAX);
    holds_up_to("a put and an append", &a_put_and_an_append(), STATES_MAX);
    let listed = Cluster { keys: 2, list_max: 1, crashes: 0, ..two_puts_and_a_restart() };
    holds_up_to("two keys, a list of one", &listed, STATES_MAX);
    let mixed = Cluster { writes: &[&[Put], &[Append, Delete], &[Put, Delete]], ..Cluster::default() };
    holds_up_to("three writes", &mixed, STATES_MAX);
}

#[test]
#[ignore = "minutes"]
fn a_want_ends_where_its_tombstone_was_dropped() {
    let model = Cluster { writes: &[&[Put], &[Delete]], drops: true, ..Cluster::default() };
    holds_up_to("a put, a delete and a drop", &model, STATES_MAX);
}

#[test]
#[ignore = "minutes"]
fn data_of_a_part_is_whole_in_its_object() {
    holds_up_to("an upload", &an_upload(), STATES_MAX);
    holds_up_to("an upload, its part dropped", &Cluster { drops: true, ..an_upload() }, STATES_MAX);
}
