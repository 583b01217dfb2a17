//! Single judgements, and minutes of healing on a device whose calls take longer the more of it is used.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model of a device"
)]

use super::*;

const MIB: u64 = 1 << 20;
const DEVICE: u64 = 200 * MIB;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Calls: counts, each with a time in milliseconds.
fn calls(times: &[(u64, u64)]) -> CallCounts {
    let mut calls = CallCounts::default();
    for (count, ms) in times {
        calls.add_calls(*count, millis(*ms));
    }
    calls
}

fn second(times: &[(u64, u64)], healed_mib: u64) -> SecondFigures {
    SecondFigures {
        calls: calls(times),
        are_late: false,
        healed_bytes: healed_mib * MIB,
        device_pace: Some(DEVICE),
        wall_s: 1,
    }
}

/// A governor that saw clients whose p99 is 9 ms without healing.
fn beside_clients() -> Governor {
    let mut governor = Governor::default();
    for _ in 0..5 {
        governor.next_pace(&second(&[(100, 9)], 0));
    }
    assert_eq!(governor.quiet.p99(), Some(Duration::from_micros(9_216)));
    governor
}

/// Rates in MiB/s.
fn next_rate(governor: &mut Governor, times: &[(u64, u64)], healed_mib: u64) -> Option<u64> {
    let pace = governor.next_pace(&second(times, healed_mib));
    assert!(!pace.rests);
    pace.bytes_per_second.map(|rate| rate / MIB)
}

#[test]
fn calls_are_harmed_where_more_than_one_in_a_hundred_takes_twice_as_long() {
    type Times = &'static [(u64, u64)];
    let cases: [(&str, Times, bool); 7] = [
        ("as before", &[(1_000, 9)], false),
        ("one in a hundred", &[(990, 9), (10, 30)], false),
        ("more than that", &[(980, 9), (20, 30)], true),
        ("not twice as long", &[(900, 9), (100, 16)], false),
        ("one of a few", &[(5, 9), (1, 500)], false),
        ("two of a few", &[(5, 9), (2, 500)], true),
        ("no call", &[], false),
    ];
    for (name, times, is_harmed) in cases {
        let mut governor = beside_clients();
        let before = next_rate(&mut governor, &[], 0);
        assert_eq!(before, Some(40), "twice the floor");
        let after = next_rate(&mut governor, times, 40);
        assert_eq!(after, Some(if is_harmed { 28 } else { 45 }), "{name}");
    }
    let mut fast = Governor::default();
    for _ in 0..5 {
        fast.next_pace(&second(&[(100, 0)], 0));
    }
    assert_eq!(next_rate(&mut fast, &[(100, 2)], 40), Some(45), "2 ms are nothing to protect");
}

#[test]
fn harm_lowers_the_rate_to_the_floor_and_use_without_harm_raises_it() {
    let (slow, well): (&[_], &[_]) = (&[(100, 50)], &[(100, 9)]);
    let mut governor = beside_clients();
    assert_eq!(next_rate(&mut governor, well, 40), Some(45), "a quarter of the floor more");
    assert_eq!(next_rate(&mut governor, well, 20), Some(45), "a rate that is not used was not tried");
    assert_eq!(next_rate(&mut governor, slow, 45), Some(31));
    assert_eq!(next_rate(&mut governor, slow, 45), Some(31), "these calls waited behind bytes of before");
    assert_eq!(next_rate(&mut governor, slow, 31), Some(21));
    for _ in 0..10 {
        next_rate(&mut governor, slow, 20);
    }
    assert_eq!(governor.next_pace(&second(slow, 20)).reason, PaceReason::Floor);
    assert_eq!(governor.rate, Some(DEVICE / 10));
    assert_eq!(next_rate(&mut governor, &[], 20), Some(25), "nothing is harmed");
}

#[test]
fn a_device_without_clients_has_no_rate_and_one_with_them_half_of_what_healing_took() {
    let mut governor = Governor::default();
    assert_eq!(governor.next_pace(&second(&[], 200)), HealPace::default());
    assert_eq!(next_rate(&mut governor, &[(1, 500)], 200), Some(100));
    for _ in 1..IDLE_SECONDS {
        assert!(governor.next_pace(&second(&[], 100)).bytes_per_second.is_some());
    }
    assert_eq!(governor.next_pace(&second(&[], 100)).bytes_per_second, None);
}

