//! The head of a request: what its operation's row says of it, and how it is read.

pub(crate) mod columns;
