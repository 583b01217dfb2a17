//! The steps in vector registers: 8 or 16 streams, a word of each in a lane.
//!
//! Why the `unsafe` of this file holds: [`Units`] are made only after the processor was asked, which is all
//! that the intrinsics need; and every address that is read or written is that of an array or a block of
//! the length meant.

#![expect(unsafe_code, reason = "vector intrinsics: units were detected, addresses come from checked slices")]
#![expect(
    clippy::inline_always,
    reason = "below a function compiled for its units all must become part of it"
)]

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_load_si256,
    _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_rol_epi32, _mm256_set1_epi32,
    _mm256_slli_epi32, _mm256_srli_epi32, _mm256_store_si256, _mm256_ternarylogic_epi32,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    _mm256_xor_si256, _mm512_add_epi32, _mm512_load_si512, _mm512_loadu_si512, _mm512_rol_epi32,
    _mm512_set1_epi32, _mm512_shuffle_i32x4, _mm512_store_si512, _mm512_ternarylogic_epi32,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::states::{LANES, States};
use crate::md5::block::{Block, CONSTANTS, in_order};

/// Units that this processor has: made only by [`Units::all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    Avx2,
    /// The instructions of AVX-512 on registers of AVX2.
    Avx512Half,
    Avx512,
}

impl Units {
    /// Units of this processor; of one width the best comes first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let avx2 = is_x86_feature_detected!("avx2");
        let avx512 = is_x86_feature_detected!("avx512f");
        let half = avx2 && avx512 && is_x86_feature_detected!("avx512vl");
        let kinds = [(half, Self::Avx512Half), (avx2, Self::Avx2), (avx512, Self::Avx512)];
        kinds.into_iter().filter_map(|(has, kind)| has.then_some(kind))
    }

    pub(super) const fn lanes(self) -> usize {
        match self {
            Self::Avx2 | Self::Avx512Half => 8,
            Self::Avx512 => 16,
        }
    }

    /// Takes the first blocks of each stream into the states.
    pub(super) fn compress(self, states: &mut States, streams: &[&[Block]; LANES], blocks: usize) {
        // SAFETY: the processor has these units, or `all` would not have made this value.
        unsafe {
            match self {
                Self::Avx2 => avx2(states, streams, blocks),
                Self::Avx512Half => avx512_half(states, streams, blocks),
                Self::Avx512 => avx512(states, streams, blocks),
            }
        }
    }
}

/// Makes a function that takes blocks into states, compiled for some units; its registers are of a class.
macro_rules! compress {
    ($name:ident, $units:literal, $lanes:ident, $class:ident) => {
        #[target_feature(enable = $units)]
        fn $name(states: &mut States, streams: &[&[Block]; LANES], blocks: usize) {
            // SAFETY: compiled for the units; the assembly is only a comment that names the
            // register.
            unsafe {
                let mut words = [
                    $lanes::load(&states.0[0]),
                    $lanes::load(&states.0[1]),
                    $lanes::load(&states.0[2]),
                    $lanes::load(&states.0[3]),
                ];
                for block in 0..blocks {
                    let message = $lanes::message(streams, block);
                    let old = words;
                    macro_rules! step {
                        ($mix:ident, $a:literal $b:literal $c:literal $d:literal, $number:expr, $word:literal, $by:literal) => {
                            let $lanes(mut early) = words[$a].add($lanes::all(CONSTANTS[$number]).add(message[$word]));
                            // As for one stream: what is late is added to a sum that is there already.
                            asm!("/* {0} */", inout($class) early, options(pure, nomem, nostack, preserves_flags));
                            let sum = $lanes(early).add($lanes::$mix(words[$b], words[$c], words[$d]));
                            words[$a] = sum.rotated::<$by, { 32 - $by }>().add(words[$b]);
                        };
                    }
                    in_order!(step);
                    for (word, old) in words.iter_mut().zip(old) {
                        *word = word.add(old);
                    }
                }
                for (word, all) in words.into_iter().zip(&mut states.0) {
                    word.store(all);
                }
            }
        }
    };
}

compress!(avx2, "avx2", Eight, ymm_reg);
compress!(avx512_half, "avx2,avx512f,avx512vl", EightTernary, ymm_reg);
compress!(avx512, "avx512f", Sixteen, zmm_reg);

/// A word of each stream.
///
/// All functions are only called, and are inlined, where the processor is known to have the units: that is
/// the condition of every `unsafe fn` here.
trait Lanes: Copy {
    unsafe fn all(word: u32) -> Self;
    unsafe fn load(words: &[u32; LANES]) -> Self;
    unsafe fn store(self, words: &mut [u32; LANES]);
    /// The 16 words of a block of each stream.
    unsafe fn message(streams: &[&[Block]; LANES], block: usize) -> [Self; 16];
    unsafe fn add(self, other: Self) -> Self;
    /// `RIGHT` is what `LEFT` lacks to 32.
    unsafe fn rotated<const LEFT: i32, const RIGHT: i32>(self) -> Self;
    unsafe fn first(b: Self, c: Self, d: Self) -> Self;
    unsafe fn second(b: Self, c: Self, d: Self) -> Self;
    unsafe fn third(b: Self, c: Self, d: Self) -> Self;
    unsafe fn fourth(b: Self, c: Self, d: Self) -> Self;
}

