//! GetObject: conditions and a range -> a read -> headers and bytes.
//!
//! The status is 206 exactly when there is a `Content-Range`.

use std::ops::Range;

use http::StatusCode;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED,
};
use s3s::Body;
use sherd_core::record::ChecksumKind;
use sherd_front::decision::Decision;

use crate::access::facts::Facts;
use crate::access::{self, Access, READ_TAGS, of_version};
use crate::answer::{NULL, Outcome, Response, VERSION_ID};
use crate::head::if_range::{self, Validator};
use crate::wire::refusal::Code;

use crate::answer::body;
use crate::gateway::Gateway;
use crate::head::request_head::RequestHead;
use crate::head::{attributes, checksum, conditions, overrides, range, tagging, timestamp};
use crate::request::Request;
use crate::wire::refusal::Refusal;
use sherd_store::object::{Error, ObjectInfo, ObjectRead, ReadRequest, Span};

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    overrides::check(&request.head)?;
    let (id, revocation) = (request.id, request.access.caller().revocation());
    let mut asked = GetRequest::of(request)?;
    asked.wanted.overrides_first = true;
    let (found, described) = asked
        .read(|found: &ObjectRead| (&found.info, &found.range), |read| gateway.objects.get(read))
        .await?;
    let length = found.range.end - found.range.start;
    Ok(described.with(Body::from(body::download(found.body, length, id, revocation))))
}

/// How many tags an object has, where it has some.
const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// A request of GetObject or HeadObject.
pub(crate) struct GetRequest<'a> {
    /// The read that the store is asked for.
    read: ReadRequest,
    /// The version that the client has part of, where it asks for more of it.
    validator: Option<Validator>,
    /// The headers that the request wants answered instead of the stored ones.
    overrides: HeaderMap,
    /// Headers that the answer has beside the stored ones.
    wanted: WantedHeaders,
    /// The rights of the caller, by which the answer says how many tags there are, and the request's head.
    access: Access,
    head: RequestHead<'a>,
}

/// Headers that an answer has beside the stored ones.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "an answer has each of these or not")]
struct WantedHeaders {
    checksums: bool,
    version: bool,
    part: bool,
    /// Whether the headers that the request asks for stand in front of all others.
    overrides_first: bool,
}

impl<'a> GetRequest<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// As S3 answers ranges, parameters and headers that make no sense.
    pub(crate) fn of(request: Request<'a>) -> Result<Self, Refusal> {
        let version = request.names_null_version();
        let Request { target, head, access, .. } = request;
        if access.caller().is_anonymous() && overrides::are_in(&head) {
            let message = "Request specific response headers cannot be used for anonymous GET requests.";
            return Err(Refusal::says(Code::InvalidRequest, message));
        }
        let part = head.parameter("partNumber")?;
        overrides::check_expires(&head)?;
        let checksums = checksum::are_wanted(&head);
        Ok(Self {
            read: ReadRequest {
                name: target.object(),
                span: range::of_read(&head, part)?,
                conditions: conditions::of_read(&head)?,
            },
            validator: Validator::of(&head),
            overrides: overrides::of(&head)?,
            wanted: WantedHeaders { checksums, version, part: part.is_some(), overrides_first: false },
            access,
            head,
        })
    }

    /// Asks the store by one of its verbs, and describes what it found.
    ///
    /// # Errors
    /// As the store answers.
    pub(crate) async fn read<T, F>(
        self,
        about: impl Fn(&T) -> (&ObjectInfo, &Range<u64>),
        verb: impl Fn(ReadRequest) -> F,
    ) -> Outcome<(T, ResponseParts)>
    where
        F: Future<Output = sherd_store::object::Result<T>>,
    {
        let Self { read, validator, overrides, wanted, access, head } = self;
        let name = read.name.clone();
        let read = if_range::read(read, validator, |found| about(found).0, verb).await;
        let (span, found) = read.map_err(|error| with_overrides(error, &overrides))?;
        let (info, range) = about(&found);
        let mut described = describe(wanted, span, info, range, overrides);
        let facts = Facts::of(&head);
        access.settle_read(&name, facts, || tagging::given(&info.tags))?;
        let (action, resource) = (of_version(READ_TAGS, wanted.version), access::object(&name));
        let may_read_tags = || match access.decide(action, resource, facts.about_object()) {
            Decision::Needs(_) => tagging::given(&info.tags).is_ok_and(|tags| {
                access.decide(action, resource, facts.with_existing_tags(&tags)) == Decision::Allowed
            }),
            decided => decided == Decision::Allowed,
        };
        if !info.tags.is_empty() && may_read_tags() {
            described.0.insert(TAGGING_COUNT, HeaderValue::from(u16::from(info.tags.count())));
        }
        Ok((found, described))
    }
}

/// Headers of an answer about an object.
#[derive(Debug)]
pub(crate) struct ResponseParts(HeaderMap);

