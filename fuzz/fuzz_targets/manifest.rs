//! Any bytes decode to a manifest page or are refused; a page has one stored form.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::record::{decode_manifest, encode_manifest};

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(parts) = decode_manifest(bytes.clone()) {
        assert_eq!(encode_manifest(&parts), bytes);
    }
});
