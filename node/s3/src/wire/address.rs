//! The address of a request, by host and path: virtual-host style and path style. The path is decoded here,
//! once.
//!
//! `http://b.example.com/k` is `/b/k`; nothing else of the path changes: `//`, `.` and `..` stay in the key.
//!
//! `ACCOUNT_BLOCK` is a path of S3 Control, whose requests SDKs sign for `s3`, too. It is also the path of
//! an object in a bucket of the name `v20180820`. The header `x-amz-account-id` makes the difference: S3
//! Control requires it, S3 does not have it. The host may begin with the account's number, as SDKs write it.

use std::borrow::Cow;

use http::HeaderName;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use sherd_core::limits::KEY_BYTES_MAX;

use crate::wire::refusal::{Code, Refusal};

/// The path of the account's public access block.
const ACCOUNT_BLOCK: &str = "/v20180820/configuration/publicAccessBlock";
/// The header of a request that is about an account.
pub(crate) const ACCOUNT_ID: HeaderName = HeaderName::from_static("x-amz-account-id");

/// Whether a request is about the account, and not about a bucket or an object.
pub(crate) fn is_of_account(head: &Parts) -> bool {
    head.uri.path() == ACCOUNT_BLOCK && head.headers.contains_key(ACCOUNT_ID)
}

/// The account, service, bucket or object that a request addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The public access block of the account.
    Account,
    /// The service: no bucket.
    Service,
    /// A bucket.
    Bucket,
    /// An object.
    Object,
}

/// A request's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The bucket that the host names.
    pub host_bucket: Option<String>,
    /// How deep it goes.
    pub level: Level,
    /// The bucket that it names, in host or path; empty where it names none.
    pub bucket: String,
    /// The key that it names; empty where it names none.
    pub key: String,
}

/// Why an address is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// The path does not decode to text, or does not start with `/`.
    #[error("the path is not UTF-8")]
    Path,
    /// The host's bucket has characters that no bucket has.
    #[error("the host names no bucket")]
    Host,
    /// The key is longer than S3 allows.
    #[error("the key is too long")]
    KeyTooLong {
        /// The length of the key in bytes.
        bytes: usize,
    },
}

impl From<BadAddress> for Refusal {
    fn from(error: BadAddress) -> Self {
        match error {
            BadAddress::Path => Self::new(Code::InvalidURI),
            BadAddress::Host => Self::new(Code::InvalidBucketName),
            BadAddress::KeyTooLong { bytes } => Self::new(Code::KeyTooLongError)
                .with("Size", bytes.to_string())
                .with("MaxSizeAllowed", KEY_BYTES_MAX.to_string()),
        }
    }
}

/// The host a request names, with its port.
pub fn host(head: &Parts) -> Option<&str> {
    match head.headers.get(http::header::HOST) {
        Some(host) => host.to_str().ok(),
        None => head.uri.authority().map(http::uri::Authority::as_str),
    }
}

impl Address {
    /// Reads the address of a request. `domains` are the names under which buckets are hosts.
    ///
    /// # Errors
    /// [`BadAddress`] when the path names nothing that could exist.
    pub fn of(head: &Parts, domains: &[String]) -> Result<Self, BadAddress> {
        let host_bucket = host(head).and_then(|host| bucket_of(host, domains)).map(Cow::into_owned);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if host_bucket.as_ref().is_some_and(|bucket| !bucket.bytes().all(is_name)) {
            // `a?acl.s3.example.com` would become a path with a query of its own.
            return Err(BadAddress::Host);
        }
        let path = percent_decode_str(head.uri.path()).decode_utf8().map_err(|_| BadAddress::Path)?;
        let path = path.strip_prefix('/').ok_or(BadAddress::Path)?;
        let (bucket, key) = match &host_bucket {
            Some(bucket) => (bucket.as_str(), path),
            None => path.split_once('/').unwrap_or((path, "")),
        };
        if is_of_account(head) {
            let (bucket, key) = (String::new(), String::new());
            return Ok(Self { host_bucket, level: Level::Account, bucket, key });
        }
        let level = match (bucket, key) {
            _ if host_bucket.is_none() && path.is_empty() => Level::Service,
            (_, "") => Level::Bucket,
            (_, key) if key.len() > KEY_BYTES_MAX => {
                return Err(BadAddress::KeyTooLong { bytes: key.len() });
            }
            _ => Level::Object,
        };
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Ok(Self { host_bucket, level, bucket, key })
    }
}

