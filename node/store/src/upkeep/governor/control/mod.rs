//! The decision how fast healing goes, from the figures of each second: no clock, no task.
//!
//! The rate is in force on each volume of the node, for a second:
//! - **Idle**: 5 s after the last call of clients, where none waits, healing takes any number of bytes.
//! - **Floor**: else it is a tenth of the pace of the slowest device at least, however slow the clients are.
//! - **Overload**: calls that are harmed take three tenths off it, down to the floor; it does not grow.
//! - **Growth**: calls that are not harmed beside healing that uses it make it grow by a thirty-second, or a
//!   quarter of the floor where that is more.
//!
//! So it converges: under a steady load that is harmed above some rate, it goes from any rate to the band
//! from seven tenths of that rate to a few steps above it within a minute or two, and stays there; the floor
//! is in force where that rate lies below it.
//!
//! Harm is judged against the calls without healing. Hours of healing leave none, so it rests for two seconds
//! of each half minute beside clients: the second one is measured.

use std::collections::VecDeque;
use std::time::Duration;

use crate::machine::call_times::CallCounts;
use crate::upkeep::limits::{
    CALL_TIME_UNHARMED, CALLS_JUDGED, FRESH_SECONDS, HEAL_FLOOR_MIN, HEAL_FLOOR_PART, HEAL_FLOOR_UNMEASURED,
    IDLE_SECONDS, JUDGED_SECONDS, QUIET_BYTES, QUIET_CALLS, QUIET_FIGURE_SECONDS, QUIET_FIGURES_MIN,
    REST_EVERY_SECONDS, REST_SECONDS,
};
use crate::volumes::{HealPace, PaceReason};

/// The figures of one second.
#[derive(Debug, Clone, Default)]
pub(super) struct SecondFigures {
    /// Calls that requests waited for.
    pub(super) calls: CallCounts,
    /// Whether some of them take a second or longer and have not ended.
    pub(super) are_late: bool,
    /// Bytes of heals on the volume that had most.
    pub(super) healed_bytes: u64,
    /// Bytes per second of the slowest device; `None` while that is not known.
    pub(super) device_pace: Option<u64>,
    /// Of the wall clock, at its end.
    pub(super) wall_s: u64,
}

/// The state from one second to the next.
#[derive(Debug, Default)]
pub(super) struct Governor {
    /// Seconds so far.
    second: u64,
    /// The rate in force; `None` for any.
    rate: Option<u64>,
    /// The second with the last call; 0 before the first.
    called: u64,
    judged: JudgedCalls,
    quiet: QuietTimes,
    /// The second up to which healing rests.
    rest_until: u64,
    /// The half minute of the wall clock that the last second was of.
    half_minute: Option<u64>,
}

/// The calls beside healing that are judged together.
#[derive(Debug, Default)]
struct JudgedCalls {
    calls: CallCounts,
    seconds: u64,
    /// Whether the next second is left out: calls of it waited behind bytes of the rate before.
    is_settling: bool,
}

/// The judgement of calls beside healing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// More than one in a hundred took too long.
    Harmed,
    Unharmed,
    /// Calls waited behind bytes of a higher rate.
    Unknown,
}

/// How long calls take without healing.
#[derive(Debug, Default)]
struct QuietTimes {
    /// Seconds without healing up to the last one.
    seconds: u64,
    calls: CallCounts,
    /// The p99 of twenty calls or more, and in which second it was known.
    figures: VecDeque<(u64, Duration)>,
}

