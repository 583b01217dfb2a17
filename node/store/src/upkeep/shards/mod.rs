//! The data that registers name, and whether it is all there: one data id with its shards, parts of closed
//! uploads, a register's rows and shards looked at together, and entries of the queue healed.

pub(crate) mod check;
pub(crate) mod heal;
pub(crate) mod parts;
pub(crate) mod subject;
