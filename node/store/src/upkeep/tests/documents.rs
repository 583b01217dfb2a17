//! Documents of buckets' configurations that no entry names: removed when they are old.

use sherd_core::config::cors::{Cors, CorsRule};
use sherd_core::config::{ConfigEntry, ConfigKind, Generation};
use sherd_core::id::{BucketId, ChangeId, ProposerId, RegisterKey, Timestamp, VersionId};
use sherd_core::record::{
    Attributes, Body, Checksums, Content, Entries, Object, State, Version, VersionKind,
};

use super::{Directories, Node, key_of};
use crate::register::{Proposal, Writer};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_no_bucket_names_is_removed_when_no_writer_can_name_it_any_more() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    // As names beside those of documents.
    for name in ["config", "config-a", "config.a", "configa"] {
        node.objects().create_bucket(key_of(name), String::new(), Vec::new()).await.expect("created");
    }
    let allowed_origins = vec!["https://a.example/".repeat(100)];
    let long = Cors { rules: vec![CorsRule { allowed_origins, ..CorsRule::default() }] };
    node.objects().set_config(key_of("bucket"), long.clone()).await.expect("set");
    let bucket = node.objects().bucket(&key_of("bucket")).await.expect("there");
    let entry = bucket.config.entries().get(1).expect("set").clone();
    let Ok(ConfigEntry::Document { generation, .. }) = ConfigEntry::decode(entry) else {
        panic!("it is too long for an entry")
    };
    let named = generation.register(bucket.id, ConfigKind::Cors);
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
