//! All lanes give the digests of RFC 1321 and of the `md-5` crate, however many streams there are and
//! however their bytes are cut.

use md5_reference::Digest as _;
use proptest::prelude::*;

use super::*;

fn reference(bytes: &[u8]) -> [u8; 16] {
    md5_reference::Md5::digest(bytes).into()
}

/// Streams of these lengths, each of other bytes.
fn streams(lengths: &[usize], seed: u64) -> Vec<Vec<u8>> {
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    lengths
        .iter()
        .map(|length| {
            let mut bytes = vec![0; *length];
            random.fill(&mut bytes);
            bytes
        })
        .collect()
}

/// Hashes all streams at a time, in rounds of the lengths that `cut` gives for each stream.
fn digests(lanes: Lanes, streams: &[Vec<u8>], mut cut: impl FnMut(usize) -> usize) -> Vec<[u8; 16]> {
    let mut hashers = vec![Md5::new(); streams.len()];
    let mut left: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
    while left.iter().any(|left| !left.is_empty()) {
        let mut round: Vec<Stream<'_>> = hashers
            .iter_mut()
            .zip(&mut left)
            .map(|(md5, left)| {
                let (bytes, later) = left.split_at(cut(left.len()).min(left.len()));
                *left = later;
                Stream { md5, bytes }
            })
            .collect();
        lanes.update(&mut round);
    }
    hashers.into_iter().map(Md5::finish).collect()
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
    for bytes in streams(&(0..300).collect::<Vec<_>>(), 1) {
        assert_eq!(Md5::digest(&bytes), reference(&bytes), "{} bytes", bytes.len());
    }
}

#[test]
fn any_number_of_streams_fits_all_lanes() {
    for lanes in Lanes::all() {
        for count in 0..=70 {
            let streams = streams(&vec![64 * 3 + 7; count], count as u64);
            let expected: Vec<[u8; 16]> = streams.iter().map(|bytes| reference(bytes)).collect();
            assert_eq!(digests(lanes, &streams, |left| left), expected, "{count} in {lanes:?}");
        }
    }
}

#[test]
fn plain_lanes_are_everywhere_and_the_best_are_the_last() {
    let all: Vec<Lanes> = Lanes::all().collect();
    assert_eq!(all[0], Lanes::PLAIN);
    assert_eq!(all.last(), Some(&Lanes::best()));
    let names: std::collections::BTreeSet<&str> = all.iter().map(|lanes| lanes.name()).collect();
    assert_eq!(names.len(), all.len());
}

proptest! {
    #[test]
    fn streams_of_any_lengths_cut_anywhere_give_their_own_digests(
        lengths in prop::collection::vec(prop_oneof![0..200_usize, 0..5000_usize], 0..40),
        cuts in prop::collection::vec(prop_oneof![0..70_usize, 1..1000_usize], 1..50),
        seed: u64,
    ) {
        let streams = streams(&lengths, seed);
        let expected: Vec<[u8; 16]> = streams.iter().map(|bytes| reference(bytes)).collect();
        for lanes in Lanes::all() {
            let mut turn = 0;
            let cut = |_| {
                turn += 1;
                // Empty ones too, but not for ever.
                cuts[turn % cuts.len()].max(usize::from(turn > 200))
            };
            prop_assert_eq!(&digests(lanes, &streams, cut), &expected, "{:?}", lanes);
        }
    }
}
