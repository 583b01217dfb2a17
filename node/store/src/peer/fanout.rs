//! Asks many volumes, and yields their answers in the order in which they come.
//!
//! A [`Gather`] owns the answers under way of one round. The caller takes them one by one until it has
//! enough; the rest can be dropped, or waited for by another task.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::message::Result;

use super::Pending;

/// The answers under way of one round, each under its place in the set.
#[derive(Debug)]
pub struct Gather<R> {
    waiting: Vec<(usize, Pending<R>)>,
    /// The answer taken that took longest.
    slowest: Option<(usize, Duration)>,
}

impl<R: Unpin> Gather<R> {
    /// Gathers answers that are under way.
    pub fn new(waiting: impl IntoIterator<Item = (usize, Pending<R>)>) -> Self {
        Self { waiting: waiting.into_iter().collect(), slowest: None }
    }

    /// Adds one.
    pub fn push(&mut self, place: usize, pending: Pending<R>) {
        self.waiting.push((place, pending));
    }

    /// The place whose answer took longest of those that were taken, and how long.
    pub const fn slowest(&self) -> Option<(usize, Duration)> {
        self.slowest
    }

    /// A place that has not answered, the one that was asked first, and how long ago.
    pub fn waits_for(&self) -> Option<(usize, Duration)> {
        let waiting = self.waiting.iter().map(|(place, pending)| (*place, pending.took()));
        waiting.max_by_key(|(_, took)| *took)
    }

