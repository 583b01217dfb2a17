//! The small documents of S3 and IAM as trees of elements. Attributes and namespaces say nothing here.

use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_xml_entity};
use quick_xml::events::Event;

use crate::limits;

/// An element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element {
    /// The name without its prefix.
    pub name: String,
    /// The text right below it.
    pub text: String,
    /// The elements right below it.
    pub children: Vec<Element>,
}

impl Element {
    /// Returns the first element of this name, from the outside in.
    pub fn find(&self, name: &str) -> Option<&Self> {
        if self.name == name {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(name))
    }

    /// Returns the children of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Returns the text of the first child of this name.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name == name).map(|child| child.text.as_str())
    }

    /// Returns the texts of the children of this name.
    pub fn texts_of(&self, name: &str) -> Vec<String> {
        self.all(name).map(|child| child.text.clone()).collect()
    }
}

/// Reads a document; nothing where it is malformed, or deeper than [`limits::XML_DEPTH_MAX`].
pub fn parse(bytes: &[u8]) -> Option<Element> {
    let mut reader = Reader::from_str(std::str::from_utf8(bytes).ok()?);
    let mut open: Vec<Element> = vec![Element::default()];
    let named =
        |name: &[u8]| Element { name: String::from_utf8_lossy(name).into_owned(), ..Element::default() };
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) if open.len() <= limits::XML_DEPTH_MAX => {
                open.push(named(start.local_name().as_ref()));
            }
            Event::Start(_) => return None,
            Event::Empty(start) => open.last_mut()?.children.push(named(start.local_name().as_ref())),
            Event::End(_) => {
                let ended = open.pop()?;
                open.last_mut()?.children.push(ended);
            }
            Event::Text(text) => open.last_mut()?.text.push_str(&text.decode().ok()?),
            Event::CData(text) => open.last_mut()?.text.push_str(&text.decode().ok()?),
            Event::GeneralRef(reference) => {
                let text = &mut open.last_mut()?.text;
                match reference.resolve_char_ref().ok()? {
                    Some(character) => text.push(character),
                    None => text.push_str(resolve_xml_entity(&reference.decode().ok()?)?),
                }
            }
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    let [document] = open.as_mut_slice() else { return None };
    document.children.pop()
}

/// Writes an element with a text.
pub fn leaf(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

/// Writes an element around others.
pub fn branch(name: &str, children: impl IntoIterator<Item = String>) -> String {
    format!("<{name}>{}</{name}>", children.into_iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_as_it_was_written() {
        let text = "a < b & \"c\" \u{e9}";
        let written = branch("Tagging", [branch("TagSet", [branch("Tag", [leaf("Key", text)])])]);
        let parsed = parse(written.as_bytes()).expect("well formed");
        assert_eq!(parsed.find("Key").map(|key| key.text.as_str()), Some(text));
    }

    #[test]
    fn prefixes_references_and_cdata_are_read() {
        let text = "<?xml version=\"1.0\"?><s:A xmlns:s=\"u\"><B>&#x41;&amp;<![CDATA[<]]></B><B/></s:A>";
        let parsed = parse(text.as_bytes()).expect("well formed");
        assert_eq!(parsed.name, "A");
        assert_eq!(parsed.texts_of("B"), ["A&<", ""]);
    }

    #[test]
    fn what_is_no_document_is_nothing() {
        let deep = "<a>".repeat(100);
        for text in ["", "words", "<a>", "<a></b>", "<a>&unknown;</a>", &deep] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[0xff, 0xfe]), None);
    }
}
