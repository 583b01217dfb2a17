//! `x-amz-copy-source` -> the object that is copied.
//!
//! `[/]bucket/key[?versionId=id]`, encoded as a query is: a plus sign is a blank, and `%2B` a plus sign, as
//! users of S3 found (github.com/aws/aws-cli/issues/614, github.com/aws/aws-sdk-php/issues/236).

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sherd_signature::query::Query;

use crate::head::names::{self, NamedVersion};
use crate::wire::query::decoded;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::ObjectName;

pub(super) const HEADER: HeaderName = HeaderName::from_static("x-amz-copy-source");
/// The header of an answer with the id of the version that was copied.
pub(crate) const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-copy-source-version-id");

/// The object that is copied, and whether its `null` version was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopySource {
    /// The object.
    pub(crate) name: ObjectName,
    /// The version of it, where the request names one.
    pub(crate) version: Option<NamedVersion>,
}

impl CopySource {
    /// The version as policies know it, and as the answer names it.
    pub(crate) fn version_text(&self) -> Option<String> {
        self.version.map(|version| version.to_string())
    }
}

/// The source that a header names.
#[derive(Debug)]
pub(super) struct NamedSource {
    /// `bucket/key` as policies compare it, also where it names no object.
    pub(super) path: String,
    /// The object, or the refusal of a text that names none.
    pub(super) source: Result<CopySource, Refusal>,
}

impl NamedSource {
    pub(super) fn of(value: &HeaderValue) -> Self {
        let text = str::from_utf8(value.as_bytes()).unwrap_or_default();
        let (path, version) = match text.split_once("?versionId=") {
            Some((path, version)) => (path, Some(version)),
            None => (text, None),
        };
        let (path, is_text) = decoded(path);
        let path = path.strip_prefix('/').unwrap_or(&path);
        let source = checked(value).and_then(|()| source(path, is_text, version));
        Self { path: path.to_owned(), source }
    }
}

/// Whether a request has a source, among its headers or in its query.
pub(crate) fn is_named(headers: &HeaderMap, query: &Query<'_>) -> bool {
    let is_it = |name: &str| name.eq_ignore_ascii_case(HEADER.as_str());
    headers.contains_key(HEADER) || query.pairs().iter().any(|pair| is_it(&pair.name))
}

/// Checks that a source is text in AWS's own form of it, access points and outposts included.
fn checked(value: &HeaderValue) -> Result<(), Refusal> {
    if value.is_empty() {
        return Err(Refusal::missing_header(HEADER.as_str()));
    }
    let is_whole = value.to_str().is_ok_and(|text| s3s::dto::CopySource::parse(text).is_ok());
    if is_whole { Ok(()) } else { Err(Refusal::bad_header(HEADER.as_str(), value)) }
}

/// The object of a path that is decoded.
fn source(path: &str, is_text: bool, version: Option<&str>) -> Result<CopySource, Refusal> {
    let version = version.map(decoded);
    if !is_text || version.as_ref().is_some_and(|(_, is_text)| !is_text) {
        return Err(unreadable());
    }
    if path.starts_with("arn:") {
        return Err(Refusal::says(Code::NotImplemented, "Copying from an access point is not implemented"));
    }
    let (bucket, key) = path.split_once('/').filter(|(_, key)| !key.is_empty()).ok_or_else(unreadable)?;
    let version = version.map(|(id, _)| names::version("versionId", &id)).transpose()?;
    Ok(CopySource { name: names::object(bucket, key)?, version })
}

fn unreadable() -> Refusal {
    Refusal::says(
        Code::InvalidArgument,
        "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CopySource, Refusal> {
        NamedSource::of(&HeaderValue::from_bytes(text.as_bytes()).unwrap()).source
    }

    #[test]
    fn sources_come_with_and_without_slash_encoding_and_version() {
        let id = "00112233445566778899aabbccddeeff";
        let other = names::version("versionId", id).unwrap();
        let null = Some(NamedVersion::Null);
        let cases = [
            ("bucket/key", "bucket", "key", None),
            ("/bucket/key", "bucket", "key", None),
            ("/bucket//a/../b/", "bucket", "/a/../b/", None),
            ("bucket%2Fkey%20%C3%A4%2B+", "bucket", "key ä+ ", None),
            ("bucket/a+b%2B%C3%BC.txt", "bucket", "a b+ü.txt", None),
            ("bucket/a%3FversionId=b", "bucket", "a?versionId=b", None),
            ("bucket/a?b", "bucket", "a?b", None),
            ("bucket/key?versionId=null", "bucket", "key", null),
            ("bucket/a+b?versionId=%6Eull", "bucket", "a b", null),
            (&format!("bucket/key?versionId={id}"), "bucket", "key", Some(other)),
        ];
        for (text, bucket, key, version) in cases {
            let name = names::object(bucket, key).unwrap();
            assert_eq!(parse(text).unwrap(), CopySource { name, version }, "{text}");
        }
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for text in ["/", "bucket", "bucket/", "/bucket", "%ff/key", "bucket/%ff", "bucket/käse"] {
            assert_eq!(parse(text).unwrap_err().code, Code::InvalidArgument, "{text}");
        }
        let code = |text: &str| parse(text).unwrap_err().code;
        assert_eq!(code(""), Code::InvalidRequest);
        for id in ["x", "", "+null", "00112233445566778899aabbccddeeff+"] {
            assert_eq!(code(&format!("bucket/k?versionId={id}")), Code::InvalidArgument, "{id}");
        }
        assert_eq!(
            code("arn:aws:s3:eu-west-1:123456789012:accesspoint/point/object/k"),
            Code::NotImplemented
        );
        assert_eq!(code(&format!("bucket/{}", "k".repeat(1025))), Code::InvalidArgument);
    }

    #[test]
    fn a_source_is_named_in_the_head_or_in_the_query() {
        let mut headers = HeaderMap::new();
        let query = |text| Query::parse(Some(text)).expect("a query");
        assert!(!is_named(&headers, &query("x-amz-copy=1")));
        assert!(is_named(&headers, &query("a&X-Amz-Copy-Source=b%2Fk")));
        headers.insert(HEADER, HeaderValue::from_static("b/k"));
        assert!(is_named(&headers, &query("")));
    }
}
