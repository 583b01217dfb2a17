//! Bytes of memory, as parsed values are counted by: policies here, configurations in `sherd-core`.

/// Bytes that an allocator rounds up to.
const STEP_BYTES: usize = 16;

/// Bytes that an allocation of this length takes.
pub const fn allocated(bytes: usize) -> usize {
    bytes.next_multiple_of(STEP_BYTES)
}

/// Bytes that a shared value takes beside its own: its two counts.
pub const SHARED_BYTES: usize = 2 * size_of::<usize>();
