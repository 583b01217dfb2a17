//! A bucket's tags: given to CreateBucket or PutBucketTagging, kept in the bucket's record.

use s3s::dto::{BucketInfo, BucketLocationConstraint, GetBucketTaggingOutput, LocationInfo, Tag as GivenTag};
use s3s::xml::{DeError, DeResult, Deserializer};
use sherd_core::id::ObjectKey;
use sherd_core::record::Tag;
use sherd_policy::Resource;

use crate::access::facts::{DocumentFacts, Facts};
use crate::access::{Access, TAG_RESOURCE};
use crate::answer::{self, Outcome, Response};
use crate::error::not_configured;
use crate::gateway::Gateway;
use crate::head::document;
use crate::head::tagging::{self, TagOwner, checked};
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let tags = gateway.objects.head_bucket(bucket.clone()).await?.tags;
    if tags.is_empty() {
        return Err(not_configured(Code::NoSuchTagSet, bucket.as_str()).into());
    }
    answer::document(&GetBucketTaggingOutput { tag_set: tags.into_iter().map(tagging::shown).collect() })
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let tags = tagging::of_bucket_document(request.payload.into_document())?;
    let access = request.access;
    let given = DocumentFacts::Bucket { location: "", tags: &tags };
    let facts = Facts::of(&request.head).with_document(given);
    access.settle(Resource::Bucket(request.target.bucket_name()), facts)?;
    set(gateway, &access, request.target.bucket_key(), tags).await
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    set(gateway, &request.access, request.target.bucket_key(), Vec::new()).await
}

/// Callers other than root give root's tags back as they are, as S3 wants it of its own: what they leave out
/// is refused and not kept, so that no answer says that a tag is gone which is still there.
async fn set(gateway: &Gateway, access: &Access, bucket: ObjectKey, tags: Vec<Tag>) -> Outcome<Response> {
    gateway.objects.set_bucket_tags(bucket, tags, access.is_roots()).await?;
    Ok(answer::no_content())
}

/// The tags in the document of a CreateBucket.
///
/// # Errors
/// MalformedXML for an element that AWS does not have there, InvalidTag and BadRequest for tags that are
/// none.
pub(super) fn of_new_bucket(document: &[u8]) -> Result<Vec<Tag>, Refusal> {
    let given = tags_in(document).map_err(|_| Refusal::new(Code::MalformedXML))?;
    checked(TagOwner::Bucket, given)
}

/// Asks whether the caller may make a bucket with these tags.
///
/// # Errors
/// AccessDenied; InvalidTag for one that root alone gives.
pub(super) fn check_new(
    access: &Access,
    bucket: &str,
    tags: &[Tag],
    facts: Facts<'_>,
) -> Result<(), Refusal> {
    if tags.is_empty() || access.is_roots() {
        return Ok(());
    }
    access.allow(TAG_RESOURCE, Resource::Bucket(bucket), facts)?;
    match tags.iter().find(|tag| tag.is_roots()) {
        Some(tag) => Err(tagging::reserved(&tag.key, false)),
        None => Ok(()),
    }
}

fn tags_in(document: &[u8]) -> DeResult<Vec<GivenTag>> {
    let mut tags = None;
    Deserializer::new(document).named_element("CreateBucketConfiguration", |configuration| {
        configuration.for_each_element(|element, name| match name {
            b"Tags" => document::once(&mut tags, tagging::tags_of(element)?),
            b"LocationConstraint" => element.content::<BucketLocationConstraint>().map(drop),
            b"Location" => element.content::<LocationInfo>().map(drop),
            b"Bucket" => element.content::<BucketInfo>().map(drop),
            _ => Err(DeError::UnexpectedTagName),
        })
    })?;
    Ok(tags.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_new_bucket_has_tags() {
        let document = |inside: &str| {
            let document = format!(
                "<?xml version=\"1.0\"?><CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 {inside}</CreateBucketConfiguration>"
            );
            tags_in(document.as_bytes()).map(|given| checked(TagOwner::Bucket, given))
        };
        let tags = "<Tags><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value/></Tag></Tags>";
        let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
        let expected = [tag("a", "1"), tag("b", "")];
        assert_eq!(document(tags).unwrap().unwrap(), expected);
        let beside = format!("<LocationConstraint>eu-west-1</LocationConstraint>{tags}");
        assert_eq!(document(&beside).unwrap().unwrap(), expected);
        assert!(document("").unwrap().unwrap().is_empty());
        for bad in [&tags.repeat(2), "<Tags><Tug/></Tags>", "<Unknown/>"] {
            assert!(document(bad).is_err(), "{bad}");
        }
    }
}
