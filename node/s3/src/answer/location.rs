//! The address of an object, by the name under which its client reached us.

use percent_encoding::{AsciiSet, utf8_percent_encode};

use sherd_front::source::Source;

/// The address of an object at the host that was asked, of whose key the characters in `escaped` are.
pub(crate) fn of_object(
    source: Source,
    host: Option<&str>,
    bucket: &str,
    key: &str,
    escaped: &'static AsciiSet,
) -> String {
    address(if source.is_secure { "https" } else { "http" }, host, bucket, key, escaped)
}

fn address(scheme: &str, host: Option<&str>, bucket: &str, key: &str, escaped: &'static AsciiSet) -> String {
    let origin = host.map(|host| format!("{scheme}://{host}")).unwrap_or_default();
    // A client that named the bucket by host finds it there, without a path.
    let by_host = host.and_then(|host| host.strip_prefix(bucket)).is_some_and(|rest| rest.starts_with('.'));
    let key = utf8_percent_encode(key, escaped);
    if by_host { format!("{origin}/{key}") } else { format!("{origin}/{bucket}/{key}") }
}

#[cfg(test)]
mod tests {
    use percent_encoding::NON_ALPHANUMERIC;

    use super::*;

    #[test]
    fn the_address_is_where_the_client_finds_the_object() {
        const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');
        let at = |scheme, host| address(scheme, Some(host), "bucket", "a b/c", ESCAPED);
        assert_eq!(at("http", "s3.example.com:9000"), "http://s3.example.com:9000/bucket/a%20b/c");
        assert_eq!(at("https", "bucket.s3.example.com"), "https://bucket.s3.example.com/a%20b/c");
        assert_eq!(address("http", None, "bucket", "k", ESCAPED), "/bucket/k");
    }
}
