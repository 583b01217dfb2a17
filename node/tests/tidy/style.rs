//! The form of a file: its head, its length, its words, and what a reader may rely on in it.

use super::scan::{all, all_words, attributes, is_name, name_at};
use super::source::{Source, complaint, texts, texts_of};
use super::{bites, holds, spares};

/// Lines of the longest file.
const LINES_MAX: usize = 800;

/// Words of other systems' vocabulary, and their plurals; see docs/glossary.md.
const BANNED_WORDS: [&str; 4] = ["chunk", "fragment", "item", "drive"];

/// Every file says at its top what lives there.
fn opens_with_a_head(source: &Source) -> Vec<String> {
    let head = source.text.lines().next().and_then(|line| line.strip_prefix("//! "));
    let is_there = head.is_some_and(|head| !head.trim().is_empty());
    let complaint = || source.complaint(0, "begin it with `//!`: what lives here, and who calls it");
    if is_there { vec![] } else { vec![complaint()] }
}

/// A file is a room one can oversee.
fn is_not_too_long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let complaint =
        || source.complaint(0, &format!("{lines} lines, at most {LINES_MAX}: split it by what it does"));
    if lines > LINES_MAX { vec![complaint()] } else { vec![] }
}

/// One word per idea. A name behind `.` or `::` belongs to another crate, `Item` is Iterator's, and S3 itself
/// calls the frames of a streaming signature chunks.
fn uses_our_words(source: &Source) -> Vec<String> {
    let signed_frames = source.path.contains("/s3/");
    let (code, lower) = (&source.code, source.code.to_ascii_lowercase());
    let mut complaints = Vec::new();
    for banned in BANNED_WORDS.into_iter().filter(|word| !(signed_frames && *word == "chunk")) {
        for at in all(&lower, banned) {
            let begin = at - code[..at].bytes().rev().take_while(|byte| is_name(*byte)).count();
            let name = name_at(code, begin);
            let before = &code[..begin];
            let foreign = before.trim_end().ends_with(['.', ':']) && !before.ends_with(": ");
            let says_it = words_of(name).iter().any(|word| word.strip_suffix('s').unwrap_or(word) == banned);
            if says_it && !foreign && name != "Item" {
                let what = format!("`{name}` says {banned}: take the word of docs/glossary.md");
                complaints.push(source.complaint(begin, &what));
            }
        }
    }
    complaints
}

/// `read_chunk`, `ReadChunk` and `READ_CHUNK` are read, chunk.
fn words_of(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let is_lower =
            |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|one| one.is_lowercase());
        let begins = letter.is_uppercase() && (is_lower(at.checked_sub(1)) || is_lower(Some(at + 1)));
        if *letter == '_' || begins {
            words.push(String::new());
        }
        if letter.is_alphabetic() {
            words.last_mut().expect("never empty").extend(letter.to_lowercase());
        }
    }
    words
}

/// Nothing is left for later without a number that says where it is tracked.
fn leaves_nothing_open(path: &str, text: &str) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut complaints = Vec::new();
    for mark in marks {
        for at in all_words(text, mark) {
            let number = text[at + mark.len()..].strip_prefix("(#");
            if !number.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
                complaints.push(complaint(path, text, at, &format!("do it now, or write {mark}(#number)")));
            }
        }
    }
    complaints
}

/// A random choice between ready arms would give one seed two histories.
fn selects_in_order(source: &Source) -> Vec<String> {
    let ordered = |at: usize| {
        let body = source.code[at..].split_once(['{', '(']).map_or("", |(_, body)| body);
        body.trim_start().starts_with("biased;")
    };
    all(&source.code, "select!")
        .filter(|&at| !ordered(at))
        .map(|at| source.complaint(at, "begin select! with `biased;`, and say why its arms may be dropped"))
        .collect()
}