#[test]
fn healing_that_begins_beside_clients_begins_gently() {
    let mut governor = beside_clients();
    for _ in 0..20 {
        next_rate(&mut governor, &[(100, 9)], 200);
    }
    assert!(governor.rate > Some(DEVICE / 2));
    for _ in 0..FRESH_SECONDS {
        next_rate(&mut governor, &[(100, 9)], 0);
    }
    assert_eq!(governor.rate, Some(DEVICE / 5));
}

#[test]
fn the_floor_is_a_tenth_of_the_device_and_a_guess_where_it_was_not_measured() {
    let floors = [None, Some(0), Some(DEVICE), Some(u64::MAX)].map(floor);
    assert_eq!(floors, [HEAL_FLOOR_UNMEASURED, HEAL_FLOOR_MIN, DEVICE / 10, u64::MAX / 10]);
    // A measurement that comes later raises a rate that is below it.
    let mut governor = Governor::default();
    governor.next_pace(&SecondFigures { device_pace: None, ..second(&[(1, 1)], 1) });
    assert_eq!(governor.rate, Some(2 * HEAL_FLOOR_UNMEASURED));
    governor.next_pace(&second(&[(1, 1)], 1));
    assert_eq!(governor.rate, Some(DEVICE / 10));
}

/// A device of 200 MiB/s. Clients use a part of it; healing takes what it may of the rest.
struct Device {
    seconds: u64,
    /// Times of calls, in seconds: beside healing, and as they were without it.
    calls: Vec<f64>,
    calls_alone: Vec<f64>,
    healed: u64,
    slowest: u64,
    fastest: u64,
    /// The pace for the next second.
    pace: HealPace,
}

/// Calls of a second where the clients use the whole device.
const CALLS: f64 = 1_000.0;

impl Device {
    fn new() -> Self {
        Self {
            seconds: 0,
            calls: Vec::new(),
            calls_alone: Vec::new(),
            healed: 0,
            slowest: u64::MAX,
            fastest: 0,
            pace: HealPace::default(),
        }
    }

    /// The same one without the figures so far: healing goes on at its pace.
    fn afresh(self) -> Self {
        Self { pace: self.pace, ..Self::new() }
    }

    /// The calls of a second in which a part of the device is used, as those of a queue with random arrivals.
    fn calls_at(clients: f64, used: f64) -> impl Iterator<Item = f64> {
        let count = (CALLS * clients) as u64;
        (0..count).map(move |number| {
            let waited = -(1.0 - (number as f64 + 0.5) / count as f64).ln();
            0.002 * waited / (1.0 - used.min(0.99))
        })
    }

    /// Runs for some seconds of heals beside clients that use this part of it.
    fn run(&mut self, seconds: u64, clients: f64, mut next: impl FnMut(&SecondFigures) -> HealPace) {
        for _ in 0..seconds {
            let pace = self.pace;
            self.seconds += 1;
            // A little more load in one second than in another.
            let clients = clients * (0.9 + 0.02 * (self.seconds * 7 % 11) as f64);
            let left = (DEVICE as f64 * (1.0 - clients)) as u64;
            let healed = if pace.rests { 0 } else { pace.bytes_per_second.unwrap_or(left).min(left) };
            let mut calls = CallCounts::default();
            for time in Self::calls_at(clients, clients + healed as f64 / DEVICE as f64) {
                calls.add_calls(1, Duration::from_secs_f64(time));
                self.calls.push(time);
            }
            self.calls_alone.extend(Self::calls_at(clients, clients));
            self.healed += healed;
            self.slowest = self.slowest.min(pace.bytes_per_second.unwrap_or(u64::MAX));
            self.fastest = self.fastest.max(pace.bytes_per_second.unwrap_or(left));
            self.pace = next(&SecondFigures {
                calls,
                are_late: false,
                healed_bytes: healed,
                device_pace: Some(DEVICE),
                wall_s: 1_000_000 + self.seconds,
            });
        }
    }

    /// The part of the device that healing used.
    fn healed_part(&self) -> f64 {
        self.healed as f64 / (DEVICE * self.seconds) as f64
    }

    /// The p99 of clients as a multiple of theirs without healing.
    fn p99_factor(&self) -> f64 {
        let p99 = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() * 99 / 100]
        };
        p99(self.calls.clone()) / p99(self.calls_alone.clone())
    }

    /// Whether clients and healing both got their part.
    fn keeps_the_promise(&self) -> bool {
        self.p99_factor() < 2.0 && self.healed_part() > 0.2 && self.slowest >= DEVICE / 10
    }
}

