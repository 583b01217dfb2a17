//! The characters that a document of XML 1.0 has, on its way in and on its way out.
//!
//! A key may have characters that XML has no way to write. A list of keys to delete may still come with
//! them, in plain or as a reference: a key that can be put and listed can be deleted. Any other document that
//! comes with one is malformed. Answers have them as references, which not every parser takes; a
//! client that wants to read such keys lists them with `encoding-type=url`.

use std::borrow::Cow;
use std::io;

use bytes::Bytes;

/// Begins a CDATA section. It ends with `]]>`, and between them nothing is a mark or a reference.
const SECTION: &str = "<![CDATA[";

/// Whether XML 1.0 has a character (its `Char`).
const fn is_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Whether a character in text is written as a reference: every parser makes a line feed of `\r`.
pub(crate) const fn needs_reference(character: char) -> bool {
    character == '\r' || !is_character(character)
}

/// Whether a document that came, and has no CDATA sections, is text and has only characters of XML 1.0.
pub(crate) fn is_text(document: &[u8]) -> bool {
    std::str::from_utf8(document)
        .is_ok_and(|text| text.chars().all(is_character) && has_good_references(text))
}

/// A document whose CDATA sections are plain text: the parser passes over them, and would take
/// `a<![CDATA[b]]>` for `a`. In what comes out nothing looks like a section, so comments and instructions go,
/// too. `None` where the document is not text, where markup does not end, for a document type beside a
/// section, and where the text has more than `bytes_max` bytes.
pub(crate) fn with_sections_as_text(document: Bytes, bytes_max: usize) -> Option<Bytes> {
    let text = std::str::from_utf8(&document).ok()?;
    if !text.contains(SECTION) {
        return Some(document);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, markup) = rest.split_at(at);
        plain.push_str(before);
        rest = if let Some(section) = markup.strip_prefix(SECTION) {
            let (literal, behind) = section.split_once("]]>")?;
            if plain.len() + escaped_bytes(literal) + behind.len() > bytes_max {
                return None;
            }
            push_escaped(&mut plain, literal);
            behind
        } else if let Some(comment) = markup.strip_prefix("<!--") {
            comment.split_once("-->")?.1
        } else if let Some(instruction) = markup.strip_prefix("<?") {
            instruction.split_once("?>")?.1
        } else {
            let (tag, behind) = markup.split_at(tag_bytes(markup)?);
            plain.push_str(tag);
            behind
        };
    }
    plain.push_str(rest);
    Some(plain.into())
}

/// How many bytes [`with_sections_as_text`] adds to a document at most.
pub(crate) fn growth_max(document: &[u8]) -> u64 {
    if !std::str::from_utf8(document).is_ok_and(|text| text.contains(SECTION)) {
        return 0;
    }
    escapes_bytes(document) as u64
}

/// Counts the elements of a name, in any namespace, and no further than one more than `most`. One in a
/// comment is counted, too.
pub(crate) fn count_elements(document: &[u8], name: &str, most: usize) -> usize {
    let tags = document.split(|byte| *byte == b'<').skip(1);
    let is_named = |tag: &&[u8]| {
        let end = tag.iter().position(|byte| matches!(byte, b'>' | b'/') || byte.is_ascii_whitespace());
        let full = tag.get(..end.unwrap_or(tag.len())).unwrap_or_default();
        full.rsplit(|byte| *byte == b':').next() == Some(name.as_bytes())
    };
    tags.filter(is_named).take(most.saturating_add(1)).count()
}

/// Bytes of what [`push_escaped`] adds.
fn escaped_bytes(literal: &str) -> usize {
    literal.len() + escapes_bytes(literal.as_bytes())
}

/// Bytes that [`push_escaped`] adds to a text.
fn escapes_bytes(text: &[u8]) -> usize {
    let more = text.iter().map(|byte| match byte {
        b'&' => "amp;".len(),
        b'<' | b'>' => "lt;".len(),
        _ => 0,
    });
    more.sum()
}

/// Adds text in which nothing is a mark, and nothing a reference.
fn push_escaped(plain: &mut String, literal: &str) {
    for character in literal.chars() {
        match character {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            other => plain.push(other),
        }
    }
}

/// Bytes of the tag at the start of a text, which may have `>` between quotes and `<` nowhere.
fn tag_bytes(markup: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in markup.char_indices().skip(1) {
        match (quote, character) {
            (None, '>') => return Some(at + 1),
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), closing) if open == closing => quote = None,
            (_, '<') => return None,
            (None, '!') if at == 1 => return None,
            _ => {}
        }
    }
    None
}

/// Whether every numeric reference of a text is to a character of XML 1.0. A malformed reference
/// is left to the parser, which refuses it.
fn has_good_references(text: &str) -> bool {
    text.split("&#").skip(1).all(|behind| {
        let Some((digits, _)) = behind.split_once(';') else { return true };
        referenced(digits).is_some_and(is_character)
    })
}

