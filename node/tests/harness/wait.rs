//! Waiting for conditions, each with a deadline that a busy machine still keeps.
//!
//! A deadline is there against hanging. Promised times of the product are judged where the machine does
//! nothing else, and only there: `.ci/long` declares it by `SHERD_TEST_QUIET=1`.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// For what a healthy node does at once.
pub(crate) const SOON: Duration = Duration::from_mins(1);
/// For what background work does.
pub(crate) const LATER: Duration = Duration::from_mins(4);
/// Between two looks.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// Returns a promised time where the machine is quiet, and a time that only what hangs takes where it is not.
pub(crate) fn promised(time: Duration) -> Duration {
    if is_quiet() { time } else { LATER }
}

/// Whether this run has the machine for itself, so that times and what depends on them may be judged.
pub(crate) fn is_quiet() -> bool {
    std::env::var_os("SHERD_TEST_QUIET").is_some_and(|value| value == "1")
}

/// Looks until it sees what it waits for, and returns it; the probe says why not yet.
pub(crate) async fn eventually<T>(
    what: &str,
    patience: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + patience;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match probe().await {
            Ok(seen) => return seen,
            Err(why) if Instant::now() >= deadline => panic!("{what}: not within {patience:?}: {why}"),
            Err(_) => {}
        }
    }
}

/// Awaits what must end; panics where it hangs.
pub(crate) fn bounded<T>(
    what: &str,
    patience: Duration,
    work: impl Future<Output = T>,
) -> impl Future<Output = T> {
    // The SDK's futures are tens of kilobytes: on the heap they do not add up.
    let work = Box::pin(work);
    async move {
        let ended = timeout(patience, work).await;
        ended.unwrap_or_else(|_| panic!("{what} does not end within {patience:?}"))
    }
}
