//! Pages of listings on whole nodes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use sherd_core::message::Error;

use super::*;
use crate::object::{CreateUpload, NewBucket, ObjectName, WriteConditions};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::tests::{Directories, body, key_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_uploads_end_after_enough_keys_and_lose_none() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    for n in 0..40 {
        node.put(&format!("p{}/k{n:02}", n / 20), &body(n, 10)).await;
    }
    for key in ["p0/k05", "p1/k39", "p1/new"] {
        let name = ObjectName { bucket: key_of("bucket").into(), key: key_of(key) };
        let attributes = sherd_core::record::Attributes::default();
        let create = CreateUpload {
            name,
            attributes,
            tags: sherd_core::record::ObjectTags::default(),
            checksum: None,
        };
        node.objects().create_upload(create).await.expect("an upload is begun");
    }
    for (delimiter, wanted) in [(None, vec!["p0/k05", "p1/k39", "p1/new"]), (Some("/"), vec!["p0/", "p1/"])] {
        let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let request = ListUploads {
                bucket: key_of("bucket").into(),
                prefix: String::new(),
                delimiter: delimiter.map(str::to_owned),
                after,
                max_uploads: 10,
            };
            let page = node.objects().inner.listings.uploads_among(request, 8).await.expect("a page");
            found.extend(page.entries.into_iter().map(|entry| match entry {
                UploadEntry::Upload { key, .. } => key.as_str().to_owned(),
                UploadEntry::Prefix(prefix) => prefix,
            }));
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, wanted);
        assert!(pages > 2, "{pages} pages of 8 keys for 40 of them");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_only_its_register_can_tell_of_counts_towards_a_page_too() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    // Just written: no volume got the commit hint yet.
    node.put("new", &body(1, 10)).await;
    let request = ListUploads {
        bucket: key_of("bucket").into(),
        prefix: String::new(),
        delimiter: None,
        after: None,
        max_uploads: 10,
    };
    let page = node.objects().inner.listings.uploads_among(request, 1).await.expect("a page");
    assert!(page.entries.is_empty());
    assert!(page.next.is_some(), "one key was looked at, and that was enough");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_end_after_enough_deleted_keys_and_lead_to_what_is_behind_them() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    for n in 0..40 {
        let key = format!("p{}/k{n:02}", n / 20);
        node.put(&key, &body(n, 10)).await;
        let name = ObjectName { bucket: key_of("bucket").into(), key: key_of(&key) };
        node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
        // Half of the tombstones are known to be committed, so that the volumes pass them.
        if n % 2 == 0 {
            node.registers().finish(&node.register(&key).await).await.expect("all volumes have it");
        }
    }
    for key in ["p0/k05x", "p1/k39x", "p1/z"] {
        node.put(key, &body(1, 10)).await;
    }
    for (delimiter, wanted) in [(None, vec!["p0/k05x", "p1/k39x", "p1/z"]), (Some("/"), vec!["p0/", "p1/"])] {
        let (mut found, mut after, mut empty, mut pages) = (Vec::new(), None, 0, 0);
        loop {
            let request = ListRequest {
                bucket: key_of("bucket").into(),
                prefix: String::new(),
                delimiter: delimiter.map(str::to_owned),
                after: after.clone(),
                max_keys: 10,
            };
            let page = node.objects().inner.listings.objects_among(request, 100, 4).await.expect("a page");
            pages += 1;
            empty += usize::from(page.entries.is_empty());
            found.extend(page.entries.into_iter().map(|entry| match entry {
                ListEntry::Object { key, .. } => key.as_str().to_owned(),
                ListEntry::Prefix(prefix) => prefix,
            }));
            let Some(next) = page.next else { break };
            assert!(after.as_ref().is_none_or(|after| *after < next), "{after:?}, then {next}");
            after = Some(next);
        }
        assert_eq!(found, wanted);
        assert!(empty > 0 && pages > 2, "{empty} of {pages} pages were empty");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_common_prefix_that_one_set_shows_is_not_looked_for_among_the_tombstones_of_another() {
    const TOMBSTONES: usize = 60;
    let directories = Directories::new(16);
    let node = directories.start().await;
    node.create_bucket().await;
    let cluster = &node.objects().inner.under.cluster;
    assert_eq!(cluster.sets().len(), 2);
    let live_set = cluster.set_of(&node.register("p/a").await);
    let mut tombstones = Vec::new();
    for n in 0.. {
        let register = node.register(&format!("p/k{n:03}")).await;
        if !Arc::ptr_eq(&cluster.set_of(&register), &live_set) {
            tombstones.push(register);
        }
        if tombstones.len() == TOMBSTONES {
            break;
        }
    }
    for register in &tombstones {
        node.put(register.key.as_str(), &body(1, 10)).await;
        let name = ObjectName { bucket: key_of("bucket").into(), key: register.key.clone() };
        node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
    }
    for register in &tombstones {
        node.commit_everywhere(register).await;
    }
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let listings = &gateway.objects().inner.listings;
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    says(&script.lists, {
        let calls = Arc::clone(&calls);
        move |_, ()| {
            calls.fetch_add(1, Ordering::Relaxed);
            Fate::Through
        }
    });
    let request = |after| ListRequest {
        bucket: key_of("bucket").into(),
        prefix: String::new(),
        delimiter: Some("/".to_owned()),
        after,
        max_keys: 10,
    };
    // The witness is before or behind the tombstones; in the end its register alone has it.
    let mut behind = String::from("p/z");
    while !Arc::ptr_eq(&cluster.set_of(&node.register(&behind).await), &live_set) {
        behind.push('z');
    }
    for (witness, told) in [("p/a", true), (&*behind, true), ("p/a", false)] {
        let register = node.register(witness).await;
        node.put(witness, &body(1, 10)).await;
        if told {
            node.commit_everywhere(&register).await;
        }
        calls.store(0, Ordering::Relaxed);
        let page = listings.objects_among(request(None), 100, 8).await.expect("a page");
        assert!(matches!(&page.entries[..], [ListEntry::Prefix(prefix)] if prefix == "p/"), "{witness}");
        let (calls_count, voters) = (calls.load(Ordering::Relaxed), live_set.quorums().prepare());
        assert!(calls_count <= 4 * voters, "{calls_count} calls of {voters} voters in each set");
        if let Some(next) = page.next {
            let page = listings.objects_among(request(Some(next)), 100, 8).await.expect("a page");
            assert!(page.entries.is_empty() && page.next.is_none(), "nothing is behind the prefix");
        }
        let name = ObjectName { bucket: key_of("bucket").into(), key: key_of(witness) };
        node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
        node.commit_everywhere(&register).await;
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_that_are_busy_are_asked_again_and_never_taken_for_volumes_that_cannot_be_reached() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put_everywhere("a", &body(1, 10)).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let left = std::sync::atomic::AtomicUsize::new(20);
    says(&script.lists, move |_, ()| {
        let busy = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if busy.is_ok() { Fate::Instead(Err(Error::Busy)) } else { Fate::Through }
    });
    let request = || ListRequest {
        bucket: key_of("bucket").into(),
        prefix: String::new(),
        delimiter: None,
        after: None,
        max_keys: 10,
    };
    let page = gateway.objects().list(request()).await.expect("they answer in the end");
    assert_eq!(page.entries.len(), 1);
    says(&script.lists, |_, ()| Fate::Instead(Err(Error::Busy)));
    let id = gateway.objects().bucket(&key_of("bucket")).await.expect("it is there").id;
    let query = super::query("", None, None, shows_object, 1);
    let query = Query { bucket: id, timeout: Duration::from_millis(100), ..query };
    let refused =
        gateway.objects().inner.listings.names(query, object_entry).await.map(|walk| walk.entries.len());
    assert_eq!(refused, Err(Failure::ScansBusy));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_sets_are_asked_before_any_has_answered() {
    let directories = Directories::new(16);
    let node = directories.start().await;
    node.create_bucket().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let inner = &gateway.objects().inner.under;
    assert_eq!(inner.cluster.sets().len(), 2);
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    says(&script.lists, {
        let asked = Arc::clone(&asked);
        move |volume, ()| {
            asked.lock().push(volume);
            Fate::Silence
        }
    });
    let id = gateway.objects().bucket(&key_of("bucket")).await.expect("it is there").id;
    let query = Query { bucket: id, ..super::query("", None, None, shows_object, 1) };
    let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
    assert!(merge.next().now_or_never().is_none(), "none answers");
    for set in inner.cluster.sets() {
        let of_set = set.routes.iter().filter(|route| asked.lock().contains(&route.volume)).count();
        assert_eq!(of_set, set.quorums().prepare());
    }
    node.close().await;
}

#[test]
fn a_marker_that_is_a_common_prefix_skips_all_below_it() {
    assert_eq!(&behind("", Some("/"), "a/".to_owned())[..], b"a/\xff");
    assert_eq!(&behind("", Some("/"), "a/b".to_owned())[..], b"a/b\0");
    assert_eq!(&behind("a/", Some("/"), "a/".to_owned())[..], b"a/\0");
    assert_eq!(&behind("a/", Some("/"), "a/b/".to_owned())[..], b"a/b/\xff");
    assert_eq!(&behind("", None, "a/".to_owned())[..], b"a/\0");
    assert_eq!(&behind("", Some("/"), "a/b/".to_owned())[..], b"a/b/\0");
}

/// The row of a deleted bucket stays: a page passes few of them, and the pages together list all buckets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_buckets_end_after_enough_deleted_ones_and_lose_none() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for n in 0..30 {
        let name = key_of(&format!("b{n:02}"));
        node.objects().create_bucket(name.clone(), NewBucket::default()).await.expect("made");
        if n % 10 != 7 {
            node.objects().delete_bucket(name, false).await.expect("it is empty");
        }
    }
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = node.objects().inner.listings.buckets_among("b", after.as_deref(), 10, 4).await;
        let page = page.expect("a page");
        found.extend(page.buckets.into_iter().map(|bucket| bucket.name.as_str().to_owned()));
        pages += 1;
        let Some(next) = page.next else { break };
        assert!(after.as_ref().is_none_or(|after| *after < next), "{after:?}, then {next}");
        after = Some(next);
    }
    assert_eq!(found, ["b07", "b17", "b27"]);
    assert!(pages > 2, "{pages} pages of 4 deleted buckets for 27 of them");
    node.close().await;
}
