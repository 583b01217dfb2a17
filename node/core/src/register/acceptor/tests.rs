//! Tables of the acceptor's judgements.

use super::*;
use crate::id::Timestamp;

fn ballot(seconds: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(seconds * 1_000), proposer: ProposerId(1) }
}

fn row(seconds: u64) -> RowHead {
    RowHead { ballot: ballot(seconds), digest: [0; 32], committed: false }
}

fn at(seconds: u64) -> Circumstances {
    Circumstances { epoch: Epoch(3), now: Timestamp::from_ms(seconds * 1_000) }
}

fn voting() -> AcceptorState {
    AcceptorState { durable_bound: ballot(1_000), ..AcceptorState::default() }
}

fn with(standing: VoterStatus) -> AcceptorState {
    AcceptorState { standing, ..voting() }
}

fn below(seconds: u64) -> Refusal {
    Refusal::Below { bound: ballot(seconds) }
}

#[test]
fn a_prepare_is_refused_at_or_below_everything_that_closes_it() {
    let held = row(10);
    let key = KeyState { row: Some(&held), promised: ballot(12), ..KeyState::default() };
    let judge = |state: &AcceptorState, key: &KeyState<'_>, seconds| {
        judge_prepare(state, key, at(20), ballot(seconds))
    };
    assert_eq!(judge(&voting(), &key, 11), Err(below(12)), "promised more");
    assert!(judge(&voting(), &key, 12).is_ok(), "the same promise again");
    assert!(judge(&voting(), &key, 13).is_ok());
    let key = KeyState { row: Some(&held), ..KeyState::default() };
    assert_eq!(judge(&voting(), &key, 10), Err(below(10)), "the row's own ballot");
    let floored = AcceptorState { floor: ballot(15), ..voting() };
    assert_eq!(judge(&floored, &key, 15), Err(below(15)), "at the floor");
    let restarted = AcceptorState { restart_bound: ballot(16), ..voting() };
    assert_eq!(judge(&restarted, &key, 16), Err(below(16)), "may have been promised before the restart");
    assert!(judge(&restarted, &key, 17).is_ok());
}

#[test]
fn an_accept_is_taken_at_its_promise_and_again_but_not_below() {
    let held = row(10);
    let key = KeyState { row: Some(&held), promised: ballot(12), ..KeyState::default() };
    let judge = |state: &AcceptorState, seconds| judge_accept(state, &key, at(20), ballot(seconds), &[]);
    assert_eq!(judge(&voting(), 12), Ok(AcceptVerdict::Store));
    assert_eq!(judge(&voting(), 14), Ok(AcceptVerdict::Store));
    assert_eq!(judge(&voting(), 11), Err(below(12)));
    assert_eq!(
        judge(&voting(), 10),
        Ok(AcceptVerdict::AlreadyStored),
        "the row is there, with any later promise"
    );
    let floored = AcceptorState { floor: ballot(12), ..voting() };
    assert_eq!(judge(&floored, 12), Err(below(12)));
    assert_eq!(judge(&floored, 10), Err(below(12)), "the row may be a copy, and no accept");
    let known = RowHead { committed: true, ..held };
    let key_known = KeyState { row: Some(&known), ..key };
    let again = judge_accept(&floored, &key_known, at(20), ballot(10), &[]);
    assert_eq!(again, Ok(AcceptVerdict::AlreadyStored), "what is known to be committed was accepted by A");
    let restarted = AcceptorState { restart_bound: ballot(13), ..voting() };
    assert_eq!(judge(&restarted, 13), Err(below(13)));
}

#[test]
fn a_ballot_from_a_clock_far_ahead_is_refused() {
    let none = KeyState::default();
    let latest = Timestamp::from_ms(320_000);
    assert!(judge_prepare(&voting(), &none, at(20), ballot(320)).is_ok(), "five minutes ahead of the clock");
    assert_eq!(judge_prepare(&voting(), &none, at(20), ballot(321)), Err(Refusal::TooFarAhead { latest }));
    assert_eq!(
        judge_accept(&voting(), &none, at(20), ballot(321), &[]),
        Err(Refusal::TooFarAhead { latest })
    );
    let floored = AcceptorState { floor: ballot(200), ..voting() };
    assert!(judge_prepare(&floored, &none, at(20), ballot(500)).is_ok(), "five minutes ahead of the floor");
}

