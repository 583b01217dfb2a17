//! Two processes of one name, found by the order in which they are met.
//!
//! Each run of a node draws a process id. After a restart the new id follows the old one, and the old one is never
//! met again. So an id that is met again after another one shows that both live.

use bytes::Bytes;
use tokio::time::Instant;

use crate::cluster::limits::TWIN_SHOWN;

/// The processes that were met under one name.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessTrace {
    current: Option<Bytes>,
    before: Option<Bytes>,
    /// Two that live, and when that was last seen.
    twins: Option<(Bytes, Bytes, Instant)>,
}

impl ProcessTrace {
    /// Notes a sign of a process.
    pub(super) fn note(&mut self, process: &Bytes, now: Instant) {
        if self.current.as_ref() == Some(process) {
            return;
        }
        let left = self.current.replace(process.clone());
        if self.before.as_ref() == Some(process)
            && let Some(other) = &left
        {
            self.twins = Some((process.clone().min(other.clone()), process.clone().max(other.clone()), now));
        }
        self.before = left;
    }

    /// Two processes that lived both a short time ago.
    pub(super) fn twins(&self, now: Instant) -> Option<(&Bytes, &Bytes)> {
        let (one, other, seen) = self.twins.as_ref()?;
        (now.duration_since(*seen) < TWIN_SHOWN).then_some((one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u8) -> Bytes {
        vec![id; 16].into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_is_no_twin_and_two_that_take_turns_are_until_one_is_gone() {
        let mut trace = ProcessTrace::default();
        for id in [1, 1, 2, 2, 3, 3] {
            trace.note(&process(id), Instant::now());
        }
        assert_eq!(trace.twins(Instant::now()), None);
        trace.note(&process(2), Instant::now());
        assert_eq!(trace.twins(Instant::now()), Some((&process(2), &process(3))));
        tokio::time::advance(TWIN_SHOWN).await;
        trace.note(&process(2), Instant::now());
        assert_eq!(trace.twins(Instant::now()), None);
    }
}
