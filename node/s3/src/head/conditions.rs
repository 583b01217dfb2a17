//! Condition headers -> conditions of reads and writes.
//!
//! The store judges them; they are only parsed here. A malformed date is ignored (RFC 9110, section
//! 13.1.3). An empty tag is refused: its client wants a condition, and a write without one could replace a
//! version that it must not. Reads take all four conditions, writes two, and only one at a time.

use std::time::UNIX_EPOCH;

use http::HeaderName;
use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use s3s::dto::ETag;

use crate::head::request_head::RequestHead;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::{EtagMatch, ReadConditions, WriteConditions};

/// Conditions of GetObject and HeadObject.
///
/// # Errors
/// InvalidArgument for an empty tag.
pub(crate) fn of_read(head: &RequestHead<'_>) -> Result<ReadConditions, Refusal> {
    Ok(ReadConditions {
        if_match: etags(head, &IF_MATCH, Comparison::Strong)?,
        if_none_match: etags(head, &IF_NONE_MATCH, Comparison::Weak)?,
        if_modified_since: date(head, &IF_MODIFIED_SINCE),
        if_unmodified_since: date(head, &IF_UNMODIFIED_SINCE),
        tags: None,
    })
}

/// Conditions on the source of CopyObject and UploadPartCopy.
///
/// # Errors
/// InvalidArgument for an empty tag.
pub(crate) fn of_copy_source(head: &RequestHead<'_>) -> Result<ReadConditions, Refusal> {
    let name = HeaderName::from_static;
    Ok(ReadConditions {
        if_match: etags(head, &name("x-amz-copy-source-if-match"), Comparison::Strong)?,
        if_none_match: etags(head, &name("x-amz-copy-source-if-none-match"), Comparison::Weak)?,
        if_modified_since: date(head, &name("x-amz-copy-source-if-modified-since")),
        if_unmodified_since: date(head, &name("x-amz-copy-source-if-unmodified-since")),
        tags: None,
    })
}

/// Conditions of PutObject, CompleteMultipartUpload, and CopyObject on its target.
///
/// # Errors
/// InvalidArgument for an empty tag; NotImplemented, as on AWS, for `If-None-Match` with anything but
/// `*`, and for both conditions.
pub(crate) fn of_write(head: &RequestHead<'_>) -> Result<WriteConditions, Refusal> {
    let if_match = etags(head, &IF_MATCH, Comparison::Strong)?;
    let if_none_match = etags(head, &IF_NONE_MATCH, Comparison::Weak)?;
    if if_match.is_some() && if_none_match.is_some() {
        return Err(Refusal::says(
            Code::NotImplemented,
            "Multiple conditional request headers present in the request",
        ));
    }
    if !matches!(if_none_match, None | Some(EtagMatch::Any)) {
        return Err(Refusal::says(
            Code::NotImplemented,
            "A header you provided implies functionality that is not implemented: a write takes If-None-Match \
             only with *",
        ));
    }
    Ok(WriteConditions { if_match, if_none_match, call: None })
}

/// Conditions of DeleteObject.
///
/// # Errors
/// InvalidArgument for an empty tag; NotImplemented, as on AWS, for `If-None-Match`.
pub(crate) fn of_delete(head: &RequestHead<'_>) -> Result<WriteConditions, Refusal> {
    if etags(head, &IF_NONE_MATCH, Comparison::Weak)?.is_some() {
        return Err(Refusal::says(
            Code::NotImplemented,
            "A header you provided implies functionality that is not implemented: If-None-Match on a delete",
        ));
    }
    let if_match = etags(head, &IF_MATCH, Comparison::Strong)?;
    Ok(WriteConditions { if_match, ..WriteConditions::default() })
}

/// Whether it compares the entity tag of an object, which shows what that is.
pub(crate) fn compare_etags(head: &RequestHead<'_>) -> bool {
    head.get(IF_MATCH).is_some_and(|etag| etag != "*")
}

/// The condition of one key in DeleteObjects.
pub(crate) fn of_deleted_key(etag: Option<ETag>) -> WriteConditions {
    let if_match = etag.map(|etag| match etag {
        ETag::Strong(any) if any == "*" => EtagMatch::Any,
        etag => EtagMatch::OneOf(etag.into_strong().into_iter().collect()),
    });
    WriteConditions { if_match, ..WriteConditions::default() }
}

/// How entity tags are compared (RFC 9110, section 8.8.3.2): a weak tag never matches strongly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// The entity tags under a name; `None` where the header is absent.
fn etags(
    head: &RequestHead<'_>,
    name: &HeaderName,
    comparison: Comparison,
) -> Result<Option<EtagMatch>, Refusal> {
    if !head.has(name) {
        return Ok(None);
    }
    let values: Vec<&[u8]> = head.all(name).iter().map(|value| value.as_bytes().trim_ascii()).collect();
    if values.iter().all(|value| value.is_empty()) {
        return Err(Refusal::bad_argument("An entity tag must not be empty", name.as_str(), ""));
    }
    if values.contains(&b"*".as_slice()) {
        return Ok(Some(EtagMatch::Any));
    }
    let mut tags = Vec::new();
    for value in values {
        push_etags(&String::from_utf8_lossy(value), comparison, &mut tags);
    }
    Ok(Some(EtagMatch::OneOf(tags)))
}

/// Splits a list of tags, each quoted or not, strong or weak. A quote that never ends ends with the
/// list; no object has such a tag.
fn push_etags(list: &str, comparison: Comparison, tags: &mut Vec<String>) {
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return;
        }
        let unmarked = rest.strip_prefix("W/");
        let weak = unmarked.is_some();
        rest = unmarked.unwrap_or(rest);
        let tag;
        (tag, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        if !(weak && comparison == Comparison::Strong) {
            tags.push(tag.trim_end().to_owned());
        }
    }
}

