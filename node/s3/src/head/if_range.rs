//! `If-Range`: a range while the object is what the client has part of, the whole object otherwise
//! (RFC 9110, section 13.1.5).
//!
//! Which version is read is known only when it is read. So the range is read first, and thrown away
//! when it turns out to be another version's; then the whole object is read instead.

use http::header::{IF_RANGE, RANGE};
use std::time::UNIX_EPOCH;

use crate::head::request_head::RequestHead;
use sherd_store::object::{Error, Invalid, ObjectInfo, ReadRequest, Result, Span};

/// The version of which the client has a part, as `If-Range` names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Validator {
    /// The entity tag of the version.
    Etag(String),
    /// The second in which it was made, since the Unix epoch.
    Second(u64),
    /// None: a weak tag, or no tag and no date at all.
    Nothing,
}

impl Validator {
    /// The validator of a request for a range.
    pub(crate) fn of(head: &RequestHead<'_>) -> Option<Self> {
        head.get(RANGE)?;
        let text = head.get(IF_RANGE)?.to_str().unwrap_or_default().trim();
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        if let Some(tag) = quoted {
            return Some(Self::Etag(tag.to_owned()));
        }
        let time = httpdate::parse_http_date(text).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Some(time.map_or(Self::Nothing, |since| Self::Second(since.as_secs())))
    }

    fn names(&self, info: &ObjectInfo) -> bool {
        match self {
            Self::Etag(tag) => *tag == info.etag,
            Self::Second(second) => *second == info.modified_ms / 1000,
            Self::Nothing => false,
        }
    }
}

/// Reads what was asked for, and what was read.
pub(crate) async fn read<T, F>(
    request: ReadRequest,
    validator: Option<Validator>,
    info: impl Fn(&T) -> &ObjectInfo,
    verb: impl Fn(ReadRequest) -> F,
) -> Result<(Span, T)>
where
    F: Future<Output = Result<T>>,
{
    let span = request.span;
    let Some(validator) = validator else { return verb(request).await.map(|found| (span, found)) };
    let whole = ReadRequest { span: Span::Whole, ..request.clone() };
    match verb(request).await {
        Ok(found) if validator.names(info(&found)) => Ok((span, found)),
        Ok(_) => Ok((Span::Whole, verb(whole).await?)),
        Err(Error::Invalid(Invalid::Range { size })) => {
            let found = verb(whole).await?;
            if validator.names(info(&found)) {
                return Err(Invalid::Range { size }.into());
            }
            Ok((Span::Whole, found))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::record::Attributes;

    use super::*;
    use crate::head::names;
    use sherd_store::object::{ObjectName, ReadConditions};

    fn validator(text: &'static str) -> Option<Validator> {
        let alone = RequestHead::with(&[("if-range", text)]);
        assert_eq!(Validator::of(&alone), None, "without a range it says nothing");
        Validator::of(&RequestHead::with(&[("if-range", text), ("range", "bytes=0-1")]))
    }

    #[test]
    fn a_validator_is_a_strong_tag_or_a_date() {
        assert_eq!(validator("\"0123\""), Some(Validator::Etag("0123".to_owned())));
        assert_eq!(validator("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Validator::Second(784_111_777)));
        for text in ["W/\"0123\"", "0123", "", "yesterday"] {
            assert_eq!(validator(text), Some(Validator::Nothing), "{text}");
        }
    }

    /// Reads bytes from 5 on of an object of `size` bytes with the tag "now".
    async fn read_from_5(size: u64, validator: Option<Validator>) -> Result<Span> {
        let name: ObjectName = names::object("bucket", "key").unwrap();
        let span = Span::From { first: 5, last: None };
        let request = ReadRequest { name, span, conditions: ReadConditions::default() };
        let info = ObjectInfo {
            size,
            etag: "now".to_owned(),
            modified_ms: 784_111_777_999,
            attributes: Attributes::default(),
            checksums: sherd_core::record::Checksums::new(),
            checksum_kind: None,
            parts: None,
            tags: sherd_core::record::ObjectTags::default(),
        };
        let verb = |request: ReadRequest| {
            let found = match request.span {
                Span::From { first, .. } if first >= size => Err(Invalid::Range { size }.into()),
                _ => Ok(info.clone()),
            };
            std::future::ready(found)
        };
        read(request, validator, |found| found, verb).await.map(|(span, _)| span)
    }

    #[tokio::test]
    async fn a_range_is_read_only_of_the_version_that_is_named() {
        let ranged = Span::From { first: 5, last: None };
        let tag = |tag: &str| Some(Validator::Etag(tag.to_owned()));
        assert_eq!(read_from_5(10, None).await.unwrap(), ranged);
        assert_eq!(read_from_5(10, tag("now")).await.unwrap(), ranged);
        assert_eq!(read_from_5(10, Some(Validator::Second(784_111_777))).await.unwrap(), ranged);
        for other in [tag("then"), Some(Validator::Second(784_111_778)), Some(Validator::Nothing)] {
            assert_eq!(read_from_5(10, other).await.unwrap(), Span::Whole);
        }
    }

    #[tokio::test]
    async fn a_range_behind_the_end_of_another_version_is_no_fault() {
        let tag = |tag: &str| Some(Validator::Etag(tag.to_owned()));
        assert_eq!(read_from_5(3, tag("then")).await.unwrap(), Span::Whole);
        for same in [None, tag("now")] {
            let error = read_from_5(3, same).await.unwrap_err();
            assert!(matches!(error, Error::Invalid(Invalid::Range { size: 3 })));
        }
    }
}
