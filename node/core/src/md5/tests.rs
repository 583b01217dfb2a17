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

proptest! {
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
