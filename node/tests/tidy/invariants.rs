//! docs/invariants.md and the code that cites it: each invariant has a code site and a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::scan::{all, all_words, name_at};
use super::source::{Source, complaint, root, sources, texts};

const PAGE: &str = "docs/invariants.md";

/// Keywords behind which a declared name stands.
const KINDS: [&str; 8] = ["fn", "mod", "const", "static", "struct", "enum", "trait", "type"];

/// The numbers of the invariants that a text names, as in I-4.
fn invariants_in(text: &str) -> BTreeSet<u32> {
    let at_word = |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '-');
    let number = |at: usize| {
        let digits: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    all(text, "I-").filter(|&at| at_word(at)).filter_map(number).collect()
}

/// The invariants that a text lists: number, and the section that speaks of it.
fn listed_invariants(text: &str) -> BTreeMap<u32, &str> {
    let starts: Vec<usize> = text.match_indices("**I-").map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let sections = starts.iter().zip(ends).map(|(&start, end)| &text[start..end]);
    sections.filter_map(|section| Some((first_invariant(section)?, section))).collect()
}

/// The number in a section's own heading.
fn first_invariant(section: &str) -> Option<u32> {
    let digits = section.trim_start_matches("**I-");
    digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Where the tests of a section begin.
fn tests_begin(section: &str) -> usize {
    section.find("Test").unwrap_or(section.len())
}

/// The words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of a path such as `acceptor::{judge, answer}`, without its modules.
fn names_of(path: &str) -> impl Iterator<Item = &str> {
    let last = path.rsplit_once("::{").or_else(|| path.rsplit_once("::")).map_or(path, |(_, last)| last);
    last.split(',').map(|name| name_at(name.trim(), 0)).filter(|name| !name.is_empty())
}

/// Differences between the list of invariants and the code.
fn unmatched_invariants(text: &str, sources: &[Source]) -> Vec<String> {
    let listed = listed_invariants(text);
    let mut complaints = Vec::new();
    let has = |code: &dyn Fn(&Source) -> bool| sources.iter().any(code);
    for (number, section) in listed {
        let at = section.as_ptr() as usize - text.as_ptr() as usize;
        let mut complain =
            |what: &str| complaints.push(complaint(PAGE, text, at, &format!("I-{number} {what}")));
        let is_cited = |source: &Source| {
            let shipped = |at: &usize| !source.is_test_at(*at);
            all(&source.text, "I-")
                .filter(shipped)
                .any(|at| invariants_in(&source.text[at..]).first() == Some(&number))
        };
        if !has(&is_cited) {
            complain("has no code site: cite it in a comment where it is kept");
        }
        let (code, tests) = section.split_at(tests_begin(section));
        if quoted(tests).next().is_none() {
            complain("has no test: name one that fails without it");
        }
        let of_code = code.rsplit_once("Code:").map_or("", |(_, code)| code);
        for (name, of_tests) in
            quoted(of_code).map(|name| (name, false)).chain(quoted(tests).map(|name| (name, true)))
        {
            let is_file = |source: &Source| source.path.ends_with(name);
            let declares = |source: &Source, name: &str| {
                let code = if of_tests { &source.code } else { &source.production };
                all_words(code, name)
                    .any(|at| KINDS.contains(&code[..at].split_whitespace().next_back().unwrap_or("")))
            };
            let is_there = |name: &str| has(&|source| declares(source, name));
            if !has(&is_file) && !names_of(name).all(is_there) {
                complain(&format!("names {name}, which is not there: name what is"));
            }
        }
    }
    complaints
}

/// Citations of invariants that are not listed.
fn unlisted_citations(listed: &str, path: &str, text: &str) -> Vec<String> {
    let listed = listed_invariants(listed);
    let unlisted = invariants_in(text).into_iter().filter(|number| !listed.contains_key(number));
    let at = |number| text.find(&format!("I-{number}")).unwrap_or(0);
    unlisted.map(|number| complaint(path, text, at(number), &format!("{PAGE} has no I-{number}"))).collect()
}

#[test]
fn every_invariant_has_its_code_and_its_test() {
    assert_eq!(invariants_in("I-4 and I-12, not AI-3 or PI-2"), BTreeSet::from([4, 12]));
    let one = |text: &str| [Source::new("node/src/example.rs", text)];
    let count = |listed: &str, text: &str| unmatched_invariants(listed, &one(text)).len();
    let listed = "**I-4 It holds.** Code: `a::{b, C}`. Test: `it_holds`.";
    let good = "// I-4\nfn b() {} struct C;\n#[cfg(test)]\nmod tests { fn it_holds() {} }";
    assert_eq!(unmatched_invariants(listed, &one(good)), [""; 0]);
    assert_eq!(count(listed, &good.replace("// I-4", "")), 1);
    assert_eq!(count(listed, &good.replace("// I-4", "// I-41")), 1);
    assert_eq!(count(listed, "fn b() {} struct C;\n#[cfg(test)]\nmod tests { // I-4\nfn it_holds() {} }"), 1);
    assert_eq!(count(listed, &good.replace("it_holds", "it_holds_still")), 1, "a longer name");
    assert_eq!(count(listed, &good.replace("fn it_holds()", "// fn it_holds()")), 1, "a comment");
    assert_eq!(count(listed, &good.replace("struct C", "struct D")), 1, "code that is gone");
    assert_eq!(count("**I-4 It holds.** Code: `b`.", good), 1, "no test");
    let files = "**I-4 It holds.** Code: `src/example.rs`. Test: `src/gone.rs`.";
    assert_eq!(
        unmatched_invariants(files, &one(good)),
        ["docs/invariants.md:1: I-4 names src/gone.rs, which is not there: name what is"]
    );

    let text = fs::read_to_string(root().join(PAGE)).expect("the page is there");
    let complaints = unmatched_invariants(&text, sources());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_invariant_that_is_cited_is_listed() {
    for path in ["a.rs", "docs/a.md", "a.proto"] {
        let found = unlisted_citations("**I-4 It holds.**", path, "I-4 and\nI-9");
        assert_eq!(found, [format!("{path}:2: docs/invariants.md has no I-9")]);
    }
    let text = fs::read_to_string(root().join(PAGE)).expect("the page is there");
    let outside = texts().iter().filter(|(path, _)| !path.starts_with("node/tests/tidy/"));
    let complaints: Vec<_> =
        outside.flat_map(|(path, cited)| unlisted_citations(&text, path, cited)).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