impl Governor {
    /// Judges a second, and says how fast healing goes in the next.
    pub(super) fn next_pace(&mut self, figures: &SecondFigures) -> HealPace {
        let SecondFigures { calls, are_late, healed_bytes, device_pace, wall_s } = figures;
        self.second += 1;
        if calls.total() > 0 {
            self.called = self.second;
        }
        let heals = *healed_bytes > QUIET_BYTES;
        // A device that stands still moves no bytes of heals either: it shows nothing of clients alone.
        self.quiet.second(self.second, heals || *are_late, calls);
        let has_clients = self.called > 0 && self.second < self.called + IDLE_SECONDS;
        let floor = floor(*device_pace);
        self.rate = has_clients.then(|| {
            let rate = match self.rate {
                Some(rate) if heals => self.judge(rate, floor, figures),
                Some(rate) if self.quiet.seconds < FRESH_SECONDS => rate,
                // Clients come to healing that took the whole device, or healing begins beside clients.
                Some(_) | None => (healed_bytes / 2).max(2 * floor),
            };
            rate.max(floor)
        });
        let rests = self.rests(heals && has_clients, *wall_s);
        let reason = match self.rate {
            None => PaceReason::Idle,
            Some(rate) if rate == floor => PaceReason::Floor,
            Some(_) => PaceReason::Clients,
        };
        HealPace { bytes_per_second: self.rate, reason, rests }
    }

    /// The time from which on a call is harmed: seven quarters, so that the p99 over sharp and easy seconds
    /// stays below twice.
    fn limit(&self) -> Duration {
        self.quiet.p99().map_or(CALL_TIME_UNHARMED, |p99| (p99 * 7 / 4).max(CALL_TIME_UNHARMED))
    }

    /// The rate after a second of healing beside clients.
    fn judge(&mut self, rate: u64, floor: u64, figures: &SecondFigures) -> u64 {
        let healed = figures.healed_bytes;
        match self.judged.judge(&figures.calls, self.limit()) {
            Judgement::Harmed => rate.min(healed) / 10 * 7,
            // A rate that is not used was not tried.
            Judgement::Unharmed if rate / 2 <= healed => rate.saturating_add((rate / 32).max(floor / 4)),
            Judgement::Unharmed | Judgement::Unknown => rate,
        }
    }

    /// Whether healing rests in the next second: with the beginning of a half minute, and where nothing is
    /// known of the calls without it.
    fn rests(&mut self, heals: bool, wall_s: u64) -> bool {
        let half_minute = Some(wall_s / REST_EVERY_SECONDS);
        let is_new = self.half_minute.is_some() && self.half_minute != half_minute;
        self.half_minute = half_minute;
        let is_unknown = self.quiet.figures.is_empty() && self.second >= self.rest_until + IDLE_SECONDS;
        if heals && (is_new || is_unknown) {
            self.rest_until = self.second + REST_SECONDS;
        }
        self.second < self.rest_until
    }
}

/// The least rate beside clients.
fn floor(device_pace: Option<u64>) -> u64 {
    device_pace.map_or(HEAL_FLOOR_UNMEASURED, |pace| (pace / HEAL_FLOOR_PART).max(HEAL_FLOOR_MIN))
}

impl JudgedCalls {
    /// Adds the calls of a second, and judges those gathered. One that took `limit` or longer never counts
    /// alone.
    fn judge(&mut self, calls: &CallCounts, limit: Duration) -> Judgement {
        if std::mem::take(&mut self.is_settling) {
            return Judgement::Unknown;
        }
        self.calls.add(calls);
        self.seconds += 1;
        let total = self.calls.total();
        let are_harmed = self.calls.over(limit) > (total / 100).max(1);
        if are_harmed || total >= CALLS_JUDGED || self.seconds >= JUDGED_SECONDS {
            *self = Self { is_settling: are_harmed, ..Self::default() };
        }
        if are_harmed { Judgement::Harmed } else { Judgement::Unharmed }
    }
}

impl QuietTimes {
    /// Takes the calls of a second. The first second without healing may still have bytes of it under way.
    fn second(&mut self, second: u64, heals: bool, calls: &CallCounts) {
        self.seconds = if heals { 0 } else { self.seconds + 1 };
        if self.seconds < 2 {
            return;
        }
        self.calls.add(calls);
        if self.calls.total() >= QUIET_CALLS {
            self.figures.push_back((second, std::mem::take(&mut self.calls).p99()));
        }
        let is_old = |(known, _): &(u64, Duration)| known + QUIET_FIGURE_SECONDS < second;
        while self.figures.len() > QUIET_FIGURES_MIN && self.figures.front().is_some_and(is_old) {
            self.figures.pop_front();
        }
    }

    /// The median of the figures; `None` before the first.
    fn p99(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self.figures.iter().map(|(_, p99)| *p99).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests;
