//! Connections that cannot be accepted: what is said of them, once a minute and not at every try.
//!
//! Where descriptors are lacking, a listener tries again ten times a second, for as long as that lasts.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// Between two lines.
const SAID_EVERY: Duration = Duration::from_mins(1);

/// Tries of one listener that failed.
#[derive(Debug, Default)]
pub(super) struct AcceptFailures {
    said: Option<Instant>,
    unsaid_count: u64,
}

impl AcceptFailures {
    /// Notes a failure, and logs it unless one was logged a moment ago.
    pub(super) fn failed(&mut self, listener: &'static str, error: &io::Error) {
        match self.count(Instant::now()) {
            Some(0) => tracing::warn!(listener, %error, "accept connection"),
            Some(more) => tracing::warn!(listener, %error, more, "accept connection"),
            None => {}
        }
    }

    /// How many failures there were since the last one that was logged; `None` where this one is not to be.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now.duration_since(said) < SAID_EVERY) {
            self.unsaid_count += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_said_once_a_minute_with_how_many_there_were() {
        let mut failures = AcceptFailures::default();
        let start = Instant::now();
        let tenth = Duration::from_millis(100);
        assert_eq!(failures.count(start), Some(0), "the first one at once");
        for try_count in 1..600 {
            assert_eq!(failures.count(start + tenth * try_count), None, "{try_count}");
        }
        assert_eq!(failures.count(start + SAID_EVERY), Some(599));
        assert_eq!(failures.count(start + SAID_EVERY + tenth), None);
        assert_eq!(failures.count(start + 3 * SAID_EVERY), Some(1));
    }
}