/// AVX2.
#[derive(Clone, Copy)]
struct Eight(__m256i);

/// The words from byte `at` on of four of the eight streams: words 0 and 4, 1 and 5, 2 and 6, 3 and 7.
///
/// # Safety
/// The processor has AVX2, and `at` is at most half a block.
#[inline(always)]
unsafe fn four_of_eight(streams: &[&[Block]; LANES], first: usize, block: usize, at: usize) -> [__m256i; 4] {
    // SAFETY: the caller's units; a block has 64 bytes, and no alignment is asked for.
    unsafe {
        let a = _mm256_loadu_si256(streams[first][block].as_ptr().add(at).cast());
        let b = _mm256_loadu_si256(streams[first + 1][block].as_ptr().add(at).cast());
        let c = _mm256_loadu_si256(streams[first + 2][block].as_ptr().add(at).cast());
        let d = _mm256_loadu_si256(streams[first + 3][block].as_ptr().add(at).cast());
        let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (next_low, next_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(low, next_low),
            _mm256_unpackhi_epi64(low, next_low),
            _mm256_unpacklo_epi64(high, next_high),
            _mm256_unpackhi_epi64(high, next_high),
        ]
    }
}

/// Eight words of eight streams, from byte `at` on.
///
/// # Safety
/// The processor has AVX2, and `at` is at most half a block.
#[inline(always)]
unsafe fn half_messages(streams: &[&[Block]; LANES], block: usize, at: usize) -> [__m256i; 8] {
    // SAFETY: as this function's.
    unsafe {
        let (a, b) = (four_of_eight(streams, 0, block, at), four_of_eight(streams, 4, block, at));
        [
            _mm256_permute2x128_si256::<0x20>(a[0], b[0]),
            _mm256_permute2x128_si256::<0x20>(a[1], b[1]),
            _mm256_permute2x128_si256::<0x20>(a[2], b[2]),
            _mm256_permute2x128_si256::<0x20>(a[3], b[3]),
            _mm256_permute2x128_si256::<0x31>(a[0], b[0]),
            _mm256_permute2x128_si256::<0x31>(a[1], b[1]),
            _mm256_permute2x128_si256::<0x31>(a[2], b[2]),
            _mm256_permute2x128_si256::<0x31>(a[3], b[3]),
        ]
    }
}

/// Sixteen words of eight streams.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn eight_messages(streams: &[&[Block]; LANES], block: usize) -> [__m256i; 16] {
    // SAFETY: as this function's.
    let halves = unsafe { [half_messages(streams, block, 0), half_messages(streams, block, 32)] };
    std::array::from_fn(|word| halves[word / 8][word % 8])
}

