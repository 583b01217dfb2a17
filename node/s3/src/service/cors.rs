//! Cross-origin requests: the headers by which a browser lets pages of other origins read an answer, and the
//! preflight that it asks before some requests.
//!
//! ```text
//! Origin? -> view of the bucket -> first rule that allows it -> headers on every answer
//! ```
//! A request without `Origin` costs one look at its headers. With it, the bucket is looked up before anything
//! else is judged: a browser hides an answer without these headers from the page, refusals too. No
//! signature vouches for the caller then, so look-ups of names of which no view is remembered take turns
//! ([`UnprovenWork::S3Buckets`]), and only names that a bucket may have are looked up.

use std::sync::Arc;

use futures::future::Either;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, Method};
use sherd_core::config::cors::{Cors, CorsMethod, CorsRequest, CorsRule};
use sherd_core::id::{ObjectKey, may_be_bucket};
use sherd_core::limits::HEADERS_MAX;
use sherd_front::unproven::UnprovenWork;
use sherd_front::unproven::turns::UnprovenTurns;
use sherd_store::object::{BucketRef, LookupError};

use crate::head::names;
use crate::operation::Operations;
use crate::wire::address::{Address, BadAddress, Level};
use crate::wire::refusal::{Code, Refusal};

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const VARIES: HeaderValue =
    HeaderValue::from_static("Origin, Access-Control-Request-Headers, Access-Control-Request-Method");

/// Looks buckets up for callers who may be any stranger: cross-origin requests and anonymous ones.
#[derive(Debug)]
pub(super) struct CorsLookup {
    reads: UnprovenTurns,
}

/// Why a bucket has no rules to judge by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRules {
    /// No bucket has the name.
    NoBucket,
    /// The bucket has no rules.
    NotEnabled,
    /// The rules could not be read.
    Unavailable,
    /// The bytes that are stored for its rules do not decode.
    Undecodable,
}

/// The headers that allow an answer to be read.
#[derive(Debug)]
pub(super) struct CorsHeaders(HeaderMap);

impl Default for CorsLookup {
    fn default() -> Self {
        Self { reads: UnprovenTurns::new(UnprovenWork::S3Buckets) }
    }
}

impl CorsLookup {
    /// The rules of the bucket that a request addresses.
    async fn rules(&self, operations: &dyn Operations, bucket: &str) -> Result<Arc<Cors>, NoRules> {
        let name = name_of(bucket).ok_or(NoRules::NoBucket)?;
        rules_of(&self.bucket(operations, name).await.ok_or(NoRules::Unavailable)?)
    }

    /// Looks up the bucket of a stranger's request; `None` where too many wait for their look-ups.
    pub(super) async fn bucket(&self, operations: &dyn Operations, name: ObjectKey) -> Option<BucketRef> {
        match operations.bucket(name) {
            Either::Left(remembered) => Some(remembered.await),
            Either::Right(read) => {
                let _turn = self.reads.enter().await.ok()?;
                Some(read.await)
            }
        }
    }

    /// The headers that every answer to a request from an origin gets; `None` where no rule allows it. S3
    /// judges a request that names a method and headers, as a preflight does, by those.
    pub(super) async fn cross_origin(
        &self,
        operations: &dyn Operations,
        origin: &HeaderValue,
        parts: &Parts,
        address: &Result<Address, BadAddress>,
    ) -> Option<CorsHeaders> {
        let address = address.as_ref().ok()?;
        let rules = self.rules(operations, &address.bucket).await.ok()?;
        allowed_request(&rules, origin, parts)
    }

    /// The answer to a preflight of a head that was checked: the headers of a 200.
    pub(super) async fn preflight(
        &self,
        operations: &dyn Operations,
        headers: &HeaderMap,
        address: &Address,
    ) -> Result<CorsHeaders, Refusal> {
        let origin = headers.get(ORIGIN).filter(|origin| !origin.is_empty()).ok_or_else(|| {
            Refusal::says(Code::BadRequest, "Insufficient information. Origin request header needed.")
        })?;
        let named = headers.get(ACCESS_CONTROL_REQUEST_METHOD);
        let named = named.map(|method| String::from_utf8_lossy(method.as_bytes()));
        let method = named.as_deref().map(CorsMethod::of_name);
        let bad_method = || {
            let named = named.as_deref().unwrap_or("null");
            Refusal::says(Code::BadRequest, format!("Invalid Access-Control-Request-Method: {named}"))
        };
        if method == Some(None) {
            return Err(bad_method());
        }
        let asked = AskedHeaders::of(headers)?;
        let forbidden = |message: &'static str, resource: &str| {
            let method = named.as_deref().unwrap_or(Method::OPTIONS.as_str());
            Refusal::says(Code::AccessForbidden, message)
                .with("Method", method)
                .with("ResourceType", resource)
        };
        let rules = self.rules(operations, &address.bucket).await;
        let rules = rules.map_err(|reason| match reason {
            NoRules::NoBucket => forbidden("CORSResponse: Bucket not found", "BUCKET"),
            NoRules::NotEnabled => forbidden("CORSResponse: CORS is not enabled for this bucket.", "BUCKET"),
            NoRules::Unavailable => Refusal::new(Code::SlowDown),
            NoRules::Undecodable => Refusal::new(Code::InternalError),
        })?;
        let method = method.flatten().ok_or_else(bad_method)?;
        allowed(&rules, origin, method, &asked).ok_or_else(|| {
            let resource = if address.level == Level::Object { "OBJECT" } else { "BUCKET" };
            forbidden(
                "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, \
                 request method / Access-Control-Request-Method or Access-Control-Request-Headers are not \
                 whitelisted by the resource's CORS spec.",
                resource,
            )
        })
    }
}

