//! The head of the object that a form uploads: the headers of a PUT, which its fields stand for. The headers
//! of the request that brings the form say nothing of the object, and may not contradict the fields.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use sherd_signature::form_fields::FormFields;

use crate::head::columns::Columns;
use crate::head::feature;
use crate::head::request_head::RequestHead;
use crate::head::tagging::GivenTags;
use crate::wire::form::fields;
use crate::wire::form::parser::Delimiter;
use crate::wire::refusal::{Code, Refusal};

/// The type of a form.
const FORM: &[u8] = b"multipart/form-data";
/// Headers of the request that would say something of the object, which its fields do.
const OF_OBJECT: [&str; 6] =
    ["x-amz-acl", "x-amz-meta-", "x-amz-checksum-", "x-amz-storage-class", "x-amz-tagging", "content-md5"];
/// Headers, and fields of their names, that would change what a PUT does and that forms do not have.
const OF_OTHER_WRITES: [&str; 3] = ["if-match", "if-none-match", "x-amz-copy-source"];

/// The delimiter of the parts of a form.
///
/// # Errors
/// PreconditionFailed for another type of body, MalformedPOSTRequest for one without a delimiter.
pub(crate) fn delimiter(head: &RequestHead<'_>) -> Result<Delimiter, Refusal> {
    let content_type = head.get(CONTENT_TYPE).map(|value| value.as_bytes().trim_ascii_start());
    let content_type = content_type.unwrap_or_default();
    let is_form = content_type.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM));
    if !is_form {
        return Err(Refusal::new(Code::PreconditionFailed)
            .with("Condition", "Bucket POST must be of the enclosure-type multipart/form-data"));
    }
    Delimiter::of(content_type).map_err(|_| Refusal::new(Code::MalformedPOSTRequest))
}

/// Whether the request that brings a form has a signature beside that of the form.
pub(crate) fn is_signed_twice(head: &RequestHead<'_>) -> bool {
    head.has(AUTHORIZATION)
}

/// The head of the object, of the fields and the head of the request that brings them.
///
/// # Errors
/// NotImplemented for what forms do not have, InvalidArgument for a field that no header can carry,
/// InvalidRequest for a header that contradicts the fields; as [`feature::check`] for the headers.
pub(crate) fn of<'a>(
    head: RequestHead<'a>,
    columns: &Columns,
    fields: &FormFields,
) -> Result<RequestHead<'a>, Refusal> {
    let is_given = |name: &&str| head.has(*name) || fields.get(name).is_some();
    if let Some(name) = OF_OTHER_WRITES.into_iter().find(is_given) {
        return Err(Refusal::new(Code::NotImplemented).with("Header", name));
    }
    let headers = fields::headers(fields)?;
    feature::check(&head, columns, false)?;
    for (name, value) in head.lines() {
        let is_of_object = OF_OBJECT.iter().any(|start| name.as_str().starts_with(start));
        if is_of_object && headers.get(name) != Some(value) {
            return Err(Refusal::says(
                Code::InvalidRequest,
                "Conflicting values provided in HTTP headers and POST form fields.",
            ));
        }
    }
    let tags = GivenTags::of_form(fields.get("tagging").unwrap_or_default());
    Ok(head.of_form(headers, tags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::columns::Verb;
    use crate::wire::address::Level;

    #[test]
    fn headers_of_the_request_may_not_say_more_than_the_fields() {
        let columns = Columns::of("PostObject", Verb::Post, Level::Bucket, &[]);
        let of = |headers: &[(&'static str, &str)], fields: &FormFields| {
            super::of(RequestHead::with(headers), &columns, fields)
        };
        let mut fields = FormFields::default();
        fields.push("X-Amz-Meta-A".to_owned(), "1");
        for (name, value) in [
            ("host", "s3.test"),
            ("content-type", "multipart/form-data"),
            ("x-amz-meta-a", "1"),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ] {
            let head = of(&[(name, value)], &fields).expect(name);
            assert_eq!(head.value("x-amz-meta-a").expect("the field"), "1");
            assert!(!head.has(CONTENT_TYPE));
            assert_eq!(head.has("host"), name == "host");
        }
        for (name, value, code) in [
            ("x-amz-meta-a", "2", Code::InvalidRequest),
            ("x-amz-meta-b", "2", Code::InvalidRequest),
            ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==", Code::InvalidRequest),
            ("x-amz-server-side-encryption", "AES256", Code::NotImplemented),
            ("if-match", "\"e\"", Code::NotImplemented),
            ("if-none-match", "*", Code::NotImplemented),
            ("x-amz-copy-source", "/bucket/k", Code::NotImplemented),
        ] {
            assert_eq!(of(&[(name, value)], &fields).expect_err(name).code, code);
        }
        fields.push("If-None-Match".to_owned(), "*");
        let refused = of(&[], &fields).expect_err("a condition that nothing would judge");
        assert_eq!(refused.code, Code::NotImplemented);
    }
}