#[test]
fn rows_of_one_proposer_take_no_other_ballot_further() {
    let held = row(300);
    let key = KeyState { row: Some(&held), promised: ballot(310), ..KeyState::default() };
    let bound = AcceptorState { durable_bound: ballot(320), restart_bound: ballot(290), ..voting() };
    let refusal = Refusal::TooFarAhead { latest: Timestamp::from_ms(320_000) };
    assert_eq!(judge_prepare(&bound, &key, at(20), ballot(321)), Err(refusal));
    assert_eq!(judge_accept(&bound, &key, at(20), ballot(321), &[]), Err(refusal));
    assert!(judge_prepare(&bound, &key, at(20), ballot(320)).is_ok());
}

#[test]
fn readings_of_the_own_clock_before_it_was_set_back_count_up_to_a_day() {
    let none = KeyState::default();
    let read = |seconds| AcceptorState { clock_reading: Timestamp::from_ms(seconds * 1_000), ..voting() };
    let takes = |state: &AcceptorState, seconds| judge_prepare(state, &none, at(20), ballot(seconds)).is_ok();
    assert!(takes(&read(3_620), 3_920) && !takes(&read(3_620), 3_921), "five minutes past an hour ahead");
    let day = 20 + 24 * 3_600;
    assert!(takes(&read(10 * day), day + 300) && !takes(&read(10 * day), day + 301), "no more than a day");
    assert!(takes(&read(5), 320) && !takes(&read(5), 321), "a clock that goes on leaves its readings behind");
}

#[test]
fn a_data_floor_stays_a_day_behind_the_own_clock() {
    let hours = |count: u64| Timestamp::from_ms(count * 3_600_000);
    assert_eq!(judge_data_floor(VoterStatus::Voting, hours(76), hours(100)), Ok(()));
    let refusal = Refusal::TooFarAhead { latest: hours(76) };
    assert_eq!(judge_data_floor(VoterStatus::Voting, hours(77), hours(100)), Err(refusal));
    assert_eq!(judge_data_floor(VoterStatus::Refilling, hours(1), hours(100)), Err(Refusal::Recovering));
}

#[test]
fn a_floor_lies_no_further_ahead_than_a_recovery_s() {
    let ballot = |ms| Ballot { time: Timestamp::from_ms(ms), proposer: ProposerId(1) };
    let (now_ms, zero) = (1_000_000_000, Ballot::ZERO);
    let judge = |standing, floor, current| judge_floor(standing, floor, current, Timestamp::from_ms(now_ms));
    let far_ms = now_ms + FOLLOW_STEP_MS_MAX;
    assert_eq!(judge(VoterStatus::Voting, ballot(far_ms), zero), Ok(()));
    let refusal = Refusal::TooFarAhead { latest: Timestamp::from_ms(far_ms) };
    assert_eq!(judge(VoterStatus::Voting, ballot(far_ms + 1), zero), Err(refusal));
    assert_eq!(judge(VoterStatus::Voting, ballot(far_ms + 1), ballot(far_ms + 1)), Ok(()), "it is there");
    assert_eq!(judge(VoterStatus::Refilling, ballot(1), zero), Err(Refusal::Recovering));
}

#[test]
fn a_volume_that_lost_its_state_answers_nothing_until_it_may() {
    let key = KeyState::default();
    for standing in [VoterStatus::Unconfirmed, VoterStatus::Lost, VoterStatus::Refilling] {
        assert_eq!(judge_prepare(&with(standing), &key, at(1), ballot(1)), Err(Refusal::Recovering));
        assert_eq!(judge_read(&with(standing), &key, at(1)), Err(Refusal::Recovering));
        assert_eq!(judge_raise(standing), Err(Refusal::Recovering));
        assert!(!standing.votes());
    }
    for standing in [VoterStatus::Unconfirmed, VoterStatus::Lost] {
        assert_eq!(judge_accept(&with(standing), &key, at(1), ballot(1), &[]), Err(Refusal::Recovering));
    }
    assert_eq!(
        judge_accept(&with(VoterStatus::Refilling), &key, at(1), ballot(1), &[]),
        Ok(AcceptVerdict::Store)
    );
    assert_eq!(judge_raise(VoterStatus::Voting), Ok(()));
}

#[test]
fn state_is_lost_until_it_is_recovered_and_not_while_it_is_unconfirmed() {
    assert!(VoterStatus::Lost.has_lost_state() && VoterStatus::Refilling.has_lost_state());
    assert!(!VoterStatus::Voting.has_lost_state() && !VoterStatus::Unconfirmed.has_lost_state());
}

#[test]
fn a_reading_of_the_clock_is_made_durable_when_it_is_a_new_highest() {
    let at = Timestamp::from_ms;
    assert_eq!(next_reading(at(5), at(6)), Some(at(6)));
    assert_eq!(next_reading(at(5), at(5)), None, "it is there");
    assert_eq!(next_reading(at(5), at(4)), None, "readings never fall");
}