/// An attribute that silences a lint gives its reason.
fn excuses_have_reasons(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for attribute in attributes(&source.code) {
        let (code, text) = (&source.code[attribute.clone()], &source.text[attribute.clone()]);
        for at in ["allow", "expect"].into_iter().flat_map(|word| all_words(code, word)) {
            let is_excuse = code[..at].trim_end().ends_with(['[', '(', ',']) && code[at..].contains('(');
            let reason = text[at..].split_once("reason = \"").map_or("\"", |(_, reason)| reason);
            if is_excuse && reason.trim_start().starts_with('"') {
                let what = "silences a lint: add `reason = \"...\"`, or mend what it complains about";
                complaints.push(source.complaint(attribute.start + at, what));
            }
        }
    }
    complaints
}

#[test]
fn every_file_opens_with_a_head() {
    bites(opens_with_a_head, "use std::fmt;\n");
    bites(opens_with_a_head, "//!\nuse std::fmt;\n");
    spares(opens_with_a_head, "//! Says what lives here.\n");
    holds(opens_with_a_head);
}

#[test]
fn no_file_is_too_long() {
    bites(is_not_too_long, &"\n".repeat(LINES_MAX + 1));
    spares(is_not_too_long, &"\n".repeat(LINES_MAX));
    holds(is_not_too_long);
}

#[test]
fn names_are_of_our_vocabulary() {
    for text in [
        "let drive = 1;",
        "fn read_fragments() {}",
        "struct ItemList;",
        "drive: u8,",
        "enum FragmentKind {}",
        "const ITEM_BYTES: u8 = 1;",
        "static HTTPDrive2: u8 = 1;",
        "mod drives;",
    ] {
        bites(uses_our_words, text);
    }
    for text in [
        "// a chunk",
        "\"chunk\"",
        "type Item = u8;",
        "bytes.chunks(4)",
        "Buf::chunk(x)",
        "let driver = 1;",
        "aws_chunked",
    ] {
        spares(uses_our_words, text);
    }
    for text in ["let chunk = 1;", "fn read_chunks() {}", "const CHUNK_BYTES: u8 = 1;"] {
        let complaints = |path: &str| uses_our_words(&Source::new(path, text)).len();
        assert_eq!(complaints("node/store/src/example.rs"), 1, "{text}");
        assert_eq!(complaints("node/s3/src/example.rs"), 0, "S3's own word is allowed there: {text}");
    }
    holds(uses_our_words);
    // A message's names are those of the generated code.
    let complaints: Vec<_> =
        texts_of("proto").flat_map(|(path, text)| uses_our_words(&Source::new(path, text))).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn what_is_open_has_a_number() {
    for path in ["a.rs", "a.md", "a.proto", "a.sh", "a.toml", "charts/a.yaml", ".ci/run"] {
        assert_eq!(leaves_nothing_open(path, concat!("// TO", "DO: later")).len(), 1);
        assert_eq!(leaves_nothing_open(path, concat!("# FIX", "ME")).len(), 1);
        assert_eq!(leaves_nothing_open(path, concat!("// TO", "DO(#12): later, mktemp XX", "XX")), [""; 0]);
    }
    let complaints: Vec<_> =
        texts().iter().flat_map(|(path, text)| leaves_nothing_open(path, text)).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_select_is_biased() {
    bites(selects_in_order, "tokio::select! { a = b => {} }");
    bites(selects_in_order, "select! { /* biased; */ a = b => {} }");
    spares(selects_in_order, "tokio::select! {\n    // First things first.\n    biased;\n a = b => {} }");
    holds(selects_in_order);
}

#[test]
fn every_silenced_lint_has_a_reason() {
    for text in [
        "#[allow(unused)]\nfn a() {}",
        "#![expect(unsafe_code)]",
        "#[cfg_attr(test, allow(unused))]",
        "#[cfg_attr(\n    test,\n    expect(unused)\n)]",
        "#[allow(clippy::allow_attributes_without_reason)]",
        "#[allow(unused, reason = \"\")]",
    ] {
        bites(excuses_have_reasons, text);
    }
    for text in [
        "#[expect(\n    unsafe_code,\n    reason = \"the kernel owns it\"\n)]",
        "#![cfg_attr(test, allow(unused, reason = \"a[b] uses it\"))]",
        "#[doc = a.expect(b)]",
        "#[cfg(feature = \"allow(a)\")]",
    ] {
        spares(excuses_have_reasons, text);
    }
    holds(excuses_have_reasons);
}
