//! Uploads that a test begins, completes and looks at.

use sherd_core::id::{PartKey, RegisterKey, UploadId};
use sherd_core::record::{Attributes, ObjectTags, State};

use super::{Node, body, key_of};
use crate::object::{CompleteUpload, CreateUpload, ListedPart, ObjectName, PartName, WriteConditions};
use crate::register::{Proposal, Writer};

/// An upload that is begun under `a`.
pub async fn begun_upload(node: &Node) -> (ObjectName, UploadId) {
    let name = ObjectName { bucket: key_of("bucket").into(), key: key_of("a") };
    let create = CreateUpload {
        name: name.clone(),
        attributes: Attributes::default(),
        tags: ObjectTags::default(),
        checksum: None,
    };
    let upload = node.objects.create_upload(create).await.expect("an upload is begun");
    (name, upload)
}

/// A part of an upload, and the Complete that makes it an object.
pub async fn uploaded(node: &Node) -> (RegisterKey, CompleteUpload) {
    let (name, upload) = begun_upload(node).await;
    let part = PartName { name: name.clone(), upload, number: 1 };
    let stored = node.objects.put_part(part, super::upload(&body(1, 100_000))).await;
    let etag = stored.expect("a part is stored").etag;
    let parts = vec![ListedPart { number: 1, etag, checksum: None }];
    let conditions = WriteConditions::default();
    let complete =
        CompleteUpload { name, upload, parts, checksum: None, checksum_kind: None, size: None, conditions };
    let part = PartKey { upload, number: 1 };
    (RegisterKey { part: Some(part), ..node.register("a").await }, complete)
}

/// Waits until a register holds a tombstone.
pub async fn until_closed(node: &Node, key: &RegisterKey) {
    let closed = async {
        loop {
            let found = node.workers.deps.registers.read(key).await.expect("readable").expect("a row");
            if found.value.state == State::Tombstone {
                return;
            }
            super::between_looks().await;
        }
    };
    tokio::time::timeout(super::DEADLINE, closed).await.expect("the part is closed in time");
}

/// Puts a part's register back as it was: as a Complete leaves it whose node was killed.
pub async fn put_back(node: &Node, part: &RegisterKey, stored: State) {
    let State::Part(stored) = stored else { panic!("not a part: {stored:?}") };
    let carried = stored.part.data.iter().map(|data| data.id).collect::<Vec<_>>();
    let again = move |_: Option<&State>| {
        let state = State::Part(stored.clone());
        Ok::<_, ()>(Proposal { carried: carried.clone(), ..Proposal::of(state) })
    };
    let ticket = node.workers.deps.registers.begin(part);
    node.workers.deps.registers.change(ticket, Writer::new(again)).await.expect("changed");
}
