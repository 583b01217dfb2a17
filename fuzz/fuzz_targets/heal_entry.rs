//! Any bytes decode to an MRF entry or are refused; an entry has one stored form.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::heal::HealEntry;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(entry) = HealEntry::decode(bytes.clone()) {
        assert_eq!(entry.encode(), bytes);
    }
});
