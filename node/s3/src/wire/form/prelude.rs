//! The part of a form before the bytes of its file: its fields, kept whole, within a bound.

use bytes::{Bytes, BytesMut};
use sherd_signature::form_fields::FormFields;

use super::parser::{Delimiter, PartHead};
use super::{FormError, fields};
use crate::wire::limits::FORM_FIELDS_BYTES_MAX;

/// A line end in front of the body makes its first boundary a delimiter like the others.
const LINE_END: &[u8] = b"\r\n";
/// The end of a part's head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The form up to its file.
#[derive(Debug)]
pub struct Prelude {
    delimiter: Delimiter,
    buffer: BytesMut,
    /// Where the bytes begin that were not taken apart.
    at: usize,
    next: NextPiece,
    fields: FormFields,
}

/// The piece that comes next.
#[derive(Debug)]
enum NextPiece {
    /// The first boundary, behind what is ignored.
    First,
    /// The end of a boundary's line.
    BoundaryEnd,
    /// The head of a part.
    Head,
    /// The value of a field.
    Value(PartHead),
}

/// The result of a step.
enum PreludeStep {
    /// The next piece is not whole.
    NeedMore,
    /// A piece was taken apart.
    Piece,
    /// The bytes of the file begin here; its name, where it has one.
    File(Option<String>),
}

/// The place where the bytes of the file begin.
#[derive(Debug)]
pub struct FileStart {
    /// The fields before it, its name put in the place of the variable.
    pub fields: FormFields,
    /// Bytes of the form before the file's.
    pub prelude_bytes: u64,
    /// The bytes that came of it and of what is behind it, in order.
    pub bytes: [Bytes; 2],
}

impl Prelude {
    /// The beginning of a form whose parts have this delimiter.
    pub fn new(delimiter: Delimiter) -> Self {
        let buffer = BytesMut::from(LINE_END);
        Self { delimiter, buffer, at: 0, next: NextPiece::First, fields: FormFields::default() }
    }

    /// Takes the next bytes of the body; gives the place of the file once they reach it.
    ///
    /// # Errors
    /// [`FormError`]: too many bytes or the end of the form before its file, a malformed part.
    pub fn take(&mut self, mut bytes: Bytes) -> Result<Option<FileStart>, FormError> {
        let room = (FORM_FIELDS_BYTES_MAX + LINE_END.len()).saturating_sub(self.buffer.len());
        let rest = bytes.split_off(room.min(bytes.len()));
        self.buffer.extend_from_slice(&bytes);
        loop {
            let filename = match self.step()? {
                PreludeStep::NeedMore => break,
                PreludeStep::Piece => continue,
                PreludeStep::File(filename) => filename,
            };
            let mut fields = std::mem::take(&mut self.fields);
            fields::expand(&mut fields, filename.as_deref())?;
            let prelude_bytes = (self.at - LINE_END.len()) as u64;
            let first = self.buffer.split_off(self.at).freeze();
            self.buffer = BytesMut::new();
            return Ok(Some(FileStart { fields, prelude_bytes, bytes: [first, rest] }));
        }
        if rest.is_empty() { Ok(None) } else { Err(FormError::FieldsTooLong) }
    }

