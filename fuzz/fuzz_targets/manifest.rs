//! Any bytes decode to a manifest page or are refused; a page has one stored form in the version it is
//! written in.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::record::{decode_manifest, encode_manifest};

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(parts) = decode_manifest(bytes.clone()) {
        // Version 1 is read and written as 2.
        assert!(bytes.first() != Some(&2) || encode_manifest(&parts) == bytes);
        assert_eq!(decode_manifest(encode_manifest(&parts)), Ok(parts));
    }
});
