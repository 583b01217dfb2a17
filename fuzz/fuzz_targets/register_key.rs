//! Any bytes begin with a register key or are refused; a key has one stored form.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_core::codec::{Reader, Writer};
use sherd_core::placement;
use sherd_core::record::{put_register_key, take_register_key};
use sherd_core::topology::Topology;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(Bytes::copy_from_slice(data));
    if let Ok(key) = take_register_key(&mut reader) {
        let mut writer = Writer::new();
        put_register_key(&mut writer, &key);
        let stored = writer.finish();
        assert_eq!(stored, data[..data.len() - reader.remaining()]);
        assert_eq!(take_register_key(&mut Reader::new(stored)), Ok(key.clone()));
        assert!(Topology::has_slot(placement::slot(&key)));
    }
});
