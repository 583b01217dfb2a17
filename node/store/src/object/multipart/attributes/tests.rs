//! The attributes of uploads on whole nodes: carried, tombstoned, and never lost while an upload may be open.

use super::*;
use sherd_core::id::RegisterKey;
use sherd_core::limits;
use sherd_core::message;
use sherd_core::message::RowScan;
use sherd_core::record::Object;

use crate::object::request::{
    CompleteUpload, CreateUpload, ListedPart, ObjectName, PartName, WriteConditions,
};
use crate::object::{Invalid, MissingResource, Objects};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::tests::uploads::until_closed;
use crate::upkeep::tests::{Directories, Node, body, key_of, upload};

fn part_of(object: &RegisterKey, upload: UploadId, number: u16) -> RegisterKey {
    RegisterKey::part(object.bucket, object.key.clone(), PartKey { upload, number })
}

fn object_name() -> ObjectName {
    ObjectName { bucket: key_of("bucket").into(), key: key_of("a") }
}

/// As many as a request may bring of its own, and a header.
fn many() -> Attributes {
    let metadata = ("x-amz-meta-a".to_owned(), "v".repeat(2_000));
    Attributes { pairs: vec![("content-type".to_owned(), "a/b".to_owned()), metadata] }
}

async fn create(objects: &Objects, attributes: Attributes) -> Result<UploadId> {
    objects
        .create_upload(CreateUpload {
            name: object_name(),
            attributes,
            tags: ObjectTags::default(),
            checksum: None,
        })
        .await
}

async fn put_part(objects: &Objects, id: UploadId) -> CompleteUpload {
    let part = PartName { name: object_name(), upload: id, number: 1 };
    let written = objects.put_part(part, upload(&body(1, 1_000))).await.expect("a part");
    CompleteUpload {
        name: object_name(),
        upload: id,
        parts: vec![ListedPart { number: 1, etag: written.etag, checksum: None }],
        checksum: None,
        checksum_kind: None,
        size: None,
        conditions: WriteConditions::default(),
    }
}

async fn row_of(node: &Node) -> Object {
    let found = node.registers().read(&node.register("a").await).await.expect("readable");
    found.expect("there").object().expect("an object").clone()
}

/// Attributes of the object's current version.
async fn carried(node: &Node) -> Attributes {
    row_of(node).await.current().expect("a version").1.attributes.clone()
}

