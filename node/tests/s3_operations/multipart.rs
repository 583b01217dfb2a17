//! Multipart uploads: parts, completion, abortion.

use aws_sdk_s3::operation::complete_multipart_upload::builders::CompleteMultipartUploadFluentBuilder;
use aws_sdk_s3::types::{
    ChecksumAlgorithm, ChecksumMode, ChecksumType, CompletedMultipartUpload, CompletedPart,
};

use super::*;

/// Begins an upload.
pub(crate) async fn begin(client: &Client, key: &str) -> String {
    let upload = client.create_multipart_upload().bucket(BUCKET).key(key).send().await.expect("an upload");
    upload.upload_id.expect("an upload has an id")
}

/// Sends a part.
pub(crate) async fn send_part(
    client: &Client,
    key: &str,
    upload: &str,
    number: i32,
    body: Vec<u8>,
) -> CompletedPart {
    let part =
        client.upload_part().bucket(BUCKET).key(key).upload_id(upload).part_number(number).body(body.into());
    let part = part.send().await.expect("a part");
    CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).build()
}

pub(crate) fn complete(
    client: &Client,
    key: &str,
    upload: &str,
    parts: Vec<CompletedPart>,
) -> CompleteMultipartUploadFluentBuilder {
    let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
    client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(upload).multipart_upload(parts)
}

/// Uploads an object in parts and returns its entity tag.
pub(crate) async fn complete_upload(client: &Client, key: &str, bodies: &[Vec<u8>]) -> String {
    let upload = begin(client, key).await;
    let mut parts = Vec::new();
    for (number, body) in (1..).zip(bodies) {
        parts.push(send_part(client, key, &upload, number, body.clone()).await);
    }
    let completed = complete(client, key, &upload, parts).send().await.expect("a completion");
    completed.e_tag.expect("an object has an entity tag")
}

#[tokio::test]
async fn parts_become_one_object() {
    let (_node, client) = a_bucket().await;
    let begun =
        client.create_multipart_upload().bucket(BUCKET).key("k").content_type("a/b").metadata("m", "1");
    let upload = begun.send().await.unwrap().upload_id.unwrap();
    let bodies = [some_bytes(PART), some_bytes(PART + 1), b"tail".to_vec()];
    let mut parts = Vec::new();
    // Numbers need not be dense, nor parts come in order.
    for (number, body) in [(7, &bodies[2]), (2, &bodies[0]), (5, &bodies[1])] {
        parts.push(send_part(&client, "k", &upload, number, body.clone()).await);
    }
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
    parts.sort_by_key(CompletedPart::part_number);
    let completed = complete(&client, "k", &upload, parts).send().await.unwrap();
    assert_eq!((completed.bucket(), completed.key()), (Some(BUCKET), Some("k")));
    assert!(completed.location().is_some_and(|location| location.ends_with("/bucket/k")));
    assert!(completed.e_tag().unwrap().ends_with("-3\""));
    let object = client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(object.content_type(), Some("a/b"));
    assert_eq!(object.metadata().and_then(|all| all.get("m")).map(String::as_str), Some("1"));
    assert_eq!(object.e_tag(), completed.e_tag());
    assert_eq!(object.body.collect().await.unwrap().to_vec(), bodies.concat());
}

#[tokio::test]
async fn the_entity_tag_is_the_md5_of_the_md5s() {
    use md5::{Digest as _, Md5};
    let (_node, client) = a_bucket().await;
    let bodies = [some_bytes(PART), b"tail".to_vec()];
    let hashes = bodies.each_ref().map(Md5::digest).concat();
    let expected = format!("\"{}-2\"", hex::encode(Md5::digest(hashes)));
    assert_eq!(complete_upload(&client, "k", &bodies).await, expected);
}

#[tokio::test]
async fn a_part_sent_again_replaces_the_first() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let first = send_part(&client, "k", &upload, 1, b"first".to_vec()).await;
    let second = send_part(&client, "k", &upload, 1, b"second".to_vec()).await;
    let refusal = refused(complete(&client, "k", &upload, vec![first]).send().await);
    assert_eq!((refusal.status, refusal.code.as_str()), (400, "InvalidPart"));
    complete(&client, "k", &upload, vec![second]).send().await.unwrap();
    assert_eq!(get(&client, "k").await, b"second");
}

