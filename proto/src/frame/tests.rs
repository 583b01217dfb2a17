//! Frames of a shard stream, whole and broken.

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
    let too_long = FrameFault::TooLong { bytes: CODEC_MESSAGE_BYTES_MAX + 1, max: CODEC_MESSAGE_BYTES_MAX };
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
    let mut encoded = WriteShard { step: Some(Step::Bytes(Bytes::from_static(b"shard"))) }.encode_to_vec();
    encoded.extend_from_slice(&[0x7a, 1, 9]);
    let mut body = vec![0, 0, 0, 0, u8::try_from(encoded.len()).expect("short")];
    body.extend_from_slice(&encoded);
    let expected = WriteShard { step: Some(Step::Bytes(Bytes::from_static(b"shard"))) };
    assert_eq!(read([body.into()]), Ok(vec![expected]));
}
