//! Tests that let real time pass, where they could wait for what they test.

use super::scan::all_words;
use super::source::{Source, members};

/// Calls that take their time from a clock.
const CALLS: [&str; 3] = ["sleep", "sleep_until", "park_timeout"];
/// Marks of a file whose tests run on tokio's paused clock. Threads do not follow it.
const PAUSED: [&str; 3] = ["start_paused", "pause()", "time::pause"];

/// Sleeps of tests on a clock that is not paused.
pub(crate) fn sleeps(source: &Source) -> Vec<usize> {
    let code = &source.code;
    let is_paused = PAUSED.iter().any(|mark| code.contains(mark));
    let calls = |name: &'static str| all_words(code, name).map(move |at| (name, at));
    let is_sleep = |name: &str, at: usize| {
        let is_call = code[at + name.len()..].starts_with('(') && !code[..at].ends_with("fn ");
        source.is_test_at(at) && is_call && (!is_paused || is_of_thread(code, name, at))
    };
    CALLS.into_iter().flat_map(calls).filter(|(name, at)| is_sleep(name, *at)).map(|(_, at)| at).collect()
}

/// Whether this call is that of `std::thread`, by its path or by an import.
fn is_of_thread(code: &str, name: &str, at: usize) -> bool {
    let groups = code.split("thread::{").skip(1).filter_map(|rest| rest.split_once('}'));
    let is_imported = || {
        code.contains(&format!("thread::{name};"))
            || groups.into_iter().any(|(names, _)| all_words(names, name).next().is_some())
    };
    code[..at].ends_with("thread::") || !code[..at].ends_with("::") && is_imported()
}

#[test]
fn no_test_of_any_crate_sleeps_unseen() {
    for member in members() {
        for (path, text, count) in [
            ("src/a.rs", "fn wait() { std::thread::sleep(b); }", 0),
            ("src/a.rs", "#[cfg(test)]\nmod tests { fn a() { std::thread::sleep(b); } }", 1),
            (
                "src/a.rs",
                "#[cfg(test)]\nmod a { fn a() { thread::sleep(b); } }\nfn b() { thread::sleep(c) }",
                1,
            ),
            ("src/a/tests.rs", "async fn a() { tokio::time::sleep(b).await }", 1),
            (
                "src/a/tests.rs",
                "#[tokio::test(start_paused = true)] async fn a() { tokio::time::sleep(b).await }",
                0,
            ),
            ("tests/a.rs", "fn a() { tokio::time::pause(); std::thread::sleep(b); }", 1),
            ("tests/a/b.rs", "use std::thread::{self, sleep}; fn a() { tokio::time::pause(); sleep(b); }", 1),
            ("tests/a/b.rs", "use std::thread::sleep; fn a() { tokio::time::pause(); sleep(b); }", 1),
            ("tests/a.rs", "fn a() { thread::park_timeout(b); }", 1),
            ("tests/a.rs", "// thread::sleep(b)\nfn sleep(b: C) {}", 0),
        ] {
            let source = Source::new(&format!("{member}/{path}"), text);
            assert_eq!(sleeps(&source).len(), count, "{member}/{path}: {text}");
        }
    }
}