/// The bucket in a host name, when it stands before one of the domains.
fn bucket_of<'a>(host: &'a str, domains: &[String]) -> Option<Cow<'a, str>> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    for domain in domains {
        let Some(cut) = name.len().checked_sub(domain.len()) else { continue };
        let Some((bucket, end)) = name.split_at_checked(cut) else { continue };
        if !end.eq_ignore_ascii_case(domain) {
            continue;
        }
        if bucket.is_empty() {
            return None;
        }
        if let Some(bucket) = bucket.strip_suffix('.').filter(|bucket| !bucket.is_empty()) {
            // Bucket names have no upper case; host names do not care.
            return Some(if bucket.bytes().any(|byte| byte.is_ascii_uppercase()) {
                Cow::Owned(bucket.to_ascii_lowercase())
            } else {
                Cow::Borrowed(bucket)
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, path: &str) -> Result<(Option<String>, Level), BadAddress> {
        let request = http::Request::get(path).header("host", host).body(()).expect("a request");
        let head = request.into_parts().0;
        let domains = ["s3.example.com".to_owned(), "store.local".to_owned()];
        let address = Address::of(&head, &domains)?;
        Ok((address.host_bucket, address.level))
    }

    #[test]
    fn hosts_under_a_domain_name_buckets() {
        let bucket = |name: &str| Some(name.to_owned());
        for (host, path, expected) in [
            ("b.s3.example.com", "/", (bucket("b"), Level::Bucket)),
            ("b.s3.example.com:9000", "/k", (bucket("b"), Level::Object)),
            ("a.b.Store.Local.", "//k", (bucket("a.b"), Level::Object)),
            ("B.store.local", "/", (bucket("b"), Level::Bucket)),
            ("s3.example.com", "/b/k", (None, Level::Object)),
            ("xs3.example.com", "/b", (None, Level::Bucket)),
            (".s3.example.com", "/b", (None, Level::Bucket)),
            ("127.0.0.1:9000", "/b/", (None, Level::Bucket)),
            ("[::1]:9000", "/", (None, Level::Service)),
        ] {
            assert_eq!(address(host, path), Ok(expected), "{host} {path}");
        }
    }

    #[test]
    fn paths_keep_empty_segments() {
        assert_eq!(address("h", "/b//"), Ok((None, Level::Object)));
        assert_eq!(address("h", "//"), Ok((None, Level::Bucket)), "an empty name is refused later");
        assert_eq!(address("h", "/b%2Fk"), Ok((None, Level::Object)));
    }

    #[test]
    fn names_are_decoded() {
        for (host, path, bucket, key) in [
            ("h", "/", "", ""),
            ("h", "/b", "b", ""),
            ("h", "/b/", "b", ""),
            ("h", "/b%2Fa%20b", "b", "a b"),
            ("h", "/b//a/../b/", "b", "/a/../b/"),
            ("b.store.local", "/a%2Fb", "b", "a/b"),
            ("b.store.local", "/", "b", ""),
        ] {
            let request = http::Request::get(path).header("host", host).body(()).expect("a request");
            let head = request.into_parts().0;
            let address = Address::of(&head, &["store.local".to_owned()]).expect(path);
            assert_eq!((&*address.bucket, &*address.key), (bucket, key), "{host} {path}");
        }
    }

    #[test]
    fn a_header_tells_the_account_from_an_object_of_that_path() {
        let domains = ["store.local".to_owned()];
        let level = |host: &str, path: &str, has_account: bool| {
            let mut request = http::Request::get(path).header("host", host);
            if has_account {
                request = request.header(ACCOUNT_ID, "000000000001");
            }
            let head = request.body(()).expect("a request").into_parts().0;
            Address::of(&head, &domains).expect("an address").level
        };
        for host in ["h", "store.local", "000000000001.store.local", "000000000001.h:9000"] {
            assert_eq!(level(host, ACCOUNT_BLOCK, true), Level::Account, "{host}");
            assert_eq!(level(host, ACCOUNT_BLOCK, false), Level::Object, "{host}");
        }
        for path in
            ["/v20180820/configuration/publicaccessblock", "/v20180820/configuration/publicAccessBlock/"]
        {
            assert_eq!(level("h", path, true), Level::Object, "{path}");
        }
    }

    #[test]
    fn keys_have_a_longest_length() {
        let path = |bytes: usize| format!("/b/{}", "%41".repeat(bytes));
        assert_eq!(address("h", &path(1024)), Ok((None, Level::Object)));
        assert_eq!(address("h", &path(1025)), Err(BadAddress::KeyTooLong { bytes: 1025 }));
        assert_eq!(address("h", "/b/%ff"), Err(BadAddress::Path));
    }

    #[test]
    fn hosts_cannot_bring_a_path_or_query() {
        for host in ["a?acl.store.local", "a/b.store.local", "a%2f.store.local", "a b.store.local"] {
            assert_eq!(address(host, "/"), Err(BadAddress::Host), "{host}");
        }
    }
}
