//! Bytes of shards as messages of gRPC, without a copy: the bytes stay in the buffers that they came in.
//!
//! ```text
//! 0 | length (4) | 0x12 | count (varint) | bytes of a shard, `count` of them     WriteShard, ShardBytes
//! 0 | length (4) | a message in any other form                                   for the codec of `v1`
//! ```
//! The codec writes the same bytes, so either end may use it instead. Both ends of
//! `ShardService.Write` and `ShardService.Read` call this (docs/wire-protocol.md). Sources: gRPC over HTTP/2,
//! Length-Prefixed-Message; Protocol Buffers, encoding.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;

use crate::limits::{
    CODEC_MESSAGE_BYTES_MAX, MESSAGE_BUFFERS_MAX, SHARD_FRAME_BYTES_MAX, SHARD_MESSAGE_BYTES_MAX,
};

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Field 2, with a length: `WriteShard.bytes` and `ShardBytes.bytes`.
const BYTES_TAG: u8 = 0x12;
/// Bytes of a varint below 2^28, which is more than any length here.
const VARINT_BYTES: usize = 4;

/// A fault of a body that is to be messages of shards. Nothing behind it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The flag before a message is not 0.
    #[error("a message is compressed (flag {0}), and none may be")]
    Compressed(u8),
    /// A message, or the bytes of a shard in it, exceed their bound.
    #[error("a message of {bytes} bytes, and {max} at most")]
    TooLong {
        /// As announced.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// The body ended in the middle of a message.
    #[error("the body ends in the middle of a message, {missing} bytes before its end")]
    Cut {
        /// How many bytes did not come, as far as they were announced.
        missing: usize,
    },
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramePart {
    /// A message for the codec.
    Message(Bytes),
    /// The announcement of a shard's bytes, at least one; they follow as [`FramePart::Bytes`].
    Start(usize),
    /// The next of the announced bytes, at least one.
    Bytes(Bytes),
}

/// Cuts the buffers of a body into parts. It holds at most one message for the codec and the buffer that was
/// pushed last.
#[derive(Debug)]
pub struct FrameReader {
    /// Whether a field of bytes alone is bytes of a shard.
    carries_bytes: bool,
    buffers: VecDeque<Bytes>,
    buffered: usize,
    place: FramePlace,
}

/// Where in a message the next byte is.
#[derive(Debug, Clone, Copy, Default)]
enum FramePlace {
    #[default]
    Prefix,
    /// Behind the prefix of a message of this length.
    Message(usize),
    /// Before this number of a shard's bytes.
    Bytes(usize),
}

impl FrameReader {
    /// Reads `WriteShard` or `ShardBytes`.
    pub const fn of_bytes() -> Self {
        Self { carries_bytes: true, buffers: VecDeque::new(), buffered: 0, place: FramePlace::Prefix }
    }

    /// Reads messages that are all for the codec.
    pub const fn of_messages() -> Self {
        Self { carries_bytes: false, buffers: VecDeque::new(), buffered: 0, place: FramePlace::Prefix }
    }

    /// Takes the next buffer of the body.
    pub fn push(&mut self, buffer: Bytes) {
        if !buffer.is_empty() {
            // The buffers are the beginning of a message for the codec.
            if self.buffers.len() == MESSAGE_BUFFERS_MAX {
                let joined = self.take(self.buffered);
                self.buffered = joined.len();
                self.buffers.push_back(joined);
            }
            self.buffered += buffer.len();
            self.buffers.push_back(buffer);
        }
    }

    /// The next part; `None` until another buffer is pushed.
    ///
    /// # Errors
    /// [`FrameFault`], again at each later call.
    pub fn part(&mut self) -> Result<Option<FramePart>, FrameFault> {
        loop {
            match self.place {
                FramePlace::Prefix => {
                    let Some([flag, length @ ..]) = self.peek::<PREFIX_BYTES>() else { return Ok(None) };
                    if flag != 0 {
                        return Err(FrameFault::Compressed(flag));
                    }
                    let bytes = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                    bounded(bytes, SHARD_MESSAGE_BYTES_MAX)?;
                    self.skip(PREFIX_BYTES);
                    self.place = FramePlace::Message(bytes);
                }
                FramePlace::Message(length) => {
                    if self.buffered < length.min(1 + VARINT_BYTES) {
                        return Ok(None);
                    }
                    if let Some((head, bytes)) = self.bytes_field(length).filter(|_| self.carries_bytes) {
                        bounded(bytes, SHARD_FRAME_BYTES_MAX)?;
                        self.skip(head);
                        self.place = FramePlace::Bytes(bytes);
                        return Ok(Some(FramePart::Start(bytes)));
                    }
                    bounded(length, CODEC_MESSAGE_BYTES_MAX)?;
                    if self.buffered < length {
                        return Ok(None);
                    }
                    self.place = FramePlace::Prefix;
                    return Ok(Some(FramePart::Message(self.take(length))));
                }
                FramePlace::Bytes(left) => {
                    let Some(bytes) = self.front(left) else { return Ok(None) };
                    let left = left - bytes.len();
                    self.place = if left > 0 { FramePlace::Bytes(left) } else { FramePlace::Prefix };
                    return Ok(Some(FramePart::Bytes(bytes)));
                }
            }
        }
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    /// [`FrameFault::Cut`].
    pub fn end(&self) -> Result<(), FrameFault> {
        let missing = match self.place {
            FramePlace::Prefix if self.buffered == 0 => return Ok(()),
            FramePlace::Prefix => PREFIX_BYTES,
            FramePlace::Message(length) => length,
            FramePlace::Bytes(left) => left,
        };
        Err(FrameFault::Cut { missing: missing.saturating_sub(self.buffered) })
    }

    /// The lengths of the field's head and of its bytes, where the message is one field of bytes.
    fn bytes_field(&self, length: usize) -> Option<(usize, usize)> {
        let (mut head, mut bytes) = (1, 0);
        let mut front = self.bytes();
        if length == 0 || front.next()? != BYTES_TAG {
            return None;
        }
        for shift in (0..VARINT_BYTES).map(|index| 7 * index) {
            if head == length {
                return None;
            }
            let byte = front.next()?;
            head += 1;
            bytes |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return (bytes > 0 && bytes == length - head).then_some((head, bytes));
            }
        }
        None
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.buffers.iter().flat_map(|buffer| buffer.iter().copied())
    }

    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        if self.buffered < N {
            return None;
        }
        let mut front = [0; N];
        front.iter_mut().zip(self.bytes()).for_each(|(to, byte)| *to = byte);
        Some(front)
    }

    fn skip(&mut self, mut bytes: usize) {
        while let Some(front) = self.front(bytes).filter(|front| !front.is_empty()) {
            bytes -= front.len();
        }
    }

    /// Up to `bytes` bytes of the first buffer; `None` without a buffer, or for no bytes.
    fn front(&mut self, bytes: usize) -> Option<Bytes> {
        let front = self.buffers.front_mut().filter(|_| bytes > 0)?;
        let taken = front.split_to(front.len().min(bytes));
        if front.is_empty() {
            self.buffers.pop_front();
        }
        self.buffered -= taken.len();
        Some(taken)
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        let first = self.front(bytes).unwrap_or_default();
        if first.len() == bytes {
            return first;
        }
        let mut joined = BytesMut::with_capacity(bytes);
        joined.extend_from_slice(&first);
        while let Some(next) = self.front(bytes - joined.len()) {
            joined.extend_from_slice(&next);
        }
        joined.freeze()
    }
}

