//! The document of a request -> the type that it should be.

use s3s::xml::{DeError, DeResult, Deserialize, Deserializer};

use crate::wire::refusal::{Code, Refusal};

/// Reads a document.
///
/// # Errors
/// MalformedXML for any other.
pub(crate) fn of<T: for<'xml> Deserialize<'xml>>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut parser = Deserializer::new(bytes);
    let read = T::deserialize(&mut parser).and_then(|read| parser.expect_eof().map(|()| read));
    read.map_err(|_| Refusal::new(Code::MalformedXML))
}

/// Reads a document that must be there.
///
/// # Errors
/// MissingRequestBodyError without a document, and as [`of`].
pub(crate) fn required<T: for<'xml> Deserialize<'xml>>(bytes: Option<bytes::Bytes>) -> Result<T, Refusal> {
    of(&bytes.ok_or_else(|| Refusal::new(Code::MissingRequestBodyError))?)
}

/// Fills a field with the value of an element that may be there once.
///
/// # Errors
/// For the second one.
pub(crate) fn once<T>(field: &mut Option<T>, value: T) -> DeResult {
    if field.replace(value).is_some() { Err(DeError::DuplicateField) } else { Ok(()) }
}
