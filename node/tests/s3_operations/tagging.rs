//! Tags of objects: given with a write, changed and removed, counted, copied, refused; nothing else of the
//! object changes with them.

use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::copy_object::builders::CopyObjectFluentBuilder;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::operation::put_object_tagging::{PutObjectTaggingError, PutObjectTaggingOutput};
use aws_sdk_s3::types::{ChecksumMode, MetadataDirective, Tag, Tagging, TaggingDirective};

use super::*;

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build().expect("key and value")
}

fn set(tags: &[Tag]) -> Tagging {
    Tagging::builder().set_tag_set(Some(tags.to_vec())).build().expect("a set")
}

async fn tags_of(client: &Client, key: &str) -> Vec<Tag> {
    client.get_object_tagging().bucket(BUCKET).key(key).send().await.expect("an object").tag_set
}

async fn set_tags(
    client: &Client,
    key: &str,
    tags: &[Tag],
) -> Result<PutObjectTaggingOutput, SdkError<PutObjectTaggingError>> {
    client.put_object_tagging().bucket(BUCKET).key(key).tagging(set(tags)).send().await
}

async fn head(client: &Client, key: &str) -> HeadObjectOutput {
    let head = client.head_object().bucket(BUCKET).key(key).checksum_mode(ChecksumMode::Enabled);
    head.send().await.expect("an object")
}

/// Puts an object with tags, given as the header has them.
async fn put_tagged(client: &Client, key: &str, body: Vec<u8>, tags: &str) {
    let put = client.put_object().bucket(BUCKET).key(key).metadata("m", "1").tagging(tags);
    put.body(body.into()).send().await.expect("an object");
}

#[tokio::test]
async fn tags_come_with_a_put_an_upload_and_a_copy() {
    let (_node, client) = a_bucket().await;
    let two = [tag("env", "prod"), tag("a b", "c@d")];
    put_tagged(&client, "put", b"v".to_vec(), "env=prod&a+b=c%40d").await;
    let upload =
        client.create_multipart_upload().bucket(BUCKET).key("upload").tagging("env=prod&a%20b=c%40d");
    let upload = upload.content_type("a/b").send().await.expect("an upload").upload_id.expect("an id");
    let part = multipart::send_part(&client, "upload", &upload, 1, b"body".to_vec()).await;
    for _ in 0..2 {
        let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder().parts(part.clone()).build();
        let complete = client.complete_multipart_upload().bucket(BUCKET).key("upload").upload_id(&upload);
        complete.multipart_upload(parts).send().await.expect("completed, and so again");
    }
    assert_eq!(head(&client, "upload").await.content_type(), Some("a/b"));
    let copy = client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/upload"));
    copy.send().await.expect("a copy");
    for key in ["put", "upload", "copy"] {
        assert_eq!(tags_of(&client, key).await, two, "{key}");
        assert_eq!(head(&client, key).await.tag_count(), Some(2), "{key}");
        let read = client.get_object().bucket(BUCKET).key(key).send().await.expect("an object");
        assert_eq!(read.tag_count(), Some(2), "{key}");
    }
    put(&client, "put", "w").await;
    assert_eq!(tags_of(&client, "put").await, [], "a PUT replaces the tags with the object");
    assert_eq!(head(&client, "put").await.tag_count(), None);
}

/// The answer of HEAD about an object, but for its tags.
fn but_for_tags(head: &HeadObjectOutput) -> String {
    let HeadObjectOutput { e_tag, last_modified, content_length, checksum_crc64_nvme, metadata, .. } = head;
    format!("{e_tag:?} {last_modified:?} {content_length:?} {checksum_crc64_nvme:?} {metadata:?}")
}