impl ResponseParts {
    /// The answer, with a body.
    pub(crate) fn with(self, body: Body) -> Response {
        let partial = self.0.contains_key(CONTENT_RANGE);
        let mut response = Response::new(body);
        *response.headers_mut() = self.0;
        if partial {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    }
}

/// Headers that an answer has beside what is stored with the object and what the protocol layer adds.
const HEADERS_USUAL: usize = 8;

/// An answer without a body says what the one with it would: the overrides, too.
fn with_overrides(error: Error, overrides: &HeaderMap) -> Error {
    let Error::NotModified { etag, modified_ms, mut attributes } = error else { return error };
    for (name, value) in overrides {
        attributes.pairs.retain(|(stored, _)| stored != name.as_str());
        let text = value.as_bytes().iter().copied().map(char::from).collect();
        attributes.pairs.push((name.as_str().to_owned(), text));
    }
    Error::NotModified { etag, modified_ms, attributes }
}

/// Describes an object, or the `range` of it that was read for `span`.
fn describe(
    wanted: WantedHeaders,
    span: Span,
    info: &ObjectInfo,
    range: &Range<u64>,
    overrides: HeaderMap,
) -> ResponseParts {
    let mut headers = HeaderMap::with_capacity(info.attributes.pairs.len() + HEADERS_USUAL);
    let ranged = matches!(span, Span::From { .. } | Span::Suffix { .. });
    if (ranged || wanted.part) && !range.is_empty() {
        let text = format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), info.size);
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(text).expect("digits are a header value"));
    }
    if wanted.overrides_first {
        headers.extend(overrides::first_of(&overrides));
    }
    attributes::add_headers(&info.attributes, &mut headers);
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(attributes::CONTENT_TYPE_DEFAULT));
    headers.extend(overrides);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    headers.insert(LAST_MODIFIED, timestamp::in_header(info.modified_ms));
    body::add_etag(&info.etag, &mut headers);
    if wanted.version {
        headers.insert(VERSION_ID, NULL);
    }
    // A range has no checksum of its own, and clients would check the whole's against it. A part shows its
    // own where the object's is made of those.
    let is_of_several = wanted.part && info.parts.is_some_and(|parts| parts > 1);
    let shows_part = !is_of_several || info.checksum_kind == Some(ChecksumKind::Composite);
    if wanted.checksums && !ranged && shows_part {
        checksum::add_headers(&info.checksums, info.checksum_kind, &mut headers);
    }
    if let (true, Some(parts)) = (wanted.part, info.parts) {
        headers.insert(HeaderName::from_static("x-amz-mp-parts-count"), HeaderValue::from(parts));
    }
    ResponseParts(headers)
}

#[cfg(test)]
mod tests {
    use sherd_core::record::{Attributes, Checksum, ChecksumAlgorithm, ChecksumBytes, Checksums, ObjectTags};

    use super::*;

    fn info(parts: Option<u16>) -> ObjectInfo {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        ObjectInfo {
            size: 100,
            etag: "0123".to_owned(),
            modified_ms: 784_111_777_999,
            attributes: Attributes {
                pairs: vec![pair("content-type", "text/plain"), pair("x-amz-meta-a", "1")],
            },
            checksums: Checksums::from_iter([Checksum {
                algorithm: ChecksumAlgorithm::Crc32,
                composite_of: None,
                value: ChecksumBytes::from_slice(&[0; 4]),
            }]),
            checksum_kind: Some(ChecksumKind::FullObject),
            parts,
            tags: ObjectTags::default(),
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    const NOTHING: WantedHeaders =
        WantedHeaders { checksums: false, version: false, part: false, overrides_first: false };
    const WITH_CHECKSUMS: WantedHeaders = WantedHeaders { checksums: true, ..NOTHING };
    const A_PART: WantedHeaders = WantedHeaders { part: true, ..WITH_CHECKSUMS };

    #[test]
    fn a_whole_object_is_described_by_what_was_stored() {
        let described = describe(WITH_CHECKSUMS, Span::Whole, &info(Some(3)), &(0..100), HeaderMap::new());
        assert!(!described.0.contains_key(CONTENT_RANGE));
        let expected = [
            ("accept-ranges", "bytes"),
            ("content-length", "100"),
            ("content-type", "text/plain"),
            ("etag", "\"0123\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("x-amz-checksum-crc32", "AAAAAA=="),
            ("x-amz-checksum-type", "FULL_OBJECT"),
            ("x-amz-meta-a", "1"),
        ];
        assert_eq!(described.0, headers(&expected));
    }

    #[test]
    fn a_range_says_which_bytes_and_has_no_checksum() {
        let span = Span::From { first: 10, last: None };
        let described = describe(WITH_CHECKSUMS, span, &info(None), &(10..100), HeaderMap::new());
        assert_eq!(described.0.get(CONTENT_RANGE).unwrap(), "bytes 10-99/100");
        assert_eq!(described.0.get("content-length").unwrap(), "90");
        assert!(!described.0.contains_key("x-amz-checksum-crc32"));
    }

    #[test]
    fn a_part_says_how_many_there_are() {
        let span = Span::Part { number: 2 };
        for (kind, shows_own) in [(ChecksumKind::Composite, true), (ChecksumKind::FullObject, false)] {
            let info = ObjectInfo { checksum_kind: Some(kind), ..info(Some(3)) };
            let described = describe(A_PART, span, &info, &(40..80), HeaderMap::new());
            assert_eq!(described.0.get(CONTENT_RANGE).unwrap(), "bytes 40-79/100");
            assert_eq!(described.0.get("x-amz-mp-parts-count").unwrap(), "3");
            assert_eq!(described.0.contains_key("x-amz-checksum-crc32"), shows_own, "{kind:?}");
        }
        let single = describe(A_PART, Span::Part { number: 1 }, &info(None), &(0..0), HeaderMap::new());
        assert!(!single.0.contains_key(CONTENT_RANGE), "an empty object has no first byte");
        assert!(!single.0.contains_key("x-amz-mp-parts-count"));
    }

    #[test]
    fn the_query_overrides_stored_headers() {
        let head = RequestHead::with(&[]);
        let head = head.and_query("response-content-type=image%2Fpng&response-expires=soon&x=y");
        let overrides = overrides::of(&head).unwrap();
        let described = describe(NOTHING, Span::Whole, &info(None), &(0..100), overrides);
        assert_eq!(described.0.get("content-type").unwrap(), "image/png");
        assert_eq!(described.0.get("expires").unwrap(), "soon");
    }
}
