//! The form of a file: its head, its length, its words, and what a reader may rely on in it.

use super::source::{Source, all, is_name};
use super::{bites, holds};

/// Lines of the longest file.
const LINES_MAX: usize = 800;

/// Words of other systems' vocabulary, see docs/glossary.md.
const BANNED_WORDS: [&str; 8] =
    ["chunk", "chunks", "fragment", "fragments", "item", "items", "drive", "drives"];

/// Every file says at its top what lives there.
fn opens_with_a_head(source: &Source) -> Vec<String> {
    if source.text.starts_with("//!") { vec![] } else { vec![source.complaint(0, "opens without `//!`")] }
}

/// A file is a room one can oversee.
fn is_not_too_long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines > LINES_MAX { vec![format!("{}: {lines} lines", source.path)] } else { vec![] }
}

/// One word per idea. A name behind `.` or `::` belongs to another crate, `Item` is Iterator's, and S3 itself
/// calls the frames of a streaming signature chunks.
fn uses_our_words(source: &Source) -> Vec<String> {
    let signed_frames = source.path.contains("/s3/");
    let mut complaints = Vec::new();
    let mut at = 0;
    let bytes = source.code.as_bytes();
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|&&byte| is_name(byte)).count();
        let name = &source.code[at..at + length];
        let foreign =
            source.code[..at].trim_end().ends_with(['.', ':']) && !source.code[..at].ends_with(": ");
        let words = words_of(name);
        let allowed = |word: &str| signed_frames && word.starts_with("chunk");
        let banned = words.iter().find(|word| BANNED_WORDS.contains(&word.as_str()) && !allowed(word));
        if let Some(word) = banned.filter(|_| !foreign && name != "Item") {
            complaints.push(source.complaint(at, &format!("`{name}` says {word}")));
        }
        at += length.max(1);
    }
    complaints
}

/// `read_chunk` and `ReadChunk` are read, chunk.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character == '_' || character.is_uppercase() {
            words.push(String::new());
        }
        if character != '_' {
            words.last_mut().expect("never empty").extend(character.to_lowercase());
        }
    }
    words
}

/// Names of one word that look like participles and are nouns.
const NOUNS: [&str; 3] = ["Pending", "Seed", "Opening"];
/// Participles and particles that do not end as others do.
const IRREGULAR: [&str; 30] = [
    "Ahead", "Before", "Beside", "Chosen", "Cut", "Done", "Enough", "Found", "Frozen", "Gone", "Heard",
    "Held", "How", "Kept", "Known", "Learnt", "Lost", "Made", "Nothing", "Other", "Seen", "Shown", "Spent",
    "Still", "Swept", "Taken", "Thing", "Told", "Who", "Written",
];

/// The name of a type says what it is, not what happened to it.
fn types_are_named_by_nouns(source: &Source) -> Vec<String> {
    let code = &source.code[..source.tests_begin()];
    let mut complaints = Vec::new();
    for keyword in ["struct ", "enum ", "trait ", "type "] {
        for at in all(code, keyword) {
            let begins = at == 0 || !is_name(code.as_bytes()[at - 1]);
            let rest = &code[at + keyword.len()..];
            let name = &rest[..rest.bytes().take_while(|&byte| is_name(byte)).count()];
            let is_one_word = name.bytes().filter(u8::is_ascii_uppercase).count() == 1;
            let is_participle = name.ends_with("ed") || name.ends_with("ing") || IRREGULAR.contains(&name);
            if begins && is_one_word && is_participle && !NOUNS.contains(&name) {
                complaints.push(source.complaint(at, &format!("type `{name}` does not say of what")));
            }
        }
    }
    complaints
}

