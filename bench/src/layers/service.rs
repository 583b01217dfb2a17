//! Clients of the protocol service without a connection: what hyper would hand it, handed by hand.
//!
//! Heads are made and signed before the clock starts and are not counted, so what is measured is
//! the service alone: from a parsed head to the last byte of the answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use sherd_node::s3::protocol::Protocol;

use super::clients::Client;
use super::error::Failure;
use super::payload::Body;
use super::sign::{PAYLOAD, Signer};
use super::store::BUCKET;
use super::work::{Op, Work, key};
use crate::alloc::uncounted;

/// Bytes of an error's document that are kept.
const ANSWER_BYTES_MAX: usize = 1024;

/// A client of the service.
pub(super) struct ServiceClient {
    pub(super) protocol: Protocol,
    pub(super) signer: Arc<Signer>,
    pub(super) work: Work,
}

/// A body as hyper would bring it.
pub(super) struct Pieces(pub(super) Body);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next_piece().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left())
    }
}

impl ServiceClient {
    fn request(&self, method: &Method, number: u64) -> Request<Pieces> {
        let path = format!("/{BUCKET}/{}", key(number));
        let (mut scratch, mut authorization) = (Vec::new(), Vec::new());
        self.signer.authorize(method.as_str(), &path, &mut scratch, &mut authorization);
        let bytes = if *method == Method::PUT { self.work.bytes } else { 0 };
        let mut request = Request::builder()
            .method(method)
            .uri(&path)
            .header("host", self.signer.host())
            .header("x-amz-date", self.signer.date())
            .header("x-amz-content-sha256", PAYLOAD)
            .header("authorization", authorization);
        if *method == Method::PUT {
            request = request.header("content-length", bytes);
        }
        request.body(Pieces(self.work.arena.body(number, bytes))).expect("a valid head")
    }

    async fn read(&self, number: u64) -> Result<Duration, Failure> {
        let request = uncounted(|| self.request(&Method::GET, number));
        self.exchange(request, self.work.body(number)).await
    }

    /// Sends a request and takes the whole answer, whose body must be `expected`.
    async fn exchange(&self, request: Request<Pieces>, mut expected: Body) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let (_, mut response) = self.protocol.call(request).await;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(refused(status, response.into_body()).await);
        }
        while let Some(frame) = response.body_mut().frame().await {
            let frame = frame.map_err(Failure::Failed)?;
            if !frame.data_ref().is_none_or(|bytes| expected.is_next(bytes)) {
                return Err(Failure::OtherBytes);
            }
        }
        drop(response);
        let took = begun.elapsed();
        if expected.left() > 0 { Err(Failure::OtherBytes) } else { Ok(took) }
    }
}

async fn refused(status: u16, body: s3s::Body) -> Failure {
    let text = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Failure::Failed(error),
    };
    let text = text.get(..ANSWER_BYTES_MAX).unwrap_or(&text);
    Failure::Answer { status, text: String::from_utf8_lossy(text).into_owned() }
}

impl Client for ServiceClient {
    async fn one(&mut self) -> Result<Duration, Failure> {
        let number = self.work.next();
        if self.work.op == Op::Get {
            return self.read(number).await;
        }
        let request = uncounted(|| self.request(&Method::PUT, number));
        self.exchange(request, self.work.arena.body(number, 0)).await
    }

    async fn check(&mut self) -> Result<(), Failure> {
        match self.work.written() {
            Some(number) => self.read(number).await.map(drop),
            None => Ok(()),
        }
    }
}