#[tokio::test]
async fn a_change_of_tags_changes_nothing_else() {
    let (node, client) = a_bucket().await;
    // Of no bytes, inline, packed, in files.
    let bodies = [("none", 0), ("inline", 1_000), ("packed", 100_000), ("file", 3 << 20)];
    for (key, length) in bodies {
        put_tagged(&client, key, some_bytes(length), "first=1").await;
    }
    let upload = multipart::begin(&client, "parts").await;
    let first = multipart::send_part(&client, "parts", &upload, 1, some_bytes(PART)).await;
    let last = multipart::send_part(&client, "parts", &upload, 2, b"tail".to_vec()).await;
    let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder().parts(first).parts(last).build();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("parts").upload_id(&upload);
    complete.multipart_upload(parts).send().await.expect("an object");
    let whole: Vec<u8> = some_bytes(PART).into_iter().chain(*b"tail").collect();
    let mut expected: Vec<_> = bodies.iter().map(|(key, length)| (*key, some_bytes(*length))).collect();
    expected.push(("parts", whole));
    for (key, body) in &expected {
        let before = head(&client, key).await;
        let etag = before.e_tag().expect("an entity tag").to_owned();
        for tags in [&[tag("b", "2"), tag("a", "1")][..], &[tag("a", "")], &[]] {
            set_tags(&client, key, tags).await.expect(key);
            let after = head(&client, key).await;
            assert_eq!(but_for_tags(&after), but_for_tags(&before), "{key}");
            let count = i32::try_from(tags.len()).ok().filter(|count| *count > 0);
            assert_eq!((after.tag_count(), tags_of(&client, key).await), (count, tags.to_vec()), "{key}");
            assert_eq!(get(&client, key).await, *body, "{key}");
        }
        set_tags(&client, key, &[tag("kept", "1")]).await.expect(key);
        let put = client.put_object().bucket(BUCKET).key("copied").if_match(etag.clone());
        assert_eq!(code(put.send().await), is(404, "NoSuchKey"));
        let copy = client.copy_object().bucket(BUCKET).key(*key).copy_source(format!("{BUCKET}/{key}"));
        let copy = copy.metadata_directive(MetadataDirective::Replace).copy_source_if_match(etag);
        copy.send().await.expect("the entity tag is the one before");
        assert_eq!(tags_of(&client, key).await, [tag("kept", "1")], "metadata is replaced, tags are not");
    }
    let node = node.kill().await.start().await;
    let client = node.client();
    for (key, body) in &expected {
        assert_eq!(tags_of(&client, key).await, [tag("kept", "1")], "{key}");
        assert_eq!(get(&client, key).await, *body, "{key}");
        client.delete_object_tagging().bucket(BUCKET).key(*key).send().await.expect("removed");
        client.delete_object_tagging().bucket(BUCKET).key(*key).send().await.expect("removed before");
        assert_eq!(tags_of(&client, key).await, [], "{key}");
    }
}

#[tokio::test]
async fn a_read_and_a_conditional_write_go_on_while_tags_change() {
    let (_node, client) = a_bucket().await;
    let body = some_bytes(6 << 20);
    let etag = put(&client, "k", body.clone()).await;
    let mut read = client.get_object().bucket(BUCKET).key("k").send().await.expect("an object").body;
    let first = read.next().await.expect("bytes").expect("bytes");
    set_tags(&client, "k", &[tag("a", "1")]).await.expect("tags");
    let mut received = first.to_vec();
    received.extend(read.collect().await.expect("the rest").to_vec());
    assert_eq!(received, body);
    let put = client.put_object().bucket(BUCKET).key("k").if_match(etag).body(b"w".to_vec().into());
    put.send().await.expect("the entity tag stayed");
    assert_eq!(tags_of(&client, "k").await, []);
}

/// The parameters of a copy beside its source.
type Ask = fn(CopyObjectFluentBuilder) -> CopyObjectFluentBuilder;

