//! Any bytes decode to a value or are refused; a value has one stored form.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::record::{ObjectTags, Value, VersionKind};

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(value) = Value::decode(bytes.clone()) {
        assert_eq!(value.encode(), bytes);
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
