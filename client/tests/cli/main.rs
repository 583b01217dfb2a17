//! `sherd` as a person runs it, against a node of the store in a process of its own: every verb, the ways in
//! which transfers break, and what is left then.

mod fixture;
mod library;
mod relay;
mod scripted;
mod about;
mod answers;
mod breaks;
mod kills;
mod loads;
mod names;
mod others;
mod trees;
mod verbs;
