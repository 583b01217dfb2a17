//! Answers in the form of the query API: an element of the action's name around its result, and the id of the
//! request.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sherd_signature::amz_date::AmzDate;

use super::fault::Fault;

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
/// Bytes that stand for themselves in a document that is sent in an answer (RFC 3986).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The two services, with the forms of their documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// IAM.
    Iam,
    /// STS.
    Sts,
}

impl Service {
    /// The service's version, as requests name it.
    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::Iam => "2010-05-08",
            Self::Sts => "2011-06-15",
        }
    }

    /// The service's name in a signature, and before the colon of its permissions.
    #[cfg(test)]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Iam => "iam",
            Self::Sts => "sts",
        }
    }

    const fn namespace(self) -> &'static str {
        match self {
            Self::Iam => "https://iam.amazonaws.com/doc/2010-05-08/",
            Self::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
        }
    }
}

/// The elements of a result; none where the action has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Elements(String);

impl Elements {
    /// One element with others in it.
    pub(crate) fn of(name: &str, fill: impl FnOnce(&mut Self)) -> Self {
        let mut elements = Self::default();
        elements.within(name, fill);
        elements
    }

    /// A list of names: one element with a `member` for each.
    pub(crate) fn of_names<'a>(name: &str, names: impl IntoIterator<Item = &'a String>) -> Self {
        Self::of(name, |list| names.into_iter().for_each(|name| _ = list.text("member", name)))
    }

    /// Bytes of their text.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds other elements behind them.
    pub(crate) fn append(&mut self, others: &Self) -> &mut Self {
        self.0.push_str(&others.0);
        self
    }

    /// Adds an element with text in it.
    pub(crate) fn text(&mut self, name: &str, value: impl fmt::Display) -> &mut Self {
        let value = Escaped(value);
        write!(self.0, "<{name}>{value}</{name}>").expect(TEXT);
        self
    }

    /// Adds an element with others in it.
    pub(crate) fn within(&mut self, name: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        write!(self.0, "<{name}>").expect(TEXT);
        fill(self);
        write!(self.0, "</{name}>").expect(TEXT);
        self
    }

    /// Adds a list: an element with a `member` for each.
    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        entries: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Self, T),
    ) -> &mut Self {
        self.within(name, |list| {
            for entry in entries {
                list.within("member", |member| fill(member, entry));
            }
        })
    }

    /// Adds a time, given in milliseconds since the Unix epoch.
    pub(crate) fn time(&mut self, name: &str, ms: u64) -> &mut Self {
        self.text(name, AmzDate::from_ms(ms).extended())
    }

    /// Adds a policy document, escaped as IAM sends it.
    pub(crate) fn document(&mut self, name: &str, document: &str) -> &mut Self {
        self.text(name, utf8_percent_encode(document, ESCAPED))
    }
}

/// Why writing to a `String` cannot fail.
const TEXT: &str = "a String takes every text";

/// Text in a document.
struct Escaped<T>(T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(EscapingWriter(f), "{}", self.0)
    }
}

struct EscapingWriter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\r' => self.0.write_str("&#13;")?,
                '\t' | '\n' | '\u{20}'..='\u{fffd}' | '\u{10000}'.. => self.0.write_char(letter)?,
                // XML 1.0 has no way to write the others.
                _ => self.0.write_char('\u{fffd}')?,
            }
        }
        Ok(())
    }
}

/// The answer of an action that was done.
pub(crate) fn done(service: Service, action: &str, result: &Elements, id: &str) -> Response<Full<Bytes>> {
    let mut text = format!("<{action}Response xmlns=\"{}\">", service.namespace());
    if !result.0.is_empty() {
        write!(text, "<{action}Result>{}</{action}Result>", result.0).expect(TEXT);
    }
    write!(text, "<ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{action}Response>")
        .expect(TEXT);
    respond(StatusCode::OK, text, id)
}

/// The answer of a refusal.
pub(crate) fn refused(service: Service, fault: &Fault, id: &str) -> Response<Full<Bytes>> {
    let kind = if fault.status.is_server_error() { "Receiver" } else { "Sender" };
    let text = format!(
        "<ErrorResponse xmlns=\"{}\"><Error><Type>{kind}</Type><Code>{}</Code><Message>{}</Message></Error>\
         <RequestId>{id}</RequestId></ErrorResponse>",
        service.namespace(),
        fault.code,
        Escaped(&fault.message)
    );
    respond(fault.status, text, id)
}

fn respond(status: StatusCode, text: String, id: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn body(response: Response<Full<Bytes>>) -> String {
        let body = response.into_body().collect().await.expect("it is whole").to_bytes();
        String::from_utf8(body.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn results_and_refusals_have_the_form_of_the_api() {
        let mut result = Elements::default();
        result.within("User", |user| {
            user.text("UserName", "a<b>&\"\u{1}\u{b}\u{0}\u{fffe}\u{ffff}\u{7f}\u{1f600}")
                .time("CreateDate", 1_764_181_800_000);
        });
        result.list("Tags", ["k"], |tag, key| {
            tag.text("Key", key);
        });
        result.document("Document", "{\"a\": 1}");
        let answer = done(Service::Iam, "GetUser", &result, "id-1");
        assert_eq!(answer.headers()["x-amzn-requestid"], "id-1");
        assert_eq!(
            body(answer).await,
            "<GetUserResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><GetUserResult><User><UserName>\
             a&lt;b&gt;&amp;&quot;\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{7f}\u{1f600}</UserName><CreateDate>2025-11-26T18:30:00Z</CreateDate></User><Tags>\
             <member><Key>k</Key></member></Tags><Document>%7B%22a%22%3A%201%7D</Document></GetUserResult>\
             <ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></GetUserResponse>"
        );
        let nothing = done(Service::Sts, "DeleteUser", &Elements::default(), "id-2");
        assert!(!body(nothing).await.contains("DeleteUserResult"));
        let fault =
            Fault::new("NoSuchEntity", StatusCode::NOT_FOUND, "The user with name a<b cannot be found.");
        let answer = refused(Service::Iam, &fault, "id-3");
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert_eq!(
            body(answer).await,
            "<ErrorResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><Error><Type>Sender</Type><Code>\
             NoSuchEntity</Code><Message>The user with name a&lt;b cannot be found.</Message></Error><RequestId>id-3\
             </RequestId></ErrorResponse>"
        );
    }
}
