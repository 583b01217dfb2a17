//! The unit of 64-bit Arm: NEON, which every such processor has.
//!
//! A factor is the products of a byte's two halves, each looked up in a table of 16 bytes.
//!
//! Why the `unsafe` of this file holds: [`Neon`] is made only after the processor was asked, which is all
//! that the intrinsics need. That is the condition of every `unsafe fn` here, named only where there is
//! another.

#![expect(
    unsafe_code,
    reason = "vector intrinsics: the unit was detected, addresses come from checked slices"
)]
#![expect(
    clippy::inline_always,
    reason = "below a function compiled for its unit all must become part of it"
)]

use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vcltzq_s8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vreinterpretq_s8_u8,
    vshlq_n_u8, vshrq_n_u8, vst1q_u8,
};
use std::arch::is_aarch64_feature_detected;
use std::ops::Range;

use super::dot::{Multiply, Vector, Work, by_outs};
use crate::erasure::field::{NIBBLES, POLYNOMIAL};
use crate::erasure::matrix::Row;

/// The unit, which this processor has: made only by [`Neon::detected`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Neon(());

impl Neon {
    /// The one of this processor.
    pub(super) fn detected() -> Option<Self> {
        is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    /// Sets `columns` of each out, of which there are as many as one pass takes at most, to the sum of each
    /// source, of which there is at least one, times the out's factor for it.
    #[expect(clippy::unused_self, reason = "the value shows that the processor has the unit")]
    pub(super) fn multiply(
        self,
        rows: &[Row],
        sources: &[&[u8]],
        outs: &mut [&mut [u8]],
        columns: Range<usize>,
    ) {
        // SAFETY: the processor has the unit, or `detected` would not have made this value.
        unsafe { neon(&Work { rows, sources, columns }, outs) }
    }
}

#[target_feature(enable = "neon")]
fn neon(work: &Work<'_>, outs: &mut [&mut [u8]]) {
    // SAFETY: compiled for the unit.
    unsafe { by_outs::<Nibbles, 4, 4>(work, outs) }
}

impl Vector for uint8x16_t {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's unit.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's unit and bytes; no alignment is asked for.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's unit and room; no alignment is asked for.
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn load_part(from: &[u8]) -> Self {
        let mut bytes = [0; Self::BYTES];
        bytes[..from.len()].copy_from_slice(from);
        // SAFETY: the caller's unit; the array is as long as a vector.
        unsafe { Self::load(bytes.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: &mut [u8]) {
        let mut bytes = [0; Self::BYTES];
        // SAFETY: the caller's unit; the array is as long as a vector.
        unsafe { self.store(bytes.as_mut_ptr()) };
        to.copy_from_slice(&bytes[..to.len()]);
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's unit.
        unsafe { veorq_u8(self, other) }
    }

    /// Nothing: the language has no stable way to ask for it.
    #[inline(always)]
    fn fetch(_: *const u8) {}
}

/// The products of a byte's halves, by a table each.
struct Nibbles;

impl Multiply for Nibbles {
    type Vector = uint8x16_t;
    type Source = (uint8x16_t, uint8x16_t);
    type Factor = &'static [u8; 32];
    const PAIRS: bool = false;

    #[inline(always)]
    fn factor(factor: u8) -> Self::Factor {
        &NIBBLES[usize::from(factor)]
    }

    #[inline(always)]
    unsafe fn prepare(vector: uint8x16_t) -> Self::Source {
        // SAFETY: the caller's unit.
        unsafe { (vandq_u8(vector, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(vector)) }
    }

    #[inline(always)]
    unsafe fn product(factor: Self::Factor, (low, high): Self::Source) -> uint8x16_t {
        let (low_products, high_products) = factor.split_at(16);
        // SAFETY: the caller's unit; both halves of the table are 16 bytes.
        unsafe {
            let low_products = vld1q_u8(low_products.as_ptr());
            let high_products = vld1q_u8(high_products.as_ptr());
            vqtbl1q_u8(low_products, low).xor(vqtbl1q_u8(high_products, high))
        }
    }

    #[inline(always)]
    unsafe fn add(sum: uint8x16_t, factor: Self::Factor, source: Self::Source) -> uint8x16_t {
        // SAFETY: the caller's unit.
        unsafe { Self::product(factor, source).xor(sum) }
    }

    #[inline(always)]
    unsafe fn add_two(
        sum: uint8x16_t,
        a: (Self::Factor, Self::Source),
        b: (Self::Factor, Self::Source),
    ) -> uint8x16_t {
        // SAFETY: the caller's unit.
        unsafe { Self::add(Self::add(sum, a.0, a.1), b.0, b.1) }
    }

    #[inline(always)]
    unsafe fn doubled(vector: uint8x16_t) -> uint8x16_t {
        // SAFETY: the caller's unit.
        unsafe {
            let carries = vcltzq_s8(vreinterpretq_s8_u8(vector));
            vshlq_n_u8::<1>(vector).xor(vandq_u8(carries, vdupq_n_u8(POLYNOMIAL)))
        }
    }
}
