//! Whether the process stood still: stopped (SIGSTOP), frozen with its cgroup, or long without a processor.
//!
//! ```text
//! beat . beat . beat ........................ beat . beat
//!                    <- it stands still -> <- doubt ->
//! ```
//! Requests lie in sockets meanwhile. A client may have left long ago, and had its answer from another node:
//! a write of such a client must not take effect behind later ones that were acknowledged. Requests that
//! lay in sockets are read right after the standstill, so for a while the clients of writes are in doubt.
//! A write that was read before it, and that no volume was asked to accept, is not proposed after a long one.

use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::limits::{ABSENCE_MAX, BEAT_EVERY, DOUBT, STANDSTILL_MIN};

pub use super::limits::LONG_DOUBT;

/// The beats of a process, by a clock that goes on while it stands still. The clock of a virtual machine that
/// is suspended with its clock does not.
#[derive(Debug)]
pub struct ProcessPulse(Mutex<Beats>);

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
pub enum ClientDoubt {
    /// Nothing.
    None,
    /// A client that ended its side has gone.
    WhereEnded,
    /// The client has given up, and may have asked another node, even if its connection is open.
    Always,
}

impl ProcessPulse {
    /// The first beat.
    #[expect(clippy::new_without_default, reason = "it is a moment")]
    pub fn new() -> Self {
        Self(Mutex::new(Beats::new(Instant::now())))
    }

    /// Beats for as long as it is polled.
    pub async fn go_on(&self) -> Infallible {
        loop {
            tokio::time::sleep(BEAT_EVERY).await;
            self.0.lock().beat(Instant::now());
        }
    }

    /// The doubt about a client whose write was read before this moment.
    pub fn doubt(&self) -> ClientDoubt {
        let (mut beats, now) = (self.0.lock(), Instant::now());
        // The first task that runs after a standstill need not be the one that beats.
        beats.beat(now);
        beats.doubt(now)
    }

    /// The process stood still until this moment, for longer than clients wait.
    #[cfg(test)]
    pub(crate) fn stood_still(&self) {
        self.0.lock().last -= ABSENCE_MAX;
    }

    /// Whether a standstill that is longer than clients wait has ended since `moment`.
    fn was_absent_since(&self, moment: Instant) -> bool {
        let (mut beats, now) = (self.0.lock(), Instant::now());
        beats.beat(now);
        beats.was_absent.is_some_and(|end| end > moment)
    }
}

/// A request that changes something, from the moment on in which all of it was read.
#[derive(Debug)]
pub struct WholeWrite {
    pulse: Arc<ProcessPulse>,
    whole_at: Instant,
}

impl WholeWrite {
    /// A write whose last byte is read at this moment.
    pub fn new(pulse: Arc<ProcessPulse>) -> Self {
        Self { pulse, whole_at: Instant::now() }
    }

    /// Whether its client has given up, and may have asked another node: the process stood still for longer
    /// than clients wait since the last byte was read.
    pub fn is_given_up(&self) -> bool {
        self.pulse.was_absent_since(self.whole_at)
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

    #[tokio::test(start_paused = true)]
    async fn a_write_is_given_up_by_a_long_standstill_behind_its_last_byte_alone() {
        let pulse = Arc::new(ProcessPulse::new());
        let before = WholeWrite::new(Arc::clone(&pulse));
        tokio::time::advance(ABSENCE_MAX.saturating_sub(Duration::from_millis(1))).await;
        assert!(!before.is_given_up());
        tokio::time::advance(ABSENCE_MAX).await;
        assert!(before.is_given_up(), "the one that looks is the first that runs");
        let after = WholeWrite::new(pulse);
        tokio::time::advance(STANDSTILL_MIN).await;
        assert!(before.is_given_up() && !after.is_given_up());
    }

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
