//! MD5 of many streams in the lanes of vectors: 16 with AVX-512, 8 with AVX2, and twice as many in
//! two groups, one computed while the other waits.
//!
//! Why the `unsafe` holds: [`Units`] are made only after the processor was asked, which is all that
//! the intrinsics need; every vector is loaded from an array of its length; and the assembly that
//! pins a sum is empty.

#![expect(unsafe_code, reason = "vector intrinsics: units were detected, addresses are those of arrays")]

use std::arch::asm;

use super::{Block, State};

/// Units that this processor has: made only by [`Units::all`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Units(Kind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Avx2,
    Avx512,
}

impl Units {
    /// Those of this processor, the fastest last.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let kinds = [
            (is_x86_feature_detected!("avx2"), Kind::Avx2),
            (is_x86_feature_detected!("avx512f"), Kind::Avx512),
        ];
        kinds.into_iter().filter_map(|(has, kind)| has.then_some(Self(kind)))
    }

    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
        }
    }

    /// From so many streams on vectors win over plain words. Measured on Zen 5: a step takes 12 cycles
    /// in all lanes of AVX2 and 8 in those of AVX-512; in plain words 4.5 for one stream, 5 for three.
    pub(super) const fn streams_min(self) -> usize {
        match self.0 {
            Kind::Avx2 => 7,
            Kind::Avx512 => 4,
        }
    }

    /// Takes the blocks of each stream, of which all have as many, into its state.
    pub(super) fn compress(self, states: &mut [State], streams: &[&[Block]]) {
        // SAFETY: the processor has these units, or `all` would not have made this value.
        unsafe {
            match self.0 {
                Kind::Avx2 => avx2::compress(states, streams),
                Kind::Avx512 => avx512::compress(states, streams),
            }
        }
    }
}

/// Keeps a sum as it was made.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it is no instruction at all")]
pub(super) fn pinned(mut sum: u32) -> u32 {
    // SAFETY: no instruction, only a comment that names the register.
    unsafe { asm!("/* {0:e} */", inout(reg) sum, options(pure, nomem, nostack, preserves_flags)) };
    sum
}

/// One kernel: `$lanes` streams to a vector. The operations are those of the module around it.
macro_rules! kernel {
    ($units:literal, $vector:ty, $lanes:literal, $register:ident) => {
        /// Streams to a vector.
        const LANES: usize = $lanes;

        #[target_feature(enable = $units)]
        pub(super) fn compress(states: &mut [State], streams: &[&[Block]]) {
            for (states, streams) in states.chunks_mut(2 * LANES).zip(streams.chunks(2 * LANES)) {
                if streams.len() > LANES {
                    in_groups::<2>(states, streams);
                } else {
                    in_groups::<1>(states, streams);
                }
            }
        }

        /// Up to `GROUPS * LANES` streams. Lanes without one compute the first stream's again.
        #[target_feature(enable = $units)]
        fn in_groups<const GROUPS: usize>(states: &mut [State], streams: &[&[Block]]) {
            let Some(blank) = streams.first() else { return };
            let mut all = [[*blank; LANES]; GROUPS];
            let mut words = [[[0_u32; LANES]; 4]; GROUPS];
            for (at, (state, stream)) in states.iter().zip(streams).enumerate() {
                all[at / LANES][at % LANES] = *stream;
                for (words, word) in words[at / LANES].iter_mut().zip(state) {
                    words[at % LANES] = *word;
                }
            }
            let mut vectors = [[constant(0); 4]; GROUPS];
            for (vectors, words) in vectors.iter_mut().flatten().zip(words.iter().flatten()) {
                *vectors = load(words);
            }
            let blocks = streams.iter().map(|stream| stream.len()).min().unwrap_or(0);
            for at in 0..blocks {
                let mut message = [[constant(0); 16]; GROUPS];
                for (message, streams) in message.iter_mut().zip(&all) {
                    *message = transposed(streams, at);
                }
                steps!(GROUPS, &mut vectors, &message);
            }
            for (words, vectors) in words.iter_mut().flatten().zip(vectors.iter().flatten()) {
                *words = store(*vectors);
            }
            for (at, state) in states.iter_mut().enumerate() {
                for (word, words) in state.iter_mut().zip(&words[at / LANES]) {
                    *word = words[at % LANES];
                }
            }
        }

        /// Keeps a sum as it was made.
        #[inline]
        #[target_feature(enable = $units)]
        fn pinned(mut sum: $vector) -> $vector {
            // SAFETY: no instruction, only a comment that names the register.
            unsafe { asm!("/* {0} */", inout($register) sum, options(pure, nomem, nostack, preserves_flags)) };
            sum
        }
    };
}

