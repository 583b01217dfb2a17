//! The rules of batches, each taken out in a small configuration that shows why it is there; and the same
//! configurations searched whole with every rule in.

use crate::register::batch::Write;
use crate::register::{ACTORS, Program, Register, Step};
use crate::report::{breaks, holds, holds_when_full};
use crate::rules::Without;

use Program::{Batch, Delete, Drop, Put, PutThenDelete, Settle};

fn actors(ballots: u8, programs: &[Program]) -> Register {
    Register { actors: programs.to_vec(), ballots, tries: [2, 1, 1, 1, 1], ..Register::default() }
}

fn needed(without: Without, model: &Register) {
    breaks(without, &Register { without, ..model.clone() });
    holds(&format!("with    {without:?}"), model);
}

/// Both members of the first actor come, and a try of it is decided on the promises of two volumes.
fn first_try(ballot: u8, at: [u8; 2]) -> Vec<Step> {
    let mut steps = vec![Step::Come { actor: 0, member: 0 }, Step::Come { actor: 0, member: 1 }];
    steps.extend(decided(0, ballot, at));
    steps
}

/// A try that is decided on the promises of two volumes.
fn decided(actor: u8, ballot: u8, at: [u8; 2]) -> Vec<Step> {
    let from = 1 << at[0] | 1 << at[1];
    let promises = at.map(|at| Step::Promise { actor, at });
    let mut steps = vec![Step::Start { actor, ballot }];
    steps.extend(promises);
    steps.push(Step::Decide { actor, from });
    steps
}

/// The same, accepted by both and counted.
fn written(actor: u8, ballot: u8, at: [u8; 2]) -> Vec<Step> {
    let mut steps = decided(actor, ballot, at);
    steps.extend(at.map(|at| Step::Accept { ballot, at }));
    steps.push(Step::Count { actor, from: 1 << at[0] | 1 << at[1] });
    steps
}

/// The first try makes both and lies on one volume; the second, made from another proposer's value, refuses
/// one; then the first is found and settled.
#[test]
fn members_are_answered_as_the_try_judged_them_that_was_found() {
    let mut prefix = first_try(1, [0, 1]);
    prefix.push(Step::Accept { ballot: 1, at: 0 });
    prefix.extend(decided(1, 2, [1, 2]));
    prefix.push(Step::Accept { ballot: 2, at: 1 });
    prefix.extend(decided(0, 3, [1, 2]));
    let model = actors(5, &[Batch(&[Write::PutIfAbsent(0), Write::Put(1)]), Put(&[2]), Settle]);
    needed(Without::TryNumbers, &Register { tries: [3, 1, 1, 0, 1], prefix, ..model });
}

#[test]
fn a_batch_is_closed_when_its_first_accept_is_sent() {
    needed(Without::BatchClosed, &actors(3, &[Batch(&[Write::Put(0), Write::Put(1)]), Settle]));
}

#[test]
fn members_are_decided_again_after_a_conflict() {
    needed(Without::DecidedAnew, &actors(3, &[Batch(&[Write::PutIfAbsent(0)]), Put(&[1])]));
}

#[test]
fn no_member_is_answered_before_the_commit() {
    let model = actors(2, &[Batch(&[Write::Put(0), Write::PutIfAbsent(1)]), Put(&[2])]);
    needed(Without::AnswerAfterCommit, &Register { tries: [1; ACTORS], ..model });
}

#[test]
fn nothing_is_given_back_before_the_commit() {
    let model = actors(2, &[Batch(&[Write::Put(0), Write::Put(1)])]);
    needed(Without::GiveBackAfterCommit, &Register { release: true, ..model });
}

#[test]
fn a_member_that_leaves_after_an_accept_gets_an_unknown_outcome() {
    let model = actors(2, &[Batch(&[Write::Put(0)]), Settle]);
    needed(Without::LeavingIsUnknown, &Register { tries: [1; ACTORS], ..model });
}

/// One member replaces what is there, the other is refused and leaves; then what is there is deleted.
#[test]
fn a_member_that_left_is_left_out_of_later_tries() {
    let mut prefix = written(1, 1, [0, 1]);
    prefix.extend(first_try(2, [0, 1]));
    prefix.extend(written(1, 3, [0, 1]));
    let model = actors(4, &[Batch(&[Write::PutIfPresent(0), Write::PutIfAbsent(1)]), PutThenDelete(&[2, 3])]);
    needed(Without::LeftIsLeftOut, &Register { release: true, prefix, ..model });
}

#[test]
fn data_of_who_has_left_waits_for_a_committed_value_without_it() {
    let model = actors(2, &[Batch(&[Write::Put(0)]), Settle]);
    needed(Without::LeftDataWaits, &Register { release: true, tries: [1; ACTORS], ..model });
}

/// A first try that no volume got; a tombstone above it, from which the second is made, before two volumes
/// show it; the tombstone is dropped everywhere, and the second try lies on one volume. The third finds
/// nothing but floors above the first.
#[test]
fn data_of_an_unknown_outcome_waits_for_a_committed_value_without_it() {
    let mut prefix = vec![Step::Come { actor: 0, member: 0 }];
    prefix.extend(decided(0, 1, [0, 1]));
    prefix.extend(written(1, 2, [0, 1]));
    prefix.extend(decided(0, 3, [0, 2]));
    prefix.push(Step::Pick { actor: 2, ballot: 2 });
    prefix.extend((0..3).flat_map(|at| [Step::Raise { actor: 2, at }, Step::Confirm { actor: 2, at }]));
    prefix.push(Step::Authorise { actor: 2 });
    prefix.extend((0..2).map(|at| Step::Drop { actor: 2, at }));
    prefix.push(Step::Accept { ballot: 3, at: 0 });
    let model = actors(5, &[Batch(&[Write::Put(0)]), Delete(1), Drop, Settle]);
    needed(Without::UnknownKeepsData, &Register { release: true, tries: [3, 1, 1, 1, 1], prefix, ..model });
}

