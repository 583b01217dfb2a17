//! The register with every rule in, in configurations that mix what the rules' own tests keep apart.

use crate::register::{Program, Register};
use crate::report::{holds, holds_when_full};

use Program::{Delete, Drop, Put, PutThenDelete, Read, Recover, Settle, Sweep};

fn actors(ballots: u8, programs: &[Program]) -> Register {
    Register { actors: programs.to_vec(), ballots, ..Register::default() }
}

#[test]
fn h1() {
    holds(
        "two writers, two tries, a restart",
        &Register { tries: [2; 4], restarts: 1, ..actors(4, &[Put(&[0]), Put(&[1])]) },
    );
}
#[test]
fn h2() {
    holds("two writers and a reader", &Register { hints: true, ..actors(3, &[Put(&[0]), Put(&[1]), Read]) });
}
#[test]
fn h3() {
    holds("put, delete, drop, put", &Register { ..actors(3, &[PutThenDelete(&[0, 1]), Drop, Put(&[2])]) });
}
#[test]
fn h4() {
    holds(
        "put, delete, drop, loss",
        &Register { losses: [1, 0], ..actors(3, &[PutThenDelete(&[0, 1]), Drop, Recover(0), Settle]) },
    );
}
#[test]
fn h5() {
    holds(
        "two writers, loss twice",
        &Register { losses: [2, 0], ..actors(2, &[Put(&[0]), Put(&[1]), Recover(0)]) },
    );
}
#[test]
fn h6() {
    holds(
        "two writers, two losses",
        &Register { losses: [1, 1], ..actors(2, &[Put(&[0]), Put(&[1]), Recover(0), Recover(1)]) },
    );
}
#[test]
fn h7() {
    holds(
        "two writers, 4 volumes",
        &Register { volumes: 4, tries: [2, 1, 1, 1], ..actors(3, &[Put(&[0]), Put(&[1])]) },
    );
}
#[test]
fn h8() {
    holds("sweep and drop", &Register { ..actors(3, &[Put(&[0]), Sweep(0), Drop, Settle]) });
}
#[test]
fn h9() {
    holds(
        "two writers, restart, loss",
        &Register { losses: [1, 0], restarts: 1, ..actors(2, &[Put(&[0]), Put(&[1]), Recover(0)]) },
    );
}
#[test]
fn h10() {
    holds(
        "read, loss",
        &Register { losses: [1, 0], hints: true, ..actors(2, &[Put(&[0]), Put(&[1]), Recover(0), Read]) },
    );
}
#[test]
fn h11() {
    holds(
        "release",
        &Register { release: true, tries: [2, 2, 1, 1], ..actors(4, &[Put(&[0]), Put(&[1]), Settle]) },
    );
}
#[test]
fn h12() {
    holds(
        "retry, delete, drop, 4 volumes",
        &Register { volumes: 4, tries: [2, 1, 1, 1], ..actors(3, &[Put(&[0]), Delete(1), Drop]) },
    );
}
#[test]
fn h13() {
    holds(
        "two losses 4 volumes",
        &Register {
            volumes: 4,
            losses: [1, 1],
            ..actors(2, &[Put(&[0]), Put(&[1]), Recover(0), Recover(1)])
        },
    );
}