    /// How many have not answered.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether all have answered.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The places that have not answered.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().map(|(place, _)| *place)
    }

    /// Whether a place's answer is known to be there, without a look.
    pub(crate) fn is_there(&self, place: usize) -> bool {
        self.waiting.iter().any(|(waiting, pending)| *waiting == place && pending.is_ready())
    }

    /// Waits until `enough` of the answers are there to be taken: all, where fewer are under way.
    /// Cancel-safe.
    pub async fn gathered(&mut self, enough: usize) {
        let enough = enough.min(self.waiting.len());
        if self.waiting.iter().filter(|(_, pending)| pending.is_ready()).count() >= enough {
            return;
        }
        let mut counting: Option<(Arc<EnoughWaker>, Waker)> = None;
        poll_fn(|context| {
            let (count, waker) = counting.get_or_insert_with(|| {
                let count = Arc::new(EnoughWaker {
                    task: Mutex::new(context.waker().clone()),
                    came: AtomicUsize::new(0),
                    wanted: AtomicUsize::new(usize::MAX),
                });
                (Arc::clone(&count), count.into())
            });
            count.task.lock().clone_from(context.waker());
            let mut counted = Context::from_waker(waker);
            let mut there = || -> usize {
                self.waiting.iter_mut().map(|(_, pending)| usize::from(pending.is_there(&mut counted))).sum()
            };
            let found = there();
            if found >= enough {
                return Poll::Ready(());
            }
            // A call that was found before the counting began will not be counted.
            let first_look = count.wanted.load(Ordering::SeqCst) == usize::MAX;
            if first_look {
                count.wanted.store(enough - found, Ordering::SeqCst);
            }
            if first_look && count.is_reached() && there() >= enough {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits for the next answer; `None` when all have answered. Cancel-safe: an answer is taken
    /// only when it is returned.
    pub async fn next(&mut self) -> Option<(usize, Result<R>)> {
        if self.waiting.is_empty() {
            return None;
        }
        poll_fn(|context| self.take(context).map_or(Poll::Pending, |taken| Poll::Ready(Some(taken)))).await
    }

    /// Takes an answer that is there, without waiting.
    pub fn take_now(&mut self) -> Option<(usize, Result<R>)> {
        self.take(&mut Context::from_waker(Waker::noop()))
    }

    fn take(&mut self, context: &mut Context<'_>) -> Option<(usize, Result<R>)> {
        for index in 0..self.waiting.len() {
            let (place, pending) = &mut self.waiting[index];
            let place = *place;
            if let Poll::Ready(result) = Pin::new(&mut *pending).poll(context) {
                let took = pending.took();
                if self.slowest.is_none_or(|(_, slowest)| slowest < took) {
                    self.slowest = Some((place, took));
                }
                self.waiting.swap_remove(index);
                return Some((place, result));
            }
        }
        None
    }
}

/// Asks few of many at first, and others as these fail or let wait.
#[derive(Debug)]
pub struct HedgedGather<R> {
    /// Places to ask next, in order.
    unasked: VecDeque<usize>,
    gather: Gather<R>,
    /// How long an answer is waited for, before one more is asked.
    hedge: Duration,
    deadline: Instant,
}

impl<R: Unpin> HedgedGather<R> {
    /// Asks in this order; until `deadline`, and one more whenever nothing came for `hedge`.
    pub fn new(order: impl IntoIterator<Item = usize>, hedge: Duration, deadline: Instant) -> Self {
        Self { unasked: order.into_iter().collect(), gather: Gather::new([]), hedge, deadline }
    }

    /// Asks a place again, after all others.
    pub fn ask_again(&mut self, place: usize) {
        self.unasked.push_back(place);
    }

    /// The places that have not answered, asked or not.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.unasked.iter().copied().chain(self.gather.places())
    }

    /// As [`Gather::slowest`].
    pub const fn slowest(&self) -> Option<(usize, Duration)> {
        self.gather.slowest()
    }

    /// As [`Gather::waits_for`].
    pub fn waits_for(&self) -> Option<(usize, Duration)> {
        self.gather.waits_for()
    }

    /// Waits for the next answer, where `wanted` more are needed: at least that number is under way, as far
    /// as there are any to ask. `None` when all that were asked have answered, or nothing came in time.
    /// Cancel-safe: an answer is taken only when it is returned.
    pub async fn next(
        &mut self,
        wanted: usize,
        ask: impl Fn(usize) -> Pending<R>,
    ) -> Option<(usize, Result<R>)> {
        while self.gather.len() < wanted && self.ask_one(&ask) {}
        loop {
            let hedge = if self.unasked.is_empty() { self.deadline } else { Instant::now() + self.hedge };
            match tokio::time::timeout_at(hedge.min(self.deadline), self.gather.next()).await {
                Ok(answer) => return answer,
                Err(_elapsed) if Instant::now() >= self.deadline => return None,
                Err(_elapsed) => {
                    self.ask_one(&ask);
                }
            }
        }
    }

    fn ask_one(&mut self, ask: impl Fn(usize) -> Pending<R>) -> bool {
        let Some(place) = self.unasked.pop_front() else { return false };
        self.gather.push(place, ask(place));
        true
    }
}

/// Wakes a task once enough of what it waits for has come: it could do nothing with the first.
#[derive(Debug)]
struct EnoughWaker {
    task: Mutex<Waker>,
    came: AtomicUsize,
    wanted: AtomicUsize,
}

impl EnoughWaker {
    fn is_reached(&self) -> bool {
        self.came.load(Ordering::SeqCst) >= self.wanted.load(Ordering::SeqCst)
    }
}

impl Wake for EnoughWaker {
    fn wake(self: Arc<Self>) {
        self.came.fetch_add(1, Ordering::SeqCst);
        if self.is_reached() {
            self.task.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn enough_answers_wake_once_and_can_all_be_taken() {
        let (mut answering, waiting): (Vec<_>, Vec<_>) = (0..4).map(|_| Pending::waiting()).unzip();
        let mut gather = Gather::new(waiting.into_iter().enumerate());
        gather.push(4, Pending::ready(Ok(4)));
        let counted = Arc::new(Wakes::default());
        let waker = Arc::clone(&counted).into();
        let mut context = Context::from_waker(&waker);
        let mut gathered = Box::pin(gather.gathered(3));
        assert!(gathered.as_mut().poll(&mut context).is_pending());
        answering.remove(2).answer(Ok(2));
        assert_eq!(counted.0.load(Ordering::SeqCst), 0);
        drop(answering.remove(0));
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        assert!(gathered.as_mut().poll(&mut context).is_ready());
        drop(gathered);
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(gather.next().await.expect("gathered").0);
        }
        taken.sort_unstable();
        assert_eq!(taken, [0, 2, 4]);
        assert_eq!(gather.len(), 2);
    }

    #[tokio::test]
    async fn a_task_that_has_run_for_long_is_woken_all_the_same() {
        let (answering, waiting): (Vec<_>, Vec<_>) = (0..4).map(|_| Pending::waiting()).unzip();
        let mut gather = Gather::new(waiting.into_iter().enumerate());
        let counted = Arc::new(Wakes::default());
        let waker = Arc::clone(&counted).into();
        let mut context = Context::from_waker(&waker);
        // The runtime makes such a task yield: everything that it polls then appears as not ready.
        while tokio::task::coop::has_budget_remaining() {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            sender.send(()).expect("it is waited for");
            receiver.await.expect("it was sent");
        }
        let mut gathered = Box::pin(gather.gathered(3));
        assert!(gathered.as_mut().poll(&mut context).is_pending());
        let before = counted.0.load(Ordering::SeqCst);
        for answering in answering {
            answering.answer(Ok(()));
        }
        assert!(counted.0.load(Ordering::SeqCst) > before);
        assert!(gathered.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn answers_given_while_they_are_counted_are_not_missed() {
        for _ in 0..2_000 {
            let (answering, waiting): (Vec<_>, Vec<_>) = (0..4).map(|_| Pending::waiting()).unzip();
            let mut gather = Gather::new(waiting.into_iter().enumerate());
            let thread = tokio::task::spawn_blocking(|| {
                for (place, answering) in answering.into_iter().enumerate() {
                    answering.answer(Ok(place));
                }
            });
            gather.gathered(3).await;
            for _ in 0..3 {
                assert!(gather.next().await.is_some());
            }
            thread.await.expect("no panic");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_more_is_asked_when_one_is_slow_and_all_answers_count() {
        let hedge = Duration::from_millis(100);
        let begun = Instant::now();
        let mut asked = HedgedGather::new([3, 1, 2, 0], hedge, begun + Duration::from_secs(5));
        let (silent, silence) = Pending::waiting();
        let pendings = Mutex::new(HashMap::from([
            (3, silence),
            (1, Pending::ready(Err(sherd_core::message::Error::NotFound))),
            (2, Pending::ready(Ok(2))),
        ]));
        let ask = |place| pendings.lock().remove(&place).unwrap_or_else(|| Pending::waiting().1);
        assert_eq!(asked.next(1, ask).await, Some((1, Err(sherd_core::message::Error::NotFound))));
        assert_eq!(asked.next(1, ask).await, Some((2, Ok(2))));
        assert_eq!(begun.elapsed(), hedge * 2);
        silent.answer(Ok(3));
        assert_eq!(asked.next(1, ask).await, Some((3, Ok(3))), "a slow answer counts");
        let (kept, waiting) = Pending::waiting();
        pendings.lock().insert(0, waiting);
        assert_eq!(asked.next(1, ask).await, None, "until the deadline");
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        drop(kept);
    }

    #[tokio::test]
    async fn answers_come_in_the_order_in_which_they_are_given() {
        let (first, waiting_first) = Pending::waiting();
        let (second, waiting_second) = Pending::waiting();
        let mut gather = Gather::new([(0, waiting_first), (1, waiting_second), (2, Pending::ready(Ok(30)))]);
        assert_eq!(gather.next().await, Some((2, Ok(30))));
        second.answer(Ok(20));
        assert_eq!(gather.next().await, Some((1, Ok(20))));
        drop(first);
        assert!(matches!(
            gather.next().await,
            Some((0, Err(sherd_core::message::Error::Unreachable { .. })))
        ));
        assert_eq!(gather.next().await, None);
    }
}
