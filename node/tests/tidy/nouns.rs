//! Names of types that need their noun: bare participles, adverbs and pronouns.

use super::bites_production;
use super::scan::{all_words, name_at};
use super::source::Source;

/// Names of one word that look like participles and are nouns.
const NOUNS: [&str; 3] = ["Pending", "Seed", "Opening"];
/// Participles and particles that do not end as others do.
const IRREGULAR: [&str; 30] = [
    "Ahead", "Before", "Beside", "Chosen", "Cut", "Done", "Enough", "Found", "Frozen", "Gone", "Heard",
    "Held", "How", "Kept", "Known", "Learnt", "Lost", "Made", "Nothing", "Other", "Seen", "Shown", "Spent",
    "Still", "Swept", "Taken", "Thing", "Told", "Who", "Written",
];

/// The name of a type says what it is, not what happened to it: types of one word that do not.
pub(crate) fn bare_participles(source: &Source) -> Vec<usize> {
    let code = &source.production;
    let mut found = Vec::new();
    for keyword in ["struct", "enum", "union", "trait", "type"] {
        for at in all_words(code, keyword) {
            let rest = code[at + keyword.len()..].trim_start();
            let name = name_at(rest, 0);
            let is_one_word = name.bytes().filter(u8::is_ascii_uppercase).count() == 1;
            let is_participle = name.ends_with("ed") || name.ends_with("ing") || IRREGULAR.contains(&name);
            if is_one_word && is_participle && !NOUNS.contains(&name) {
                found.push(at);
            }
        }
    }
    found
}

#[test]
fn types_that_are_named_by_a_bare_participle_are_counted() {
    for bad in
        ["struct Stored;", "pub(crate) enum Found { A }", "type Reading<'a> = &'a u8;", "trait  Kept {}"]
    {
        bites_production(|source| vec![String::new(); bare_participles(source).len()], bad);
    }
    for good in [
        "struct StoredRow;",
        "struct Pending<R>(R);",
        "enum Found2;",
        "let stored = structed;",
        "// struct Stored",
    ] {
        assert_eq!(bare_participles(&Source::new("node/src/example.rs", good)), [0; 0], "{good}");
    }
}
