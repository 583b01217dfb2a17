//! The pauses between walks over a recovered volume some of whose shards could not be rebuilt.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::SHARD_RETRY_MAX;

/// When the shards of a volume are looked for again: each pause is twice the one before, and at least as long
/// as the walk that it follows.
#[derive(Debug)]
pub(super) struct ShardRetry {
    last: Instant,
    pause: Duration,
    wait: Duration,
}

impl ShardRetry {
    /// After a walk that ended now.
    pub(super) fn new(pause: Duration) -> Self {
        Self { last: Instant::now(), pause, wait: pause }
    }

    pub(super) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.wait
    }

    /// Another walk, which ended now and took this long, did not find all shards either.
    pub(super) fn failed(&mut self, took: Duration) {
        self.pause = (self.pause * 2).min(SHARD_RETRY_MAX);
        self.wait = self.pause.max(took);
        self.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn walks_that_find_shards_missing_come_less_and_less_often() {
        let second = Duration::from_secs(1);
        let mut retry = ShardRetry::new(second);
        for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            tokio::time::advance(Duration::from_millis(1_000 * wait - 1)).await;
            assert!(!retry.is_due(), "{wait}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(retry.is_due(), "{wait}");
            retry.failed(second);
        }
        retry.failed(second * 3_600);
        tokio::time::advance(second * 3_599).await;
        assert!(!retry.is_due(), "at most half of the time goes into walks");
    }
}