/// The registers of parts that hold anything on some volume.
async fn live_parts(node: &Node) -> Vec<RegisterKey> {
    let cluster = &node.objects().inner.under.cluster;
    let mut live = Vec::new();
    for route in cluster.sets().iter().flat_map(|set| &set.routes) {
        let page = route.peer.rows(route.volume, &RowScan::all(cluster.epoch(), None, 100)).await;
        let rows = page.expect("it answers").result.expect("a page").rows;
        live.extend(rows.into_iter().filter(|row| row.key.part.is_some() && !row.tombstone));
    }
    live.into_iter().map(|row| row.key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_upload_begins_with_its_object_carries() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    for attributes in [many(), Attributes::default()] {
        let id = create(objects, attributes.clone()).await.expect("an upload");
        let is_bare = attributes.pairs.is_empty();
        assert_eq!(row_of(&node).await.uploads[0].attributes.is_some(), is_bare);
        assert_eq!(live_parts(&node).await.is_empty(), is_bare);
        let parts = objects.list_parts(object_name(), id, None, 10).await.expect("it is open");
        assert_eq!((parts.parts.len(), parts.next), (0, None));
        let complete = put_part(objects, id).await;
        let parts = objects.list_parts(object_name(), id, None, 1).await.expect("it is open");
        let numbers: Vec<u16> = parts.parts.iter().map(|part| part.number).collect();
        assert_eq!((numbers, parts.next), (vec![1], None));
        objects.complete_upload(complete.clone()).await.expect("an object");
        assert_eq!(carried(&node).await, attributes);
        objects.complete_upload(complete).await.expect("the same object");
        let key = node.register("a").await;
        if !is_bare {
            until_closed(&node, &part_of(&key, id, PartKey::ATTRIBUTES)).await;
        }
        until_closed(&node, &part_of(&key, id, 1)).await;
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_given_up_leaves_no_attributes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let id = create(node.objects(), many()).await.expect("an upload");
    node.objects().abort_upload(object_name(), id).await.expect("it was open");
    until_closed(&node, &part_of(&node.register("a").await, id, PartKey::ATTRIBUTES)).await;
    node.close().await;
}

/// Stores the row of the key with these uploads.
async fn store(node: &Node, uploads: Vec<OpenUpload>) {
    let object = Object { versions: Vec::new(), uploads };
    let decide = move |_: Option<&State>| Ok::<_, ()>(Proposal::of(State::Object(object.clone())));
    let key = node.register("a").await;
    let ticket = node.registers().begin(&key);
    node.registers().change(ticket, Writer::new(decide)).await.expect("stored");
}

fn open_upload(n: u16, attributes: Option<Attributes>) -> OpenUpload {
    let id = UploadId([n.to_le_bytes(); 8].concat().try_into().expect("16 bytes"));
    OpenUpload { id, initiated_ms: 1, attributes, checksum: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_too_many_leaves_no_attributes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let count = u16::try_from(limits::OPEN_UPLOADS_MAX).expect("a thousand");
    store(&node, (0..count).map(|n| open_upload(n, Some(Attributes::default()))).collect()).await;
    let refused = create(node.objects(), many()).await;
    assert!(matches!(refused, Err(Error::Invalid(Invalid::TooManyUploads))), "{refused:?}");
    // A volume may get a tombstone a little later than the quorum that it was acknowledged by.
    for key in live_parts(&node).await {
        until_closed(&node, &key).await;
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_in_the_row_are_carried_as_before() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let [old, other] = [1, 2].map(|n| open_upload(n, Some(many())));
    store(&node, vec![old.clone(), other.clone()]).await;
    let complete = put_part(node.objects(), old.id).await;
    node.objects().complete_upload(complete).await.expect("an object");
    assert_eq!(carried(&node).await, many());
    node.objects().abort_upload(object_name(), other.id).await.expect("it was open");
    assert_eq!(row_of(&node).await.uploads, []);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_never_stored_without_attributes_that_its_upload_has_lost() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    let id = create(objects, many()).await.expect("an upload");
    let complete = put_part(objects, id).await;
    let key = node.register("a").await;
    let registers = &objects.inner.uploads.registers;
    tombstone(registers, object_name().bucket.name(), &node.route(&key), id).await.expect("tombstoned");
    let refused = objects.complete_upload(complete.clone()).await;
    assert!(matches!(refused, Err(Error::Internal { .. })), "{refused:?}");
    assert!(row_of(&node).await.versions.is_empty());
    objects.abort_upload(object_name(), id).await.expect("it was open");
    let refused = objects.complete_upload(complete).await;
    assert!(matches!(refused, Err(Error::Missing(MissingResource::Upload))), "{refused:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_whose_other_sending_is_faster_is_told_its_success() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let id = create(gateway.objects(), many()).await.expect("an upload");
    let complete = put_part(gateway.objects(), id).await;
    // The gateway has read the key from two volumes; before it asks a third time the upload is closed.
    let (to_reached, reached) = tokio::sync::oneshot::channel();
    let (to_go_on, go_on) = std::sync::mpsc::channel::<()>();
    let (mut reads, mut to_reached) = (0, Some(to_reached));
    says(&script.reads, move |_, _| {
        reads += 1;
        if let Some(to_reached) = to_reached.take_if(|_| reads > 2) {
            let _ = to_reached.send(());
            // The wait ends with its sender, too.
            let _ = tokio::task::block_in_place(|| go_on.recv());
        }
        Fate::Through
    });
    let (slower, sent_again) = (gateway.objects().clone(), complete.clone());
    let slower = tokio::spawn(async move { slower.complete_upload(sent_again).await });
    reached.await.expect("it reads what the upload is made of");
    let made = node.objects().complete_upload(complete).await.expect("an object");
    let key = node.register("a").await;
    for number in [PartKey::ATTRIBUTES, 1] {
        until_closed(&node, &part_of(&key, id, number)).await;
    }
    drop(to_go_on);
    let told = slower.await.expect("no panic").expect("the same object");
    assert_eq!(told.etag, made.etag);
    gateway.close().await;
}

/// Two of four volumes take its row: no prepare misses it, and it is not committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_stay_where_their_upload_may_have_begun() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let operation = std::time::Duration::from_secs(10);
    let impatient = RegisterTimeouts { operation, ..RegisterTimeouts::default() };
    let (gateway, script) = node.scripted_gateway(impatient);
    let taken = node.volume_ids()[..2].to_vec();
    says(&script.accepts, move |volume, accept| match Value::decode(accept.value.head) {
        Ok(Value { state: State::Object(_), .. }) if !taken.contains(&volume) => {
            Fate::Instead(Err(message::Error::Unreachable { reason: "lost".to_owned() }))
        }
        Ok(_) | Err(_) => Fate::Through,
    });
    let begun = create(gateway.objects(), many()).await;
    assert!(matches!(begun, Err(Error::OutcomeUnknown)), "{begun:?}");
    let settled = node.registers().finish(&node.register("a").await).await;
    assert!(settled.is_ok_and(|found| found.is_some()), "the next writer brings it to all");
    let id = row_of(&node).await.uploads[0].id;
    let complete = put_part(node.objects(), id).await;
    node.objects().complete_upload(complete).await.expect("an object");
    assert_eq!(carried(&node).await, many());
    gateway.close().await;
}
