//! Any bytes decode to a value or are refused; a value has one stored form in the version it is written in.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::record::{ObjectTags, Value, VersionKind};

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(value) = Value::decode(bytes.clone()) {
        // Versions 1 to 3 are written as later ones, and conditional changes in version 6.
        let is_rewritten = match bytes.first() {
            Some(4 | 5) => !value.changes.conditional.is_empty(),
            version => version < Some(&4),
        };
        assert!(is_rewritten || value.encode() == bytes);
        assert_eq!(Value::decode(value.encode()), Ok(value.clone()));
        for version in value.state.object().map_or(&[][..], |object| &object.versions) {
            let VersionKind::Content(content) = &version.kind else { continue };
            let stored = ObjectTags::of(&content.entries);
            if let Ok(tags) = stored.decode() {
                assert_eq!(ObjectTags::encode(&tags), Ok(stored));
            }
        }
        for named in value.data_refs() {
            let layout = named.layout().expect("a decoded reference can be laid out");
            assert!(layout.shard_bytes() > 0);
        }
    }
});
