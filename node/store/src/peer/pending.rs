//! An answer that may be there already, or comes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use sherd_core::message::call::{CallAnswer, VolumeAnswer};
use sherd_core::message::{Error, Result};

use super::watch::{CallLength, CallWatch, WatchedCall};
use crate::machine::call_times::{CallTimes, TimedCall};
use crate::observe::peer_calls::LoggedCall;

/// An answer under way.
#[derive(Debug)]
pub struct Pending<R>(AnswerState<R>);

#[derive(Debug)]
enum AnswerState<R> {
    /// With how long it took.
    Ready(Option<Result<R>>, Duration),
    /// Since when.
    Waiting(AnswerReceiver<R>, Instant),
    /// Of a call that takes turns, which the polls of its caller drive; since when.
    Driven(DrivenAnswer<R>, Instant),
    /// Of a call whose answer is taken out of what the volume answers; since when.
    Asked(AnswerReceiver<VolumeAnswer>, Instant, fn(VolumeAnswer) -> Result<R>),
}

/// The work that gives an answer.
struct DrivenAnswer<R>(Pin<Box<dyn Future<Output = Result<R>> + Send + Sync>>);

impl<R> std::fmt::Debug for DrivenAnswer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DrivenAnswer")
    }
}

/// An answer, and when it came.
type AnswerReceiver<R> = oneshot::Receiver<(Result<R>, Instant)>;

/// Where an answer is delivered.
#[derive(Debug)]
pub struct AnswerSender<R> {
    to: oneshot::Sender<(Result<R>, Instant)>,
    /// Ends when the answer comes, or is given up; `None` where it is not watched.
    watched: Option<WatchedCall>,
    /// `None` where it is not logged.
    logged: Option<Box<LoggedCall>>,
    /// Counts its time, also where it is dropped without an answer; `None` where it is not counted.
    timed: Option<TimedCall>,
}

impl<R> AnswerSender<R> {
    /// Delivers the answer, or drops it if the caller has gone.
    pub fn answer(self, result: Result<R>) {
        let Self { to, watched, logged, timed } = self;
        drop(timed);
        if let Some(mut call) = logged {
            call.ended(&result);
        }
        // A volume that was not reached gave no answer.
        if let Some(call) = watched.filter(|_| !matches!(result, Err(Error::Unreachable { .. }))) {
            call.answered();
        }
        drop(to.send((result, Instant::now())));
    }

    /// Logs the call when it ends.
    #[must_use]
    pub fn logging(self, call: Option<Box<LoggedCall>>) -> Self {
        Self { logged: call, ..self }
    }

    /// Counts the time from here on until it is answered or dropped.
    #[must_use]
    pub(super) fn timed_in(self, times: Option<&Arc<CallTimes>>) -> Self {
        Self { timed: times.map(CallTimes::begin), ..self }
    }

    /// Begins to watch a call that waited behind others of its caller, once its volume owes the answer.
    pub fn owed(&mut self, watch: &CallWatch) {
        self.watched.get_or_insert_with(|| watch.begin());
    }

    /// Whether the caller has stopped waiting for the answer.
    pub fn is_closed(&self) -> bool {
        self.to.is_closed()
    }

    /// Returns when the caller has stopped waiting for the answer. Cancel-safe.
    pub async fn closed(&mut self) {
        self.to.closed().await;
    }
}

impl<R> Pending<R> {
    /// An answer that is there already.
    pub const fn ready(result: Result<R>) -> Self {
        Self(AnswerState::Ready(Some(result), Duration::ZERO))
    }

    /// An answer that `work` gives: it goes on while this is polled, and ends with it.
    pub(super) fn driven(work: impl Future<Output = Result<R>> + Send + Sync + 'static) -> Self {
        Self(AnswerState::Driven(DrivenAnswer(Box::pin(work)), Instant::now()))
    }

