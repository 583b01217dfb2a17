//! The settings of upkeep that may change while it runs.
//!
//! A grace that is lowered holds for what is replaced from then on: readers of what was replaced before were
//! promised the longer one. Used by the workers through `Deps`, changed by `Upkeep::tune`.

use std::time::Duration;

use tokio::sync::watch;

use super::settings::Settings;

/// The settings that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpkeepTuning {
    /// As in [`Settings`].
    pub heal_bytes_per_second: u64,
    /// As in [`Settings`].
    pub release_grace: Duration,
    /// As in [`Settings`].
    pub scrub_pass: Duration,
    /// As in [`Settings`].
    pub adopt_after: Duration,
}

impl From<Settings> for UpkeepTuning {
    fn from(settings: Settings) -> Self {
        let Settings { heal_bytes_per_second, release_grace, scrub_pass, adopt_after, .. } = settings;
        Self { heal_bytes_per_second, release_grace, scrub_pass, adopt_after }
    }
}

/// The settings in force.
#[derive(Debug)]
pub(crate) struct LiveTuning(watch::Sender<TuningState>);

#[derive(Debug, Clone, Copy)]
struct TuningState {
    tuning: UpkeepTuning,
    earlier: Option<EarlierGrace>,
}

/// The longest grace that was in force before the grace was lowered last.
#[derive(Debug, Clone, Copy)]
struct EarlierGrace {
    /// When it was lowered, in milliseconds since the Unix epoch.
    until_ms: u64,
    grace: Duration,
}

impl EarlierGrace {
    /// Whether data may be left that was replaced under it.
    fn is_due(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms.saturating_add(millis(self.grace))
    }
}

impl LiveTuning {
    pub(crate) fn new(tuning: UpkeepTuning) -> Self {
        Self(watch::Sender::new(TuningState { tuning, earlier: None }))
    }

    /// Puts other settings into force, at this wall time.
    pub(crate) fn change(&self, tuning: UpkeepTuning, now_ms: u64) {
        self.0.send_modify(|state| {
            let before = state.earlier.filter(|earlier| earlier.is_due(now_ms)).map(|earlier| earlier.grace);
            let longest =
                before.map_or(state.tuning.release_grace, |grace| grace.max(state.tuning.release_grace));
            if tuning.release_grace < state.tuning.release_grace {
                state.earlier = Some(EarlierGrace { until_ms: now_ms, grace: longest });
            }
            state.tuning = tuning;
        });
    }

    /// Gets a message with each change.
    pub(crate) fn changes(&self) -> watch::Receiver<impl Sized + use<>> {
        self.0.subscribe()
    }

    pub(crate) fn scrub_pass(&self) -> Duration {
        self.0.borrow().tuning.scrub_pass
    }

    pub(crate) fn adopt_after(&self) -> Duration {
        self.0.borrow().tuning.adopt_after
    }

    /// How long data that is replaced at this moment stays.
    pub(crate) fn release_grace(&self) -> Duration {
        self.0.borrow().tuning.release_grace
    }

    /// How long data stays that was replaced then, in milliseconds.
    pub(crate) fn grace_ms_of(&self, replaced_ms: u64) -> u64 {
        let state = *self.0.borrow();
        let earlier = state.earlier.filter(|earlier| replaced_ms <= earlier.until_ms);
        let grace = state.tuning.release_grace;
        millis(earlier.map_or(grace, |earlier| grace.max(earlier.grace)))
    }

    /// The longest grace that data may have that is not released at this wall time, in milliseconds.
    pub(crate) fn longest_grace_ms(&self, now_ms: u64) -> u64 {
        let state = *self.0.borrow();
        let earlier = state.earlier.filter(|earlier| earlier.is_due(now_ms));
        let grace = state.tuning.release_grace;
        millis(earlier.map_or(grace, |earlier| grace.max(earlier.grace)))
    }
}

fn millis(period: Duration) -> u64 {
    u64::try_from(period.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_grace(minutes: u64) -> UpkeepTuning {
        UpkeepTuning { release_grace: Duration::from_mins(minutes), ..Settings::default().into() }
    }

    const MINUTE: u64 = 60_000;

    #[test]
    fn a_lower_grace_holds_for_what_is_replaced_later() {
        let tuning = LiveTuning::new(with_grace(60));
        tuning.change(with_grace(2), 100 * MINUTE);
        assert_eq!(tuning.release_grace(), Duration::from_mins(2));
        assert_eq!(tuning.grace_ms_of(99 * MINUTE), 60 * MINUTE);
        assert_eq!(tuning.grace_ms_of(101 * MINUTE), 2 * MINUTE);
        assert_eq!(tuning.longest_grace_ms(159 * MINUTE), 60 * MINUTE);
        assert_eq!(tuning.longest_grace_ms(160 * MINUTE), 2 * MINUTE);
    }

    #[test]
    fn the_longest_grace_of_several_is_kept_while_data_of_it_may_be_left() {
        let tuning = LiveTuning::new(with_grace(60));
        tuning.change(with_grace(10), 100 * MINUTE);
        tuning.change(with_grace(5), 110 * MINUTE);
        assert_eq!(tuning.grace_ms_of(99 * MINUTE), 60 * MINUTE);
        assert_eq!(
            tuning.grace_ms_of(110 * MINUTE),
            60 * MINUTE,
            "longer than it has to stay, never shorter"
        );
        tuning.change(with_grace(20), 300 * MINUTE);
        tuning.change(with_grace(3), 400 * MINUTE);
        assert_eq!(tuning.grace_ms_of(399 * MINUTE), 20 * MINUTE, "what was replaced under 60 is gone");
    }

    #[test]
    fn a_higher_grace_holds_for_all_that_is_judged_later() {
        let tuning = LiveTuning::new(with_grace(2));
        tuning.change(with_grace(60), 100 * MINUTE);
        assert_eq!(tuning.grace_ms_of(99 * MINUTE), 60 * MINUTE);
    }
}