/// The bytes before those of a shard in their message; the caller sends `count` bytes behind them.
///
/// # Panics
/// When `count` exceeds [`SHARD_FRAME_BYTES_MAX`].
pub fn bytes_head(count: usize) -> Bytes {
    assert!(count <= SHARD_FRAME_BYTES_MAX, "the caller cuts bytes into messages");
    let mut head = BytesMut::with_capacity(PREFIX_BYTES + 1 + VARINT_BYTES);
    head.put_bytes(0, PREFIX_BYTES);
    head.put_u8(BYTES_TAG);
    prost::encoding::encode_varint(count as u64, &mut head);
    let length = head.len() - PREFIX_BYTES + count;
    with_prefix(head, length)
}

/// A message as the codec writes it.
///
/// # Panics
/// When it is longer than any message of shards.
pub fn message(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    assert!(length <= SHARD_MESSAGE_BYTES_MAX, "its fields are bounded");
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_bytes(0, PREFIX_BYTES);
    message.encode(&mut framed).expect("a buffer of bytes grows");
    with_prefix(framed, length)
}

fn with_prefix(mut framed: BytesMut, length: usize) -> Bytes {
    let length = u32::try_from(length).expect("a message of shards is short");
    framed[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    framed.freeze()
}

const fn bounded(bytes: usize, max: usize) -> Result<(), FrameFault> {
    if bytes > max { Err(FrameFault::TooLong { bytes, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
