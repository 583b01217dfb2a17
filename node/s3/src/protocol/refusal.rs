//! A request that is refused, and the XML that says so.
//!
//! Every error that this layer or s3s answers with leaves in one form: Code, Message, what the
//! code adds, Resource, RequestId, HostId.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::code::Code;
use super::xml::needs_reference;

/// A refusal: a code, a message, and the elements that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error code, which brings its status.
    pub code: Code,
    /// What it says; the code's own message unless the case has a better one.
    pub message: Cow<'static, str>,
    /// Further elements of the document, in order.
    pub details: Vec<(&'static str, String)>,
}

impl Refusal {
    /// A refusal with the code's own message.
    pub fn new(code: Code) -> Self {
        Self { code, message: Cow::Borrowed(code.message()), details: Vec::new() }
    }

    /// A refusal with a message of its own.
    pub fn says(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// Adds an element.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// What was asked for that is not here, where that is the reason: its kind and its name.
    pub(super) fn lacking(&self) -> Option<(&'static str, &str)> {
        let (kind, name) = self.details.first().filter(|_| self.code == Code::NotImplemented)?;
        Some((kind, name))
    }

    /// Whether the reason is the region that the request was signed for.
    pub(super) fn is_for_region(&self) -> bool {
        self.details.iter().any(|(name, _)| *name == "Region")
    }

    /// Writes the document up to, and without, Resource.
    pub(super) fn open(&self) -> String {
        let mut xml = String::with_capacity(512);
        xml.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
        element(&mut xml, "Code", self.code.name());
        element(&mut xml, "Message", &self.message);
        for (name, value) in &self.details {
            element(&mut xml, name, value);
        }
        xml
    }
}

/// Appends an element with text.
pub(super) fn element(xml: &mut String, name: &str, text: &str) {
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
        let xml = Refusal::new(Code::EntityTooLarge).with("MaxSizeAllowed", "5").open();
        assert!(xml.ends_with("</Message><MaxSizeAllowed>5</MaxSizeAllowed>"), "{xml}");
        assert!(xml.contains("<Error><Code>EntityTooLarge</Code><Message>Your proposed upload"));
    }
}