mod avx512 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi32, _mm512_loadu_si512, _mm512_rol_epi32, _mm512_set1_epi32,
        _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_ternarylogic_epi32, _mm512_unpackhi_epi32,
        _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use crate::md5::rounds::{CONSTANTS, steps};
    use crate::md5::{Block, State};

    kernel!("avx512f", __m512i, 16, zmm_reg);

    /// The quarters 0 and 2 of two vectors.
    const EVEN: i32 = 0x88;
    /// The quarters 1 and 3 of two vectors.
    const ODD: i32 = 0xdd;

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(words: &[u32; 16]) -> __m512i {
        // SAFETY: the array is as long as a vector.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(vector: __m512i) -> [u32; 16] {
        let mut words = [0; 16];
        // SAFETY: the array is as long as a vector.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
        words
    }

    /// Word by word, block `at` of each stream.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transposed(streams: &[&[Block]; 16], at: usize) -> [__m512i; 16] {
        let mut rows = [_mm512_set1_epi32(0); 16];
        for (row, stream) in rows.iter_mut().zip(streams) {
            // SAFETY: a block is as long as a vector.
            *row = unsafe { _mm512_loadu_si512(stream[at].as_ptr().cast()) };
        }
        // Of every four rows: quarters that hold one column each, `4 * quarter + column`.
        let mut quarters = [[_mm512_set1_epi32(0); 4]; 4];
        for (columns, rows) in quarters.iter_mut().zip(rows.as_chunks::<4>().0) {
            let [a, b, c, d] = *rows;
            let (low_ab, high_ab) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (low_cd, high_cd) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            *columns = [
                _mm512_unpacklo_epi64(low_ab, low_cd),
                _mm512_unpackhi_epi64(low_ab, low_cd),
                _mm512_unpacklo_epi64(high_ab, high_cd),
                _mm512_unpackhi_epi64(high_ab, high_cd),
            ];
        }
        let mut words = [_mm512_set1_epi32(0); 16];
        for column in 0..4 {
            let [a, b, c, d] = [0, 1, 2, 3].map(|rows: usize| quarters[rows][column]);
            let (even_ab, odd_ab) = (_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b));
            let (even_cd, odd_cd) = (_mm512_shuffle_i32x4::<EVEN>(c, d), _mm512_shuffle_i32x4::<ODD>(c, d));
            words[column] = _mm512_shuffle_i32x4::<EVEN>(even_ab, even_cd);
            words[4 + column] = _mm512_shuffle_i32x4::<EVEN>(odd_ab, odd_cd);
            words[8 + column] = _mm512_shuffle_i32x4::<ODD>(even_ab, even_cd);
            words[12 + column] = _mm512_shuffle_i32x4::<ODD>(odd_ab, odd_cd);
        }
        words
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn constant(value: u32) -> __m512i {
        _mm512_set1_epi32(value.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rotate<const LEFT: i32, const RIGHT: i32>(words: __m512i) -> __m512i {
        _mm512_rol_epi32::<LEFT>(words)
    }

    /// One function of a round; its table has a bit for each value of b, c and d.
    macro_rules! mixes {
        ($($name:ident = $table:literal;)*) => {
            $(
                #[inline]
                #[target_feature(enable = "avx512f")]
                fn $name(b: __m512i, c: __m512i, d: __m512i, early: __m512i) -> __m512i {
                    add(pinned(early), _mm512_ternarylogic_epi32::<$table>(b, c, d))
                }
            )*
        };
    }

    mixes! {
        first = 0xca;
        second = 0xe4;
        third = 0x96;
        fourth = 0x39;
    }
}

mod avx2 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_loadu_si256,
        _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_slli_epi32, _mm256_srli_epi32,
        _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
        _mm256_unpacklo_epi64, _mm256_xor_si256,
    };

    use crate::md5::rounds::{CONSTANTS, steps};
    use crate::md5::{Block, State};

    kernel!("avx2", __m256i, 8, ymm_reg);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(words: &[u32; 8]) -> __m256i {
        // SAFETY: the array is as long as a vector.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(vector: __m256i) -> [u32; 8] {
        let mut words = [0; 8];
        // SAFETY: the array is as long as a vector.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
        words
    }

    /// Word by word, block `at` of each stream.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transposed(streams: &[&[Block]; 8], at: usize) -> [__m256i; 16] {
        let mut words = [_mm256_set1_epi32(0); 16];
        for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut rows = [_mm256_set1_epi32(0); 8];
            for (row, stream) in rows.iter_mut().zip(streams) {
                let bytes = &stream[at].as_chunks::<32>().0[half];
                // SAFETY: half a block is as long as a vector.
                *row = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            }
            // Of every four rows: halves that hold one column each, `4 * half + column`.
            let mut halves = [[_mm256_set1_epi32(0); 4]; 2];
            for (columns, rows) in halves.iter_mut().zip(rows.as_chunks::<4>().0) {
                let [a, b, c, d] = *rows;
                let (low_ab, high_ab) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
                let (low_cd, high_cd) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
                *columns = [
                    _mm256_unpacklo_epi64(low_ab, low_cd),
                    _mm256_unpackhi_epi64(low_ab, low_cd),
                    _mm256_unpacklo_epi64(high_ab, high_cd),
                    _mm256_unpackhi_epi64(high_ab, high_cd),
                ];
            }
            for column in 0..4 {
                let (a, b) = (halves[0][column], halves[1][column]);
                words[column] = _mm256_permute2x128_si256::<0x20>(a, b);
                words[4 + column] = _mm256_permute2x128_si256::<0x31>(a, b);
            }
        }
        words
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn constant(value: u32) -> __m256i {
        _mm256_set1_epi32(value.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const LEFT: i32, const RIGHT: i32>(words: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_slli_epi32::<LEFT>(words), _mm256_srli_epi32::<RIGHT>(words))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn first(b: __m256i, c: __m256i, d: __m256i, early: __m256i) -> __m256i {
        add(pinned(early), _mm256_xor_si256(d, _mm256_and_si256(b, _mm256_xor_si256(c, d))))
    }

    /// Both terms have different bits, so they can be added, and the first is known early.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn second(b: __m256i, c: __m256i, d: __m256i, early: __m256i) -> __m256i {
        add(pinned(add(early, _mm256_andnot_si256(d, c))), _mm256_and_si256(b, d))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn third(b: __m256i, c: __m256i, d: __m256i, early: __m256i) -> __m256i {
        add(pinned(early), _mm256_xor_si256(b, _mm256_xor_si256(c, d)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn fourth(b: __m256i, c: __m256i, d: __m256i, early: __m256i) -> __m256i {
        let not_d = _mm256_xor_si256(d, _mm256_set1_epi32(-1));
        add(pinned(early), _mm256_xor_si256(c, _mm256_or_si256(b, not_d)))
    }
}
