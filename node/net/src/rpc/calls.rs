//! The other end of a stream of numbered calls: starts them in order, and sends the replies as they come.
//!
//! The stream of replies is polled by the connection when it has room for a frame, and does everything: it
//! reads frames, starts their calls on this node's volumes, and gives out what is answered, many replies in
//! a frame. So a peer that does not read its replies sends no more calls. A call has no task; what is under
//! way stands in entries whose wakers are used again.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::Stream;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Status, Streaming};

use sherd_core::message::Error;
use sherd_proto::convert::call::{CallHeader, NumberedCalls};
use sherd_proto::convert::check_frame;
use sherd_proto::limits::{FRAME_CALLS_MAX, TIMEOUT_MS_MAX};

use super::error;
use super::failure::CallFailure;
use super::limits::{CALLS_UNDER_WAY_MAX, FRAME_BYTES_USUAL, OUTBOX_BYTES_MAX, REPLY_BYTES_MAX, SWEEP_EVERY};
use super::node::{HeldShare, RpcNode};
use super::work::{self, StartedCall};
use sherd_store::observe::metrics::RpcCallMetrics;
use sherd_store::observe::trace::SlowRequests;
use sherd_store::peer::{PageShare, WorkForPeer};

/// The replies of one stream.
pub(super) struct CallReplies<S: NumberedCalls> {
    node: RpcNode,
    frames: Option<Streaming<S::Calls>>,
    under_way: CallTable<WorkForPeer>,
    /// Each with what it holds until its peer takes it: of pages, or of the bytes for all else.
    outbox: VecDeque<(S::Reply, PageShare, HeldShare)>,
    outbox_bytes: usize,
    sweep: Interval,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    metrics: RpcCallMetrics,
    is_over: bool,
}

impl<S: NumberedCalls> CallReplies<S> {
    pub(super) fn new(
        node: RpcNode,
        frames: Streaming<S::Calls>,
        metrics: RpcCallMetrics,
        stop: CancellationToken,
    ) -> Self {
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let under_way = CallTable { slow: node.slow().clone(), ..CallTable::default() };
        Self {
            node,
            frames: Some(frames),
            under_way,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            sweep,
            stopped: Box::pin(stop.cancelled_owned()),
            metrics,
            is_over: false,
        }
    }

    /// Reads frames while there is room for what they start.
    fn read_frames(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        while self.under_way.len() < CALLS_UNDER_WAY_MAX
            && self.outbox.len() < FRAME_CALLS_MAX
            && self.outbox_bytes < OUTBOX_BYTES_MAX
        {
            let Some(frames) = &mut self.frames else { return Ok(()) };
            match Pin::new(frames).poll_next(context) {
                Poll::Ready(Some(Ok(frame))) => self.start_calls(frame)?,
                Poll::Ready(Some(Err(status))) => {
                    self.frames = None;
                    return Err(status);
                }
                Poll::Ready(None) => self.frames = None,
                Poll::Pending => return Ok(()),
            }
        }
        Ok(())
    }

    fn start_calls(&mut self, frame: S::Calls) -> Result<(), Status> {
        let (sender, calls, dropped) = S::received_frame(frame);
        self.node.check(sender)?;
        check_frame(calls.len()).and(check_frame(dropped.len())).map_err(|error| error::invalid(&error))?;
        let now = Instant::now();
        for mut call in calls {
            let CallHeader { number, timeout_ms, to } = S::take_header(&mut call);
            let request = to.as_ref().map_or(0, |to| to.request);
            match work::start::<S>(&self.node, to, call) {
                // A call without a number has no reply.
                Ok(_) | Err(_) if number == 0 => {}
                Ok(StartedCall { work: started, held, ends_when_dropped, is_for_client }) => {
                    let deadline = now + Duration::from_millis(timeout_ms.min(TIMEOUT_MS_MAX).into());
                    let slow = (is_for_client && request != 0).then_some(SlowCall { request, begun: now });
                    let call = CallUnderWay { number, deadline, ends_when_dropped, slow, started, held };
                    if let Some((reply, held)) = self.under_way.add(call, work::poll::<S>) {
                        self.reply(number, reply, held);
                    }
                }
                Err(failure) => {
                    let failed = (failed::<S>(number, failure), PageShare::default());
                    self.reply(number, failed, HeldShare::default());
                }
            }
        }
        // Behind the calls: one of this frame may be among them.
        let count = dropped.into_iter().filter(|number| self.under_way.drop_call(*number)).count();
        self.metrics.dropped.inc_by(count as u64);
        Ok(())
    }

