//! ListObjectVersions of a bucket without versioning: each object is version `null`.

use aws_sdk_s3::operation::list_object_versions::ListObjectVersionsOutput;
use aws_sdk_s3::types::{EncodingType, ObjectVersionStorageClass};

use super::*;

const KEYS: [&str; 6] = ["a", "b/1", "b/2", "c", "d/1", "e f"];

async fn a_bucket_with_keys() -> (Node, Client) {
    let (node, client) = a_bucket().await;
    for key in KEYS {
        put(&client, key, key).await;
    }
    (node, client)
}

/// Keys and prefixes of a page, in the order of their names.
fn names(page: &ListObjectVersionsOutput) -> Vec<String> {
    let keys = page.versions().iter().filter_map(|version| version.key());
    let prefixes = page.common_prefixes().iter().filter_map(|prefix| prefix.prefix());
    let mut names: Vec<String> = keys.chain(prefixes).map(str::to_owned).collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_object_is_its_null_version() {
    let (_node, client) = a_bucket_with_keys().await;
    let etag = put(&client, "a", "another").await;
    client.delete_object().bucket(BUCKET).key("c").send().await.unwrap();
    let page = client.list_object_versions().bucket(BUCKET).send().await.unwrap();
    assert_eq!(names(&page), ["a", "b/1", "b/2", "d/1", "e f"]);
    assert!(page.delete_markers().is_empty());
    assert_eq!((page.is_truncated(), page.name(), page.max_keys()), (Some(false), Some(BUCKET), Some(1000)));
    assert_eq!((page.key_marker(), page.version_id_marker()), (Some(""), Some("")));
    assert_eq!((page.next_key_marker(), page.next_version_id_marker()), (None, None));
    let first = &page.versions()[0];
    assert_eq!((first.version_id(), first.is_latest()), (Some("null"), Some(true)));
    assert_eq!((first.e_tag(), first.size()), (Some(etag.as_str()), Some(7)));
    assert_eq!(first.storage_class(), Some(&ObjectVersionStorageClass::Standard));
    assert!(first.owner().is_some() && first.last_modified().is_some());
    // As clean-up scripts use it.
    for version in page.versions() {
        let delete = client.delete_object().bucket(BUCKET).key(version.key().unwrap());
        delete.version_id(version.version_id().unwrap()).send().await.unwrap();
    }
    client.delete_bucket().bucket(BUCKET).send().await.expect("it is empty");
    assert_eq!(code(client.list_object_versions().bucket(BUCKET).send().await), is(404, "NoSuchBucket"));
}

#[tokio::test]
async fn pages_of_versions_of_every_size_add_up() {
    let (_node, client) = a_bucket_with_keys().await;
    for (delimiter, expected) in [(None, KEYS.to_vec()), (Some("/"), vec!["a", "b/", "c", "d/", "e f"])] {
        for max_keys in 1..=7 {
            let (mut all, mut key, mut version) = (Vec::new(), None, None);
            loop {
                let list = client.list_object_versions().bucket(BUCKET).max_keys(max_keys);
                let list = list.set_delimiter(delimiter.map(str::to_owned));
                let list = list.set_key_marker(key).set_version_id_marker(version);
                let page = list.send().await.unwrap();
                let names = names(&page);
                assert!(names.len() <= usize::try_from(max_keys).unwrap());
                let ends_in_prefix = names.last().is_some_and(|name| name.ends_with('/'));
                all.extend(names);
                key = page.next_key_marker().map(str::to_owned);
                version = page.next_version_id_marker().map(str::to_owned);
                assert_eq!(key.is_some(), page.is_truncated() == Some(true));
                if key.is_none() {
                    break;
                }
                assert_eq!(version.as_deref(), (!ends_in_prefix).then_some("null"));
            }
            assert_eq!(all, expected, "{delimiter:?} {max_keys}");
        }
    }
}

#[tokio::test]
async fn versions_are_listed_by_prefix_marker_and_encoding() {
    let (_node, client) = a_bucket_with_keys().await;
    let list = || client.list_object_versions().bucket(BUCKET);
    assert_eq!(names(&list().prefix("b/").send().await.unwrap()), ["b/1", "b/2"]);
    assert_eq!(names(&list().key_marker("b/1").send().await.unwrap()), ["b/2", "c", "d/1", "e f"]);
    let encoded = list().prefix("e").encoding_type(EncodingType::Url).send().await.unwrap();
    assert_eq!(names(&encoded), ["e%20f"]);
    let none = list().max_keys(0).send().await.unwrap();
    assert_eq!((names(&none).len(), none.is_truncated()), (0, Some(false)));
    for (key, version) in [(None, "null"), (Some("a"), "nonsense"), (Some("a"), "")] {
        let refused = list().set_key_marker(key.map(str::to_owned)).version_id_marker(version).send().await;
        assert_eq!(code(refused), is(400, "InvalidArgument"), "{key:?} {version}");
    }
    assert_eq!(code(list().max_keys(-1).send().await), is(400, "InvalidArgument"));
}
