//! When operations begin and which of them count; plain arithmetic over a clock that the caller reads.
//!
//! **Closed loop**: a client begins its next operation when its last one has ended. By time, the
//! measured window opens with the first end after the warm-up and closes with the first end after its
//! length, so that it holds whole operations however long they are. By count, everything begun after
//! the warm-up counts.
//!
//! **Open loop**: operation n is due at n intervals, whether a client is free or not, and its latency
//! runs from then: a server that stalls is charged with the queue that it makes. Operations that could not be
//! sent within some time after the end are counted as unsent.
//!
//! All times are since the start of the run.

use std::time::Duration;

use crate::limits::DRAIN;

/// When the next operation is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as a client is free.
    Closed,
    /// At `phase` plus a multiple of `interval`.
    Open {
        /// Time between two operations.
        interval: Duration,
        /// When the first one is due.
        phase: Duration,
    },
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this time, the warm-up not included.
    Time(Duration),
    /// After this number of operations, those of the warm-up not included.
    Count(u64),
}

/// The next step of a free client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Begin an operation that was due at `due`.
    Begin {
        /// Start of its latency.
        due: Duration,
    },
    /// Begin no operation before `until`.
    Wait {
        /// When the next operation is due.
        until: Duration,
    },
    /// No further operation begins.
    Finished,
}

/// The schedule of one generator thread.
#[derive(Clone, Debug)]
pub struct Schedule {
    pace: Pace,
    limit: Limit,
    warm_up: Duration,
    /// Operations begun that the pace or the limit counts.
    begun: u64,
    opened: Option<Duration>,
    closed: Option<Duration>,
    /// The last end that counted.
    last: Duration,
    exhausted: bool,
}

impl Schedule {
    /// A schedule that begins with `warm_up`.
    pub fn new(pace: Pace, limit: Limit, warm_up: Duration) -> Self {
        let by_completion = matches!((pace, limit), (Pace::Closed, Limit::Time(_)));
        let opened = (by_completion && warm_up.is_zero()).then_some(Duration::ZERO);
        Self { pace, limit, warm_up, begun: 0, opened, closed: None, last: Duration::ZERO, exhausted: false }
    }

    /// Returns what a free client does at `now`, and counts it as begun.
    pub fn next(&mut self, now: Duration) -> Next {
        if self.exhausted {
            return Next::Finished;
        }
        match (self.pace, self.limit) {
            (Pace::Closed, Limit::Time(_)) if self.closed.is_some() => return Next::Finished,
            (Pace::Closed, Limit::Time(_)) => {}
            (Pace::Closed, Limit::Count(count)) => {
                if now >= self.warm_up {
                    if self.begun == count {
                        return Next::Finished;
                    }
                    self.begun += 1;
                    self.opened.get_or_insert(now);
                }
            }
            (Pace::Open { .. }, _) => {
                let Some(due) = self.due() else {
                    return Next::Finished;
                };
                if due > now {
                    return Next::Wait { until: due };
                }
                self.begun += 1;
                if due >= self.warm_up {
                    self.opened.get_or_insert(self.warm_up);
                }
                return Next::Begin { due };
            }
        }
        Next::Begin { due: now }
    }

    /// Takes the end of an operation at `now` and says whether it counts.
    pub fn ended(&mut self, due: Duration, now: Duration) -> bool {
        if let (Pace::Closed, Limit::Time(length)) = (self.pace, self.limit) {
            let Some(opened) = self.opened else {
                self.opened = (now >= self.warm_up).then_some(now);
                return false;
            };
            if self.closed.is_some() {
                return false;
            }
            self.closed = (now >= opened + length).then_some(now);
        } else if due < self.warm_up || self.opened.is_none() {
            return false;
        }
        self.last = self.last.max(now);
        true
    }

    /// Begins nothing more, because all objects are used up.
    pub fn exhaust(&mut self) {
        self.exhausted = true;
    }

    /// Gives up what an open loop has not begun [`DRAIN`] after its end, and says how many that are.
    pub fn abandon(&mut self, now: Duration) -> u64 {
        let end = match (self.pace, self.limit) {
            (Pace::Open { .. }, Limit::Time(length)) => self.warm_up + length,
            (Pace::Open { interval, phase }, Limit::Count(count)) => {
                self.warm_up + phase + interval.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
            }
            (Pace::Closed, _) => return 0,
        };
        if self.exhausted || now < end + DRAIN {
            return 0;
        }
        let mut unsent = 0;
        while self.due().is_some() {
            self.begun += 1;
            unsent += 1;
        }
        unsent
    }

    /// When the measured window opened.
    pub fn opened(&self) -> Option<Duration> {
        self.opened
    }

    /// When the measured window closed, of a closed loop by time.
    pub fn closed(&self) -> Option<Duration> {
        self.closed
    }

    /// How long the measured window lasted, up to the last end that counted.
    pub fn elapsed(&self) -> Duration {
        let measured = self.last.saturating_sub(self.opened.unwrap_or_default());
        match (self.pace, self.limit) {
            // A run that ended early is divided by its planned length, else its rate would be too high.
            (Pace::Open { .. }, Limit::Time(length)) => measured.max(length),
            _ => measured,
        }
    }