    fn reply(&mut self, number: u64, (mut reply, page): (S::Reply, PageShare), held: HeldShare) {
        let bytes = reply.encoded_len();
        if bytes > REPLY_BYTES_MAX {
            let reason = format!("a reply of {bytes} bytes is too long to be sent");
            reply = failed::<S>(number, Error::Unreachable { reason }.into());
        }
        let uncounted = if page.is_taken() { 0 } else { reply.encoded_len() };
        let held = self.node.hold_reply(held, uncounted).unwrap_or_else(|busy| {
            if !work::leave_out::<S>(&mut reply) {
                reply = failed::<S>(number, busy.into());
            }
            HeldShare::default()
        });
        let counter = if S::is_failure(&reply) { &self.metrics.failed } else { &self.metrics.answered };
        counter.inc();
        self.outbox_bytes += reply.encoded_len();
        self.outbox.push_back((reply, page, held));
    }

    /// The next frame of replies, if there is one to send.
    fn take_frame(&mut self) -> Option<S::Replies> {
        let (mut replies, mut bytes) = (Vec::new(), 0);
        while replies.len() < FRAME_CALLS_MAX && bytes < FRAME_BYTES_USUAL {
            let Some((reply, _page, _held)) = self.outbox.pop_front() else { break };
            let length = reply.encoded_len();
            bytes += length;
            self.outbox_bytes = self.outbox_bytes.saturating_sub(length);
            replies.push(reply);
        }
        (!replies.is_empty()).then(|| S::replies(replies))
    }

    fn advance(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        if self.frames.is_some() && self.stopped.as_mut().poll(context).is_ready() {
            self.frames = None;
        }
        self.under_way.register(context);
        while let Some((number, reply, held)) = self.under_way.next_answered(work::poll::<S>) {
            self.reply(number, reply, held);
        }
        self.read_frames(context)?;
        while !self.under_way.is_empty() {
            let Poll::Ready(now) = self.sweep.poll_tick(context) else { break };
            self.metrics.expired.inc_by(self.under_way.expire(now));
        }
        Ok(())
    }
}

impl<S: NumberedCalls> Stream for CallReplies<S> {
    type Item = Result<S::Replies, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        if let Err(status) = this.advance(context) {
            this.is_over = true;
            return Poll::Ready(Some(Err(status)));
        }
        if let Some(frame) = this.take_frame() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if this.frames.is_none() && this.under_way.is_empty() {
            this.is_over = true;
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}

/// The reply of a call that was not started, or whose answer cannot be sent.
fn failed<S: NumberedCalls>(number: u64, failure: CallFailure) -> S::Reply {
    S::failed(number, error::failure(failure))
}

struct CallUnderWay<T> {
    number: u64,
    deadline: Instant,
    ends_when_dropped: bool,
    /// For a call of a client's request.
    slow: Option<SlowCall>,
    started: T,
    held: HeldShare,
}

/// Request id and start of a call that may be logged as slow.
struct SlowCall {
    request: u64,
    begun: Instant,
}

impl SlowCall {
    fn ended(&self, slow: &SlowRequests) {
        slow.call_ended(self.request, || self.begun.elapsed());
    }
}

/// The calls under way, each in an entry whose waker has its index.
struct CallTable<T> {
    /// Calls that are logged as slow.
    slow: SlowRequests,
    entries: Vec<CallEntry<T>>,
    free: Vec<usize>,
    /// The entries of the calls that end when they are dropped, by their numbers.
    droppable: HashMap<u64, usize>,
    wakes: Arc<EntryWakes>,
    /// Woken entries that were taken off the list and not looked at yet.
    woken: Vec<usize>,
}

struct CallEntry<T> {
    call: Option<CallUnderWay<T>>,
    waker: Waker,
}

/// Indices of the entries that were woken since the last look.
#[derive(Default)]
struct EntryWakes {
    woken: Mutex<Vec<usize>>,
    task: AtomicWaker,
}

struct EntryWaker {
    index: usize,
    wakes: Arc<EntryWakes>,
}

impl Wake for EntryWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_first = {
            let mut woken = self.wakes.woken.lock();
            woken.push(self.index);
            woken.len() == 1
        };
        // The task looks at the whole list when it runs: one wake is enough for all that is on it.
        if is_first {
            self.wakes.task.wake();
        }
    }
}

