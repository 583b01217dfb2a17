//! The system headers of an object.

use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES, HeaderName,
};

/// The system headers that are stored, in the order in which they are.
pub(crate) const SYSTEM: [HeaderName; 6] =
    [CONTENT_TYPE, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, EXPIRES];
