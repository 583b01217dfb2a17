//! Exhaustive models of how volumes find out what they lack, and when they count as whole.
//!
//! Each test searches every state of a small set and asserts that nothing goes wrong; then each rule that the
//! design marks as needed is taken out once, and the test asserts that the search finds how it goes wrong.
//! The decisions are production's own functions.

#![expect(clippy::cast_possible_truncation, reason = "five volumes and a handful of numbers")]

mod cluster;
mod heal_holds;
mod heal_rules;
mod place;
mod place_rules;
#[path = "../report/mod.rs"]
#[expect(dead_code, reason = "shared with models that are searched in another way")]
mod report;
mod rules;