#[test]
fn a_refusal_is_sent_when_its_reason_is_committed() {
    let model = actors(3, &[Batch(&[Write::PutIfAbsent(0)]), Put(&[1]), Put(&[2])]);
    needed(Without::RefusedOnCertain, &Register { tries: [1; ACTORS], ..model });
}

/// The first try makes both and lies on one volume; one member leaves, and the other finds nothing.
fn refused_on_nothing() -> Register {
    let mut prefix = first_try(1, [0, 1]);
    prefix.push(Step::Accept { ballot: 1, at: 0 });
    let model = actors(3, &[Batch(&[Write::Put(0), Write::PutIfPresent(1)]), Settle]);
    Register { prefix, ..model }
}

#[test]
fn a_refusal_waits_for_the_accept_that_is_under_way() {
    needed(Without::RefusedWithoutAccept, &refused_on_nothing());
}

#[test]
fn a_refusal_on_nothing_writes_a_tombstone() {
    needed(Without::RefusedTombstone, &refused_on_nothing());
}

#[test]
fn a_member_that_came_after_the_prepare_is_not_refused_by_its_value() {
    let model = actors(2, &[Batch(&[Write::PutIfPresent(0), Write::PutIfPresent(1)]), Put(&[2])]);
    needed(Without::RefusedCameBefore, &Register { tries: [1; ACTORS], ..model });
}

#[test]
fn two_gateways_keep_one_history() {
    let model = actors(3, &[Batch(&[Write::PutIfAbsent(0), Write::Put(1)]), Batch(&[Write::PutIfAbsent(2)])]);
    holds("two batches, one with two writers and two tries", &Register { release: true, ..model });
}

/// The tries of a batch have failed if a committed value above them lacks its change.
#[test]
fn tries_are_forgotten_by_a_committed_value_above_them() {
    let model = actors(4, &[Batch(&[Write::PutIfAbsent(0)]), Put(&[1]), Settle]);
    needed(Without::ForgottenCommitted, &model);
    // A committed tombstone; then a try that makes both and lies on one volume. One member leaves, and the
    // other is refused on the tombstone.
    let mut prefix = written(1, 1, [0, 1]);
    prefix.push(Step::Accept { ballot: 1, at: 2 });
    prefix.extend(first_try(2, [0, 1]));
    prefix.push(Step::Accept { ballot: 2, at: 0 });
    let model = actors(4, &[Batch(&[Write::Put(0), Write::PutIfPresent(1)]), Delete(2), Settle]);
    needed(Without::ForgottenAbove, &Register { prefix, ..model });
}

#[test]
fn batches_that_forget_their_tries_keep_one_history() {
    let model = actors(4, &[Batch(&[Write::PutIfAbsent(0), Write::Put(1)]), Put(&[2, 3])]);
    let released = Register { release: true, ..model.clone() };
    holds(
        "a batch of two tries, two puts, three ballots, data released",
        &Register { ballots: 3, ..released },
    );
    holds_when_full("three tries", &Register { ballots: 5, tries: [3, 1, 1, 1, 1], ..model });
    let dropping = actors(4, &[Batch(&[Write::Put(0)]), PutThenDelete(&[1, 2]), Drop]);
    holds_when_full("two tries, a put, a delete and a drop", &dropping);
}

#[test]
#[ignore = "half a minute"]
fn batches_that_forget_their_tries_between_two_puts_keep_one_history() {
    let model = actors(4, &[Batch(&[Write::PutIfAbsent(0), Write::Put(1)]), Put(&[2, 3])]);
    holds("a batch of two tries, two puts, data released", &Register { release: true, ..model });
}

/// A look decides nothing but refusals, and those by the rules of a prepare's: on what is committed, for
/// members that came before it, while no accept is under way.
#[test]
fn a_look_refuses_by_the_rules_of_a_refusal() {
    let looking = |ballots, programs: &[Program]| Register { looks: true, ..actors(ballots, programs) };
    let present = Batch(&[Write::PutIfPresent(0), Write::PutIfPresent(1)]);
    let model = Register { tries: [1; ACTORS], ..looking(2, &[present, Put(&[2])]) };
    needed(Without::LookedCameBefore, &model);
    let model = looking(2, &[Batch(&[Write::PutIfAbsent(0)]), Put(&[1])]);
    needed(Without::LookedOnCertain, &Register { tries: [1; ACTORS], ..model });
    let model = Register { looks: true, ..refused_on_nothing() };
    needed(Without::LookedWithoutAccept, &model);
}

#[test]
fn gateways_that_look_keep_one_history() {
    let looking = |ballots, programs: &[Program]| Register { looks: true, ..actors(ballots, programs) };
    let (absent, both) = (&[Write::PutIfAbsent(0)], &[Write::PutIfAbsent(0), Write::PutIfPresent(1)]);
    let deleting = PutThenDelete(&[2, 3]);
    holds("a writer that looks, a put and a delete", &looking(3, &[Batch(absent), deleting]));
    holds_when_full("a batch that looks, a put and a delete", &looking(4, &[Batch(both), deleting]));
    let other = Batch(&[Write::PutIfAbsent(2)]);
    holds_when_full("two batches that look", &looking(3, &[Batch(both), other]));
}
