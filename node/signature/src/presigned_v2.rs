//! Presigned URLs of Signature Version 2: the query's `AWSAccessKeyId`, `Expires` and `Signature`.
//!
//! ```text
//! string to sign := METHOD \n Content-MD5 \n Content-Type \n Expires \n
//!                   x-amz-a:value \n ... /bucket/path ?sub-resource&response-content-type=value
//! signature      := base64(HMAC-SHA1(secret, string to sign))
//! ```
//! AWS, "Signing and authenticating REST requests", section "Query string request authentication
//! alternative". boto3 and the AWS command line sign so by default in us-east-1. The string has no host, no
//! region and not every parameter, so what it does not cover is refused, and so is any method but GET, HEAD
//! and PUT. Called by the verifier, where the configuration allows it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use sha1::Sha1;
use subtle::ConstantTimeEq as _;

use crate::query::{Pair, Query};

use super::error::{AuthError, Mismatch};
use super::payload::PayloadForm;
use super::secret::Secret;

const ACCESS_KEY: &str = "AWSAccessKeyId";
const EXPIRES: &str = "Expires";
const SIGNATURE: &str = "Signature";
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// The parameters that carry the signature; operations never see them.
pub const PARAMETERS: [&str; 3] = [ACCESS_KEY, EXPIRES, SIGNATURE];

/// Headers beside `x-amz-*` that are signed, and that a URL may carry in its query: boto3 puts them there.
pub const HEADERS: [HeaderName; 2] = [CONTENT_MD5, CONTENT_TYPE];

/// Parameters that are part of the resource, sorted: those that AWS's page lists and those that botocore
/// signs.
const SIGNED_PARAMETERS: &[&str] = &[
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "defaultObjectAcl",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "select",
    "select-type",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// A URL's own claims.
#[derive(Debug)]
pub struct PresignedV2<'a> {
    /// The access key.
    pub access_key: Cow<'a, str>,
    /// The second at which it ends, since the Unix epoch.
    expires_seconds: u64,
    /// `expires_seconds` as it came, for it is signed so.
    expires: Cow<'a, str>,
    signature: Cow<'a, str>,
}

/// Whether a query claims to be signed with Signature Version 2.
pub fn is_in(query: &Query<'_>) -> bool {
    query.has(SIGNATURE) || query.has(ACCESS_KEY)
}

impl<'a> PresignedV2<'a> {
    /// Reads the claims of a request that is made with a method which may be signed so.
    ///
    /// # Errors
    /// [`AuthError`] for another method, for a parameter that is missing or stands twice, and for one that
    /// the signature does not cover.
    pub fn parse(method: &Method, query: &Query<'a>) -> Result<Self, AuthError> {
        if !matches!(*method, Method::GET | Method::HEAD | Method::PUT) {
            return Err(AuthError::UnsupportedMechanism);
        }
        let value = |name| {
            let pair = query.get(name).filter(|_| query.count(name) == 1);
            let value = pair.and_then(|pair| pair.value().ok()).filter(|value| !value.is_empty());
            value.ok_or(AuthError::MissingV2Parameters)
        };
        let (access_key, signature, expires) = (value(ACCESS_KEY)?, value(SIGNATURE)?, value(EXPIRES)?);
        let is_number = expires.bytes().all(|byte| byte.is_ascii_digit());
        let expires_seconds = expires.parse().ok().filter(|_| is_number);
        let invalid = || AuthError::InvalidV2Expiry { given: (&*expires).into() };
        let expires_seconds = expires_seconds.ok_or_else(invalid)?;
        let unsigned: Vec<&str> =
            query.pairs().iter().map(|pair| &*pair.name).filter(|name| !is_signed(name)).collect();
        if !unsigned.is_empty() {
            return Err(AuthError::ParametersNotSigned { names: unsigned.join(", ") });
        }
        Ok(Self { access_key, expires_seconds, expires, signature })
    }

    /// Checks that the URL still holds.
    ///
    /// # Errors
    /// [`AuthError::Expired`]
    pub fn check_time(&self, server_ms: u64) -> Result<(), AuthError> {
        let ended_ms = self.expires_seconds.saturating_mul(1000);
        if server_ms > ended_ms {
            return Err(AuthError::Expired { expires_seconds: None, ended_ms, server_ms });
        }
        Ok(())
    }

