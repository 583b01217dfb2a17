//! One stream of numbered calls to a peer: many calls in a frame, answers in any order.
//!
//! ```text
//! submit -> [queue] -> frame, frame, ... -> peer
//!    |                                       |
//!  [table: number -> who waits, until when] <- replies
//! ```
//! No call has a task. The body of the request takes all calls from the queue when the connection has room
//! for a frame; the link's task reads the replies. Calls leave in the order of [`CallStream::submit`], which
//! is what keeps a commit behind its accept. When the stream ends, every call that was not answered has an
//! unknown outcome and is `Unreachable`.
//!
//! A call that ends when it is dropped is found by the sweep that looks for calls past their deadline: a
//! dropped call that is answered before that costs no frame. The sweep queues its number for the peer and
//! gives its place back.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tonic::Streaming;

use sherd_core::id::VolumeId;
use sherd_core::message::Error;
use sherd_core::message::call::{AnswerKind, VolumeAnswer};
use sherd_proto::convert::call::NumberedCalls;
use sherd_proto::limits::FRAME_CALLS_MAX;
use sherd_proto::v1::Sender;

use super::limits::{
    CALL_BYTES_MAX, CALLS_QUEUED_MAX, CallTime, DROPS_QUEUED_MAX, FRAME_BYTES_USUAL, SWEEP_EVERY,
};
use super::reply::{readable, unreachable};
use super::status::status_with_causes;
use super::waiting::{DropRule, WaitingCall, WaitingCalls};
use sherd_store::peer::AnswerSender;

#[derive(Debug)]
pub(super) struct CallWaiter {
    pub(super) kind: AnswerKind,
    pub(super) ends_when_dropped: bool,
    pub(super) answering: AnswerSender<VolumeAnswer>,
}

/// The callers' end of a stream. When all of it is dropped, what is queued is still sent, and the stream ends
/// once its calls are answered.
pub(super) struct CallStream<S: NumberedCalls> {
    queue: mpsc::Sender<QueuedEntry<S::Call>>,
    table: Arc<CallTable<S>>,
}

enum QueuedEntry<C> {
    Call(C),
    /// The number of a call that was queued before, and is not waited for any more.
    Dropped(u64),
}

/// The calls of a stream that wait for an answer: callers add them, the reader of replies takes them out.
pub(super) struct CallTable<S: NumberedCalls> {
    calls: Mutex<WaitingCalls<CallWaiter>>,
    /// For the numbers of dropped calls; it does not keep the stream open.
    queue: mpsc::WeakSender<QueuedEntry<S::Call>>,
}

impl<S: NumberedCalls> std::fmt::Debug for CallStream<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallStream").field("waiting", &self.table.calls.lock().len()).finish_non_exhaustive()
    }
}

impl<S: NumberedCalls> CallStream<S> {
    /// Makes a stream, and the body of the request that carries it.
    pub(super) fn new(sender: Sender) -> (Self, FrameStream<S>) {
        let (queue, calls) = mpsc::channel(CALLS_QUEUED_MAX);
        let calls_waiting = Mutex::new(WaitingCalls::new());
        let table = Arc::new(CallTable { calls: calls_waiting, queue: queue.downgrade() });
        (Self { queue, table }, FrameStream { calls, taken: VecDeque::new(), sender })
    }

    pub(super) fn table(&self) -> Arc<CallTable<S>> {
        Arc::clone(&self.table)
    }

    pub(super) fn waits_for(&self, volume: VolumeId) -> bool {
        self.table.calls.lock().waits_for(volume)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.table.calls.lock().len() > 0
    }

    /// Sends a call that is answered in its time, or `Unreachable` then.
    pub(super) fn submit(&self, volume: VolumeId, call: S::Call, time: CallTime, waiter: CallWaiter) {
        if let Err((waiter, error)) = self.enqueue(volume, call, time, waiter) {
            waiter.answering.answer(Err(error));
        }
    }

