//! Texts in headers, queries and paths: what is understood is written and understood again as the
//! same, and keeps its limits.

use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, RANGE,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sherd_core::limits::{
    ATTRIBUTES_BYTES_MAX, KEY_BYTES_MAX, METADATA_BYTES_MAX, OBJECT_TAGS_MAX, PARTS_MAX,
};
use sherd_core::record::{ObjectTags, Tag};
use sherd_signature::amz_date::AmzDate;
use sherd_signature::authorization::Authorization;
use sherd_signature::canonical::{CanonicalRequest, PathForm};
use sherd_signature::credential_scope::CredentialScope;
use sherd_signature::payload::PayloadForm;
use sherd_signature::presigned::PresignedQuery;
use sherd_signature::query::Query;

use crate::bucket::settings::AccessControlList;
use crate::bucket::token::{self, ListingKind};
use crate::head::request_head::RequestHead;
use crate::head::tagging::{self, GivenTags};
use crate::head::{attributes, checksum, conditions, document, if_range, names, range, timestamp};
use crate::operation::route::route;
use crate::wire::address::{Address, Level};
use crate::wire::checksum::{ALGORITHMS, of_object};
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::{EtagMatch, Span};

/// One text, taken for everything that a text of a request can be.
pub fn header_text(input: &[u8]) {
    dates(input);
    ranges(input);
    access_control_lists(input);
    if let Ok(text) = std::str::from_utf8(input) {
        signatures(text);
        queries(text);
        tokens(text);
        named(text);
        tags(text);
    }
    if let Ok(value) = HeaderValue::from_bytes(input) {
        headers(&value);
        copy_sources(&value);
        checksums(&value);
        stored(&value);
    }
}

fn dates(text: &[u8]) {
    if let Some(date) = AmzDate::parse(text) {
        assert_eq!(date.as_str().as_bytes(), text);
        assert_eq!(AmzDate::from_ms(date.as_ms()), date);
    }
    if let Some(date) = AmzDate::parse_http(text) {
        assert_eq!(AmzDate::parse(date.as_str().as_bytes()), Some(date));
    }
    if let Some(ms) = text.first_chunk().copied().map(u64::from_le_bytes) {
        let header = timestamp::in_header(ms);
        let read = AmzDate::parse_http(header.as_bytes()).expect("a date in a header is one");
        assert_eq!(read, AmzDate::from_ms(ms));
        let _ = timestamp::in_xml(ms);
    }
}

fn ranges(text: &[u8]) {
    let written = |span: Span| match span {
        Span::From { first, last: Some(last) } => Some(format!("bytes={first}-{last}")),
        Span::From { first, last: None } => Some(format!("bytes={first}-")),
        Span::Suffix { length } => Some(format!("bytes=-{length}")),
        Span::Whole | Span::Part { .. } => None,
    };
    let span = range::span(Some(text), None).expect("nonsense is ignored");
    if let Span::From { first, last: Some(last) } = span {
        assert!(first <= last);
    }
    if let Some(text) = written(span) {
        assert_eq!(range::span(Some(text.as_bytes()), None).expect("as written"), span);
    }
    let copied = range::copy_span(Some(text)).ok();
    if let Some(copied) = copied {
        assert!(matches!(copied, Span::From { last: Some(_), .. }));
        assert_eq!(copied, span, "one syntax for both");
    }
}

fn access_control_lists(document: &[u8]) {
    if let Ok(list) = document::of::<AccessControlList>(document) {
        let text = String::from_utf8_lossy(document);
        assert!(!list.is_owners() || text.contains("FULL_CONTROL"), "{text}");
    }
}

fn signatures(text: &str) {
    if let Some(scope) = CredentialScope::parse(text) {
        assert_eq!(format!("{}/{}", scope.access_key, scope.scope), text);
        let CredentialScope { day, region, service, terminator, scope, .. } = scope;
        assert_eq!(format!("{day}/{region}/{service}/{terminator}"), scope);
    }
    if let Ok(parsed) = Authorization::parse(text) {
        let Authorization { credential, signed_headers, signature } = parsed;
        let written = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={signed_headers}, Signature={signature}",
            credential.access_key, credential.scope
        );
        assert_eq!(Authorization::parse(&written).ok(), Some(parsed));
    }
    match PayloadForm::parse(text) {
        Some(PayloadForm::Sha256(hash)) => assert!(text.eq_ignore_ascii_case(&hex::encode(hash))),
        Some(form) => assert!(form.is_framed() || !form.has_trailer()),
        None => {}
    }
}

