//! Any text is a request that is answered, or none: through everything between the wire and the store.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = sherd_s3::fuzzing::request(data);
});
