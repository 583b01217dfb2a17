//! GetObject: conditions and a range -> a read -> headers and bytes.
//!
//! Headers are set as they were stored, past s3s's typed outputs, which would parse and refuse
//! some of them. The status is 206 exactly when there is a `Content-Range`.

use std::ops::Range;

use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
};
use s3s::dto::{GetObjectInput, GetObjectOutput};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::error::{Outcome, request_id};
use crate::header::if_range::{self, Validator};
use crate::protocol::query::{Pair, Query};
use crate::{
    Gateway, body, header::attributes, header::checksum, header::conditions, header::range,
    header::timestamp, names,
};
use sherd_store::object::{Error, ObjectInfo, ObjectRead, ReadRequest, Span};

pub(crate) async fn get(
    gateway: &Gateway,
    request: S3Request<GetObjectInput>,
) -> Outcome<S3Response<GetObjectOutput>> {
    let asked = asked!(request);
    let (found, described) = asked
        .read(|found: &ObjectRead| (&found.info, &found.range), |read| gateway.objects.get(read))
        .await?;
    let output = GetObjectOutput {
        body: Some(body::download(found.body, found.range.end - found.range.start, request_id(&request))),
        content_range: described.content_range,
        ..GetObjectOutput::default()
    };
    Ok(S3Response::with_headers(output, described.headers))
}

/// Takes from a request what both operations are asked: their inputs have fields of the same names.
macro_rules! asked {
    ($request:expr) => {{
        let input = &$request.input;
        $crate::object::get_object::GetRequest {
            bucket: &input.bucket,
            key: &input.key,
            part: input.part_number,
            version: input.version_id.as_deref(),
            headers: $crate::header::raw_headers::of(&$request),
            query: $request.uri.query(),
        }
    }};
}
pub(crate) use asked;

/// What GetObject and HeadObject are asked.
pub(crate) struct GetRequest<'a> {
    /// The bucket's name.
    pub(crate) bucket: &'a str,
    /// The object's key.
    pub(crate) key: &'a str,
    /// `partNumber`.
    pub(crate) part: Option<i32>,
    /// `versionId`.
    pub(crate) version: Option<&'a str>,
    /// The request's headers.
    pub(crate) headers: &'a HeaderMap,
    /// The request's query.
    pub(crate) query: Option<&'a str>,
}

impl GetRequest<'_> {
    /// Asks the store by one of its verbs, and describes what it found.
    ///
    /// # Errors
    /// As S3 answers what makes no sense, and as the store answers.
    pub(crate) async fn read<T, F>(
        &self,
        about: impl Fn(&T) -> (&ObjectInfo, &Range<u64>),
        verb: impl Fn(ReadRequest) -> F,
    ) -> Outcome<(T, ResponseParts)>
    where
        F: Future<Output = sherd_store::object::Result<T>>,
    {
        let (read, overrides) = (self.read_request()?, self.overrides()?);
        let validator = Validator::of(self.headers);
        let read = if_range::read(read, validator, |found| about(found).0, verb).await;
        let (span, found) = read.map_err(|error| with_overrides(error, &overrides))?;
        let (info, range) = about(&found);
        let described = describe(self, span, info, range, overrides);
        Ok((found, described))
    }

    /// What the store is asked.
    ///
    /// # Errors
    /// As S3 answers names, versions, ranges and headers that make no sense.
    fn read_request(&self) -> S3Result<ReadRequest> {
        names::version(self.version)?;
        let range = self.headers.get(http::header::RANGE).map(HeaderValue::as_bytes);
        Ok(ReadRequest {
            name: names::object(self.bucket, self.key)?,
            span: range::span(range, self.part)?,
            conditions: conditions::of_read(self.headers)?,
        })
    }

    /// The headers that the request wants answered instead of the stored ones (`response-*`).
    ///
    /// # Errors
    /// InvalidArgument for values that no header can carry.
    fn overrides(&self) -> S3Result<HeaderMap> {
        let bad = |name: &str| s3_error!(InvalidArgument, "Invalid value for {name}");
        let query = Query::parse(self.query).map_err(|_| bad("the query"))?;
        let mut headers = HeaderMap::new();
        for name in attributes::SYSTEM {
            let is_it = |pair: &&Pair<'_>| pair.name.strip_prefix("response-") == Some(name.as_str());
            let Some(pair) = query.pairs().iter().find(is_it) else { continue };
            let value = pair.value().ok().and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
            headers.insert(name, value.ok_or_else(|| bad(&pair.name))?);
        }
        Ok(headers)
    }

    fn wants_checksums(&self) -> bool {
        self.headers.get("x-amz-checksum-mode").is_some_and(|mode| mode == "ENABLED")
    }
}

/// What an answer says about an object.
pub(crate) struct ResponseParts {
    /// All headers but `Content-Range`.
    pub(crate) headers: HeaderMap,
    /// Which bytes the answer is about, when they are not simply all.
    pub(crate) content_range: Option<String>,
}

/// Headers that an answer has beside what is stored with the object and what the protocol layer adds.
const HEADERS_USUAL: usize = 8;

