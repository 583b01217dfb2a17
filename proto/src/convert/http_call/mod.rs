//! HTTP requests of operators and admins, and their answers, as they travel in calls.
//!
//! A request has a path and a query, and no host: the node that answers it is the host. Headers that name the
//! caller, give the length of the body or control a connection are refused; the length is that of the body
//! that came.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::{ConvertError, FieldFault, at_most};
use crate::limits::{CALL_BODY_BYTES_MAX, CALL_HEADER_BYTES_MAX, CALL_HEADERS_MAX, CALL_URI_BYTES_MAX};
use crate::v1;

/// Headers that no request of a call has.
const REFUSED: [HeaderName; 12] = [
    AUTHORIZATION,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("x-amz-content-sha256"),
    HeaderName::from_static("x-amz-decoded-content-length"),
    HeaderName::from_static("x-amz-security-token"),
];

/// The service that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpService {
    /// S3.
    S3,
    /// IAM's query API, and STS's.
    Iam,
}

/// The message of a request.
///
/// # Errors
/// [`ConvertError`] when the request is longer than a call may be.
pub fn request_to_wire(
    sender: v1::Sender,
    service: HttpService,
    request: Request<Bytes>,
) -> Result<v1::CallRequest, ConvertError> {
    let (head, body) = request.into_parts();
    at_most(body.len(), CALL_BODY_BYTES_MAX, "body of a call")?;
    let service = match service {
        HttpService::S3 => v1::CallService::S3,
        HttpService::Iam => v1::CallService::Iam,
    };
    let uri = head.uri.path_and_query().map_or("/", |uri| uri.as_str());
    Ok(v1::CallRequest {
        sender: Some(sender),
        service: service.into(),
        method: head.method.as_str().to_owned(),
        uri: uri.to_owned(),
        headers: headers_to_wire(&head.headers)?,
        body,
    })
}

/// The request of a message, and what it is for. Its sender is checked before. The request has a host and the
/// length of its body.
///
/// # Errors
/// [`ConvertError`] for a message that makes no request, is longer than a call may be, or has a header that
/// is refused.
pub fn request_from_wire(message: v1::CallRequest) -> Result<(HttpService, Request<Bytes>), ConvertError> {
    let v1::CallRequest { sender: _, service, method, uri, headers, body } = message;
    let service = match v1::CallService::try_from(service) {
        Ok(v1::CallService::S3) => HttpService::S3,
        Ok(v1::CallService::Iam) => HttpService::Iam,
        Ok(v1::CallService::Unspecified) | Err(_) => {
            return Err(ConvertError::missing("service of a call"));
        }
    };
    at_most(body.len(), CALL_BODY_BYTES_MAX, "body of a call")?;
    at_most(uri.len(), CALL_URI_BYTES_MAX, "uri of a call")?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| malformed("method of a call"))?;
    let uri = Uri::try_from(uri).map_err(|_| malformed("uri of a call"))?;
    if uri.authority().is_some() || !uri.path().starts_with('/') {
        return Err(malformed("uri of a call"));
    }
    let mut headers = headers_from_wire(headers)?;
    if REFUSED.iter().any(|name| headers.contains_key(name)) {
        return Err(malformed("headers of a call"));
    }
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let mut request = Request::new(body);
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    Ok((service, request))
}

/// The message of an answer.
///
/// # Errors
/// [`ConvertError`] when the answer is longer than that of a call may be.
pub fn reply_to_wire(sender: v1::Sender, reply: Response<Bytes>) -> Result<v1::CallReply, ConvertError> {
    let (head, body) = reply.into_parts();
    at_most(body.len(), CALL_BODY_BYTES_MAX, "answer of a call")?;
    Ok(v1::CallReply {
        sender: Some(sender),
        status: head.status.as_u16().into(),
        headers: headers_to_wire(&head.headers)?,
        body,
    })
}

/// The answer of a message.
///
/// # Errors
/// [`ConvertError`] for a message that makes no answer, or is longer than that of a call may be.
pub fn reply_from_wire(message: v1::CallReply) -> Result<Response<Bytes>, ConvertError> {
    let v1::CallReply { sender: _, status, headers, body } = message;
    at_most(body.len(), CALL_BODY_BYTES_MAX, "answer of a call")?;
    let range = ConvertError::range("status of a call", status);
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let mut reply = Response::new(body);
    (*reply.status_mut(), *reply.headers_mut()) = (status.ok_or(range)?, headers_from_wire(headers)?);
    Ok(reply)
}

const fn malformed(field: &'static str) -> ConvertError {
    ConvertError { field, fault: FieldFault::Malformed }
}

fn headers_to_wire(headers: &HeaderMap) -> Result<Vec<v1::CallHeader>, ConvertError> {
    let header = |(name, value): (&HeaderName, &HeaderValue)| v1::CallHeader {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    let headers: Vec<_> = headers.iter().map(header).collect();
    check_size(&headers)?;
    Ok(headers)
}

fn headers_from_wire(messages: Vec<v1::CallHeader>) -> Result<HeaderMap, ConvertError> {
    check_size(&messages)?;
    let mut headers = HeaderMap::with_capacity(messages.len());
    for v1::CallHeader { name, value } in messages {
        let name = HeaderName::try_from(name).map_err(|_| malformed("headers of a call"))?;
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| malformed("headers of a call"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn check_size(headers: &[v1::CallHeader]) -> Result<(), ConvertError> {
    at_most(headers.len(), CALL_HEADERS_MAX, "headers of a call")?;
    let bytes = headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    at_most(bytes, CALL_HEADER_BYTES_MAX, "headers of a call")
}

#[cfg(test)]
mod tests;
