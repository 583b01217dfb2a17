//! Attributes, which are stored beside an object's bytes: system headers and user metadata, in and out.
//!
//! Names are lower case, values are kept as they were sent. A system header comes back byte for
//! byte, and so does the address that a website would redirect to: no website is served. User metadata that
//! is not US-ASCII comes back as RFC 2047 encoded words, as AWS says it does; what a client encoded itself is
//! US-ASCII already and comes back as it was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use sherd_core::limits::{ATTRIBUTES_BYTES_MAX, METADATA_BYTES_MAX, REDIRECT_BYTES_MAX};
use sherd_core::record::Attributes;

use crate::head::request_head::RequestHead;
use crate::wire::refusal::{Code, Refusal};
use crate::wire::system_headers::SYSTEM;

/// Prefix of user metadata.
const USER_METADATA: &str = "x-amz-meta-";
/// The content type of an object that was stored without one.
pub(crate) const CONTENT_TYPE_DEFAULT: &str = "binary/octet-stream";

/// The address that a website redirects a request for the object to. A copy never takes it from its source
/// (AWS, "CopyObject").
pub(crate) const REDIRECT: &str = "x-amz-website-redirect-location";

/// Bytes of one line of RFC 2047 text: encoded words are at most 75 characters, 12 of them syntax,
/// and 60 base64 characters hold 45 bytes.
const ENCODED_WORD_BYTES: usize = 45;

/// The attributes that a request wants stored.
///
/// # Errors
/// MetadataTooLarge beyond 2 KiB of either kind or 8 KiB of all, InvalidArgument for bytes that are not
/// UTF-8, InvalidRedirectLocation as [`redirect`].
pub(crate) fn of_request(head: &RequestHead<'_>) -> Result<Attributes, Refusal> {
    let mut pairs = Vec::new();
    for name in SYSTEM {
        let mut value = text(head, &name)?.unwrap_or_default();
        if name == CONTENT_ENCODING {
            value = without_aws_chunked(&value);
        }
        if !value.is_empty() {
            pairs.push((name.as_str().to_owned(), value));
        }
    }
    bounded(&pairs, 0)?;
    let system = pairs.len();
    for name in head.names().filter(|name| is_user_metadata(name)) {
        let value = text(head, name)?.unwrap_or_default();
        pairs.push((name.as_str().to_owned(), value));
    }
    bounded(pairs.get(system..).unwrap_or_default(), USER_METADATA.len())?;
    pairs.extend(redirect(head)?.map(|location| (REDIRECT.to_owned(), location)));
    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ATTRIBUTES_BYTES_MAX {
        return Err(too_large(ATTRIBUTES_BYTES_MAX));
    }
    Ok(Attributes { pairs })
}

/// The address that a website would redirect to, where a request has one.
///
/// # Errors
/// InvalidRedirectLocation for any other text than a path or an address of HTTP, and beyond 2 KiB;
/// InvalidArgument for bytes that are not UTF-8.
pub(crate) fn redirect(head: &RequestHead<'_>) -> Result<Option<String>, Refusal> {
    let location = text(head, &HeaderName::from_static(REDIRECT))?;
    let Some(location) = location.filter(|location| !location.is_empty()) else { return Ok(None) };
    let message = if !["/", "http://", "https://"].iter().any(|start| location.starts_with(start)) {
        "The website redirect location must have a prefix of 'http://' or 'https://' or '/'."
    } else if location.len() > REDIRECT_BYTES_MAX {
        "The length of website redirect location cannot exceed 2,048 characters."
    } else {
        return Ok(Some(location));
    };
    Err(Refusal::says(Code::InvalidRedirectLocation, message))
}

fn is_user_metadata(name: &HeaderName) -> bool {
    name.as_str().strip_prefix(USER_METADATA).is_some_and(|rest| !rest.is_empty())
}

/// Names and values together stay under the limit; `prefix` bytes of each name do not count.
fn bounded(pairs: &[(String, String)], prefix: usize) -> Result<(), Refusal> {
    let bytes: usize =
        pairs.iter().map(|(name, value)| name.len().saturating_sub(prefix) + value.len()).sum();
    if bytes > METADATA_BYTES_MAX { Err(too_large(METADATA_BYTES_MAX)) } else { Ok(()) }
}

fn too_large(bytes_max: usize) -> Refusal {
    let message =
        format!("Your metadata headers exceed the maximum allowed metadata size of {bytes_max} bytes");
    Refusal::says(Code::MetadataTooLarge, message)
}

