//! Bounded queues to threads of their own: an idle thread sleeps, and is woken once for new work.
//!
//! Channels made for throughput look again a few times, and yield, before they sleep. Here four log
//! threads wait behind every small write, beside the threads that have work to do: what they look in
//! vain is taken from the others. These sleep at once, and take all that waits under one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::machine::host::Inbox;

pub(crate) fn bounded<T>(max: usize) -> (Sender<T>, Receiver<T>) {
    let state = QueueContents {
        waiting: VecDeque::new(),
        sleeps_for: None,
        tasks: Vec::new(),
        senders: 1,
        receivers: 1,
    };
    let shared = Arc::new(QueueState { max, state: Mutex::new(state), came: Condvar::new() });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

/// A value was not taken; it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRefusal<T> {
    Full(T),
    /// The receivers are gone.
    Closed(T),
}

/// Where values come from. Clones are the same.
pub(crate) struct Sender<T> {
    shared: Arc<QueueState<T>>,
}

/// Where values go; of several receivers each value reaches one. When the last goes, so does what
/// waits.
pub(crate) struct Receiver<T> {
    shared: Arc<QueueState<T>>,
}

/// No value came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueEmpty {
    /// Yet.
    Nothing,
    /// And none will: all senders are gone.
    Closed,
}

struct QueueState<T> {
    max: usize,
    state: Mutex<QueueContents<T>>,
    came: Condvar,
}

struct QueueContents<T> {
    waiting: VecDeque<T>,
    /// How long the receiver that sleeps does so at most.
    sleeps_for: Option<Duration>,
    /// Receivers that wait as tasks.
    tasks: Vec<Waker>,
    senders: usize,
    receivers: usize,
}

impl<T> Sender<T> {
    pub(crate) fn try_send(&self, value: T) -> Result<(), QueueRefusal<T>> {
        self.send(value, self.shared.max, None)
    }

    /// As [`Self::try_send`], for a value that may wait for `timeout`: a receiver that wakes by itself within
    /// it is not woken for this.
    pub(crate) fn try_send_idly(&self, value: T, timeout: Duration) -> Result<(), QueueRefusal<T>> {
        self.send(value, self.shared.max, Some(timeout))
    }

    /// Adds a value however many wait: for the last word to a thread.
    pub(crate) fn send_over(&self, value: T) -> Result<(), QueueRefusal<T>> {
        self.send(value, usize::MAX, None)
    }

    fn send(&self, value: T, max: usize, timeout: Option<Duration>) -> Result<(), QueueRefusal<T>> {
        let mut state = self.shared.state.lock();
        if state.receivers == 0 {
            return Err(QueueRefusal::Closed(value));
        }
        if state.waiting.len() >= max {
            return Err(QueueRefusal::Full(value));
        }
        state.waiting.push_back(value);
        // Of several receivers another one may be woken for another value, and take this one instead.
        let sleeps_for = state.sleeps_for.filter(|_| state.receivers == 1);
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        tasks.into_iter().for_each(Waker::wake);
        let in_time = |timeout| sleeps_for.is_some_and(|most| most <= timeout);
        if !timeout.is_some_and(in_time) {
            self.shared.came.notify_one();
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }
}

impl<T> Receiver<T> {
    /// Moves up to `max` of what waits behind `taken`, without waiting. Whether more can come.
    pub(crate) fn take(&self, max: usize, taken: &mut VecDeque<T>) -> Result<(), QueueEmpty> {
        let mut state = self.shared.state.lock();
        if state.waiting.is_empty() && state.senders == 0 {
            return Err(QueueEmpty::Closed);
        }
        let count = state.waiting.len().min(max);
        taken.extend(state.waiting.drain(..count));
        Ok(())
    }

