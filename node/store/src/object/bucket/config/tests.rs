//! A bucket's configuration through one node: stored, replaced, removed, read back by requests.

use sherd_core::config::ConfigKind;
use sherd_core::config::cors::{Cors, CorsRule};
use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::record::Entries;

use super::*;
use crate::object::error::{Error, MissingResource};
use crate::object::{BucketInfo, NewBucket, Objects};
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
    let new = NewBucket {
        location: "eu-west-1".to_owned(),
        tags: tags.clone(),
        public_access_block: Some(PublicAccessBlock::ALL),
    };
    let entries = new.entries();
    objects.create_bucket(bucket(), new).await.expect("created");
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
    let mut entries = entries;
    entries.set(0xff00, Bytes::from_static(b"a later kind"));
    let config = objects.config(&bucket()).await.expect("readable");
    assert_eq!(config.entries(), &entries);
    assert_eq!(
        config.public_access_block().expect("decodes").map(|held| **held),
        Some(PublicAccessBlock::ALL)
    );
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
    objects.delete_bucket(bucket(), true).await.expect("empty");
    node.create_bucket().await;
    assert_eq!(origins(objects).await, [None, None]);
    node.close().await;
}

/// Rules of more than an entry holds.
fn long_cors(origin: &str, bytes: usize) -> Cors {
    Cors { rules: vec![CorsRule { id: Some("x".repeat(bytes)), ..cors(origin).rules[0].clone() }] }
}

/// The document that a bucket's rules lie in.
async fn document(objects: &Objects) -> Option<sherd_core::id::RegisterKey> {
    let bucket = objects.inner.under.stored(&key_of("bucket")).await.expect("there");
    let generation = generation_of(bucket.entries.get(ConfigKind::Cors.number()))?;
    Some(generation.register(bucket.id, ConfigKind::Cors))
}

async fn is_there(objects: &Objects, document: sherd_core::id::RegisterKey) -> bool {
    objects.inner.under.documents.read(document).await.expect("readable").is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_configuration_lies_in_a_document_that_goes_when_it_is_replaced() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (objects, bucket, other) = (node.objects(), || key_of("bucket"), node.another_gateway(0));
    // In rows, in packed shards, and at the limit.
    let longest = CONFIG_BYTES_MAX - long_cors("https://3.example", 0).encode().len();
    let mut before = None;
    for (round, bytes) in [2 << 10, 20 << 10, 60 << 10, longest].into_iter().enumerate() {
        let origin = format!("https://{round}.example");
        objects.set_config(bucket(), long_cors(&origin, bytes)).await.expect("set");
        for gateway in [objects, other.objects()] {
            gateway.forget_bucket(&bucket());
            assert_eq!(origins(gateway).await, [Some(origin.clone()), Some(origin.clone())]);
        }
        let own = document(objects).await.expect("it lies in one");
        if let Some(before) = before.replace(own) {
            assert!(!is_there(objects, before).await, "the one before {round} is removed");
        }
    }
    let refused = objects.set_config(bucket(), long_cors("https://3.example", longest + 1)).await;
    assert!(matches!(refused, Err(Error::Invalid(Invalid::TooLarge { .. }))), "{refused:?}");
    assert_eq!(document(objects).await, before);
    objects.set_config(bucket(), cors("https://short.example")).await.expect("set");
    assert!(!is_there(objects, before.expect("set")).await);
    objects.set_config(bucket(), long_cors("https://a.example", 2 << 10)).await.expect("set");
    let last = document(objects).await.expect("it lies in one");
    let listed = objects.list_buckets("", None, 100).await.expect("listed").buckets;
    assert_eq!(listed.len(), 1, "a document is no bucket");
    objects.delete_bucket(bucket(), true).await.expect("empty");
    assert!(!is_there(objects, last).await, "it goes with its bucket");
    other.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_of_one_kind_through_two_nodes_leave_the_documents_of_the_last_alone() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (bucket, other) = (|| key_of("bucket"), node.another_gateway(0));
    for round in 0..20 {
        let origin = |writer: &str| format!("https://{writer}-{round}.example");
        let writers = [(node.objects(), "a"), (other.objects(), "b")];
        let changes = writers
            .map(|(objects, writer)| objects.set_config(bucket(), long_cors(&origin(writer), 2 << 10)));
        let outcomes = futures::future::join_all(changes).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        // Readable through both, and the same.
        let [stored, _] = origins(node.objects()).await;
        other.objects().forget_bucket(&bucket());
        assert_eq!(origins(other.objects()).await, [stored.clone(), stored.clone()]);
        assert!(["a", "b"].map(|writer| Some(origin(writer))).contains(&stored), "{stored:?}");
    }
    other.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_document_that_is_gone_is_neither_an_old_nor_an_empty_configuration() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (objects, bucket) = (node.objects(), || key_of("bucket"));
    objects.set_config(bucket(), long_cors("https://a.example", 2 << 10)).await.expect("set");
    assert!(origins(objects).await[0].is_some());
    objects.set_config(bucket(), long_cors("https://b.example", 2 << 10)).await.expect("set");
    let stored = objects.inner.under.stored(&bucket()).await.expect("there");
    let entry = stored.entries.get(ConfigKind::Cors.number());
    super::remove_named(&objects.inner.under.documents, stored.id, ConfigKind::Cors, entry).await;
    let is_unavailable =
        |error| matches!(error, Error::Unavailable(crate::object::error::UnavailableReason::Quorum));
    assert!(objects.bucket(&bucket()).await.is_err_and(is_unavailable));
    assert!(objects.config(&bucket()).await.is_err_and(is_unavailable));
    // An unreadable document can be replaced.
    objects.set_config(bucket(), cors("https://c.example")).await.expect("set");
    assert_eq!(origins(objects).await[1].as_deref(), Some("https://c.example"));
    node.close().await;
}

#[test]
fn an_entry_is_not_proposed_long_after_its_document_was_written_nor_for_another_bucket() {
    let id = BucketId([1; 16]);
    let generation = |ms| {
        let made = sherd_core::id::Timestamp::from_ms(ms);
        Generation(ChangeId { made, proposer: sherd_core::id::ProposerId(1) })
    };
    let bucket = |id, named: Option<Generation>| {
        let mut entries = Entries::default();
        if let Some(generation) = named {
            entries.set(1, ConfigEntry::Document { generation, length: 5 }.encode());
        }
        let (location, tags) = (String::new(), Vec::new());
        Bucket { id, created_ms: 0, location, phase: BucketPhase::Active, tags, entries }
    };
    let change = |age: Duration| EntryChange {
        bucket: id,
        kind: ConfigKind::Cors,
        before: Some(generation(1)),
        entry: None,
        written: Instant::now().checked_sub(age).map(|began| WrittenDocument {
            bucket: id,
            generation: generation(2),
            began,
        }),
    };
    let fresh = change(Duration::ZERO);
    assert!(fresh.judge(&bucket(id, Some(generation(1)))).is_ok());
    for other in
        [bucket(id, Some(generation(3))), bucket(id, None), bucket(BucketId([2; 16]), Some(generation(1)))]
    {
        assert!(matches!(fresh.judge(&other), Err(EntryRefusal::Conflict)));
    }
    let late = change(Duration::from_millis(CONFIG_WRITE_MS_MAX));
    let refused = late.judge(&bucket(id, Some(generation(1))));
    assert!(late.written.is_none() || matches!(refused, Err(EntryRefusal::Refused(Error::OutcomeUnknown))));
}
