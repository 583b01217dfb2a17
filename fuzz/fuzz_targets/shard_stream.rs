//! Any bytes in the place of a body of messages that carry the bytes of a shard.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sherd_proto::fuzzing::shard_stream;

fuzz_target!(|data: &[u8]| {
    shard_stream(data);
});
