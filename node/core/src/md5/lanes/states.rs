//! The states of streams as vectors take them: a word of all lanes beside another.

/// Streams that the widest registers take.
pub(in crate::md5) const LANES: usize = 16;

/// The state of each lane.
#[repr(align(64))]
pub(super) struct States(pub(super) [[u32; LANES]; 4]);
