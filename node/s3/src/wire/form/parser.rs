//! `multipart/form-data` (RFC 7578), piece by piece: the boundary, the heads of parts, and where a part ends.
//!
//! ```text
//! --b CRLF head CRLF CRLF value CRLF--b CRLF head CRLF CRLF the file's bytes ... CRLF--b-- CRLF
//! ```
//! A carriage return stands in a delimiter at its beginning alone, since a boundary has none. So what may be
//! the beginning of a delimiter at the end of a piece is held back as its length, and never searched again.

use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use memchr::memmem::Finder;
use memchr::memrchr;

use crate::wire::limits::BOUNDARY_BYTES_MAX;

/// The body is not a well-formed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedForm;

/// The delimiter of a form's parts: a line end, two hyphens and the boundary.
#[derive(Debug, Clone)]
pub struct Delimiter {
    bytes: Bytes,
    finder: Arc<Finder<'static>>,
}

impl Delimiter {
    /// The delimiter that a Content-Type names.
    ///
    /// # Errors
    /// [`MalformedForm`] for one without a boundary, and for a boundary that RFC 2046 does not allow.
    pub fn of(content_type: &[u8]) -> Result<Self, MalformedForm> {
        let text = std::str::from_utf8(content_type).map_err(|_| MalformedForm)?;
        let (_, parameters) = text.split_once(';').ok_or(MalformedForm)?;
        let boundary = parameter(parameters, "boundary").ok_or(MalformedForm)?;
        let is_allowed = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let is_boundary = (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
            && boundary.bytes().all(is_allowed)
            && !boundary.ends_with(' ');
        if !is_boundary {
            return Err(MalformedForm);
        }
        let bytes = Bytes::from(format!("\r\n--{boundary}"));
        Ok(Self { finder: Arc::new(Finder::new(&bytes).into_owned()), bytes })
    }

    /// Length of the delimiter in bytes.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Offset of the first delimiter in `bytes`.
    pub fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.finder.find(bytes)
    }

    /// How many bytes at the end of `bytes` begin a delimiter.
    fn begun(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(self.bytes.len() - 1);
        let tail = bytes.get(from..).unwrap_or_default();
        let begun = memrchr(b'\r', tail).and_then(|at| tail.get(at..)).unwrap_or_default();
        if self.bytes.starts_with(begun) { begun.len() } else { 0 }
    }
}

/// The head of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartHead {
    /// The name of the field, as it was sent.
    pub name: String,
    /// The name of the file, as it was sent.
    pub filename: Option<String>,
    /// Whether its disposition is that of a field.
    pub is_form_data: bool,
}

impl PartHead {
    /// Reads the head of a part, without the empty line behind it.
    ///
    /// # Errors
    /// [`MalformedForm`] for bytes that are not UTF-8, and for a part without a name.
    pub fn parse(head: &[u8]) -> Result<Self, MalformedForm> {
        let head = std::str::from_utf8(head).map_err(|_| MalformedForm)?;
        let headers = head.split("\r\n").filter_map(|line| line.split_once(':'));
        let mut dispositions =
            headers.filter(|(name, _)| name.trim_end().eq_ignore_ascii_case("content-disposition"));
        let (Some((_, disposition)), None) = (dispositions.next(), dispositions.next()) else {
            return Err(MalformedForm);
        };
        let (kind, parameters) = disposition.split_once(';').ok_or(MalformedForm)?;
        Ok(Self {
            name: parameter(parameters, "name").ok_or(MalformedForm)?,
            filename: parameter(parameters, "filename"),
            is_form_data: kind.trim().eq_ignore_ascii_case("form-data"),
        })
    }

    /// Whether this part is the file.
    pub fn is_file(&self) -> bool {
        self.is_form_data && self.name.eq_ignore_ascii_case("file")
    }
}

/// The value of a parameter in `a=b; c="d"`; of several, the first. A backslash stands for itself unless a
/// quotation mark or a backslash follows: some browsers send a whole path as the name of a file.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        let (name, behind) = rest.split_once('=')?;
        let name = name.rsplit(';').next().unwrap_or_default();
        let is_wanted = name.trim().eq_ignore_ascii_case(wanted);
        let (value, behind) = if let Some(quoted) = behind.strip_prefix('"') {
            unquoted(quoted)?
        } else {
            let (value, behind) = behind.split_once(';').unwrap_or((behind, ""));
            (value.trim_end().to_owned(), behind)
        };
        if is_wanted {
            return Some(value);
        }
        rest = behind;
    }
}

/// Reads a quoted text up to its quotation mark.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => {
                let escaped = text.get(at + 1..).and_then(|behind| behind.chars().next());
                match escaped.filter(|next| matches!(next, '"' | '\\')) {
                    Some(next) => {
                        value.push(next);
                        characters.next();
                    }
                    None => value.push('\\'),
                }
            }
            _ => value.push(character),
        }
    }
    None
}

/// The next step through the bytes of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum PartStep {
    /// More bytes are needed.
    NeedMore,
    /// Bytes of the part.
    Data(Bytes),
    /// The part has ended; these bytes stand behind its delimiter.
    End(Bytes),
}

/// Passes the bytes of a part on, up to its delimiter, without copying them.
#[derive(Debug)]
pub struct PartScanner {
    delimiter: Delimiter,
    input: Bytes,
    /// Bytes of the delimiter that stood at the end of the input before.
    held: usize,
}

impl PartScanner {
    /// A part that begins with `input`.
    pub fn new(delimiter: Delimiter, input: Bytes) -> Self {
        Self { delimiter, input, held: 0 }
    }

