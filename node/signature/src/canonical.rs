//! The canonical request: what a signature speaks about, byte for byte as AWS defines it for S3.
//!
//! Paths are decoded and encoded once and never normalised: `//`, `.` and `..` are part of a key.
//! Queries are decoded, encoded and sorted by name, then value. Everything is written into one
//! buffer that the caller lends, so a request costs no allocation here.

use http::HeaderMap;

use crate::query::Query;

/// The path or query holds a `%` that no two hex digits follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a percent sign is not followed by two hex digits")]
pub struct BadPercent;

/// How the path stands in the canonical request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathForm {
    /// Decoded, then encoded: AWS's definition.
    Canonical,
    /// As it came: what a signer signs that takes the wire's path for the canonical one.
    Verbatim,
}

/// The parts of a canonical request.
#[derive(Debug, Clone, Copy)]
pub struct CanonicalRequest<'a> {
    /// The method's name.
    pub method: &'a str,
    /// The path as it came.
    pub path: &'a str,
    /// How to write it.
    pub path_form: PathForm,
    /// The query.
    pub query: &'a Query<'a>,
    /// The query parameter that carries the signature itself and is left out.
    pub query_without: Option<&'a str>,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// The value of `host` in a request without that header, as in HTTP/2.
    pub authority: Option<&'a str>,
    /// The names of the signed headers, as the request lists them: `host;x-amz-date`.
    pub signed_headers: &'a str,
    /// The payload's hash, or the word that stands for it.
    pub payload: &'a str,
}

impl CanonicalRequest<'_> {
    /// Appends the canonical request to `out`.
    ///
    /// # Errors
    /// [`BadPercent`] when path or query cannot be decoded.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), BadPercent> {
        out.extend_from_slice(self.method.as_bytes());
        out.push(b'\n');
        match self.path_form {
            PathForm::Canonical => write_encoded(self.path, Escape::Path, out)?,
            PathForm::Verbatim => out.extend_from_slice(self.path.as_bytes()),
        }
        out.push(b'\n');
        write_query(self.query, self.query_without, out)?;
        out.push(b'\n');
        for name in self.signed_headers.split(';') {
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            self.write_values(name, out);
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(self.signed_headers.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(self.payload.as_bytes());
        Ok(())
    }

    fn write_values(&self, name: &str, out: &mut Vec<u8>) {
        let mut values = self.headers.get_all(name).iter().peekable();
        if values.peek().is_none() && name == "host" {
            out.extend_from_slice(self.authority.unwrap_or_default().as_bytes());
            return;
        }
        let mut first = true;
        for value in values {
            if !first {
                out.push(b',');
            }
            first = false;
            write_trimmed(value.as_bytes(), out);
        }
    }
}

/// Appends a header's value without the blanks around it and with runs of blanks inside as one.
fn write_trimmed(value: &[u8], out: &mut Vec<u8>) {
    let value = value.trim_ascii();
    if !value.windows(2).any(|pair| pair == b"  ") {
        out.extend_from_slice(value);
        return;
    }
    let mut blank = false;
    for byte in value {
        if *byte == b' ' && blank {
            continue;
        }
        blank = *byte == b' ';
        out.push(*byte);
    }
}

/// The kind of a text: in a path `/` stays and `+` is a plus, in a query `+` is a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    Path,
    Query,
}

/// Appends the pairs of a query, encoded and sorted by encoded name, then by encoded value.
fn write_query(query: &Query<'_>, without: Option<&str>, out: &mut Vec<u8>) -> Result<(), BadPercent> {
    let kept = query.pairs().iter().filter(|pair| without != Some(&*pair.name));
    let mut count = 0_usize;
    let start = out.len();
    for pair in kept.clone() {
        if count > 0 {
            out.push(b'&');
        }
        count += 1;
        write_pair(pair.raw_name, pair.raw_value, out)?;
    }
    if count < 2 {
        return Ok(());
    }
    // Several pairs: sort what was written. Names and values are compared apart, for `=` sorts
    // after `-`, which may be part of a name.
    let written = out.split_off(start);
    let mut pairs: Vec<(&[u8], &[u8])> = written
        .split(|byte| *byte == b'&')
        .map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=').expect("every pair is written with =");
            pair.split_at(equals)
        })
        .collect();
    pairs.sort_unstable();
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        if index > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    Ok(())
}

fn write_pair(name: &str, value: &str, out: &mut Vec<u8>) -> Result<(), BadPercent> {
    write_encoded(name, Escape::Query, out)?;
    out.push(b'=');
    write_encoded(value, Escape::Query, out)
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn write_encoded(text: &str, escape: Escape, out: &mut Vec<u8>) -> Result<(), BadPercent> {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else { return Err(BadPercent) };
                hex_digit(high).ok_or(BadPercent)? << 4 | hex_digit(low).ok_or(BadPercent)?
            }
            b'+' if escape == Escape::Query => b' ',
            _ => byte,
        };
        if is_unreserved(byte) || (byte == b'/' && escape == Escape::Path) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    Ok(())
}

const HEX: [u8; 16] = *b"0123456789ABCDEF";

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(path: &str, query: &str, headers: &[(&'static str, &'static str)], signed: &str) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_static(value));
        }
        let query = Query::parse(Some(query)).expect("a query");
        let request = CanonicalRequest {
            method: "GET",
            path,
            path_form: PathForm::Canonical,
            query: &query,
            query_without: Some("X-Amz-Signature"),
            headers: &map,
            authority: None,
            signed_headers: signed,
            payload: "P",
        };
        let mut out = Vec::new();
        request.write(&mut out).expect("decodes");
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn paths_keep_their_shape() {
        let line = |path: &str| canonical(path, "", &[], "").lines().nth(1).map(str::to_owned);
        assert_eq!(line("/b//a/.././/c"), Some("/b//a/.././/c".to_owned()));
        assert_eq!(line("/b/test$file.text"), Some("/b/test%24file.text".to_owned()));
        assert_eq!(line("/b/%e4%B8%ad+%7e"), Some("/b/%E4%B8%AD%2B~".to_owned()));
    }

    #[test]
    fn queries_are_sorted_by_name_then_value() {
        let line = |query: &str| canonical("/", query, &[], "").lines().nth(2).map(str::to_owned);
        assert_eq!(line("prefix=J&max-keys=2"), Some("max-keys=2&prefix=J".to_owned()));
        assert_eq!(line("lifecycle"), Some("lifecycle=".to_owned()));
        assert_eq!(line("a-b=1&a=2&a=1"), Some("a=1&a=2&a-b=1".to_owned()));
        assert_eq!(line("p=a+b/c%2f&X-Amz-Signature=00"), Some("p=a%20b%2Fc%2F".to_owned()));
    }

    #[test]
    fn header_values_are_trimmed_and_joined() {
        let text = canonical("/", "", &[("a", "  x   y "), ("b", "1"), ("b", "2")], "a;b;c");
        assert_eq!(text, "GET\n/\n\na:x y\nb:1,2\nc:\n\na;b;c\nP");
    }

    #[test]
    fn a_bad_percent_is_refused() {
        for path in ["/%", "/%4", "/%zz", "/%4z"] {
            assert_eq!(write_encoded(path, Escape::Path, &mut Vec::new()), Err(BadPercent), "{path}");
        }
    }
}