#[tokio::test]
async fn a_copy_keeps_or_replaces_tags() {
    let (_node, client) = a_bucket().await;
    put_tagged(&client, "from", some_bytes(100_000), "a=1").await;
    let (kept, given) = ([tag("a", "1")], [tag("b", "2")]);
    let copy = |to: &str| client.copy_object().bucket(BUCKET).key(to).copy_source(format!("{BUCKET}/from"));
    let asks: [(Ask, &[Tag], &str); 6] = [
        (|copy| copy, &kept, "1"),
        (|copy| copy.tagging_directive(TaggingDirective::Copy).tagging("b=2"), &kept, "1"),
        (|copy| copy.tagging("b=2"), &kept, "1"),
        (|copy| copy.tagging_directive(TaggingDirective::Replace).tagging("b=2"), &given, "1"),
        (|copy| copy.tagging_directive(TaggingDirective::Replace), &[], "1"),
        (|copy| copy.metadata_directive(MetadataDirective::Replace).metadata("m", "2"), &kept, "2"),
    ];
    for (place, (ask, tags, metadata)) in asks.into_iter().enumerate() {
        ask(copy("to")).send().await.expect("a copy");
        assert_eq!(tags_of(&client, "to").await, tags, "{place}");
        let head = head(&client, "to").await;
        let found = head.metadata().and_then(|metadata| metadata.get("m"));
        assert_eq!(found.map(String::as_str), Some(metadata), "{place}");
    }
    assert_eq!(code(copy("from").send().await), is(400, "InvalidRequest"));
    assert_eq!(
        code(copy("from").tagging_directive(TaggingDirective::Copy).send().await),
        is(400, "InvalidRequest")
    );
    let onto_itself = copy("from").tagging_directive(TaggingDirective::Replace).tagging("b=2");
    onto_itself.send().await.expect("tags are a change");
    assert_eq!(tags_of(&client, "from").await, given);
    assert_eq!(get(&client, "from").await, some_bytes(100_000));
    let unknown = refused(copy("to").tagging_directive(TaggingDirective::from("MERGE")).send().await);
    assert_eq!((unknown.status, unknown.code.as_str()), (400, "InvalidArgument"));
    assert!(unknown.document().contains("<ArgumentName>x-amz-tagging-directive</ArgumentName>"));
}

#[tokio::test]
async fn tags_that_cannot_be_are_refused() {
    let (_node, client) = a_bucket().await;
    put_tagged(&client, "k", b"v".to_vec(), "kept=1").await;
    let many: Vec<Tag> = (0..11).map(|number| tag(&number.to_string(), "")).collect();
    let (bad_key, bad_value) =
        ("The TagKey you have provided is invalid", "The TagValue you have provided is invalid");
    let long = "k".repeat(257);
    for (tags, code, message) in [
        (many, "BadRequest", "Object tags cannot be greater than 10"),
        (vec![tag("a", "1"), tag("a", "2")], "InvalidTag", "Cannot provide multiple Tags with the same key"),
        (vec![tag("aws:a", "1")], "InvalidTag", "Your TagKey cannot be prefixed with aws:"),
        (vec![tag("", "1")], "InvalidTag", bad_key),
        (vec![tag("a,b", "1")], "InvalidTag", bad_key),
        (vec![tag(&long[..129], "1")], "InvalidTag", bad_key),
        (vec![tag("a", &long)], "InvalidTag", bad_value),
        (vec![tag("a", "1;2")], "InvalidTag", bad_value),
    ] {
        let refusal = refused(set_tags(&client, "k", &tags).await);
        assert_eq!((refusal.status, &*refusal.code, &*refusal.message), (400, code, message), "{tags:?}");
        if code == "InvalidTag" {
            let key = format!("<TagKey>{}</TagKey>", tags[0].key());
            assert!(refusal.document().contains(&key), "{}", refusal.document());
        }
    }
    assert_eq!(tags_of(&client, "k").await, [tag("kept", "1")], "a refused change changes nothing");
    let most = [tag(&"\u{e9}".repeat(128), &"\u{e9}".repeat(256)), tag("_.:/=+-@ 1", "")];
    set_tags(&client, "k", &most).await.expect("within the limits");
    assert_eq!(tags_of(&client, "k").await, most);
    let eleven: Vec<String> = (0..11).map(|number| format!("{number}=")).collect();
    for (text, code) in [
        (&*eleven.join("&"), "BadRequest"),
        ("a=1&a=2", "InvalidArgument"),
        ("a=%FF", "InvalidArgument"),
        ("a=1=2", "InvalidArgument"),
        ("a,b=1", "InvalidTag"),
        ("aws:a=1", "InvalidTag"),
        ("=", "InvalidArgument"),
        ("=1", "InvalidArgument"),
    ] {
        let put = client.put_object().bucket(BUCKET).key("new").tagging(text).send().await;
        assert_eq!(super::code(put), is(400, code), "{text}");
        let upload = client.create_multipart_upload().bucket(BUCKET).key("new").tagging(text).send().await;
        assert_eq!(super::code(upload), is(400, code), "{text}");
        let copy = client.copy_object().bucket(BUCKET).key("new").copy_source(format!("{BUCKET}/k"));
        let copy = copy.tagging_directive(TaggingDirective::Replace).tagging(text).send().await;
        assert_eq!(super::code(copy), is(400, code), "{text}");
    }
    assert_eq!(super::code(client.head_object().bucket(BUCKET).key("new").send().await), is(404, "NotFound"));
}

