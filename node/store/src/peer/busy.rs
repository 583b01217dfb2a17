//! Scans of a volume whose line is full: the same volume is asked again, after a short pause.
//!
//! A busy volume is up and holds what it is asked for: another one in its place would be as busy, and "too
//! few volumes" would be wrong. Listings, parts and bucket deletions call this.

use tokio::time::Instant;

use sherd_core::message::{Error, Result};

use super::Pending;
use super::limits::{BUSY_PAUSE_MAX, BUSY_PAUSE_MIN};

/// Asks a volume, and again while it answers that it is busy, until the deadline. Gives its last answer,
/// `Busy` where it was busy to the end. May be dropped at any time.
pub(crate) async fn ask_unless_busy<R: Unpin>(deadline: Instant, ask: impl Fn() -> Pending<R>) -> Result<R> {
    let mut pause = BUSY_PAUSE_MIN;
    loop {
        let answer = ask().await;
        if !matches!(answer, Err(Error::Busy)) || Instant::now() + pause >= deadline {
            return answer;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BUSY_PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_busy_volume_is_asked_again_until_it_answers_or_the_deadline() {
        let asked = Cell::new(0);
        let ask = |answers_at: u32| {
            asked.set(asked.get() + 1);
            Pending::ready(if asked.get() < answers_at { Err(Error::Busy) } else { Ok(asked.get()) })
        };
        let deadline = || Instant::now() + Duration::from_secs(5);
        assert_eq!(ask_unless_busy(deadline(), || ask(4)).await, Ok(4));
        let begun = Instant::now();
        assert_eq!(ask_unless_busy(deadline(), || ask(u32::MAX)).await, Err(Error::Busy));
        assert!(begun.elapsed() < Duration::from_secs(5) && asked.get() > 8);
        let failed = ask_unless_busy(deadline(), || Pending::<()>::ready(Err(Error::NotFound))).await;
        assert_eq!(failed, Err(Error::NotFound), "any other failure is for its caller at once");
    }
}
