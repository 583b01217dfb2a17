//! The data that registers name, and whether it is all there: one data id with its shards, parts of closed
//! uploads, a register's rows and shards looked at together, entries of the queue healed, and wants of this
//! node's volumes worked off.

pub(crate) mod check;
pub(crate) mod heal;
pub(crate) mod parts;
pub(crate) mod subject;
pub(crate) mod wants;
