//! The source of a copy, and whether its caller may read it.

use s3s::dto::{ChecksumType, CopyObjectResult};
use sherd_core::record::Tag;
use sherd_front::decision::Decision;
use sherd_store::object::{Error, ReadConditions, WriteOutcome};

use crate::access::facts::Facts;
use crate::access::{self, Access, READ_OBJECT, RightsError, of_version};
use crate::answer::{self, Failure, NULL, Outcome, Response, body};
use crate::gateway::Gateway;
use crate::head::checksum_elements::{ChecksummedContent, ChecksummedDocument};
use crate::head::copy_source::{self, CopySource};
use crate::head::names::NamedVersion;
use crate::head::request_head::RequestHead;
use crate::head::{conditions, tagging, timestamp};
use crate::wire::refusal::{Code, Refusal};

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
    pub(crate) fn conditions(&self, head: &RequestHead<'_>) -> Result<ReadConditions, Refusal> {
        let tags = self.tags.as_deref().map(tagging::encoded).transpose()?;
        Ok(ReadConditions { tags, ..conditions::of_copy_source(head)? })
    }

    /// The answer of a copy: a document of this name.
    ///
    /// # Errors
    /// InternalError when it cannot be written.
    pub(crate) fn answer(
        &self,
        element: &'static str,
        written: &WriteOutcome,
        checksum_type: Option<ChecksumType>,
    ) -> Outcome<Response> {
        let content = CopyObjectResult {
            e_tag: Some(body::etag(&written.etag)),
            last_modified: Some(timestamp::in_xml(written.modified_ms)),
            checksum_type,
            ..CopyObjectResult::default()
        };
        let content = ChecksummedContent { checksums: &written.checksums, content };
        let mut response = answer::document(&ChecksummedDocument { element, content })?;
        if self.source.version.is_some() {
            response.headers_mut().insert(copy_source::VERSION_ID, NULL);
        }
        Ok(response)
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
/// As [`RequestHead::copy_source`]; AccessDenied where the caller may not; NoSuchVersion for a version that
/// is not there.
pub(crate) async fn readable(
    gateway: &Gateway,
    head: &RequestHead<'_>,
    access: &Access,
) -> Outcome<ReadableSource> {
    let mut source = head.copy_source()?.clone();
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
    check_read(gateway, head, &mut found).await?;
    found.source.version.map_or(Ok(()), NamedVersion::check_exists)?;
    Ok(found)
}

/// Checks that the caller may read the source; by its tags where the decision waits for them.
async fn check_read(gateway: &Gateway, head: &RequestHead<'_>, found: &mut ReadableSource) -> Outcome<()> {
    let version = found.source.version_text();
    let action = of_version(READ_OBJECT, version.is_some());
    let facts = Facts::of(head).with_version(version.as_deref()).about_object();
    let resource = access::object(&found.source.name);
    match found.access.decide(action, resource, facts) {
        Decision::Allowed => return Ok(()),
        Decision::Needs(_) => _ = found.deciding_tags(gateway).await?,
        Decision::Denied(_) => {}
    }
    let facts = found.tags.as_deref().map_or(facts, |tags| facts.with_existing_tags(tags));
    Ok(found.access.allow(action, access::object(&found.source.name), facts)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::names;

    #[test]
    fn what_is_copied_has_to_have_the_tags_that_decided() {
        let name = names::object("bucket", "key").unwrap();
        let access = Access::denying(READ_OBJECT, &names::object("bucket", "other").unwrap());
        let decided = vec![Tag { key: "class".to_owned(), value: "public".to_owned() }];
        for tags in [None, Some(Vec::new()), Some(decided)] {
            let source = CopySource { name: name.clone(), version: None };
            let readable = ReadableSource { source, access: access.clone(), tags: tags.clone() };
            let conditions = readable.conditions(&RequestHead::with(&[])).unwrap();
            assert_eq!(conditions.tags.map(|tags| tags.decode().unwrap()), tags);
        }
    }
}
