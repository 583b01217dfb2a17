//! `x-amz-copy-source` -> the object that is copied.
//!
//! `[/]bucket/key[?versionId=id]`, percent-encoded; a plus sign is a plus sign. s3s parses the
//! header too, but cannot tell a bad bucket name from no header at all.

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3Result, s3_error};

use crate::names;
use sherd_store::object::ObjectName;

/// The object that is copied, and whether its `null` version was named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CopySource {
    /// Which object.
    pub(crate) name: ObjectName,
    /// Whether the request said `versionId=null`.
    pub(crate) null_version: bool,
}

/// Reads the source of a copy.
///
/// # Errors
/// InvalidArgument when it names no object, NotImplemented for access points, NoSuchVersion for a
/// version other than `null`.
pub(crate) fn of(headers: &HeaderMap) -> S3Result<CopySource> {
    let value = headers.get("x-amz-copy-source").map_or(b"".as_slice(), http::HeaderValue::as_bytes);
    parse(std::str::from_utf8(value).map_err(|_| unreadable())?)
}

fn parse(text: &str) -> S3Result<CopySource> {
    let (path, version) = match text.split_once("?versionId=") {
        Some((path, version)) => (path, Some(decode(version)?)),
        None => (text, None),
    };
    let path = decode(path)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    if path.starts_with("arn:") {
        return Err(s3_error!(NotImplemented, "Copying from an access point is not implemented"));
    }
    let (bucket, key) = path.split_once('/').filter(|(_, key)| !key.is_empty()).ok_or_else(unreadable)?;
    Ok(CopySource { name: names::object(bucket, key)?, null_version: names::version(version.as_deref())? })
}

fn decode(text: &str) -> S3Result<String> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| unreadable())
}

fn unreadable() -> S3Error {
    s3_error!(InvalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
}

#[cfg(test)]
mod tests {
    use s3s::S3ErrorCode;

    use super::*;

    #[test]
    fn sources_come_with_and_without_slash_encoding_and_version() {
        let cases = [
            ("bucket/key", "bucket", "key", false),
            ("/bucket/key", "bucket", "key", false),
            ("/bucket//a/../b/", "bucket", "/a/../b/", false),
            ("bucket%2Fkey%20%C3%A4%2B+", "bucket", "key ä++", false),
            ("bucket/a%3FversionId=b", "bucket", "a?versionId=b", false),
            ("bucket/a?b", "bucket", "a?b", false),
            ("bucket/key?versionId=null", "bucket", "key", true),
            ("bucket/käse", "bucket", "käse", false),
        ];
        for (text, bucket, key, null_version) in cases {
            let name = names::object(bucket, key).unwrap();
            assert_eq!(parse(text).unwrap(), CopySource { name, null_version }, "{text}");
        }
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for text in ["", "/", "bucket", "bucket/", "/bucket", "%ff/key", "bucket/%ff"] {
            assert_eq!(parse(text).unwrap_err().code(), &S3ErrorCode::InvalidArgument, "{text}");
        }
        let code = |text| parse(text).unwrap_err().code().clone();
        assert_eq!(code("bucket/k?versionId=00112233445566778899aabbccddeeff"), S3ErrorCode::NoSuchVersion);
        assert_eq!(code("bucket/k?versionId=x"), S3ErrorCode::InvalidArgument);
        assert_eq!(
            code("arn:aws:s3:eu-west-1:123456789012:accesspoint/a/object/k"),
            S3ErrorCode::NotImplemented
        );
        assert_eq!(code(&format!("bucket/{}", "k".repeat(1025))), S3ErrorCode::KeyTooLongError);
    }
}
