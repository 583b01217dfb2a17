//! `x-amz-copy-source` -> the object that is copied.
//!
//! `[/]bucket/key[?versionId=id]`, encoded as a query is: a plus sign is a blank, and `%2B` a plus sign, as
//! users of S3 found (github.com/aws/aws-cli/issues/614, github.com/aws/aws-sdk-php/issues/236).

use http::header::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use sherd_core::record::Tag;
use sherd_front::decision::Decision;

use crate::access::facts::Facts;
use crate::access::{self, Access, READ_OBJECT, RightsError, of_version};
use crate::error::{Failure, Outcome};
use crate::gateway::Gateway;
use crate::header::{conditions, tagging, typed};
use crate::names::{self, NamedVersion};
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use sherd_store::object::{Error, ObjectName, ReadConditions};

const NAME: &str = "x-amz-copy-source";
/// Which version was copied.
pub(crate) const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-copy-source-version-id");

/// The object that is copied, and whether its `null` version was named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CopySource {
    /// Which object.
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

/// The source of a copy, and the rights of the copy's caller in its bucket.
#[derive(Debug)]
pub(crate) struct ReadableSource {
    /// The object that is copied, in a bucket that was looked up.
    pub(crate) source: CopySource,
    /// The rights of the caller there, which cover the read of it.
    pub(crate) access: Access,
    /// The tags that decided: what is copied has to have them. `None`: no decision depends on them.
    pub(crate) tags: Option<Vec<Tag>>,
}

impl ReadableSource {
    /// The tags of the source, which decide.
    ///
    /// # Errors
    /// As the store answers, as the caller may see it.
    pub(crate) async fn deciding_tags(&mut self, gateway: &Gateway) -> Outcome<&[Tag]> {
        if self.tags.is_none() {
            let tags = gateway.objects.tags(&self.source.name).await;
            self.tags = Some(tags.map_err(|error| self.shown(error))?);
        }
        Ok(self.tags.as_deref().unwrap_or_default())
    }

    /// The conditions on what is copied: those of the request, and that it has the tags that decided.
    ///
    /// # Errors
    /// As [`conditions::of_copy_source`].
    pub(crate) fn conditions(&self, headers: &HeaderMap) -> Result<ReadConditions, Refusal> {
        let tags = self.tags.as_deref().map(tagging::encoded).transpose()?;
        Ok(ReadConditions { tags, ..conditions::of_copy_source(headers)? })
    }

    /// The error of a copy, as its caller may see it.
    pub(crate) fn shown(&self, error: Error) -> Failure {
        match self.access.shown(self.source.name.bucket.name().as_str(), error) {
            Ok(error) => error.into(),
            Err(refusal) => refusal.into(),
        }
    }
}

/// Reads the source of a copy that its caller may read, by the rights in the source's own bucket.
///
/// # Errors
/// As [`of`]; AccessDenied where the caller may not; NoSuchVersion for a version that is not there.
pub(crate) async fn readable(
    gateway: &Gateway,
    headers: &HeaderMap,
    access: &Access,
) -> Outcome<ReadableSource> {
    let mut source = of(headers)?;
    // Looked up when the target's bucket and the caller were. A copy within a bucket has one view of it: of
    // two, one may allow the read and the other the write, and none both.
    if let Some(bucket) = access.copied_bucket() {
        source.name.bucket = bucket.clone();
    }
    let access = match access.clone().in_bucket(&source.name.bucket) {
        Ok(access) => access,
        // The copy fails by what the look-up found.
        Err(RightsError::NoBucket | RightsError::Store(_)) if access.is_roots() => access.clone(),
        Err(RightsError::NoBucket) => return Err(Refusal::new(Code::NoSuchBucket).into()),
        Err(RightsError::Store(error)) => return Err(error.into()),
        Err(RightsError::Undecodable) => return Err(Refusal::new(Code::ServiceUnavailable).into()),
    };
    let mut found = ReadableSource { source, access, tags: None };
    check_read(gateway, headers, &mut found).await?;
    found.source.version.map_or(Ok(()), NamedVersion::check_exists)?;
    Ok(found)
}

/// Checks that the caller may read the source; by its tags where the decision waits for them.
async fn check_read(gateway: &Gateway, headers: &HeaderMap, found: &mut ReadableSource) -> Outcome<()> {
    let version = found.source.version_text();
    let action = of_version(READ_OBJECT, version.is_some());
    let facts = Facts::of(headers).with_version(version.as_deref()).about_object();
    let resource = access::object(&found.source.name);
    match found.access.decide(action, resource, facts) {
        Decision::Allowed => return Ok(()),
        Decision::Needs(_) => _ = found.deciding_tags(gateway).await?,
        Decision::Denied(_) => {}
    }
    let facts = found.tags.as_deref().map_or(facts, |tags| facts.with_existing_tags(tags));
    Ok(found.access.allow(action, access::object(&found.source.name), facts)?)
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
    fn what_is_copied_has_to_have_the_tags_that_decided() {
        let name = names::object("bucket", "key").unwrap();
        let access = Access::denying(READ_OBJECT, &names::object("bucket", "other").unwrap());
        let decided = vec![Tag { key: "class".to_owned(), value: "public".to_owned() }];
        for tags in [None, Some(Vec::new()), Some(decided)] {
            let source = CopySource { name: name.clone(), version: None };
            let readable = ReadableSource { source, access: access.clone(), tags: tags.clone() };
            let conditions = readable.conditions(&HeaderMap::new()).unwrap();
            assert_eq!(conditions.tags.map(|tags| tags.decode().unwrap()), tags);
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
