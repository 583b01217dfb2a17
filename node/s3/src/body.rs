//! Bodies on their way in and out, between s3s's streams and the store's.

use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap};
use parking_lot::Mutex;
use s3s::dto::{ETag, StreamingBlob};
use s3s::stream::{ByteStream as SizedStream, RemainingLength};
use s3s::{S3Result, StdError, s3_error};
use sherd_core::limits::PUT_BYTES_MAX;

use crate::header::checksum::{self, ChecksumAnnouncement};
use crate::protocol::context::{RequestContext, RequestId};
use sherd_store::object::{ByteStream, Error, ExpectedChecksum, Invalid, Upload};

/// A body and what its headers say about it.
///
/// # Errors
/// MissingContentLength, EntityTooLarge, InvalidDigest, or a checksum header that is none.
pub(super) fn upload(
    headers: &HeaderMap,
    extensions: &Extensions,
    stream: Option<StreamingBlob>,
) -> S3Result<Upload> {
    let size = size(headers)?;
    if size > PUT_BYTES_MAX {
        return Err(crate::error::of_invalid(Invalid::TooLarge { size, max: PUT_BYTES_MAX }));
    }
    let checksum = match checksum::announced(headers)? {
        None => None,
        Some(ChecksumAnnouncement::Value(checksum)) => Some(ExpectedChecksum::Value(checksum)),
        Some(ChecksumAnnouncement::Trailer(algorithm)) => {
            let trailers = RequestContext::of(extensions).map(|context| context.trailers.clone());
            let value = move || {
                let trailer = trailers?;
                let trailer = trailer.checksum()?;
                let same = trailer.algorithm == algorithm;
                checksum::of_trailer(algorithm, &trailer.value).filter(|_| same)
            };
            Some(ExpectedChecksum::Trailer { algorithm, value: Box::new(value) })
        }
    };
    let body = match stream {
        Some(stream) => stream.boxed(),
        None => futures::stream::empty().boxed(),
    };
    Ok(Upload { size, body, md5: md5(headers)?, checksum })
}

/// Bytes of the body. The protocol layer took the frames off and said how many are left.
fn size(headers: &HeaderMap) -> S3Result<u64> {
    let digits = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).map(str::trim);
    digits
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .map(|text| text.parse().unwrap_or(u64::MAX))
        .ok_or_else(|| s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))
}

/// `Content-MD5`.
fn md5(headers: &HeaderMap) -> S3Result<Option<[u8; 16]>> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let digest = STANDARD.decode(value.as_bytes().trim_ascii()).ok().and_then(|bytes| bytes.try_into().ok());
    match digest {
        Some(digest) => Ok(Some(digest)),
        None => Err(s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid.")),
    }
}

/// An entity tag of the store's as S3 writes it: in quotes.
pub(super) fn etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

/// A body of `length` bytes on its way out. An error on the way ends the connection and is logged
/// here, for nobody is left to be told.
pub(super) fn download(body: ByteStream, length: u64, request_id: Option<RequestId>) -> StreamingBlob {
    StreamingBlob::new(Download { body: Mutex::new(body), remaining: length, request_id })
}

/// The mutex is never locked: it only makes a stream shareable that never is shared.
struct Download {
    body: Mutex<ByteStream>,
    remaining: u64,
    request_id: Option<RequestId>,
}

impl Stream for Download {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
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
    fn failed(&self, error: Error) -> StdError {
        tracing::warn!(request_id = self.request_id.map(tracing::field::display), %error, "read ended early");
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
    use http::HeaderValue;
    use s3s::S3ErrorCode;

    use super::*;
    use sherd_store::object::UnavailableReason;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn refusal(pairs: &[(&'static str, &'static str)]) -> S3ErrorCode {
        upload(&headers(pairs), &Extensions::new(), None).unwrap_err().code().clone()
    }

    #[test]
    fn a_body_says_its_length() {
        assert_eq!(size(&headers(&[("content-length", "7")])).unwrap(), 7);
        let other = headers(&[("content-length", "7"), ("x-amz-decoded-content-length", "99")]);
        assert_eq!(size(&other).unwrap(), 7, "the protocol layer has read that one");
        for value in ["", "-1", "seven", "0x7", "+7"] {
            assert_eq!(refusal(&[("content-length", value)]), S3ErrorCode::MissingContentLength, "{value}");
        }
        assert_eq!(refusal(&[]), S3ErrorCode::MissingContentLength);
    }

    #[test]
    fn a_body_has_5_gib_at_most() {
        let most = headers(&[("content-length", "5368709120")]);
        assert_eq!(upload(&most, &Extensions::new(), None).unwrap().size, PUT_BYTES_MAX);
        for value in ["5368709121", "99999999999999999999999"] {
            assert_eq!(refusal(&[("content-length", value)]), S3ErrorCode::EntityTooLarge);
        }
    }

    #[test]
    fn a_digest_is_16_bytes_in_base64() {
        let with = |value| headers(&[("content-length", "0"), ("content-md5", value)]);
        let upload = upload(&with("1B2M2Y8AsgTpgAmY7PhCfg=="), &Extensions::new(), None).unwrap();
        assert_eq!(upload.md5.map(hex::encode).as_deref(), Some("d41d8cd98f00b204e9800998ecf8427e"));
        for value in ["", "1B2M2Y8AsgTpgAmY7PhCfg", "AAAA", "d41d8cd98f00b204e9800998ecf8427e", "?"] {
            assert_eq!(md5(&with(value)).unwrap_err().code(), &S3ErrorCode::InvalidDigest, "{value}");
        }
    }

    async fn collected(
        parts: Vec<sherd_store::object::Result<Bytes>>,
        length: u64,
    ) -> Result<Vec<u8>, StdError> {
        let mut blob = download(futures::stream::iter(parts).boxed(), length, None);
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
        let blob = download(futures::stream::empty().boxed(), 7, None);
        assert_eq!(blob.remaining_length().exact(), Some(7));
    }
}
