//! Bounds of the answers that `user` reads.

/// Elements within each other, at most: a result's are five deep.
pub(super) const DEPTH_MAX: usize = 16;
