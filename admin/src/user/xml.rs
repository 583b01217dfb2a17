//! Reads the answers of IAM: elements with text or with elements in them.

use std::str::Chars;

use serde_json::{Map, Value};

use super::limits::DEPTH_MAX;

/// An element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// Reads a document; `None` for other text.
    pub fn parse(document: &str) -> Option<Self> {
        let mut text = document.trim();
        if let Some(rest) = text.strip_prefix("<?xml") {
            text = rest.split_once("?>")?.1.trim_start();
        }
        let (element, rest) = element(text, DEPTH_MAX)?;
        rest.trim().is_empty().then_some(element)
    }

    /// Name of the element.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The elements in it.
    pub fn children(&self) -> &[Self] {
        &self.children
    }

    /// The first element of this name in it.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first element whose name ends so: the result of an action.
    pub fn result(&self) -> Option<&Self> {
        self.children.iter().find(|child| child.name.ends_with("Result"))
    }

    /// The members of the list of this name.
    pub fn members(&self, list: &str) -> &[Self] {
        self.child(list).map_or(&[], |list| &list.children)
    }

    /// The text of the element of this name; empty where it has none.
    pub fn text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| &child.text)
    }

    /// The element's own text, without that of its children.
    pub fn own_text(&self) -> &str {
        &self.text
    }

    /// The element as JSON: lists of members, objects, texts.
    pub fn json(&self) -> Value {
        if self.children.is_empty() {
            return Value::String(self.text.clone());
        }
        if self.children.iter().all(|child| child.name == "member") {
            return Value::Array(self.children.iter().map(Self::json).collect());
        }
        let entries = self.children.iter().map(|child| (child.name.clone(), child.json()));
        Value::Object(entries.collect::<Map<_, _>>())
    }
}

/// The element at the beginning of a text, and what follows it.
fn element(text: &str, depth: usize) -> Option<(Element, &str)> {
    let depth = depth.checked_sub(1)?;
    let (head, mut rest) = text.strip_prefix('<')?.split_once('>')?;
    if let Some(name) = head.strip_suffix('/') {
        return Some((Element { name: name.trim_end().to_owned(), ..Element::default() }, rest));
    }
    let name = head.split_whitespace().next()?;
    let mut element = Element { name: name.to_owned(), ..Element::default() };
    loop {
        let (before, tag) = rest.split_at(rest.find('<')?);
        element.text.push_str(&unescaped(before)?);
        if let Some(end) = tag.strip_prefix("</") {
            let (ended, rest) = end.split_once('>')?;
            return (ended == name).then_some((element, rest));
        }
        let (child, behind) = self::element(tag, depth)?;
        element.children.push(child);
        rest = behind;
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(if letter == '&' { reference(&mut letters)? } else { letter });
    }
    Some(plain)
}

fn reference(letters: &mut Chars<'_>) -> Option<char> {
    let (name, rest) = letters.as_str().split_once(';')?;
    let letter = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        name => char::from_u32(name.strip_prefix('#')?.parse().ok()?)?,
    };
    *letters = rest.chars();
    Some(letter)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_read_and_becomes_json() {
        let document = "<ListUsersResponse xmlns=\"https://iam\"><ListUsersResult><Users><member><UserName>a&amp;b\
                        </UserName></member></Users><Marker/><IsTruncated>false</IsTruncated></ListUsersResult>\
                        <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></ListUsersResponse>";
        let answer = Element::parse(document).expect("a document");
        let result = answer.result().expect("a result");
        assert_eq!(result.members("Users")[0].text("UserName"), "a&b");
        let expected = json!({"Users": [{"UserName": "a&b"}], "Marker": "", "IsTruncated": "false"});
        assert_eq!(result.json(), expected);
        for bad in ["", "<a>", "<a></b>", "<a>&x;</a>", "<a></a><b></b>", &"<a>".repeat(99)] {
            assert_eq!(Element::parse(bad), None, "{bad}");
        }
    }
}