#[tokio::test]
async fn a_list_of_parts_is_judged() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let one = send_part(&client, "k", &upload, 1, b"small".to_vec()).await;
    let two = send_part(&client, "k", &upload, 2, b"small".to_vec()).await;
    let try_with = |parts| complete(&client, "k", &upload, parts).send();
    assert_eq!(code(try_with(vec![two.clone(), one.clone()]).await), is(400, "InvalidPartOrder"));
    assert_eq!(code(try_with(vec![one.clone(), one.clone()]).await), is(400, "InvalidPartOrder"));
    let small = refused(try_with(vec![one.clone(), two.clone()]).await);
    assert_eq!((small.status, small.code.as_str()), (400, "EntityTooSmall"));
    assert!(small.document().contains("<MinSizeAllowed>5242880</MinSizeAllowed>"));
    let never = CompletedPart::builder().part_number(3).e_tag("\"x\"").build();
    assert_eq!(code(try_with(vec![never]).await), is(400, "InvalidPart"));
    assert_eq!(code(try_with(Vec::new()).await), is(400, "MalformedXML"));
    let untagged = CompletedPart::builder().part_number(1).build();
    assert_eq!(code(try_with(vec![untagged]).await), is(400, "MalformedXML"));
    try_with(vec![two]).await.unwrap();
    assert_eq!(get(&client, "k").await, b"small", "parts that are not listed are left out");
}

#[tokio::test]
async fn a_part_has_a_number_between_1_and_10000() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let part =
        |number| client.upload_part().bucket(BUCKET).key("k").upload_id(&upload).part_number(number).send();
    for number in [-1, 0, 10_001] {
        assert_eq!(code(part(number).await), is(400, "InvalidArgument"), "{number}");
    }
    part(1).await.unwrap();
    part(10_000).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_is_not_there_is_missed() {
    let (_node, client) = a_bucket().await;
    let missed = is(404, "NoSuchUpload");
    for upload in ["nonsense", "00112233445566778899aabbccddeeff"] {
        let part = client.upload_part().bucket(BUCKET).key("k").upload_id(upload).part_number(1).send().await;
        assert_eq!(code(part), missed, "{upload}");
        let list = client.list_parts().bucket(BUCKET).key("k").upload_id(upload).send().await;
        assert_eq!(code(list), missed, "{upload}");
        let abort = client.abort_multipart_upload().bucket(BUCKET).key("k").upload_id(upload).send().await;
        assert_eq!(code(abort), missed, "{upload}");
        let parts = vec![CompletedPart::builder().part_number(1).e_tag("x").build()];
        assert_eq!(code(complete(&client, "k", upload, parts).send().await), missed, "{upload}");
    }
    let upload = begin(&client, "k").await;
    let other_key = client.list_parts().bucket(BUCKET).key("other").upload_id(&upload).send().await;
    assert_eq!(code(other_key), missed);
}

#[tokio::test]
async fn an_aborted_upload_is_gone() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let part = send_part(&client, "k", &upload, 1, b"part".to_vec()).await;
    client.abort_multipart_upload().bucket(BUCKET).key("k").upload_id(&upload).send().await.unwrap();
    assert_eq!(code(complete(&client, "k", &upload, vec![part]).send().await), is(404, "NoSuchUpload"));
    let listed = client.list_multipart_uploads().bucket(BUCKET).send().await.unwrap();
    assert!(listed.uploads().is_empty());
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
}

#[tokio::test]
async fn a_completion_that_is_repeated_succeeds_again() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let part = send_part(&client, "k", &upload, 1, b"part".to_vec()).await;
    let first = complete(&client, "k", &upload, vec![part.clone()]).send().await.unwrap();
    let again = complete(&client, "k", &upload, vec![part]).send().await.unwrap();
    assert_eq!(first.e_tag(), again.e_tag());
}

