//! docs/invariants.md and the code that cites it: each invariant has a code site and a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::source::{Source, all, root, sources};

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

/// The words in backticks behind "Test".
fn tests_named_in(section: &str) -> Vec<&str> {
    let tests = section.split_once("Test").map(|(_, tests)| tests).unwrap_or_default();
    tests.split('`').skip(1).step_by(2).collect()
}

/// Differences between the list of invariants and the code.
fn unmatched_invariants(text: &str, sources: &[Source]) -> Vec<String> {
    let listed = listed_invariants(text);
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("node/tests/tidy/")) {
        for number in invariants_in(&source.text).into_iter().filter(|number| !listed.contains_key(number)) {
            complaints.push(format!("{} cites I-{number}, which docs/invariants.md has not", source.path));
        }
    }
    for (number, section) in listed {
        let production = |source: &Source| source.text[..source.tests_begin()].to_owned();
        if !sources.iter().any(|source| invariants_in(&production(source)).contains(&number)) {
            complaints.push(format!("I-{number} has no code site"));
        }
        let named = tests_named_in(section);
        if named.is_empty() {
            complaints.push(format!("I-{number} has no test"));
        }
        for name in named {
            let is_file = |source: &Source| source.path.ends_with(name);
            let declares = |source: &Source| {
                ["fn ", "mod ", "const "].iter().any(|kind| source.text.contains(&format!("{kind}{name}")))
            };
            if !sources.iter().any(|source| is_file(source) || declares(source)) {
                complaints.push(format!("I-{number} names the test {name}, which is not there"));
            }
        }
    }
    complaints
}

#[test]
fn every_invariant_has_its_code_and_its_test_and_every_citation_exists() {
    assert_eq!(invariants_in("I-4 and I-12, not AI-3 or PI-2"), BTreeSet::from([4, 12]));
    let one = |text: &str| [Source::new("node/src/example.rs", text)];
    let listed = "**I-4 It holds.** Code: `a`. Test: `it_holds`.";
    assert!(
        unmatched_invariants(listed, &one("// I-4\n#[cfg(test)]\nmod tests { fn it_holds() {} }")).is_empty()
    );
    assert_eq!(unmatched_invariants(listed, &one("// I-4")).len(), 1);
    assert_eq!(unmatched_invariants(listed, &one("")).len(), 2);
    assert_eq!(unmatched_invariants("**I-4 It holds.** Code: `a`.", &one("// I-4")), ["I-4 has no test"]);
    assert_eq!(unmatched_invariants("", &one("// I-9")).len(), 1);

    let text = fs::read_to_string(root().join("docs/invariants.md")).expect("docs/invariants.md is there");
    let complaints = unmatched_invariants(&text, &sources());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