/// Nothing is left for later without a number that says where it is tracked.
fn leaves_nothing_open(source: &Source) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut complaints = Vec::new();
    for mark in marks {
        for at in all(&source.text, mark) {
            let rest = &source.text[at + mark.len()..];
            let numbered = rest
                .strip_prefix("(#")
                .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
            if !numbered {
                complaints.push(source.complaint(at, &format!("{mark} without a number")));
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
        .map(|at| source.complaint(at, "select! is not biased"))
        .collect()
}

/// An attribute that silences a lint gives its reason.
fn excuses_have_reasons(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for opening in ["[allow(", "[expect("] {
        for at in all(&source.code, opening) {
            let attribute = source.code[at..].split_once(']').map_or("", |(attribute, _)| attribute);
            if !attribute.contains("reason") {
                complaints.push(source.complaint(at, "silences a lint without a reason"));
            }
        }
    }
    complaints
}

/// A test waits for what it tests.
fn tests_do_not_sleep(source: &Source) -> Vec<String> {
    let begin = source.tests_begin();
    let tests = &source.code[begin..];
    all(tests, "thread::sleep").map(|at| source.complaint(begin + at, "a test sleeps")).collect()
}

#[test]
fn every_file_opens_with_a_head() {
    assert!(bites(opens_with_a_head, "use std::fmt;\n"));
    assert!(!bites(opens_with_a_head, "//! Says what lives here.\n"));
    holds(opens_with_a_head);
}

#[test]
fn no_file_is_too_long() {
    assert!(bites(is_not_too_long, &"\n".repeat(LINES_MAX + 1)));
    assert!(!bites(is_not_too_long, &"\n".repeat(LINES_MAX)));
    holds(is_not_too_long);
}

#[test]
fn names_are_of_our_vocabulary() {
    for text in
        ["let chunk = 1;", "fn read_chunks() {}", "struct ItemList;", "drive: u8,", "enum FragmentKind {}"]
    {
        assert!(bites(uses_our_words, text), "{text}");
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
        assert!(!bites(uses_our_words, text), "{text}");
    }
    let signed = Source::new("node/s3/src/example.rs", "let chunk = 1; let item = 2;");
    assert_eq!(uses_our_words(&signed).len(), 1, "only S3's own word is allowed there");
    holds(uses_our_words);
}

#[test]
fn no_type_is_named_by_a_bare_participle() {
    let production = |source: &Source| {
        let is_test = source.path.contains("/tests") || source.path.ends_with("tests.rs");
        if is_test { vec![] } else { types_are_named_by_nouns(source) }
    };
    holds(production);
    for bad in ["struct Stored;", "pub(crate) enum Found { A }", "type Reading<'a> = &'a u8;"] {
        assert!(bites(types_are_named_by_nouns, bad), "{bad}");
    }
    for good in [
        "struct StoredRow;",
        "struct Pending<R>(R);",
        "enum Found2;",
        "let stored = structed;",
        "// struct Stored",
    ] {
        assert!(!bites(types_are_named_by_nouns, good), "{good}");
    }
}

#[test]
fn what_is_open_has_a_number() {
    assert!(bites(leaves_nothing_open, concat!("// TO", "DO: later")));
    assert!(bites(leaves_nothing_open, concat!("// FIX", "ME")));
    assert!(!bites(leaves_nothing_open, concat!("// TO", "DO(#12): later")));
    holds(leaves_nothing_open);
}

#[test]
fn every_select_is_biased() {
    assert!(bites(selects_in_order, "tokio::select! { a = b => {} }"));
    assert!(bites(selects_in_order, "select! { /* biased; */ a = b => {} }"));
    assert!(!bites(
        selects_in_order,
        "tokio::select! {\n    // First things first.\n    biased;\n a = b => {} }"
    ));
    holds(selects_in_order);
}

#[test]
fn every_silenced_lint_has_a_reason() {
    assert!(bites(excuses_have_reasons, "#[allow(unused)]\nfn a() {}"));
    assert!(bites(excuses_have_reasons, "#![expect(unsafe_code)]"));
    assert!(!bites(
        excuses_have_reasons,
        "#[expect(\n    unsafe_code,\n    reason = \"the kernel owns it\"\n)]"
    ));
    holds(excuses_have_reasons);
}

#[test]
fn no_test_sleeps() {
    assert!(bites(tests_do_not_sleep, "#[cfg(test)]\nmod tests { fn a() { std::thread::sleep(b); } }"));
    assert!(!bites(tests_do_not_sleep, "fn wait() { std::thread::sleep(b); }"));
    holds(tests_do_not_sleep);
}
