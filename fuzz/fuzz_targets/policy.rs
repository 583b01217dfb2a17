//! Any bytes are a policy that decides as each of its statements does, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sherd_policy::fuzzing::document(data));
