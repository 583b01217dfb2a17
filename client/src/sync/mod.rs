//! Two sides, each a folder or a prefix, compared name by name in one pass over both.

pub(crate) mod compare;
pub(crate) mod doomed;
pub(crate) mod same;
pub(crate) mod side;
