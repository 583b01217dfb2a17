//! The part of a form behind its file. It means nothing, but for a second file, which is refused, as is a
//! boundary that goes on: then it is not one, and the file was not whole.

use bytes::{Bytes, BytesMut};

use super::FormError;
use super::parser::{Delimiter, PartHead, PartScanner, PartStep};
use crate::wire::limits::{FORM_FIELDS_BYTES_MAX, FORM_REST_BYTES_MAX};

/// The form behind its file.
#[derive(Debug)]
pub struct Tail {
    delimiter: Delimiter,
    bytes: u64,
    stage: TailStage,
}

#[derive(Debug)]
enum TailStage {
    /// Behind a delimiter: its line, and the head of a part.
    Head(BytesMut),
    /// In a part.
    Part(PartScanner),
    /// Behind the last boundary, or in bytes that are not a form.
    Over,
}

impl Tail {
    /// Begins behind the delimiter of the file.
    pub fn new(delimiter: Delimiter) -> Self {
        Self { delimiter, bytes: 0, stage: TailStage::Head(BytesMut::new()) }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`FormError`] for too many of them, for another file, and for a boundary whose line goes on.
    pub fn take(&mut self, bytes: Bytes) -> Result<(), FormError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > FORM_REST_BYTES_MAX {
            return Err(FormError::RestTooLong { bytes: self.bytes });
        }
        let mut bytes = bytes;
        loop {
            match &mut self.stage {
                TailStage::Over => return Ok(()),
                TailStage::Head(head) => {
                    // Copied only where it comes in pieces: a frame may have very many short parts.
                    let behind = if head.is_empty() {
                        std::mem::take(&mut bytes)
                    } else {
                        head.extend_from_slice(&std::mem::take(&mut bytes));
                        head.split().freeze()
                    };
                    let is_last = ends_boundary(&behind)?;
                    let end = memchr::memmem::find(&behind, b"\r\n\r\n");
                    if is_last || (end.is_none() && behind.len() > FORM_FIELDS_BYTES_MAX) {
                        self.stage = TailStage::Over;
                        return Ok(());
                    }
                    let Some(end) = end else {
                        *head = BytesMut::from(behind);
                        return Ok(());
                    };
                    let head = behind.get(..end).unwrap_or_default().trim_ascii();
                    if PartHead::parse(head).is_ok_and(|head| head.is_file()) {
                        return Err(FormError::FileCount { count: 2 });
                    }
                    let part = behind.slice(end + 4..);
                    self.stage = TailStage::Part(PartScanner::new(self.delimiter.clone(), part));
                }
                TailStage::Part(scanner) => match scanner.step() {
                    PartStep::NeedMore if bytes.is_empty() => return Ok(()),
                    PartStep::NeedMore => scanner.feed(std::mem::take(&mut bytes)),
                    PartStep::Data(_) => {}
                    PartStep::End(behind) => {
                        bytes = behind;
                        self.stage = TailStage::Head(BytesMut::new());
                    }
                },
            }
        }
    }
}

/// Whether the boundary in front of these bytes is the last one, as far as they show that.
///
/// # Errors
/// [`FormError::Malformed`] where its line goes on. So a file that has the boundary inside one of its lines
/// is not stored up to there.
fn ends_boundary(behind: &[u8]) -> Result<bool, FormError> {
    if behind.starts_with(b"--") {
        return Ok(true);
    }
    let blanks = behind.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = behind.get(blanks..).unwrap_or_default();
    let goes_on = !rest.starts_with(b"\r\n") && !matches!(rest, b"" | b"\r" | b"-");
    if goes_on { Err(FormError::Malformed) } else { Ok(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, step: usize) -> Result<(), FormError> {
        let mut tail = Tail::new(Delimiter::of(b"multipart/form-data; boundary=b").expect("a boundary"));
        text.as_bytes().chunks(step).try_for_each(|piece| tail.take(Bytes::copy_from_slice(piece)))
    }

    #[test]
    fn fields_behind_the_file_mean_nothing_and_a_second_file_is_refused() {
        let field = "\r\nContent-Disposition: form-data; name=\"submit\"\r\n\r\nUpload\r\n--b";
        let file = "\r\nContent-Disposition: form-data; name=\"File\"; filename=\"b\"\r\n\r\nbytes\r\n--b";
        for step in 1..80 {
            for ignored in [
                "--\r\n".to_owned(),
                format!("{field}--\r\n"),
                format!("{field}{field}--\r\n{file}"),
                " \t\r\n".to_owned(),
                String::new(),
                "\r\nno head\r\n\r\n".to_owned(),
            ] {
                assert_eq!(taken(&ignored, step), Ok(()), "{ignored}");
            }
            for refused in
                [format!("{file}--\r\n"), format!("{field}{file}"), format!("{field}{field}{file}")]
            {
                assert_eq!(taken(&refused, step), Err(FormError::FileCount { count: 2 }), "{refused}");
            }
            // The file goes on: its boundary is the beginning of a longer line in it.
            for longer in ["oundary of another form", "2\r\n\r\n", " -\r\n", "-x"] {
                assert_eq!(taken(longer, step), Err(FormError::Malformed), "{longer}");
            }
        }
    }

    #[test]
    fn what_stands_behind_the_file_has_a_bound() {
        let rest = |bytes| format!("--\r\n{}", "x".repeat(bytes));
        let max = usize::try_from(FORM_REST_BYTES_MAX).expect("small");
        assert_eq!(taken(&rest(max - 4), 9000), Ok(()));
        assert!(matches!(taken(&rest(max - 3), 9000), Err(FormError::RestTooLong { .. })));
    }
}