#[test]
fn beside_clients_healing_uses_what_leaves_their_p99_below_twice_its_own() {
    // At 0.3 the p99 doubles where healing takes 0.35 of the device.
    for was_seen_before in [true, false] {
        let (mut governor, mut device) = (Governor::default(), Device::new());
        if was_seen_before {
            Device::new().run(60, 0.3, |seen| HealPace { rests: true, ..governor.next_pace(seen) });
        }
        device.run(600, 0.3, |seen| governor.next_pace(seen));
        let (factor, part) = (device.p99_factor(), device.healed_part());
        assert!(device.keeps_the_promise(), "{factor} of the p99, {part} of the device: {governor:?}");
    }
}

#[test]
fn a_governor_that_does_nothing_or_too_much_breaks_the_promise() {
    let mut unbounded = Device::new();
    unbounded.run(600, 0.3, |_| HealPace::default());
    assert!(!unbounded.keeps_the_promise() && unbounded.p99_factor() > 2.0, "{}", unbounded.p99_factor());
    let mut timid = Device::new();
    timid.run(600, 0.3, |_| HealPace { bytes_per_second: Some(8 * MIB), ..HealPace::default() });
    assert!(!timid.keeps_the_promise() && timid.p99_factor() < 2.0);
    let mut stubborn = Device::new();
    let mut governor = Governor::default();
    stubborn.run(600, 0.3, |seen| {
        // The answer of a governor that measures no baseline.
        governor.quiet = QuietTimes::default();
        governor.next_pace(seen)
    });
    assert!(!stubborn.keeps_the_promise(), "{} of the device", stubborn.healed_part());
}

#[test]
fn an_idle_device_is_used_whole_and_again_when_its_clients_have_left() {
    let (mut governor, mut device) = (Governor::default(), Device::new());
    device.run(60, 0.0, |seen| governor.next_pace(seen));
    assert_eq!(device.healed, 60 * DEVICE);
    Device::new().run(60, 0.3, |seen| governor.next_pace(seen));
    assert!(governor.rate.is_some());
    let mut after = Device::new();
    after.run(60, 0.0, |seen| governor.next_pace(seen));
    assert!(after.healed >= (60 - IDLE_SECONDS) * DEVICE, "{}", after.healed / DEVICE);
}

#[test]
fn on_a_device_that_clients_use_up_healing_keeps_a_tenth_of_its_pace() {
    let mut governor = Governor::default();
    Device::new().run(10, 0.0, |seen| governor.next_pace(seen));
    let mut device = Device::new();
    device.run(600, 0.8, |seen| governor.next_pace(seen));
    assert_eq!(device.slowest, DEVICE / 10);
}

#[test]
fn hours_of_healing_follow_a_load_that_grows_and_shrinks() {
    let (mut governor, mut device) = (Governor::default(), Device::new());
    for clients in [0.2, 0.4, 0.1, 0.3] {
        // Until the figures of the load before are old.
        device.run(QUIET_FIGURE_SECONDS + 60, clients, |seen| governor.next_pace(seen));
        device = device.afresh();
        device.run(600, clients, |seen| governor.next_pace(seen));
        let (factor, part) = (device.p99_factor(), device.healed_part());
        assert!(device.keeps_the_promise(), "beside {clients}: {factor} of the p99, {part} of the device");
    }
}

#[test]
fn from_any_rate_healing_comes_to_the_one_that_a_steady_load_bears() {
    // The p99 is seven quarters of its own where healing takes three sevenths of what clients leave.
    for clients in [0.2, 0.4, 0.6] {
        let bearable = DEVICE as f64 * (1.0 - clients) * 3.0 / 7.0;
        for start in [DEVICE / 10, DEVICE] {
            let (mut governor, mut device) = (Governor::default(), Device::new());
            device.run(60, clients, |seen| HealPace { rests: true, ..governor.next_pace(seen) });
            governor.rate = Some(start);
            device.run(120, clients, |seen| governor.next_pace(seen));
            device = device.afresh();
            device.run(600, clients, |seen| governor.next_pace(seen));
            let (slowest, fastest) = (device.slowest as f64 / bearable, device.fastest as f64 / bearable);
            // Seconds differ by a tenth, and a rate is judged when its second is over.
            assert!(
                slowest > 0.5 && fastest < 1.4 && device.p99_factor() < 2.0,
                "beside {clients} from {start}: {slowest} to {fastest} of what they bear"
            );
        }
    }
}

#[test]
fn a_few_calls_are_no_figure() {
    let mut governor = Governor::default();
    for _ in 0..5 {
        governor.next_pace(&second(&[(1, 5_000)], 0));
    }
    assert_eq!((governor.quiet.p99(), governor.limit()), (None, CALL_TIME_UNHARMED));
}
