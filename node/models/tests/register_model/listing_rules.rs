//! The listing's rules, each taken out once; and the same configurations with all in.

use crate::listing::{Listing, Without};
use crate::report::{breaks, holds, holds_when_full};

const PUT: bool = true;
const DELETE: bool = false;

fn one_key(operations: &'static [bool]) -> Listing {
    Listing { without: Without::Nothing, volumes: 3, keys: vec![operations], prefix: false }
}

fn prefix(first: &'static [bool], second: &'static [bool]) -> Listing {
    Listing { without: Without::Nothing, volumes: 3, keys: vec![first, second], prefix: true }
}

fn needed(without: Without, model: &Listing) {
    breaks(without, &Listing { without, ..model.clone() });
    holds(&format!("with    {without:?}"), model);
}

#[test]
fn a_row_of_fewer_than_p_volumes_is_read() {
    needed(Without::RowsOfAQuorum, &one_key(&[PUT, DELETE]));
}

#[test]
fn a_row_that_is_not_known_committed_is_read() {
    needed(Without::Committed, &one_key(&[PUT, DELETE]));
}

#[test]
fn a_row_that_is_not_taken_is_not_absent() {
    needed(Without::ReadOtherwise, &one_key(&[PUT]));
}

#[test]
fn a_witness_may_be_an_unsettled_tombstone() {
    needed(Without::WitnessMayBeDead, &prefix(&[PUT, DELETE], &[]));
}

#[test]
fn a_witness_of_one_volume_is_judged() {
    needed(Without::WitnessOfAQuorum, &prefix(&[PUT, DELETE], &[]));
}

#[test]
fn a_dead_witness_seeks_again() {
    needed(Without::Reseek, &prefix(&[PUT, DELETE], &[PUT]));
}

#[test]
fn a_listing_holds_in_larger_sets() {
    holds("listing of PUT, DELETE, PUT on 3 volumes", &one_key(&[PUT, DELETE, PUT]));
    holds("listing of PUT, DELETE on 4 volumes", &Listing { volumes: 4, ..one_key(&[PUT, DELETE]) });
    holds_when_full(
        "listing of PUT, DELETE, PUT on 4 volumes",
        &Listing { volumes: 4, ..one_key(&[PUT, DELETE, PUT]) },
    );
    holds_when_full(
        "prefix of two keys on 4 volumes",
        &Listing { volumes: 4, ..prefix(&[PUT, DELETE], &[PUT]) },
    );
}
