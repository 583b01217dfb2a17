//! Small things of S3's letter, each by the answer that AWS gives: what stands in errors, which check comes
//! first, what is kept of a header.

use aws_sdk_s3::types::{
    BucketLocationConstraint, CreateBucketConfiguration, Delete, EncodingType, MetadataDirective,
    ObjectAttributes, ObjectIdentifier,
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::multipart::{begin, complete, send_part};
use super::wire::{an_hour, exchange, raw};
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

#[tokio::test]
async fn the_address_to_redirect_to_is_kept_and_never_copied() {
    let (_node, client) = a_bucket().await;
    let address = "https://example.com/käse";
    let to = |key: &str| client.put_object().bucket(BUCKET).key(key).website_redirect_location("/other");
    to("k").metadata("m", "1").send().await.unwrap();
    let kept = |key: &str| {
        let head = client.head_object().bucket(BUCKET).key(key).send();
        async move { head.await.expect("an object").website_redirect_location().map(str::to_owned) }
    };
    assert_eq!(kept("k").await.as_deref(), Some("/other"));
    let found = client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(found.website_redirect_location(), Some("/other"));

    let copy = |key: &str| client.copy_object().bucket(BUCKET).key(key).copy_source(format!("{BUCKET}/k"));
    copy("copy").send().await.unwrap();
    assert_eq!(kept("copy").await, None);
    copy("copy").website_redirect_location("/third").send().await.unwrap();
    assert_eq!(kept("copy").await.as_deref(), Some("/third"));
    let copied = client.head_object().bucket(BUCKET).key("copy").send().await.unwrap();
    assert_eq!(copied.metadata().and_then(|metadata| metadata.get("m")).map(String::as_str), Some("1"));
    copy("k").website_redirect_location("/itself").send().await.expect("that is a change");
    assert_eq!(kept("k").await.as_deref(), Some("/itself"));

    let begin = client.create_multipart_upload().bucket(BUCKET).key("upload");
    let upload = begin.website_redirect_location("/upload").send().await.unwrap().upload_id.unwrap();
    let part = send_part(&client, "upload", &upload, 1, b"part".to_vec()).await;
    complete(&client, "upload", &upload, vec![part]).send().await.unwrap();
    assert_eq!(kept("upload").await.as_deref(), Some("/upload"));

    for wrong in ["other", "ftp://example.com", &format!("/{}", "a".repeat(2048))] {
        let refused = refused(to("wrong").website_redirect_location(wrong).send().await);
        assert_eq!((refused.status, refused.code.as_str()), (400, "InvalidRedirectLocation"));
    }
    let put = client.put_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let line = format!("x-amz-website-redirect-location: {address}");
    let (head, _) = exchange(&put, &[&line], b"").await;
    assert!(head.starts_with("HTTP/1.1 403"), "a header that is not signed: {head}");
}

#[tokio::test]
async fn a_header_that_is_asked_for_is_sent_in_iso_8859_1() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let ask = |name: &str| {
        let disposition = format!("attachment; filename=\"{name}\"");
        client.get_object().bucket(BUCKET).key("k").response_content_disposition(disposition)
    };
    let refusal = refused(ask("D\u{2019}Arcy.jpg").send().await);
    let argument = argument(&refusal);
    assert_eq!(argument.0, "response-content-disposition");
    assert!(argument.1.contains("D\u{2019}Arcy.jpg"), "{argument:?}");
    assert_eq!(refusal.message, "Header value cannot be represented using ISO-8859-1.");
    let url = ask("caf\u{e9}.jpg").presigned(an_hour()).await.unwrap();
    let answer = raw(&url).await;
    let line = b"content-disposition: attachment; filename=\"caf\xe9.jpg\"\r\n";
    assert!(answer.windows(line.len()).any(|bytes| bytes == line), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn two_hundred_headers_of_metadata_are_taken() {
    let (_node, client) = a_bucket().await;
    let mut put = client.put_object().bucket(BUCKET).key("k");
    for number in 0..200 {
        put = put.metadata(format!("k{number}"), "v");
    }
    put.send().await.unwrap();
    // The SDK itself reads no answer with 200 headers.
    let answer = raw(&client.get_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap()).await;
    let answer = String::from_utf8(answer).expect("text");
    assert_eq!(answer.lines().filter(|line| line.starts_with("x-amz-meta-k")).count(), 200);
}

#[tokio::test]
async fn an_upload_marker_means_nothing_without_that_of_its_key() {
    let (_node, client) = a_bucket().await;
    let first = begin(&client, "k").await;
    let second = begin(&client, "k").await;
    let list = || client.list_multipart_uploads().bucket(BUCKET);
    for ignored in ["nonsense", first.as_str()] {
        for key in [None, Some("")] {
            let page = list().set_key_marker(key.map(str::to_owned)).upload_id_marker(ignored).send().await;
            let page = page.unwrap();
            assert_eq!((page.uploads().len(), page.upload_id_marker()), (2, Some("")), "{ignored}");
        }
    }
    let refusal = refused(list().key_marker("k").upload_id_marker("nonsense").send().await);
    assert_eq!(refusal.message, "Invalid uploadId marker");
    assert_eq!(argument(&refusal), ("upload-id-marker".to_owned(), "nonsense".to_owned()));
    let behind = list().key_marker("k").upload_id_marker(&first).send().await.unwrap();
    let ids: Vec<_> = behind.uploads().iter().filter_map(|upload| upload.upload_id()).collect();
    assert_eq!((ids, behind.upload_id_marker()), (vec![second.as_str()], Some(first.as_str())));
    let past = list().key_marker("k").send().await.unwrap();
    assert!(past.uploads().is_empty(), "all of the key is passed");
}

#[tokio::test]
async fn the_marker_of_an_upload_that_is_over_begins_where_it_stood() {
    let (_node, client) = a_bucket().await;
    let (first, second) = (begin(&client, "k").await, begin(&client, "k").await);
    client.abort_multipart_upload().bucket(BUCKET).key("k").upload_id(&first).send().await.unwrap();
    let list = client.list_multipart_uploads().bucket(BUCKET).key_marker("k").upload_id_marker(&first);
    let behind = list.send().await.unwrap();
    let ids: Vec<_> = behind.uploads().iter().filter_map(|upload| upload.upload_id()).collect();
    assert_eq!((ids, behind.upload_id_marker()), (vec![second.as_str()], Some(first.as_str())));
}

#[tokio::test]
async fn a_head_that_is_no_request_is_refused_with_a_document_and_an_id() {
    let (_node, client) = a_bucket().await;
    let url = client.get_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let authority = url.uri().split('/').nth(2).expect("a host").to_owned();
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(64 << 10));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: a\r\n".repeat(256));
    for (head, code) in [
        ("no request\r\n\r\n", "BadRequest"),
        ("GET / HTTP/1.1\r\nhost: a\r\n: b\r\n\r\n", "BadRequest"),
        (&long, "RequestHeaderSectionTooLarge"),
        (&many, "RequestHeaderSectionTooLarge"),
    ] {
        let mut connection = TcpStream::connect(&authority).await.expect("the node listens");
        connection.write_all(head.as_bytes()).await.expect("read to its end");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("closed in order");
        let (start, document) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(start.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{start}");
        let id = start.lines().find_map(|line| line.strip_prefix("x-amz-request-id: ")).expect("an id");
        assert!(document.contains(&format!("<Code>{code}</Code>")), "{document}");
        assert!(document.contains(&format!("<RequestId>{id}</RequestId>")), "{document}");
        assert!(start.contains(&format!("content-length: {}", document.len())), "{start}");
    }
}
