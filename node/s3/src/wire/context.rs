//! The id of a request, and the trailer of its body.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

use crate::wire::aws_chunked::TrailerChecksum;
use crate::wire::body::BodyOutcome;

/// The id of one request: 16 hex digits, as `x-amz-request-id` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId([u8; 16]);

impl RequestId {
    pub(crate) fn from_u64(number: u64) -> Self {
        let mut text = [0; 16];
        hex::encode_to_slice(number.to_be_bytes(), &mut text).expect("8 bytes are 16 digits");
        text.make_ascii_uppercase();
        Self(text)
    }

    /// The number that it shows.
    pub(crate) fn number(&self) -> u64 {
        u64::from_str_radix(self.as_str(), 16).expect("it was made of a number")
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }

    pub(crate) fn header(&self) -> HeaderValue {
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
pub struct Trailers(pub(crate) Option<Arc<BodyOutcome>>);

impl Trailers {
    /// The checksum that the trailer carried.
    pub fn checksum(&self) -> Option<&TrailerChecksum> {
        self.0.as_ref()?.trailer()
    }
}
