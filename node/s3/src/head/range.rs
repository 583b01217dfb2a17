//! `Range`, `partNumber` and `x-amz-copy-source-range` -> which bytes.
//!
//! A `Range` that says nothing sensible is ignored (RFC 9110, section 14.2), and so is one that
//! names several ranges: the answer is the whole object, as on AWS. The store decides
//! whether a sensible one can be satisfied.

use http::HeaderValue;
use http::header::RANGE;

use crate::head::names;
use crate::head::request_head::RequestHead;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::Span;

/// The bytes that a read asks for, of a part where it names one.
///
/// # Errors
/// InvalidRequest for both a range and a part, InvalidArgument for an impossible part number.
pub(crate) fn of_read(head: &RequestHead<'_>, part: Option<i32>) -> Result<Span, Refusal> {
    span(head.get(RANGE).map(HeaderValue::as_bytes), part)
}

/// The bytes of a range, or of a part.
pub(crate) fn span(range: Option<&[u8]>, part: Option<i32>) -> Result<Span, Refusal> {
    match (range, part) {
        (Some(_), Some(_)) => Err(Refusal::says(
            Code::InvalidRequest,
            "Cannot specify both Range header and partNumber query parameter",
        )),
        (None, Some(number)) => Ok(Span::Part { number: names::part_number(number)? }),
        (Some(range), None) => Ok(parse(range).unwrap_or(Span::Whole)),
        (None, None) => Ok(Span::Whole),
    }
}

/// The bytes of its source that a part copies.
///
/// # Errors
/// InvalidArgument for anything but `bytes=first-last`.
pub(crate) fn of_copy(head: &RequestHead<'_>) -> Result<Span, Refusal> {
    let range = head.get("x-amz-copy-source-range").filter(|range| !range.is_empty());
    copy_span(range.map(HeaderValue::as_bytes))
}

/// The bytes of a range of a source.
pub(crate) fn copy_span(range: Option<&[u8]>) -> Result<Span, Refusal> {
    let Some(range) = range else { return Ok(Span::Whole) };
    match parse(range) {
        Some(span @ Span::From { last: Some(_), .. }) => Ok(span),
        _ => Err(Refusal::says(
            Code::InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are \
             the zero-based offsets of the first and last bytes to copy",
        )),
    }
}

/// One range of bytes, or `None` when the text is not exactly that.
fn parse(text: &[u8]) -> Option<Span> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (unit, set) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.split_once('-')?;
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Span::Suffix { length: number(last)? }),
        (false, true) => Some(Span::From { first: number(first)?, last: None }),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Span::From { first, last: Some(last) })
        }
    }
}

/// Decimal digits; beyond 64 bits every number lies behind every object's end.
fn number(digits: &str) -> Option<u64> {
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn from(first: u64, last: Option<u64>) -> Span {
        Span::From { first, last }
    }

    #[test]
    fn one_range_is_understood_in_each_of_its_forms() {
        let cases: [(&str, Span); 8] = [
            ("bytes=0-0", from(0, Some(0))),
            ("bytes=0-499", from(0, Some(499))),
            ("bytes=500-", from(500, None)),
            ("bytes=-500", Span::Suffix { length: 500 }),
            ("bytes=-0", Span::Suffix { length: 0 }),
            ("Bytes=1-2", from(1, Some(2))),
            ("bytes=7-99999999999999999999999", from(7, Some(u64::MAX))),
            ("bytes=99999999999999999999999-", from(u64::MAX, None)),
        ];
        for (text, span) in cases {
            assert_eq!(super::span(Some(text.as_bytes()), None).unwrap(), span, "{text}");
        }
    }

    #[test]
    fn a_range_that_is_nonsense_or_several_ranges_is_the_whole_object() {
        let texts = [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-3",
            "bytes=0-1,3-4",
            "bytes=+1-2",
            "bytes=1-2x",
            "items=0-1",
            "0-1",
            "bytes 0-1",
            "bytes=--1",
            "bytes=1--2",
        ];
        for text in texts {
            assert_eq!(super::span(Some(text.as_bytes()), None).unwrap(), Span::Whole, "{text}");
        }
        assert_eq!(super::span(Some(b"bytes=\xff-1"), None).unwrap(), Span::Whole);
    }

    #[test]
    fn a_part_stands_alone() {
        assert_eq!(span(None, Some(3)).unwrap(), Span::Part { number: 3 });
        assert_eq!(span(None, Some(0)).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(span(Some(b"bytes=0-1"), Some(3)).unwrap_err().code, Code::InvalidRequest);
    }

    #[test]
    fn a_copied_range_names_its_first_and_last_byte() {
        assert_eq!(copy_span(None).unwrap(), Span::Whole);
        assert_eq!(copy_span(Some(b"bytes=3-9")).unwrap(), from(3, Some(9)));
        let bad =
            ["0-2", "bytes=0", "bytes=hello-world", "bytes=0-", "bytes=-4", "bytes=0-2,3-5", "bytes=9-3", ""];
        for text in bad {
            assert_eq!(copy_span(Some(text.as_bytes())).unwrap_err().code, Code::InvalidArgument, "{text}");
        }
    }
}
