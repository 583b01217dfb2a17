//! ListParts and ListMultipartUploads.

use aws_sdk_s3::operation::list_multipart_uploads::ListMultipartUploadsOutput;
use aws_sdk_s3::types::Part;

use super::multipart::{begin, send_part};
use super::*;

#[tokio::test]
async fn parts_are_listed_by_number_and_page() {
    let (_node, client) = a_bucket().await;
    let begun = client.create_multipart_upload().bucket(BUCKET).key("k").metadata("m", "1");
    let upload = begun.send().await.unwrap().upload_id.unwrap();
    for number in [30, 10, 20, 10_000] {
        send_part(&client, "k", &upload, number, b"part".to_vec()).await;
    }
    let list = || client.list_parts().bucket(BUCKET).key("k").upload_id(&upload);
    let all = list().send().await.unwrap();
    let numbers: Vec<i32> = all.parts().iter().filter_map(Part::part_number).collect();
    assert_eq!(numbers, [10, 20, 30, 10_000]);
    assert_eq!((all.is_truncated(), all.max_parts()), (Some(false), Some(1000)));
    assert_eq!((all.bucket(), all.key(), all.upload_id()), (Some(BUCKET), Some("k"), Some(upload.as_str())));
    let part = all.parts().first().unwrap();
    assert_eq!(part.size(), Some(4));
    assert!(part.e_tag().is_some() && part.last_modified().is_some());
    assert!(all.owner().is_some() && all.initiator().is_some());

    let first = list().max_parts(3).send().await.unwrap();
    assert_eq!((first.parts().len(), first.is_truncated()), (3, Some(true)));
    assert_eq!(first.next_part_number_marker(), Some("30"));
    let rest = list().part_number_marker("30").send().await.unwrap();
    let numbers: Vec<i32> = rest.parts().iter().filter_map(Part::part_number).collect();
    assert_eq!(numbers, [10_000]);
    assert_eq!(code(list().max_parts(-1).send().await), is(400, "InvalidArgument"));
    assert_eq!(code(list().part_number_marker("x").send().await), is(400, "InvalidArgument"));
}

fn entries(page: &ListMultipartUploadsOutput) -> Vec<String> {
    let uploads = page.uploads().iter().filter_map(|upload| upload.key());
    let prefixes = page.common_prefixes().iter().filter_map(|prefix| prefix.prefix());
    uploads.chain(prefixes).map(str::to_owned).collect()
}

#[tokio::test]
async fn uploads_are_listed_by_key_prefix_and_delimiter() {
    let (_node, client) = a_bucket().await;
    assert!(client.list_multipart_uploads().bucket(BUCKET).send().await.unwrap().uploads().is_empty());
    for key in ["b", "a/2", "a/1", "a"] {
        begin(&client, key).await;
    }
    put(&client, "a/0", "an object is no upload").await;
    let list = || client.list_multipart_uploads().bucket(BUCKET);
    let all = list().send().await.unwrap();
    assert_eq!(entries(&all), ["a", "a/1", "a/2", "b"]);
    assert_eq!((all.is_truncated(), all.max_uploads()), (Some(false), Some(1000)));
    let upload = all.uploads().first().unwrap();
    assert!(upload.upload_id().is_some() && upload.initiated().is_some());
    assert!(upload.owner().is_some() && upload.initiator().is_some());
    assert_eq!(entries(&list().prefix("a/").send().await.unwrap()), ["a/1", "a/2"]);
    assert_eq!(entries(&list().delimiter("/").send().await.unwrap()), ["a", "b", "a/"]);
    assert_eq!(entries(&list().key_marker("a/1").send().await.unwrap()), ["a/2", "b"]);
    for max in [-1, 0] {
        assert_eq!(code(list().max_uploads(max).send().await), is(400, "InvalidArgument"));
    }
    let marker = list().key_marker("a").upload_id_marker("nonsense").send().await;
    assert_eq!(code(marker), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn pages_of_uploads_add_up_to_the_whole() {
    let (_node, client) = a_bucket().await;
    let mut begun = Vec::new();
    for key in ["a", "a", "a", "b", "c/1", "c/2"] {
        begun.push((key.to_owned(), begin(&client, key).await));
    }
    begun.sort_unstable();
    for size in 1..=7 {
        let (mut found, mut key, mut upload) = (Vec::new(), None, None);
        loop {
            let list = client.list_multipart_uploads().bucket(BUCKET).max_uploads(size);
            let page = list.set_key_marker(key).set_upload_id_marker(upload).send().await.unwrap();
            found.extend(
                page.uploads()
                    .iter()
                    .filter_map(|upload| Some((upload.key()?.to_owned(), upload.upload_id()?.to_owned()))),
            );
            if page.is_truncated() != Some(true) {
                break;
            }
            key = page.next_key_marker().map(str::to_owned);
            upload = page.next_upload_id_marker().map(str::to_owned);
            assert!(key.is_some());
        }
        found.sort_unstable();
        assert_eq!(found, begun, "pages of {size}");
    }
}