#[tokio::test]
async fn tags_of_what_is_not_there_are_missed() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    for (bucket, key, expected) in
        [(BUCKET, "none", is(404, "NoSuchKey")), ("nowhere", "k", is(404, "NoSuchBucket"))]
    {
        let get = client.get_object_tagging().bucket(bucket).key(key);
        let delete = client.delete_object_tagging().bucket(bucket).key(key);
        let put = client.put_object_tagging().bucket(bucket).key(key).tagging(set(&[tag("a", "1")]));
        for version in [None, Some("null".to_owned())] {
            assert_eq!(code(get.clone().set_version_id(version.clone()).send().await), expected);
            assert_eq!(code(delete.clone().set_version_id(version.clone()).send().await), expected);
            assert_eq!(code(put.clone().set_version_id(version).send().await), expected);
        }
    }
    let put = client.put_object_tagging().bucket(BUCKET).key("k").tagging(set(&[tag("a", "1")]));
    assert_eq!(put.clone().send().await.expect("tags").version_id(), None);
    assert_eq!(put.version_id("null").send().await.expect("tags").version_id(), Some("null"));
    let get = client.get_object_tagging().bucket(BUCKET).key("k").version_id("null");
    let found = get.send().await.expect("tags");
    assert_eq!((found.version_id(), found.tag_set()), (Some("null"), &[tag("a", "1")][..]));
    let delete = client.delete_object_tagging().bucket(BUCKET).key("k").version_id("null");
    assert_eq!(delete.send().await.expect("removed").version_id(), Some("null"));
    assert_eq!(tags_of(&client, "k").await, []);
}

#[tokio::test]
async fn an_open_upload_alone_is_no_object_to_tag() {
    let (_node, client) = a_bucket().await;
    multipart::begin(&client, "k").await;
    assert_eq!(code(set_tags(&client, "k", &[tag("a", "1")]).await), is(404, "NoSuchKey"));
    assert_eq!(code(client.get_object_tagging().bucket(BUCKET).key("k").send().await), is(404, "NoSuchKey"));
}

/// Documents that the SDK does not send, put in place of its own.
#[tokio::test]
async fn a_document_that_is_none_is_malformed() {
    let (_node, client) = a_bucket().await;
    put_tagged(&client, "k", b"v".to_vec(), "kept=1").await;
    let document = |text: &'static str| {
        let put = client.put_object_tagging().bucket(BUCKET).key("k").tagging(set(&[]));
        put.customize().mutate_request(move |request| {
            request.headers_mut().remove("x-amz-checksum-crc32");
            request.headers_mut().remove("x-amz-sdk-checksum-algorithm");
            request.headers_mut().insert("content-length", text.len().to_string());
            *request.body_mut() = text.into();
        })
    };
    for (text, expected) in [
        ("", "MissingRequestBodyError"),
        ("<Tagging><TagSet>", "MalformedXML"),
        ("<Tagging></Tagging>", "MalformedXML"),
        ("<Tags><TagSet/></Tags>", "MalformedXML"),
        ("<Tagging><TagSet><Tug/></TagSet></Tagging>", "MalformedXML"),
        ("<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "MalformedXML"),
    ] {
        assert_eq!(code(document(text).send().await), is(400, expected), "{text}");
    }
    assert_eq!(tags_of(&client, "k").await, [tag("kept", "1")]);
    document("<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>")
        .send()
        .await
        .unwrap();
    assert_eq!(tags_of(&client, "k").await, [tag("a", "b")], "without a checksum, as PutBucketTagging");
}
