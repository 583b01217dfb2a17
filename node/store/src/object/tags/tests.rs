//! Tags that are named as those that decided: others are neither replaced nor read nor copied.

use super::*;
use crate::object::{CopyAttributes, CopyRequest, ReadConditions, ReadRequest, Span, WriteConditions};
use crate::upkeep::tests::{Directories, body, key_of};

fn name(key: &str) -> ObjectName {
    ObjectName { bucket: key_of("bucket").into(), key: key_of(key) }
}

fn tags(value: &str) -> ObjectTags {
    let tag = Tag { key: "class".to_owned(), value: value.to_owned() };
    ObjectTags::encode(&[tag]).expect("within limits")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_tags_decided_is_neither_changed_nor_read_nor_copied() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("source", &body(5, 1_000)).await;
    let objects = node.objects();
    let (source, untagged) = (name("source"), ObjectTags::default());
    objects.set_tags(&source, tags("open"), Some(untagged.clone())).await.expect("it had none");
    for replaced in [&untagged, &tags("secret")] {
        let refused = objects.set_tags(&source, tags("mine"), Some(replaced.clone())).await;
        assert!(matches!(refused, Err(Error::TagsChanged)), "{refused:?}");
        let set = objects.set_tags(&source, tags("open"), Some(replaced.clone())).await;
        set.expect("it has those that it should get");
    }
    for (decided_by, is_read) in [(Some(tags("open")), true), (Some(untagged), false), (None, true)] {
        let conditions = ReadConditions { tags: decided_by, ..ReadConditions::default() };
        let read = ReadRequest { name: source.clone(), span: Span::Whole, conditions: conditions.clone() };
        let copy = CopyRequest {
            source: source.clone(),
            source_conditions: conditions,
            target: name("copy"),
            conditions: WriteConditions::default(),
            attributes: CopyAttributes::Kept { own: "own", value: None },
            tags: None,
            checksum: None,
        };
        let errors = [objects.get(read).await.err(), objects.copy(copy).await.err()];
        for error in errors {
            assert_eq!(error.is_none(), is_read, "{error:?}");
            assert!(matches!(error, None | Some(Error::TagsChanged)), "{error:?}");
        }
    }
    node.close().await;
}
