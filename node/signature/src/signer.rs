//! The signing side of SigV4: headers or a presigned URL for a request, by the canonical form that a server
//! checks.
//!
//! Every header that a request has when it is signed is covered, but those that proxies change. A signer
//! keeps the key of the day and region that it signed for last.

use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use http::request::Parts;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::amz_date::AmzDate;
use crate::authorization::ALGORITHM;
use crate::canonical::{CanonicalRequest, PathForm};
use crate::payload::PayloadForm;
use crate::presigned::SIGNATURE;
use crate::query::Query;
use crate::secret::Secret;
use crate::signing_key::SigningKey;

/// All characters but those that AWS leaves as they are in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same in a path, whose slashes stand between its parts.
const PATH: &AsciiSet = &QUERY.remove(b'/');
/// Headers that proxies and connections change on their way, so that no signature covers them.
const UNSIGNED: [&str; 7] =
    ["authorization", "connection", "content-length", "expect", "te", "transfer-encoding", "user-agent"];

/// Encodes a value for a query as AWS does.
pub fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// Encodes a key for a path as AWS does; its slashes stay.
pub fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// A pair of keys that requests are signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The public half.
    pub access_key: String,
    /// The secret half.
    pub secret: Secret,
    /// The token of a session; none for a user's own keys.
    pub session_token: Option<Secret>,
}

/// A request cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Path or query are not percent-encoded text.
    #[error("the path or query is not percent-encoded UTF-8")]
    Uri,
    /// A value cannot stand in a header: it has control characters.
    #[error("an access key, region or token has characters that no header may have")]
    Header,
}

/// Signs requests with one pair of keys. Cheap to share; threads sign at one time.
#[derive(Debug)]
pub struct Signer {
    pair: KeyPair,
    service: &'static str,
    kept: Mutex<Option<KeptKey>>,
}

/// The key of the day and region that were signed for last.
#[derive(Debug, Clone)]
struct KeptKey {
    day: String,
    region: String,
    key: SigningKey,
}

impl Signer {
    /// Returns a signer for a service, `s3` or `sts`.
    pub const fn new(pair: KeyPair, service: &'static str) -> Self {
        Self { pair, service, kept: Mutex::new(None) }
    }

    /// Adds `x-amz-date`, `x-amz-content-sha256`, a session's token and `authorization` to a request whose
    /// `host` and other headers are there. `payload` is the SHA-256 of the body in hex, or the word that
    /// stands for it.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn sign(&self, head: &mut Parts, region: &str, payload: &str, now: AmzDate) -> Result<(), SignError> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| SignError::Header);
        head.headers.remove(AUTHORIZATION);
        head.headers.insert("x-amz-date", value(now.as_str())?);
        head.headers.insert("x-amz-content-sha256", value(payload)?);
        if let Some(token) = &self.pair.session_token {
            head.headers.insert("x-amz-security-token", value(token.expose())?);
        }
        let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
        names.retain(|name| !UNSIGNED.contains(name));
        names.sort_unstable();
        let signed_headers = names.join(";");
        let query = Query::parse(head.uri.query()).map_err(|_| SignError::Uri)?;
        let request = CanonicalRequest {
            method: head.method.as_str(),
            path: head.uri.path(),
            path_form: PathForm::Canonical,
            query: &query,
            query_without: None,
            headers: &head.headers,
            authority: None,
            signed_headers: &signed_headers,
            payload,
        };
        let signature = self.signature(&request, region, now)?;
        let authorization = format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={signed_headers}, Signature={signature}",
            self.pair.access_key,
            self.scope(region, now)
        );
        head.headers.insert(AUTHORIZATION, value(&authorization)?);
        Ok(())
    }

    /// Returns the path and query of a request that is signed in its query. `host` is the only signed header.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn presign(
        &self,
        request: PresignRequest<'_>,
        region: &str,
        now: AmzDate,
    ) -> Result<String, SignError> {
        let PresignRequest { method, path_and_query, host, expires_seconds } = request;
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let credential = format!("{}/{}", self.pair.access_key, self.scope(region, now));
        let mut pairs = vec![
            ("X-Amz-Algorithm", ALGORITHM.to_owned()),
            ("X-Amz-Credential", credential),
            ("X-Amz-Date", now.as_str().to_owned()),
            ("X-Amz-Expires", expires_seconds.to_string()),
            ("X-Amz-SignedHeaders", HOST.as_str().to_owned()),
        ];
        if let Some(token) = &self.pair.session_token {
            pairs.push(("X-Amz-Security-Token", token.expose().to_owned()));
        }
        let mut text = query.to_owned();
        for (name, value) in pairs {
            let separator = if text.is_empty() { "" } else { "&" };
            text = format!("{text}{separator}{name}={}", encode_query(&value));
        }
        let mut headers = http::HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| SignError::Header)?);
        let parsed = Query::parse(Some(&text)).map_err(|_| SignError::Uri)?;
        let canonical = CanonicalRequest {
            method,
            path,
            path_form: PathForm::Canonical,
            query: &parsed,
            query_without: Some(SIGNATURE),
            headers: &headers,
            authority: None,
            signed_headers: HOST.as_str(),
            payload: PayloadForm::UNSIGNED,
        };
        let signature = self.signature(&canonical, region, now)?;
        Ok(format!("{path}?{text}&{SIGNATURE}={signature}"))
    }

    fn scope(&self, region: &str, now: AmzDate) -> String {
        format!("{}/{region}/{}/aws4_request", now.day(), self.service)
    }

    fn signature(
        &self,
        request: &CanonicalRequest<'_>,
        region: &str,
        now: AmzDate,
    ) -> Result<String, SignError> {
        let mut canonical = Vec::new();
        request.write(&mut canonical).map_err(|_| SignError::Uri)?;
        let hash = hex::encode(Sha256::digest(&canonical));
        let context = format!("{ALGORITHM}\n{}\n{}\n", now.as_str(), self.scope(region, now));
        let signature = self.key(now.day(), region).sign(&[context.as_bytes(), hash.as_bytes()]);
        Ok(String::from_utf8_lossy(signature.as_bytes()).into_owned())
    }

    fn key(&self, day: &str, region: &str) -> SigningKey {
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.day == day && kept.region == region) {
            return kept.key.clone();
        }
        let key = SigningKey::derive(&self.pair.secret, day, region, self.service);
        *kept = Some(KeptKey { day: day.to_owned(), region: region.to_owned(), key: key.clone() });
        key
    }
}

