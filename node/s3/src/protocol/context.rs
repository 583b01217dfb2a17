//! What the layer knows of a request and the operation cannot read from s3s' input.
//!
//! One value in the request's extensions, made by this layer alone: extensions never come from the
//! wire. Headers that s3s does not parse (If-Match on a copy's destination, say) are in the
//! request's header map as they came; what was taken out of it is here.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, HeaderValue};
use sherd_core::record::ChecksumAlgorithm;
use sherd_core::register::call::ClientCall;

use crate::auth::Caller;

use super::aws_chunked::TrailerChecksum;
use super::body::BodyOutcome;
use super::operation::Operation;

/// The id of one request: 16 hex digits, as `x-amz-request-id` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId([u8; 16]);

impl RequestId {
    pub(super) fn from_u64(number: u64) -> Self {
        let mut text = [0; 16];
        hex::encode_to_slice(number.to_be_bytes(), &mut text).expect("8 bytes are 16 digits");
        text.make_ascii_uppercase();
        Self(text)
    }

    /// The number that it shows.
    pub(super) fn number(&self) -> u64 {
        u64::from_str_radix(self.as_str(), 16).expect("it was made of a number")
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }

    pub(super) fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).expect("hex digits are a header value")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({})", self.as_str())
    }
}

/// The trailer of the request's body; has a value once the body has been read to its end.
#[derive(Debug, Clone, Default)]
pub struct Trailers(pub(super) Option<Arc<BodyOutcome>>);

impl Trailers {
    /// The checksum that the trailer carried.
    pub fn checksum(&self) -> Option<&TrailerChecksum> {
        self.0.as_ref()?.trailer()
    }
}

/// What goes beside s3s' input.
#[derive(Debug, Clone, Default)]
pub struct RequestExtras {
    /// The checksum that stands in a header of the request.
    pub header_checksum: Option<ChecksumAlgorithm>,
    /// The checksum that the trailer will carry.
    pub trailer_checksum: Option<ChecksumAlgorithm>,
    /// The Content-Type of a CreateMultipartUpload that says `multipart/form-data`: s3s would take
    /// it for a form and is not shown it. Nothing in every other case.
    pub content_type: Option<HeaderValue>,
    /// The document of a CreateBucket: s3s skips elements of it that it does not know.
    pub document: Option<Bytes>,
}

/// A request that passed the layer.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Its id.
    pub request_id: RequestId,
    /// Who made it.
    pub caller: Caller,
    /// What it asks for.
    pub operation: Operation,
    /// What follows its body.
    pub trailers: Trailers,
    /// What s3s' input lacks.
    pub extras: RequestExtras,
    /// The call that it is a sending of, where its signature vouches for that.
    pub call: Option<ClientCall>,
}

impl RequestContext {
    /// The context of a request; there in every request that came through the layer.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// The call that a request is a sending of.
    pub fn call_of(extensions: &Extensions) -> Option<ClientCall> {
        Self::of(extensions)?.call
    }
}
