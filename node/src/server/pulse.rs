//! Whether the process stood still: stopped (SIGSTOP), frozen with its cgroup, or long without a processor.
//!
//! ```text
//! beat . beat . beat ........................ beat . beat
//!                    <- it stands still -> <- doubt ->
//! ```
//! Requests lie in sockets meanwhile. A client may have left long ago, and had its answer from another node:
//! a write of such a client must not take effect behind later ones that were acknowledged. Requests that
//! lay in sockets are read right after the standstill, so for a while the clients of writes are in doubt.

use std::convert::Infallible;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::server::limits::{ABSENCE_MAX, BEAT_EVERY, DOUBT, LONG_DOUBT, STANDSTILL_MIN};

/// The beats of a process, by a clock that goes on while it stands still. The clock of a virtual machine that
/// is suspended with its clock does not.
#[derive(Debug)]
pub(super) struct ProcessPulse(Mutex<Beats>);

#[derive(Debug)]
struct Beats {
    last: Instant,
    /// The end of the last standstill.
    stood_still: Option<Instant>,
    /// The end of the last one that was longer than clients wait.
    was_absent: Option<Instant>,
}

/// The doubt about the client of a write at this moment; the greater one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientDoubt {
    /// Nothing.
    None,
    /// It has gone if it has ended its side.
    WhereEnded,
    /// It has given up, and may have asked another node, even if its connection is open.
    Always,
}

impl ProcessPulse {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Beats::new(Instant::now())))
    }

    /// Beats for as long as it is polled.
    pub(super) async fn go_on(&self) -> Infallible {
        loop {
            tokio::time::sleep(BEAT_EVERY).await;
            self.0.lock().beat(Instant::now());
        }
    }

    /// The doubt about a client whose write was read before this moment.
    pub(super) fn doubt(&self) -> ClientDoubt {
        let (mut beats, now) = (self.0.lock(), Instant::now());
        // The first task that runs after a standstill need not be the one that beats.
        beats.beat(now);
        beats.doubt(now)
    }
}

impl Beats {
    const fn new(now: Instant) -> Self {
        Self { last: now, stood_still: None, was_absent: None }
    }

    fn beat(&mut self, now: Instant) {
        let stood_still = now - self.last;
        self.last = now;
        if stood_still >= STANDSTILL_MIN {
            self.stood_still = Some(now);
        }
        if stood_still >= ABSENCE_MAX {
            self.was_absent = Some(now);
        }
    }

    fn doubt(&self, now: Instant) -> ClientDoubt {
        let within = |end: Option<Instant>, doubt| end.is_some_and(|end| now - end < doubt);
        if within(self.was_absent, DOUBT) {
            ClientDoubt::Always
        } else if within(self.stood_still, LONG_DOUBT) {
            ClientDoubt::WhereEnded
        } else {
            ClientDoubt::None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clients_are_in_doubt_for_a_while_after_a_standstill() {
        let mut now = Instant::now();
        let mut beats = Beats::new(now);
        for _ in 0..10 {
            now += BEAT_EVERY + BEAT_EVERY;
            beats.beat(now);
            assert_eq!(beats.doubt(now), ClientDoubt::None, "a busy machine is late");
        }
        for (stood_still, at_once, then) in [
            (STANDSTILL_MIN, ClientDoubt::WhereEnded, ClientDoubt::WhereEnded),
            (ABSENCE_MAX, ClientDoubt::Always, ClientDoubt::WhereEnded),
        ] {
            now += stood_still;
            beats.beat(now);
            let doubts = [Duration::ZERO, DOUBT, LONG_DOUBT].map(|later| beats.doubt(now + later));
            assert_eq!(doubts, [at_once, then, ClientDoubt::None]);
        }
    }
}
