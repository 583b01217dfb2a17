//! Whole requests: text that is signed here and goes through everything before the store.
//!
//! ```text
//! METHOD target
//! name: value
//!
//! body
//! ```
//! Every text has an answer, no answer is an internal error, an error's document has a
//! code, and an operation never gets another body than the head announced.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, BoxFuture, Either};
use futures::{FutureExt as _, StreamExt as _};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use sha2::{Digest as _, Sha256};
use sherd_core::config::cors::{Cors, CorsMethod, CorsRule};
use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::config::{BucketConfig, ConfigEntry, ConfigValue};
use sherd_core::env::Clock;
use sherd_core::id::{BucketId, ObjectKey};
use sherd_core::limits::{DELETE_KEYS_MAX, PARTS_MAX};
use sherd_core::record::{Entries, Tag};
use sherd_front::callers::StaticCredentials;
use sherd_signature::Secret;
use sherd_signature::canonical::{CanonicalRequest, PathForm};
use sherd_signature::payload::PayloadForm;
use sherd_signature::query::Query;
use sherd_signature::signing_key::SigningKey;
use sherd_store::object::{self as store, BucketRef, BucketView, ObjectName};

use crate::answer::{self, Outcome, Response};
use crate::head::document;
use crate::head::tagging::GivenTags;
use crate::multipart;
use crate::object::delete_object;
use crate::operation::{AccountBlockLookup, BucketLookup, Operation, Operations};
use crate::request::Request;
use crate::service::{Config, Limits, Protocol, UnsupportedAcl};
use crate::wire::refusal::{Code, Refusal};

use super::cors::cross_origin;
use super::public_access::public_access_block;

const SECRET: &str = "secret-of-nobody";
/// The type of a form.
const FORM: &[u8] = b"multipart/form-data";
const DATE: &str = "20130524T000000Z";
const SCOPE: &str = "20130524/us-east-1/s3/aws4_request";

/// The moment at which all requests are signed.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn wall_ms(&self) -> u64 {
        1_369_353_600_000
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// Operations that look at what they get and do nothing.
struct Lookers;

impl Lookers {
    async fn look(operation: Operation, request: Request<'_>) -> Outcome<Response> {
        match operation {
            Operation::PutObject | Operation::PostObject => {
                let is_form = operation == Operation::PostObject;
                assert_eq!(request.form.is_some(), is_form);
                request.head.tags().map(GivenTags::stored).transpose()?;
                let mut upload = request.payload.into_upload();
                let mut received = 0;
                while let Some(bytes) = upload.body.next().await {
                    let Ok(bytes) = bytes else { return Ok(answer::ok()) };
                    received += bytes.len() as u64;
                    // The line end behind a form may be missing.
                    let max = upload.size + if is_form { 2 } else { 0 };
                    assert!(received <= max, "more bytes than were announced");
                }
                assert!(is_form || received == upload.size, "a body that ends well is whole");
            }
            Operation::DeleteObjects => {
                let batch =
                    delete_object::Batch::asked(document::required(request.payload.into_document())?)?;
                assert!((1..=DELETE_KEYS_MAX).contains(&(batch.entries.len() + batch.errors.len())));
            }
            Operation::CompleteMultipartUpload => {
                let parts = multipart::listed_parts(document::required(request.payload.into_document())?)?;
                assert!((1..=usize::from(PARTS_MAX)).contains(&parts.len()));
                assert!(parts.iter().all(|part| (1..=PARTS_MAX).contains(&part.number)));
            }
            Operation::PutBucketCors => {
                cross_origin(&request.payload.into_document().unwrap_or_default());
            }
            Operation::PutPublicAccessBlock => {
                public_access_block(&request.payload.into_document().unwrap_or_default());
            }
            _ => return Err(Refusal::new(Code::NotImplemented).into()),
        }
        Ok(answer::ok())
    }
}

impl Operations for Lookers {
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_> {
        let view = (name.as_str() == "bucket").then(|| VIEW.clone());
        Either::Left(future::ready(view.map_or_else(|| name.into(), BucketRef::from)))
    }

    fn account_block(&self) -> AccountBlockLookup<'_> {
        Either::Left(future::ready(Ok(PublicAccessBlock::NONE)))
    }

    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>> {
        Self::look(operation, request).boxed()
    }

    fn tags<'a>(&'a self, _: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    fn release_grace(&self) -> Duration {
        Duration::ZERO
    }
}

/// A bucket that pages of one domain may read.
static VIEW: LazyLock<BucketView> = LazyLock::new(|| {
    let rule = CorsRule {
        allowed_origins: vec!["https://*.example.com".to_owned()],
        allowed_methods: vec![CorsMethod::Get],
        allowed_headers: vec!["*".to_owned()],
        ..CorsRule::default()
    };
    let value = ConfigValue::from(Cors { rules: vec![rule] });
    let mut entries = Entries::default();
    entries.set(value.kind().number(), ConfigEntry::Inline(value.encode()).encode());
    BucketView {
        name: ObjectKey::new("bucket".to_owned()).expect("a name"),
        id: BucketId([1; 16]),
        created_ms: 1,
        config: Arc::new(BucketConfig::of(&entries, None, &[])),
        roots_tags: None,
    }
});

