//! The calls to one volume that are not answered, and whether it keeps its callers waiting.
//!
//! Each peer makes its answers here, so that one place remembers for all calls of all callers that a volume
//! is late. Callers ask others first while it is, and wait for it only where too few others answer. Lateness
//! is a hint about time and decides nothing else: a late volume is up, its vote counts, and its writes are
//! sent.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use sherd_core::id::VolumeId;
use sherd_core::message::call::CallClass;
use sherd_core::message::{Error, Result};

use super::limits::{LATE_AFTER, LATE_STEP, LATE_TRANSFERS_MAX, RETRY_AFTER};

/// Steps in which a call becomes late.
const STEPS: usize = (LATE_AFTER.as_millis() / LATE_STEP.as_millis()) as usize;

/// How long a call may take on a volume that is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLength {
    /// Calls that requests wait for.
    Short,
    /// A walk, a whole shard, a change of guarantees, and calls that wait behind these on purpose.
    Long,
}

impl CallLength {
    /// Of a call to a volume of this node: it is late only for what requests wait for.
    pub(super) const fn of_own_volume(class: CallClass) -> Self {
        match class {
            CallClass::Short | CallClass::List => Self::Short,
            CallClass::Aside | CallClass::Page | CallClass::Long | CallClass::Verify => Self::Long,
        }
    }
}

/// The watches of a node's volumes, each made when it is first asked. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct CallWatches(Arc<RwLock<HashMap<VolumeId, CallWatch>>>);

impl CallWatches {
    /// The watch of a volume. A node has few volumes, and none is asked that no topology names.
    pub fn of(&self, volume: VolumeId) -> CallWatch {
        if let Some(watch) = self.0.read().get(&volume) {
            return watch.clone();
        }
        self.0.write().entry(volume).or_default().clone()
    }
}

/// Watches the calls to one volume. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallWatch(Arc<Mutex<WatchState>>);

#[derive(Debug)]
struct WatchState {
    origin: Instant,
    /// Whole steps since then, at the last look.
    step: u64,
    /// Unanswered calls by the step in which each began, one place for each of the last [`STEPS`].
    young: [u32; STEPS],
    /// Unanswered calls that began before.
    overdue: u32,
    /// Until when the volume is avoided since an overdue call to it was given up; an answer ends that. The
    /// first call that begins later is the try, and avoids it for the others.
    avoided_until: Option<Instant>,
    /// Transfers of bytes that hold these, waited for or not.
    transfers: usize,
}

/// A transfer of bytes, held by what does it: its caller may have given it up long before.
#[derive(Debug)]
pub struct TransferPlace(CallWatch);

impl Drop for TransferPlace {
    fn drop(&mut self) {
        self.0.0.lock().transfers -= 1;
    }
}

/// A call that is under way. It ends with its answer, or is given up when dropped.
#[derive(Debug)]
pub(super) struct WatchedCall {
    watch: CallWatch,
    begun: u64,
    is_try: bool,
    is_answered: bool,
}

impl Default for CallWatch {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(WatchState {
            origin: Instant::now(),
            step: 0,
            young: [0; STEPS],
            overdue: 0,
            avoided_until: None,
            transfers: 0,
        })))
    }
}

impl CallWatch {
    /// Begins to watch a short call. Where a try of the volume is due, this call is it.
    pub(super) fn begin(&self) -> WatchedCall {
        let mut state = self.0.lock();
        state.advance();
        let begun = state.step;
        state.young[place(begun)] += 1;
        let is_try = state.avoided_until.is_some_and(|until| until <= Instant::now());
        if is_try {
            state.avoid();
        }
        drop(state);
        WatchedCall { watch: self.clone(), begun, is_try, is_answered: false }
    }

    /// A place for bytes on their way to the volume, until they are there or lost.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where a call to the volume is overdue and as many bytes wait for it as may
    /// then: it said nothing, and may be down.
    pub fn transfer(&self) -> Result<TransferPlace> {
        let mut state = self.0.lock();
        state.advance();
        if state.overdue > 0 && state.transfers >= LATE_TRANSFERS_MAX {
            let reason = "the volume is late, and enough bytes wait for it".to_owned();
            return Err(Error::Unreachable { reason });
        }
        state.transfers += 1;
        Ok(TransferPlace(self.clone()))
    }

    /// Whether the volume keeps callers waiting: a call to it is unanswered for `LATE_AFTER`, or was until it
    /// was given up and nothing was answered since. `RETRY_AFTER` later it is late no more until a call
    /// begins, whose answer shows whether that is so: one caller tries it. To look takes no try from a caller
    /// that asks.
    pub fn is_late(&self) -> bool {
        let mut state = self.0.lock();
        state.advance();
        state.overdue > 0 || state.avoided_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether a call is unanswered for `LATE_AFTER` at this moment: other causes of lateness are not a
    /// reason to give up a call that was started.
    pub fn has_overdue(&self) -> bool {
        let mut state = self.0.lock();
        state.advance();
        state.overdue > 0
    }
}

impl WatchState {
    fn avoid(&mut self) {
        self.avoided_until = Some(Instant::now() + RETRY_AFTER);
    }

