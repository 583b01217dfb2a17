//! The units of x86-64: AVX2 and AVX-512, with GFNI where the processor has it.
//!
//! GFNI multiplies eight bits by a matrix of bits, so a factor is its matrix; without it a factor
//! is the products of a byte's two halves, looked up by a shuffle.
//!
//! Why the `unsafe` of this file holds: [`Units`] are made only after the processor was asked, which is
//! all that the intrinsics need. That is the condition of every `unsafe fn` here, named only where there
//! is another.

#![expect(unsafe_code, reason = "vector intrinsics: units were detected, addresses come from checked slices")]
#![expect(
    clippy::inline_always,
    reason = "below a function compiled for its units all must become part of it"
)]

use std::arch::x86_64::{
    __m256i, __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_xor_si256, _mm512_add_epi8, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_maskz_set1_epi8, _mm512_movepi8_mask, _mm512_set1_epi8, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use std::ops::Range;

use super::dot::{Multiply, Vector, Work, by_outs};
use crate::erasure::field::{BIT_MATRICES, NIBBLES, POLYNOMIAL};
use crate::erasure::matrix::Row;

/// Units that this processor has: made only by [`Units::all`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Units(Kind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Avx2,
    Avx512,
    GfniAvx2,
    GfniAvx512,
}

impl Units {
    /// The units of this processor, the fastest last.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let avx2 = is_x86_feature_detected!("avx2");
        let gfni = is_x86_feature_detected!("gfni");
        let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let kinds = [
            (avx2, Kind::Avx2),
            (avx512, Kind::Avx512),
            (avx2 && gfni, Kind::GfniAvx2),
            (avx512 && gfni, Kind::GfniAvx512),
        ];
        kinds.into_iter().filter_map(|(has, kind)| has.then_some(Self(kind)))
    }

    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
            Kind::GfniAvx2 => "gfni-avx2",
            Kind::GfniAvx512 => "gfni-avx512",
        }
    }

    /// Sets `columns` of each out, of which there are [`OUTS_PER_PASS`] at most, to the sum of each
    /// source, of which there is at least one, times the out's factor for it.
    pub(super) fn multiply(
        self,
        rows: &[Row],
        sources: &[&[u8]],
        outs: &mut [&mut [u8]],
        columns: Range<usize>,
    ) {
        let work = Work { rows, sources, columns };
        // SAFETY: the processor has these units, or `all` would not have made this value.
        unsafe {
            match self.0 {
                Kind::Avx2 => avx2(&work, outs),
                Kind::Avx512 => avx512(&work, outs),
                Kind::GfniAvx2 => gfni_avx2(&work, outs),
                Kind::GfniAvx512 => gfni_avx512(&work, outs),
            }
        }
    }
}

