//! The state that all transfers of a process share: settings, places for requests, and progress.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use super::plan::{PartPlan, check_part_bytes, check_workers};
use super::progress::Progress;
use crate::error::{Error, PlanError};
use crate::limits::{ATTEMPTS, HELD_PARTS_MAX, WORKERS};

/// Settings of transfers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferSettings {
    /// Requests at one time, over all files.
    pub workers: usize,
    /// Bytes of a part; none chooses by the size of the file.
    pub part_bytes: Option<u64>,
    /// Attempts of a request.
    pub attempts: u32,
    /// The folder of journals; none keeps none.
    pub state: Option<PathBuf>,
    /// Whether each file is on stable storage before it has its name; large ones always are.
    pub is_durable: bool,
}

impl Default for TransferSettings {
    fn default() -> Self {
        Self { workers: WORKERS, part_bytes: None, attempts: ATTEMPTS, state: None, is_durable: false }
    }
}

/// The engine. Cheap to clone; clones share the places for requests.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<EngineShared>,
    progress: Progress,
}

#[derive(Debug)]
struct EngineShared {
    settings: TransferSettings,
    places: Semaphore,
    held: Semaphore,
}

impl Engine {
    /// Makes an engine that reports to `progress`.
    ///
    /// # Errors
    /// [`PlanError`]: workers or a part's size that cannot be.
    pub fn new(settings: TransferSettings, progress: Progress) -> Result<Self, PlanError> {
        check_workers(settings.workers)?;
        check_part_bytes(settings.part_bytes)?;
        let places = Semaphore::new(settings.workers);
        let held = Semaphore::new(HELD_PARTS_MAX);
        Ok(Self { shared: Arc::new(EngineShared { settings, places, held }), progress })
    }

    /// The settings.
    pub fn settings(&self) -> &TransferSettings {
        &self.shared.settings
    }

    /// Where transfers report.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The same engine, with the same places for requests, that reports elsewhere.
    #[must_use]
    pub fn reporting_to(&self, progress: Progress) -> Self {
        Self { shared: Arc::clone(&self.shared), progress }
    }

    /// Plans a file or object of `bytes`.
    pub(crate) fn plan(&self, bytes: u64) -> Result<PartPlan, PlanError> {
        PartPlan::new(bytes, self.settings().workers, self.settings().part_bytes)
    }

    /// Waits for a place among the requests at one time.
    pub(crate) async fn place(&self) -> SemaphorePermit<'_> {
        self.shared.places.acquire().await.expect("it is never closed")
    }

    /// Waits for a place among the parts that are held in memory.
    pub(crate) async fn held_place(&self) -> SemaphorePermit<'_> {
        self.shared.held.acquire().await.expect("it is never closed")
    }
}

/// Runs work that blocks on files.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Runs the parts of one file as tasks, `in_flight` at one time. The first failure ends all others.
pub(crate) async fn run_parts<P, T, F>(
    parts: impl Iterator<Item = P>,
    in_flight: usize,
    mut work: impl FnMut(P) -> F,
    mut done: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut parts = parts;
    let mut next = parts.next();
    loop {
        while running.len() < in_flight.max(1)
            && let Some(part) = next.take()
        {
            running.spawn(work(part));
            next = parts.next();
        }
        let ended = match running.join_next().await {
            Some(Ok(part)) => part.and_then(&mut done),
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => return Ok(()),
        };
        if ended.is_err() {
            // Tasks that are only aborted would hold what they share for a while.
            running.shutdown().await;
            return ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn parts_run_side_by_side_and_the_first_failure_ends_them() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = |number: u64| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_millis(number)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                if number == 7 { Err(Error::Cancelled) } else { Ok(number) }
            }
        };
        let mut done = Vec::new();
        let collect = |number| {
            done.push(number);
            Ok(())
        };
        run_parts(1..=6, 3, work, collect).await.expect("all succeed");
        assert_eq!((done.len(), most.load(Ordering::SeqCst)), (6, 3));
        let mut count = 0;
        let count_one = |_| {
            count += 1;
            Ok(())
        };
        let ended = run_parts(1..=100, 3, work, count_one).await;
        assert!(matches!(ended, Err(Error::Cancelled)) && count < 10);
    }
}
