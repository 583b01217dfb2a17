//! Bodies whose length shows only at their end, on whole nodes: in the row, packed, and in files.

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use sherd_core::md5::Md5;
use sherd_core::record::{Attributes, ObjectTags};

use crate::object::{
    BodyError, Error, ObjectName, ObjectRead, Objects, PutRequest, ReadConditions, ReadRequest, Result, Span,
    Upload, UploadBody, WriteConditions, WriteOutcome,
};
use crate::upkeep::tests::{Directories, body, key_of, upload};

fn name() -> ObjectName {
    ObjectName { bucket: key_of("bucket").into(), key: key_of("a") }
}

async fn put(objects: &Objects, expected: u64, upload: Upload) -> Result<WriteOutcome> {
    let upload = Upload { size: expected, ..upload };
    let (attributes, conditions) = (Attributes::default(), WriteConditions::default());
    let tags = ObjectTags::default();
    objects.put_expecting(PutRequest { name: name(), attributes, tags, conditions, upload }).await
}

async fn get(objects: &Objects) -> (u64, Bytes) {
    let read = ReadRequest { name: name(), span: Span::Whole, conditions: ReadConditions::default() };
    let ObjectRead { info, mut body, .. } = objects.open(read).await.expect("the object");
    let mut bytes = BytesMut::new();
    while let Some(next) = body.next().await {
        bytes.extend_from_slice(&next.expect("every byte"));
    }
    (info.size, bytes.freeze())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_another_length_than_expected_is_stored_as_one_of_its_own() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    for (seed, size) in [0, 5, 10_000, 30_000, 300_000, 9_000_000].into_iter().enumerate() {
        let bytes = body(seed as u64, size);
        for missing in [0, 1, 60, 100_000, -1, -2, -64] {
            let Some(expected) = (size as u64).checked_add_signed(missing) else { continue };
            let written = put(objects, expected, upload(&bytes)).await.expect("stored");
            assert_eq!(written.etag, hex::encode(Md5::digest(&bytes)), "{size} of {expected}");
            let (announced, read) = get(objects).await;
            assert_eq!((announced, read == bytes), (size as u64, true), "{size} of {expected}");
        }
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_much_longer_than_expected_or_breaks_is_not_stored() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    let longer = put(objects, 299_935, upload(&body(1, 300_000))).await;
    assert!(matches!(longer, Err(Error::Body(BodyError::Length { expected: 299_935, .. }))), "{longer:?}");
    let whole = upload(&body(2, 300_000));
    let UploadBody::Client(bytes) = whole.body else { panic!("a client's") };
    let broken = futures::stream::once(async { Err("the connection broke".into()) });
    let broken = Upload { body: UploadBody::Client(bytes.take(3).chain(broken).boxed()), ..whole };
    let broken = put(objects, 300_000, broken).await;
    assert!(matches!(broken, Err(Error::Body(BodyError::Stream(_)))), "{broken:?}");
    let read = ReadRequest { name: name(), span: Span::Whole, conditions: ReadConditions::default() };
    assert!(matches!(objects.open(read).await, Err(Error::Missing(_))), "nothing is there");
    node.close().await;
}