impl<T> Default for CallTable<T> {
    fn default() -> Self {
        let slow = SlowRequests::after(Duration::ZERO);
        let (entries, free, woken) = (Vec::new(), Vec::new(), Vec::new());
        Self { slow, entries, free, droppable: HashMap::new(), wakes: Arc::default(), woken }
    }
}

impl<T> CallTable<T> {
    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes the task that looks at the entries. Called before the look: an entry that is woken during it
    /// wakes the task again.
    fn register(&self, context: &Context<'_>) {
        self.wakes.task.register(context.waker());
    }

    /// Adds a call; gives its reply instead where that is there at once.
    fn add<R>(
        &mut self,
        call: CallUnderWay<T>,
        poll: impl Fn(&mut T, u64, &mut Context<'_>) -> Poll<R>,
    ) -> Option<(R, HeldShare)> {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.entries.len();
            let waker = Arc::new(EntryWaker { index, wakes: Arc::clone(&self.wakes) }).into();
            self.entries.push(CallEntry { call: None, waker });
            index
        });
        let droppable = call.ends_when_dropped.then_some(call.number);
        self.entries[index].call = Some(call);
        let answered = self.look(index, poll).map(|(_, reply, held)| (reply, held));
        if let (Some(number), None) = (droppable, &answered) {
            self.droppable.insert(number, index);
        }
        answered
    }

    /// The next reply of a call that was woken.
    fn next_answered<R>(
        &mut self,
        poll: impl Fn(&mut T, u64, &mut Context<'_>) -> Poll<R>,
    ) -> Option<(u64, R, HeldShare)> {
        loop {
            if self.woken.is_empty() {
                std::mem::swap(&mut self.woken, &mut *self.wakes.woken.lock());
            }
            let index = self.woken.pop()?;
            if let Some(answered) = self.look(index, &poll) {
                return Some(answered);
            }
        }
    }

    fn look<R>(
        &mut self,
        index: usize,
        poll: impl Fn(&mut T, u64, &mut Context<'_>) -> Poll<R>,
    ) -> Option<(u64, R, HeldShare)> {
        let entry = &mut self.entries[index];
        let call = entry.call.as_mut()?;
        let number = call.number;
        match poll(&mut call.started, number, &mut Context::from_waker(&entry.waker)) {
            Poll::Ready(reply) => {
                let held = std::mem::take(&mut call.held);
                self.give_back(index);
                Some((number, reply, held))
            }
            Poll::Pending => None,
        }
    }

    /// Forgets calls past their deadline and returns their number: a volume that hangs must not keep the
    /// places of the others.
    fn expire(&mut self, now: Instant) -> u64 {
        let mut count = 0;
        for index in 0..self.entries.len() {
            if self.entries[index].call.as_ref().is_some_and(|call| call.deadline <= now) {
                self.give_back(index);
                count += 1;
            }
        }
        count
    }

    /// Forgets a call that ends when it is dropped, and returns whether it was under way. The reply of one
    /// that was answered crossed the number on the way.
    fn drop_call(&mut self, number: u64) -> bool {
        let found = self.droppable.get(&number).copied();
        found.inspect(|index| self.give_back(*index)).is_some()
    }

    /// Ends the call in an entry: with it go the work, which its volume skips where it was not begun, and the
    /// bytes that it holds.
    fn give_back(&mut self, index: usize) {
        let Some(call) = self.entries[index].call.take() else { return };
        if let Some(slow) = &call.slow {
            slow.ended(&self.slow);
        }
        // A peer that gives two calls one number drops the later one by it.
        if call.ends_when_dropped && self.droppable.get(&call.number) == Some(&index) {
            self.droppable.remove(&call.number);
        }
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::poll_fn;

    use futures::FutureExt;

    use sherd_store::peer::{AnswerSender, Pending};

    fn call(number: u64, deadline: Instant) -> (AnswerSender<u64>, CallUnderWay<Pending<u64>>) {
        let (answering, started) = Pending::waiting();
        (answering, under_way(number, deadline, started))
    }

    /// Adds a call; gives its reply where that is there at once.
    fn add(
        table: &mut CallTable<Pending<u64>>,
        call: CallUnderWay<Pending<u64>>,
    ) -> Option<Result<u64, Error>> {
        table.add(call, look).map(|(reply, _held)| reply)
    }

    fn under_way(number: u64, deadline: Instant, started: Pending<u64>) -> CallUnderWay<Pending<u64>> {
        let held = HeldShare::default();
        CallUnderWay { number, deadline, ends_when_dropped: true, slow: None, started, held }
    }

    fn look(started: &mut Pending<u64>, _: u64, context: &mut Context<'_>) -> Poll<Result<u64, Error>> {
        Pin::new(started).poll(context)
    }

    async fn answered(table: &mut CallTable<Pending<u64>>) -> (u64, Result<u64, Error>) {
        let next =
            |table: &mut CallTable<_>| table.next_answered(look).map(|(number, reply, _)| (number, reply));
        poll_fn(|context| {
            table.register(context);
            next(table).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    #[tokio::test]
    async fn calls_are_answered_as_they_come_and_their_entries_used_again() {
        let (mut table, soon) = (CallTable::default(), Instant::now() + Duration::from_secs(5));
        let answering: Vec<_> = (1..=3)
            .map(|number| {
                let (answering, call) = call(number, soon);
                assert_eq!(add(&mut table, call), None);
                answering
            })
            .collect();
        assert_eq!(answered(&mut table).now_or_never(), None);
        let mut answering = answering.into_iter();
        answering.next_back().expect("the third").answer(Ok(30));
        assert_eq!(answered(&mut table).await, (3, Ok(30)));
        answering.next().expect("the first").answer(Ok(10));
        assert_eq!(answered(&mut table).await, (1, Ok(10)));
        let ready = under_way(4, soon, Pending::ready(Ok(40)));
        assert_eq!(add(&mut table, ready), Some(Ok(40)));
        assert_eq!((table.len(), table.entries.len()), (1, 3));
    }

    #[tokio::test]
    async fn a_call_whose_caller_stopped_waiting_gives_its_entry_back() {
        let (mut table, now) = (CallTable::default(), Instant::now());
        let (hangs, first) = call(1, now);
        let (answering, second) = call(2, now + Duration::from_secs(5));
        assert_eq!((add(&mut table, first), add(&mut table, second)), (None, None));
        assert_eq!(table.expire(now), 1);
        hangs.answer(Ok(1));
        answering.answer(Ok(2));
        assert_eq!(answered(&mut table).await, (2, Ok(2)));
        assert!(table.is_empty());
    }

    #[tokio::test]
    async fn a_dropped_call_gives_its_entry_back_only_where_it_ends() {
        let (mut table, soon) = (CallTable::default(), Instant::now() + Duration::from_secs(5));
        let (mut reads, read) = call(1, soon);
        let (changes, change) = call(2, soon);
        assert_eq!(add(&mut table, read), None);
        assert_eq!(add(&mut table, CallUnderWay { ends_when_dropped: false, ..change }), None);
        assert_eq!([1, 1, 2, 3].map(|number| table.drop_call(number)), [true, false, false, false]);
        reads.closed().await;
        changes.answer(Ok(2));
        assert_eq!(answered(&mut table).await, (2, Ok(2)), "it runs on, and is answered");
        let (other, next) = call(3, soon);
        assert_eq!((add(&mut table, next), table.entries.len()), (None, 2), "the entries are used again");
        other.answer(Ok(3));
        assert_eq!(answered(&mut table).await, (3, Ok(3)));
        assert!(!table.drop_call(3) && table.is_empty() && table.droppable.is_empty());
    }

    /// As of a peer that numbers wrongly.
    #[tokio::test]
    async fn a_number_that_two_calls_have_drops_no_call_that_runs_on() {
        let (mut table, soon) = (CallTable::default(), Instant::now() + Duration::from_secs(5));
        let calls = [true, false, true].map(|ends_when_dropped| {
            let (answering, call) = call(1, soon);
            assert_eq!(add(&mut table, CallUnderWay { ends_when_dropped, ..call }), None);
            answering
        });
        assert_eq!([1, 1].map(|number| table.drop_call(number)), [true, false]);
        let [first, change, last] = calls;
        assert!(last.is_closed() && !first.is_closed() && !change.is_closed());
        assert_eq!(table.len(), 2, "both are answered, or end at their deadline");
    }
}
