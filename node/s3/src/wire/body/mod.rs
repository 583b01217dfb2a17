//! A request's body on its way to the operation: counted, verified, and never late.
//!
//! Frames pass as they came. The last bytes leave only when everything that can be verified is:
//! length, SHA-256, signatures of frames and trailer. So an operation that got all the bytes it
//! was promised got the right ones, even if it never asks for more; and a fault is kept
//! beside the body, so the answer names it even where the operation makes another error of it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sha2::{Digest as _, Sha256};
use sherd_store::iam::KeyRevocation;
use tokio::time::{Instant, Sleep};

use crate::wire::aws_chunked::{ChunkedFraming, Decoder, FramingError, TrailerChecksum};
use crate::wire::form::FormError;

pub mod form_file;

/// Any error of the transport below.
pub type TransportError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request as its transport hands it on.
pub trait ClientBody:
    Body<Data = Bytes, Error: Into<TransportError>> + Unpin + Send + Sync + 'static
{
}

impl<B> ClientBody for B where
    B: Body<Data = Bytes, Error: Into<TransportError>> + Unpin + Send + Sync + 'static
{
}

/// The error of a transport that ends a body whose client is slow, since too many others wait for theirs.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the body gave way to faster ones")]
pub struct BodyGaveWay;

/// Why a body failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BodyError {
    /// The connection broke.
    #[error("the connection broke inside the body")]
    Broken {
        /// The transport's error.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The body ended before the declared length.
    #[error("{missing} bytes of the body are missing")]
    Truncated {
        /// Bytes that did not come.
        missing: u64,
    },
    /// The body has more bytes than declared.
    #[error("the body is longer than declared")]
    TooLong,
    /// The frames are wrong.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The body is a form that cannot be taken.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The SHA-256 is not the declared one.
    #[error("the body's sha256 is not the declared one")]
    Digest {
        /// The declared value.
        declared: [u8; 32],
        /// The value of the bytes that came.
        computed: [u8; 32],
    },
    /// The transport ended it for the sake of faster ones.
    #[error(transparent)]
    GaveWay(#[from] BodyGaveWay),
    /// No byte came for too long, or all of the body took too long.
    #[error("the body came too slowly")]
    Slow,
    /// The requests of its caller's key were ended.
    #[error("the access key was revoked inside the body")]
    Revoked,
}

/// The outcome of a body; shared with the operation and with the writer of the answer.
#[derive(Debug, Default)]
pub struct BodyOutcome {
    is_asked_for: AtomicBool,
    fault: OnceLock<BodyError>,
    revocation: OnceLock<KeyRevocation>,
    trailer: OnceLock<TrailerChecksum>,
}

impl BodyOutcome {
    /// Whether any of it was asked for: only then was a client that waits for `100 Continue` answered it.
    pub fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Ordering::Relaxed)
    }

    /// Ends the body where the key of its caller is revoked before its last bytes pass.
    pub(crate) fn hold(&self, revocation: Option<KeyRevocation>) {
        if let Some(revocation) = revocation {
            // Set once: a body has one caller.
            let _ = self.revocation.set(revocation);
        }
    }

    fn is_revoked(&self) -> bool {
        self.revocation.get().is_some_and(KeyRevocation::is_revoked)
    }

    /// Why the body failed, if it did.
    pub fn fault(&self) -> Option<&BodyError> {
        self.fault.get()
    }

    /// Keeps the first reason why the body failed.
    fn fail(&self, error: &BodyError) {
        // Set once: what fails behind the first fault is its consequence.
        let _ = self.fault.set(error.clone());
    }

    /// The checksum from the trailer; there once the body has ended.
    pub fn trailer(&self) -> Option<&TrailerChecksum> {
        self.trailer.get()
    }
}

/// How long a body may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyTimeouts {
    /// Without a byte.
    pub idle: Duration,
    /// From the first byte to the last.
    pub whole: Duration,
}

