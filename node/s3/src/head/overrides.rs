//! `response-*` parameters: headers that a read wants answered instead of the stored ones.

use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES, HeaderMap,
    HeaderName, HeaderValue,
};
use s3s::dto::{Timestamp, TimestampFormat};
use sherd_signature::query::Pair;

use crate::head::request_head::RequestHead;
use crate::wire::query::invalid;
use crate::wire::refusal::{Code, Refusal};
use crate::wire::system_headers::SYSTEM;

/// Prefix of the parameters that override a header.
const OVERRIDES: &str = "response-";
/// The order in which a GET answers headers that were asked for, before all others.
const FIRST: [HeaderName; 6] =
    [CONTENT_TYPE, CONTENT_LANGUAGE, EXPIRES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING];

/// Whether a request wants headers answered instead of the stored ones. An anonymous one must not: the
/// writer of a link would choose how a browser takes the bytes of another.
pub(crate) fn are_in(head: &RequestHead<'_>) -> bool {
    head.query().pairs().iter().any(|pair| pair.name.starts_with(OVERRIDES))
}

/// Refuses a GET that wants a header answered which no header can carry.
///
/// # Errors
/// InvalidRequest.
pub(crate) fn check(head: &RequestHead<'_>) -> Result<(), Refusal> {
    if !are_in(head) {
        return Ok(());
    }
    for header in FIRST {
        let Some(value) = head.text(&format!("{OVERRIDES}{header}")) else { continue };
        if HeaderValue::from_str(&value).is_err() {
            let message = format!("invalid overridden header: {header}: {:?}", Some(value));
            return Err(Refusal::says(Code::InvalidRequest, message));
        }
    }
    Ok(())
}

/// Refuses a read that wants `Expires` answered with any other text than a date.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_expires(head: &RequestHead<'_>) -> Result<(), Refusal> {
    let Some(expires) = head.text("response-expires") else { return Ok(()) };
    let parsed = Timestamp::parse(TimestampFormat::HttpDate, &expires);
    parsed.map(drop).map_err(|_| invalid("response-expires", &expires))
}

/// The headers that a request wants answered.
///
/// # Errors
/// InvalidArgument for values that no header can carry, as S3 words it for those outside ISO-8859-1
/// (github.com/guardian/grid/pull/1716).
pub(crate) fn of(head: &RequestHead<'_>) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    for name in SYSTEM {
        let is_it = |pair: &&Pair<'_>| pair.name.strip_prefix(OVERRIDES) == Some(name.as_str());
        let Some(pair) = head.query().pairs().iter().find(is_it) else { continue };
        let bad = || Refusal::says(Code::InvalidArgument, format!("Invalid value for {}", pair.name));
        let text = pair.value().map_err(|_| bad())?;
        let bytes = latin_1(&text).ok_or_else(|| {
            let message = "Header value cannot be represented using ISO-8859-1.";
            Refusal::bad_argument(message, &pair.name, &text)
        })?;
        headers.insert(name, HeaderValue::from_bytes(&bytes).map_err(|_| bad())?);
    }
    Ok(headers)
}

/// The headers with which the answer to a GET begins, in their order.
pub(crate) fn first_of(overrides: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    FIRST.into_iter().filter_map(|name| overrides.get(&name).cloned().map(|value| (name, value)))
}

/// A text in ISO-8859-1, a byte for each character.
fn latin_1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(character).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(query: &str) -> RequestHead<'_> {
        RequestHead::with(&[]).and_query(query)
    }

    #[test]
    fn an_override_is_sent_in_iso_8859_1_or_refused() {
        let of = |value: &str| of(&asking(&format!("response-content-disposition={value}")));
        let sent = of("a%3B%20filename%3D%22caf%C3%A9%22").unwrap();
        assert_eq!(sent["content-disposition"].as_bytes(), b"a; filename=\"caf\xe9\"");
        let refused = of("D%E2%80%99Arcy").unwrap_err();
        let message = "Header value cannot be represented using ISO-8859-1.";
        assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, message));
        let named = [
            ("ArgumentName", "response-content-disposition".to_owned()),
            ("ArgumentValue", "D\u{2019}Arcy".to_owned()),
        ];
        assert_eq!(refused.details, named);
    }

    #[test]
    fn an_override_cannot_smuggle_a_header() {
        let head = asking("response-content-type=a%0d%0ax:y");
        assert_eq!(of(&head).unwrap_err().code, Code::InvalidArgument);
        let refused = check(&head).unwrap_err();
        assert_eq!(refused.code, Code::InvalidRequest);
        assert_eq!(refused.message, "invalid overridden header: content-type: Some(\"a\\r\\nx:y\")");
    }
}
