//! Buckets whose deletion did not end: the row of the bucket taken back, seals removed or made final, and
//! what volumes still hold of buckets that are gone; documents that no bucket names.

pub(crate) mod deletions;
pub(crate) mod documents;
pub(crate) mod remains;
mod rows;
mod seals;
