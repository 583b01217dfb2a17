//! Calls that a client sends twice through two gateways, the first answer lost: each takes effect once at
//! most, and no sending is refused for the success of another. Each half of the rule is taken out where it
//! shows why it is there.

use crate::register::batch::Write;
use crate::register::{ACTORS, Program, Register};
use crate::report::{breaks, holds, holds_when_full};
use crate::rules::Without;

use Program::{Batch, Delete, Put, PutThenDelete, Settle};
use Write::{CallDelete, CallIfAbsent, CallIfPresent};

fn actors(ballots: u8, programs: &[Program]) -> Register {
    Register { actors: programs.to_vec(), ballots, tries: [1; ACTORS], ..Register::default() }
}

fn needed(without: Without, model: &Register) {
    breaks(without, &Register { without, ..model.clone() });
    holds(&format!("with    {without:?}"), model);
}

/// One call through two gateways.
fn sent_twice(ballots: u8, others: &[Program]) -> Register {
    let both = [Batch(&[CallIfAbsent(0, 0)]), Batch(&[CallIfAbsent(1, 0)])];
    actors(ballots, &[&both[..], others].concat())
}

#[test]
fn a_call_is_looked_up_before_its_condition_is_judged() {
    needed(Without::CallsLookedUp, &Register { tries: [2, 1, 1, 1, 1], ..sent_twice(3, &[]) });
}

#[test]
fn a_repeated_call_is_answered_when_what_was_found_is_committed() {
    needed(Without::RepeatedOnCertain, &sent_twice(3, &[Put(&[2])]));
}

#[test]
fn a_tombstone_keeps_the_tokens() {
    needed(Without::TombstoneCalls, &sent_twice(3, &[Delete(2)]));
}

#[test]
fn a_deletion_that_is_sent_twice_is_found_in_its_tombstone() {
    let both = [Batch(&[CallDelete(1, 0)]), Batch(&[CallDelete(2, 0)])];
    needed(Without::TombstoneCalls, &actors(3, &[&[Put(&[0])], &both[..]].concat()));
}

/// A call, and another of which the value takes as many changes as are kept however old they are.
fn crowded(others: &[Program]) -> Register {
    let other = Batch(&[CallIfPresent(2, 1)]);
    Register { crowds: true, ..sent_twice(3, &[&[other], others].concat()) }
}

#[test]
fn tokens_are_kept_by_their_age() {
    needed(Without::KeptByAge, &crowded(&[]));
}

#[test]
fn each_member_of_a_batch_brings_its_own_token() {
    let model = actors(2, &[Batch(&[CallIfAbsent(0, 0), CallIfPresent(1, 1)]), Batch(&[CallIfAbsent(2, 0)])]);
    needed(Without::EachBringsItsOwn, &model);
}

#[test]
fn two_sendings_in_one_batch_make_one_change() {
    needed(Without::DraftedCalls, &actors(2, &[Batch(&[CallIfAbsent(0, 0), CallIfAbsent(1, 0)])]));
}

#[test]
fn calls_that_are_sent_twice_take_effect_once() {
    let again = |model: Register| Register { tries: [2, 1, 1, 1, 1], ..model };
    holds("a call sent twice, one retrying, and a settler", &again(sent_twice(3, &[Settle])));
    holds("a call sent twice, data released", &Register { release: true, ..again(sent_twice(3, &[])) });
    let looking = |model: Register| Register { looks: true, ..model };
    holds("a call sent twice by gateways that look", &looking(again(sent_twice(3, &[]))));
    holds("a call sent twice among those of others, one retrying", &again(crowded(&[])));
    let both = [Batch(&[CallIfAbsent(0, 0), CallIfPresent(1, 1)]), Batch(&[CallIfPresent(2, 1)])];
    holds("two calls of a batch, one sent again", &again(actors(3, &both)));
    holds_when_full(
        "a call sent twice, a put and a delete",
        &again(sent_twice(5, &[PutThenDelete(&[2, 3])])),
    );
    holds_when_full(
        "a call sent twice among those of others, and a delete",
        &looking(again(Register { ballots: 4, ..crowded(&[Delete(3)]) })),
    );
    holds_when_full(
        "a call sent twice, a put, and data released",
        &Register { release: true, ..again(sent_twice(4, &[Put(&[2])])) },
    );
    holds_when_full(
        "two calls of a batch that looks, and a delete",
        &looking(again(actors(4, &[&both[..], &[Delete(3)]].concat()))),
    );
}
