//! How a connection between two nodes is kept: windows, frames, pings and age, the same on both ends.
//!
//! A connection whose other end answers no ping is closed, so a peer that was cut off costs each of its
//! callers 3 s at most. None grows old: the certificates that it began with may have been replaced. The
//! links of `peer::grpc` and the server of `rpc` use these.

pub(crate) mod limits;
pub(crate) mod messages;

use std::time::Duration;

use tokio_util::task::TaskTracker;

use sherd_core::env::Rng;

use crate::tls::Trust;

/// How old connections become, so that one under replaced certificates ends in a bounded time.
///
/// ```text
/// dialled --- a quarter to a half: the next one is dialled, this one takes no further call
///         --- `max`: it could not be renewed, and is cut
/// certificates replaced, at either end --- three quarters: a listener asks for the end
///                                      --- `max`: each end cuts
/// ```
/// The time is drawn for each connection, so that those of a node, and of all nodes, are not renewed in step.
/// A call that began on the old one has half of `max` at least, and no bound but its own while both ends'
/// certificates stay. A listener asks only after every dialler with the same bound has renewed its
/// connections, so the ones that it asks to end are of callers that do not renew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionAge {
    max: Duration,
}

impl ConnectionAge {
    /// Ends connections at the age of `max`.
    pub const fn of_at_most(max: Duration) -> Self {
        Self { max }
    }

    /// The age at which a connection ends that cannot be renewed.
    pub(crate) const fn max(self) -> Duration {
        self.max
    }

    /// Draws the age at which a connection is renewed.
    pub(crate) fn renewal(self, rng: &dyn Rng) -> Duration {
        let quarter_us = u64::try_from(self.max.as_micros() / 4).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(quarter_us + rng.next_u64() % quarter_us)
    }

    /// How long a caller has that was asked to end a connection.
    pub(crate) fn last_quarter(self) -> Duration {
        self.max / 4
    }

    /// Returns when a connection of that generation of certificates must end. Cancel-safe.
    pub(crate) async fn outlived(self, trust: &Trust, generation: u64) {
        trust.replaced(generation).await;
        tokio::time::sleep(self.max).await;
    }

    /// Returns when a caller shall be asked to end a connection of that generation of certificates.
    /// Cancel-safe.
    pub(crate) async fn outliving(self, trust: &Trust, generation: u64) {
        trust.replaced(generation).await;
        tokio::time::sleep(self.max.saturating_sub(self.last_quarter())).await;
    }
}

/// Spawns the tasks of a connection where its owner waits for them.
#[derive(Debug, Clone)]
pub(crate) struct TrackedExecutor(pub(crate) TaskTracker);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for TrackedExecutor {
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use sherd_store::machine::system::SystemRng;

    #[test]
    fn connections_are_renewed_out_of_step_and_before_a_listener_asks_for_it() {
        let age = ConnectionAge::of_at_most(Duration::from_hours(1));
        let drawn: Vec<Duration> = (0..64).map(|_| age.renewal(&SystemRng)).collect();
        let (min, max) = (drawn.iter().min().expect("64"), drawn.iter().max().expect("64"));
        assert!(*min >= Duration::from_mins(15) && *max < Duration::from_mins(30), "{min:?} to {max:?}");
        assert!(*max > *min + Duration::from_mins(5), "spread over a quarter of an hour: {min:?} to {max:?}");
        assert!(*max + age.last_quarter() < age.max());
    }
}
