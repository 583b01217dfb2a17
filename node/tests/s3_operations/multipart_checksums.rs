//! Checksums of multipart uploads, to the letter of S3: which part takes which, what Complete has to say of
//! them, and what an upload gets that names no algorithm.

use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumMode, ChecksumType, CompletedPart, ObjectAttributes};

use super::checksum::{crc64, without_checksums};
use super::multipart::{begin, complete, send_part, upload_parts_with_checksums};
use super::*;

/// Begins an upload whose parts have a checksum of some kind.
async fn begin_with(client: &Client, algorithm: ChecksumAlgorithm, kind: ChecksumType) -> String {
    let upload = client.create_multipart_upload().bucket(BUCKET).key("k");
    let upload = upload.checksum_algorithm(algorithm).checksum_type(kind).send().await.expect("an upload");
    upload.upload_id.expect("an upload has an id")
}

fn bare(part: &CompletedPart) -> CompletedPart {
    CompletedPart::builder()
        .set_part_number(part.part_number())
        .set_e_tag(part.e_tag().map(str::to_owned))
        .build()
}

#[tokio::test]
async fn a_part_has_the_algorithm_of_its_upload() {
    let (_node, client) = a_bucket().await;
    let bare = without_checksums(&client);
    let upload = begin_with(&client, ChecksumAlgorithm::Sha256, ChecksumType::Composite).await;
    let part = |client: &Client, upload: &str| {
        let part = client.upload_part().bucket(BUCKET).key("k").upload_id(upload).part_number(1);
        part.body(ByteStream::from_static(b"123456789"))
    };
    // The SDK sends a CRC-32 where nothing is asked for.
    let other = refused(part(&client, &upload).send().await);
    assert_eq!((other.status, other.code.as_str()), (400, "InvalidRequest"));
    let said = "Checksum Type mismatch occurred, expected checksum Type: sha256, actual checksum Type: ";
    assert_eq!(other.message, format!("{said}crc32"));
    let none = refused(part(&bare, &upload).send().await);
    assert_eq!((none.code.as_str(), none.message), ("InvalidRequest", format!("{said}null")));
    let sent = part(&client, &upload).checksum_algorithm(ChecksumAlgorithm::Sha256).send().await.unwrap();
    assert!(sent.checksum_sha256().is_some());
    // A copied part has no client that could send one.
    put(&client, "from", "123456789").await;
    let copied = client.upload_part_copy().bucket(BUCKET).key("k").upload_id(&upload).part_number(2);
    let copied = copied.copy_source(format!("{BUCKET}/from")).send().await.unwrap().copy_part_result.unwrap();
    assert_eq!(copied.checksum_sha256(), sent.checksum_sha256());

    // Where the checksum covers the whole object, the store computes what a part does not bring.
    let upload = begin_with(&client, ChecksumAlgorithm::Crc32C, ChecksumType::FullObject).await;
    assert_eq!(part(&bare, &upload).send().await.unwrap().checksum_crc32_c(), Some("4waSgw=="));
    assert_eq!(code(part(&client, &upload).send().await), is(400, "InvalidRequest"));
}

#[tokio::test]
async fn a_completion_lists_the_checksums_that_the_objects_is_made_of() {
    let (_node, client) = a_bucket().await;
    let (upload, parts) = upload_parts_with_checksums(&client, "k", &ChecksumType::Composite).await;
    let try_with = |parts: &[CompletedPart]| complete(&client, "k", &upload, parts.to_vec());
    let missing = refused(try_with(&[parts[0].clone(), bare(&parts[1])]).send().await);
    assert_eq!((missing.status, missing.code.as_str()), (400, "InvalidRequest"));
    assert_eq!(
        missing.message,
        "The upload was created using a crc32 checksum. The complete request must include the checksum for each part. \
         It was missing for part 2 in the request."
    );
    let wrong = CompletedPart::builder().part_number(2).set_e_tag(parts[1].e_tag().map(str::to_owned));
    let wrong = [parts[0].clone(), wrong.checksum_crc32("AAAAAA==").build()];
    assert_eq!(code(try_with(&wrong).send().await), is(400, "InvalidPart"));
    // A client's checksum of the whole is compared with its checksums of the parts first.
    let both = try_with(&wrong).checksum_crc32("AAAAAA==").send().await;
    assert_eq!(code(both), is(400, "BadDigest"));
    let malformed = CompletedPart::builder().part_number(2).e_tag("x").checksum_crc32("AAAA").build();
    let malformed = refused(try_with(&[parts[0].clone(), malformed]).send().await);
    assert_eq!((malformed.status, malformed.code.as_str()), (400, "InvalidArgument"));
    assert!(
        malformed.document().contains("<ArgumentValue>CRC32:AAAA;</ArgumentValue>"),
        "{}",
        malformed.document()
    );
    try_with(&parts).send().await.unwrap();

    let (upload, parts) = upload_parts_with_checksums(&client, "k", &ChecksumType::FullObject).await;
    let bare: Vec<CompletedPart> = parts.iter().map(bare).collect();
    complete(&client, "k", &upload, bare).send().await.expect("the store has those of the parts");
}

