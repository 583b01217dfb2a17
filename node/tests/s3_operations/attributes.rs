//! GetObjectAttributes.

use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumType, ObjectAttributes, StorageClass};

use super::multipart::{complete_upload, upload_with_checksums};
use super::*;

#[tokio::test]
async fn an_object_says_the_attributes_that_are_asked_for() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").checksum_algorithm(ChecksumAlgorithm::Crc32);
    let put = put.body(ByteStream::from_static(b"123456789")).send().await.unwrap();
    let ask = || client.get_object_attributes().bucket(BUCKET).key("k");
    let all = [
        ObjectAttributes::Etag,
        ObjectAttributes::Checksum,
        ObjectAttributes::ObjectParts,
        ObjectAttributes::StorageClass,
        ObjectAttributes::ObjectSize,
    ];
    let said = ask().set_object_attributes(Some(all.into())).send().await.unwrap();
    let etag = put.e_tag().expect("an entity tag").trim_matches('"');
    assert_eq!(said.e_tag(), Some(etag), "without quotes here");
    let checksum = said.checksum().expect("a checksum");
    assert_eq!(checksum.checksum_crc32(), Some("y/Q5Jg=="));
    assert_eq!(checksum.checksum_type(), Some(&ChecksumType::FullObject));
    assert_eq!(said.object_size(), Some(9));
    assert_eq!(said.storage_class(), Some(&StorageClass::Standard));
    assert!(said.object_parts().is_none() && said.last_modified().is_some());

    let size = ask().object_attributes(ObjectAttributes::ObjectSize).send().await.unwrap();
    assert_eq!((size.object_size(), size.e_tag(), size.checksum()), (Some(9), None, None));
    let unknown = ask().object_attributes(ObjectAttributes::from("Colour")).send().await;
    assert_eq!(code(unknown), is(400, "InvalidArgument"));
    let nothing = client.get_object_attributes().bucket(BUCKET).key("none");
    let nothing = nothing.object_attributes(ObjectAttributes::Etag).send().await;
    assert_eq!(code(nothing), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn the_parts_of_a_multipart_object_are_listed() {
    let (_node, client) = a_bucket().await;
    let ask = || {
        let ask = client.get_object_attributes().bucket(BUCKET).key("k");
        ask.object_attributes(ObjectAttributes::ObjectParts)
    };
    complete_upload(&client, "k", &[some_bytes(PART), b"tail".to_vec()]).await;
    let listed = ask().send().await.unwrap();
    let listed = listed.object_parts().expect("parts");
    let sizes: Vec<_> =
        listed.parts().iter().filter_map(|part| Some((part.part_number()?, part.size()?))).collect();
    assert_eq!((listed.total_parts_count(), sizes), (Some(2), vec![(1, 5 << 20), (2, 4)]));

    let (whole, parts) = upload_with_checksums(&client, "k", &ChecksumType::Composite).await;
    let checksum = client.get_object_attributes().bucket(BUCKET).key("k");
    let checksum = checksum.object_attributes(ObjectAttributes::Checksum).send().await.unwrap();
    let checksum = checksum.checksum().expect("a checksum");
    assert_eq!(checksum.checksum_crc32(), whole.strip_suffix("-2"), "as on AWS, without the number of parts");
    assert_eq!(checksum.checksum_type(), Some(&ChecksumType::Composite));
    let first = ask().max_parts(1).send().await.unwrap();
    let first = first.object_parts().expect("parts");
    assert_eq!((first.total_parts_count(), first.is_truncated()), (Some(2), Some(true)));
    assert_eq!(first.parts()[0].size(), i64::try_from(PART).ok());
    let marker = first.next_part_number_marker().expect("there are more");
    let rest = ask().part_number_marker(marker).send().await.unwrap();
    let rest = rest.object_parts().expect("parts");
    assert_eq!((rest.parts().len(), rest.is_truncated()), (1, Some(false)));
    assert_eq!(rest.parts()[0].checksum_crc32(), parts[1].checksum_crc32());
}
