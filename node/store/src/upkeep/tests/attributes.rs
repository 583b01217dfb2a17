//! The attributes of an upload stay while it is open or may open, and go after that.

use sherd_core::id::{PartKey, RegisterKey, UploadId};
use sherd_core::message::Error;
use sherd_core::record::{Attributes, ObjectTags, State, Value};

use super::sweeps::{HOUR_MS, scrub_all};
use super::uploads::until_closed;
use super::{DEADLINE, Directories, Node, body, key_of};
use crate::object::{self, CreateUpload, ObjectName};
use crate::peer::scripted::{Fate, says};
use crate::register::{Proposal, RegisterTimeouts, Writer};

fn begun_with_attributes() -> CreateUpload {
    let attributes = Attributes { pairs: vec![("x-amz-meta-a".to_owned(), "v".to_owned())] };
    let name = ObjectName { bucket: key_of("bucket").into(), key: key_of("a") };
    CreateUpload { name, attributes, tags: ObjectTags::default(), checksum: None }
}

/// The register of an upload's attributes.
async fn attributes_key(node: &Node, upload: UploadId) -> RegisterKey {
    let part = PartKey { upload, number: PartKey::ATTRIBUTES };
    RegisterKey { part: Some(part), ..node.register("a").await }
}

async fn state_of(node: &Node, key: &RegisterKey) -> State {
    node.workers.deps.registers.read(key).await.expect("readable").expect("there").value.state
}

/// Attributes precede the opening of their upload, and an upload may stay open for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_go_a_day_after_an_upload_that_is_not_open() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let create = begun_with_attributes();
    let (name, state) = (create.name.clone(), State::UploadAttributes(create.attributes.clone()));
    let upload = node.objects.create_upload(create).await.expect("an upload is begun");
    let open = attributes_key(&node, upload).await;
    let never = attributes_key(&node, UploadId([1; 16])).await;
    let stored = state.clone();
    let writer = Writer::new(move |_: Option<&State>| Ok::<_, ()>(Proposal::of(stored.clone())));
    node.workers
        .deps
        .registers
        .change(node.workers.deps.registers.begin(&never), writer)
        .await
        .expect("stored");
    let close = async || {
        for key in [&open, &never] {
            node.workers.scrubber.parts.close_part(key).await;
            node.workers.scrubber.parts.close_old_part(key).await;
        }
    };
    node.clock.advance(20 * HOUR_MS);
    close().await;
    assert_eq!((state_of(&node, &open).await, state_of(&node, &never).await), (state.clone(), state.clone()));
    node.clock.advance(10 * HOUR_MS);
    node.put("time passes", &body(3, 1_000)).await;
    // A volume that is slow to answer puts it off to a later pass.
    let closed = async {
        while state_of(&node, &never).await != State::Tombstone {
            scrub_all(&node).await;
        }
    };
    tokio::time::timeout(DEADLINE, closed).await.expect("closed in time");
    assert_eq!(state_of(&node, &open).await, state);
    assert_eq!(node.workers.sweeper.status().parts_count, 1);
    node.objects.abort_upload(name, upload).await.expect("it is open");
    until_closed(&node, &open).await;
    node.close().await;
}

/// One volume has the row that was to open it: who settles the key brings it to the others, or sees to it
/// that it never opens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_whose_outcome_was_unknown_is_settled_before_its_attributes_go() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let operation = std::time::Duration::from_secs(10);
    let impatient = RegisterTimeouts { operation, ..RegisterTimeouts::default() };
    let (gateway, script) = node.scripted_gateway(impatient);
    let one = node.volume_ids()[0];
    says(&script.accepts, move |volume, accept| match Value::decode(accept.value.head) {
        Ok(Value { state: State::Object(_), .. }) if volume == one => {
            Fate::Unheard(Err(Error::Unreachable { reason: "lost".to_owned() }))
        }
        Ok(Value { state: State::Object(_), .. }) => Fate::Instead(Err(Error::Full)),
        Ok(_) | Err(_) => Fate::Through,
    });
    let begun = gateway.objects.create_upload(begun_with_attributes()).await;
    assert!(matches!(begun, Err(object::Error::OutcomeUnknown)), "{begun:?}");
    node.clock.advance(30 * HOUR_MS);
    node.put("time passes", &body(3, 1_000)).await;
    scrub_all(&node).await;
    let found = node.workers.deps.registers.finish(&node.register("a").await).await.expect("readable");
    let open: Vec<_> =
        found.iter().filter_map(|found| found.object()).flat_map(|object| object.uploads.clone()).collect();
    for upload in &open {
        let key = attributes_key(&node, upload.id).await;
        assert!(matches!(state_of(&node, &key).await, State::UploadAttributes(_)));
    }
    assert_eq!(node.workers.sweeper.status().parts_count, u64::from(open.is_empty()));
    gateway.close().await;
}