    /// How the body is covered: not at all, unless a signed header says more.
    ///
    /// # Errors
    /// [`AuthError::InvalidPayloadHash`], also for frames that are signed: SigV2 has no key for them.
    pub fn payload(head: &Parts, query: &Query<'_>) -> Result<PayloadForm, AuthError> {
        let headers = amz_headers(head, query)?;
        let given = headers.get("x-amz-content-sha256").map_or(PayloadForm::UNSIGNED, String::as_str);
        PayloadForm::parse(given)
            .filter(|form| !matches!(form, PayloadForm::SignedFrames { .. }))
            .ok_or_else(|| AuthError::InvalidPayloadHash { given: given.into() })
    }

    /// Compares the signature with that of the secret.
    ///
    /// # Errors
    /// [`AuthError::SignatureMismatch`], and [`AuthError::BadUri`] for a value that is not text.
    pub fn check_signature(
        &self,
        head: &Parts,
        query: &Query<'_>,
        host_bucket: Option<&str>,
        secret: &Secret,
    ) -> Result<(), AuthError> {
        let key = Hmac::<Sha1>::new_from_slice(secret.expose().as_bytes())
            .expect("HMAC takes keys of every length");
        let sent = STANDARD.decode(&*self.signature).unwrap_or_default();
        let matches = |text: &str| {
            let computed = key.clone().chain_update(text).finalize().into_bytes();
            bool::from(computed.as_slice().ct_eq(&sent))
        };
        let path = head.uri.path();
        let string_to_sign = self.string_to_sign(head, query, host_bucket, path)?;
        if matches(&string_to_sign) {
            return Ok(());
        }
        // boto3 signs `/bucket/` for a bucket in the path, however the URL ends.
        let is_bucket = host_bucket.is_none() && path.len() > 1 && path.rfind('/') == Some(0);
        if is_bucket && matches(&self.string_to_sign(head, query, None, &format!("{path}/"))?) {
            return Ok(());
        }
        Err(AuthError::SignatureMismatch(Box::new(Mismatch {
            access_key: (&*self.access_key).into(),
            string_to_sign,
            canonical_request: None,
            signature: (&*self.signature).into(),
        })))
    }

    fn string_to_sign(
        &self,
        head: &Parts,
        query: &Query<'_>,
        host_bucket: Option<&str>,
        path: &str,
    ) -> Result<String, AuthError> {
        let mut text = String::with_capacity(256);
        for part in [head.method.as_str(), &signed_header(head, query, &CONTENT_MD5)?] {
            text.push_str(part);
            text.push('\n');
        }
        for part in [&*signed_header(head, query, &CONTENT_TYPE)?, &*self.expires] {
            text.push_str(part);
            text.push('\n');
        }
        for (name, value) in amz_headers(head, query)? {
            text.extend([&*name, ":", &*value, "\n"]);
        }
        if let Some(bucket) = host_bucket {
            text.extend(["/", bucket]);
        }
        text.push_str(path);
        push_parameters(query, &mut text)?;
        Ok(text)
    }
}

/// Whether a parameter is covered: part of the signature, of the resource, or a header in the query.
fn is_signed(name: &str) -> bool {
    PARAMETERS.contains(&name) || SIGNED_PARAMETERS.binary_search(&name).is_ok() || is_header(name)
}

/// Whether a parameter is a header that the URL carries for its user.
fn is_header(name: &str) -> bool {
    is_amz(name) || HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header.as_str()))
}

fn is_amz(name: &str) -> bool {
    name.as_bytes().first_chunk().is_some_and(|start: &[u8; 6]| start.eq_ignore_ascii_case(b"x-amz-"))
}

fn decoded<'a>(pair: &Pair<'a>) -> Result<Cow<'a, str>, AuthError> {
    pair.value().map_err(|_| AuthError::BadUri)
}

/// The value of a header in its own line, else in the query, else nothing.
fn signed_header<'a>(
    head: &'a Parts,
    query: &Query<'a>,
    name: &HeaderName,
) -> Result<Cow<'a, str>, AuthError> {
    if let Some(value) = head.headers.get(name) {
        return Ok(String::from_utf8_lossy(value.as_bytes().trim_ascii()));
    }
    let pair = query.pairs().iter().find(|pair| pair.name.eq_ignore_ascii_case(name.as_str()));
    pair.map_or(Ok(Cow::Borrowed("")), decoded)
}

