//! When the log thread may compact: in small steps between batches, a limited number of bytes per
//! second, so that a step never costs a waiting batch more than a few milliseconds.

use sherd_volume::write::compact::CompactionStep;

/// Bytes of one step: a few milliseconds of a slow disk.
pub(super) const STEP_BYTES: u64 = 1 << 20;
/// How long nothing is looked for after nothing was found: 10 s.
const IDLE_US: u64 = 10_000_000;
/// How long a failed step is not repeated: a minute.
const FAILED_US: u64 = 60_000_000;

#[derive(Debug)]
pub(super) struct CompactionPace {
    bytes_per_second: u64,
    next_us: u64,
}

impl CompactionPace {
    pub(super) const fn new(bytes_per_second: u64, now_us: u64) -> Self {
        Self { bytes_per_second, next_us: now_us.saturating_add(IDLE_US) }
    }

    pub(super) const fn next_us(&self) -> u64 {
        self.next_us
    }

    pub(super) fn stepped(
        &mut self,
        result: &Result<CompactionStep, sherd_volume::error::Error>,
        now_us: u64,
    ) {
        let pause = match result {
            Ok(CompactionStep::Idle) => IDLE_US,
            Ok(CompactionStep::Progress { walked_bytes, moved_bytes }) => {
                let bytes = walked_bytes.saturating_add(*moved_bytes);
                bytes.saturating_mul(1_000_000) / self.bytes_per_second.max(1)
            }
            Ok(CompactionStep::Reclaimed { .. }) => 0,
            Err(_) => FAILED_US,
        };
        self.next_us = now_us.saturating_add(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_pays_for_its_bytes_with_a_pause() {
        let mut compaction = CompactionPace::new(1 << 20, 0);
        assert_eq!(compaction.next_us(), IDLE_US);
        let progress = Ok(CompactionStep::Progress { walked_bytes: 1 << 20, moved_bytes: 1 << 20 });
        compaction.stepped(&progress, 5);
        assert_eq!(compaction.next_us(), 2_000_005);
        compaction.stepped(&Ok(CompactionStep::Reclaimed { segment: 1 }), 7);
        assert_eq!(compaction.next_us(), 7);
    }

    #[test]
    fn a_failed_step_is_not_repeated_at_once() {
        let mut compaction = CompactionPace::new(1 << 20, 0);
        compaction.stepped(&Err(sherd_volume::error::Error::Full), 10);
        assert_eq!(compaction.next_us(), 10 + FAILED_US);
    }
}
