//! Forms of a browser: fields are read as the same however their bytes are cut, and a policy lets no field
//! pass that it does not name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sherd_signature::form_fields::FormFields;
use sherd_signature::post_policy::PostPolicy;

use crate::wire::form::parser::Delimiter;
use crate::wire::form::prelude::Prelude;
use crate::wire::form::{FormError, fields as form_fields};

/// The boundary of the forms here.
const BOUNDARY: &[u8] = b"multipart/form-data; boundary=b";
/// The moment at which policies are judged.
const NOW_MS: u64 = 1_369_353_600_000;

/// Where to cut, and the body of a form with the boundary `b`; behind a NUL a policy in JSON.
pub fn form(input: &[u8]) {
    let Some((cut, rest)) = input.split_first() else { return };
    let mut texts = rest.splitn(2, |byte| *byte == 0);
    let body = texts.next().unwrap_or_default();
    let start = fields(body, body.len().max(1));
    assert_eq!(start, fields(body, usize::from(*cut) + 1), "cut differently, read differently");
    let fields = start.ok().flatten().map_or_else(FormFields::default, |(fields, behind)| {
        assert!(body.ends_with(&behind), "the bytes of the file are those behind the fields");
        fields
    });
    headers(&fields);
    policy(texts.next().unwrap_or(rest), &fields);
}

/// The fields of a form, and the bytes from its file on.
fn fields(body: &[u8], step: usize) -> Result<Option<(FormFields, Vec<u8>)>, FormError> {
    let mut prelude = Prelude::new(Delimiter::of(BOUNDARY).expect("a boundary"));
    let mut pieces = body.chunks(step);
    while let Some(piece) = pieces.next() {
        if let Some(start) = prelude.take(Bytes::copy_from_slice(piece))? {
            let behind = start.bytes.concat().into_iter().chain(pieces.flatten().copied());
            return Ok(Some((start.fields, behind.collect())));
        }
    }
    Ok(None)
}

/// Each header is a field, and each field has one name.
fn headers(fields: &FormFields) {
    for (place, field) in fields.all().iter().enumerate() {
        let same = |other: &str| other.eq_ignore_ascii_case(&field.name);
        assert_eq!(fields.all().iter().position(|other| same(&other.name)), Some(place));
        assert_eq!(fields.get(&field.name.to_ascii_uppercase()), Some(field.value.as_str()));
    }
    let Ok(headers) = form_fields::headers(fields) else { return };
    assert!(headers.len() <= fields.all().len());
    for (name, value) in &headers {
        let name = match name.as_str() {
            "x-amz-acl" if fields.get("acl").is_some() => continue,
            "x-amz-sdk-checksum-algorithm" => continue,
            name => name,
        };
        assert_eq!(fields.get(name).map(|sent| sent.trim().as_bytes()), Some(value.as_bytes()), "{name}");
    }
}

/// A policy lets the same form pass in any order of its fields, and no form with a field more.
fn policy(json: &[u8], fields: &FormFields) {
    let Ok(policy) = PostPolicy::parse(&STANDARD.encode(json)) else { return };
    let mut named: Vec<(&str, &str)> = vec![("bucket", "bucket")];
    named.extend(fields.all().iter().map(|field| (field.name.as_str(), field.value.as_str())));
    let judged = policy.judge(NOW_MS, &named);
    assert!(policy.judge(u64::MAX, &named).is_err(), "every policy ends");
    if let Ok(sizes) = judged {
        // The bucket of the address stays in front: a field of that name stands for nothing.
        named.get_mut(1..).unwrap_or_default().reverse();
        assert_eq!(policy.judge(NOW_MS, &named).as_ref(), Ok(&sizes));
        let text = String::from_utf8_lossy(json).to_ascii_lowercase();
        // A name that the text does not have, also not in an escape.
        if !text.contains("stranger") && !text.contains('\\') {
            named.push(("x-amz-meta-stranger", ""));
            assert!(policy.judge(NOW_MS, &named).is_err(), "a field without a condition");
        }
    }
}