#[test]
fn a_stale_epoch_and_a_seal_stop_everything() {
    let stale = KeyState { epoch_seen: Epoch(4), ..KeyState::default() };
    let sealed = KeyState { sealed: true, epoch_seen: Epoch(3), ..KeyState::default() };
    for (key, refusal) in [(stale, Refusal::StaleEpoch { epoch: Epoch(4) }), (sealed, Refusal::Sealed)] {
        assert_eq!(judge_prepare(&voting(), &key, at(1), ballot(1)), Err(refusal));
        assert_eq!(judge_accept(&voting(), &key, at(1), ballot(1), &[]), Err(refusal));
        assert_eq!(judge_read(&voting(), &key, at(1)), Err(refusal));
    }
}

#[test]
fn data_born_before_the_data_floor_is_not_introduced() {
    let floor = Timestamp::from_ms(500);
    let state = AcceptorState { data_floor: floor, ..voting() };
    let data = |ms| DataId { birth: Timestamp::from_ms(ms), proposer: ProposerId(1) };
    let judge =
        |introduces: &[DataId]| judge_accept(&state, &KeyState::default(), at(1), ballot(1), introduces);
    assert_eq!(judge(&[data(500), data(900)]), Ok(AcceptVerdict::Store));
    assert_eq!(judge(&[data(900), data(499)]), Err(Refusal::DataTooOld { floor }));
    assert_eq!(judge(&[]), Ok(AcceptVerdict::Store));
}

#[test]
fn a_promise_above_the_durable_bound_waits_for_a_higher_one() {
    let state = AcceptorState { durable_bound: ballot(10), ..AcceptorState::default() };
    let bound = |seconds, now| {
        judge_prepare(&state, &KeyState::default(), at(now), ballot(seconds)).map(|p| p.needs_bound)
    };
    assert_eq!(bound(10, 9), Ok(None));
    let ahead = Ballot { time: Timestamp::from_ms(13_000), proposer: ProposerId(u64::MAX) };
    assert_eq!(bound(11, 11), Ok(Some(ahead)), "two seconds ahead of the clock");
    let past = Ballot { time: Timestamp::from_ms(60_100), proposer: ProposerId(u64::MAX) };
    assert_eq!(bound(60, 11), Ok(Some(past)), "or a little past the ballot");
}

#[test]
fn the_bound_is_extended_before_it_is_used_up() {
    let now = Timestamp::from_ms(100_000);
    assert_eq!(extend_bound(ballot(102), now), None);
    assert_eq!(extend_bound(ballot(101), now), None);
    let extended = extend_bound(ballot(100), now).expect("less than a second is left");
    assert_eq!(extended.time, Timestamp::from_ms(102_000));
    let past = next_bound(ballot(200), now);
    let next = Ballot { time: Timestamp::from_u64(ballot(200).time.as_u64() + 1_000_000), ..ballot(200) };
    assert!(past > next, "a million ballots of a clock that was set back need no other");
    assert_eq!(past.time, Timestamp::from_ms(200_100));
}

#[test]
fn nothing_that_was_promised_before_a_restart_is_accepted_after_it() {
    let state =
        AcceptorState { durable_bound: ballot(30), restart_bound: ballot(10), ..AcceptorState::default() };
    let restarted = after_restart(&state);
    assert_eq!(restarted.restart_bound, ballot(30));
    assert_eq!(judge_accept(&restarted, &KeyState::default(), at(30), ballot(30), &[]), Err(below(30)));
    assert_eq!(after_forgetting(ballot(5), ballot(7)), ballot(7));
    assert_eq!(after_forgetting(ballot(9), ballot(7)), ballot(9));
}

#[test]
fn a_commit_hint_and_a_drop_are_for_one_ballot() {
    let held = row(10);
    assert!(judge_commit(Some(&held), ballot(10)));
    assert!(!judge_commit(Some(&held), ballot(9)));
    assert!(!judge_commit(None, ballot(10)));
    assert!(judge_drop(Some(&held), ballot(10), ballot(10)));
    assert!(!judge_drop(Some(&held), ballot(10), ballot(9)), "the floor does not cover it");
    assert!(!judge_drop(Some(&row(11)), ballot(10), ballot(12)), "another row");
    assert!(!judge_drop(None, ballot(10), ballot(12)));
}

#[test]
fn floors_only_rise() {
    assert_eq!(raise_floor(ballot(5), ballot(3)), ballot(5));
    assert_eq!(raise_floor(ballot(5), ballot(8)), ballot(8));
    assert_eq!(raise_data_floor(Timestamp::from_ms(5), Timestamp::from_ms(3)), Timestamp::from_ms(5));
}
