//! Headers of each kind, for reads and writes.

use super::*;
use crate::operation::Operation;

fn checked(operation: Operation, headers: &[(&'static str, &str)]) -> Result<DeclaredChecksum, Refusal> {
    check(&RequestHead::with(headers), operation.columns(), has_trailer(headers))
}

/// Whether the payload of these headers is followed by a trailer.
fn has_trailer(headers: &[(&'static str, &str)]) -> bool {
    !headers.contains(&("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"))
}

#[test]
fn features_that_are_lacking_are_not_implemented() {
    for (name, value) in [
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-copy-source-server-side-encryption-customer-key", "k"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-bucket-object-lock-enabled", "true"),
        ("x-amz-te", "append-md5"),
        ("x-amz-mfa", "s 123456"),
        ("x-amz-write-offset-bytes", "1"),
        ("x-amz-checksum-sha3", "AA=="),
        ("x-amz-something-new", "1"),
    ] {
        let refusal = checked(Operation::PutObject, &[(name, value)]).expect_err(name);
        assert_eq!(refusal.code, Code::NotImplemented, "{name}");
        assert_eq!(refusal.details, [("Header", name.to_owned())]);
    }
}

#[test]
fn lists_and_classes_that_are_lacking_have_errors_of_their_own() {
    for (name, value, code) in [
        ("x-amz-acl", "public-read", Code::AccessControlListNotSupported),
        ("x-amz-acl", "", Code::InvalidArgument),
        ("x-amz-grant-read", "id=1", Code::AccessControlListNotSupported),
        ("x-amz-grant-full-control", "id=1", Code::AccessControlListNotSupported),
        ("x-amz-object-ownership", "ObjectWriter", Code::AccessControlListNotSupported),
        ("x-amz-storage-class", "GLACIER", Code::InvalidStorageClass),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY", Code::InvalidStorageClass),
        ("x-amz-storage-class", "standard", Code::InvalidStorageClass),
    ] {
        let refusal = checked(Operation::PutObject, &[(name, value)]).expect_err(name);
        assert_eq!(refusal.code, code, "{name}: {value}");
    }
}

#[test]
fn values_that_are_no_feature_are_accepted() {
    for (name, value) in [
        ("x-amz-acl", "private"),
        ("x-amz-acl", "bucket-owner-full-control"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-tagging-directive", "REPLACE"),
        ("x-amz-bucket-object-lock-enabled", "false"),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-copy-source", "/b/k?versionId=null"),
        ("x-amz-copy-source", "/b/k?versionId=3sL4k"),
        ("x-amz-website-redirect-location", "/"),
        ("x-amz-user-agent", "aws-sdk-js/3"),
        ("x-amz-api-version", "2006-03-01"),
        ("x-amz-expected-bucket-owner", owner::ACCOUNT),
        ("x-amz-source-expected-bucket-owner", owner::ACCOUNT),
        ("x-amzn-trace-id", "Root=1"),
        ("x-amz-client-token", "mine"),
        ("amz-sdk-invocation-id", "1d2c"),
        ("content-type", "x-amz"),
    ] {
        checked(Operation::PutObject, &[(name, value)]).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    }
}

#[test]
fn a_redirection_is_given_to_new_objects_alone() {
    let redirect = &[("x-amz-website-redirect-location", "/a")];
    for operation in
        [Operation::PutObject, Operation::PostObject, Operation::CopyObject, Operation::CreateMultipartUpload]
    {
        checked(operation, redirect).expect("taken");
    }
    for operation in [Operation::UploadPart, Operation::CompleteMultipartUpload, Operation::PutObjectAcl] {
        assert_eq!(checked(operation, redirect).expect_err("refused").code, Code::NotImplemented);
    }
    checked(Operation::GetObject, redirect).expect("ignored");
}

#[test]
fn tags_are_given_to_new_objects_alone() {
    let tagging = &[("x-amz-tagging", "a=b")];
    for operation in [Operation::PutObject, Operation::CopyObject, Operation::CreateMultipartUpload] {
        checked(operation, tagging).expect("taken");
    }
    for operation in [Operation::UploadPart, Operation::CompleteMultipartUpload, Operation::PutObjectTagging]
    {
        assert_eq!(checked(operation, tagging).expect_err("refused").code, Code::NotImplemented);
    }
    checked(Operation::HeadObject, tagging).expect("ignored");
}

#[test]
fn reads_ignore_what_changes_no_stored_byte() {
    let reads =
        [Operation::GetObject, Operation::HeadObject, Operation::ListObjectsV2, Operation::HeadBucket];
    for operation in reads {
        for (name, value) in [
            ("x-amz-te", "append-md5"),
            ("x-amz-something-new", "1"),
            ("x-amz-acl", "public-read"),
            ("x-amz-storage-class", "GLACIER"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-sdk-checksum-algorithm", "CRC32"),
            ("x-amz-checksum-sha3", "AA=="),
            ("x-amz-checksum-crc32", "no checksum"),
        ] {
            let declared = checked(operation, &[(name, value)]);
            assert_eq!(declared, Ok(DeclaredChecksum::default()), "{operation:?} {name}");
        }
        for name in [
            "x-amz-server-side-encryption-customer-algorithm",
            "x-amz-server-side-encryption-customer-key",
            "x-amz-server-side-encryption-customer-key-md5",
            "x-amz-server-side-encryption",
        ] {
            let refusal = checked(operation, &[(name, "AES256")]).expect_err(name);
            assert_eq!(refusal.code, Code::NotImplemented, "{operation:?} {name}");
        }
    }
}

#[test]
fn a_trailer_that_is_announced_and_not_sent_is_its_header() {
    let frames = ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    let header = ("x-amz-checksum-crc32", "y/Q5Jg==");
    let twice = checked(Operation::PutObject, &[frames, header, ("x-amz-trailer", header.0)]);
    let twice = twice.expect("one checksum");
    assert_eq!((twice.header, twice.trailer), (Some(ChecksumAlgorithm::Crc32), None));
    assert_eq!(twice.value, checksum::of_whole(ChecksumAlgorithm::Crc32, b"y/Q5Jg=="));
    for headers in [
        &[header, ("x-amz-trailer", header.0)][..],
        &[frames, header, ("x-amz-trailer", "x-amz-checksum-crc32c")],
    ] {
        let refusal = checked(Operation::PutObject, headers).expect_err("contradictory");
        assert_eq!(refusal.code, Code::InvalidRequest, "{headers:?}");
    }
    let alone = checked(Operation::PutObject, &[frames, ("x-amz-trailer", header.0)]);
    assert_eq!(alone.expect_err("a trailer cannot come").code, Code::MalformedTrailerError);
}

#[test]
fn buckets_belong_to_one_account() {
    for name in ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"] {
        let code = |value| checked(Operation::GetObject, &[(name, value)]).expect_err(value).code;
        assert_eq!(code("111122223333"), Code::AccessDenied);
        for value in ["", "11112222333", "1111222233334", "sherd", "11112222333x"] {
            assert_eq!(code(value), Code::InvalidBucketOwnerAWSAccountID, "{value}");
        }
    }
}

#[test]
fn metadata_is_weighed_with_its_names() {
    let value = "v".repeat(2048 - 3);
    checked(Operation::PutObject, &[("x-amz-meta-key", &value)]).expect("just fits");
    let refusal = checked(Operation::PutObject, &[("x-amz-meta-key", &value), ("x-amz-meta-a", "")]);
    assert_eq!(refusal.expect_err("one too many").code, Code::MetadataTooLarge);
}

#[test]
fn checksums_are_one_and_well_formed() {
    let one = checked(Operation::PutObject, &[("x-amz-checksum-crc32", "y/Q5Jg==")]).expect("one");
    assert_eq!(one.header, Some(ChecksumAlgorithm::Crc32));
    let trailer = checked(Operation::PutObject, &[("x-amz-trailer", "x-amz-checksum-crc64nvme")]);
    assert_eq!(trailer.expect("a trailer").trailer, Some(ChecksumAlgorithm::Crc64Nvme));
    for headers in [
        &[("x-amz-checksum-crc32", "y/Q5Jg==1")][..],
        &[("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc32c", "4waSgw==")],
        &[("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-trailer", "x-amz-checksum-crc32c")],
        &[("x-amz-trailer", "x-amz-meta-a")],
        &[("x-amz-trailer", "x-amz-checksum-crc32, x-amz-checksum-sha1")],
        &[("x-amz-sdk-checksum-algorithm", "CRC32")],
        &[("x-amz-sdk-checksum-algorithm", "CRC32"), ("x-amz-checksum-crc32c", "4waSgw==")],
    ] {
        let refusal = checked(Operation::PutObject, headers).expect_err("contradictory");
        assert_eq!(refusal.code, Code::InvalidRequest, "{headers:?}");
    }
    let composite = [("x-amz-checksum-crc32", "y/Q5Jg==-2")];
    checked(Operation::CompleteMultipartUpload, &composite).expect("composite");
    checked(Operation::PutObject, &composite).expect_err("not for a whole object");
}