/// An entity tag as a header has it.
fn quoted(etag: &str) -> String {
    let mut text = String::with_capacity(etag.len() + 2);
    text.push('"');
    text.push_str(etag);
    text.push('"');
    text
}

/// An answer without a body says what the one with it would: the overrides, too.
fn with_overrides(error: Error, overrides: &HeaderMap) -> Error {
    let Error::NotModified { etag, modified_ms, mut attributes } = error else { return error };
    for (name, value) in overrides {
        attributes.pairs.retain(|(stored, _)| stored != name.as_str());
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        attributes.pairs.push((name.as_str().to_owned(), text));
    }
    Error::NotModified { etag, modified_ms, attributes }
}

/// Describes an object, or the `range` of it that was read for `span`.
fn describe(
    asked: &GetRequest<'_>,
    span: Span,
    info: &ObjectInfo,
    range: &Range<u64>,
    overrides: HeaderMap,
) -> ResponseParts {
    let mut headers = attributes::to_headers(&info.attributes, HEADERS_USUAL);
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(attributes::CONTENT_TYPE_DEFAULT));
    headers.extend(overrides);
    let ranged = matches!(span, Span::From { .. } | Span::Suffix { .. });
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    headers.insert(LAST_MODIFIED, timestamp::in_header(info.modified_ms));
    if let Ok(etag) = HeaderValue::try_from(quoted(&info.etag)) {
        headers.insert(ETAG, etag);
    }
    if asked.version.is_some() {
        headers.insert(HeaderName::from_static("x-amz-version-id"), HeaderValue::from_static("null"));
    }
    // A range has no checksum of its own, and clients would check the whole's against it.
    if asked.wants_checksums() && !ranged {
        checksum::add_headers(&info.checksums, info.checksum_kind, &mut headers);
    }
    if let (Some(_), Some(parts)) = (asked.part, info.parts) {
        headers.insert(HeaderName::from_static("x-amz-mp-parts-count"), HeaderValue::from(parts));
    }
    let partial = (ranged || asked.part.is_some()) && !range.is_empty();
    let content_range =
        partial.then(|| format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), info.size));
    ResponseParts { headers, content_range }
}

#[cfg(test)]
mod tests {
    use s3s::S3ErrorCode;
    use sherd_core::record::{
        Attributes, Checksum, ChecksumAlgorithm, ChecksumBytes, ChecksumKind, Checksums,
    };

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
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn asked<'a>(headers: &'a HeaderMap, part: Option<i32>, query: Option<&'a str>) -> GetRequest<'a> {
        GetRequest { bucket: "bucket", key: "key", part, version: None, headers, query }
    }

    #[test]
    fn a_whole_object_is_described_by_what_was_stored() {
        let request = headers(&[("x-amz-checksum-mode", "ENABLED")]);
        let described =
            describe(&asked(&request, None, None), Span::Whole, &info(Some(3)), &(0..100), HeaderMap::new());
        assert_eq!(described.content_range, None);
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
        assert_eq!(described.headers, headers(&expected));
    }

    #[test]
    fn a_range_says_which_bytes_and_has_no_checksum() {
        let request = headers(&[("x-amz-checksum-mode", "ENABLED")]);
        let span = Span::From { first: 10, last: None };
        let described =
            describe(&asked(&request, None, None), span, &info(None), &(10..100), HeaderMap::new());
        assert_eq!(described.content_range.as_deref(), Some("bytes 10-99/100"));
        assert_eq!(described.headers.get("content-length").unwrap(), "90");
        assert!(!described.headers.contains_key("x-amz-checksum-crc32"));
    }

    #[test]
    fn a_part_says_how_many_there_are() {
        let request = headers(&[("x-amz-checksum-mode", "ENABLED")]);
        let span = Span::Part { number: 2 };
        let described =
            describe(&asked(&request, Some(2), None), span, &info(Some(3)), &(40..80), HeaderMap::new());
        assert_eq!(described.content_range.as_deref(), Some("bytes 40-79/100"));
        assert_eq!(described.headers.get("x-amz-mp-parts-count").unwrap(), "3");
        assert!(described.headers.contains_key("x-amz-checksum-crc32"));
        let single = describe(
            &asked(&request, Some(1), None),
            Span::Part { number: 1 },
            &info(None),
            &(0..0),
            HeaderMap::new(),
        );
        assert_eq!(single.content_range, None, "an empty object has no first byte");
        assert!(!single.headers.contains_key("x-amz-mp-parts-count"));
    }

    #[test]
    fn the_query_overrides_stored_headers() {
        let request = HeaderMap::new();
        let query = "response-content-type=image%2Fpng&response-expires=soon&x=y";
        let asked = asked(&request, None, Some(query));
        let described = describe(&asked, Span::Whole, &info(None), &(0..100), asked.overrides().unwrap());
        assert_eq!(described.headers.get("content-type").unwrap(), "image/png");
        assert_eq!(described.headers.get("expires").unwrap(), "soon");
    }

    #[test]
    fn an_override_cannot_smuggle_a_header() {
        let request = HeaderMap::new();
        let error = asked(&request, None, Some("response-content-type=a%0d%0ax:y")).overrides().unwrap_err();
        assert_eq!(error.code(), &S3ErrorCode::InvalidArgument);
    }
}