/// How a body arrives.
#[derive(Debug)]
pub enum BodyArrival {
    /// Plain bytes, with the SHA-256 that they should have, when that was declared.
    Plain(Option<[u8; 32]>),
    /// Bytes in frames.
    Framed(Box<ChunkedFraming>),
}

enum Shape {
    Plain(Option<([u8; 32], Sha256)>),
    Framed { decoder: Box<Decoder>, input: Bytes, held: Option<Bytes> },
}

/// A body that is checked as it passes.
pub struct CheckedBody<B> {
    inner: B,
    shape: Shape,
    /// Declared bytes that have not been seen.
    missing: u64,
    done: bool,
    outcome: Arc<BodyOutcome>,
    timeouts: BodyTimeouts,
    timer: Option<Pin<Box<Sleep>>>,
    ends: Option<Instant>,
    waiting: bool,
}

impl<B> fmt::Debug for CheckedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedBody").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl<B: ClientBody> CheckedBody<B> {
    /// Wraps a body of `length` bytes, not counting its frames.
    pub fn new(inner: B, arrival: BodyArrival, length: u64, timeouts: BodyTimeouts) -> Self {
        let shape = match arrival {
            BodyArrival::Plain(sha256) => Shape::Plain(sha256.map(|declared| (declared, Sha256::new()))),
            BodyArrival::Framed(framing) => {
                Shape::Framed { decoder: Box::new(Decoder::new(*framing)), input: Bytes::new(), held: None }
            }
        };
        Self {
            inner,
            shape,
            missing: length,
            done: false,
            outcome: Arc::default(),
            timeouts,
            timer: None,
            ends: None,
            waiting: false,
        }
    }

    /// The body's outcome, complete once the body has ended.
    pub fn outcome(&self) -> Arc<BodyOutcome> {
        Arc::clone(&self.outcome)
    }

    /// The next bytes; `None` at the end.
    async fn next_bytes(&mut self) -> Result<Option<Bytes>, BodyError> {
        let next = std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await.transpose()?;
        // Every frame is of data.
        Ok(next.map(|frame| frame.into_data().unwrap_or_default()))
    }

    fn poll_checked(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            if let Some(bytes) = self.decoded()? {
                return Poll::Ready(Ok(Some(bytes)));
            }
            match ready!(self.poll_inner(cx))? {
                Some(bytes) if bytes.is_empty() => {}
                Some(bytes) => {
                    if let Some(bytes) = self.arrived(bytes)? {
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                }
                None => return Poll::Ready(self.ended()),
            }
        }
    }

    /// Hands out what the decoder has, but for the bytes that complete the body.
    fn decoded(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Shape::Framed { decoder, input, held } = &mut self.shape else { return Ok(None) };
        while let Some(bytes) = decoder.next(input)? {
            self.missing = self.missing.checked_sub(bytes.len() as u64).ok_or(BodyError::TooLong)?;
            if self.missing > 0 {
                return Ok(Some(bytes));
            }
            *held = Some(bytes);
        }
        Ok(None)
    }

    /// Takes bytes from below; returns them if they may pass.
    fn arrived(&mut self, bytes: Bytes) -> Result<Option<Bytes>, BodyError> {
        match &mut self.shape {
            Shape::Framed { input, .. } => {
                *input = bytes;
                Ok(None)
            }
            Shape::Plain(digest) => {
                self.missing = self.missing.checked_sub(bytes.len() as u64).ok_or(BodyError::TooLong)?;
                if let Some((_, hash)) = digest {
                    hash.update(&bytes);
                }
                if self.missing == 0 {
                    verify(digest)?;
                }
                Ok(Some(bytes))
            }
        }
    }

    /// The end from below: whether it is the end of the body.
    fn ended(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.missing > 0 {
            return Err(BodyError::Truncated { missing: self.missing });
        }
        self.done = true;
        match &mut self.shape {
            Shape::Plain(digest) => {
                verify(digest)?;
                Ok(None)
            }
            Shape::Framed { decoder, held, .. } => {
                if decoder.lacks_checksum() {
                    return Err(FramingError::Trailer.into());
                }
                if !decoder.is_done() {
                    return Err(BodyError::Truncated { missing: 0 });
                }
                if let Some(trailer) = decoder.take_trailer() {
                    // Set once: the decoder has but one.
                    let _ = self.outcome.trailer.set(trailer);
                }
                Ok(held.take())
            }
        }
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(frame) => {
                    self.waiting = false;
                    match frame {
                        None => return Poll::Ready(Ok(None)),
                        Some(Err(error)) => return Poll::Ready(Err(of_transport(error.into()))),
                        // HTTP's own trailers mean nothing in S3.
                        Some(Ok(frame)) => {
                            if let Ok(bytes) = frame.into_data() {
                                return Poll::Ready(Ok(Some(bytes)));
                            }
                        }
                    }
                }
                Poll::Pending => {
                    ready!(self.poll_patience(cx));
                    return Poll::Ready(Err(BodyError::Slow));
                }
            }
        }
    }

    /// Ready when patience is at its end.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let ends = *self.ends.get_or_insert(now + self.timeouts.whole);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if !self.waiting {
            self.waiting = true;
            timer.as_mut().reset(ends.min(now + self.timeouts.idle));
        }
        timer.as_mut().poll(cx)
    }
}

