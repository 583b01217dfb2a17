//! Rows that may be copies, on five volumes: each rule that keeps them from counting, taken out.
//!
//! With five volumes (A = P = 3) two accepts and the copy of a volume that lost its state look like a commit,
//! while the promise that the volume forgot belongs to a higher ballot:
//! ```text
//! ballot 1: promised by V1, V2, V3; accepted by V1, V2
//! ballot 2: promised by V3, V4, V0; accepted by V4, V0
//! V0 loses its state, recovers from V1, V2, V3, and adopts ballot 1
//! ```
//! With fewer volumes no two of them are left out of a ballot's promises, so this does not exist. The
//! promises, and in some tests what follows them, are a scenario: the search is exhaustive from there on.

use crate::register::{Program, Register, Step};
use crate::report::{breaks, holds, holds_when_full};
use crate::rules::Without;

use Program::{Drop, Put, PutThenDelete, Read, Recover, Settle};

/// Masks of volumes: those that promise the lower ballot and recover V0, and those that promise the higher
/// one.
const LOWER: u8 = 0b01110;
const HIGHER: u8 = 0b11001;

const WRITERS: [Program; 3] = [Put(&[0]), Put(&[1]), Recover(0)];

/// Five volumes, of which V0 may be lost once, after these steps.
fn five(ballots: u8, prefix: Vec<Step>, programs: &[Program]) -> Register {
    Register { volumes: 5, ballots, losses: [1, 0], actors: programs.to_vec(), prefix, ..Register::default() }
}

fn needed(without: Without, model: &Register) {
    breaks(without, &Register { without, ..model.clone() });
    holds(&format!("with    {without:?}, five volumes"), model);
}

/// A prepare that these volumes promise, and its decision.
fn prepared(actor: u8, ballot: u8, from: u8) -> Vec<Step> {
    let mut steps = vec![Step::Start { actor, ballot }];
    steps.extend(labels(from).map(|at| Step::Promise { actor, at }));
    steps.push(Step::Decide { actor, from });
    steps
}

fn labels(mask: u8) -> impl Iterator<Item = u8> {
    (0..5).filter(move |at| mask & 1 << at != 0)
}

/// Both ballots are promised.
fn promised() -> Vec<Step> {
    [prepared(0, 1, LOWER), prepared(1, 2, HIGHER)].concat()
}

/// Each is accepted by two, and V0 is lost.
pub(crate) fn lost() -> Vec<Step> {
    let mut steps = promised();
    steps.extend([1, 2].map(|at| Step::Accept { ballot: 1, at }));
    steps.extend([0, 4].map(|at| Step::Accept { ballot: 2, at }));
    steps.push(Step::Lose { at: 0 });
    steps
}

/// V0 has its floor of V1, V2 and V3.
fn taken(mut steps: Vec<Step>, actor: u8) -> Vec<Step> {
    steps.push(Step::Rebuild { actor, from: LOWER });
    steps.extend(labels(LOWER).map(|at| Step::Record { actor, at }));
    steps.push(Step::Take { actor, from: LOWER });
    steps
}

/// V0 answers the writer's accept, which was on its way since before the loss, as one that it has stored.
#[test]
fn a_copy_does_not_answer_an_accept() {
    needed(Without::CopiesAreNoAccepts, &five(2, promised(), &WRITERS));
}

/// A read takes two accepts and a copy for a commit.
#[test]
fn a_copy_does_not_vote_in_a_read() {
    let programs = [WRITERS[0], WRITERS[1], WRITERS[2], Read];
    needed(Without::CopiesAreNoVotes, &five(2, taken(lost(), 2), &programs));
    holds_when_full("two writers and a reader, one of 5 volumes lost", &five(2, lost(), &programs));
}

/// The writer's second prepare finds its own change on two volumes and on the copy, and takes it for made.
#[test]
fn a_copy_does_not_vote_in_a_prepare() {
    let tries = [2, 1, 1, 1, 1];
    needed(Without::CopiesAreNoVotes, &Register { tries, ..five(3, taken(lost(), 2), &WRITERS) });
    let wide = Register { tries, ..five(3, lost(), &WRITERS) };
    holds_when_full("two writers, one retrying, one of 5 volumes lost", &wide);
    let settled = five(3, lost(), &[WRITERS[0], WRITERS[1], WRITERS[2], Settle]);
    holds_when_full("two writers, settled, one of 5 volumes lost", &settled);
}