impl Lanes for Eight {
    #[inline(always)]
    unsafe fn all(word: u32) -> Self {
        // SAFETY: the caller's units.
        Self(unsafe { _mm256_set1_epi32(word.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn load(words: &[u32; LANES]) -> Self {
        // SAFETY: the caller's units; words of states are aligned, and more than eight.
        Self(unsafe { _mm256_load_si256(words.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, words: &mut [u32; LANES]) {
        // SAFETY: the caller's units; words of states are aligned, and more than eight.
        unsafe { _mm256_store_si256(words.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn message(streams: &[&[Block]; LANES], block: usize) -> [Self; 16] {
        // SAFETY: the caller's units.
        unsafe { eight_messages(streams, block).map(Self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller's units.
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn rotated<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: the caller's units.
        Self(unsafe {
            _mm256_or_si256(_mm256_slli_epi32::<LEFT>(self.0), _mm256_srli_epi32::<RIGHT>(self.0))
        })
    }

    #[inline(always)]
    unsafe fn first(b: Self, c: Self, d: Self) -> Self {
        // SAFETY: the caller's units.
        unsafe { Self(_mm256_xor_si256(_mm256_and_si256(b.0, _mm256_xor_si256(c.0, d.0)), d.0)) }
    }

    #[inline(always)]
    unsafe fn second(b: Self, c: Self, d: Self) -> Self {
        // SAFETY: the caller's units.
        unsafe { Self(_mm256_or_si256(_mm256_and_si256(b.0, d.0), _mm256_andnot_si256(d.0, c.0))) }
    }

    #[inline(always)]
    unsafe fn third(b: Self, c: Self, d: Self) -> Self {
        // SAFETY: the caller's units.
        Self(unsafe { _mm256_xor_si256(b.0, _mm256_xor_si256(c.0, d.0)) })
    }

    #[inline(always)]
    unsafe fn fourth(b: Self, c: Self, d: Self) -> Self {
        // SAFETY: the caller's units.
        unsafe {
            let ones = Self::all(u32::MAX).0;
            Self(_mm256_xor_si256(c.0, _mm256_or_si256(b.0, _mm256_xor_si256(d.0, ones))))
        }
    }
}

/// The tables of a step's mix of three words, for one instruction: `b ? c : d`, `d ? b : c`, the sum of
/// three bits, and `c ^ (b | !d)`.
const FIRST: i32 = 0xca;
const SECOND: i32 = 0xe4;
const THIRD: i32 = 0x96;
const FOURTH: i32 = 0x39;

/// Implements [`Lanes`] with the instructions of AVX-512 for registers of some width.
macro_rules! ternary_lanes {
    ($name:ident, $message:ident, $set:ident $load:ident $store:ident $add:ident $rol:ident $ternary:ident) => {
        impl Lanes for $name {
            #[inline(always)]
            unsafe fn all(word: u32) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $set(word.cast_signed()) })
            }

            #[inline(always)]
            unsafe fn load(words: &[u32; LANES]) -> Self {
                // SAFETY: the caller's units; words of states are aligned, and as many or more.
                Self(unsafe { $load(words.as_ptr().cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, words: &mut [u32; LANES]) {
                // SAFETY: the caller's units; words of states are aligned, and as many or more.
                unsafe { $store(words.as_mut_ptr().cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn message(streams: &[&[Block]; LANES], block: usize) -> [Self; 16] {
                // SAFETY: the caller's units.
                unsafe { $message(streams, block).map(Self) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn rotated<const LEFT: i32, const RIGHT: i32>(self) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $rol::<LEFT>(self.0) })
            }

            #[inline(always)]
            unsafe fn first(b: Self, c: Self, d: Self) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $ternary::<FIRST>(b.0, c.0, d.0) })
            }

            #[inline(always)]
            unsafe fn second(b: Self, c: Self, d: Self) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $ternary::<SECOND>(b.0, c.0, d.0) })
            }

            #[inline(always)]
            unsafe fn third(b: Self, c: Self, d: Self) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $ternary::<THIRD>(b.0, c.0, d.0) })
            }

            #[inline(always)]
            unsafe fn fourth(b: Self, c: Self, d: Self) -> Self {
                // SAFETY: the caller's units.
                Self(unsafe { $ternary::<FOURTH>(b.0, c.0, d.0) })
            }
        }
    };
}

/// The instructions of AVX-512 for eight streams.
#[derive(Clone, Copy)]
struct EightTernary(__m256i);

/// AVX-512.
#[derive(Clone, Copy)]
struct Sixteen(__m512i);

ternary_lanes!(EightTernary, eight_messages, _mm256_set1_epi32 _mm256_load_si256 _mm256_store_si256
    _mm256_add_epi32 _mm256_rol_epi32 _mm256_ternarylogic_epi32);
ternary_lanes!(Sixteen, sixteen_messages, _mm512_set1_epi32 _mm512_load_si512 _mm512_store_si512
    _mm512_add_epi32 _mm512_rol_epi32 _mm512_ternarylogic_epi32);

/// The words of four of the sixteen streams: words 0, 4, 8 and 12, then 1, 5, 9 and 13, and so on.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn four_of_sixteen(streams: &[&[Block]; LANES], first: usize, block: usize) -> [__m512i; 4] {
    // SAFETY: the caller's units; a block has 64 bytes, and no alignment is asked for.
    unsafe {
        let a = _mm512_loadu_si512(streams[first][block].as_ptr().cast());
        let b = _mm512_loadu_si512(streams[first + 1][block].as_ptr().cast());
        let c = _mm512_loadu_si512(streams[first + 2][block].as_ptr().cast());
        let d = _mm512_loadu_si512(streams[first + 3][block].as_ptr().cast());
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (next_low, next_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(low, next_low),
            _mm512_unpackhi_epi64(low, next_low),
            _mm512_unpacklo_epi64(high, next_high),
            _mm512_unpackhi_epi64(high, next_high),
        ]
    }
}

/// Four words of sixteen streams, of which four streams have four words each in a register.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn four_words(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
    // SAFETY: the caller's units.
    unsafe {
        let (early, late) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
        let (next_early, next_late) =
            (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
        [
            _mm512_shuffle_i32x4::<0x88>(early, next_early),
            _mm512_shuffle_i32x4::<0xdd>(early, next_early),
            _mm512_shuffle_i32x4::<0x88>(late, next_late),
            _mm512_shuffle_i32x4::<0xdd>(late, next_late),
        ]
    }
}

/// Sixteen words of sixteen streams.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn sixteen_messages(streams: &[&[Block]; LANES], block: usize) -> [__m512i; 16] {
    // SAFETY: the caller's units.
    unsafe {
        let (a, b) = (four_of_sixteen(streams, 0, block), four_of_sixteen(streams, 4, block));
        let (c, d) = (four_of_sixteen(streams, 8, block), four_of_sixteen(streams, 12, block));
        let words = [
            four_words(a[0], b[0], c[0], d[0]),
            four_words(a[1], b[1], c[1], d[1]),
            four_words(a[2], b[2], c[2], d[2]),
            four_words(a[3], b[3], c[3], d[3]),
        ];
        std::array::from_fn(|word| words[word % 4][word / 4])
    }
}
