//! Buffers of one frame each, used again: a frame is made on one thread and freed on another, and an
//! allocator would keep what each thread has freed.

use bytes::Bytes;
use parking_lot::Mutex;

use crate::limits::{FRAME_BYTES, SPARE_FRAMES_MAX};

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer with room for [`FRAME_BYTES`]. It goes back to the spare ones when it is dropped.
#[derive(Debug)]
pub(crate) struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    /// Takes an empty buffer.
    pub(crate) fn new() -> Self {
        let spare = SPARE.lock().pop();
        Self(spare.unwrap_or_else(|| Vec::with_capacity(FRAME_BYTES)))
    }

    /// Takes a buffer of zeros, for bytes that are read into it.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        let mut buffer = Self::new();
        buffer.0.resize(bytes.min(FRAME_BYTES), 0);
        buffer
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends as much of `bytes` as there is room for, and returns its length.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(FRAME_BYTES - self.0.len());
        self.0.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        taken
    }

    /// The bytes, whose buffer goes back with the last copy of them.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for FrameBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        let mut spare = SPARE.lock();
        if spare.len() < SPARE_FRAMES_MAX {
            self.0.clear();
            spare.push(std::mem::take(&mut self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_takes_a_frame_and_no_more() {
        let mut buffer = FrameBuffer::new();
        let bytes = vec![7; FRAME_BYTES];
        assert_eq!(
            (buffer.fill(&bytes[1..]), buffer.fill(&bytes), buffer.fill(&bytes)),
            (FRAME_BYTES - 1, 1, 0)
        );
        assert_eq!(buffer.freeze(), bytes);
        assert_eq!(FrameBuffer::new().len(), 0);
        assert_eq!(FrameBuffer::zeroed(3).freeze(), [0; 3][..]);
    }
}