#[tokio::test]
async fn a_completion_with_another_list_is_not_a_repetition() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let mut parts = Vec::new();
    for (number, body) in [(1, some_bytes(PART)), (2, some_bytes(PART)), (3, b"tail".to_vec())] {
        parts.push(send_part(&client, "k", &upload, number, body).await);
    }
    complete(&client, "k", &upload, parts.clone()).send().await.unwrap();
    let renumbered = |number: i32, part: &CompletedPart| {
        CompletedPart::builder().part_number(number).set_e_tag(part.e_tag().map(str::to_owned)).build()
    };
    for other in [
        parts[..2].to_vec(),
        parts[1..].to_vec(),
        vec![parts[0].clone(), parts[1].clone(), renumbered(4, &parts[2])],
        vec![parts[0].clone(), parts[1].clone(), renumbered(3, &parts[1])],
    ] {
        let repeated = complete(&client, "k", &upload, other).send().await;
        assert_eq!(code(repeated), is(404, "NoSuchUpload"));
    }
    complete(&client, "k", &upload, parts).send().await.unwrap();
}

#[tokio::test]
async fn a_completion_obeys_conditions() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "there").await;
    let upload = begin(&client, "k").await;
    let part = send_part(&client, "k", &upload, 1, b"new".to_vec()).await;
    let with = || complete(&client, "k", &upload, vec![part.clone()]);
    assert_eq!(code(with().if_none_match("*").send().await), is(412, "PreconditionFailed"));
    assert_eq!(code(with().if_match("\"other\"").send().await), is(412, "PreconditionFailed"));
    assert_eq!(get(&client, "k").await, b"there");
    with().if_match(etag).send().await.unwrap();
    assert_eq!(get(&client, "k").await, b"new");
}

#[tokio::test]
async fn exactly_one_of_many_completions_creates_a_key() {
    let (_node, client) = a_bucket().await;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let upload = begin(&client, "k").await;
        let part = send_part(&client, "k", &upload, 1, format!("writer {writer}").into_bytes()).await;
        let complete = complete(&client, "k", &upload, vec![part]).if_none_match("*");
        tasks.spawn(complete.send());
    }
    let results = tasks.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(refused(Err::<(), _>(error)).status, 409 | 412));
    }
}

#[tokio::test]
async fn a_part_is_copied_whole_or_in_a_range() {
    let (_node, client) = a_bucket().await;
    put(&client, "from", "0123456789").await;
    let upload = begin(&client, "k").await;
    let copy = |range: Option<&str>| {
        let copy = client.upload_part_copy().bucket(BUCKET).key("k").upload_id(&upload).part_number(1);
        copy.copy_source(format!("{BUCKET}/from")).set_copy_source_range(range.map(str::to_owned))
    };
    copy(None).send().await.unwrap();
    for range in
        ["bytes=5-20", "0-2", "bytes=0", "bytes=hello-world", "bytes=0-", "bytes=-5", "bytes=0-2,3-5"]
    {
        assert_eq!(code(copy(Some(range)).send().await), is(400, "InvalidArgument"), "{range}");
    }
    assert_eq!(code(copy(None).copy_source_if_match("\"x\"").send().await), is(412, "PreconditionFailed"));
    let copied = copy(Some("bytes=2-4")).send().await.unwrap().copy_part_result.unwrap();
    assert!(copied.last_modified().is_some());
    let part = CompletedPart::builder().part_number(1).set_e_tag(copied.e_tag).build();
    complete(&client, "k", &upload, vec![part]).send().await.unwrap();
    assert_eq!(get(&client, "k").await, b"234");
}

/// Sends two parts of an upload with a CRC32 of some kind; the upload is left open.
pub(crate) async fn upload_parts_with_checksums(
    client: &Client,
    key: &str,
    kind: &ChecksumType,
) -> (String, Vec<CompletedPart>) {
    let begun = client.create_multipart_upload().bucket(BUCKET).key(key);
    let begun = begun.checksum_algorithm(ChecksumAlgorithm::Crc32).checksum_type(kind.clone()).send().await;
    let begun = begun.expect("an upload");
    assert_eq!(begun.checksum_algorithm(), Some(&ChecksumAlgorithm::Crc32));
    assert_eq!(begun.checksum_type(), Some(kind));
    let upload = begun.upload_id.expect("an upload has an id");
    let mut parts = Vec::new();
    for (number, body) in [(1, some_bytes(PART)), (2, b"123456789".to_vec())] {
        let part = client.upload_part().bucket(BUCKET).key(key).upload_id(&upload).part_number(number);
        let part =
            part.checksum_algorithm(ChecksumAlgorithm::Crc32).body(body.into()).send().await.expect("a part");
        let completed = CompletedPart::builder().part_number(number).set_e_tag(part.e_tag);
        parts.push(completed.set_checksum_crc32(part.checksum_crc32).build());
    }
    (upload, parts)
}

