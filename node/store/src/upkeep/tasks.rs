//! Tasks that outlive their panics: what panicked is counted, logged for a human to look at, and begun
//! again. Without this a task of upkeep ends in silence, and heals, releases or sweeps with it.

use crate::upkeep::limits::{PANIC_PAUSE, PANIC_PAUSE_MAX};

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Panics {
    count: AtomicU64,
}

impl Panics {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Runs a task until it ends, again and again where it panics. The state that it shares stays usable:
    /// locks do not poison, and its work is done in steps that can be done again.
    pub(super) async fn outlive<F: Future<Output = ()>>(&self, name: &'static str, task: impl Fn() -> F) {
        let mut pause = PANIC_PAUSE;
        loop {
            let begun = Instant::now();
            if self.contain(name, task()).await.is_some() {
                return;
            }
            if begun.elapsed() >= PANIC_PAUSE_MAX {
                pause = PANIC_PAUSE;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PANIC_PAUSE_MAX);
        }
    }

    /// Does one piece of work; `None` when it panicked.
    pub(super) async fn contain<R>(&self, name: &'static str, work: impl Future<Output = R>) -> Option<R> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(done) => Some(done),
            Err(panic) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                tracing::error!(task = name, panic = text(panic.as_ref()), "background work panicked");
                None
            }
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&'static str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_begun_again() {
        let (panics, begun) = (Panics::default(), AtomicU64::new(0));
        let task = || async {
            assert!(begun.fetch_add(1, Ordering::Relaxed) >= 3, "it panics three times");
        };
        let start = Instant::now();
        panics.outlive("test", task).await;
        assert_eq!((begun.into_inner(), panics.count()), (4, 3));
        assert_eq!(start.elapsed(), Duration::from_secs(1 + 2 + 4));
    }

    #[test]
    fn what_a_panic_says_is_told() {
        assert_eq!(text(&"literal"), "literal");
        assert_eq!(text(&"formatted".to_owned()), "formatted");
        assert_eq!(text(&7), "no message");
    }
}