fn queries(text: &str) {
    let Ok(query) = Query::parse(Some(text)) else { return };
    if let Ok(url) = PresignedQuery::parse(&query) {
        assert!(url.expires_seconds.is_none_or(|seconds| (1..=604_800).contains(&seconds)));
        assert!(!url.signature.is_empty() && !url.signed_headers.is_empty());
        assert!(PresignedQuery::is_in(&query));
    }
    // A canonical form is its own canonical form.
    if let Some((path, parameters)) = canonical(text, &query) {
        let again = Query::parse(Some(&parameters)).expect("a canonical query is a query");
        assert_eq!(canonical(&path, &again), Some((path, parameters)));
    }
    for method in [http::Method::GET, http::Method::PUT, http::Method::POST, http::Method::DELETE] {
        for level in [Level::Service, Level::Bucket, Level::Object] {
            for copies in [false, true] {
                let (bucket, key) = ("bucket".to_owned(), String::new());
                let address = Address { host_bucket: None, level, bucket, key };
                if let Ok(operation) = route(&method, &address, &query, copies) {
                    assert!(!operation.name().is_empty());
                }
            }
        }
    }
}

/// The canonical path and query.
fn canonical(path: &str, query: &Query<'_>) -> Option<(String, String)> {
    let request = CanonicalRequest {
        method: "GET",
        path,
        path_form: PathForm::Canonical,
        query,
        query_without: None,
        headers: &HeaderMap::new(),
        authority: None,
        signed_headers: "host",
        payload: "",
    };
    let mut bytes = Vec::new();
    request.write(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).expect("the canonical form is ASCII");
    let mut lines = text.split('\n').skip(1);
    Some((lines.next()?.to_owned(), lines.next()?.to_owned()))
}

fn tokens(text: &str) {
    for listing in [ListingKind::Buckets, ListingKind::Objects] {
        let encoded = token::encode(listing, text);
        assert_eq!(token::decode(listing, &encoded).ok().as_deref(), Some(text));
        if let Ok(name) = token::decode(listing, text) {
            assert_eq!(token::encode(listing, &name), text);
        }
    }
}

fn named(text: &str) {
    if let Ok(name) = names::new_bucket(text) {
        assert!((3..=63).contains(&name.as_bytes().len()));
        assert_eq!(names::bucket(text).ok(), Some(name));
    }
    if let Ok(key) = names::key(text) {
        assert!((1..=KEY_BYTES_MAX).contains(&text.len()));
        assert_eq!(key.as_str(), text);
    }
    if let Ok(upload) = names::upload(text) {
        assert!(upload.to_string().eq_ignore_ascii_case(text));
    }
    if let Ok(number) = text.parse().map_err(drop).and_then(|number| names::part_number(number).map_err(drop))
    {
        assert!((1..=PARTS_MAX).contains(&number));
    }
    let _ = names::version("versionId", text);
}

fn of_header(text: &str) -> Result<ObjectTags, Refusal> {
    let unusable = |_| Refusal::new(Code::InvalidArgument);
    GivenTags::of_header(&HeaderValue::from_bytes(text.as_bytes()).map_err(unusable)?).stored()
}

fn tags(text: &str) {
    for tags in [of_header(text), tagging::of_field(text)].into_iter().flatten() {
        let tags_read = tags.decode().expect("encoded from tags");
        assert!(tags_read.len() <= OBJECT_TAGS_MAX && tags_read.len() == usize::from(tags.count()));
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs: Vec<String> =
            tags_read.iter().map(|tag| format!("{}={}", encoded(&tag.key), encoded(&tag.value))).collect();
        assert_eq!(of_header(&pairs.join("&")).as_ref(), Ok(&tags));
        let shown = |tag: &Tag| format!("<Tag><Key>{}</Key><Value>{}</Value></Tag>", tag.key, tag.value);
        let shown: String = tags_read.iter().map(shown).collect();
        // A parser takes the blanks around a text away.
        if !tags_read.iter().any(|tag| tag.key.trim() != tag.key || tag.value.trim() != tag.value) {
            let document = format!("<Tagging><TagSet>{shown}</TagSet></Tagging>");
            assert_eq!(tagging::of_field(&document), Ok(tags));
        }
    }
}

