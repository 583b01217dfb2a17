//! The body of a form: its fields first, then its file as a stream.
//!
//! ```text
//! FormBody --fields--> FileStart, FormFile --poll--> bytes of the file ... then the rest, read and dropped
//! ```
//! The stream ends well only when the file has a length that it may have, and nothing behind it contradicts.
//! So an operation that waits for the end of the stream stores nothing of a form that is refused.

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Body;
use sherd_front::unproven::lane::UnprovenPlace;

use super::{BodyError, BodyOutcome, CheckedBody, ClientBody, TransportError};
use crate::wire::form::FormError;
use crate::wire::form::parser::{Delimiter, PartScanner, PartStep};
use crate::wire::form::prelude::{FileStart, Prelude};
use crate::wire::form::tail::Tail;

/// A form of which nothing was read.
#[derive(Debug)]
pub struct FormBody<B> {
    body: CheckedBody<B>,
    delimiter: Delimiter,
}

impl<B: ClientBody> FormBody<B> {
    /// A form whose parts have this delimiter.
    pub fn new(body: CheckedBody<B>, delimiter: Delimiter) -> Self {
        Self { body, delimiter }
    }

    /// Reads up to the file, and counts the bytes that come for the place of the form.
    ///
    /// # Errors
    /// [`BodyError`] where the body fails or is malformed before its file.
    pub async fn fields(mut self, place: &UnprovenPlace) -> Result<(FileStart, FormFile<B>), BodyError> {
        let mut prelude = Prelude::new(self.delimiter.clone());
        while let Some(bytes) = self.body.next_bytes().await? {
            place.moved(bytes.len());
            if let Some(mut start) = prelude.take(bytes)? {
                let [first, second] = std::mem::take(&mut start.bytes);
                let stage = FormStage::File(PartScanner::new(self.delimiter.clone(), first));
                let outcome = self.body.outcome();
                let file = FormFile {
                    body: self.body,
                    delimiter: self.delimiter,
                    outcome,
                    second,
                    stage,
                    size: 0,
                    sizes: 0..=u64::MAX,
                    expected: 0,
                };
                return Ok((start, file));
            }
        }
        Err(FormError::Malformed.into())
    }
}

/// The file of a form, as a stream of its bytes.
#[derive(Debug)]
pub struct FormFile<B> {
    body: CheckedBody<B>,
    delimiter: Delimiter,
    outcome: Arc<BodyOutcome>,
    /// Bytes behind those that the scanner of the stage has.
    second: Bytes,
    stage: FormStage,
    /// Bytes of the file that came.
    size: u64,
    /// How many there may be.
    sizes: RangeInclusive<u64>,
    /// How many there are, if nothing but the end of the form follows them.
    expected: u64,
}

#[derive(Debug)]
enum FormStage {
    File(PartScanner),
    Tail(Tail),
}

impl<B: ClientBody> FormFile<B> {
    /// Bounds the bytes of the file, of which there are `expected` as far as is known.
    #[must_use]
    pub fn bounded(self, sizes: RangeInclusive<u64>, expected: u64) -> Self {
        Self { sizes, expected, ..self }
    }

    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            match &mut self.stage {
                FormStage::File(scanner) => match scanner.step() {
                    PartStep::Data(bytes) => {
                        self.size += bytes.len() as u64;
                        let max = *self.sizes.end();
                        if self.size > max {
                            let size = self.size.max(self.expected);
                            return Poll::Ready(Err(FormError::FileTooLarge { size, max }.into()));
                        }
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                    PartStep::End(behind) => {
                        let (size, min) = (self.size, *self.sizes.start());
                        if size < min {
                            return Poll::Ready(Err(FormError::FileTooSmall { size, min }.into()));
                        }
                        let mut tail = Tail::new(self.delimiter.clone());
                        tail.take(behind)?;
                        self.stage = FormStage::Tail(tail);
                    }
                    PartStep::NeedMore => {
                        let next = ready!(Self::poll_bytes(&mut self.second, &mut self.body, cx))?;
                        scanner.feed(next.ok_or(FormError::Malformed)?);
                    }
                },
                FormStage::Tail(tail) => {
                    match ready!(Self::poll_bytes(&mut self.second, &mut self.body, cx))? {
                        Some(bytes) => tail.take(bytes)?,
                        None => return Poll::Ready(Ok(None)),
                    }
                }
            }
        }
    }

    /// The next bytes of the body.
    fn poll_bytes(
        second: &mut Bytes,
        body: &mut CheckedBody<B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        if !second.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(second))));
        }
        let next = ready!(Pin::new(body).poll_frame(cx)).transpose()?;
        // Every frame is of data.
        Poll::Ready(Ok(next.map(|frame| frame.into_data().unwrap_or_default())))
    }
}

impl<B: ClientBody> futures::Stream for FormFile<B> {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(fault) = self.outcome.fault() {
            return Poll::Ready(Some(Err(fault.clone().into())));
        }
        Poll::Ready(match ready!(self.poll_file(cx)) {
            Ok(bytes) => bytes.map(Ok),
            Err(error) => {
                self.outcome.fail(&error);
                Some(Err(error.into()))
            }
        })
    }
}
