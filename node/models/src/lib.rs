//! The search that the models of `tests/` are run by: every state of a small cluster, or the shortest way to
//! a state that violates something.
//!
//! A package of its own, for it needs much optimisation and the unit tests of `sherd-core` need little.
//! Nothing that ships depends on it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod search;
