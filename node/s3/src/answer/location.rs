//! The address of an object, by the name under which its client reached us.

use http::header::{HOST, HeaderMap};
use percent_encoding::{AsciiSet, utf8_percent_encode};

use sherd_front::source::Source;

/// The address of an object, of whose key the characters in `escaped` are.
pub(crate) fn of_object(
    source: Source,
    headers: &HeaderMap,
    bucket: &str,
    key: &str,
    escaped: &'static AsciiSet,
) -> String {
    address(if source.is_secure { "https" } else { "http" }, headers, bucket, key, escaped)
}

fn address(scheme: &str, headers: &HeaderMap, bucket: &str, key: &str, escaped: &'static AsciiSet) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = host.map(|host| format!("{scheme}://{host}")).unwrap_or_default();
    // A client that named the bucket by host finds it there, without a path.
    let by_host = host.and_then(|host| host.strip_prefix(bucket)).is_some_and(|rest| rest.starts_with('.'));
    let key = utf8_percent_encode(key, escaped);
    if by_host { format!("{origin}/{key}") } else { format!("{origin}/{bucket}/{key}") }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use percent_encoding::NON_ALPHANUMERIC;

    use super::*;

    #[test]
    fn the_address_is_where_the_client_finds_the_object() {
        const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');
        let at = |scheme, host| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            address(scheme, &headers, "bucket", "a b/c", ESCAPED)
        };
        assert_eq!(at("http", "s3.example.com:9000"), "http://s3.example.com:9000/bucket/a%20b/c");
        assert_eq!(at("https", "bucket.s3.example.com"), "https://bucket.s3.example.com/a%20b/c");
        assert_eq!(address("http", &HeaderMap::new(), "bucket", "k", ESCAPED), "/bucket/k");
    }
}
