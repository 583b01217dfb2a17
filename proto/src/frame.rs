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
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::v1::WriteShard;
    use crate::v1::write_shard::{Begin, Finish, Step};

    /// The messages of a body, with the bytes of each joined.
    fn read(buffers: impl IntoIterator<Item = Bytes>) -> Result<Vec<WriteShard>, FrameFault> {
        let (mut reader, mut read, mut bytes, mut announced) = (FrameReader::of_bytes(), vec![], vec![], 0);
        let mut buffers = buffers.into_iter();
        loop {
            match reader.part()? {
                Some(FramePart::Message(message)) => {
                    read.push(WriteShard::decode(message).expect("the codec wrote it"));
                }
                Some(FramePart::Start(count)) => announced = count,
                Some(FramePart::Bytes(more)) => {
                    bytes.extend_from_slice(&more);
                    if bytes.len() == announced {
                        let whole = Bytes::from(std::mem::take(&mut bytes));
                        read.push(WriteShard { step: Some(Step::Bytes(whole)) });
                    }
                }
                None => match buffers.next() {
                    Some(buffer) => reader.push(buffer),
                    None => break,
                },
            }
        }
        reader.end().map(|()| read)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..400).prop_map(|bytes| Step::Bytes(bytes.into())),
            any::<bool>().prop_map(|replace| Step::Begin(Begin { replace, ..Begin::default() })),
            Just(Step::Finish(Finish { digest: Bytes::from_static(&[9; 32]) })),
        ]
    }

    proptest! {
        /// However a body of the codec is cut into buffers, its messages are read.
        #[test]
        fn what_the_codec_writes_is_read(
            steps in prop::collection::vec(step(), 0..6),
            cuts in prop::collection::vec(1_usize..60, 0..200),
        ) {
            let steps: Vec<_> = steps.into_iter().map(|step| WriteShard { step: Some(step) }).collect();
            let mut body = Bytes::from(steps.iter().map(message).fold(Vec::new(), |mut body, framed| {
                body.extend_from_slice(&framed);
                body
            }));
            let mut buffers: Vec<Bytes> =
                cuts.iter().map_while(|cut| (*cut <= body.len()).then(|| body.split_to(*cut))).collect();
            buffers.push(body);
            prop_assert_eq!(read(buffers), Ok(steps));
        }

        /// Bytes past the codec are framed as it does.
        #[test]
        fn bytes_are_framed_as_the_codec_does(bytes in prop::collection::vec(any::<u8>(), 1..40_000)) {
            let mut framed = bytes_head(bytes.len()).to_vec();
            framed.extend_from_slice(&bytes);
            let by_codec = message(&WriteShard { step: Some(Step::Bytes(bytes.into())) });
            prop_assert_eq!(framed, by_codec.to_vec());
        }
    }

    /// A peer may send each byte in a frame of its own.
    #[test]
    fn a_message_that_comes_byte_by_byte_is_in_few_buffers() {
        let step = WriteShard { step: Some(Step::Finish(Finish { digest: vec![9; 60_000].into() })) };
        let (mut reader, mut messages) = (FrameReader::of_bytes(), vec![]);
        for byte in message(&step) {
            reader.push(Bytes::copy_from_slice(&[byte]));
            assert!(reader.buffers.len() <= MESSAGE_BUFFERS_MAX);
            messages.extend(reader.part().expect("it is one of the codec"));
        }
        let [FramePart::Message(whole)] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(WriteShard::decode(&whole[..]), Ok(step));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn wrong_lengths_flags_and_ends_are_named() {
        let long = SHARD_MESSAGE_BYTES_MAX + 1;
        let mut prefix = vec![0];
        prefix.extend_from_slice(&u32::try_from(long).expect("small").to_be_bytes());
        let too_long = FrameFault::TooLong { bytes: long, max: SHARD_MESSAGE_BYTES_MAX };
        assert_eq!(read([prefix.into()]), Err(too_long));
        assert_eq!(read([Bytes::from_static(&[1, 0, 0, 0, 0])]), Err(FrameFault::Compressed(1)));
        let head = bytes_head(100);
        let cut = [head.clone(), Bytes::from_static(&[7; 99])];
        assert_eq!(read(cut), Err(FrameFault::Cut { missing: 1 }));
        assert_eq!(read([head.slice(..3)]), Err(FrameFault::Cut { missing: 2 }));
        let codec = frame_of(CODEC_MESSAGE_BYTES_MAX + 1);
        let too_long =
            FrameFault::TooLong { bytes: CODEC_MESSAGE_BYTES_MAX + 1, max: CODEC_MESSAGE_BYTES_MAX };
        assert_eq!(read([codec]), Err(too_long), "refused before it is gathered");
        // A field of a mebibyte and one byte, in a message that is short enough.
        let bytes = SHARD_FRAME_BYTES_MAX + 1;
        let over = message(&WriteShard { step: Some(Step::Bytes(vec![0; bytes].into())) });
        assert_eq!(read([over]), Err(FrameFault::TooLong { bytes, max: SHARD_FRAME_BYTES_MAX }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(data in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::shard_stream(&data);
        }
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_are_whole_bodies() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/shard_stream");
        let seeds: Vec<_> = std::fs::read_dir(folder)
            .expect("the seeds")
            .map(|seed| std::fs::read(seed.expect("an entry").path()).expect("a file"))
            .collect();
        assert!(seeds.len() >= 3 && seeds.iter().all(|seed| crate::fuzzing::shard_stream(seed)));
    }

    /// The beginning of a message of this length that is not bytes.
    fn frame_of(length: usize) -> Bytes {
        let mut begun = vec![0];
        begun.extend_from_slice(&u32::try_from(length).expect("small").to_be_bytes());
        begun.extend_from_slice(&[0x0a; 16]);
        begun.into()
    }

    /// A later version may put a field into `WriteReply.taken`, which looks as bytes do.
    #[test]
    fn messages_that_carry_no_bytes_are_the_codecs_whatever_they_look_like() {
        let mut reader = FrameReader::of_messages();
        let looks_like_bytes = Bytes::from_static(&[0, 0, 0, 0, 4, 0x12, 2, 0x08, 1]);
        reader.push(looks_like_bytes.clone());
        assert_eq!(reader.part(), Ok(Some(FramePart::Message(looks_like_bytes.slice(5..)))));
        assert_eq!((reader.part(), reader.end()), (Ok(None), Ok(())));
    }

    /// A field that this version does not have, behind the bytes: the codec passes over it.
    #[test]
    fn bytes_beside_another_field_are_left_to_the_codec() {
        let mut encoded =
            WriteShard { step: Some(Step::Bytes(Bytes::from_static(b"shard"))) }.encode_to_vec();
        encoded.extend_from_slice(&[0x7a, 1, 9]);
        let mut body = vec![0, 0, 0, 0, u8::try_from(encoded.len()).expect("short")];
        body.extend_from_slice(&encoded);
        let expected = WriteShard { step: Some(Step::Bytes(Bytes::from_static(b"shard"))) };
        assert_eq!(read([body.into()]), Ok(vec![expected]));
    }
}
