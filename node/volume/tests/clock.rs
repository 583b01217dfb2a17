//! A volume's clock that was ahead and is set back: which ballots it takes, and which guarantees its answers
//! carry.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::env::Clock;
use sherd_core::id::{Ballot, ProposerId, Timestamp};
use sherd_core::limits::{BALLOT_AHEAD_MS_MAX, DATA_FLOOR_BEHIND_MS_MIN};
use sherd_core::message::{Control, ValueLimit};
use sherd_core::register::{Prepare, Refusal};
use sherd_volume::lookup::{Lookup, Source};
use support::{Bench, Driver, START_MS, object, target, value};

const HOUR_MS: u64 = 3_600_000;

fn at_ms(ms: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(ms), proposer: ProposerId(5) }
}

fn is_taken(driver: &mut Driver, ballot: Ballot) -> bool {
    driver.prepare(&object("new"), ballot).unwrap().result.is_ok()
}

#[test]
fn ballots_are_taken_up_to_the_highest_reading_of_the_own_clock() {
    let bench = Bench::new(1);
    let mut driver = bench.reopen();
    bench.clock.set_ahead_ms(HOUR_MS);
    driver.write(&object("a"), at_ms(START_MS + HOUR_MS), &value(1, 10));
    bench.clock.set_ahead_ms(0);
    let minutes_later = |minutes: u64| at_ms(START_MS + HOUR_MS + minutes * 60_000);
    let too_far = at_ms(START_MS + HOUR_MS + BALLOT_AHEAD_MS_MAX + 1);
    assert!(is_taken(&mut driver, minutes_later(1)), "still open");
    assert!(!is_taken(&mut driver, too_far));
    drop(driver);

    bench.kill();
    let mut driver = bench.reopen();
    assert!(is_taken(&mut driver, minutes_later(2)), "after a crash");
    for number in 0..400 {
        let ballot = at_ms(minutes_later(3).time.as_ms() + number);
        driver.write(&object("filler"), ballot, &value(number, 4_000));
    }
    driver.settle();
    driver.reader.flush().unwrap();
    assert!(driver.compact() > 0, "segments went");
    drop(driver);

    bench.kill();
    bench.index.wipe();
    let mut driver = bench.reopen();
    assert!(is_taken(&mut driver, minutes_later(4)), "from what compaction left of the log");
    assert!(!is_taken(&mut driver, too_far));
}

#[test]
fn promises_ahead_of_the_clock_wait_for_no_bound_of_their_own() {
    let bench = Bench::new(2);
    let mut driver = bench.reopen();
    bench.clock.set_ahead_ms(HOUR_MS);
    driver.write(&object("a"), at_ms(START_MS + HOUR_MS + 3_000), &value(1, 10));
    bench.clock.set_ahead_ms(0);
    for count in 1..1_000 {
        let time = Timestamp::from_u64(at_ms(START_MS + HOUR_MS + 3_000).time.as_u64() + count);
        let prepare = Prepare { ballot: Ballot { time, proposer: ProposerId(5) } };
        let promised =
            driver.reader.prepare(&target(&object("b")), &prepare, ValueLimit::USUAL, Source::Disk).unwrap();
        assert!(matches!(promised, Lookup::Immediate(answer) if answer.result.is_ok()), "at once: {count}");
    }
}

#[test]
fn a_recovery_gets_the_promised_ballots_and_not_the_clocks() {
    let bench = Bench::new(3);
    let mut driver = bench.reopen();
    bench.clock.set_ahead_ms(240 * HOUR_MS);
    driver.write(&object("a"), at_ms(START_MS + 1), &value(1, 10));
    driver.settle();
    let told = |driver: &mut Driver| {
        let floor = Control::RaiseFloor { floor: Ballot::ZERO };
        let guarantees = driver.control(floor).unwrap().unwrap();
        assert_eq!(guarantees, driver.reader.guarantees());
        guarantees.bound
    };
    assert_eq!(told(&mut driver), at_ms(START_MS + 1));
    assert!(is_taken(&mut driver, at_ms(START_MS + 2)));
    assert_eq!(told(&mut driver), at_ms(START_MS + 2), "a promise that no row keeps counts, too");
    drop(driver);

    bench.kill();
    let mut driver = bench.reopen();
    assert!(told(&mut driver).time.as_ms() > START_MS + 239 * HOUR_MS, "what it was before is its bound");
}

#[test]
fn a_data_floor_near_the_clock_is_refused() {
    let bench = Bench::new(4);
    let mut driver = bench.reopen();
    let latest = Timestamp::from_ms(bench.clock.wall_ms() - DATA_FLOOR_BEHIND_MS_MIN);
    let near = Control::RaiseDataFloor { floor: latest.plus_ms(1) };
    assert_eq!(driver.control(near).unwrap(), Err(Refusal::TooFarAhead { latest }));
    let raised = driver.control(Control::RaiseDataFloor { floor: latest }).unwrap().unwrap();
    assert_eq!(raised.data_floor, latest);
}
