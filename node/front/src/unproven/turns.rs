//! Turns of work that is short and takes nothing more from its sender: look-ups of keys and buckets.

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::{UnprovenCrowd, UnprovenWork};
use crate::limits::UNPROVEN_PATIENCE;

/// The turns of one kind of unproven work.
#[derive(Debug)]
pub struct UnprovenTurns(Semaphore);

impl UnprovenTurns {
    /// All turns of a kind of work.
    pub const fn new(work: UnprovenWork) -> Self {
        Self(Semaphore::const_new(work.max()))
    }

    /// Waits for a turn, which ends when it is dropped. Cancel-safe.
    ///
    /// # Errors
    /// [`UnprovenCrowd`] after 5 s.
    pub async fn enter(&self) -> Result<SemaphorePermit<'_>, UnprovenCrowd> {
        let turn = timeout(UNPROVEN_PATIENCE, self.0.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or(UnprovenCrowd)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sender_waits_for_a_turn_and_is_refused_then() {
        let work = UnprovenWork::S3Buckets;
        let turns = UnprovenTurns::new(work);
        let mut taken = Vec::new();
        for _ in 0..work.max() {
            taken.push(turns.enter().await.expect("a turn"));
        }
        let begun = Instant::now();
        assert_eq!(turns.enter().await.map(drop), Err(UnprovenCrowd));
        assert_eq!(begun.elapsed(), UNPROVEN_PATIENCE);
        let mut next = Box::pin(turns.enter());
        assert!(futures::poll!(next.as_mut()).is_pending());
        taken.pop();
        assert!(next.await.is_ok());
    }
}