/// Every `x-amz-*` header by its name, the values of one name joined; one that only the query has among them.
fn amz_headers(head: &Parts, query: &Query<'_>) -> Result<BTreeMap<String, String>, AuthError> {
    let mut headers = BTreeMap::new();
    for name in head.headers.keys().filter(|name| is_amz(name.as_str())) {
        let values = head.headers.get_all(name).iter();
        let values: Vec<_> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes().trim_ascii())).collect();
        headers.insert(name.as_str().to_owned(), values.join(","));
    }
    for pair in query.pairs().iter().filter(|pair| is_amz(&pair.name)) {
        let name = pair.name.to_ascii_lowercase();
        if let Entry::Vacant(vacant) = headers.entry(name) {
            vacant.insert(decoded(pair)?.into_owned());
        }
    }
    Ok(headers)
}

/// Appends the parameters that are part of the resource, by name; their values are signed as they read.
fn push_parameters(query: &Query<'_>, text: &mut String) -> Result<(), AuthError> {
    let mut signed: Vec<_> =
        query.pairs().iter().filter(|pair| SIGNED_PARAMETERS.binary_search(&&*pair.name).is_ok()).collect();
    signed.sort_by(|one, other| one.name.cmp(&other.name));
    for (number, pair) in signed.into_iter().enumerate() {
        text.push(if number == 0 { '?' } else { '&' });
        text.push_str(&pair.name);
        if pair.has_value {
            text.extend(["=", &*decoded(pair)?]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

    type Headers = &'static [(&'static str, &'static str)];

    fn checked(
        method: &str,
        target: &str,
        bucket: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Result<(), AuthError> {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).expect("a request").into_parts().0;
        let query = Query::parse(head.uri.query()).expect("a query");
        let url = PresignedV2::parse(&head.method, &query)?;
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        url.check_signature(&head, &query, bucket, &secret)
    }

    #[test]
    fn the_parameters_are_sorted() {
        assert!(SIGNED_PARAMETERS.is_sorted());
    }

    /// AWS's own example, on the page that the head of this file names.
    #[test]
    fn the_published_url_verifies() {
        let target = format!(
            "/photos/puppy.jpg?AWSAccessKeyId={KEY}&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D&Expires=1175139620"
        );
        assert_eq!(checked("GET", &target, Some("johnsmith"), &[]), Ok(()));
        for (method, target, bucket) in [
            ("HEAD", target.clone(), Some("johnsmith")),
            ("PUT", target.clone(), Some("johnsmith")),
            ("GET", target.clone(), Some("johnsmyth")),
            ("GET", target.clone(), None),
            ("GET", target.replace("puppy", "kitty"), Some("johnsmith")),
            ("GET", target.replace("1175139620", "1175139621"), Some("johnsmith")),
            ("GET", format!("{target}&acl"), Some("johnsmith")),
            ("GET", format!("{target}&x-amz-te=append-md5"), Some("johnsmith")),
            ("GET", format!("{target}&content-type=text%2Fhtml"), Some("johnsmith")),
        ] {
            let refused = checked(method, &target, bucket, &[]);
            assert!(
                matches!(refused, Err(AuthError::SignatureMismatch(_))),
                "{method} {target}: {refused:?}"
            );
        }
        for header in [("x-amz-meta-a", "b"), ("content-type", "text/html"), ("content-md5", "AAAA")] {
            let refused = checked("GET", &target, Some("johnsmith"), &[header]);
            assert!(matches!(refused, Err(AuthError::SignatureMismatch(_))), "{header:?}: {refused:?}");
        }
    }

    /// Made by boto3 1.43 (`signature_version="s3"`, path style) with its clock at 2013-05-24T00:00:00Z.
    const VECTORS: &[(&str, &str, Headers)] = &[
        (
            "GET",
            "/bucket/a%20b/c%2Bd?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=0XisOfd7b1EIHIASTQZOpHeBhPw%3D&Expires=1369357200",
            &[],
        ),
        (
            "GET",
            "/bucket/k?response-content-type=text%2Fhtml%3B%20charset%3Dutf-8&response-content-disposition=attachment%3B%20filename%3D%22a%20b%2Bc.txt%22&versionId=null&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=GXk1qaR7FszSX%2FQP%2Bw40CQWdvEU%3D&Expires=1369357200",
            &[],
        ),
        (
            "HEAD",
            "/bucket/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=nxSzt1UhpSK6z01YSFM%2BmgLMLVM%3D&Expires=1369357200",
            &[],
        ),
        (
            "PUT",
            "/bucket/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=LojMOPwmemgCn%2Bo%2BkbwtvvR1KTI%3D&content-type=image%2Fpng&x-amz-meta-colour=blue%20green&Expires=1369357200",
            &[],
        ),
        (
            "PUT",
            "/bucket/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=LojMOPwmemgCn%2Bo%2BkbwtvvR1KTI%3D&Expires=1369357200",
            &[("content-type", "image/png"), ("x-amz-meta-colour", "blue green")],
        ),
        (
            "PUT",
            "/bucket/k?uploadId=u&partNumber=1&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=hcAUClY3GOhYM3KHZplMKIUhMmc%3D&Expires=1369357200",
            &[],
        ),
        (
            "GET",
            "/bucket?acl&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=TomcGbmzDVu9GQBSqakjxOhFMQg%3D&Expires=1369357200",
            &[],
        ),
    ];

    #[test]
    fn urls_of_another_signer_verify() {
        for (method, target, headers) in VECTORS {
            assert_eq!(checked(method, target, None, headers), Ok(()), "{method} {target}");
        }
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        let target = |more: &str| format!("/b/k?AWSAccessKeyId=A&Signature=AAAA&Expires=1{more}");
        for more in ["&prefix=a", "&list-type=2", "&x-id=GetObject", "&Signature=", "&trace=7"] {
            let refused = checked("GET", &target(more), None, &[]);
            assert!(
                matches!(
                    refused,
                    Err(AuthError::ParametersNotSigned { .. } | AuthError::MissingV2Parameters)
                ),
                "{more}: {refused:?}"
            );
        }
        for method in ["POST", "DELETE", "PATCH"] {
            assert_eq!(checked(method, &target(""), None, &[]), Err(AuthError::UnsupportedMechanism));
        }
        for (target, expected) in [
            ("/b/k?AWSAccessKeyId=A&Expires=1", AuthError::MissingV2Parameters),
            ("/b/k?AWSAccessKeyId=A&Signature=AAAA", AuthError::MissingV2Parameters),
            ("/b/k?Expires=1&Signature=AAAA", AuthError::MissingV2Parameters),
            (
                "/b/k?AWSAccessKeyId=A&Signature=AAAA&Expires=%2B1",
                AuthError::InvalidV2Expiry { given: "+1".into() },
            ),
            (
                "/b/k?AWSAccessKeyId=A&Signature=AAAA&Expires=99999999999999999999",
                AuthError::InvalidV2Expiry { given: "99999999999999999999".into() },
            ),
        ] {
            assert_eq!(checked("GET", target, None, &[]), Err(expected), "{target}");
        }
    }

    #[test]
    fn a_url_holds_to_its_last_second() {
        let query = Query::parse(Some("AWSAccessKeyId=A&Signature=AAAA&Expires=100")).expect("a query");
        let url = PresignedV2::parse(&Method::GET, &query).expect("well formed");
        assert_eq!(url.check_time(100_000), Ok(()));
        let refused = url.check_time(100_001);
        assert!(matches!(refused, Err(AuthError::Expired { ended_ms: 100_000, .. })), "{refused:?}");
    }

    #[test]
    fn only_a_body_that_is_not_signed_in_frames_is_taken() {
        let form = |payload: &str| {
            let request = http::Request::put("/b/k").header("x-amz-content-sha256", payload);
            let head = request.body(()).expect("a request").into_parts().0;
            PresignedV2::payload(&head, &Query::default())
        };
        assert_eq!(form("UNSIGNED-PAYLOAD"), Ok(PayloadForm::Unsigned));
        assert_eq!(form("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), Ok(PayloadForm::UnsignedFrames));
        for payload in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "nonsense"] {
            assert!(matches!(form(payload), Err(AuthError::InvalidPayloadHash { .. })), "{payload}");
        }
    }
}
