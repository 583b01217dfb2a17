//! Two processes of one name, found by the order in which they call or answer.
//!
//! Each run of a node draws a process id. After a restart the new id follows the old one, and the old one is
//! never seen again. So an id that is seen again after another one shows that both live.

use tokio::time::Instant;

use sherd_core::id::ProcessId;

use crate::cluster::limits::TWIN_SHOWN;

/// The processes that called or answered under one name.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessTrace {
    current: Option<ProcessId>,
    before: Option<ProcessId>,
    /// Two that live, and when that was last seen.
    twins: Option<(ProcessId, ProcessId, Instant)>,
}

impl ProcessTrace {
    pub(super) fn note(&mut self, process: ProcessId, now: Instant) {
        if self.current == Some(process) {
            return;
        }
        let left = self.current.replace(process);
        if self.before == Some(process)
            && let Some(other) = left
        {
            self.twins = Some((process.min(other), process.max(other), now));
        }
        self.before = left;
    }

    /// Two processes that lived both a short time ago.
    pub(super) fn twins(&self, now: Instant) -> Option<(ProcessId, ProcessId)> {
        let (one, other, seen) = self.twins?;
        (now.duration_since(seen) < TWIN_SHOWN).then_some((one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn process(id: u8) -> ProcessId {
        ProcessId([id; 16])
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_is_no_twin_and_two_that_take_turns_are_until_one_is_gone() {
        let mut trace = ProcessTrace::default();
        for id in [1, 1, 2, 2, 3, 3] {
            trace.note(process(id), Instant::now());
        }
        assert_eq!(trace.twins(Instant::now()), None);
        trace.note(process(2), Instant::now());
        assert_eq!(trace.twins(Instant::now()), Some((process(2), process(3))));
        tokio::time::advance(TWIN_SHOWN).await;
        trace.note(process(2), Instant::now());
        assert_eq!(trace.twins(Instant::now()), None);
    }
}
