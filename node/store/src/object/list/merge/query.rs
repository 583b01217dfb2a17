//! The query of a listing, and the names that it finds.

use std::time::Duration;

use bytes::Bytes;

use sherd_core::id::{BucketId, ObjectKey};
use sherd_core::record::Value;

/// The rows to scan.
#[derive(Debug, Clone)]
pub(in crate::object::list) struct Query {
    pub(in crate::object::list) bucket: BucketId,
    pub(in crate::object::list) prefix: Bytes,
    pub(in crate::object::list) delimiter: Option<Bytes>,
    /// Only names at or behind this.
    pub(in crate::object::list) from: Bytes,
    /// Place of each set that is asked first: lists of one bucket are spread over its volumes.
    pub(in crate::object::list) start: usize,
    /// Whether a value shows in this listing.
    pub(in crate::object::list) shows: fn(&Value) -> bool,
    /// Rows worth asking for at one time.
    pub(in crate::object::list) wanted: usize,
    /// Names that may be looked at and not show; then the walk stops where it is.
    pub(in crate::object::list) hidden_max: usize,
    /// Rows that one volume may pass because no listing shows them; then the walk stops where it is, too.
    pub(in crate::object::list) passed_max: u64,
    /// How long a volume may take for a page, before another is asked.
    pub(in crate::object::list) timeout: Duration,
}

/// One name, and what the sets say about it.
#[derive(Debug)]
pub(in crate::object::list) enum Name {
    /// A key, with its row's value.
    Key {
        /// The key.
        key: ObjectKey,
        /// Committed value, as one volume has it.
        value: Box<Value>,
    },
    /// A key that only its register decides.
    Unsure(ObjectKey),
    /// A common prefix.
    Prefix(Bytes),
    /// A common prefix that only this key's register decides.
    UnsurePrefix {
        /// The prefix.
        prefix: Bytes,
        /// Lowest witness of the prefix.
        witness: ObjectKey,
        /// Set that showed it.
        set: usize,
    },
    /// No name, but enough was looked at: nothing up to here, this name included, is left out.
    Enough(Bytes),
}
