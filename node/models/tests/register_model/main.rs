//! Exhaustive models of the register, its clocks, the listing and the bucket's deletion.
//!
//! Each test searches every state of a small cluster and asserts that nothing goes wrong; then each
//! rule that the design marks as needed is taken out once, and the test asserts that the search
//! finds how it goes wrong. The decisions are production's own functions. `SHERD_MODEL_FULL=1`
//! searches the large configurations too.

#![expect(clippy::similar_names, reason = "at, actor and after are what every step is about")]

mod bucket;
mod bucket_rules;
mod call_rules;
mod clock_rules;
mod clocks;
mod copies_rules;
mod listing;
mod listing_rules;
mod batch_rules;
mod pull_rules;
mod register;
mod register_holds;
mod register_rules;
#[path = "../report/mod.rs"]
mod report;
mod returning;
mod returning_rules;
mod rules;