/// A request that is to be signed in its query.
#[derive(Debug, Clone, Copy)]
pub struct PresignRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query, encoded.
    pub path_and_query: &'a str,
    /// The value of `host`.
    pub host: &'a str,
    /// Seconds that the signature holds: 1 to 604,800.
    pub expires_seconds: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::Authorization;
    use crate::payload::EMPTY_SHA256_HEX;

    fn signer(token: Option<&str>) -> Signer {
        let pair = KeyPair {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            session_token: token.map(Secret::new),
        };
        Signer::new(pair, "s3")
    }

    fn published_day() -> AmzDate {
        AmzDate::parse(b"20130524T000000Z").expect("a date")
    }

    fn head(uri: &str, range: Option<&str>) -> Parts {
        let mut request = http::Request::get(uri).header(HOST, "examplebucket.s3.amazonaws.com");
        if let Some(range) = range {
            request = request.header("range", range);
        }
        request.body(()).expect("a request").into_parts().0
    }

    /// Examples of AWS, "Signature Calculations for the Authorization Header".
    #[test]
    fn published_examples_get_their_published_signatures() {
        let lifecycle = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
        let list = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        let get = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        for (uri, range, expected) in [
            ("/?lifecycle", None, lifecycle),
            ("/?max-keys=2&prefix=J", None, list),
            ("/test.txt", Some("bytes=0-9"), get),
        ] {
            let mut head = head(uri, range);
            head.headers.insert("user-agent", HeaderValue::from_static("a proxy may change it"));
            signer(None).sign(&mut head, "us-east-1", EMPTY_SHA256_HEX, published_day()).expect("signs");
            let text = head.headers[AUTHORIZATION].to_str().expect("text");
            assert_eq!(Authorization::parse(text).expect("well formed").signature, expected, "{uri}");
        }
    }

    /// Example of AWS, "Authenticating Requests: Using Query Parameters".
    #[test]
    fn a_presigned_url_is_the_published_one() {
        let request = PresignRequest {
            method: "GET",
            path_and_query: "/test.txt",
            host: "examplebucket.s3.amazonaws.com",
            expires_seconds: 86_400,
        };
        let url = signer(None).presign(request, "us-east-1", published_day()).expect("signs");
        assert!(
            url.ends_with(
                "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
            ),
            "{url}"
        );
    }

    #[test]
    fn a_token_is_signed_and_a_new_attempt_replaces_the_old_signature() {
        let signer = signer(Some("TOKEN"));
        let mut head = head("/test.txt", None);
        signer.sign(&mut head, "us-east-1", PayloadForm::UNSIGNED, published_day()).expect("signs");
        let first = head.headers[AUTHORIZATION].clone();
        assert!(first.to_str().expect("text").contains(";x-amz-security-token,"));
        signer.sign(&mut head, "eu-west-1", PayloadForm::UNSIGNED, published_day()).expect("signs");
        assert_ne!(head.headers[AUTHORIZATION], first);
        signer.sign(&mut head, "us-east-1", PayloadForm::UNSIGNED, published_day()).expect("signs");
        assert_eq!(head.headers[AUTHORIZATION], first);
    }

    #[test]
    fn texts_are_encoded_as_the_canonical_form_has_them() {
        assert_eq!(encode_path("a b/../c+\u{e9}~"), "a%20b/../c%2B%C3%A9~");
        assert_eq!(encode_query("a/b&c"), "a%2Fb%26c");
    }
}