/// The lower ballot deletes what V0, V1 and V2 held, the higher one changes it. V1 and V2 accepted the
/// tombstone, V0 copied it, V3 and V4 show nothing: all five confirm a drop. The accept of the higher ballot
/// comes to V4 after that, and what was read as deleted is there again.
#[test]
fn a_tombstone_that_no_volume_holds_as_committed_stays() {
    let (first, recover, dropper) = (0b00111, 3, 2);
    let mut steps = prepared(0, 1, first);
    steps.extend(labels(first).map(|at| Step::Accept { ballot: 1, at }));
    steps.push(Step::Count { actor: 0, from: first });
    steps.extend([prepared(0, 2, LOWER), prepared(1, 3, HIGHER)].concat());
    steps.extend([1, 2].map(|at| Step::Accept { ballot: 2, at }));
    steps.push(Step::Lose { at: 0 });
    let mut steps = taken(steps, recover);
    steps.extend(labels(LOWER).map(|at| Step::Guard { actor: recover, at }));
    steps.extend(labels(LOWER).map(|at| Step::Scan { actor: recover, at }));
    steps.extend([Step::Vote { actor: recover }, Step::Pick { actor: dropper, ballot: 2 }]);
    steps.extend((0..5).map(|at| Step::Raise { actor: dropper, at }));
    steps.extend((0..5).map(|at| Step::Confirm { actor: dropper, at }));
    steps.extend([Step::Accept { ballot: 3, at: 4 }, Step::Start { actor: 1, ballot: 4 }]);
    steps.extend([3, 4].map(|at| Step::Promise { actor: 1, at }));
    let model = five(4, steps, &[PutThenDelete(&[0, 1]), Put(&[2]), Drop, Recover(0), Read]);
    needed(Without::DropKnownCommitted, &Register { tries: [1, 2, 1, 1, 1], ..model });
}

/// The floor that voters take before they are scanned is needed where copies count, as they did once
/// (`FloorAndCopies` in `register_rules`). Where they do not, no search finds what it prevents, and there is
/// an argument that nothing does; it stays as a second defence.
///
/// A promise or accept of a volume from before it lost its state counts only together with A - 1 others, one
/// of which is a voter of its recovery. Had that voter answered after it recorded the new life, its answer
/// would name that life, and the old answer would be void. So it answered before: its report then carries the
/// promise, or its scan shows the accepted row, with or without the floor. A voter without the floor may
/// still accept a ballot at or below F after its scan. That matters only where the recovering volume makes up
/// the A: it has F as its own floor, so it accepts no such ballot, and a copy of it is not a vote. A row
/// above F that it copied is excluded by no promise of its old life that counts: it is an accept that arrived
/// late.
#[test]
fn where_copies_do_not_count_the_floor_before_the_scan_is_a_second_defence() {
    let without = Without::FloorBeforeScan;
    let model = Register { without, ..five(2, promised(), &WRITERS) };
    holds("without FloorBeforeScan, one of 5 volumes lost", &model);
    holds("without FloorBeforeScan, lost twice", &Register { losses: [2, 0], ..model });
    let three = |ballots, programs: &[Program]| Register {
        without,
        volumes: 3,
        ..five(ballots, Vec::new(), programs)
    };
    holds("without FloorBeforeScan, one of 3 volumes lost", &three(2, &WRITERS));
    let dropping = three(2, &[PutThenDelete(&[0, 1]), Drop, Recover(0)]);
    holds("without FloorBeforeScan, a drop on 3 volumes", &dropping);
    let both = [WRITERS[0], WRITERS[1], WRITERS[2], Recover(1)];
    let two = Register { losses: [1, 1], ..five(2, lost(), &both) };
    holds_when_full("two of 5 volumes lost", &two);
    holds_when_full("without FloorBeforeScan, two of 5 volumes lost", &Register { without, ..two });
    let retrying = Register { tries: [2, 1, 1, 1, 1], without, ..five(3, lost(), &WRITERS) };
    holds_when_full("without FloorBeforeScan, one retrying, one of 5 volumes lost", &retrying);
}

#[test]
fn five_volumes_keep_the_rules_while_some_are_lost() {
    let model = five(2, lost(), &WRITERS);
    holds("two writers, one of 5 volumes lost twice", &Register { losses: [2, 0], ..model.clone() });
    holds("two writers, one of 5 volumes lost, a restart", &Register { restarts: 1, ..model });
}
