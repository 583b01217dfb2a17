//! The digests of RFC 1321 and of the `md-5` crate, however the bytes are cut.

use md5_reference::Digest as _;
use proptest::prelude::*;

use super::*;

fn reference(bytes: &[u8]) -> [u8; 16] {
    md5_reference::Md5::digest(bytes).into()
}

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn the_suite_of_rfc_1321_holds() {
    let cases: [(&str, &str); 7] = [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        (
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "d174ab98d277d9f5a5611c2c9f419d9f",
        ),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
    ];
    for (text, expected) in cases {
        let value = u128::from_be_bytes(Md5::digest(text.as_bytes()));
        assert_eq!(format!("{value:032x}"), expected, "{text}");
    }
}

#[test]
fn every_length_is_padded_as_it_must_be() {
    for length in 0..300 {
        let bytes = bytes(length, 1);
        assert_eq!(Md5::digest(&bytes), reference(&bytes), "{length} bytes");
    }
}

/// Every kind of lanes that this processor has, with fewer streams than lanes too.
#[test]
fn lanes_hash_as_one_stream_does() {
    for units in lanes::Units::all() {
        for count in 1..=units.lanes() {
            let streams: Vec<Vec<u8>> = (0..count).map(|seed| bytes((seed + 1) * 640, seed as u64)).collect();
            let mut together: Vec<State> = (0..count).map(|_| Md5::new().state).collect();
            let mut states: Vec<&mut State> = together.iter_mut().collect();
            let blocks: Vec<&[Block]> = streams.iter().map(|bytes| bytes.as_chunks().0).collect();
            assert_eq!(units.compress(&mut states, &blocks), 10, "the blocks of the shortest");
            for (stream, state) in streams.iter().zip(together) {
                let mut alone = Md5::new();
                alone.update(&stream[..640]);
                assert_eq!(state, alone.state, "{units:?} with {count} streams");
            }
        }
    }
}

proptest! {
    #[test]
    fn streams_of_any_lengths_give_the_digests_of_each(
        streams in prop::collection::vec(
            (0..130_usize, prop_oneof![0..70_usize, 0..5000_usize], 0..200_usize), 0..40),
        seed in 0..u64::from(u32::MAX),
    ) {
        let bytes: Vec<Vec<u8>> = (seed..).zip(&streams)
            .map(|(seed, (before, now, behind))| bytes(before + now + behind, seed)).collect();
        let mut digests: Vec<Md5> = streams.iter().map(|_| Md5::new()).collect();
        for ((md5, bytes), (before, ..)) in digests.iter_mut().zip(&bytes).zip(&streams) {
            md5.update(&bytes[..*before]);
        }
        let mut side_by_side: Vec<(&mut Md5, &[u8])> = digests.iter_mut().zip(&bytes).zip(&streams)
            .map(|((md5, bytes), (before, now, _))| (md5, &bytes[*before..before + now])).collect();
        Md5::update_many(&mut side_by_side);
        for ((mut md5, bytes), (before, now, _)) in digests.into_iter().zip(&bytes).zip(&streams) {
            md5.update(&bytes[before + now..]);
            prop_assert_eq!(md5.finish(), reference(bytes));
        }
    }

    #[test]
    fn bytes_cut_anywhere_give_the_digest_of_the_whole(
        cuts in prop::collection::vec(prop_oneof![0..70_usize, 0..1000_usize], 0..50),
        seed: u64,
    ) {
        let bytes = bytes(cuts.iter().sum(), seed);
        let mut md5 = Md5::new();
        let mut left = &bytes[..];
        for cut in cuts {
            let (now, later) = left.split_at(cut);
            md5.update(now);
            left = later;
        }
        prop_assert_eq!(md5.finish(), reference(&bytes));
    }
}