#[tokio::test]
async fn a_completion_fits_its_upload() {
    let (_node, client) = a_bucket().await;
    let (upload, parts) = upload_parts_with_checksums(&client, "k", &ChecksumType::FullObject).await;
    let complete = || complete(&client, "k", &upload, parts.clone());
    let other = refused(complete().checksum_type(ChecksumType::Composite).send().await);
    assert_eq!((other.status, other.code.as_str()), (400, "InvalidRequest"));
    assert!(other.message.contains("created using the FULL_OBJECT checksum mode"), "{}", other.message);
    let invalid = refused(complete().checksum_type(ChecksumType::from("PARTIAL")).send().await);
    assert_eq!((invalid.status, invalid.code.as_str()), (400, "InvalidRequest"));
    assert_eq!(invalid.message, "Value for x-amz-checksum-type header is invalid.");
    let size = refused(complete().mpu_object_size(1).send().await);
    assert_eq!((size.status, size.code.as_str()), (400, "InvalidRequest"));
    let digest = refused(complete().checksum_crc32("AAAAAA==").send().await);
    assert_eq!((digest.status, digest.code.as_str()), (400, "BadDigest"));
    assert_eq!(digest.message, "The crc32 you specified did not match the calculated checksum.");
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
    let size = i64::try_from(PART).unwrap() + 9;
    complete().checksum_type(ChecksumType::FullObject).mpu_object_size(size).send().await.unwrap();
}

#[tokio::test]
async fn an_upload_without_an_algorithm_gets_a_crc64_of_its_parts() {
    let (_node, client) = a_bucket().await;
    let quiet = without_checksums(&client);
    let bodies = [some_bytes(PART), some_bytes(PART + 1), b"tail".to_vec()];
    let upload = begin(&client, "k").await;
    let mut parts = Vec::new();
    for (number, body) in (1..).zip(&bodies) {
        // The client's own checksum is answered, else the one that was computed.
        let client = if number == 2 { &client } else { &quiet };
        let part = client.upload_part().bucket(BUCKET).key("k").upload_id(&upload).part_number(number);
        let part = part.body(body.clone().into()).send().await.unwrap();
        assert_eq!(part.checksum_crc32().is_some(), number == 2);
        let computed = (number != 2).then(|| crc64(body));
        assert_eq!(part.checksum_crc64_nvme(), computed.as_deref());
        parts.push(CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).build());
    }
    put(&client, "from", "replaced").await;
    let listed = client.list_parts().bucket(BUCKET).key("k").upload_id(&upload).send().await.unwrap();
    assert_eq!((listed.checksum_algorithm(), listed.checksum_type()), (None, None));
    assert!(listed.parts().iter().all(|part| part.checksum_crc64_nvme().is_none()), "as on AWS");

    let whole = crc64(&bodies.concat());
    let complete = || complete(&client, "k", &upload, parts.clone());
    let composite = refused(complete().checksum_type(ChecksumType::Composite).send().await);
    assert_eq!(composite.code, "InvalidRequest");
    assert_eq!(code(complete().checksum_crc64_nvme("AAAAAAAAAAA=").send().await), is(400, "BadDigest"));
    let completed = complete().checksum_crc64_nvme(&whole).send().await.unwrap();
    assert_eq!(completed.checksum_crc64_nvme(), Some(whole.as_str()));
    assert_eq!(completed.checksum_type(), Some(&ChecksumType::FullObject));
    let object =
        client.get_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled).send().await;
    let object = object.unwrap();
    assert_eq!(object.checksum_crc64_nvme(), Some(whole.as_str()));
    // The SDK verifies the body against it as it reads.
    assert_eq!(object.body.collect().await.unwrap().to_vec(), bodies.concat());
    let said = client.get_object_attributes().bucket(BUCKET).key("k");
    let said = said.object_attributes(ObjectAttributes::ObjectParts).send().await.unwrap();
    let parts = said.object_parts().expect("parts").parts();
    assert_eq!(parts.len(), 3);
    assert!(parts.iter().all(|part| part.checksum_crc64_nvme().is_none()), "no algorithm was named");
    let part = client.head_object().bucket(BUCKET).key("k").part_number(2);
    let part = part.checksum_mode(ChecksumMode::Enabled).send().await.unwrap();
    assert_eq!((part.checksum_crc64_nvme(), part.checksum_type()), (None, None));
}

/// AWS takes the checksum of another algorithm, and looks at none.
#[tokio::test]
async fn a_completion_may_announce_what_its_upload_did_not_name() {
    let (_node, client) = a_bucket().await;
    let upload = begin(&client, "k").await;
    let part = send_part(&client, "k", &upload, 1, b"123456789".to_vec()).await;
    let completed =
        complete(&client, "k", &upload, vec![part]).checksum_crc32("y/Q5Jg==").send().await.unwrap();
    assert_eq!(completed.checksum_crc32(), None);
    assert_eq!(completed.checksum_crc64_nvme(), Some("rosUhgp5mIg="));
}
