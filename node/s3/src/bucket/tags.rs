//! A bucket's tags: given to CreateBucket or PutBucketTagging, kept in the bucket's record.

use s3s::dto::{
    BucketInfo, BucketLocationConstraint, GetBucketTaggingOutput, LocationInfo, Tag as GivenTag, Tagging,
};
use s3s::xml::{DeError, DeResult, Deserializer};
use sherd_core::limits::{BUCKET_TAGS_MAX, TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX};
use sherd_core::record::Tag;

use crate::answer::{self, Response};
use crate::error::{Outcome, not_configured};
use crate::gateway::Gateway;
use crate::header::document;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let tags = gateway.objects.head_bucket(bucket.clone()).await?.tags;
    if tags.is_empty() {
        return Err(not_configured(Code::NoSuchTagSet, bucket.as_str()).into());
    }
    let shown = |Tag { key, value }| GivenTag { key: Some(key), value: Some(value) };
    answer::document(&GetBucketTaggingOutput { tag_set: tags.into_iter().map(shown).collect() })
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let tagging: Tagging = document::required(request.payload.into_document())?;
    let tags = checked(tagging.tag_set)?;
    gateway.objects.set_bucket_tags(request.target.bucket_key(), tags).await?;
    Ok(answer::no_content())
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.set_bucket_tags(request.target.bucket_key(), Vec::new()).await?;
    Ok(answer::no_content())
}

/// The tags in the document of a CreateBucket.
///
/// # Errors
/// MalformedXML for an element that AWS does not have there, InvalidTag and BadRequest for tags that are
/// none.
pub(super) fn of_new_bucket(document: &[u8]) -> Result<Vec<Tag>, Refusal> {
    let given = tags_in(document).map_err(|_| {
        Refusal::says(
            Code::MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema",
        )
    })?;
    checked(given)
}

fn tags_in(document: &[u8]) -> DeResult<Vec<GivenTag>> {
    let mut tags = None;
    Deserializer::new(document).named_element("CreateBucketConfiguration", |configuration| {
        configuration.for_each_element(|element, name| match name {
            b"Tags" if tags.is_some() => Err(DeError::DuplicateField),
            b"Tags" => element.for_each_element(|element, name| match name {
                b"Tag" => {
                    tags.get_or_insert_with(Vec::new).push(element.content()?);
                    Ok(())
                }
                _ => Err(DeError::UnexpectedTagName),
            }),
            b"LocationConstraint" => element.content::<BucketLocationConstraint>().map(drop),
            b"Location" => element.content::<LocationInfo>().map(drop),
            b"Bucket" => element.content::<BucketInfo>().map(drop),
            _ => Err(DeError::UnexpectedTagName),
        })
    })?;
    Ok(tags.unwrap_or_default())
}

fn checked(given: Vec<GivenTag>) -> Result<Vec<Tag>, Refusal> {
    if given.len() > BUCKET_TAGS_MAX {
        let message = format!("Bucket tag count cannot be greater than {BUCKET_TAGS_MAX}");
        return Err(Refusal::says(Code::BadRequest, message));
    }
    let mut tags: Vec<Tag> = Vec::with_capacity(given.len());
    for GivenTag { key, value } in given {
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        if !(1..=TAG_KEY_CHARS_MAX).contains(&key.chars().count()) {
            return Err(Refusal::says(Code::InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > TAG_VALUE_CHARS_MAX {
            return Err(Refusal::says(Code::InvalidTag, "The TagValue you have provided is invalid"));
        }
        if key.starts_with("aws:") {
            return Err(Refusal::says(Code::InvalidTag, "System tags cannot be added/updated by requester"));
        }
        if tags.iter().any(|tag| tag.key == key) {
            return Err(Refusal::says(Code::InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
        tags.push(Tag { key, value });
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(key: &str, value: &str) -> GivenTag {
        GivenTag { key: Some(key.to_owned()), value: Some(value.to_owned()) }
    }

    #[test]
    fn the_document_of_a_new_bucket_has_tags() {
        let document = |inside: &str| {
            let document = format!(
                "<?xml version=\"1.0\"?><CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 {inside}</CreateBucketConfiguration>"
            );
            tags_in(document.as_bytes()).map(checked)
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

    #[test]
    fn tags_have_the_limits_of_aws() {
        let code = |tags| checked(tags).unwrap_err().code.name();
        let many =
            |count: usize| (0..count).map(|number| given(&number.to_string(), "v")).collect::<Vec<_>>();
        assert_eq!(checked(many(50)).unwrap().len(), 50);
        assert_eq!(code(many(51)), "BadRequest");
        assert!(checked(vec![given(&"\u{e9}".repeat(128), &"\u{e9}".repeat(256))]).is_ok());
        for bad in
            [given("", "v"), given(&"k".repeat(129), "v"), given("k", &"v".repeat(257)), given("aws:k", "v")]
        {
            assert_eq!(code(vec![bad]), "InvalidTag");
        }
        assert_eq!(code(vec![given("k", "1"), given("k", "2")]), "InvalidTag");
    }
}
