//! ListObjects, versions 1 and 2.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{EncodingType, ObjectStorageClass};

use super::*;

const KEYS: [&str; 9] = ["a", "a/b", "a/c/d", "b", "c/d", "c/e", "d-1", "d/1", "é"];

async fn listed_bucket() -> (Node, Client) {
    let (node, client) = a_bucket().await;
    for key in KEYS {
        put(&client, key, key).await;
    }
    (node, client)
}

fn keys(page: &ListObjectsV2Output) -> Vec<&str> {
    page.contents().iter().filter_map(|object| object.key()).collect()
}

fn prefixes(page: &ListObjectsV2Output) -> Vec<&str> {
    page.common_prefixes().iter().filter_map(|prefix| prefix.prefix()).collect()
}

#[tokio::test]
async fn all_keys_are_listed_in_order_with_their_attributes() {
    let (_node, client) = listed_bucket().await;
    let page = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    assert_eq!(keys(&page), KEYS);
    assert_eq!((page.key_count(), page.max_keys(), page.is_truncated()), (Some(9), Some(1000), Some(false)));
    assert_eq!((page.name(), page.prefix()), (Some(BUCKET), Some("")));
    let head = client.head_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    let object = &page.contents()[1];
    assert_eq!(object.size(), Some(3));
    assert_eq!(object.e_tag(), head.e_tag());
    assert_eq!(object.last_modified(), head.last_modified());
    assert_eq!(object.storage_class().map(ObjectStorageClass::as_str), Some("STANDARD"));
    assert!(object.owner().is_none());
    let with_owner = client.list_objects_v2().bucket(BUCKET).fetch_owner(true).send().await.unwrap();
    assert!(with_owner.contents().iter().all(|object| object.owner().is_some()));
}

#[tokio::test]
async fn prefix_and_delimiter_roll_keys_up() {
    let (_node, client) = listed_bucket().await;
    let page = client.list_objects_v2().bucket(BUCKET).delimiter("/").send().await.unwrap();
    assert_eq!(keys(&page), ["a", "b", "d-1", "é"]);
    assert_eq!(prefixes(&page), ["a/", "c/", "d/"]);
    assert_eq!(page.key_count(), Some(7));
    let page = client.list_objects_v2().bucket(BUCKET).prefix("a/").delimiter("/").send().await.unwrap();
    assert_eq!((keys(&page), prefixes(&page)), (vec!["a/b"], vec!["a/c/"]));
    let page = client.list_objects_v2().bucket(BUCKET).prefix("c").delimiter("/d").send().await.unwrap();
    assert_eq!((keys(&page), prefixes(&page)), (vec!["c/e"], vec!["c/d"]));
    let page = client.list_objects_v2().bucket(BUCKET).prefix("zzz").send().await.unwrap();
    assert_eq!(page.key_count(), Some(0));
}

#[tokio::test]
async fn pages_of_every_size_add_up_to_the_whole() {
    let (_node, client) = listed_bucket().await;
    for delimiter in [None, Some("/".to_owned())] {
        let list = || client.list_objects_v2().bucket(BUCKET).set_delimiter(delimiter.clone());
        let whole = list().send().await.unwrap();
        for size in 1..=10 {
            let (mut found, mut rolled, mut token) = (Vec::new(), Vec::new(), None);
            loop {
                let page = list().max_keys(size).set_continuation_token(token).send().await.unwrap();
                assert!(page.key_count() <= Some(size));
                found.extend(keys(&page).into_iter().map(str::to_owned));
                rolled.extend(prefixes(&page).into_iter().map(str::to_owned));
                assert_eq!(page.is_truncated(), Some(page.next_continuation_token().is_some()));
                token = page.next_continuation_token().map(str::to_owned);
                if token.is_none() {
                    break;
                }
            }
            assert_eq!(found, keys(&whole), "pages of {size}");
            assert_eq!(rolled, prefixes(&whole), "pages of {size}");
        }
    }
}

#[tokio::test]
async fn a_listing_begins_behind_any_text() {
    let (_node, client) = listed_bucket().await;
    for (after, first) in [("a/b", Some("a/c/d")), ("a/bb", Some("a/c/d")), ("", Some("a")), ("é", None)] {
        let page = client.list_objects_v2().bucket(BUCKET).start_after(after).send().await.unwrap();
        assert_eq!(keys(&page).first().copied(), first, "{after}");
    }
}