    /// Gives it the next bytes, once it needs more.
    pub fn feed(&mut self, input: Bytes) {
        self.input = input;
    }

    /// Goes on.
    pub fn step(&mut self) -> PartStep {
        if self.held > 0 {
            let wanted = self.delimiter.bytes.slice(self.held..);
            if self.input.starts_with(&wanted) {
                self.held = 0;
                self.input.advance(wanted.len());
                return PartStep::End(std::mem::take(&mut self.input));
            }
            if wanted.starts_with(&self.input) {
                self.held += self.input.len();
                self.input = Bytes::new();
                return PartStep::NeedMore;
            }
            let data = self.delimiter.bytes.slice(..self.held);
            self.held = 0;
            return PartStep::Data(data);
        }
        if self.input.is_empty() {
            return PartStep::NeedMore;
        }
        match self.delimiter.find(&self.input) {
            Some(0) => {
                self.input.advance(self.delimiter.length());
                PartStep::End(std::mem::take(&mut self.input))
            }
            Some(at) => PartStep::Data(self.input.split_to(at)),
            None => {
                self.held = self.delimiter.begun(&self.input);
                let mut data = std::mem::take(&mut self.input);
                data.truncate(data.len() - self.held);
                if data.is_empty() { PartStep::NeedMore } else { PartStep::Data(data) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delimiter(boundary: &str) -> Delimiter {
        Delimiter::of(format!("multipart/form-data; boundary={boundary}").as_bytes()).expect("a boundary")
    }

    #[test]
    fn a_boundary_is_a_parameter() {
        for (content_type, expected) in [
            ("multipart/form-data; boundary=abc", Some("\r\n--abc")),
            ("multipart/form-data; charset=utf-8; Boundary=\"a b:c\"", Some("\r\n--a b:c")),
            (
                "multipart/form-data;boundary=----WebKitFormBoundaryx;a=b",
                Some("\r\n------WebKitFormBoundaryx"),
            ),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=\"a\r\nb\"", None),
            ("multipart/form-data; boundary=\"a", None),
            ("multipart/form-data; boundary=\"a \"", None),
            ("multipart/form-data; charset=boundary", None),
        ] {
            let read = Delimiter::of(content_type.as_bytes());
            assert_eq!(read.ok().map(|read| read.bytes), expected.map(Bytes::from), "{content_type}");
        }
        let long = |bytes| format!("multipart/form-data; boundary={}", "b".repeat(bytes));
        assert!(Delimiter::of(long(70).as_bytes()).is_ok());
        assert!(Delimiter::of(long(71).as_bytes()).is_err());
    }

    #[test]
    fn a_head_has_a_name_and_may_name_a_file() {
        let head = |text: &str| PartHead::parse(text.as_bytes());
        let read = head("Content-Disposition: form-data; name=\"Key\"").expect("a field");
        assert_eq!((read.name.as_str(), read.filename.as_deref(), read.is_file()), ("Key", None, false));
        let file = "content-type: image/png\r\nCONTENT-DISPOSITION: Form-Data; filename=\"C:\\d\\a \\\"b\\\".png\"; name=file";
        let read = head(file).expect("the file");
        assert_eq!((read.filename.as_deref(), read.is_file()), (Some("C:\\d\\a \"b\".png"), true));
        let other = head("Content-Disposition: file; name=\"file\"").expect("a field");
        assert!(!other.is_file(), "another disposition");
        for refused in [
            "",
            "Content-Disposition: form-data",
            "Content-Disposition: form-data; filename=\"a\"",
            "Content-Disposition: form-data; name=\"a",
            "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b",
        ] {
            assert_eq!(head(refused), Err(MalformedForm), "{refused}");
        }
        assert_eq!(PartHead::parse(b"Content-Disposition: form-data; name=\"\xff\""), Err(MalformedForm));
    }

    /// The bytes of a part that comes in pieces, and those behind its delimiter, where that came.
    fn scanned<'a>(
        delimiter: &Delimiter,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut scanner = PartScanner::new(delimiter.clone(), Bytes::new());
        let (mut data, mut behind) = (Vec::new(), None::<Vec<u8>>);
        for piece in pieces {
            if let Some(behind) = &mut behind {
                behind.extend_from_slice(piece);
                continue;
            }
            scanner.feed(Bytes::copy_from_slice(piece));
            loop {
                match scanner.step() {
                    PartStep::NeedMore => break,
                    PartStep::Data(bytes) => {
                        assert!(!bytes.is_empty());
                        data.extend_from_slice(&bytes);
                    }
                    PartStep::End(bytes) => {
                        behind = Some(bytes.to_vec());
                        break;
                    }
                }
            }
        }
        (data, behind)
    }

    proptest! {
        /// Bytes that are mostly those of a delimiter, cut anywhere.
        #[test]
        fn a_part_ends_at_its_first_delimiter_however_it_is_cut(
            bytes in prop::collection::vec(prop::sample::select(b"\r\n-ab".to_vec()), 0..60),
            step in 1_usize..9,
        ) {
            let delimiter = delimiter("a");
            let (data, behind) = scanned(&delimiter, bytes.chunks(step));
            if let Some(at) = delimiter.find(&bytes) {
                prop_assert_eq!(&data, &bytes[..at]);
                prop_assert_eq!(behind.as_deref(), Some(&bytes[at + delimiter.length()..]));
            } else {
                prop_assert_eq!(behind, None);
                let held = bytes.strip_prefix(&data[..]).expect("the first of them");
                prop_assert!(delimiter.bytes.starts_with(held), "{:?}", held);
            }
        }
    }
}
