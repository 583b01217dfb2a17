//! Pulls: a row that one volume shows is taken by another as a late accept. With every rule in, a pull adds
//! no state that the late arrival of an accept and of its hint does not; each rule of an accept, left out of
//! a pull, breaks the register.

use crate::copies_rules::lost;
use crate::register::{Program, Register};
use crate::report::{breaks, holds, holds_up_to};
use crate::rules::Without;

use Program::{Drop, Put, PutThenDelete, Read, Recover, Sweep};

fn pulling(ballots: u8, programs: &[Program]) -> Register {
    Register { pulls: true, actors: programs.to_vec(), ballots, ..Register::default() }
}

fn two_writers() -> Register {
    pulling(3, &[Put(&[0]), Put(&[1])])
}

fn with_a_loss(programs: &[Program]) -> Register {
    Register { losses: [1, 0], ..pulling(2, programs) }
}

fn four_with_readers() -> Register {
    Register { volumes: 4, hints: true, ..pulling(2, &[Put(&[0]), Put(&[1]), Read, Read]) }
}

fn needed(without: Without, model: &Register) {
    breaks(without, &Register { without, ..model.clone() });
}

#[test]
fn a_pull_breaks_no_promise() {
    needed(Without::PullKeepsPromise, &Register { hints: true, ..pulling(3, &[Put(&[0]), Put(&[1]), Read]) });
}

#[test]
fn a_pull_does_not_replace_a_newer_row() {
    needed(Without::PullKeepsNewer, &Register { hints: true, ..pulling(3, &[Put(&[0]), Put(&[1]), Read]) });
}

#[test]
fn a_pull_is_refused_below_the_restart_bound() {
    needed(Without::PullAboveBound, &Register { restarts: 1, ..two_writers() });
}

#[test]
fn a_pull_is_refused_below_the_floor() {
    needed(Without::PullAboveFloor, &with_a_loss(&[PutThenDelete(&[0, 1]), Drop, Recover(0)]));
}

#[test]
fn a_volume_that_takes_no_accepts_pulls_nothing() {
    needed(Without::PullByStanding, &with_a_loss(&[PutThenDelete(&[0, 1]), Drop, Recover(0)]));
}

#[test]
fn a_pulled_row_is_committed_only_if_its_source_knew_that() {
    needed(Without::PulledFlagIsTheSources, &four_with_readers());
}

#[test]
fn pulls_keep_one_history() {
    holds("two writers, one restart, pulls", &Register { restarts: 1, ..two_writers() });
    holds("two writers, one loss, pulls", &with_a_loss(&[Put(&[0]), Put(&[1]), Recover(0)]));
    holds("put, delete, drop, one loss, pulls", &with_a_loss(&[PutThenDelete(&[0, 1]), Drop, Recover(0)]));
    let dropping = pulling(2, &[PutThenDelete(&[0, 1]), Drop]);
    holds("put, delete and drop, pulls", &Register { hints: true, ..dropping });
    holds("a writer and a sweep, pulls", &pulling(2, &[Put(&[0]), Sweep(0)]));
    let copies = Register { volumes: 5, prefix: lost(), ..with_a_loss(&[Put(&[0]), Put(&[1]), Recover(0)]) };
    holds("copies on five volumes, pulls", &copies);
}

#[test]
#[ignore = "a minute"]
fn pulls_keep_one_history_beside_readers_and_drops() {
    holds(
        "a put, a delete, a drop and another put, pulls",
        &pulling(3, &[PutThenDelete(&[0, 1]), Drop, Put(&[2])]),
    );
    let reading = pulling(3, &[Put(&[0]), Put(&[1]), Read]);
    holds("two writers and a reader, pulls", &Register { hints: true, ..reading });
    holds_up_to("two writers and two readers on four volumes, pulls", &four_with_readers(), 4_000_000);
}