#[target_feature(enable = "avx2")]
fn avx2(work: &Work<'_>, outs: &mut [&mut [u8]]) {
    // SAFETY: compiled for the units.
    unsafe { by_outs::<Nibbles256, 4, 2>(work, outs) }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn avx512(work: &Work<'_>, outs: &mut [&mut [u8]]) {
    // SAFETY: compiled for the units.
    unsafe { by_outs::<Nibbles512, 4, 4>(work, outs) }
}

#[target_feature(enable = "avx2,gfni")]
fn gfni_avx2(work: &Work<'_>, outs: &mut [&mut [u8]]) {
    // SAFETY: compiled for the units.
    unsafe { by_outs::<Bits256, 4, 2>(work, outs) }
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn gfni_avx512(work: &Work<'_>, outs: &mut [&mut [u8]]) {
    // SAFETY: compiled for the units.
    unsafe { by_outs::<Bits512, 4, 4>(work, outs) }
}

impl Vector for __m256i {
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's units.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's units and bytes; no alignment is asked for.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's units and room; no alignment is asked for.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_part(from: &[u8]) -> Self {
        let mut bytes = [0; Self::BYTES];
        bytes[..from.len()].copy_from_slice(from);
        // SAFETY: the caller's units; the array is as long as a vector.
        unsafe { Self::load(bytes.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: &mut [u8]) {
        let mut bytes = [0; Self::BYTES];
        // SAFETY: the caller's units; the array is as long as a vector.
        unsafe { self.store(bytes.as_mut_ptr()) };
        to.copy_from_slice(&bytes[..to.len()]);
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's units.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    fn fetch(at: *const u8) {
        fetch(at);
    }
}

impl Vector for __m512i {
    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's units.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's units and bytes; no alignment is asked for.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's units and room; no alignment is asked for.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_part(from: &[u8]) -> Self {
        // SAFETY: the caller's units; bytes that the mask leaves out are not read.
        unsafe { _mm512_maskz_loadu_epi8(mask_of(from.len()), from.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: &mut [u8]) {
        // SAFETY: the caller's units; bytes that the mask leaves out are not written.
        unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask_of(to.len()), self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's units.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    fn fetch(at: *const u8) {
        fetch(at);
    }
}

#[inline(always)]
fn fetch(at: *const u8) {
    // SAFETY: fetching reads nothing, and the address may lie anywhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// The table of a sum of three bits.
const XOR_OF_THREE: i32 = 0x96;

/// A bit for each of the first bytes of 64.
#[inline(always)]
const fn mask_of(bytes: usize) -> u64 {
    assert!(bytes < 64, "less than a vector");
    (1 << bytes) - 1
}

/// AVX2: the products of a byte's halves, by a shuffle each.
struct Nibbles256;
/// The same with AVX-512.
struct Nibbles512;
/// GFNI and AVX2.
struct Bits256;
/// GFNI and AVX-512.
struct Bits512;

/// The products of both halves of each byte, not added yet.
///
/// # Safety
/// The processor has the units.
#[inline(always)]
unsafe fn halves_256(factor: &[u8; 32], (low, high): (__m256i, __m256i)) -> (__m256i, __m256i) {
    let (low_products, high_products) = factor.split_at(16);
    // SAFETY: the caller's units; both halves of the table are 16 bytes.
    unsafe {
        let low_products = _mm256_broadcastsi128_si256(_mm_loadu_si128(low_products.as_ptr().cast()));
        let high_products = _mm256_broadcastsi128_si256(_mm_loadu_si128(high_products.as_ptr().cast()));
        (_mm256_shuffle_epi8(low_products, low), _mm256_shuffle_epi8(high_products, high))
    }
}

impl Multiply for Nibbles256 {
    type Vector = __m256i;
    type Source = (__m256i, __m256i);
    type Factor = &'static [u8; 32];
    const PAIRS: bool = false;

    #[inline(always)]
    fn factor(factor: u8) -> Self::Factor {
        &NIBBLES[usize::from(factor)]
    }

    #[inline(always)]
    unsafe fn prepare(vector: __m256i) -> Self::Source {
        // SAFETY: the caller's units.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let high = _mm256_srli_epi64::<4>(vector);
            (_mm256_and_si256(vector, mask), _mm256_and_si256(high, mask))
        }
    }

    #[inline(always)]
    unsafe fn product(factor: Self::Factor, source: Self::Source) -> __m256i {
        // SAFETY: the caller's units.
        unsafe {
            let (low, high) = halves_256(factor, source);
            low.xor(high)
        }
    }

    #[inline(always)]
    unsafe fn add(sum: __m256i, factor: Self::Factor, source: Self::Source) -> __m256i {
        // SAFETY: the caller's units.
        unsafe {
            let (low, high) = halves_256(factor, source);
            low.xor(high).xor(sum)
        }
    }

    #[inline(always)]
    unsafe fn add_two(
        sum: __m256i,
        a: (Self::Factor, Self::Source),
        b: (Self::Factor, Self::Source),
    ) -> __m256i {
        // SAFETY: the caller's units.
        unsafe { Self::add(Self::add(sum, a.0, a.1), b.0, b.1) }
    }

    #[inline(always)]
    unsafe fn doubled(vector: __m256i) -> __m256i {
        // SAFETY: the caller's units.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), vector);
            let reduction = _mm256_and_si256(carries, _mm256_set1_epi8(POLYNOMIAL.cast_signed()));
            _mm256_add_epi8(vector, vector).xor(reduction)
        }
    }
}

/// The products of both halves of each byte, not added yet.
///
/// # Safety
/// The processor has the units.
#[inline(always)]
unsafe fn halves_512(factor: &[u8; 32], (low, high): (__m512i, __m512i)) -> (__m512i, __m512i) {
    let (low_products, high_products) = factor.split_at(16);
    // SAFETY: the caller's units; both halves of the table are 16 bytes.
    unsafe {
        let low_products = _mm512_broadcast_i32x4(_mm_loadu_si128(low_products.as_ptr().cast()));
        let high_products = _mm512_broadcast_i32x4(_mm_loadu_si128(high_products.as_ptr().cast()));
        (_mm512_shuffle_epi8(low_products, low), _mm512_shuffle_epi8(high_products, high))
    }
}

impl Multiply for Nibbles512 {
    type Vector = __m512i;
    type Source = (__m512i, __m512i);
    type Factor = &'static [u8; 32];
    const PAIRS: bool = false;

    #[inline(always)]
    fn factor(factor: u8) -> Self::Factor {
        &NIBBLES[usize::from(factor)]
    }

    #[inline(always)]
    unsafe fn prepare(vector: __m512i) -> Self::Source {
        // SAFETY: the caller's units.
        unsafe {
            let mask = _mm512_set1_epi8(0x0f);
            let high = _mm512_srli_epi64::<4>(vector);
            (_mm512_and_si512(vector, mask), _mm512_and_si512(high, mask))
        }
    }

    #[inline(always)]
    unsafe fn product(factor: Self::Factor, source: Self::Source) -> __m512i {
        // SAFETY: the caller's units.
        unsafe {
            let (low, high) = halves_512(factor, source);
            low.xor(high)
        }
    }

    #[inline(always)]
    unsafe fn add(sum: __m512i, factor: Self::Factor, source: Self::Source) -> __m512i {
        // SAFETY: the caller's units.
        unsafe {
            let (low, high) = halves_512(factor, source);
            _mm512_ternarylogic_epi64::<XOR_OF_THREE>(sum, low, high)
        }
    }

    #[inline(always)]
    unsafe fn add_two(
        sum: __m512i,
        a: (Self::Factor, Self::Source),
        b: (Self::Factor, Self::Source),
    ) -> __m512i {
        // SAFETY: the caller's units.
        unsafe { Self::add(Self::add(sum, a.0, a.1), b.0, b.1) }
    }

    #[inline(always)]
    unsafe fn doubled(vector: __m512i) -> __m512i {
        // SAFETY: the caller's units.
        unsafe {
            let carries = _mm512_movepi8_mask(vector);
            let reduction = _mm512_maskz_set1_epi8(carries, POLYNOMIAL.cast_signed());
            _mm512_add_epi8(vector, vector).xor(reduction)
        }
    }
}

impl Multiply for Bits256 {
    type Vector = __m256i;
    type Source = __m256i;
    type Factor = i64;
    const PAIRS: bool = false;

    #[inline(always)]
    fn factor(factor: u8) -> Self::Factor {
        BIT_MATRICES[usize::from(factor)].cast_signed()
    }

    #[inline(always)]
    unsafe fn prepare(vector: __m256i) -> Self::Source {
        vector
    }

    #[inline(always)]
    unsafe fn product(factor: Self::Factor, source: Self::Source) -> __m256i {
        // SAFETY: the caller's units.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(source, _mm256_set1_epi64x(factor)) }
    }

    #[inline(always)]
    unsafe fn add(sum: __m256i, factor: Self::Factor, source: Self::Source) -> __m256i {
        // SAFETY: the caller's units.
        unsafe { Self::product(factor, source).xor(sum) }
    }

    #[inline(always)]
    unsafe fn add_two(
        sum: __m256i,
        a: (Self::Factor, Self::Source),
        b: (Self::Factor, Self::Source),
    ) -> __m256i {
        // SAFETY: the caller's units.
        unsafe { Self::add(Self::add(sum, a.0, a.1), b.0, b.1) }
    }

    #[inline(always)]
    unsafe fn doubled(vector: __m256i) -> __m256i {
        // SAFETY: the caller's units.
        unsafe { Self::product(Self::factor(2), vector) }
    }
}

impl Multiply for Bits512 {
    type Vector = __m512i;
    type Source = __m512i;
    type Factor = i64;
    const PAIRS: bool = true;

    #[inline(always)]
    fn factor(factor: u8) -> Self::Factor {
        BIT_MATRICES[usize::from(factor)].cast_signed()
    }

    #[inline(always)]
    unsafe fn prepare(vector: __m512i) -> Self::Source {
        vector
    }

    #[inline(always)]
    unsafe fn product(factor: Self::Factor, source: Self::Source) -> __m512i {
        // SAFETY: the caller's units.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(source, _mm512_set1_epi64(factor)) }
    }

    #[inline(always)]
    unsafe fn add(sum: __m512i, factor: Self::Factor, source: Self::Source) -> __m512i {
        // SAFETY: the caller's units.
        unsafe { Self::product(factor, source).xor(sum) }
    }

    #[inline(always)]
    unsafe fn add_two(
        sum: __m512i,
        a: (Self::Factor, Self::Source),
        b: (Self::Factor, Self::Source),
    ) -> __m512i {
        // SAFETY: the caller's units.
        unsafe {
            let (a, b) = (Self::product(a.0, a.1), Self::product(b.0, b.1));
            _mm512_ternarylogic_epi64::<XOR_OF_THREE>(sum, a, b)
        }
    }

    #[inline(always)]
    unsafe fn doubled(vector: __m512i) -> __m512i {
        // SAFETY: the caller's units.
        unsafe { Self::product(Self::factor(2), vector) }
    }
}