    /// When the next operation of an open loop is due, unless that is after its end.
    fn due(&self) -> Option<Duration> {
        let Pace::Open { interval, phase } = self.pace else {
            return None;
        };
        let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).saturating_mul(self.begun);
        let due = phase + Duration::from_nanos(nanos);
        let within = match self.limit {
            Limit::Time(length) => due < self.warm_up + length,
            Limit::Count(count) => {
                let warm = self.warm_up.saturating_sub(phase).as_nanos().div_ceil(interval.as_nanos().max(1));
                self.begun < count.saturating_add(u64::try_from(warm).unwrap_or(u64::MAX))
            }
        };
        within.then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Runs `schedule` with one client against a server that takes `service` per operation; returns the
    /// latencies that count, in milliseconds.
    fn with_one_client(schedule: &mut Schedule, service: impl Fn(usize) -> Duration) -> Vec<u128> {
        let (mut now, mut latencies) = (Duration::ZERO, Vec::new());
        for index in 0.. {
            let due = loop {
                match schedule.next(now) {
                    Next::Begin { due } => break due,
                    Next::Wait { until } => now = until,
                    Next::Finished => return latencies,
                }
            };
            now += service(index);
            if schedule.ended(due, now) {
                latencies.push(now.checked_sub(due).unwrap().as_millis());
            }
        }
        latencies
    }

    #[test]
    fn an_open_loop_charges_the_server_with_the_queue_that_it_makes() {
        let pace = Pace::Open { interval: ms(10), phase: ms(0) };
        let mut schedule = Schedule::new(pace, Limit::Time(ms(100)), ms(0));
        // The server stalls once for 35 ms; each operation behind it waited from when it was due.
        let latencies = with_one_client(&mut schedule, |index| if index == 2 { ms(35) } else { ms(1) });
        assert_eq!(latencies, [1, 1, 35, 26, 17, 8, 1, 1, 1, 1]);
        assert_eq!(schedule.elapsed(), ms(100));
    }

    #[test]
    fn an_open_loop_that_is_too_slow_falls_ever_further_behind() {
        let pace = Pace::Open { interval: ms(10), phase: ms(0) };
        let mut schedule = Schedule::new(pace, Limit::Time(ms(50)), ms(0));
        assert_eq!(with_one_client(&mut schedule, |_| ms(20)), [20, 30, 40, 50, 60]);
        assert_eq!(schedule.elapsed(), ms(100), "longer than asked for: the rate was not reached");
    }

    #[test]
    fn a_closed_loop_hides_that_queue() {
        let mut schedule = Schedule::new(Pace::Closed, Limit::Count(4), ms(0));
        let latencies = with_one_client(&mut schedule, |index| if index == 2 { ms(35) } else { ms(1) });
        assert_eq!(latencies, [1, 1, 35, 1]);
        assert_eq!(schedule.elapsed(), ms(38));
    }

    #[test]
    fn a_window_holds_whole_operations_even_if_one_is_longer_than_it() {
        let mut schedule = Schedule::new(Pace::Closed, Limit::Time(ms(10)), ms(5));
        assert_eq!(with_one_client(&mut schedule, |_| ms(40)), [40]);
        assert_eq!((schedule.opened(), schedule.elapsed()), (Some(ms(40)), ms(40)));
        let mut schedule = Schedule::new(Pace::Closed, Limit::Time(ms(10)), ms(0));
        assert_eq!(with_one_client(&mut schedule, |_| ms(4)), [4, 4, 4]);
        assert_eq!(schedule.elapsed(), ms(12));
    }

    #[test]
    fn what_began_in_the_warm_up_does_not_count() {
        let mut schedule = Schedule::new(Pace::Closed, Limit::Count(3), ms(10));
        let latencies = with_one_client(&mut schedule, |index| ms(if index < 4 { 3 } else { 7 }));
        assert_eq!(latencies, [7, 7, 7]);
        assert_eq!((schedule.opened(), schedule.elapsed()), (Some(ms(12)), ms(21)));
        let pace = Pace::Open { interval: ms(10), phase: ms(0) };
        let mut schedule = Schedule::new(pace, Limit::Count(3), ms(25));
        assert_eq!(with_one_client(&mut schedule, |_| ms(1)), [1, 1, 1]);
        assert_eq!(schedule.opened(), Some(ms(25)));
    }

    #[test]
    fn what_could_not_be_sent_is_given_up_and_counted() {
        let pace = Pace::Open { interval: ms(10), phase: ms(0) };
        let mut schedule = Schedule::new(pace, Limit::Time(ms(100)), ms(0));
        assert_eq!(schedule.next(ms(0)), Next::Begin { due: ms(0) });
        assert_eq!(schedule.abandon(ms(200)), 0, "not yet");
        assert_eq!(schedule.abandon(ms(100) + DRAIN), 9);
        assert_eq!(schedule.next(ms(100) + DRAIN), Next::Finished);
    }

    #[test]
    fn a_schedule_with_nothing_left_ends() {
        let mut schedule = Schedule::new(Pace::Closed, Limit::Time(ms(1000)), ms(0));
        assert_eq!(schedule.next(ms(1)), Next::Begin { due: ms(1) });
        schedule.exhaust();
        assert_eq!(schedule.next(ms(2)), Next::Finished);
        assert!(schedule.ended(ms(1), ms(3)));
        assert_eq!(schedule.elapsed(), ms(3));
    }
}
