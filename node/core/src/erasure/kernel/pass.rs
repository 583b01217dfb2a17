//! One pass over the sources: how much is computed in it.

/// Outs computed in one pass over the sources.
pub(super) const OUTS_PER_PASS: usize = 4;
/// Bytes of each source after which the next outs are computed, where there are more than fit one
/// pass: those of nine sources stay in the innermost cache.
pub(super) const BLOCK_BYTES: usize = 4 << 10;