    /// Counts as overdue what began [`STEPS`] steps ago or before.
    fn advance(&mut self) {
        let since = self.origin.elapsed().as_millis() / LATE_STEP.as_millis();
        let step = u64::try_from(since).unwrap_or(u64::MAX).max(self.step);
        for passed in (self.step + 1..=step).take(STEPS) {
            // The place of a step is the one of the step that is overdue from then on.
            self.overdue += std::mem::take(&mut self.young[place(passed)]);
        }
        self.step = step;
    }
}

/// Where calls are counted that begin in a step.
fn place(step: u64) -> usize {
    usize::try_from(step % STEPS as u64).expect("below a usize")
}

impl WatchedCall {
    /// Ends with an answer of the volume.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        let mut state = self.watch.0.lock();
        state.advance();
        let is_overdue = self.begun + STEPS as u64 <= state.step;
        if is_overdue {
            state.overdue -= 1;
        } else {
            state.young[place(self.begun)] -= 1;
        }
        if self.is_answered {
            state.avoided_until = None;
        } else if is_overdue {
            state.avoid();
        } else if self.is_try && state.avoided_until.is_some() {
            // The try was given up too soon to show anything: the next call is the try.
            state.avoided_until = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use sherd_core::message::Error;

    use super::super::{AnswerSender, Pending};

    fn call(watch: &CallWatch) -> (AnswerSender<()>, Pending<()>) {
        Pending::watched(watch.begin())
    }

    fn unreachable() -> Error {
        Error::Unreachable { reason: "gone".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_volume_is_late_while_a_call_waits_for_longer_than_others_may() {
        let watch = CallWatch::default();
        let (first, _pending) = call(&watch);
        tokio::time::advance(LATE_AFTER.saturating_sub(LATE_STEP * 2)).await;
        assert!(!watch.is_late());
        let (second, _pending) = call(&watch);
        tokio::time::advance(LATE_STEP * 2).await;
        assert!(watch.is_late());
        // Another call's answer does not make this one's.
        second.answer(Ok(()));
        assert!(watch.is_late());
        first.answer(Err(Error::NotFound));
        assert!(!watch.is_late(), "any answer, however late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_is_remembered_until_an_answer_comes_or_one_caller_tries() {
        let watch = CallWatch::default();
        let (given_up, _pending) = call(&watch);
        tokio::time::advance(LATE_AFTER * 3).await;
        given_up.answer(Err(unreachable()));
        assert!(watch.is_late() && !watch.has_overdue());
        tokio::time::advance(RETRY_AFTER).await;
        assert!(!watch.is_late() && !watch.is_late(), "a look does not take the try");
        let (tries, _pending) = call(&watch);
        assert!(watch.is_late() && !watch.has_overdue(), "the others do not try, and this one waits");
        tries.answer(Ok(()));
        assert!(!watch.is_late());
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_without_an_answer_is_for_the_next_call_or_for_later() {
        let watch = CallWatch::default();
        let (given_up, _pending) = call(&watch);
        tokio::time::advance(LATE_AFTER).await;
        drop(given_up);
        tokio::time::advance(RETRY_AFTER).await;
        for _ in 0..3 {
            let (left, _pending) = call(&watch);
            let (beside, _pending) = call(&watch);
            assert!(watch.is_late());
            drop(beside);
            assert!(watch.is_late(), "that one did not try");
            drop(left);
            assert!(!watch.is_late(), "it left before its answer");
        }
        let (silent, _pending) = call(&watch);
        tokio::time::advance(LATE_AFTER).await;
        drop(silent);
        tokio::time::advance(RETRY_AFTER.saturating_sub(LATE_STEP)).await;
        assert!(watch.is_late());
        tokio::time::advance(LATE_STEP).await;
        assert!(!watch.is_late());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_fails_soon_says_nothing_about_lateness() {
        let watch = CallWatch::default();
        for _ in 0..3 {
            let (failing, _pending) = call(&watch);
            failing.answer(Err(unreachable()));
            let (dropped, _pending) = call(&watch);
            drop(dropped);
            assert!(!watch.is_late());
            tokio::time::advance(Duration::from_hours(1)).await;
        }
        // The caller that gives up waits no longer, but the volume still owes the answer.
        let (_owed, pending) = call(&watch);
        drop(pending);
        tokio::time::advance(LATE_AFTER).await;
        assert!(watch.is_late());
    }

    #[tokio::test(start_paused = true)]
    async fn every_call_is_counted_off_in_every_step_it_may_end_in() {
        let watch = CallWatch::default();
        let mut under_way = std::collections::VecDeque::new();
        for turn in 0..400_u64 {
            under_way.push_back(call(&watch));
            tokio::time::advance(Duration::from_millis(turn % 37 * 3)).await;
            if turn % 3 != 0
                && let Some((answering, _pending)) = under_way.pop_front()
            {
                answering.answer(Ok(()));
            }
        }
        for (answering, _pending) in under_way {
            answering.answer(Ok(()));
        }
        assert!(!watch.is_late());
        assert_eq!(watch.0.lock().young, [0; STEPS]);
    }
}
