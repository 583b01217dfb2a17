//! The 64 steps of MD5 (RFC 1321), once for words of any width, and what they do with plain words.
//!
//! A step waits for the one before it, so one stream keeps a processor waiting most of the time:
//! words of several streams, side by side in vectors or one after the other, take hardly longer
//! than those of one. `steps!` is compiled where it is named, with the operations in scope there:
//! `constant`, `add`, `rotate`, the four functions of the rounds, and `pinned`.

/// What each step adds: 2^32 times |sin i|, for i from 1 on.
pub(super) const CONSTANTS: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// Takes one block into every group's state.
macro_rules! steps {
    ($groups:expr, $state:expr, $message:expr) => {{
        let mut new = *$state;
        macro_rules! step {
            ($mix:ident, $a:literal $b:literal $c:literal $d:literal, $step:expr, $word:literal, $by:literal) => {
                for group in 0..$groups {
                    let words = &mut new[group];
                    let early = add(add(words[$a], constant(CONSTANTS[$step])), $message[group][$word]);
                    let sum = $mix(words[$b], words[$c], words[$d], early);
                    words[$a] = add(rotate::<$by, { 32 - $by }>(sum), words[$b]);
                }
            };
        }
        macro_rules! four {
            ($mix:ident, $step:literal, $w:literal $x:literal $y:literal $z:literal, $p:literal $q:literal $r:literal $s:literal) => {
                step!($mix, 0 1 2 3, $step, $w, $p);
                step!($mix, 3 0 1 2, $step + 1, $x, $q);
                step!($mix, 2 3 0 1, $step + 2, $y, $r);
                step!($mix, 1 2 3 0, $step + 3, $z, $s);
            };
        }
        four!(first, 0, 0 1 2 3, 7 12 17 22);
        four!(first, 4, 4 5 6 7, 7 12 17 22);
        four!(first, 8, 8 9 10 11, 7 12 17 22);
        four!(first, 12, 12 13 14 15, 7 12 17 22);
        four!(second, 16, 1 6 11 0, 5 9 14 20);
        four!(second, 20, 5 10 15 4, 5 9 14 20);
        four!(second, 24, 9 14 3 8, 5 9 14 20);
        four!(second, 28, 13 2 7 12, 5 9 14 20);
        four!(third, 32, 5 8 11 14, 4 11 16 23);
        four!(third, 36, 1 4 7 10, 4 11 16 23);
        four!(third, 40, 13 0 3 6, 4 11 16 23);
        four!(third, 44, 9 12 15 2, 4 11 16 23);
        four!(fourth, 48, 0 7 14 5, 6 10 15 21);
        four!(fourth, 52, 12 3 10 1, 6 10 15 21);
        four!(fourth, 56, 8 15 6 13, 6 10 15 21);
        four!(fourth, 60, 4 11 2 9, 6 10 15 21);
        for (state, new) in $state.iter_mut().zip(new) {
            for (word, new) in state.iter_mut().zip(new) {
                *word = add(*word, new);
            }
        }
    }};
}
pub(super) use steps;
