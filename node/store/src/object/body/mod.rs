//! The bytes of objects and parts, on their way in and out.
//!
//! A transform of stored bytes, such as encryption at rest, has two places: `StoredBytes::push` on
//! the way in and [`Bodies::read`] on the way out, each passed by every byte once and in order. It is to be
//! chunk-aligned, since a range is read without the bytes before it, and may change the length by a constant
//! for each chunk: placement and writer take the stored size, and a read maps its range to whole chunks and
//! cuts them. A type for it would have identity as its one case and no user, so none is here yet.

mod stored_bytes;
mod arriving;
pub(super) mod receive;
pub(super) mod source;

use crate::stripe::Stripes;

/// The bodies of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Bodies {
    pub(super) stripes: Stripes,
    /// Whether a body whose client sent another checksum goes without its MD5.
    pub(super) fast_etags: bool,
}

#[cfg(test)]
mod tests;
