//! The request's headers as they came, beside the copy that s3s reads.
//!
//! s3s refuses what S3 takes: a `Range` that is ignored, a list of entity tags, a date that is no
//! condition, an `Expires` that is no date, a header of UTF-8 text, metadata sent in two lines; and
//! by a content type it takes an upload for a form. So the protocol layer calls [`set_aside`] once a request is authenticated and before s3s parses it;
//! the operations read [`of`] the request. A request that never passed there, or has none of them, is
//! read as s3s saw it.

use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES, HeaderMap,
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use s3s::S3Request;

/// Prefix of user metadata.
pub(crate) const USER_METADATA: &str = "x-amz-meta-";

/// Headers that the operations read themselves.
const TAKEN: [HeaderName; 11] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
    EXPIRES,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE,
    RANGE,
];

/// Prefixes of more of them.
const TAKEN_PREFIXES: [&str; 2] = [USER_METADATA, "x-amz-copy-source-if-"];

/// All headers of a request, in its extensions.
#[derive(Debug, Clone)]
struct RawHeaders(HeaderMap);

/// Keeps a request's headers whole in its extensions and takes from the request those that s3s
/// would refuse where S3 does not.
pub(crate) fn set_aside(parts: &mut http::request::Parts) {
    if !parts.headers.keys().any(is_taken) {
        // Then s3s sees what came, and so does who asks [`of`] it.
        return;
    }
    let whole = parts.headers.clone();
    for name in whole.keys().filter(|name| is_taken(name)) {
        parts.headers.remove(name);
    }
    parts.extensions.insert(RawHeaders(whole));
}

fn is_taken(name: &HeaderName) -> bool {
    TAKEN.contains(name) || TAKEN_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

/// The headers of a request, whole.
pub(crate) fn of<T>(request: &S3Request<T>) -> &HeaderMap {
    request.extensions.get::<RawHeaders>().map_or(&request.headers, |raw| &raw.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_s3s_would_refuse_is_kept_from_it_and_from_nobody_else() {
        let mut request = http::Request::put("/b/k");
        for (name, value) in [
            ("host", "h"),
            ("range", "nonsense"),
            ("content-type", "multipart/form-data"),
            ("if-match", "\"a\", \"b\""),
            ("x-amz-meta-a", "1"),
            ("x-amz-meta-a", "2"),
            ("x-amz-copy-source-if-match", "\"a\", \"b\""),
            ("x-amz-copy-source", "b/k"),
            ("content-md5", "x"),
        ] {
            request = request.header(name, value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        set_aside(&mut parts);
        let mut left: Vec<&str> = parts.headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-md5", "host", "x-amz-copy-source"]);
        let raw = &parts.extensions.get::<RawHeaders>().unwrap().0;
        assert_eq!(raw.get_all("x-amz-meta-a").iter().count(), 2);
        assert_eq!(raw.get("range").unwrap(), "nonsense");
    }

    #[test]
    fn headers_that_s3s_takes_as_they_are_have_no_second_copy() {
        let request = http::Request::get("/b/k").header("host", "h").header("x-amz-date", "d");
        let mut parts = request.body(()).unwrap().into_parts().0;
        set_aside(&mut parts);
        assert_eq!(parts.headers.len(), 2);
        assert!(parts.extensions.get::<RawHeaders>().is_none());
    }
}
