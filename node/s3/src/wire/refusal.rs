//! A refusal of a request and its XML: Code, Message, elements of the code, Resource, RequestId, HostId.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};

use crate::wire::code::Code;
use crate::wire::xml::needs_reference;

/// The side that refuses a request. Their documents differ in nothing that a parser sees, and in these bytes
/// since the first release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The layer before the operations: its documents have a line end behind the declaration.
    Layer,
    /// An operation: the apostrophes of its message are escaped.
    Operation,
}

/// A refusal: a code, a message, and the elements that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error code, which brings its status.
    pub code: Code,
    /// The message; the code's own unless the case has a better one.
    pub message: Cow<'static, str>,
    /// Further elements of the document, in order.
    pub details: Vec<(&'static str, String)>,
    /// Headers of the answer, beside those that every answer has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// A refusal with the code's own message.
    pub fn new(code: Code) -> Self {
        Self::says(code, code.message())
    }

    /// A refusal with a message of its own.
    pub fn says(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), details: Vec::new(), headers: Vec::new() }
    }

    /// Names an argument that cannot be used, and what was sent.
    pub fn bad_argument(message: impl Into<Cow<'static, str>>, name: &str, value: &str) -> Self {
        Self::says(Code::InvalidArgument, message).with("ArgumentName", name).with("ArgumentValue", value)
    }

    /// Says that a header has to be there.
    pub fn missing_header(name: &str) -> Self {
        Self::says(Code::InvalidRequest, format!("missing header: {name}"))
    }

    /// Says that a header cannot have its value.
    pub fn bad_header(name: &str, value: &HeaderValue) -> Self {
        let text = String::from_utf8_lossy(value.as_bytes());
        Self::bad_argument(format!("invalid header: {name}: {value:?}"), name, &text)
    }

    /// Says that `Content-MD5` differs. S3 writes the one in hexadecimal digits and the other in base64.
    pub fn bad_md5(expected: &[u8; 16], computed: &[u8; 16]) -> Self {
        Self::says(Code::BadDigest, "The Content-MD5 you specified did not match what we received.")
            .with("CalculatedDigest", STANDARD.encode(computed))
            .with("ExpectedDigest", hex::encode(expected))
    }

    /// Adds an element.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The kind and the name of a lacking feature, where that is the reason.
    pub(crate) fn lacking(&self) -> Option<(&'static str, &str)> {
        let (kind, name) = self.details.first().filter(|_| self.code == Code::NotImplemented)?;
        Some((kind, name))
    }

    /// Whether the reason is the region that the request was signed for.
    pub(crate) fn is_for_region(&self) -> bool {
        self.details.iter().any(|(name, _)| *name == "Region")
    }

    /// Writes the document up to, and without, Resource.
    pub(crate) fn open(&self, side: Side) -> String {
        let mut xml = String::with_capacity(512);
        xml.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
        if side == Side::Layer {
            xml.push('\n');
        }
        xml.push_str("<Error>");
        element(&mut xml, "Code", self.code.name());
        match side {
            Side::Layer => element(&mut xml, "Message", &self.message),
            Side::Operation => {
                xml.push_str("<Message>");
                for (at, piece) in self.message.split('\'').enumerate() {
                    xml.push_str(if at > 0 { "&apos;" } else { "" });
                    escape(&mut xml, piece);
                }
                xml.push_str("</Message>");
            }
        }
        for (name, value) in &self.details {
            element(&mut xml, name, value);
        }
        xml
    }
}

/// Appends an element with text.
pub(crate) fn element(xml: &mut String, name: &str, text: &str) {
    xml.push('<');
    xml.push_str(name);
    xml.push('>');
    escape(xml, text);
    xml.push_str("</");
    xml.push_str(name);
    xml.push('>');
}

/// Appends text, escaped; control characters as references, as AWS writes them.
fn escape(xml: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            _ if needs_reference(character) => {
                write!(xml, "&#x{:X};", u32::from(character)).expect("a string takes everything");
            }
            _ => xml.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut xml = String::new();
        element(&mut xml, "A", "<b>&\"\r\u{1}é");
        assert_eq!(xml, "<A>&lt;b&gt;&amp;&quot;&#xD;&#x1;é</A>");
    }

    #[test]
    fn a_document_opens_with_code_message_and_details() {
        let xml = Refusal::new(Code::EntityTooLarge).with("MaxSizeAllowed", "5").open(Side::Layer);
        assert!(xml.ends_with("</Message><MaxSizeAllowed>5</MaxSizeAllowed>"), "{xml}");
        assert!(xml.contains("?>\n<Error><Code>EntityTooLarge</Code><Message>Your proposed upload"));
        let xml = Refusal::says(Code::InvalidPart, "the part's tag").open(Side::Operation);
        assert!(
            xml.ends_with("?><Error><Code>InvalidPart</Code><Message>the part&apos;s tag</Message>"),
            "{xml}"
        );
    }
}