    /// Takes one piece of the buffer apart.
    fn step(&mut self) -> Result<PreludeStep, FormError> {
        let left = self.buffer.get(self.at..).unwrap_or_default();
        match &self.next {
            NextPiece::First => {
                let Some(found) = self.delimiter.find(left) else { return Ok(PreludeStep::NeedMore) };
                self.at += found + self.delimiter.length();
                self.next = NextPiece::BoundaryEnd;
            }
            NextPiece::BoundaryEnd => {
                if left.len() < LINE_END.len() {
                    return Ok(PreludeStep::NeedMore);
                }
                if left.starts_with(b"--") {
                    return Err(FormError::FileCount { count: 0 });
                }
                let blanks = left.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                let behind = left.get(blanks..).unwrap_or_default();
                if behind.len() < LINE_END.len() {
                    return Ok(PreludeStep::NeedMore);
                }
                if !behind.starts_with(LINE_END) {
                    return Err(FormError::Malformed);
                }
                // The line end stays: a head without a line ends with two of them.
                self.at += blanks;
                self.next = NextPiece::Head;
            }
            NextPiece::Head => {
                let Some(found) = memchr::memmem::find(left, HEAD_END) else {
                    return Ok(PreludeStep::NeedMore);
                };
                let head = PartHead::parse(left.get(LINE_END.len()..found).unwrap_or_default())?;
                self.at += found + HEAD_END.len();
                if head.is_file() {
                    return Ok(PreludeStep::File(head.filename));
                }
                self.next = NextPiece::Value(head);
            }
            NextPiece::Value(head) => {
                let Some(found) = self.delimiter.find(left) else { return Ok(PreludeStep::NeedMore) };
                let value = left.get(..found).unwrap_or_default();
                let value = std::str::from_utf8(value).map_err(|_| FormError::Malformed)?;
                self.fields.push(head.name.clone(), value);
                self.at += found + self.delimiter.length();
                self.next = NextPiece::BoundaryEnd;
            }
        }
        Ok(PreludeStep::Piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "ignored\r\n--b \t\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nuser/${filename}\r\n\
                        --b\r\nContent-Disposition: form-data; name=\"Empty\"\r\nContent-Type: text/plain\r\n\r\n\r\n\
                        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nbytes\r\n--b--\r\n";

    fn prelude() -> Prelude {
        Prelude::new(Delimiter::of(b"multipart/form-data; boundary=b").expect("a boundary"))
    }

    fn taken(form: &[u8], step: usize) -> Result<Option<(FormFields, u64, Vec<u8>)>, FormError> {
        let mut prelude = prelude();
        let mut pieces = form.chunks(step);
        while let Some(piece) = pieces.next() {
            if let Some(start) = prelude.take(Bytes::copy_from_slice(piece))? {
                let rest = pieces.flatten().copied();
                let bytes = start.bytes.concat().into_iter().chain(rest).collect();
                return Ok(Some((start.fields, start.prelude_bytes, bytes)));
            }
        }
        Ok(None)
    }

    #[test]
    fn fields_end_where_the_file_begins_however_they_are_cut() {
        for step in 1..=FORM.len() {
            let (fields, prelude_bytes, rest) =
                taken(FORM.as_bytes(), step).expect("well formed").expect("a file");
            assert_eq!(fields.get("key"), Some("user/a.txt"));
            assert_eq!(fields.get("empty"), Some(""));
            assert_eq!(rest, b"bytes\r\n--b--\r\n");
            assert_eq!(prelude_bytes + rest.len() as u64, FORM.len() as u64);
        }
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let field = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--b";
        for (form, error) in [
            (format!("{field}--\r\n"), FormError::FileCount { count: 0 }),
            (format!("{field}x\r\n"), FormError::Malformed),
            ("--b\r\n\r\nvalue".to_owned(), FormError::Malformed),
            ("--b\r\nContent-Disposition: form-data\r\n\r\nv".to_owned(), FormError::Malformed),
            ("--b--".to_owned(), FormError::FileCount { count: 0 }),
        ] {
            for step in [1, 7, form.len()] {
                assert_eq!(taken(form.as_bytes(), step), Err(error), "{form}");
            }
        }
        for unfinished in ["", "no boundary", field, "--b\r\nContent-Disposition: form-data; name=\"k\"\r\n"]
        {
            assert_eq!(taken(unfinished.as_bytes(), 5), Ok(None), "{unfinished}");
        }
        let text =
            [field.as_bytes(), b"\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xff\r\n--b"].concat();
        assert_eq!(taken(&text, text.len()), Err(FormError::Malformed), "a value that is no text");
    }

    #[test]
    fn fields_have_a_bound_and_the_file_has_none() {
        let form = |bytes: usize| {
            let end = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
            let head = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n";
            let value = "k".repeat(bytes - head.len() - end.len() - 2);
            format!("{head}{value}\r\n{end}{}", "f".repeat(100_000))
        };
        for step in [1000, 64 << 10] {
            let at_most = taken(form(FORM_FIELDS_BYTES_MAX).as_bytes(), step).expect("just fits");
            let (_, prelude_bytes, rest) = at_most.expect("a file");
            assert_eq!((prelude_bytes, rest.len()), (FORM_FIELDS_BYTES_MAX as u64, 100_000));
            let more = taken(form(FORM_FIELDS_BYTES_MAX + 1).as_bytes(), step);
            assert_eq!(more, Err(FormError::FieldsTooLong));
        }
    }
}