/// Uploads two parts with a CRC32 of some kind; returns that of the whole, and the parts.
pub(crate) async fn upload_with_checksums(
    client: &Client,
    key: &str,
    kind: &ChecksumType,
) -> (String, Vec<CompletedPart>) {
    let (upload, parts) = upload_parts_with_checksums(client, key, kind).await;
    let completed = complete(client, key, &upload, parts.clone()).send().await.expect("a completion");
    assert_eq!(completed.checksum_type(), Some(kind));
    (completed.checksum_crc32.expect("a checksum"), parts)
}

#[tokio::test]
async fn an_upload_has_a_composite_or_a_full_checksum() {
    let (_node, client) = a_bucket().await;
    for (kind, suffix) in [(ChecksumType::Composite, "-2"), (ChecksumType::FullObject, "==")] {
        let (value, _) = upload_with_checksums(&client, "k", &kind).await;
        assert!(value.ends_with(suffix), "{value}");
        let head =
            client.head_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled).send().await;
        assert_eq!(head.unwrap().checksum_crc32(), Some(value.as_str()));
        let part =
            client.head_object().bucket(BUCKET).key("k").part_number(2).checksum_mode(ChecksumMode::Enabled);
        let part = part.send().await.unwrap();
        let of_parts = kind == ChecksumType::Composite;
        assert_eq!(part.checksum_crc32(), of_parts.then_some("y/Q5Jg=="), "the part's own, or none");
        assert_eq!(part.checksum_type(), Some(&kind).filter(|_| of_parts), "the object's");
    }
}

#[tokio::test]
async fn a_composite_checksum_is_announced_with_its_number_of_parts_or_without() {
    let (_node, client) = a_bucket().await;
    let (whole, _) = upload_with_checksums(&client, "k", &ChecksumType::Composite).await;
    let bare = whole.strip_suffix("-2").expect("the number of parts");
    for announced in [whole.as_str(), bare] {
        let (upload, parts) = upload_parts_with_checksums(&client, "k", &ChecksumType::Composite).await;
        let other = complete(&client, "k", &upload, parts.clone()).checksum_crc32("AAAAAA==").send().await;
        assert_eq!(code(other), is(400, "BadDigest"));
        let completed = complete(&client, "k", &upload, parts).checksum_crc32(announced).send().await;
        assert_eq!(completed.unwrap().checksum_crc32(), Some(whole.as_str()), "{announced}");
    }
}

#[tokio::test]
async fn a_checksum_kind_fits_its_algorithm() {
    let (_node, client) = a_bucket().await;
    for (algorithm, kind) in [
        (ChecksumAlgorithm::Sha256, ChecksumType::FullObject),
        (ChecksumAlgorithm::Crc64Nvme, ChecksumType::Composite),
    ] {
        let begun = client.create_multipart_upload().bucket(BUCKET).key("k");
        let begun = begun.checksum_algorithm(algorithm).checksum_type(kind).send().await;
        assert_eq!(code(begun), is(400, "InvalidRequest"));
    }
}

#[tokio::test]
async fn a_part_whose_checksum_differs_is_refused() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let part = client.upload_part().bucket(BUCKET).key("k").upload_id(&upload).part_number(1);
    let part = part.checksum_crc32("AAAAAA==").body(ByteStream::from_static(b"123456789")).send().await;
    assert_eq!(code(part), is(400, "BadDigest"));
    let listed = client.list_parts().bucket(BUCKET).key("k").upload_id(&upload).send().await.unwrap();
    assert!(listed.parts().is_empty());
}
