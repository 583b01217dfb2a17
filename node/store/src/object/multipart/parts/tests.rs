//! The parts of uploads on whole nodes: closed while they are put, completed before they are looked at.

use super::*;
use crate::object::Objects;
use crate::object::multipart::close::close_late_part;
use bytes::Bytes;

use crate::object::request::{
    CompleteUpload, CreateUpload, ListedPart, ObjectName, PartName, WriteConditions,
};
use crate::object::{Error, Upload, UploadBody};
use crate::upkeep::tests::{Directories, body, key_of, upload};
use sherd_core::record::{Attributes, ObjectTags};

fn object_name() -> ObjectName {
    ObjectName { bucket: key_of("bucket").into(), key: key_of("a") }
}

async fn create_upload(objects: &Objects) -> UploadId {
    let create = CreateUpload {
        name: object_name(),
        attributes: Attributes::default(),
        tags: ObjectTags::default(),
        checksum: None,
    };
    objects.create_upload(create).await.expect("an upload")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_not_taken_from_a_life_that_is_over() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    let name = object_name();
    let id = create_upload(objects).await;
    let part = PartName { name: name.clone(), upload: id, number: 3 };
    objects.put_part(part, upload(&body(1, 1_000))).await.expect("a part");
    let registers = &objects.inner.uploads.registers;
    let route = registers.under.route(&name).await.expect("the bucket is there");
    assert_eq!(registers.part_numbers(&route, id, None).await.expect("all vote"), [3]);

    let set = &route.set;
    node.outlive(set.routes[0].volume).await;
    for away in [2, 3] {
        node.take_away(set.routes[away].volume).await;
    }
    let numbers = registers.part_numbers(&route, id, None).await;
    assert!(matches!(numbers, Err(Error::Unavailable(UnavailableReason::Quorum))), "one volume votes");
    node.close().await;
}

/// The upload is open when the part begins, and closed when its bytes are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_whose_upload_is_closed_before_it_is_there_goes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    let name = object_name();
    let id = create_upload(objects).await;
    let bytes = body(1, 300_000);
    let closes = {
        let (objects, name) = (objects.clone(), name.clone());
        move |piece: usize| {
            let (objects, name) = (objects.clone(), name.clone());
            async move {
                if piece == 2 {
                    objects.abort_upload(name, id).await.expect("the upload is given up");
                }
            }
        }
    };
    let whole = upload(&bytes);
    let body = whole
        .body
        .enumerate()
        .then(move |(piece, bytes)| {
            let closes = closes(piece);
            async move {
                closes.await;
                bytes
            }
        })
        .boxed();
    let part = PartName { name: name.clone(), upload: id, number: 3 };
    let late = objects.put_part(part, Upload { body: UploadBody::Stored(body), ..whole }).await;
    assert!(late.is_ok(), "its upload was open when it began: {late:?}");
    let under = &objects.inner.under;
    let route = part_route(&under.route(&name).await.expect("the bucket is there"), id, 3);
    let found = under.registers.read_at(&route).await.expect("a quorum answers");
    assert!(found.is_none_or(|found| part_in(&found.value).is_none()));
    node.close().await;
}

/// The request that put the part has no answer yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_was_completed_before_it_was_looked_at_is_no_late_one() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    let name = object_name();
    for bytes in [body(1, 300_000), Bytes::new()] {
        let id = create_upload(objects).await;
        let part = PartName { name: name.clone(), upload: id, number: 1 };
        let written = objects.put_part(part, upload(&bytes)).await.expect("a part");
        let registers = &objects.inner.uploads.registers;
        let route = registers.under.route(&name).await.expect("the bucket is there");
        let register = part_route(&route, id, 1);
        let found = registers.under.registers.read_at(&register).await.expect("a quorum answers");
        assert!(found.as_ref().and_then(|found| part_in(&found.value)).is_some(), "the part");
        let parts = vec![ListedPart { number: 1, etag: written.etag, checksum: None }];
        let conditions = WriteConditions::default();
        let complete = CompleteUpload {
            name: name.clone(),
            upload: id,
            parts,
            checksum: None,
            checksum_kind: None,
            size: None,
            conditions,
        };
        objects.complete_upload(complete).await.expect("completed");
        let part = PartKey { upload: id, number: 1 };
        let closed = close_late_part(registers, name.bucket.name(), &route, part).await;
        assert!(closed.is_ok(), "{closed:?}");
        assert_eq!(node.get("a").await, Some(bytes));
        // Nor when what it went into is gone.
        node.put("a", &body(2, 1_000)).await;
        let closed = close_late_part(registers, name.bucket.name(), &route, part).await;
        assert!(closed.is_ok(), "{closed:?}");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_lies_where_its_object_does() {
    let directories = Directories::new(16);
    let node = directories.start().await;
    node.create_bucket().await;
    let cluster = &node.objects().inner.under.cluster;
    assert_eq!(cluster.sets().len(), 2);
    for n in 0..20 {
        let object = node.route(&node.register(&format!("key {n}")).await);
        let part = part_route(&object, UploadId([n; 16]), 7);
        let asked = cluster.route(part.key().clone());
        assert!(Arc::ptr_eq(&part.set, &asked.set) && Arc::ptr_eq(&part.set, &object.set));
        assert_eq!(part.target, asked.target);
        assert_eq!(part.target, cluster.target(part.key().clone()));
    }
    node.close().await;
}