/// As [`CorsLookup::cross_origin`], by a view that is remembered alone.
pub(super) fn remembered(
    operations: &dyn Operations,
    parts: &Parts,
    address: &Result<Address, BadAddress>,
) -> Option<CorsHeaders> {
    let origin = parts.headers.get(ORIGIN)?;
    let name = name_of(&address.as_ref().ok()?.bucket)?;
    let Either::Left(found) = operations.bucket(name) else { return None };
    let rules = rules_of(&found.into_inner()).ok()?;
    allowed_request(&rules, origin, parts)
}

/// The name, where a bucket may have it.
fn name_of(bucket: &str) -> Option<ObjectKey> {
    let name = Some(bucket).filter(|name| may_be_bucket(name))?;
    ObjectKey::new(name.to_owned()).ok()
}

/// The rules of a bucket that was looked up.
fn rules_of(found: &BucketRef) -> Result<Arc<Cors>, NoRules> {
    let view = match found {
        BucketRef::Viewed(view) => view,
        BucketRef::Failed { error: LookupError::Register(_), .. } => return Err(NoRules::Unavailable),
        BucketRef::Failed { error: LookupError::Missing, .. } | BucketRef::Named(_) => {
            return Err(NoRules::NoBucket);
        }
    };
    match view.config.cors() {
        Ok(Some(rules)) => Ok(Arc::clone(rules)),
        Ok(None) => Err(NoRules::NotEnabled),
        Err(error) => {
            tracing::error!(%error, bucket = %view.name, "cross-origin rules cannot be read");
            Err(NoRules::Undecodable)
        }
    }
}

/// The headers that the first rule gives which allows a request.
fn allowed_request(rules: &Cors, origin: &HeaderValue, parts: &Parts) -> Option<CorsHeaders> {
    let named = parts.headers.get(ACCESS_CONTROL_REQUEST_METHOD);
    let named = named.map_or(Some(parts.method.as_str()), |method| method.to_str().ok());
    let asked = AskedHeaders::of(&parts.headers).ok()?;
    allowed(rules, origin, named.and_then(CorsMethod::of_name)?, &asked)
}

/// The headers that a preflight asks leave for, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
struct AskedHeaders(Vec<String>);

impl AskedHeaders {
    /// Reads `Access-Control-Request-Headers`.
    ///
    /// # Errors
    /// BadRequest for a text that cannot be a header's name.
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut asked = Vec::new();
        for line in headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter(|line| !line.is_empty()) {
            for name in line.as_bytes().split(|byte| *byte == b',') {
                let name = String::from_utf8_lossy(name.trim_ascii());
                if !names::is_header(&name) {
                    let message =
                        format!("Access-Control-Request-Headers \"{name}\" contains invalid character.");
                    return Err(Refusal::says(Code::BadRequest, message));
                }
                asked.push(name.to_ascii_lowercase());
            }
        }
        Ok(Self(asked))
    }
}

/// The headers that the first fitting rule gives.
fn allowed(
    rules: &Cors,
    origin: &HeaderValue,
    method: CorsMethod,
    asked: &AskedHeaders,
) -> Option<CorsHeaders> {
    if asked.0.len() > HEADERS_MAX {
        return None;
    }
    let names: Vec<&str> = asked.0.iter().map(String::as_str).collect();
    let request = CorsRequest { origin: origin.as_bytes(), method, headers: &names };
    rules.matching(request).map(|rule| CorsHeaders::of(rule, origin, &names))
}

