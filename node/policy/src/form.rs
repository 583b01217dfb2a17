//! Where a document is from: what its check is.

/// Where a document is from, which says how it is checked. Sizes are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyForm<'a> {
    /// An inline policy of a user or a group, and every policy that was checked when it was made.
    Identity,
    /// A policy of the account, when it is made: it has to have version 2012-10-17.
    Managed,
    /// The policy of a bucket.
    Bucket {
        /// The bucket.
        name: &'a str,
    },
}

impl PolicyForm<'_> {
    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self, Self::Bucket { .. })
    }
}
