//! Bodies on their way out, between the store's streams and s3s's, and entity tags.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::HeaderMap;
use http::header::{ETAG, HeaderValue};
use parking_lot::Mutex;
use s3s::StdError;
use s3s::dto::{ETag as EntityTag, StreamingBlob};
use s3s::stream::{ByteStream as SizedStream, RemainingLength};

use crate::wire::context::RequestId;
use sherd_store::iam::KeyRevocation;
use sherd_store::object::{ByteStream, Error};

/// An entity tag of the store's as S3 writes it: in quotes.
pub(crate) fn etag(etag: &str) -> EntityTag {
    EntityTag::Strong(etag.to_owned())
}

/// Says an entity tag in a header.
pub(crate) fn add_etag(etag: &str, headers: &mut HeaderMap) {
    let mut text = String::with_capacity(etag.len() + 2);
    text.push('"');
    text.push_str(etag);
    text.push('"');
    if let Ok(etag) = HeaderValue::try_from(text) {
        headers.insert(ETAG, etag);
    }
}

/// A body of `length` bytes on its way out. An error on the way ends the connection and is logged
/// here: the client has its status already. The revocation of the reader's key is one.
pub(crate) fn download(
    body: ByteStream,
    length: u64,
    request_id: RequestId,
    revocation: Option<KeyRevocation>,
) -> StreamingBlob {
    StreamingBlob::new(Download { body: Mutex::new(body), remaining: length, request_id, revocation })
}

/// The mutex is never locked: it only makes a stream shareable that never is shared.
struct Download {
    body: Mutex<ByteStream>,
    remaining: u64,
    request_id: RequestId,
    revocation: Option<KeyRevocation>,
}

/// The requests of the reader's key were ended.
#[derive(Debug, thiserror::Error)]
#[error("the access key was revoked")]
struct RevokedKey;

impl Stream for Download {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.revocation.as_ref().is_some_and(KeyRevocation::is_revoked) {
            return Poll::Ready(Some(Err(self.failed(RevokedKey))));
        }
        let Some(next) = std::task::ready!(self.body.get_mut().poll_next_unpin(context)) else {
            if self.remaining > 0 {
                let what = format!("the body ended {} bytes early", self.remaining);
                self.remaining = 0;
                return Poll::Ready(Some(Err(self.failed(Error::Internal { what }))));
            }
            return Poll::Ready(None);
        };
        match next {
            Ok(bytes) => {
                self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
                Poll::Ready(Some(Ok(bytes)))
            }
            Err(error) => Poll::Ready(Some(Err(self.failed(error)))),
        }
    }
}

impl Download {
    fn failed(&self, error: impl std::error::Error + Send + Sync + 'static) -> StdError {
        tracing::warn!(request_id = %self.request_id, %error, "read ended early");
        Box::new(error)
    }
}

impl SizedStream for Download {
    fn remaining_length(&self) -> RemainingLength {
        usize::try_from(self.remaining)
            .map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use sherd_store::object::UnavailableReason;

    async fn collected(
        parts: Vec<sherd_store::object::Result<Bytes>>,
        length: u64,
    ) -> Result<Vec<u8>, StdError> {
        let mut blob = download(futures::stream::iter(parts).boxed(), length, RequestId::from_u64(1), None);
        let mut all = Vec::new();
        while let Some(bytes) = blob.next().await {
            all.extend_from_slice(&bytes?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_body_that_breaks_never_looks_complete() {
        let part = || Ok(Bytes::from_static(b"abc"));
        assert_eq!(collected(vec![part(), part()], 6).await.unwrap(), b"abcabc");
        assert!(collected(vec![part(), Err(UnavailableReason::Data.into())], 6).await.is_err());
        assert!(collected(vec![part()], 6).await.is_err(), "a body that ends early is an error too");
    }

    #[test]
    fn a_body_on_its_way_out_knows_its_length() {
        let blob = download(futures::stream::empty().boxed(), 7, RequestId::from_u64(1), None);
        assert_eq!(blob.remaining_length().exact(), Some(7));
    }
}