    fn enqueue(
        &self,
        volume: VolumeId,
        mut call: S::Call,
        time: CallTime,
        waiter: CallWaiter,
    ) -> Result<(), (CallWaiter, Error)> {
        let bytes = call.encoded_len();
        if bytes > CALL_BYTES_MAX {
            return Err((waiter, unreachable(format!("a call of {bytes} bytes is too long to be sent"))));
        }
        let timeout_ms = u32::try_from(time.max.as_millis()).unwrap_or(u32::MAX);
        let deadline = Instant::now() + time.max;
        let on_drop = DropRule::of(waiter.ends_when_dropped, time.length);
        let mut table = self.table.calls.lock();
        if let Some(reason) = &table.ended {
            return Err((waiter, unreachable(reason.as_str())));
        }
        if !table.has_room(volume) {
            return Err((waiter, Error::Busy));
        }
        let number = table.next_number;
        S::stamp(&mut call, number, timeout_ms);
        match self.queue.try_send(QueuedEntry::Call(call)) {
            Ok(()) => {
                table.next_number += 1;
                table.add(number, WaitingCall { volume, deadline, on_drop, waiter });
                Ok(())
            }
            // The call is in no frame, so the peer surely never gets it.
            Err(mpsc::error::TrySendError::Full(_)) => Err((waiter, Error::Busy)),
            Err(mpsc::error::TrySendError::Closed(_)) => Err((waiter, unreachable("the connection ended"))),
        }
    }

    /// Sends a call that has no answer. It is lost where the queue is full.
    pub(super) fn send(&self, mut call: S::Call) {
        if call.encoded_len() <= CALL_BYTES_MAX {
            S::stamp(&mut call, 0, 0);
            drop(self.queue.try_send(QueuedEntry::Call(call)));
        }
    }
}

impl<S: NumberedCalls> CallTable<S> {
    /// Answers calls until the stream ends, and says why it did.
    pub(super) async fn answer_calls(&self, mut replies: Streaming<S::Replies>) -> String {
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Cancel-safe: a message is taken only when it is whole, and a tick that is not taken stays due.
            tokio::select! {
                biased;
                now = sweep.tick() => self.sweep(now),
                message = replies.message() => match message {
                    Ok(Some(frame)) => self.complete(S::received_replies(frame)),
                    Ok(None) => return "the peer ended the stream of calls".to_owned(),
                    Err(status) => return status_with_causes(&status),
                },
            }
        }
    }

    pub(super) fn end(&self, reason: &str) {
        let waiting = self.calls.lock().end(reason);
        for waiter in waiting {
            waiter.answering.answer(Err(unreachable(reason)));
        }
    }

    fn complete(&self, replies: Vec<S::Reply>) {
        let mut answered = Vec::with_capacity(replies.len());
        let mut table = self.calls.lock();
        for reply in replies {
            // An answer past its deadline has no waiter any more.
            if let Some(waiter) = table.take(S::number(&reply)) {
                answered.push((waiter, reply));
            }
        }
        drop(table);
        for (waiter, reply) in answered {
            let CallWaiter { kind, answering, .. } = waiter;
            answering.answer(readable(S::answer(reply, kind)));
        }
    }

    /// Answers calls past their deadline, and forgets those that were dropped.
    fn sweep(&self, now: Instant) {
        let mut table = self.calls.lock();
        let expired = table.take_expired(now);
        let queue = self.queue.upgrade();
        let send = |number: &u64| {
            let queue = queue.as_ref().filter(|queue| queue.capacity() > CALLS_QUEUED_MAX - DROPS_QUEUED_MAX);
            queue.is_some_and(|queue| queue.try_send(QueuedEntry::Dropped(*number)).is_ok())
        };
        let dropped = table.take_dropped(|waiter| waiter.answering.is_closed(), send);
        drop(table);
        drop(dropped);
        for waiter in expired {
            waiter.answering.answer(Err(unreachable("no answer in time")));
        }
    }
}

/// Makes frames of the calls that are queued when one can be sent.
pub(super) struct FrameStream<S: NumberedCalls> {
    calls: mpsc::Receiver<QueuedEntry<S::Call>>,
    /// Off the queue, and in no frame yet.
    taken: VecDeque<QueuedEntry<S::Call>>,
    sender: Sender,
}

// Nothing in it is pinned.
impl<S: NumberedCalls> Unpin for FrameStream<S> {}

