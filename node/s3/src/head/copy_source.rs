//! `x-amz-copy-source` -> the object that is copied.
//!
//! `[/]bucket/key[?versionId=id]`, encoded as a query is: a plus sign is a blank, and `%2B` a plus sign, as
//! users of S3 found (github.com/aws/aws-cli/issues/614, github.com/aws/aws-sdk-php/issues/236).

use http::header::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use crate::head::names::{self, NamedVersion};
use crate::head::typed;
use crate::wire::code::Code;
use crate::wire::refusal::Refusal;
use sherd_store::object::ObjectName;

const NAME: &str = "x-amz-copy-source";
/// The header of an answer with the id of the version that was copied.
pub(crate) const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-copy-source-version-id");

/// The object that is copied, and whether its `null` version was named.
#[derive(Debug, PartialEq, Eq)]
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

/// Reads the source of a copy.
///
/// # Errors
/// InvalidArgument when it names no object or has no version id, NotImplemented for access points.
pub(crate) fn of(headers: &HeaderMap) -> Result<CopySource, Refusal> {
    let Some(value) = headers.get(NAME).filter(|value| !value.is_empty()) else {
        return Err(Refusal::says(Code::InvalidRequest, format!("missing header: {NAME}")));
    };
    let text = value.to_str().map_err(|_| typed::invalid(NAME, value))?;
    // AWS's own form of it, access points and outposts included.
    s3s::dto::CopySource::parse(text).map_err(|_| typed::invalid(NAME, value))?;
    parse(text)
}

fn parse(text: &str) -> Result<CopySource, Refusal> {
    let (path, version) = match text.split_once("?versionId=") {
        Some((path, version)) => (path, Some(decode(version)?)),
        None => (text, None),
    };
    let path = decode(path)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    if path.starts_with("arn:") {
        return Err(Refusal::says(Code::NotImplemented, "Copying from an access point is not implemented"));
    }
    let (bucket, key) = path.split_once('/').filter(|(_, key)| !key.is_empty()).ok_or_else(unreadable)?;
    let version = version.map(|id| names::version("versionId", &id)).transpose()?;
    Ok(CopySource { name: names::object(bucket, key)?, version })
}

fn decode(text: &str) -> Result<String, Refusal> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().map(Into::into).map_err(|_| unreadable())
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
            ("bucket/käse", "bucket", "käse", None),
        ];
        for (text, bucket, key, version) in cases {
            let name = names::object(bucket, key).unwrap();
            assert_eq!(parse(text).unwrap(), CopySource { name, version }, "{text}");
        }
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for text in ["", "/", "bucket", "bucket/", "/bucket", "%ff/key", "bucket/%ff"] {
            assert_eq!(parse(text).unwrap_err().code, Code::InvalidArgument, "{text}");
        }
        let code = |text: &str| parse(text).unwrap_err().code;
        for id in ["x", "", "+null", "00112233445566778899aabbccddeeff+"] {
            assert_eq!(code(&format!("bucket/k?versionId={id}")), Code::InvalidArgument, "{id}");
        }
        assert_eq!(code("arn:aws:s3:eu-west-1:123456789012:accesspoint/a/object/k"), Code::NotImplemented);
        assert_eq!(code(&format!("bucket/{}", "k".repeat(1025))), Code::KeyTooLongError);
    }
}
