//! Documents of buckets' configurations that no entry names: removed when they are old.

use std::collections::BTreeMap;

use sherd_core::config::cors::{Cors, CorsRule};
use sherd_core::config::{ConfigEntry, ConfigKind, Generation};
use sherd_core::id::{BucketId, ChangeId, ProposerId, RegisterKey, Timestamp, VersionId};
use sherd_core::message::RowScan;
use sherd_core::record::{
    Attributes, Body, Checksums, Content, Entries, Object, State, Version, VersionKind,
};

use super::{Directories, Node, key_of};
use crate::object::NewBucket;
use crate::peer::scripted::{Fate, says};
use crate::register::{Proposal, RegisterTimeouts, Writer};

const HOUR_MS: u64 = 3600 * 1000;

/// A document as a crash leaves it, made that long ago.
async fn leave(node: &Node, bucket: BucketId, age_ms: u64) -> RegisterKey {
    let made = Timestamp::from_ms(node.workers.deps.wall_ms() - age_ms);
    let generation = Generation(ChangeId { made, proposer: ProposerId(7) });
    let register = generation.register(bucket, ConfigKind::Cors);
    let content = Content {
        size: 0,
        etag: String::new(),
        attributes: Attributes::default(),
        checksums: Checksums::new(),
        upload: None,
        body: Body::Inline { hash: *blake3::hash(b"").as_bytes() },
        entries: Entries::default(),
    };
    let version = Version { id: VersionId::NULL, modified_ms: 1, kind: VersionKind::Content(content) };
    let object = Object { versions: vec![version], uploads: Vec::new() };
    let writer: Writer<()> = Writer::new(move |_| Ok(Proposal::of(State::Object(object.clone()))));
    node.registers().change(node.registers().begin(&register), writer).await.expect("a healthy node");
    register
}

async fn is_there(node: &Node, register: &RegisterKey) -> bool {
    let found = node.registers().read(register).await.expect("readable");
    found.is_some_and(|found| matches!(found.value.state, State::Object(_)))
}

/// Configures the bucket with rules that lie in a document, and gives both.
async fn set_long(node: &Node) -> (Cors, RegisterKey) {
    let allowed_origins = vec!["https://a.example/".repeat(100)];
    let long = Cors { rules: vec![CorsRule { allowed_origins, ..CorsRule::default() }] };
    node.objects().set_config(key_of("bucket"), long.clone()).await.expect("set");
    let bucket = node.objects().bucket(&key_of("bucket")).await.expect("there");
    let entry = bucket.config.entries().get(1).expect("set").clone();
    let Ok(ConfigEntry::Document { generation, .. }) = ConfigEntry::decode(entry) else {
        panic!("it is too long for an entry")
    };
    (long, generation.register(bucket.id, ConfigKind::Cors))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_no_bucket_names_is_removed_when_no_writer_can_name_it_any_more() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    // As names beside those of documents.
    for name in ["config", "config-a", "config.a", "configa"] {
        node.objects().create_bucket(key_of(name), NewBucket::default()).await.expect("created");
    }
    let (long, named) = set_long(&node).await;
    let bucket = node.objects().bucket(&key_of("bucket")).await.expect("there");
    node.clock.advance(72 * HOUR_MS);
    let old = leave(&node, bucket.id, 49 * HOUR_MS).await;
    let young = leave(&node, bucket.id, 47 * HOUR_MS).await;
    let of_a_deleted_bucket = leave(&node, BucketId([9; 16]), 49 * HOUR_MS).await;
    node.workers.documents.look_for_leftovers().await;
    let mut left = Vec::new();
    for register in [&named, &old, &young, &of_a_deleted_bucket] {
        left.push(is_there(&node, register).await);
    }
    assert_eq!(left, [true, false, true, false]);
    let config = node.another_gateway(0).objects().config(&key_of("bucket")).await.expect("readable");
    assert_eq!(config.cors().expect("decodes").map(|held| &**held), Some(&long));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_stays_whose_bucket_volumes_list_and_cannot_read() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (_, named) = set_long(&node).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    for node in [&node, &gateway] {
        node.clock.advance(72 * HOUR_MS);
    }
    let of_a_deleted_bucket = leave(&node, BucketId([9; 16]), 49 * HOUR_MS).await;
    let cluster = &node.workers.deps.cluster;
    let mut pages = BTreeMap::new();
    for route in &cluster.sets()[0].routes {
        let scan = RowScan::all(cluster.epoch(), None, 100);
        let mut answer = route.peer.rows(route.volume, &scan).await.expect("it serves");
        for row in &mut answer.result.as_mut().expect("readable").rows {
            row.row.value = None;
        }
        pages.insert(route.volume, answer);
    }
    says(&script.rows, move |volume, scan| {
        if scan.want_value { Fate::Instead(Ok(pages[&volume].clone())) } else { Fate::Through }
    });
    gateway.workers.documents.look_for_leftovers().await;
    assert!(is_there(&node, &named).await, "its bucket's register names it");
    assert!(!is_there(&node, &of_a_deleted_bucket).await);
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_stays_whose_bucket_has_an_entry_of_a_later_form() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let id = node.objects().bucket(&key_of("bucket")).await.expect("there").id;
    let later = |state: Option<&State>| {
        let Some(State::Bucket(bucket)) = state else { return Err(()) };
        let mut bucket = bucket.clone();
        bucket.entries.set(0xff00, bytes::Bytes::from_static(b"\x02 and what it names"));
        Ok(Proposal::of(State::Bucket(bucket)))
    };
    let ticket = node.registers().begin(&RegisterKey::bucket(key_of("bucket")));
    node.registers().change(ticket, Writer::new(later)).await.expect("changed");
    node.clock.advance(72 * HOUR_MS);
    let old = leave(&node, id, 49 * HOUR_MS).await;
    node.workers.documents.look_for_leftovers().await;
    assert!(is_there(&node, &old).await, "the later form may name it");
    node.close().await;
}