impl<S: NumberedCalls> Stream for FrameStream<S> {
    type Item = S::Calls;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Calls>> {
        if self.taken.is_empty() {
            // All at once: one by one a task may take 128 before it has to yield.
            let mut taken = Vec::new();
            if ready!(self.calls.poll_recv_many(context, &mut taken, FRAME_CALLS_MAX)) == 0 {
                return Poll::Ready(None);
            }
            self.taken = taken.into();
        }
        let mut bytes = 0;
        let mut count = 0;
        while count < self.taken.len() && bytes < FRAME_BYTES_USUAL {
            if let QueuedEntry::Call(call) = &self.taken[count] {
                bytes += call.encoded_len();
            }
            count += 1;
        }
        let (mut calls, mut dropped) = (Vec::with_capacity(count), Vec::new());
        for entry in self.taken.drain(..count) {
            match entry {
                QueuedEntry::Call(call) => calls.push(call),
                QueuedEntry::Dropped(number) => dropped.push(number),
            }
        }
        Poll::Ready(Some(S::frame(self.sender.clone(), calls, dropped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use futures::{FutureExt, StreamExt};
    use sherd_core::message::call::CallClass;
    use sherd_proto::convert::call::RegisterStream;
    use sherd_proto::v1::register_call::{self, Call};
    use sherd_proto::v1::{RegisterCall, RegisterReply, register_reply};

    use super::super::limits::VOLUME_CALLS_WAITING_MAX;
    use sherd_store::peer::Pending;

    const ONE: VolumeId = VolumeId([1; 16]);
    const TWO: VolumeId = VolumeId([2; 16]);

    type Registers = CallStream<RegisterStream>;

    fn ask(stream: &Registers, volume: VolumeId) -> Pending<()> {
        let (answering, pending) = Pending::waiting();
        let time = CallTime::of(CallClass::Short);
        stream.submit(volume, RegisterCall::default(), time, waiter(answering, false));
        pending.typed()
    }

    const fn waiter(answering: AnswerSender<VolumeAnswer>, ends_when_dropped: bool) -> CallWaiter {
        CallWaiter { kind: AnswerKind::Done, ends_when_dropped, answering }
    }

    fn verified(number: u64) -> RegisterReply {
        let reply = Some(register_reply::Reply::Verified(sherd_proto::v1::Empty {}));
        RegisterReply { number, reply }
    }

    fn reason(answer: Option<Result<(), Error>>) -> String {
        match answer {
            Some(Err(Error::Unreachable { reason })) => reason,
            other => panic!("not unreachable: {other:?}"),
        }
    }

    #[tokio::test]
    async fn queued_calls_share_frames_in_their_order_and_are_answered_by_number() {
        let (stream, mut frames) = Registers::new(Sender::default());
        let pending: Vec<_> =
            (0..=FRAME_CALLS_MAX).map(|n| ask(&stream, VolumeId([n.to_le_bytes()[0]; 16]))).collect();
        let (first, second) = (frames.next().await.expect("a frame"), frames.next().await.expect("a frame"));
        assert_eq!((first.calls.len(), second.calls.len()), (FRAME_CALLS_MAX, 1));
        let numbers: Vec<_> = first.calls.iter().map(|call| call.number).collect();
        assert!(
            numbers.is_sorted() && numbers[0] > 0 && second.calls[0].number > numbers[FRAME_CALLS_MAX - 1]
        );
        assert_eq!(first.calls[0].timeout_ms, 5_000);
        stream.table.complete(vec![verified(numbers[7]), verified(9_999_999)]);
        for (index, pending) in pending.into_iter().enumerate() {
            assert_eq!(pending.now_or_never(), (index == 7).then_some(Ok(())), "call {index}");
        }
    }

    #[tokio::test]
    async fn a_volume_that_answers_nothing_leaves_the_others_their_places() {
        let (stream, _frames) = Registers::new(Sender::default());
        let waiting: Vec<_> = (0..VOLUME_CALLS_WAITING_MAX).map(|_| ask(&stream, ONE)).collect();
        assert_eq!(ask(&stream, ONE).now_or_never(), Some(Err(Error::Busy)));
        assert_eq!(ask(&stream, TWO).now_or_never(), None);
        stream.table.complete(vec![verified(1)]);
        assert_eq!(ask(&stream, ONE).now_or_never(), None, "an answer makes room");
        drop(waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_past_its_deadline_is_answered_and_its_late_answer_dropped() {
        let (stream, _frames) = Registers::new(Sender::default());
        let (early, begun) = (ask(&stream, ONE), Instant::now());
        stream.table.sweep(begun + Duration::from_millis(4_900));
        tokio::time::advance(Duration::from_secs(1)).await;
        let late = ask(&stream, ONE);
        stream.table.sweep(begun + Duration::from_secs(5));
        assert!(reason(early.now_or_never()).contains("in time"));
        stream.table.complete(vec![verified(1), verified(2)]);
        assert_eq!(late.now_or_never(), Some(Ok(())));
    }

    /// Asks what ends when it is dropped, and what runs on; both are dropped at once.
    fn drop_calls(stream: &Registers, volume: VolumeId, time: CallTime, calls: [Call; 2]) {
        for call in calls {
            let (answering, _dropped) = Pending::waiting();
            let ends = matches!(call, Call::Read(_));
            let call = RegisterCall { call: Some(call), ..RegisterCall::default() };
            stream.submit(volume, call, time, waiter(answering, ends));
        }
    }

    fn read_and_accept() -> [Call; 2] {
        [Call::Read(register_call::Read::default()), Call::Accept(register_call::Accept::default())]
    }

    /// The next frame, which is there.
    fn taken(frames: &mut FrameStream<RegisterStream>) -> sherd_proto::v1::RegisterCalls {
        frames.next().now_or_never().flatten().expect("a frame")
    }

    fn places(stream: &Registers) -> usize {
        stream.table.calls.lock().len()
    }

    #[tokio::test]
    async fn a_dropped_call_that_ends_is_forgotten_and_told_behind_itself() {
        let (stream, mut frames) = Registers::new(Sender::default());
        let waiting = ask(&stream, ONE);
        drop_calls(&stream, ONE, CallTime::of(CallClass::Long), read_and_accept());
        let first = taken(&mut frames);
        assert_eq!((first.calls.len(), first.dropped.len()), (3, 0), "its answer may be on its way");
        stream.table.sweep(Instant::now());
        assert_eq!(places(&stream), 2, "the accept runs on, and the other call is waited for");
        drop_calls(&stream, ONE, CallTime::of(CallClass::Long), read_and_accept());
        let next = taken(&mut frames);
        let read = first.calls[1].number;
        assert_eq!((next.calls.len(), &*next.dropped), (2, &[read][..]));
        stream.table.sweep(Instant::now());
        let last = taken(&mut frames);
        assert_eq!((last.calls.len(), &*last.dropped), (0, &[next.calls[0].number][..]));
        stream.table.complete(vec![verified(read), verified(first.calls[0].number)]);
        assert_eq!(waiting.now_or_never(), Some(Ok(())), "and the answer that crossed its drop is for none");
    }

    #[tokio::test]
    async fn of_the_dropped_calls_of_a_volume_the_oldest_is_awaited_to_show_whether_it_is_late() {
        let (stream, mut frames) = Registers::new(Sender::default());
        for volume in [ONE, ONE, TWO, ONE] {
            drop_calls(&stream, volume, CallTime::of(CallClass::Short), read_and_accept());
        }
        let numbers: Vec<_> = taken(&mut frames).calls.iter().map(|call| call.number).collect();
        stream.table.sweep(Instant::now());
        stream.table.sweep(Instant::now());
        assert_eq!(taken(&mut frames).dropped, [numbers[2], numbers[6]]);
        assert_eq!(places(&stream), 4 + 2, "the accepts, and one read of each volume");
        stream.table.complete(vec![verified(numbers[0])]);
        drop_calls(&stream, ONE, CallTime::of(CallClass::Short), read_and_accept());
        stream.table.sweep(Instant::now());
        assert_eq!(places(&stream), 5 + 2, "with its answer the next one is awaited");
    }

    #[tokio::test]
    async fn a_drop_that_cannot_be_told_leaves_the_call_its_place() {
        let (stream, mut frames) = Registers::new(Sender::default());
        let volume = |number: usize| if number < VOLUME_CALLS_WAITING_MAX { ONE } else { TWO };
        for number in 0..DROPS_QUEUED_MAX {
            let [read, _accept] = read_and_accept();
            let (answering, _dropped) = Pending::waiting();
            let call = RegisterCall { call: Some(read), ..RegisterCall::default() };
            stream.submit(volume(number), call, CallTime::of(CallClass::Long), waiter(answering, true));
        }
        stream.table.sweep(Instant::now());
        assert_eq!(places(&stream), DROPS_QUEUED_MAX, "the rest of the queue is for calls");
        taken(&mut frames);
        stream.table.sweep(Instant::now());
        assert_eq!(places(&stream), DROPS_QUEUED_MAX - FRAME_CALLS_MAX);
    }

    #[tokio::test]
    async fn the_end_of_the_stream_answers_what_waits_and_what_comes_later() {
        let (stream, frames) = Registers::new(Sender::default());
        let before = ask(&stream, ONE);
        stream.table.end("it broke");
        assert_eq!(reason(before.now_or_never()), "it broke");
        assert_eq!(reason(ask(&stream, ONE).now_or_never()), "it broke");
        drop(frames);
        let (other, frames) = Registers::new(Sender::default());
        drop(frames);
        assert!(reason(ask(&other, ONE).now_or_never()).contains("ended"));
    }
}
