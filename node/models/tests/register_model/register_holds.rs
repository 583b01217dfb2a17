//! The register with every rule in, in configurations that mix what the rules' own tests keep apart.

use crate::register::{Program, Register};
use crate::report::{holds, holds_when_full};

use Program::{Delete, Drop, Put, PutThenDelete, Read, Recover, Settle, Sweep};

fn actors(ballots: u8, programs: &[Program]) -> Register {
    Register { actors: programs.to_vec(), ballots, ..Register::default() }
}

#[test]
fn retries_and_a_restart_keep_one_history() {
    let model = actors(4, &[Put(&[0]), Put(&[1])]);
    holds("two writers, two tries each, one restart", &Register { tries: [2; 5], restarts: 1, ..model });
}

#[test]
fn a_read_sees_every_write_that_ended_before_it() {
    let model = actors(3, &[Put(&[0]), Put(&[1]), Read]);
    holds("two writers and a reader", &Register { hints: true, ..model.clone() });
    let retrying = Register { hints: true, tries: [2, 1, 1, 1, 1], ballots: 4, ..model };
    holds_when_full("two writers, one retrying, and a reader", &retrying);
}

#[test]
fn a_row_that_cannot_be_read_hides_no_write() {
    let rotten =
        |ballots, programs: &[Program]| Register { rot: true, hints: true, ..actors(ballots, programs) };
    let retrying = Register { tries: [2, 1, 1, 1, 1], ..rotten(3, &[Put(&[0]), Put(&[1])]) };
    holds("two writers, one retrying, and a rotten row", &retrying);
    holds(
        "a writer, a reader and a rotten row",
        &Register { tries: [1, 2, 1, 1, 1], ..rotten(3, &[Put(&[0]), Read]) },
    );
    holds("two writers, a reader and a rotten row", &rotten(3, &[Put(&[0]), Put(&[1]), Read]));
    let four = Register { volumes: 4, ..rotten(3, &[Put(&[0]), Put(&[1]), Settle]) };
    holds_when_full("two writers, a settler and a rotten row on 4 volumes", &four);
}

#[test]
fn a_key_is_written_again_after_its_tombstone_was_dropped() {
    holds("put, delete, drop and another put", &actors(3, &[PutThenDelete(&[0, 1]), Drop, Put(&[2])]));
    let retry = Register { tries: [2, 1, 1, 1, 1], volumes: 4, ..actors(3, &[Put(&[0]), Delete(1), Drop]) };
    holds_when_full("a retrying put, a delete and a drop on 4 volumes", &retry);
}

#[test]
fn a_volume_may_be_lost_while_writers_are_at_work() {
    let lossy = Register { losses: [1, 0], ..actors(2, &[Put(&[0]), Put(&[1]), Recover(0)]) };
    holds("two writers, one restart, one loss", &Register { restarts: 1, ..lossy.clone() });
    holds("two writers, one volume lost twice", &Register { losses: [2, 0], ..lossy });
    let two = actors(2, &[Put(&[0]), Put(&[1]), Recover(0), Recover(1)]);
    holds("two writers, two volumes lost", &Register { losses: [1, 1], ..two.clone() });
    holds_when_full("two writers, two of 4 volumes lost", &Register { volumes: 4, losses: [1, 1], ..two });
}

#[test]
fn a_set_of_two_volumes_keeps_the_rules() {
    let writers = Register { volumes: 2, ..actors(3, &[Put(&[0]), Put(&[1]), Recover(0), Read]) };
    holds("two volumes, one loss, one restart", &Register { losses: [1, 0], restarts: 1, ..writers });
    let dropping = Register { volumes: 2, ..actors(3, &[PutThenDelete(&[0, 1]), Drop, Recover(0), Read]) };
    holds("two volumes, a drop, one loss", &Register { losses: [1, 0], hints: true, ..dropping });
}

#[test]
fn a_volume_may_be_lost_while_a_tombstone_is_dropped() {
    let model = actors(2, &[PutThenDelete(&[0, 1]), Drop, Recover(0)]);
    holds("put, delete, drop, one loss", &Register { losses: [1, 0], ..model.clone() });
    let settled = actors(3, &[PutThenDelete(&[0, 1]), Drop, Recover(0), Settle]);
    holds_when_full("put, delete, drop, one loss, settled", &Register { losses: [1, 0], ..settled });
}

#[test]
fn a_volume_may_be_lost_while_a_reader_asks() {
    let model = actors(2, &[Put(&[0]), Recover(0), Read]);
    holds("a writer, a reader, one loss", &Register { losses: [1, 0], hints: true, ..model });
    let model = actors(2, &[Put(&[0]), Put(&[1]), Recover(0), Read]);
    holds_when_full("two writers, a reader, one loss", &Register { losses: [1, 0], hints: true, ..model });
}

#[test]
fn released_and_swept_data_is_never_named_again() {
    let model = actors(3, &[Put(&[0]), Put(&[1]), Settle]);
    holds(
        "two writers, one retrying, releasing",
        &Register { release: true, tries: [2, 1, 1, 1, 1], ..model },
    );
    holds_when_full("a writer, a sweep and a drop", &actors(3, &[Put(&[0]), Sweep(0), Drop, Settle]));
}