fn one(name: HeaderName, value: &HeaderValue) -> RequestHead<'static> {
    RequestHead::from_iter([(name, value.clone())])
}

fn headers(value: &HeaderValue) {
    for name in [IF_MATCH, IF_NONE_MATCH] {
        let Ok(judged) = conditions::of_read(&one(name.clone(), value)) else { continue };
        let tags = if name == IF_MATCH { judged.if_match } else { judged.if_none_match };
        let Some(EtagMatch::OneOf(tags)) = tags else { continue };
        if tags.is_empty() || tags.iter().any(|tag| tag.contains('"')) {
            continue;
        }
        let quoted: Vec<String> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
        // A text that no header can carry came from bytes that are not UTF-8.
        let Ok(written) = HeaderValue::try_from(quoted.join(", ")) else { continue };
        let judged = conditions::of_read(&one(name.clone(), &written)).expect("a list that is not empty");
        let again = if name == IF_MATCH { judged.if_match } else { judged.if_none_match };
        assert_eq!(again, Some(EtagMatch::OneOf(tags)));
    }
    let _ = conditions::of_read(&one(IF_MODIFIED_SINCE, value));
    let _ = conditions::of_write(&one(IF_MATCH, value));
    let _ = conditions::of_write(&one(IF_NONE_MATCH, value));
    let _ = conditions::of_delete(&one(IF_MATCH, value));
    assert!(if_range::Validator::of(&one(IF_RANGE, value)).is_none(), "without a range it says nothing");
    let range = (RANGE, HeaderValue::from_static("bytes=0-"));
    let ranged = RequestHead::from_iter([(IF_RANGE, value.clone()), range]);
    assert!(if_range::Validator::of(&ranged).is_some());
}

fn copy_sources(value: &HeaderValue) {
    let header = HeaderName::from_static("x-amz-copy-source");
    let head = one(header.clone(), value);
    let Ok(source) = head.copy_source() else { return };
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (bucket, key) = (encoded(source.name.bucket.name().as_str()), encoded(source.name.key.as_str()));
    let version = source.version.map_or_else(String::new, |version| format!("?versionId={version}"));
    let written = HeaderValue::try_from(format!("/{bucket}/{key}{version}")).expect("encoded to ASCII");
    assert_eq!(one(header, &written).copy_source().ok(), Some(source));
}

fn checksums(value: &HeaderValue) {
    for (algorithm, ..) in ALGORITHMS {
        let Some(found) = of_object(algorithm, value.as_bytes()) else { continue };
        assert_eq!((found.algorithm, found.value.len()), (algorithm, algorithm.bytes()));
        assert_eq!(of_object(algorithm, checksum::text(&found).as_bytes()), Some(found));
    }
    for header in ["x-amz-checksum-algorithm", "x-amz-checksum-type", "x-amz-trailer"] {
        let _ = checksum::of_upload(&one(HeaderName::from_static(header), value));
    }
}

fn stored(value: &HeaderValue) {
    let metadata = HeaderName::from_static("x-amz-meta-a");
    let names = [CONTENT_TYPE, CONTENT_ENCODING, metadata];
    let head: RequestHead<'_> = names.into_iter().map(|name| (name, value.clone())).collect();
    let Ok(attributes) = attributes::of_request(&head) else { return };
    let bytes: usize = attributes.pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(bytes <= ATTRIBUTES_BYTES_MAX && METADATA_BYTES_MAX <= ATTRIBUTES_BYTES_MAX);
    let mut answer = HeaderMap::new();
    attributes::add_headers(&attributes, &mut answer);
    assert!(!answer.contains_key("x-amz-missing-meta"), "what a header brought, a header carries");
    if attributes.pairs.iter().all(|(_, value)| value.is_ascii()) {
        let back = answer.into_iter().filter_map(|(name, value)| Some((name?, value)));
        assert_eq!(attributes::of_request(&back.collect()).ok(), Some(attributes));
    }
}