    pub(crate) fn try_next(&self) -> Result<T, QueueEmpty> {
        let mut state = self.shared.state.lock();
        let none = if state.senders == 0 { QueueEmpty::Closed } else { QueueEmpty::Nothing };
        state.waiting.pop_front().ok_or(none)
    }
}

impl<T> QueueContents<T> {
    /// Whether a receiver that looks finds an entry or the end.
    fn is_ready(&self) -> bool {
        !self.waiting.is_empty() || self.senders == 0
    }
}

impl<T> Inbox for Receiver<T> {
    fn wait(&self, timeout: Option<Duration>) {
        let mut state = self.shared.state.lock();
        if state.is_ready() {
            return;
        }
        let Some(timeout) = timeout else { return self.shared.came.wait(&mut state) };
        state.sleeps_for = Some(timeout);
        self.shared.came.wait_for(&mut state, timeout);
        state.sleeps_for = None;
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.lock();
        if state.is_ready() {
            return Poll::Ready(());
        }
        if state.tasks.iter().all(|task| !task.will_wake(context.waker())) {
            state.tasks.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().receivers += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        let tasks = if last { std::mem::take(&mut state.tasks) } else { Vec::new() };
        drop(state);
        if last {
            self.shared.came.notify_all();
            tasks.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.receivers -= 1;
        let left = if state.receivers == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        // Not under the lock: a dropped entry may answer its caller.
        drop(left);
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T> Receiver<T> {
        /// Waits for the next value as a thread does, once `timeout`.
        fn next(&self, timeout: Option<Duration>) -> Result<T, QueueEmpty> {
            loop {
                let next = self.try_next();
                if !matches!(next, Err(QueueEmpty::Nothing)) {
                    return next;
                }
                self.wait(timeout);
                if timeout.is_some() {
                    return self.try_next();
                }
            }
        }
    }

    #[test]
    fn values_come_in_their_order_and_no_more_than_fit() {
        let (sender, receiver) = bounded(2);
        assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
        assert_eq!(sender.try_send(3), Err(QueueRefusal::Full(3)));
        assert_eq!(sender.send_over(4), Ok(()));
        assert_eq!(sender.len(), 3);
        assert_eq!(receiver.next(None), Ok(1));
        let mut taken = VecDeque::new();
        assert_eq!(receiver.take(1, &mut taken), Ok(()));
        assert_eq!(receiver.take(9, &mut taken), Ok(()));
        assert_eq!(taken, [2, 4]);
        assert_eq!(receiver.next(Some(Duration::ZERO)), Err(QueueEmpty::Nothing));
    }

    #[test]
    fn waiting_entries_outlive_the_senders() {
        let (sender, receiver) = bounded(2);
        drop(sender.clone());
        assert_eq!(sender.try_send(1), Ok(()));
        drop(sender);
        assert_eq!(receiver.next(None), Ok(1));
        assert_eq!(receiver.next(None), Err(QueueEmpty::Closed));
        assert_eq!(receiver.take(1, &mut VecDeque::new()), Err(QueueEmpty::Closed));
    }

    #[test]
    fn waiting_entries_go_with_the_last_receiver() {
        let (sender, receiver) = bounded(2);
        let value = Arc::new(());
        assert!(sender.try_send(Arc::clone(&value)).is_ok());
        drop(receiver.clone());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(receiver);
        assert_eq!(Arc::strong_count(&value), 1);
        assert!(matches!(sender.try_send(value), Err(QueueRefusal::Closed(_))));
    }

    #[test]
    fn idle_entries_are_there_when_the_sleeper_wakes_by_itself() {
        let (sender, receiver) = bounded(2);
        let sleeper = std::thread::spawn(move || receiver.next(Some(Duration::from_millis(50))));
        while sender.shared.state.lock().sleeps_for.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(sender.try_send_idly(1, Duration::from_secs(1)), Ok(()));
        assert_eq!(sleeper.join().expect("no panic"), Ok(1));
    }

    #[test]
    fn a_receiver_that_sleeps_too_long_is_woken_for_idle_entries() {
        for timeout in [None, Some(Duration::from_hours(1))] {
            let (sender, receiver) = bounded(2);
            let sleeper = std::thread::spawn(move || receiver.next(timeout));
            while timeout.is_some() && sender.shared.state.lock().sleeps_for.is_none() {
                std::thread::yield_now();
            }
            assert_eq!(sender.try_send_idly(1, Duration::from_secs(1)), Ok(()));
            assert_eq!(sleeper.join().expect("no panic"), Ok(1));
        }
    }

    #[test]
    fn every_value_reaches_one_of_several_sleepers() {
        let (sender, receiver) = bounded(1000);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let receiver = receiver.clone();
                std::thread::spawn(move || {
                    let mut sum = 0;
                    while let Ok(value) = receiver.next(None) {
                        sum += value;
                    }
                    sum
                })
            })
            .collect();
        for value in 1..=1000_u64 {
            assert_eq!(sender.try_send(value), Ok(()));
        }
        drop(sender);
        let sum: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!(sum, 500_500);
    }
}
