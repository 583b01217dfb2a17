//! Small things of S3's letter, each by the answer that AWS gives: what stands in errors, which check comes
//! first, what is kept of a header.

use aws_sdk_s3::types::{
    BucketLocationConstraint, CreateBucketConfiguration, Delete, EncodingType, MetadataDirective,
    ObjectAttributes, ObjectIdentifier,
};

use super::*;

/// The value that an error says cannot be used, by the argument that it names.
fn argument(refusal: &Refusal) -> (String, String) {
    let element = |name: &str| {
        let rest = refusal.document().split_once(&format!("<{name}>")).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split('<').next()).unwrap_or("nothing").to_owned()
    };
    assert_eq!((refusal.status, refusal.code.as_str()), (400, "InvalidArgument"));
    (element("ArgumentName"), element("ArgumentValue"))
}

#[tokio::test]
async fn an_invalid_argument_is_named_with_its_value() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let list = || client.list_objects_v2().bucket(BUCKET);
    let part = client.upload_part().bucket(BUCKET).key("k").upload_id("0".repeat(32));
    let copy = client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
    let attributes = client.get_object_attributes().bucket(BUCKET).key("k");
    let refusals = [
        (refused(list().max_keys(-1).send().await), "max-keys", "-1"),
        (refused(list().continuation_token("tampered").send().await), "continuation-token", "tampered"),
        (refused(list().continuation_token("").send().await), "continuation-token", ""),
        (refused(list().encoding_type(EncodingType::from("utf")).send().await), "encoding-type", "utf"),
        (refused(client.list_buckets().max_buckets(0).send().await), "max-buckets", "0"),
        (refused(part.part_number(10_001).send().await), "partNumber", "10001"),
        (
            refused(copy.metadata_directive(MetadataDirective::from("MERGE")).send().await),
            "x-amz-metadata-directive",
            "MERGE",
        ),
        (
            refused(attributes.object_attributes(ObjectAttributes::from("Colour")).send().await),
            "x-amz-object-attributes",
            "Colour",
        ),
    ];
    for (refusal, name, value) in &refusals {
        assert_eq!(argument(refusal), ((*name).to_owned(), (*value).to_owned()));
    }
}

#[tokio::test]
async fn a_location_is_a_region_of_aws_or_invalid() {
    let node = node().await;
    let client = node.client();
    let make = |location: &str| {
        let constraint = BucketLocationConstraint::from(location);
        let configuration = CreateBucketConfiguration::builder().location_constraint(constraint).build();
        client.create_bucket().bucket(BUCKET).create_bucket_configuration(configuration).send()
    };
    let unknown = refused(make("atlantis").await);
    assert_eq!((unknown.status, unknown.code.as_str()), (400, "InvalidLocationConstraint"));
    assert!(unknown.document().contains("<LocationConstraint>atlantis</LocationConstraint>"));
    for elsewhere in ["eu-west-1", "EU"] {
        assert_eq!(code(make(elsewhere).await), is(400, "IllegalLocationConstraintException"));
    }
}

#[tokio::test]
async fn a_bucket_has_a_name_in_all_of_aws() {
    let node = node().await;
    let client = node.client();
    let arn = format!("arn:aws:s3:::{BUCKET}");
    let made = client.create_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(made.bucket_arn(), Some(arn.as_str()));
    let head = client.head_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(head.bucket_arn(), Some(arn.as_str()));
    let listed = client.list_buckets().send().await.unwrap();
    assert_eq!(listed.buckets()[0].bucket_arn(), Some(arn.as_str()));
}

#[tokio::test]
async fn a_bucket_is_missed_before_what_is_asked_of_its_object_is_judged() {
    let node = node().await;
    let client = node.client();
    let missing = is(404, "NoSuchBucket");
    let part = |number| client.upload_part().bucket("none").key("k").part_number(number);
    assert_eq!(code(part(0).upload_id("u").send().await), missing);
    assert_eq!(code(part(1).upload_id("u").send().await), missing);
    let copy = client.copy_object().bucket("none").key("k").copy_source("none");
    assert_eq!(code(copy.send().await), missing);
    let attributes = client.get_object_attributes().bucket("none").key("k");
    let colour = attributes.object_attributes(ObjectAttributes::from("Colour"));
    assert_eq!(code(colour.send().await), missing);
    let parts = client.list_parts().bucket("none").key("k").upload_id("u");
    assert_eq!(code(parts.send().await), missing);
    // The parameters of a list are judged first.
    let list = client.list_objects_v2().bucket("none").max_keys(-1);
    assert_eq!(code(list.send().await), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn encodings_are_kept_but_for_that_of_the_transfer() {
    let (_node, client) = a_bucket().await;
    let at = client.put_object().bucket(BUCKET).key("k").body(ByteStream::from_static(b"v"));
    at.content_encoding("gzip, aws-chunked, deflate").send().await.unwrap();
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.content_encoding(), Some("gzip, deflate"));
}

#[tokio::test]
async fn a_range_with_a_blank_is_ignored() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "0123456789").await;
    for range in ["bytes= -1", "bytes=1 -2", "bytes=1- 2", "bytes =1-2"] {
        let read = client.get_object().bucket(BUCKET).key("k").range(range).send().await.unwrap();
        assert_eq!(read.body.collect().await.unwrap().to_vec(), b"0123456789", "{range}");
    }
}

#[tokio::test]
async fn a_delete_of_any_version_misses_a_key_that_is_not_there() {
    let (_node, client) = a_bucket().await;
    put(&client, "one", "v").await;
    put(&client, "two", "v").await;
    let delete = |key: &str| client.delete_object().bucket(BUCKET).key(key).if_match("*");
    assert_eq!(code(delete("none").send().await), is(404, "NoSuchKey"));
    delete("one").send().await.unwrap();
    assert_eq!(code(delete("one").send().await), is(404, "NoSuchKey"));
    let keys =
        ["none", "two"].map(|key| ObjectIdentifier::builder().key(key).e_tag("*").build().expect("a key"));
    let batch = Delete::builder().set_objects(Some(keys.into())).build().expect("keys");
    let answer = client.delete_objects().bucket(BUCKET).delete(batch).send().await.unwrap();
    let failed: Vec<_> = answer.errors().iter().map(|error| (error.key(), error.code())).collect();
    assert_eq!(failed, [(Some("none"), Some("NoSuchKey"))]);
    assert_eq!(answer.deleted().len(), 1);
}
