//! Any bytes in the place of a message between nodes; the first byte says of which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sherd_proto::fuzzing::message;

fuzz_target!(|data: &[u8]| {
    message(data);
});
