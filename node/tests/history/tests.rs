//! The checker accepts what a register can show, and rejects each kind of lie.

use super::*;

/// An operation that was answered.
fn answered(sent: u64, answered: u64, found: Found, leaves: Option<State>) -> Operation {
    Operation { name: "", sent, answered: Some(answered), found, leaves }
}

fn put(sent: u64, end: u64, id: u64) -> Operation {
    answered(sent, end, Found::Anything, Some(Some(id)))
}

fn delete(sent: u64, end: u64) -> Operation {
    answered(sent, end, Found::Anything, Some(None))
}

fn read(sent: u64, end: u64, state: State) -> Operation {
    answered(sent, end, Found::Is(state), None)
}

/// `If-None-Match: *` that was answered 200.
fn won(sent: u64, end: u64, id: u64) -> Operation {
    answered(sent, end, Found::Is(None), Some(Some(id)))
}

/// `If-None-Match: *` that was answered 412.
fn lost(sent: u64, end: u64) -> Operation {
    answered(sent, end, Found::IsNot(None), None)
}

fn unknown(sent: u64, leaves: State) -> Operation {
    Operation { name: "", sent, answered: None, found: Found::Anything, leaves: Some(leaves) }
}

fn is_linearizable(history: &[Operation]) -> bool {
    match check(history) {
        Ok(()) => true,
        Err(Violation::Impossible { .. }) => false,
        Err(violation @ Violation::TooHard { .. }) => panic!("{violation}"),
    }
}

#[test]
fn operations_one_after_another_are_accepted() {
    let history = [
        read(0, 1, None),
        put(2, 3, 7),
        read(4, 5, Some(7)),
        put(6, 7, 8),
        read(8, 9, Some(8)),
        delete(10, 11),
        read(12, 13, None),
    ];
    assert!(is_linearizable(&history));
    assert!(is_linearizable(&[]));
}

#[test]
fn a_stale_read_is_rejected() {
    assert!(!is_linearizable(&[put(0, 1, 7), put(2, 3, 8), read(4, 5, Some(7))]));
    assert!(!is_linearizable(&[put(0, 1, 7), delete(2, 3), read(4, 5, Some(7))]));
}

#[test]
fn a_read_beside_a_write_may_see_either() {
    for seen in [Some(7), Some(8)] {
        assert!(is_linearizable(&[put(0, 1, 7), put(2, 9, 8), read(3, 4, seen)]));
    }
}

#[test]
fn a_value_that_was_seen_stays_seen() {
    let history = |second| [put(0, 1, 7), put(2, 9, 8), read(3, 4, Some(8)), read(5, 6, second)];
    assert!(is_linearizable(&history(Some(8))));
    assert!(!is_linearizable(&history(Some(7))), "new, then old, while the write still runs");
}

#[test]
fn an_acknowledged_write_that_is_lost_is_rejected() {
    assert!(!is_linearizable(&[put(0, 1, 7), read(2, 3, None)]));
    assert!(!is_linearizable(&[put(0, 1, 7), unknown(2, Some(8)), read(4, 5, None)]));
}

#[test]
fn an_acknowledged_delete_that_is_undone_is_rejected() {
    assert!(!is_linearizable(&[put(0, 1, 7), delete(2, 3), read(4, 5, None), read(6, 7, Some(7))]));
}

#[test]
fn a_value_that_was_never_written_is_rejected() {
    assert!(!is_linearizable(&[put(0, 1, 7), read(2, 3, Some(9))]));
    assert!(!is_linearizable(&[read(0, 1, Some(9)), put(2, 3, 9)]), "read before it was sent");
}

#[test]
fn a_write_of_unknown_outcome_may_happen_late_or_never_but_once() {
    assert!(is_linearizable(&[put(0, 1, 7), unknown(2, Some(8)), read(4, 5, Some(7))]));
    assert!(is_linearizable(&[put(0, 1, 7), unknown(2, Some(8)), read(4, 5, Some(8))]));
    let late = [put(0, 1, 7), unknown(2, Some(8)), read(4, 5, Some(7)), read(6, 7, Some(8))];
    assert!(is_linearizable(&late));
    let undone =
        [put(0, 1, 7), unknown(2, Some(8)), read(4, 5, Some(8)), read(6, 7, Some(7)), read(8, 9, Some(8))];
    assert!(!is_linearizable(&undone));
    assert!(!is_linearizable(&[unknown(6, Some(8)), read(4, 5, Some(8))]), "before it was sent");
}

#[test]
fn a_delete_of_unknown_outcome_may_explain_an_absence() {
    assert!(is_linearizable(&[put(0, 1, 7), unknown(2, None), read(4, 5, None)]));
    assert!(!is_linearizable(&[put(0, 1, 7), unknown(2, None), read(4, 5, None), read(6, 7, Some(7))]));
}

#[test]
fn a_delete_that_finds_nothing_at_first_may_happen_later() {
    assert!(is_linearizable(&[delete(0, 9), put(1, 2, 7), read(5, 6, None)]));
    let replaced = [put(0, 9, 7), put(1, 2, 8), read(3, 4, Some(8)), read(5, 6, Some(7))];
    assert!(is_linearizable(&replaced));
}

