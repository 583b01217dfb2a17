//! A bucket's configuration through one node: stored, replaced, removed, read back by requests.

use sherd_core::config::ConfigKind;
use sherd_core::config::cors::{Cors, CorsRule};
use sherd_core::record::Entries;

use super::*;
use crate::object::error::{Error, MissingResource};
use crate::object::{BucketInfo, Objects};
use crate::upkeep::tests::{Directories, key_of};

fn cors(origin: &str) -> Cors {
    let allowed_origins = vec![origin.to_owned()];
    Cors { rules: vec![CorsRule { allowed_origins, ..CorsRule::default() }] }
}

/// The origins of a bucket's rules: as its register has them, and as a request sees them.
async fn origins(objects: &Objects) -> [Option<String>; 2] {
    let stored = objects.config(&key_of("bucket")).await.expect("readable");
    let viewed = objects.bucket(&key_of("bucket")).await.expect("there").config;
    [stored, viewed].map(|config| {
        let cors = config.cors().expect("decodes").cloned();
        cors.map(|cors| cors.rules[0].allowed_origins[0].clone())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_is_set_replaced_and_removed_and_the_next_request_sees_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (objects, bucket) = (node.objects(), || key_of("bucket"));
    assert_eq!(origins(objects).await, [None, None]);
    for origin in ["https://a.example", "https://b.example"] {
        objects.set_config(bucket(), cors(origin)).await.expect("set");
        assert_eq!(origins(objects).await, [Some(origin.to_owned()), Some(origin.to_owned())]);
    }
    for _ in 0..2 {
        objects.remove_config(bucket(), ConfigKind::Cors).await.expect("removed");
        assert_eq!(origins(objects).await, [None, None]);
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_leaves_the_rest_of_the_record_as_it_is() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (objects, bucket) = (node.objects(), || key_of("bucket"));
    let tags = vec![sherd_core::record::Tag { key: "team".to_owned(), value: "blue".to_owned() }];
    objects.create_bucket(bucket(), "eu-west-1".to_owned(), tags.clone()).await.expect("created");
    // As a later release leaves it.
    let route = objects.inner.buckets.route(bucket());
    let unknown = move |state: Option<&State>| {
        let held = active_in(state)?;
        let mut entries = held.entries.clone();
        entries.set(0xff00, Bytes::from_static(b"a later kind"));
        Ok(proposal(Bucket { entries, ..held.clone() }))
    };
    objects.inner.buckets.change(&route, unknown).await.expect("changed");
    objects.set_config(bucket(), cors("https://a.example")).await.expect("set");
    objects.remove_config(bucket(), ConfigKind::Cors).await.expect("removed");
    let mut entries = Entries::default();
    entries.set(0xff00, Bytes::from_static(b"a later kind"));
    assert_eq!(objects.config(&bucket()).await.expect("readable").entries(), &entries);
    let BucketInfo { location, tags: kept, .. } = objects.head_bucket(bucket()).await.expect("there");
    assert_eq!((location.as_str(), kept), ("eu-west-1", tags));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_has_no_configuration() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (objects, bucket) = (node.objects(), || key_of("bucket"));
    let is_missing = |error| matches!(error, Error::Missing(MissingResource::Bucket));
    assert!(objects.config(&bucket()).await.is_err_and(is_missing));
    assert!(objects.set_config(bucket(), cors("*")).await.is_err_and(is_missing));
    assert!(objects.remove_config(bucket(), ConfigKind::Cors).await.is_err_and(is_missing));
    // Another bucket of the name begins without one.
    node.create_bucket().await;
    objects.set_config(bucket(), cors("*")).await.expect("set");
    objects.delete_bucket(bucket()).await.expect("empty");
    node.create_bucket().await;
    assert_eq!(origins(objects).await, [None, None]);
    node.close().await;
}
