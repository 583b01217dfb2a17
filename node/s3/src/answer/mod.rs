//! Answers of operations: an XML document, headers, or nothing.

pub(crate) mod body;
mod failure;
pub(crate) mod location;

use std::io;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use s3s::Body;
use s3s::xml::{Serialize, Serializer};

use crate::wire::refusal::{Code, Refusal};
use crate::wire::xml;

pub use failure::{Failure, Outcome};

/// The answer of an operation.
pub type Response = http::Response<Body>;

/// The type of every document.
pub const APPLICATION_XML: HeaderValue = HeaderValue::from_static("application/xml");
/// The header that says which version an answer is about.
pub const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");
/// The one version that there is.
pub const NULL: HeaderValue = HeaderValue::from_static("null");
/// The namespace of documents.
pub const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// Bytes that most documents fit in.
const DOCUMENT_BYTES: usize = 256;

/// An answer without a body.
pub fn empty(status: StatusCode, headers: HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Says that the request is done, with nothing to tell of it.
pub fn ok() -> Response {
    empty(StatusCode::OK, HeaderMap::new())
}

/// Says that the request is done, and that nothing is left to show.
pub fn no_content() -> Response {
    empty(StatusCode::NO_CONTENT, HeaderMap::new())
}

/// The same answer, which says the null version where that was asked for by name.
pub(crate) fn of_version(mut response: Response, null_version: bool) -> Response {
    if null_version {
        response.headers_mut().insert(VERSION_ID, NULL);
    }
    response
}

/// An answer whose body is a document. Characters that XML does not have are references in it.
///
/// # Errors
/// InternalError when it cannot be written.
pub fn document(value: &impl Serialize) -> Outcome<Response> {
    let mut bytes = Vec::with_capacity(DOCUMENT_BYTES);
    let mut serializer = Serializer::new(xml::ReferenceWriter::new(&mut bytes));
    serializer.decl().and_then(|()| value.serialize(&mut serializer)).map_err(|error| {
        tracing::error!(error = %io::Error::other(error), "a document could not be written");
        Refusal::new(Code::InternalError)
    })?;
    drop(serializer);
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, APPLICATION_XML);
    Ok(response)
}

/// A document as text, without its first line.
#[cfg(test)]
pub(crate) fn text(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::new(&mut bytes)).expect("a vector takes all bytes");
    String::from_utf8(bytes).expect("a document is text")
}
