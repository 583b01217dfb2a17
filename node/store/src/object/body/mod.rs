//! The bytes of objects and parts, on their way in and out.

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