/// A listing is a look at each of its keys, the ones that it lacks included.
#[test]
fn a_listing_that_lacks_a_key_or_shows_a_deleted_one_is_rejected() {
    let listed = |states: [State; 2]| {
        let recorder = Recorder::default();
        for (key, id) in [("kept", 7), ("deleted", 8)] {
            recorder.answered("PUT", key, recorder.now(), Found::Anything, Some(Some(id)));
        }
        recorder.answered("DELETE", "deleted", recorder.now(), Found::Anything, Some(None));
        let sent = recorder.now();
        for (key, state) in ["kept", "deleted"].into_iter().zip(states) {
            recorder.answered("LIST", key, sent, Found::Is(state), None);
        }
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.check())).is_ok()
    };
    assert!(listed([Some(7), None]));
    assert!(!listed([None, None]), "it lacks a key");
    assert!(!listed([Some(7), Some(8)]), "it shows a deleted one");
    assert!(!listed([Some(8), None]), "it shows another write's entity tag");
}

/// A write that was refused is not recorded: a read that shows it shows what was not written.
#[test]
fn a_refused_write_that_shows_is_rejected_and_one_in_doubt_is_not() {
    assert!(!is_linearizable(&[put(0, 1, 7), read(4, 5, Some(8))]));
    assert!(is_linearizable(&[put(0, 1, 7), unknown(2, Some(8)), read(4, 5, Some(8))]));
}

/// As two gateways do that each believe a quorum of their own, or a volume that was rolled back and votes.
#[test]
fn gateways_that_show_different_values_are_rejected() {
    let history = [put(0, 1, 7), put(2, 3, 8), read(4, 7, Some(8)), read(5, 8, Some(7))];
    assert!(!is_linearizable(&history), "at one time");
    assert!(!is_linearizable(&[put(0, 1, 7), put(2, 9, 8), read(3, 4, Some(8)), read(5, 6, Some(7))]));
}

#[test]
fn the_report_shows_the_shortest_beginning() {
    let history = [put(0, 1, 7), read(2, 3, None), put(4, 5, 8), read(6, 7, Some(8)), read(8, 9, Some(7))];
    assert_eq!(search::shortest(&history), history[..2]);
}

#[test]
fn two_winners_of_one_race_are_rejected() {
    assert!(is_linearizable(&[won(0, 9, 7), lost(1, 8), read(10, 11, Some(7))]));
    assert!(!is_linearizable(&[won(0, 9, 7), won(1, 8, 8), read(10, 11, Some(7))]));
}

#[test]
fn a_race_without_a_winner_is_rejected() {
    assert!(!is_linearizable(&[lost(0, 9), lost(1, 8)]));
    assert!(is_linearizable(&[lost(0, 9), unknown(1, Some(8))]), "the unknown one won");
}

#[test]
fn a_swap_on_what_was_replaced_is_rejected() {
    let swap = |sent, end, from, to| answered(sent, end, Found::Is(Some(from)), Some(Some(to)));
    assert!(is_linearizable(&[put(0, 1, 7), swap(2, 3, 7, 8), swap(4, 5, 8, 9)]));
    assert!(!is_linearizable(&[put(0, 1, 7), swap(2, 9, 7, 8), swap(3, 8, 7, 9)]));
    let failed = answered(4, 5, Found::IsNot(Some(8)), None);
    assert!(!is_linearizable(&[put(0, 1, 7), swap(2, 3, 7, 8), failed]));
}

#[test]
fn long_histories_with_many_unknown_writes_are_judged() {
    let mut history = Vec::new();
    let mut moment = 0;
    for round in 0..40_u64 {
        for writer in 0..8 {
            let id = round * 100 + writer;
            history.push(put(moment + writer, moment + 20 + writer, id));
            history.push(read(moment + 8 + writer, moment + 30 + writer, Some(round * 100 + 3)));
        }
        history.push(unknown(moment + 19, Some(round * 100 + 50)));
        if round % 4 == 0 {
            history.push(read(moment + 50, moment + 51, Some(round * 100 + 50)));
        }
        moment += 100;
    }
    assert!(is_linearizable(&history));
    history.push(read(moment, moment + 1, Some(3)));
    assert!(!is_linearizable(&history), "the first round's value at the end");
}

/// All of them lie before the one that was answered first, and that the reader saw.
#[test]
fn many_writes_at_once_may_end_with_the_one_that_was_answered_first() {
    let mut history: Vec<_> = (0..40).map(|id| put(id, 100 + id, id)).collect();
    history.push(read(200, 201, Some(0)));
    assert!(is_linearizable(&history));
    history.push(put(101, 150, 40));
    assert!(!is_linearizable(&history), "sent when that was answered");
    history.pop();
    history.push(read(202, 203, Some(1)));
    assert!(!is_linearizable(&history), "no write lies between the two");
}

#[test]
fn the_recorder_keeps_keys_apart_and_orders_moments() {
    let recorder = Recorder::default();
    let sent = recorder.now();
    recorder.answered("read", "a", sent, Found::Anything, Some(Some(1)));
    let sent = recorder.now();
    recorder.answered("read", "b", sent, Found::Is(None), None);
    recorder.unknown("put", "b", recorder.now(), Found::Anything, Some(2));
    assert_eq!(recorder.len(), 3);
    recorder.check();
    let sent = recorder.now();
    recorder.answered("read", "a", sent, Found::Is(Some(2)), None);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.check()));
    let text = *panic.expect_err("a's history is impossible").downcast::<String>().expect("a message");
    assert!(text.contains("the history of a is not linearizable"), "{text}");
}
