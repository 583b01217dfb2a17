//! Runs a model and says what came of it.

use std::fmt::Debug;
use std::time::Instant;

use sherd_models::search::{Model, Outcome, search};

/// States that one search may visit: some 3 GiB.
const STATES_MAX: usize = 20_000_000;

/// Whether the large configurations run as well.
pub(crate) fn full() -> bool {
    std::env::var_os("SHERD_MODEL_FULL").is_some_and(|value| value == "1")
}

/// Asserts that no state violates anything.
pub(crate) fn holds<M: Model>(name: &str, model: &M) {
    let found = run(name, model);
    assert!(found.violation.is_none(), "{name}: {}", found.violation.map_or_else(String::new, |t| t.text()));
    assert!(found.complete, "{name}: cut short, which proves nothing");
}

/// As [`holds`], for a configuration that takes minutes: left out, loudly, unless asked for. One that is
/// larger than the bound is searched from its beginning up to that, with a message.
pub(crate) fn holds_when_full<M: Model>(name: &str, model: &M) {
    if !full() {
        println!("LEFT OUT (set SHERD_MODEL_FULL=1): {name}");
        return;
    }
    let found = run(name, model);
    assert!(found.violation.is_none(), "{name}: {}", found.violation.map_or_else(String::new, |t| t.text()));
    if !found.complete {
        println!("INCOMPLETE: {name}: every state up to depth {}, some beyond", found.depth);
    }
}

/// Asserts that a violation is found with a rule out, and prints the shortest way to it.
pub(crate) fn breaks<M: Model>(rule: impl Debug, model: &M) {
    let found = run(&format!("without {rule:?}"), model);
    let trace = found.violation.unwrap_or_else(|| panic!("{rule:?} is not needed here"));
    println!("{}", trace.text());
}

fn run<M: Model>(name: &str, model: &M) -> Outcome {
    let began = Instant::now();
    let found = search(model, STATES_MAX);
    let seconds = began.elapsed().as_secs_f32();
    println!("{name}: {} states, depth {}, {seconds:.1} s", found.states, found.depth);
    found
}