    /// An answer to come, of a call that may take long.
    pub fn waiting() -> (AnswerSender<R>, Self) {
        let (to, receiver) = oneshot::channel();
        (
            AnswerSender { to, watched: None, logged: None, timed: None },
            Self(AnswerState::Waiting(receiver, Instant::now())),
        )
    }

    /// An answer to come, of a call that begins now. Only what requests wait for is watched.
    pub fn begin(length: CallLength, watch: &CallWatch) -> (AnswerSender<R>, Self) {
        match length {
            CallLength::Short => Self::watched(watch.begin()),
            CallLength::Long => Self::waiting(),
        }
    }

    /// An answer to come, of a call that is watched.
    pub(super) fn watched(call: WatchedCall) -> (AnswerSender<R>, Self) {
        let (to, receiver) = oneshot::channel();
        (
            AnswerSender { to, watched: Some(call), logged: None, timed: None },
            Self(AnswerState::Waiting(receiver, Instant::now())),
        )
    }
}

impl<R> Pending<R> {
    /// Whether the answer is known to be there, without a look.
    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.0, AnswerState::Ready(..))
    }

    /// How long the answer took, where it is known to be there; else how long it has taken so far.
    pub fn took(&self) -> Duration {
        match &self.0 {
            AnswerState::Ready(_, took) => *took,
            AnswerState::Waiting(_, since)
            | AnswerState::Driven(_, since)
            | AnswerState::Asked(_, since, _) => since.elapsed(),
        }
    }

    /// Whether the answer is there; if not, the context's task is woken when it is.
    pub(super) fn is_there(&mut self, context: &mut Context<'_>) -> bool {
        let (answer, at, since) = match &mut self.0 {
            AnswerState::Ready(..) => return true,
            AnswerState::Waiting(receiver, since) => {
                let Poll::Ready((answer, at)) = poll_receiver(receiver, context) else { return false };
                (answer, at, *since)
            }
            AnswerState::Driven(DrivenAnswer(work), since) => {
                let Poll::Ready(answer) = work.as_mut().poll(context) else { return false };
                (answer, Instant::now(), *since)
            }
            AnswerState::Asked(receiver, since, take) => {
                let Poll::Ready((answer, at)) = poll_receiver(receiver, context) else { return false };
                (answer.and_then(*take), at, *since)
            }
        };
        self.0 = AnswerState::Ready(Some(answer), at.saturating_duration_since(since));
        true
    }
}

impl Pending<VolumeAnswer> {
    /// The answer as the call's own type.
    pub fn typed<R: CallAnswer>(self) -> Pending<R> {
        Pending(match self.0 {
            AnswerState::Ready(answer, took) => {
                AnswerState::Ready(answer.map(|answer| answer.and_then(R::from_answer)), took)
            }
            AnswerState::Driven(DrivenAnswer(work), since) => {
                let typed = async { work.await.and_then(R::from_answer) };
                AnswerState::Driven(DrivenAnswer(Box::pin(typed)), since)
            }
            AnswerState::Waiting(receiver, since) | AnswerState::Asked(receiver, since, _) => {
                AnswerState::Asked(receiver, since, R::from_answer)
            }
        })
    }
}

fn poll_receiver<R>(
    receiver: &mut AnswerReceiver<R>,
    context: &mut Context<'_>,
) -> Poll<(Result<R>, Instant)> {
    // Outside the task's budget: to make a task yield the runtime wakes it and shows it nothing, which a
    // caller that counts wakes would take for the answer.
    let mut receiver = tokio::task::unconstrained(receiver);
    let gone = |_| (Err(Error::Unreachable { reason: "the volume went away".to_owned() }), Instant::now());
    Pin::new(&mut receiver).poll(context).map(|answer| answer.unwrap_or_else(gone))
}

impl<R: Unpin> Future for Pending<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_there(context) {
            return Poll::Pending;
        }
        let AnswerState::Ready(result, _) = &mut self.0 else { return Poll::Pending };
        Poll::Ready(result.take().expect("polled once after it is ready"))
    }
}
