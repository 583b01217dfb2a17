//! Connections that cannot be accepted, and those that gave way: logged once a minute each, and not every
//! time.
//!
//! Where descriptors are lacking, a listener tries again ten times a second, for as long as that lasts; a
//! flood makes thousands of connections give way in a second.

use std::io;

use crate::server::limits::LOGGED_EVERY;
use sherd_core::sender::SenderNetwork;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Shortage {
    descriptors: RareLine,
    places: RareLine,
}

impl Shortage {
    /// Notes a try to accept that failed, and logs it unless the last minute has a line already.
    pub(super) fn accept_failed(&mut self, listener: &'static str, error: &io::Error) {
        match self.descriptors.count(Instant::now()) {
            Some(0) => tracing::warn!(listener, %error, "accept connection"),
            Some(more) => tracing::warn!(listener, %error, more, "accept connection"),
            None => {}
        }
    }

    /// Notes that a connection of a network, of those with no request under way, gave way to another.
    pub(super) fn gave_way(&mut self, listener: &'static str, from: SenderNetwork) {
        if let Some(more) = self.places.count(Instant::now()) {
            tracing::warn!(listener, %from, more, "places are few: a connection without a request gave way");
        }
    }
}

/// Events of a kind that are logged once a minute.
#[derive(Debug, Default)]
pub(super) struct RareLine {
    logged: Option<Instant>,
    unlogged_count: u64,
}

impl RareLine {
    /// How many events there were since the last one that was logged; `None` where this one is not to be.
    pub(super) fn count(&mut self, now: Instant) -> Option<u64> {
        if self.logged.is_some_and(|logged| now.duration_since(logged) < LOGGED_EVERY) {
            self.unlogged_count += 1;
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged_count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn events_are_logged_once_a_minute_with_how_many_there_were() {
        let mut line = RareLine::default();
        let start = Instant::now();
        let tenth = Duration::from_millis(100);
        assert_eq!(line.count(start), Some(0), "the first one at once");
        for try_count in 1..600 {
            assert_eq!(line.count(start + tenth * try_count), None, "{try_count}");
        }
        assert_eq!(line.count(start + LOGGED_EVERY), Some(599));
        assert_eq!(line.count(start + LOGGED_EVERY + tenth), None);
        assert_eq!(line.count(start + 3 * LOGGED_EVERY), Some(1));
    }
}