/// The layer, with operations that look at what they get.
pub(crate) static PROTOCOL: LazyLock<Protocol> = LazyLock::new(|| {
    let config = Config {
        region: "us-east-1".to_owned(),
        domains: vec!["s3.test".to_owned()],
        host_id: "node".to_owned(),
        request_id_seed: 1,
        sigv2_presigned: true,
        unsupported_acl: UnsupportedAcl::Refuse,
        reserved_buckets: &[],
        limits: Limits::default(),
    };
    let credentials = StaticCredentials::single("AKID", Secret::new(SECRET));
    Protocol::new(config, Arc::new(credentials), Arc::new(FixedClock), Arc::new(Lookers))
});

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    let built = tokio::runtime::Builder::new_current_thread().enable_time().build();
    built.expect("a runtime without threads needs nothing")
});

/// One request, see the head of this file. One without a signature of its own is signed, unless it is a
/// form. The status of its answer; `None` where the text is not a request.
pub fn request(input: &[u8]) -> Option<StatusCode> {
    let request = parsed(input)?;
    let is_head = request.method() == Method::HEAD;
    let (status, document) = RUNTIME.block_on(async {
        let (_, response) = PROTOCOL.call(request).await;
        let (head, body) = response.into_parts();
        (
            head.status,
            BodyExt::collect(body).await.map(http_body_util::Collected::to_bytes).unwrap_or_default(),
        )
    });
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{}", String::from_utf8_lossy(&document));
    if (status.is_client_error() || status.is_server_error()) && !is_head {
        let document = std::str::from_utf8(&document).expect("a document is text");
        // A preflight is answered without a document.
        assert!(document.is_empty() || document.contains("<Code>"), "{status}: {document}");
    }
    Some(status)
}

fn parsed(input: &[u8]) -> Option<http::Request<Full<Bytes>>> {
    let end = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((input, &[][..]), |end| {
        (input.get(..end).unwrap_or_default(), input.get(end + 2..).unwrap_or_default())
    });
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let method = Method::from_bytes(first.get(..space)?).ok()?;
    let uri = Uri::try_from(first.get(space + 1..)?).ok()?;
    let mut request = http::Request::new(Full::new(Bytes::copy_from_slice(body)));
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(line.get(..colon)?).ok()?;
        let value = HeaderValue::from_bytes(line.get(colon + 1..)?.trim_ascii()).ok()?;
        request.headers_mut().try_append(name, value).ok()?;
    }
    if !request.headers().contains_key(CONTENT_LENGTH) && !body.is_empty() {
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let presigned = uri.query().is_some_and(|query| query.contains("X-Amz-Signature"));
    // A form has its signature in its fields.
    let is_form = method == Method::POST
        && uri.query().is_none()
        && request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(FORM));
    let wants_signature = !presigned && !is_form && !request.headers().contains_key(AUTHORIZATION);
    (*request.method_mut(), *request.uri_mut()) = (method, uri);
    if wants_signature {
        sign(&mut request);
    }
    Some(request)
}

/// Signs a request with the one key that there is; one that cannot be signed stays as it is.
fn sign(request: &mut http::Request<Full<Bytes>>) {
    let uri = request.uri().clone();
    let method = request.method().clone();
    let headers = request.headers_mut();
    let or_insert = |headers: &mut HeaderMap, name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    or_insert(headers, HOST, "s3.test");
    or_insert(headers, HeaderName::from_static("x-amz-content-sha256"), PayloadForm::UNSIGNED);
    headers.insert(HeaderName::from_static("x-amz-date"), HeaderValue::from_static(DATE));
    let mut names: Vec<&str> = headers
        .keys()
        .map(HeaderName::as_str)
        .filter(|name| *name == "host" || name.starts_with("x-amz-"))
        .collect();
    names.sort_unstable();
    let signed_headers = names.join(";");
    let Ok(query) = Query::parse(uri.query()) else { return };
    let payload =
        headers.get("x-amz-content-sha256").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let canonical = CanonicalRequest {
        method: method.as_str(),
        path: uri.path(),
        path_form: PathForm::Canonical,
        query: &query,
        query_without: None,
        headers,
        authority: None,
        signed_headers: &signed_headers,
        payload,
    };
    let mut bytes = Vec::new();
    if canonical.write(&mut bytes).is_err() {
        return;
    }
    let hash = hex::encode(Sha256::digest(&bytes));
    let key = SigningKey::derive(&Secret::new(SECRET), "20130524", "us-east-1", "s3");
    let text = format!("AWS4-HMAC-SHA256\n{DATE}\n{SCOPE}\n{hash}");
    let signature = key.sign(&[text.as_bytes()]);
    let signature = String::from_utf8_lossy(signature.as_bytes()).into_owned();
    let value = format!(
        "AWS4-HMAC-SHA256 Credential=AKID/{SCOPE}, SignedHeaders={signed_headers}, Signature={signature}"
    );
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(AUTHORIZATION, value);
    }
}