/// The character of a numeric reference, by what stands between its marks.
fn referenced(digits: &str) -> Option<char> {
    let (digits, radix) = match digits.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    // `+5` is a number to Rust and none to XML.
    let are_digits = digits.chars().all(|digit| digit.is_digit(radix));
    let number = are_digits.then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    number.and_then(char::from_u32)
}

/// A list of keys as the parser can read it, which takes every character and not every reference: those that
/// it refuses are replaced by their characters. It has no CDATA sections. `None` where it is not text.
pub(crate) fn with_plain_characters(document: Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(&document).ok()?;
    let mut pieces = text.split("&#");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    if plain.len() == text.len() {
        return Some(document);
    }
    plain.reserve(text.len() - plain.len());
    for behind in pieces {
        let reference = behind.split_once(';').and_then(|(digits, rest)| Some((referenced(digits)?, rest)));
        match reference {
            // Marks of XML's own, such as `<`, are not among these characters.
            Some((character, rest)) if !is_character(character) || character > '\u{FFFF}' => {
                plain.push(character);
                plain.push_str(rest);
            }
            _ => {
                plain.push_str("&#");
                plain.push_str(behind);
            }
        }
    }
    Some(plain.into())
}

/// Writes text with references where it has characters that need one, and passes all other bytes on.
#[derive(Debug)]
pub(crate) struct ReferenceWriter<W>(W);

impl<W: io::Write> ReferenceWriter<W> {
    /// Writes to `inner`. Each write has whole characters.
    pub(crate) const fn new(inner: W) -> Self {
        Self(inner)
    }
}