/// The date under a name, in seconds since the Unix epoch; none where it is absent or no date.
fn date(head: &RequestHead<'_>, name: &HeaderName) -> Option<u64> {
    let text = head.get(name)?.to_str().ok()?;
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(headers: &[(&'static str, &str)]) -> RequestHead<'static> {
        RequestHead::with(headers)
    }

    fn one_of(tags: &[&str]) -> EtagMatch {
        EtagMatch::OneOf(tags.iter().map(|&tag| tag.to_owned()).collect())
    }

    #[test]
    fn entity_tags_come_quoted_bare_weak_and_in_lists() {
        let cases: [(&str, Option<EtagMatch>, Option<EtagMatch>); 8] = [
            ("\"abc\"", Some(one_of(&["abc"])), Some(one_of(&["abc"]))),
            ("abc", Some(one_of(&["abc"])), Some(one_of(&["abc"]))),
            ("*", Some(EtagMatch::Any), Some(EtagMatch::Any)),
            ("W/\"abc\"", Some(one_of(&[])), Some(one_of(&["abc"]))),
            ("\"a\", \"b\",c", Some(one_of(&["a", "b", "c"])), Some(one_of(&["a", "b", "c"]))),
            ("\"a,b\" , W/\"c\"", Some(one_of(&["a,b"])), Some(one_of(&["a,b", "c"]))),
            ("\"open", Some(one_of(&["open"])), Some(one_of(&["open"]))),
            (" ,, \"a\" ,", Some(one_of(&["a"])), Some(one_of(&["a"]))),
        ];
        for (text, strong, weak) in cases {
            let read = of_read(&with(&[("if-match", text), ("if-none-match", text)])).unwrap();
            assert_eq!(read.if_match, strong, "{text}");
            assert_eq!(read.if_none_match, weak, "{text}");
        }
    }

    #[test]
    fn a_header_sent_twice_is_one_list() {
        let read = of_read(&with(&[("if-none-match", "\"a\""), ("if-none-match", "\"b\"")])).unwrap();
        assert_eq!(read.if_none_match, Some(one_of(&["a", "b"])));
        let half = of_write(&with(&[("if-match", ""), ("if-match", "\"b\"")])).unwrap();
        assert_eq!(half.if_match, Some(one_of(&["b"])), "an empty element of a list says nothing");
    }

    #[test]
    fn an_empty_tag_is_refused_and_no_missing_condition() {
        for blank in ["", " ", "\t  "] {
            for name in ["if-match", "if-none-match"] {
                let headers = with(&[(name, blank)]);
                for refused in [of_read(&headers).err(), of_write(&headers).err(), of_delete(&headers).err()]
                {
                    let refused = refused.unwrap_or_else(|| panic!("{name}: {blank:?} is no condition"));
                    assert_eq!(refused.code, Code::InvalidArgument, "{name}: {blank:?}");
                }
            }
            for name in ["x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match"] {
                let refused = of_copy_source(&with(&[(name, blank)])).unwrap_err();
                assert_eq!(refused.code, Code::InvalidArgument, "{name}: {blank:?}");
            }
        }
        let none = with(&[]);
        assert_eq!(of_read(&none).unwrap(), ReadConditions::default());
        assert_eq!(of_write(&none).unwrap(), WriteConditions::default());
        assert_eq!(of_delete(&none).unwrap(), WriteConditions::default());
    }

    #[test]
    fn dates_come_in_three_forms_and_nonsense_is_no_condition() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            let read = of_read(&with(&[("if-modified-since", text)])).unwrap();
            assert_eq!(read.if_modified_since, Some(784_111_777), "{text}");
        }
        for text in ["", "yesterday", "1994-11-06T08:49:37Z"] {
            let read = of_read(&with(&[("if-unmodified-since", text)])).unwrap();
            assert_eq!(read.if_unmodified_since, None, "{text}");
        }
    }

    #[test]
    fn a_copy_has_conditions_on_its_source_and_on_its_target() {
        let headers = with(&[
            ("x-amz-copy-source-if-match", "\"s\""),
            ("x-amz-copy-source-if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("if-match", "\"t\""),
        ]);
        let source = of_copy_source(&headers).unwrap();
        assert_eq!(source.if_match, Some(one_of(&["s"])));
        assert_eq!(source.if_unmodified_since, Some(784_111_777));
        assert_eq!(of_write(&headers).unwrap().if_match, Some(one_of(&["t"])));
    }

    #[test]
    fn writes_refuse_the_conditions_that_aws_refuses() {
        assert_eq!(of_write(&with(&[("if-none-match", "*")])).unwrap().if_none_match, Some(EtagMatch::Any));
        for headers in
            [with(&[("if-none-match", "\"a\"")]), with(&[("if-none-match", "*"), ("if-match", "a")])]
        {
            assert_eq!(of_write(&headers).unwrap_err().code, Code::NotImplemented);
        }
        assert_eq!(of_delete(&with(&[("if-match", "*")])).unwrap().if_match, Some(EtagMatch::Any));
        assert_eq!(of_delete(&with(&[("if-none-match", "*")])).unwrap_err().code, Code::NotImplemented);
    }

    #[test]
    fn a_weak_tag_deletes_nothing() {
        assert_eq!(of_deleted_key(Some(ETag::Strong("a".into()))).if_match, Some(one_of(&["a"])));
        assert_eq!(of_deleted_key(Some(ETag::Weak("a".into()))).if_match, Some(one_of(&[])));
        assert_eq!(of_deleted_key(Some(ETag::Strong("*".into()))).if_match, Some(EtagMatch::Any));
        assert_eq!(of_deleted_key(None), WriteConditions::default());
    }
}
