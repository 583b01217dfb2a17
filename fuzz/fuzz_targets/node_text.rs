//! Any bytes in the place of a framed body, of a text in a request, of a setting, of cross-origin rules,
//! of a form, or of a public access block; the first byte says which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sherd_node::process::config::fuzzing::setting_text;
use sherd_s3::fuzzing::{cross_origin, form, framed_body, header_text, public_access_block};

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, rest)) => framed_body(rest),
        Some((1, rest)) => header_text(rest),
        Some((2, rest)) => setting_text(rest),
        Some((3, rest)) => cross_origin(rest),
        Some((4, rest)) => form(rest),
        Some((5, rest)) => public_access_block(rest),
        _ => {}
    }
});
