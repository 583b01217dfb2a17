//! Any bytes decode to an MRF entry or are refused; an entry has one stored form in the versions it is
//! written in.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::heal::HealEntry;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(entry) = HealEntry::decode(bytes.clone()) {
        // Version 1 is read and written as 3.
        assert!(bytes.first() == Some(&1) || entry.encode() == bytes);
        let again = HealEntry::decode(entry.encode()).expect("as encoded");
        assert_eq!(again.id(), entry.id());
        assert_eq!(again, entry);
    }
});
