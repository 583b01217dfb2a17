//! A bucket's tags: given to CreateBucket or PutBucketTagging, kept in the bucket's record.

use http::{Extensions, StatusCode};
use s3s::dto::{
    BucketInfo, BucketLocationConstraint, DeleteBucketTaggingInput, DeleteBucketTaggingOutput,
    GetBucketTaggingInput, GetBucketTaggingOutput, LocationInfo, PutBucketTaggingInput,
    PutBucketTaggingOutput, Tag as GivenTag,
};
use s3s::xml::{DeError, DeResult, Deserializer};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use sherd_core::limits::{BUCKET_TAGS_MAX, TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX};
use sherd_core::record::Tag;

use crate::error::{Outcome, not_configured};
use crate::protocol::context::RequestContext;
use crate::{gateway::Gateway, names};

pub(crate) async fn get(
    gateway: &Gateway,
    request: S3Request<GetBucketTaggingInput>,
) -> Outcome<S3Response<GetBucketTaggingOutput>> {
    let bucket = &request.input.bucket;
    let tags = gateway.objects.head_bucket(names::bucket(bucket)?).await?.tags;
    if tags.is_empty() {
        let message = "The TagSet does not exist";
        return Err(not_configured("NoSuchTagSet", StatusCode::NOT_FOUND, message, bucket).into());
    }
    let shown = |Tag { key, value }| GivenTag { key: Some(key), value: Some(value) };
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: tags.into_iter().map(shown).collect() }))
}

pub(crate) async fn put(
    gateway: &Gateway,
    request: S3Request<PutBucketTaggingInput>,
) -> Outcome<S3Response<PutBucketTaggingOutput>> {
    let tags = checked(request.input.tagging.tag_set)?;
    gateway.objects.set_bucket_tags(names::bucket(&request.input.bucket)?, tags).await?;
    let mut response = S3Response::new(PutBucketTaggingOutput::default());
    response.extensions.insert(StatusCode::NO_CONTENT);
    Ok(response)
}

pub(crate) async fn delete(
    gateway: &Gateway,
    request: S3Request<DeleteBucketTaggingInput>,
) -> Outcome<S3Response<DeleteBucketTaggingOutput>> {
    gateway.objects.set_bucket_tags(names::bucket(&request.input.bucket)?, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}

/// The tags in the document of a CreateBucket.
///
/// # Errors
/// MalformedXML for an element that AWS does not have there, InvalidTag and BadRequest for tags that are none.
pub(super) fn of_new_bucket(extensions: &Extensions) -> S3Result<Vec<Tag>> {
    let document = RequestContext::of(extensions).and_then(|context| context.extras.document.as_ref());
    let Some(document) = document else { return Ok(Vec::new()) };
    let given = tags_in(document).map_err(|_| {
        s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
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

fn checked(given: Vec<GivenTag>) -> S3Result<Vec<Tag>> {
    if given.len() > BUCKET_TAGS_MAX {
        let code = S3ErrorCode::from_bytes(b"BadRequest").expect("codes are UTF-8");
        let mut error =
            S3Error::with_message(code, format!("Bucket tag count cannot be greater than {BUCKET_TAGS_MAX}"));
        error.set_status_code(StatusCode::BAD_REQUEST);
        return Err(error);
    }
    let mut tags: Vec<Tag> = Vec::with_capacity(given.len());
    for GivenTag { key, value } in given {
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        if !(1..=TAG_KEY_CHARS_MAX).contains(&key.chars().count()) {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > TAG_VALUE_CHARS_MAX {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        if key.starts_with("aws:") {
            return Err(s3_error!(InvalidTag, "System tags cannot be added/updated by requester"));
        }
        if tags.iter().any(|tag| tag.key == key) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
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
        let code = |tags| checked(tags).unwrap_err().code().as_str().to_owned();
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
