//! Checksums in header and trailer: verified, stored, returned when asked for.

use aws_sdk_s3::config::RequestChecksumCalculation;
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumMode, ChecksumType, ObjectAttributes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;

use super::*;

/// A client that sends a checksum only where the request asks for it; the SDK else adds one of its own.
pub(crate) fn without_checksums(client: &Client) -> Client {
    let config = client.config().to_builder();
    Client::from_conf(config.request_checksum_calculation(RequestChecksumCalculation::WhenRequired).build())
}

/// The CRC-64/NVME of a body, as S3 writes it.
pub(crate) fn crc64(body: &[u8]) -> String {
    STANDARD.encode(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, body).to_be_bytes())
}

#[tokio::test]
async fn an_object_that_is_sent_without_a_checksum_gets_a_crc64() {
    let (_node, client) = a_bucket().await;
    let client = without_checksums(&client);
    assert_eq!(crc64(b"123456789"), "rosUhgp5mIg=");
    // Empty, in its row, packed, in files.
    for size in [0, 9, 4096, 300_000, 3 << 20] {
        let body = some_bytes(size);
        let expected = crc64(&body);
        let put = client.put_object().bucket(BUCKET).key("k").body(body.clone().into()).send().await.unwrap();
        assert_eq!(put.checksum_crc64_nvme(), Some(expected.as_str()), "{size}");
        assert_eq!(put.checksum_type(), Some(&ChecksumType::FullObject), "{size}");
        let copy = client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
        let copied = copy.send().await.unwrap().copy_object_result.unwrap();
        assert_eq!(copied.checksum_crc64_nvme(), Some(expected.as_str()), "{size}");
        for key in ["k", "copy"] {
            let head = client.head_object().bucket(BUCKET).key(key).checksum_mode(ChecksumMode::Enabled);
            assert_eq!(head.send().await.unwrap().checksum_crc64_nvme(), Some(expected.as_str()), "{size}");
            let object = client.get_object().bucket(BUCKET).key(key).checksum_mode(ChecksumMode::Enabled);
            let object = object.send().await.unwrap();
            assert_eq!(object.checksum_crc64_nvme(), Some(expected.as_str()), "{size}");
            // The SDK verifies the body against it as it reads.
            assert_eq!(object.body.collect().await.unwrap().to_vec(), body, "{size}");
            let said = client.get_object_attributes().bucket(BUCKET).key(key);
            let said = said.object_attributes(ObjectAttributes::Checksum).send().await.unwrap();
            let said = said.checksum().expect("a checksum").checksum_crc64_nvme();
            assert_eq!(said, Some(expected.as_str()), "{size}");
        }
    }
    let listed = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    for object in listed.contents() {
        assert_eq!(object.checksum_algorithm(), [ChecksumAlgorithm::Crc64Nvme]);
        assert_eq!(object.checksum_type(), Some(&ChecksumType::FullObject));
    }
}

#[tokio::test]
async fn every_algorithm_is_verified_stored_and_returned() {
    let (_node, client) = a_bucket().await;
    for algorithm in [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32C,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ] {
        let body = ByteStream::from_static(b"123456789");
        let put =
            client.put_object().bucket(BUCKET).key("k").checksum_algorithm(algorithm.clone()).body(body);
        put.send().await.unwrap();
        let object =
            client.get_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled).send().await;
        let object = object.unwrap();
        assert_eq!(object.checksum_type(), Some(&ChecksumType::FullObject), "{algorithm}");
        let (value, expected) = match algorithm {
            ChecksumAlgorithm::Crc32 => (object.checksum_crc32(), "y/Q5Jg=="),
            ChecksumAlgorithm::Crc32C => (object.checksum_crc32_c(), "4waSgw=="),
            ChecksumAlgorithm::Crc64Nvme => (object.checksum_crc64_nvme(), "rosUhgp5mIg="),
            ChecksumAlgorithm::Sha1 => (object.checksum_sha1(), "98O8HYCOBHMq32eZZczDTKeuNEE="),
            _ => (object.checksum_sha256(), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
        };
        assert_eq!(value, Some(expected), "{algorithm}");
        // The SDK verifies the body against it as it reads.
        assert_eq!(object.body.collect().await.unwrap().to_vec(), b"123456789");
    }
}