/// All values of a header, joined as HTTP joins them.
fn text(head: &RequestHead<'_>, name: &HeaderName) -> Result<Option<String>, Refusal> {
    let mut joined: Option<String> = None;
    for value in head.all(name) {
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
            Refusal::says(Code::InvalidArgument, format!("The value of the header {name} is not UTF-8"))
        })?;
        match &mut joined {
            None => joined = Some(value.trim().to_owned()),
            Some(text) => {
                text.push(',');
                text.push_str(value.trim());
            }
        }
    }
    Ok(joined)
}

/// aws-chunked describes the transfer, not the object. All other bytes stay as they came.
fn without_aws_chunked(encodings: &str) -> String {
    let is_framing = |coding: &&str| coding.trim().eq_ignore_ascii_case("aws-chunked");
    let kept: Vec<&str> = encodings.split(',').filter(|coding| !is_framing(coding)).collect();
    kept.join(",").trim().to_owned()
}

/// The headers that come back with an object; a stored value that no header can carry is counted
/// in `x-amz-missing-meta`, as on AWS.
pub(crate) fn add_headers(attributes: &Attributes, headers: &mut HeaderMap) {
    let mut missing = 0_u32;
    for (name, value) in &attributes.pairs {
        let header = HeaderName::from_bytes(name.as_bytes()).ok().and_then(|name| {
            let encoded = if name.as_str().starts_with(USER_METADATA) { encoded(value) } else { None };
            let value = HeaderValue::from_bytes(encoded.as_deref().unwrap_or(value).as_bytes()).ok()?;
            Some((name, value))
        });
        match header {
            Some((name, value)) => _ = headers.insert(name, value),
            None => missing += 1,
        }
    }
    if missing > 0 {
        headers.insert("x-amz-missing-meta", HeaderValue::from(missing));
    }
}

