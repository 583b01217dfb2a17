//! How a volume finds out by itself what it lacks: lists, looks, wants, and the cut as of which it is
//! whole.
//!
//! ```text
//! V (looks)                                 p (another volume of the set)
//!   | -- rows behind (cursor of V for p) ----> |  notes the cursor; reads D, its durable sequence;
//!   | <---- D, life, votes, horizon, heads --- |  then its listed rows above the cursor, or all (a walk)
//!   |   each row: passed, pulled, or its committed flag noted
//!   |   cursor := D, or just below the lowest row that was not passed; durable after the rows and wants
//! ```
//! States are compared, never histories of reports: a message that is lost costs time, and no rule relies on
//! one. A committed row that V lacks was accepted by A of the other N - 1 volumes, and rows of a volume only
//! rise, so any P - 1 of them show it or something above it. Plain functions over values; the volume and its
//! node make durable what follows from them.

pub mod list;
pub mod look;
pub mod want;
pub mod whole;