#[tokio::test]
async fn a_streamed_body_brings_its_checksum_in_the_trailer() {
    let (node, client) = a_bucket().await;
    let path = node.dir().join("streamed");
    let body = some_bytes(3 << 20);
    std::fs::write(&path, &body).unwrap();
    for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Sha256] {
        let stream = ByteStream::from_path(&path).await.unwrap();
        let put =
            client.put_object().bucket(BUCKET).key("k").checksum_algorithm(algorithm.clone()).body(stream);
        let put = put.customize().mutate_request(|request| {
            assert!(request.headers().get("x-amz-trailer").is_some(), "the SDK streams a file");
        });
        put.send().await.unwrap();
        let object =
            client.get_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled).send().await;
        let object = object.unwrap();
        let value = match algorithm {
            ChecksumAlgorithm::Crc32 => object.checksum_crc32(),
            ChecksumAlgorithm::Crc64Nvme => object.checksum_crc64_nvme(),
            _ => object.checksum_sha256(),
        };
        assert!(value.is_some(), "{algorithm}");
        assert!(object.content_encoding().is_none());
        assert_eq!(object.body.collect().await.unwrap().to_vec(), body, "{algorithm}");
    }
}

#[tokio::test]
async fn checksums_are_returned_only_when_asked_for() {
    let (_node, client) = a_bucket().await;
    let body = ByteStream::from_static(b"123456789");
    let put = client.put_object().bucket(BUCKET).key("k").checksum_crc32("y/Q5Jg==").body(body).send().await;
    assert_eq!(put.unwrap().checksum_crc32(), Some("y/Q5Jg=="));
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.checksum_crc32(), None);
    let asked = client.head_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled);
    assert_eq!(asked.send().await.unwrap().checksum_crc32(), Some("y/Q5Jg=="));
    let ranged = client.head_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled);
    let ranged = ranged.range("bytes=0-3").send().await.unwrap();
    assert_eq!(ranged.checksum_crc32(), None, "a range has no checksum of its own");
}

#[tokio::test]
async fn a_checksum_that_differs_stores_nothing() {
    let (_node, client) = a_bucket().await;
    let put = |value: &str| {
        let body = ByteStream::from_static(b"123456789");
        client.put_object().bucket(BUCKET).key("k").checksum_crc32(value).body(body).send()
    };
    let differs = refused(put("AAAAAA==").await);
    assert_eq!((differs.status, differs.code.as_str()), (400, "BadDigest"));
    assert!(differs.message.contains("CRC32"), "{}", differs.message);
    for nonsense in ["AAAA", "?"] {
        assert_eq!(code(put(nonsense).await), is(400, "InvalidRequest"), "{nonsense}");
    }
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
}

#[tokio::test]
async fn a_content_md5_that_differs_is_answered_with_both_digests() {
    let (_node, client) = a_bucket().await;
    // Of an empty body.
    let put = client.put_object().bucket(BUCKET).key("k").content_md5("1B2M2Y8AsgTpgAmY7PhCfg==");
    let differs = refused(put.body(ByteStream::from_static(b"123456789")).send().await);
    assert_eq!((differs.status, differs.code.as_str()), (400, "BadDigest"));
    let digests = "<CalculatedDigest>JfnnlDI7RTiF9RgfG2JNCw==</CalculatedDigest>\
                   <ExpectedDigest>d41d8cd98f00b204e9800998ecf8427e</ExpectedDigest>";
    assert!(differs.document().contains(digests), "{}", differs.document());
}

#[tokio::test]
async fn two_checksums_are_too_many() {
    let (_node, client) = a_bucket().await;
    let body = ByteStream::from_static(b"123456789");
    let put = client.put_object().bucket(BUCKET).key("k").checksum_crc32("y/Q5Jg==").body(body);
    let put = put.customize().mutate_request(|request| {
        request.headers_mut().insert("x-amz-checksum-crc32c", "4waSgw==");
    });
    assert_eq!(code(put.send().await), is(400, "InvalidRequest"));
}

#[tokio::test]
async fn listings_name_the_algorithms() {
    let (_node, client) = a_bucket().await;
    let body = ByteStream::from_static(b"123456789");
    client.put_object().bucket(BUCKET).key("k").checksum_crc32("y/Q5Jg==").body(body).send().await.unwrap();
    let listed = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    let object = listed.contents().first().unwrap();
    assert_eq!(object.checksum_algorithm(), [ChecksumAlgorithm::Crc32]);
    assert_eq!(object.checksum_type(), Some(&ChecksumType::FullObject));
}