fn of_transport(error: TransportError) -> BodyError {
    match error.downcast_ref::<BodyGaveWay>() {
        Some(gave_way) => (*gave_way).into(),
        None => BodyError::Broken { source: Arc::from(error) },
    }
}

/// Compares the digest, once: later calls find it compared.
fn verify(digest: &mut Option<([u8; 32], Sha256)>) -> Result<(), BodyError> {
    let Some((declared, hash)) = digest.take() else { return Ok(()) };
    let computed = hash.finalize().into();
    if declared == computed { Ok(()) } else { Err(BodyError::Digest { declared, computed }) }
}

impl<B: ClientBody> Body for CheckedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        this.outcome.is_asked_for.store(true, Ordering::Relaxed);
        if let Some(fault) = this.outcome.fault.get() {
            return Poll::Ready(Some(Err(fault.clone())));
        }
        if this.done {
            return Poll::Ready(None);
        }
        let checked = ready!(this.poll_checked(cx));
        match if this.outcome.is_revoked() { Err(BodyError::Revoked) } else { checked } {
            Ok(Some(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Ok(None) => Poll::Ready(None),
            Err(error) => {
                this.outcome.fail(&error);
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }

    fn size_hint(&self) -> SizeHint {
        let held = match &self.shape {
            Shape::Framed { held: Some(held), .. } => held.len() as u64,
            _ => 0,
        };
        SizeHint::with_exact(self.missing + held)
    }
}

impl<B: ClientBody> futures::Stream for CheckedBody<B> {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.as_mut().poll_frame(cx));
        // Every frame is of data.
        Poll::Ready(next.map(|frame| match frame {
            Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
            Err(error) => Err(error.into()),
        }))
    }
}

/// A whole body that was small enough.
#[derive(Debug)]
pub struct CollectedBody {
    /// The bytes, verified.
    pub bytes: Bytes,
    /// The checksum from its trailer.
    pub trailer: Option<TrailerChecksum>,
}

/// Collects a body of at most `length` bytes, which the caller has bounded.
///
/// # Errors
/// [`BodyError`] when it is not what was declared.
pub async fn collect<B: ClientBody>(mut body: CheckedBody<B>) -> Result<CollectedBody, BodyError> {
    let mut first = Bytes::new();
    let mut rest = Vec::new();
    while let Some(bytes) = body.next_bytes().await? {
        if first.is_empty() {
            first = bytes;
        } else {
            rest.extend_from_slice(&bytes);
        }
    }
    let bytes = if rest.is_empty() { first } else { Bytes::from([&first[..], &rest].concat()) };
    Ok(CollectedBody { bytes, trailer: body.outcome.trailer().cloned() })
}

#[cfg(test)]
mod tests;
