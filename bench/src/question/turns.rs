//! Runs several ways to do one piece of work in turns, so that other load on the machine affects them alike.
//!
//! A round gives each way one short sample, beginning with another one each time. The results are medians
//! over the rounds, and for ratios the median of each round's own ratio. Time is processor time of the
//! thread: other work on the same cores is not counted, though it takes its share of caches and memory.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::rounds::median;
use crate::limits::{ROUNDS_MAX, ROUNDS_MIN, SAMPLE_MIN};

pub(super) struct Way<'a> {
    pub(super) name: &'static str,
    pub(super) run: Box<dyn FnMut() + 'a>,
}

impl<'a> Way<'a> {
    pub(super) fn new(name: &'static str, run: impl FnMut() + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }
}

pub(super) struct Times {
    pub(super) name: &'static str,
    seconds: Vec<f64>,
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("used time is not negative")
}

/// Takes turns for about `budget` per way.
pub(super) fn measure(ways: &mut [Way<'_>], budget: Duration) -> Vec<Times> {
    let sample = (budget / ROUNDS_MAX).max(SAMPLE_MIN);
    // The first run of each also warms caches, tables and page tables.
    let repeats: Vec<u32> = ways.iter_mut().map(|way| repeats(way, sample)).collect();
    let mut times: Vec<Times> =
        ways.iter().map(|way| Times { name: way.name, seconds: Vec::new() }).collect();
    let count = ways.len();
    let deadline = Instant::now() + budget * u32::try_from(count).expect("a few ways");
    for round in 0.. {
        if round >= ROUNDS_MIN && Instant::now() >= deadline {
            break;
        }
        for turn in 0..count {
            let index = (round + turn) % count;
            let begin = processor_time();
            for _ in 0..repeats[index] {
                (ways[index].run)();
            }
            let used = processor_time().saturating_sub(begin);
            times[index].seconds.push(used.as_secs_f64() / f64::from(repeats[index]));
        }
    }
    times
}

pub(super) fn mib(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).expect("no sample works on 4 GiB")) / f64::from(1 << 20)
}

/// How often a way has to run to fill a sample.
fn repeats(way: &mut Way<'_>, sample: Duration) -> u32 {
    (way.run)();
    let mut repeats = 1;
    loop {
        let begin = processor_time();
        for _ in 0..repeats {
            (way.run)();
        }
        if processor_time().saturating_sub(begin) >= sample || repeats >= 1 << 30 {
            return repeats;
        }
        repeats *= 2;
    }
}

impl Times {
    pub(super) fn seconds(&self) -> f64 {
        median(self.seconds.clone())
    }

    /// How often the work is done with this way while `other` does it once.
    pub(super) fn speed_over(&self, other: &Self) -> f64 {
        median(self.seconds.iter().zip(&other.seconds).map(|(own, other)| other / own).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_takes_its_turn_in_every_round() {
        let (mut first, mut second) = (0_u64, 0_u64);
        let mut ways = [Way::new("first", || first += 1), Way::new("second", || second += 1)];
        let times = measure(&mut ways, Duration::ZERO);
        drop(ways);
        assert_eq!(times.len(), 2);
        assert!(times.iter().all(|times| times.seconds.len() == ROUNDS_MIN));
        assert!(first > 0 && second > 0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let slow = Times { name: "slow", seconds: vec![1.0, 10.0, 4.0] };
        let fast = Times { name: "fast", seconds: vec![0.5, 5.0, 1.0] };
        assert!((fast.speed_over(&slow) - 2.0).abs() < 1e-9);
        assert!((slow.seconds() - 4.0).abs() < 1e-9);
    }
}