#[tokio::test]
async fn a_page_size_is_between_0_and_1000() {
    let (_node, client) = listed_bucket().await;
    let none = client.list_objects_v2().bucket(BUCKET).max_keys(0).send().await.unwrap();
    assert_eq!((none.key_count(), none.is_truncated(), none.max_keys()), (Some(0), Some(false), Some(0)));
    let many = client.list_objects_v2().bucket(BUCKET).max_keys(5000).send().await.unwrap();
    assert_eq!((many.key_count(), many.max_keys()), (Some(9), Some(1000)));
    let negative = client.list_objects_v2().bucket(BUCKET).max_keys(-1).send().await;
    assert_eq!(code(negative), is(400, "InvalidArgument"));
    let nonsense = client.list_objects_v2().bucket(BUCKET).customize().mutate_request(|request| {
        let uri = format!("{}&max-keys=some", request.uri());
        request.set_uri(uri).expect("a uri");
    });
    assert_eq!(code(nonsense.send().await), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn a_token_that_was_changed_is_refused() {
    let (_node, client) = listed_bucket().await;
    let page = client.list_objects_v2().bucket(BUCKET).max_keys(2).send().await.unwrap();
    let token = page.next_continuation_token().unwrap().to_owned();
    for bad in [format!("{token}A"), token.to_ascii_lowercase(), "a".to_owned(), "!".to_owned()] {
        let listed = client.list_objects_v2().bucket(BUCKET).continuation_token(&bad).send().await;
        assert_eq!(code(listed), is(400, "InvalidArgument"), "{bad}");
    }
}

#[tokio::test]
async fn names_are_encoded_when_asked() {
    let (_node, client) = a_bucket().await;
    for key in ["foo+1/bar", "foo/bar/xyzzy", "quux ab/thud", "asdf+b", "é"] {
        put(&client, key, "").await;
    }
    let list = || client.list_objects_v2().bucket(BUCKET).delimiter("/").encoding_type(EncodingType::Url);
    let page = list().send().await.unwrap();
    assert_eq!(keys(&page), ["asdf%2Bb", "%C3%A9"]);
    assert_eq!(prefixes(&page), ["foo%2B1/", "foo/", "quux%20ab/"]);
    assert_eq!(page.encoding_type(), Some(&EncodingType::Url));
    let unknown =
        client.list_objects_v2().bucket(BUCKET).encoding_type(EncodingType::from("utf7")).send().await;
    assert_eq!(code(unknown), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn version_1_pages_by_marker() {
    let (_node, client) = listed_bucket().await;
    let whole = client.list_objects().bucket(BUCKET).send().await.unwrap();
    let names: Vec<&str> = whole.contents().iter().filter_map(|object| object.key()).collect();
    assert_eq!(names, KEYS);
    assert_eq!((whole.marker(), whole.next_marker(), whole.is_truncated()), (Some(""), None, Some(false)));
    assert!(whole.contents().iter().all(|object| object.owner().is_some()));

    let first = client.list_objects().bucket(BUCKET).max_keys(3).send().await.unwrap();
    assert_eq!((first.is_truncated(), first.next_marker()), (Some(true), None), "the last key is the marker");
    let second = client.list_objects().bucket(BUCKET).marker("a/c/d").send().await.unwrap();
    assert_eq!(second.contents().first().and_then(|object| object.key()), Some("b"));

    let (mut found, mut marker) = (Vec::new(), None);
    loop {
        let list = client.list_objects().bucket(BUCKET).delimiter("/").max_keys(2).set_marker(marker);
        let page = list.send().await.unwrap();
        found.extend(page.contents().iter().filter_map(|object| object.key()).map(str::to_owned));
        found.extend(page.common_prefixes().iter().filter_map(|prefix| prefix.prefix()).map(str::to_owned));
        assert_eq!(page.is_truncated(), Some(page.next_marker().is_some()));
        marker = page.next_marker().map(str::to_owned);
        if marker.is_none() {
            break;
        }
    }
    found.sort_unstable();
    assert_eq!(found, ["a", "a/", "b", "c/", "d-1", "d/", "é"]);
}

#[tokio::test]
async fn a_listing_shows_every_write_that_was_answered_before_it() {
    let (_node, client) = a_bucket().await;
    for round in 0..20 {
        let key = format!("k{round:02}");
        put(&client, &key, "").await;
        let page = client.list_objects_v2().bucket(BUCKET).prefix(&key).send().await.unwrap();
        assert_eq!(keys(&page), [key.as_str()]);
        client.delete_object().bucket(BUCKET).key(&key).send().await.unwrap();
        let page = client.list_objects_v2().bucket(BUCKET).prefix(&key).send().await.unwrap();
        assert!(keys(&page).is_empty());
    }
}