/// RFC 2047 encoded words for a text that is not US-ASCII.
fn encoded(value: &str) -> Option<String> {
    if value.is_ascii() {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.floor_char_boundary(ENCODED_WORD_BYTES));
        words.push(format!("=?UTF-8?B?{}?=", STANDARD.encode(word)));
        rest = behind;
    }
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn headers(pairs: &[(&'static str, &[u8])]) -> RequestHead<'static> {
        let value = |value| HeaderValue::from_bytes(value).unwrap();
        pairs.iter().map(|(name, bytes)| (HeaderName::from_static(name), value(bytes))).collect()
    }

    fn back(attributes: &Attributes) -> HeaderMap {
        let mut headers = HeaderMap::new();
        add_headers(attributes, &mut headers);
        headers
    }

    #[test]
    fn headers_and_metadata_are_stored_lower_case_and_come_back() {
        let request = headers(&[
            ("host", b"h"),
            ("content-type", b"text/plain"),
            ("cache-control", b"no-cache"),
            ("content-disposition", "attachment; filename=\"käse\"".as_bytes()),
            ("content-encoding", b"aws-chunked, gzip"),
            ("content-language", b"de"),
            ("expires", b"when I say so"),
            ("x-amz-acl", b"private"),
            ("x-amz-meta-colour", b" blue "),
        ]);
        let stored = of_request(&request).unwrap();
        assert_eq!(stored.get("content-encoding"), Some("gzip"));
        assert_eq!(stored.get("x-amz-meta-colour"), Some("blue"));
        assert_eq!(stored.pairs.len(), 7);
        let back = back(&stored);
        assert_eq!(back.get("expires").unwrap(), "when I say so");
        assert_eq!(
            back.get("content-disposition").unwrap().as_bytes(),
            "attachment; filename=\"käse\"".as_bytes()
        );
        assert_eq!(back.len(), 7);
    }

    #[test]
    fn encodings_stay_as_they_came_but_for_that_of_the_transfer() {
        for (sent, stored) in [
            ("gzip, aws-chunked, deflate", "gzip, deflate"),
            ("aws-chunked,gzip", "gzip"),
            ("gzip, AWS-Chunked", "gzip"),
            ("gzip,  br", "gzip,  br"),
            ("aws-chunked", ""),
        ] {
            assert_eq!(without_aws_chunked(sent), stored, "{sent}");
        }
    }

    #[test]
    fn nothing_is_stored_of_an_empty_content_type() {
        for request in [headers(&[]), headers(&[("content-type", b""), ("content-encoding", b"aws-chunked")])]
        {
            assert_eq!(of_request(&request).unwrap().pairs, []);
        }
    }

    #[test]
    fn metadata_sent_twice_is_one_list() {
        let stored = of_request(&headers(&[("x-amz-meta-a", b"1"), ("x-amz-meta-a", b"2")])).unwrap();
        assert_eq!(stored.get("x-amz-meta-a"), Some("1,2"));
    }

    #[test]
    fn metadata_beyond_ascii_comes_back_in_encoded_words() {
        let stored = of_request(&headers(&[("x-amz-meta-a", "ÄMÄ".as_bytes())])).unwrap();
        assert_eq!(back(&stored).get("x-amz-meta-a").unwrap(), "=?UTF-8?B?w4RNw4Q=?=");
        let long = "\u{1F9F1}".repeat(40);
        let words = encoded(&long).unwrap();
        let mut decoded = Vec::new();
        for word in words.split(' ') {
            assert!(word.len() <= 75);
            let inner = word.strip_prefix("=?UTF-8?B?").and_then(|word| word.strip_suffix("?=")).unwrap();
            let bytes = STANDARD.decode(inner).unwrap();
            assert!(std::str::from_utf8(&bytes).is_ok(), "no character is cut in two");
            decoded.extend(bytes);
        }
        assert_eq!(decoded, long.as_bytes());
    }

    #[test]
    fn encoded_words_of_the_client_come_back_as_they_were() {
        let stored = of_request(&headers(&[("x-amz-meta-a", b"=?UTF-8?Q?k=C3=A4se?=")])).unwrap();
        assert_eq!(back(&stored).get("x-amz-meta-a").unwrap(), "=?UTF-8?Q?k=C3=A4se?=");
    }

    #[test]
    fn too_much_metadata_and_bytes_that_are_no_text_are_refused() {
        let at_limit = "v".repeat(METADATA_BYTES_MAX - 1);
        assert!(of_request(&headers(&[("x-amz-meta-a", at_limit.as_bytes())])).is_ok());
        for name in ["x-amz-meta-ab", "cache-control"] {
            let error = of_request(&headers(&[(name, at_limit.as_bytes())])).unwrap_err();
            assert_eq!(error.code, Code::MetadataTooLarge, "{name}");
        }
        let error = of_request(&headers(&[("x-amz-meta-a", b"\xff\xfe")])).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
    }

    #[test]
    fn all_attributes_together_have_a_bound() {
        let redirect = format!("/{}", "r".repeat(REDIRECT_BYTES_MAX - 1));
        let control = "c".repeat(METADATA_BYTES_MAX - "cache-control".len());
        let first = [(REDIRECT.to_owned(), redirect), ("cache-control".to_owned(), control)];
        let stored = |metadata: usize| {
            let metadata =
                (0..metadata).map(|number| (format!("{USER_METADATA}{number:03}"), "12345".to_owned()));
            let all = first.iter().cloned().chain(metadata);
            let head: RequestHead<'_> =
                all.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            of_request(&head).map(|stored| stored.pairs.len()).map_err(|refusal| refusal.code)
        };
        assert_eq!(stored(200), Ok(202));
        assert_eq!(stored(250), Err(Code::MetadataTooLarge));
    }

    #[test]
    fn an_address_to_redirect_to_is_a_path_or_one_of_http() {
        let code = |location: &str| {
            let stored = of_request(&headers(&[(REDIRECT, location.as_bytes())]));
            stored.map(|stored| stored.get(REDIRECT).map(str::to_owned)).map_err(|refusal| refusal.code)
        };
        let longest = format!("https://{}", "a".repeat(REDIRECT_BYTES_MAX - 8));
        for location in ["/", "/a b?c#d", "http://example.com/", &longest] {
            assert_eq!(code(location), Ok(Some(location.to_owned())), "{location}");
        }
        assert_eq!(code(""), Ok(None));
        for location in ["a", "ftp://example.com", "HTTP://a"] {
            assert_eq!(code(location), Err(Code::InvalidRedirectLocation), "{location}");
        }
        assert_eq!(code(&format!("{longest}a")), Err(Code::InvalidRedirectLocation));
        let stored = of_request(&headers(&[(REDIRECT, "/käse".as_bytes())])).unwrap();
        assert_eq!(back(&stored).get(REDIRECT).unwrap().as_bytes(), "/käse".as_bytes());
    }

    #[test]
    fn a_value_that_no_header_can_carry_is_counted_as_missing() {
        let pairs = vec![("x-amz-meta-a".to_owned(), "line\nline".to_owned())];
        let back = back(&Attributes { pairs });
        assert_eq!(back.get("x-amz-missing-meta").unwrap(), "1");
        assert_eq!(back.len(), 1);
    }
}
