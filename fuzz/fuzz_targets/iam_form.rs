//! The parameters of a request to IAM: any bytes are a form or are refused, and a form is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sherd_iam::form::Form;

fuzz_target!(|bytes: &[u8]| {
    let Ok(form) = Form::parse(bytes) else { return };
    for list in ["Tags", "TagKeys", ""] {
        for number in 1..=form.members(list) {
            let _member = form.get(&format!("{list}.member.{number}.Key"));
        }
    }
});