impl<W: io::Write> io::Write for ReferenceWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match with_references(bytes) {
            Some(escaped) => self.0.write_all(&escaped)?,
            None => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Text with references where it has characters that need one; nothing where it has none.
fn with_references(document: &[u8]) -> Option<Vec<u8>> {
    let may_need = |window: &[u8]| match window {
        [byte, ..] if *byte < b' ' => !matches!(byte, b'\t' | b'\n'),
        [0xEF, 0xBF, last, ..] => *last >= 0xBE,
        _ => false,
    };
    let first = (0..document.len()).find(|at| document.get(*at..).is_some_and(may_need))?;
    let (clean, rest) = document.split_at(first);
    let mut escaped = Vec::with_capacity(document.len() + 64);
    escaped.extend_from_slice(clean);
    let rest: Cow<'_, str> = String::from_utf8_lossy(rest);
    let mut buffer = [0; 4];
    for character in rest.chars() {
        if needs_reference(character) {
            escaped.extend_from_slice(format!("&#x{:X};", u32::from(character)).as_bytes());
        } else {
            escaped.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_by_their_names() {
        let document = "<C xmlns:a='x'><Part><PartNumber>1</PartNumber></Part><a:Part b='c'/><Part\n/></C>";
        assert_eq!(count_elements(document.as_bytes(), "Part", 10), 3);
        assert_eq!(count_elements(document.as_bytes(), "Part", 1), 2, "one more than the most is enough");
        assert_eq!(count_elements(b"Part> a < Part", "Part", 10), 0);
    }

    #[test]
    fn no_document_grows_by_more_than_is_told() {
        for document in ["<Key>a</Key>", "<Key><![CDATA[&&<>&]]></Key>", "<![CDATA[&amp;]]>&lt;<!-- & -->"] {
            let plain =
                with_sections_as_text(Bytes::from_static(document.as_bytes()), 1 << 20).expect("text");
            let growth = growth_max(document.as_bytes());
            assert!(plain.len() as u64 <= document.len() as u64 + growth, "{document}");
            assert_eq!(growth > 0, document.contains(SECTION), "{document}");
        }
    }

    #[test]
    fn a_document_has_the_characters_of_xml() {
        for good in ["<Key>a\t\n\r</Key>", "<Key>&#xD;&#13;&#x10FFFF;\u{FFFD}</Key>", "", "&amp;#1;"] {
            assert!(is_text(good.as_bytes()), "{good}");
        }
        for bad in [
            "<Key>\u{1}</Key>",
            "<Key>\u{FFFF}</Key>",
            "<Key>&#x1;</Key>",
            "<Key>&#1;</Key>",
            "<Key>&#xFFFE;</Key>",
            "<Key>&#xD800;</Key>",
            "<Key>&#0;</Key>",
            "<Key>&#99999999999;</Key>",
            "<Key>&#+65;</Key>",
        ] {
            assert!(!is_text(bad.as_bytes()), "{bad}");
        }
        assert!(!is_text(b"<Key>\xff</Key>"));
    }

    #[test]
    fn a_section_is_text_in_which_nothing_is_a_mark_or_a_reference() {
        let plain = |text: &str| {
            let plain = with_sections_as_text(Bytes::copy_from_slice(text.as_bytes()), 100)?;
            Some(String::from_utf8(plain.to_vec()).expect("text"))
        };
        for (written, read) in [
            ("<Key>a<![CDATA[b]]>c</Key>", "<Key>abc</Key>"),
            ("<Key><![CDATA[a&#1;b&amp;]]>&#1;</Key>", "<Key>a&amp;#1;b&amp;amp;&#1;</Key>"),
            ("<![CDATA[]]]]><![CDATA[>]]><![CDATA[]]>", "]]&gt;"),
            ("<Key><![CDATA[</Key><Key>]]></Key>", "<Key>&lt;/Key&gt;&lt;Key&gt;</Key>"),
            ("<Key><![CDATA[<![CDATA[]]></Key>", "<Key>&lt;![CDATA[</Key>"),
            // `<![CDATA[` within an instruction or a comment begins no section, and `>` in an attribute ends
            // no tag.
            ("<?a <![CDATA[b]]>?><a><!-- <![CDATA[ -->c</a>", "<a>c</a>"),
            ("<a b='>' c=\"'>\"><![CDATA[\u{E4}>]]></a>", "<a b='>' c=\"'>\">\u{E4}&gt;</a>"),
        ] {
            assert_eq!(plain(written).as_deref(), Some(read));
        }
        for refused in [
            "<Key><![CDATA[a</Key>",
            "<Key><![CDATA[a]]</Key>",
            "<a b='<![CDATA[c]]>'/>",
            "<!DOCTYPE a [<!ENTITY b '<![CDATA[c]]>'>]><a/>",
            "<!-- <![CDATA[",
            "<?a <![CDATA[",
            "<![CDATA[a]]><a",
        ] {
            assert_eq!(plain(refused), None, "{refused}");
        }
        let of_marks = |count| format!("<a><![CDATA[{}<>]]></a>", "&".repeat(count));
        assert_eq!(plain(&of_marks(17)).map(|plain| plain.len()), Some(100));
        assert_eq!(plain(&of_marks(18)), None, "longer than it may be");
        for kept in ["", "<Key>a</Key>", "<![cdata[a]]>", "<!DOCTYPE a>", "<Key>a]]></Key>", "<"] {
            assert_eq!(plain(kept).as_deref(), Some(kept));
        }
        assert_eq!(with_sections_as_text(Bytes::from_static(b"<Key>\xff</Key>"), 100), None);
    }

    proptest::proptest! {
        /// As the parser reads it: the key is what was written, however it is cut into sections.
        #[test]
        fn a_key_is_read_as_it_was_written(pieces in proptest::collection::vec(("[a-c&<>#;1\\]\\[!x -]{0,6}", proptest::bool::ANY), 0..6)) {
            let (mut written, mut key) = ("<Key>".to_owned(), String::new());
            for (piece, is_section) in &pieces {
                if *is_section && !piece.contains("]]>") {
                    written.extend([SECTION, piece, "]]>"]);
                } else {
                    push_escaped(&mut written, piece);
                }
                key.push_str(piece);
            }
            written.push_str("</Key>");
            let plain = with_sections_as_text(written.into(), 1 << 10).and_then(with_plain_characters).expect("whole");
            let mut parser = s3s::xml::Deserializer::new(&plain);
            let read = parser.named_element("Key", |parser| parser.text(|text| Ok(text.to_owned())));
            proptest::prop_assert_eq!(read.expect("well-formed"), key);
        }
    }

    #[test]
    fn a_list_of_keys_may_have_every_character() {
        let plain = |text: &'static str| {
            let plain = with_plain_characters(Bytes::from_static(text.as_bytes())).expect("text");
            String::from_utf8(plain.to_vec()).expect("text")
        };
        for (written, read) in [
            ("<Key>a&#1;b&#x1;c&#xFFFF;</Key>", "<Key>a\u{1}b\u{1}c\u{FFFF}</Key>"),
            ("<Key>a\u{1}b\u{FFFF}</Key>", "<Key>a\u{1}b\u{FFFF}</Key>"),
            ("<Key>&#0;&#x1F9F1;&#x10FFFF;</Key>", "<Key>\0\u{1F9F1}\u{10FFFF}</Key>"),
        ] {
            assert_eq!(plain(written), read);
        }
        // The parser reads or refuses the rest, marks and line ends above all.
        for kept in
            ["", "<Key>&#60;&#38;&#xD;&#9;&lt;</Key>", "&#", "&#;", "&#x;", "&#1", "&#+1;", "&#xD800;"]
        {
            assert_eq!(plain(kept), kept);
        }
        assert_eq!(with_plain_characters(Bytes::from_static(b"<Key>\xff</Key>")), None);
    }

    #[test]
    fn what_goes_out_has_references_for_what_xml_has_not() {
        let escaped =
            |text: &str| with_references(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(escaped("<Key>\u{E4}\u{FFFD}\t\n</Key>"), None);
        assert_eq!(
            escaped("<Key>\u{FFFD}a\rb\u{1}\u{FFFF}\u{10FFFF}</Key>").as_deref(),
            Some("<Key>\u{FFFD}a&#xD;b&#x1;&#xFFFF;\u{10FFFF}</Key>")
        );
        let mut written = Vec::new();
        io::Write::write_all(&mut ReferenceWriter::new(&mut written), "a\rb\u{E4}".as_bytes()).unwrap();
        assert_eq!(written, "a&#xD;b\u{E4}".as_bytes());
    }
}