impl CorsHeaders {
    fn of(rule: &CorsRule, origin: &HeaderValue, asked: &[&str]) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        if rule.allows_every_origin() {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
        } else {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
        let methods: Vec<&str> = rule.allowed_methods.iter().map(|method| method.name()).collect();
        let mut list = |name: HeaderName, values: &[&str]| {
            // Names of headers are checked before they are stored.
            if let Some(value) =
                HeaderValue::try_from(values.join(", ")).ok().filter(|value| !value.is_empty())
            {
                headers.insert(name, value);
            }
        };
        list(ACCESS_CONTROL_ALLOW_METHODS, &methods);
        list(ACCESS_CONTROL_ALLOW_HEADERS, asked);
        let exposed: Vec<&str> = rule.expose_headers.iter().map(String::as_str).collect();
        list(ACCESS_CONTROL_EXPOSE_HEADERS, &exposed);
        if let Some(seconds) = rule.max_age_seconds {
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(seconds));
        }
        Self(headers)
    }

    /// Puts them among those of an answer.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        headers.extend(self.0);
        headers.append(VARY, VARIES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &[&str]) -> Result<AskedHeaders, Refusal> {
        let mut headers = HeaderMap::new();
        for line in lines {
            let value = HeaderValue::from_bytes(line.as_bytes()).expect("a value");
            headers.append(ACCESS_CONTROL_REQUEST_HEADERS, value);
        }
        AskedHeaders::of(&headers)
    }

    #[test]
    fn headers_that_are_asked_for_are_names_in_their_order() {
        for (lines, names) in [
            (&[][..], &[][..]),
            (&[""], &[]),
            (&["x-b, X-A"], &["x-b", "x-a"]),
            (&["x-b,x-a", "x-c"], &["x-b", "x-a", "x-c"]),
            (&["\t!#$%&'*+-.^_`|~ "], &["!#$%&'*+-.^_`|~"]),
        ] {
            assert_eq!(asked(lines).expect("names").0, names, "{lines:?}");
        }
        for line in ["x y", "a,,b", ",", "a\u{e9}", "(a)", "a:"] {
            let refusal = asked(&[line]).expect_err(line);
            assert_eq!(refusal.code, Code::BadRequest, "{line}");
        }
        assert_eq!(
            asked(&["x-a, x y"]).expect_err("a blank").message,
            "Access-Control-Request-Headers \"x y\" contains invalid character."
        );
    }

    #[test]
    fn a_rule_says_what_a_browser_may_do() {
        let rule = CorsRule {
            allowed_origins: vec!["https://*".to_owned()],
            allowed_methods: vec![CorsMethod::Put, CorsMethod::Get],
            allowed_headers: vec!["*".to_owned()],
            expose_headers: vec!["ETag".to_owned(), "x-amz-request-id".to_owned()],
            max_age_seconds: Some(0),
            ..CorsRule::default()
        };
        let origin = HeaderValue::from_static("https://a");
        let headers = CorsHeaders::of(&rule, &origin, &["x-b", "x-a"]).0;
        let get = |name: &str| headers.get(name).map(|value| value.to_str().expect("text").to_owned());
        for (name, value) in [
            ("origin", "https://a"),
            ("credentials", "true"),
            ("methods", "PUT, GET"),
            ("headers", "x-b, x-a"),
        ] {
            assert_eq!(get(&format!("access-control-allow-{name}")).as_deref(), Some(value));
        }
        assert_eq!(get("access-control-expose-headers").as_deref(), Some("ETag, x-amz-request-id"));
        assert_eq!(get("access-control-max-age").as_deref(), Some("0"));
        // Bytes that were stored otherwise than by a checked document cannot break an answer.
        let odd = CorsRule {
            allowed_origins: vec!["https://b".to_owned(), "*".to_owned()],
            expose_headers: vec!["a\r\nset-cookie: b".to_owned()],
            max_age_seconds: None,
            ..rule
        };
        let headers = CorsHeaders::of(&odd, &origin, &[]).0;
        assert_eq!(headers.len(), 2, "{headers:?}");
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_METHODS], "PUT, GET");
    }

    #[test]
    fn a_preflight_cannot_ask_for_more_headers_than_a_request_may_have() {
        let rule = CorsRule {
            allowed_origins: vec!["*".to_owned()],
            allowed_methods: vec![CorsMethod::Get],
            allowed_headers: vec!["*".to_owned()],
            ..CorsRule::default()
        };
        let rules = Cors { rules: vec![rule] };
        let asks = |count: usize| {
            let asked = AskedHeaders(vec!["x".to_owned(); count]);
            allowed(&rules, &ANY_ORIGIN, CorsMethod::Get, &asked).is_some()
        };
        assert!(asks(HEADERS_MAX) && !asks(HEADERS_MAX + 1));
    }
}
