//! The verbs, by what they work on.

pub(crate) mod about;
pub(crate) mod alias;
pub(crate) mod bench;
pub(crate) mod buckets;
pub(crate) mod compare;
pub(crate) mod copy;
pub(crate) mod listing;
pub(crate) mod object;
pub(crate) mod remove;
