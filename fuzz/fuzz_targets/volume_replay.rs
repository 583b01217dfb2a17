//! A log that was damaged after it was written: replay makes nothing up and loses nothing that is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sherd_volume::fuzzing::damaged_log(data));
