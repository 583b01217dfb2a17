//! Little-endian reading and writing with bounds: the only way bytes become values.
//!
//! A [`Reader`] never panics and never allocates more than the bytes it was given can justify, so
//! a decoder built on it is safe on bytes from disk, wire or client.

#![deny(clippy::indexing_slicing)]

use bytes::{Buf, Bytes};
use smallvec::SmallVec;

/// Why bytes are not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("bytes end inside {field}")]
    Short {
        /// Name of the field.
        field: &'static str,
    },
    /// A field holds what it must not.
    #[error("invalid {field}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
    },
    /// The format's version is not known here.
    #[error("unknown version {version} of {field}")]
    Version {
        /// Name of the format.
        field: &'static str,
        /// The version in the bytes.
        version: u8,
    },
    /// Bytes are left over behind the value.
    #[error("bytes left over behind {field}")]
    Trailing {
        /// Name of the value.
        field: &'static str,
    },
}

/// Reads little-endian fields from shared bytes, in order.
#[derive(Debug, Clone)]
pub struct Reader {
    rest: Bytes,
}

impl Reader {
    /// Starts at the first byte.
    pub const fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes `length` bytes without copying.
    ///
    /// # Errors
    /// [`DecodeError::Short`] when fewer are left.
    pub fn bytes(&mut self, length: usize, field: &'static str) -> Result<Bytes, DecodeError> {
        if length > self.rest.len() {
            return Err(DecodeError::Short { field });
        }
        Ok(self.rest.split_to(length))
    }

    /// Takes a fixed number of bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`] when fewer are left.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let taken = *self.rest.first_chunk::<N>().ok_or(DecodeError::Short { field })?;
        self.rest.advance(N);
        Ok(taken)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`DecodeError::Short`] at the end.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Takes a `u16`.
    ///
    /// # Errors
    /// [`DecodeError::Short`] at the end.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// Takes a `u32`.
    ///
    /// # Errors
    /// [`DecodeError::Short`] at the end.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// Takes a `u64`.
    ///
    /// # Errors
    /// [`DecodeError::Short`] at the end.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Takes a byte string with a `u32` length in front.
    ///
    /// # Errors
    /// [`DecodeError::Short`] when the length says more than is left.
    pub fn blob(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        let length = self.u32(field)?;
        self.bytes(usize::try_from(length).map_err(|_| DecodeError::Invalid { field })?, field)
    }

    /// Takes UTF-8 text with a `u32` length in front.
    ///
    /// # Errors
    /// As [`Reader::blob`]; [`DecodeError::Invalid`] when it is not UTF-8.
    pub fn text(&mut self, field: &'static str) -> Result<String, DecodeError> {
        let length = usize::try_from(self.u32(field)?).map_err(|_| DecodeError::Invalid { field })?;
        let bytes = self.rest.get(..length).ok_or(DecodeError::Short { field })?;
        let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Invalid { field })?.to_owned();
        self.rest.advance(length);
        Ok(text)
    }

    /// Takes a count of entries of at least `entry_bytes` each, so that a lying count cannot make
    /// the caller allocate.
    ///
    /// # Errors
    /// [`DecodeError::Short`] when the rest cannot hold `count` entries.
    pub fn count(&mut self, entry_bytes: usize, field: &'static str) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.u32(field)?).map_err(|_| DecodeError::Invalid { field })?;
        match count.checked_mul(entry_bytes.max(1)) {
            Some(least) if least <= self.remaining() => Ok(count),
            _ => Err(DecodeError::Short { field }),
        }
    }

    /// Ends: nothing may be left.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] when something is.
    pub fn finish(self, field: &'static str) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { field }) }
    }
}

/// Bytes that a writer holds without memory of its own: most keys and rows.
const SMALL_BYTES: usize = 512;

/// Appends little-endian fields.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: SmallVec<[u8; SMALL_BYTES]>,
}

impl Writer {
    /// Starts empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts empty, with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: SmallVec::with_capacity(capacity) }
    }

    /// Appends raw bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    /// Appends a `u16`.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Appends a `u32`.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Appends a `u64`.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Appends a number of entries.
    ///
    /// # Panics
    /// When there are more than `u32::MAX`; every list has a far lower limit.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.u32(u32::try_from(count).expect("lists are limited far below u32::MAX"))
    }

    /// Appends a byte string with its length in front.
    pub fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).raw(bytes)
    }

    /// The bytes written until here.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes written until here, to fill in fields whose values depend on later ones.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Appends zeros.
    pub fn zeros(&mut self, count: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + count, 0);
        self
    }

    /// Starts again, in the room that is there.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// How much was written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends and hands the bytes out.
    pub fn finish(self) -> Bytes {
        if self.bytes.spilled() { self.bytes.into_vec().into() } else { small(&self.bytes) }
    }
}

/// Copies a few bytes into one piece of memory with the count of their owners. A vector would take a
/// second piece for the count when it is first cloned, and what is written here mostly is.
fn small(bytes: &[u8]) -> Bytes {
    match bytes.len() {
        0 => Bytes::new(),
        1..=32 => ShortBytes::<32>::share(bytes),
        33..=64 => ShortBytes::<64>::share(bytes),
        65..=128 => ShortBytes::<128>::share(bytes),
        129..=192 => ShortBytes::<192>::share(bytes),
        193..=256 => ShortBytes::<256>::share(bytes),
        257..=384 => ShortBytes::<384>::share(bytes),
        _ => ShortBytes::<SMALL_BYTES>::share(bytes),
    }
}

/// At most `N` bytes.
struct ShortBytes<const N: usize> {
    length: usize,
    bytes: [u8; N],
}

impl<const N: usize> ShortBytes<N> {
    fn share(from: &[u8]) -> Bytes {
        let mut bytes = [0; N];
        bytes[..from.len()].copy_from_slice(from);
        Bytes::from_owner(Self { length: from.len(), bytes })
    }
}

impl<const N: usize> AsRef<[u8]> for ShortBytes<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lying_count_is_refused() {
        let mut reader = Reader::new(Bytes::from_static(&[0xff, 0xff, 0xff, 0x7f, 1, 2]));
        assert_eq!(reader.count(16, "list"), Err(DecodeError::Short { field: "list" }));
    }

    #[test]
    fn written_bytes_come_back_at_every_length() {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(2 * SMALL_BYTES).collect();
        for length in 0..bytes.len() {
            let mut writer = Writer::with_capacity(length / 2);
            let expected = bytes.get(..length).unwrap();
            assert_eq!(writer.raw(expected).len(), length);
            assert_eq!(writer.finish(), expected);
        }
    }

    #[test]
    fn fields_come_back_in_order() {
        let mut writer = Writer::new();
        writer.u8(1).u16(2).u32(3).u64(4).blob(b"five");
        let mut reader = Reader::new(writer.finish());
        assert_eq!(reader.u8("a"), Ok(1));
        assert_eq!(reader.u16("b"), Ok(2));
        assert_eq!(reader.u32("c"), Ok(3));
        assert_eq!(reader.u64("d"), Ok(4));
        assert_eq!(reader.text("e"), Ok("five".to_owned()));
        assert_eq!(reader.finish("all"), Ok(()));
    }
}
