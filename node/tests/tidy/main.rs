//! The rules of style that a machine can check, each with a test that shows it bites.
//!
//! A rule is a function from one source file to complaints, or to a figure that may only fall (`figures`).
//! Comments and texts are blanked out first where a rule is about code. Rules that need types (the bans on
//! clocks, files and tasks) are clippy's; `seams` has only the list of files that may break it.

mod arrows;
mod bounds;
mod circles;
mod comments;
mod crates;
mod docs;
mod figures;
mod floors;
mod invariants;
mod nouns;
mod ratchet;
mod reading;
mod requests;
mod rooms;
mod scan;
mod seams;
mod sleeps;
mod source;
mod style;
mod types;

use source::{Source, members, sources};

/// A rule about one file.
type Rule = fn(&Source) -> Vec<String>;

/// Checks one rule on every file.
fn holds(rule: Rule) {
    let complaints: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Files of production, one of each kind, below a crate.
const SHIPPED: [&str; 5] =
    ["src/lib.rs", "src/main.rs", "src/room.rs", "src/room/mod.rs", "src/room/deep/part.rs"];
/// Files of tests, one of each kind, below a crate.
const OF_TESTS: [&str; 4] =
    ["src/room/tests.rs", "src/room/tests/part.rs", "tests/story.rs", "tests/story/main.rs"];

/// The files, of these kinds in every crate, in which a rule has no complaint about a text.
fn unseen(rule: Rule, kinds: &[&str], text: &str) -> Vec<String> {
    let paths =
        members().into_iter().flat_map(|member| kinds.iter().map(move |kind| format!("{member}/{kind}")));
    paths.filter(|path| rule(&Source::new(path, text)).is_empty()).collect()
}

/// Checks that a rule refuses a text in files of every kind, in every crate and in the programs beside them.
fn bites(rule: Rule, text: &str) {
    let beside = ["fuzz/fuzz_targets/a.rs", "e2e/clients/rust/src/main.rs", "proto/build.rs"];
    let mut unseen = unseen(rule, &[&SHIPPED[..], &OF_TESTS[..]].concat(), text);
    unseen.extend(
        beside.into_iter().filter(|path| rule(&Source::new(path, text)).is_empty()).map(str::to_owned),
    );
    assert!(unseen.is_empty(), "{text} is not seen in {unseen:?}");
}

/// Checks that a rule refuses a text in production of every crate, below test code as well, and not in tests.
fn bites_production(rule: Rule, text: &str) {
    for text in [text.to_owned(), format!("#[cfg(test)]\nmod double;\n{text}")] {
        let unseen = unseen(rule, &SHIPPED, &text);
        assert!(unseen.is_empty(), "{text} is not seen in {unseen:?}");
    }
    let spared = unseen(rule, &OF_TESTS, text).len();
    assert_eq!(spared, members().len() * OF_TESTS.len(), "{text} may stand in tests");
}

/// Checks that a rule has no complaint about a text.
fn spares(rule: Rule, text: &str) {
    let complaints = rule(&Source::new("node/src/example.rs", text));
    assert!(complaints.is_empty(), "{text}: {complaints:?}");
}
