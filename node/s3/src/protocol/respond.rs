//! The answer's last step: ids, one form for every error, no body where none belongs.

use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{Response, StatusCode};
use s3s::Body;

use super::aws_chunked::{FRAME_BYTES_MIN, FramingError};
use super::body::BodyError;
use super::checksum;
use super::code::{Code, message_of};
use super::context::RequestId;
use super::operation::Operation;
use super::refusal::{Refusal, element};
use super::xml;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const ERROR_CODE: HeaderName = HeaderName::from_static("x-amz-error-code");
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("x-amz-error-message");
const APPLICATION_XML: HeaderValue = HeaderValue::from_static("application/xml");
/// Seconds after which a client that met overload may come back.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// How s3s' error documents end; what this layer adds goes before it.
const ERROR_END: &[u8] = b"</Error>";

/// What an answer needs to know of its request.
#[derive(Debug)]
pub(super) struct RespondContext<'a> {
    pub(super) request_id: RequestId,
    pub(super) host_id: &'a HeaderValue,
    pub(super) path: &'a str,
    pub(super) is_head: bool,
}

impl RespondContext<'_> {
    /// Answers a refused request.
    pub(super) fn refuse(&self, refusal: &Refusal) -> Response<Body> {
        let mut xml = refusal.open();
        self.close(&mut xml);
        let mut response = Response::new(Body::from(xml));
        *response.status_mut() = refusal.code.status();
        if let Some((kind, name)) = refusal.lacking().filter(|_| self.is_head) {
            say_in_header(&mut response, refusal.code.name(), &format!("{}: {kind} {name}", refusal.message));
        }
        if refusal.code == Code::RequestTimeout {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.finish(&mut response);
        response
    }

    fn close(&self, xml: &mut String) {
        element(xml, "Resource", self.path);
        element(xml, "RequestId", self.request_id.as_str());
        element(xml, "HostId", self.host_id.to_str().unwrap_or_default());
        xml.push_str("</Error>");
    }

    /// Completes an answer of s3s. An operation that wants another status than s3s gives (a HEAD of
    /// a range is 206) puts it into its response's extensions as a `StatusCode`. `details` are elements that belong
    /// to an error. Returns the error's code, when it is one.
    pub(super) fn complete(
        &self,
        response: &mut Response<Body>,
        operation: Operation,
        details: &[(String, String)],
    ) -> Option<String> {
        let mut code = None;
        // Most operations of s3s drop the status that theirs gave; it comes beside the answer.
        if let Some(status) = response.extensions_mut().remove::<StatusCode>() {
            *response.status_mut() = status;
        }
        let status = response.status();
        let document = response.body().bytes();
        if status.is_client_error() || status.is_server_error() {
            if let Some(document) = document.as_deref().and_then(ErrorDocument::parse) {
                *response.body_mut() = Body::from(self.rewrite(&document, details));
                code = Some(document.code);
            }
        } else if operation != Operation::GetObject
            && response.headers().get(CONTENT_TYPE) == Some(&APPLICATION_XML)
            && let Some(mended) = document.as_deref().and_then(|document| match operation {
                Operation::GetObjectAttributes => with_bare_etag(document),
                _ => xml::with_references(document),
            })
        {
            *response.body_mut() = Body::from(mended);
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        self.finish(response);
        code
    }

    /// s3s' document with what it lacks.
    fn rewrite(&self, document: &ErrorDocument, details: &[(String, String)]) -> String {
        let mut xml = String::with_capacity(512);
        xml.push_str(&document.start);
        if !document.has_message {
            element(&mut xml, "Message", message_of(&document.code).unwrap_or(&document.code));
        }
        for (name, text) in details {
            element(&mut xml, name, text);
        }
        self.close(&mut xml);
        xml
    }

    fn finish(&self, response: &mut Response<Body>) {
        let status = response.status();
        let bodiless = self.is_head || matches!(status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
        let is_error = status.is_client_error() || status.is_server_error();
        if bodiless {
            *response.body_mut() = Body::empty();
        }
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.request_id.header());
        headers.insert(HOST_ID, self.host_id.clone());
        if is_error {
            headers.insert(CONTENT_TYPE, APPLICATION_XML);
            headers.remove(CONTENT_LENGTH);
        }
        if bodiless && (is_error || status == StatusCode::NOT_MODIFIED) {
            headers.remove(CONTENT_LENGTH);
            headers.remove(TRANSFER_ENCODING);
        }
        if status == StatusCode::NOT_MODIFIED {
            headers.remove(CONTENT_TYPE);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE && !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
    }
}

/// Says in headers what a HEAD's answer has no document for, in those that AWS uses for websites.
fn say_in_header(response: &mut Response<Body>, code: &'static str, message: &str) {
    let visible: String = message
        .chars()
        .map(|character| if matches!(character, ' '..='~') { character } else { '?' })
        .collect();
    response.headers_mut().insert(ERROR_CODE, HeaderValue::from_static(code));
    if let Ok(message) = HeaderValue::try_from(visible) {
        response.headers_mut().insert(ERROR_MESSAGE, message);
    }
}

/// s3s' document with the entity tag as AWS writes it in this one: without quotes.
fn with_bare_etag(document: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(document).ok()?;
    let (before, quoted) = text.split_once("<ETag>\"")?;
    let (etag, after) = quoted.split_once("\"</ETag>")?;
    Some([before, "<ETag>", etag, "</ETag>", after].concat().into_bytes())
}

/// An error document of s3s, up to its end.
struct ErrorDocument {
    code: String,
    has_message: bool,
    start: String,
}

impl ErrorDocument {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let start = std::str::from_utf8(bytes.strip_suffix(ERROR_END)?).ok()?;
        let (_, after) = start.split_once("<Code>")?;
        let (code, _) = after.split_once("</Code>")?;
        Some(Self {
            code: code.to_owned(),
            has_message: start.contains("<Message>"),
            start: start.to_owned(),
        })
    }
}

impl From<&BodyError> for Refusal {
    fn from(error: &BodyError) -> Self {
        match error {
            BodyError::Broken { .. } | BodyError::Truncated { .. } => Self::new(Code::IncompleteBody),
            BodyError::TooLong => {
                Self::says(Code::IncompleteBody, "The request body is longer than it was declared to be")
            }
            BodyError::Slow => Self::new(Code::RequestTimeout),
            BodyError::Digest { declared, computed } => Self::new(Code::XAmzContentSHA256Mismatch)
                .with("ClientComputedContentSHA256", hex::encode(declared))
                .with("S3ComputedContentSHA256", hex::encode(computed)),
            BodyError::Framing(error) => framing(*error),
        }
    }
}

fn framing(error: FramingError) -> Refusal {
    match error {
        FramingError::Malformed => Refusal::new(Code::IncompleteBody),
        FramingError::Trailing => {
            Refusal::says(Code::InvalidRequest, "Bytes follow the end of the aws-chunked request body")
        }
        FramingError::FrameTooLong { bytes } => Refusal::says(
            Code::InvalidChunkSizeError,
            "A signed chunk is longer than the maximum allowed size",
        )
        .with("BadChunkSize", bytes.to_string()),
        FramingError::FrameTooShort => {
            Refusal::new(Code::InvalidChunkSizeError).with("MinChunkSize", FRAME_BYTES_MIN.to_string())
        }
        FramingError::Signature => Refusal::new(Code::SignatureDoesNotMatch),
        FramingError::Trailer => Refusal::new(Code::MalformedTrailerError),
        FramingError::TrailerValue { algorithm } => Refusal::says(
            Code::InvalidRequest,
            format!("Value for {} trailing header is invalid.", checksum::header(algorithm)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;

    static HOST: HeaderValue = HeaderValue::from_static("node-0");

    fn asked(is_head: bool) -> RespondContext<'static> {
        RespondContext { request_id: RequestId::from_u64(0xab), host_id: &HOST, path: "/b/<k>", is_head }
    }

    fn answer(status: u16, body: &'static str) -> Response<Body> {
        let mut response = Response::new(Body::from(bytes::Bytes::from_static(body.as_bytes())));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        response
    }

    fn text(response: &Response<Body>) -> String {
        String::from_utf8(response.body().bytes().expect("in memory").to_vec()).expect("text")
    }

    #[test]
    fn errors_of_s3s_get_what_they_lack() {
        let mut response = answer(404, "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>");
        assert_eq!(
            asked(false).complete(&mut response, Operation::ListObjects, &[]).as_deref(),
            Some("NoSuchKey")
        );
        assert_eq!(
            text(&response),
            "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code>\
             <Message>The specified key does not exist.</Message><Resource>/b/&lt;k&gt;</Resource>\
             <RequestId>00000000000000AB</RequestId><HostId>node-0</HostId></Error>"
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/xml");
        assert_eq!(response.headers()[REQUEST_ID], "00000000000000AB");
        assert!(!response.headers().contains_key(CONTENT_LENGTH), "the old length is gone");
    }

    #[test]
    fn messages_of_s3s_stay() {
        let mut response = answer(400, "<Error><Code>Own</Code><Message>m</Message></Error>");
        let details = [("Condition".to_owned(), "If-<Match>".to_owned())];
        asked(false).complete(&mut response, Operation::ListObjects, &details);
        let expected =
            "<Error><Code>Own</Code><Message>m</Message><Condition>If-&lt;Match&gt;</Condition><Resource>";
        assert!(text(&response).starts_with(expected));
    }

    #[test]
    fn heads_and_unmodified_answers_have_no_body() {
        let mut head = answer(404, "<Error><Code>NoSuchKey</Code></Error>");
        assert_eq!(
            asked(true).complete(&mut head, Operation::ListObjects, &[]).as_deref(),
            Some("NoSuchKey")
        );
        assert!(head.body().is_end_stream());
        let mut unmodified = answer(304, "<Error><Code>NotModified</Code></Error>");
        asked(false).complete(&mut unmodified, Operation::ListObjects, &[]);
        assert!(unmodified.body().is_end_stream());
        assert!(!unmodified.headers().contains_key(CONTENT_LENGTH));
        assert!(!unmodified.headers().contains_key(CONTENT_TYPE));
        let mut found = answer(200, "");
        found.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(7));
        asked(true).complete(&mut found, Operation::ListObjects, &[]);
        assert_eq!(found.headers()[CONTENT_LENGTH], "7", "a HEAD says how long the object is");
    }

    #[test]
    fn control_characters_in_documents_are_references() {
        let mut response = answer(200, "<Key>a\rb\u{1}\tc\n</Key>");
        response.headers_mut().insert(CONTENT_TYPE, APPLICATION_XML);
        asked(false).complete(&mut response, Operation::ListObjects, &[]);
        assert_eq!(text(&response), "<Key>a&#xD;b&#x1;\tc\n</Key>");
        let mut object = answer(200, "a\rb");
        object.headers_mut().insert(CONTENT_TYPE, APPLICATION_XML);
        asked(false).complete(&mut object, Operation::GetObject, &[]);
        assert_eq!(text(&object), "a\rb", "an object's bytes are its own");
    }

    #[test]
    fn the_entity_tag_among_attributes_has_no_quotes() {
        let mut response = answer(200, "<A><ETag>\"0123-2\"</ETag><ObjectSize>7</ObjectSize></A>");
        response.headers_mut().insert(CONTENT_TYPE, APPLICATION_XML);
        asked(false).complete(&mut response, Operation::GetObjectAttributes, &[]);
        assert_eq!(text(&response), "<A><ETag>0123-2</ETag><ObjectSize>7</ObjectSize></A>");
    }

    #[test]
    fn a_status_beside_the_answer_is_the_status() {
        let mut response = answer(200, "");
        response.extensions_mut().insert(StatusCode::PARTIAL_CONTENT);
        asked(true).complete(&mut response, Operation::ListObjects, &[]);
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
    }

    #[test]
    fn overload_says_when_to_come_back() {
        let mut response = answer(503, "<Error><Code>SlowDown</Code></Error>");
        asked(false).complete(&mut response, Operation::ListObjects, &[]);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        let mut response = answer(503, "");
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(9));
        asked(false).complete(&mut response, Operation::ListObjects, &[]);
        assert_eq!(response.headers()[RETRY_AFTER], "9");
    }

    #[test]
    fn slow_bodies_close_the_connection() {
        let response = asked(false).refuse(&Refusal::from(&BodyError::Slow));
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()[CONNECTION], "close");
    }
}
