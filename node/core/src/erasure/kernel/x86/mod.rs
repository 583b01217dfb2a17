//! Dot products in vector registers: 64 or 32 bytes of a shard at a time.
//!
//! One loop, [`dot_products`], over what [`Multiply`] says some units do. Each function that names its
//! units is compiled for them, and all below it is inlined into it.
//!
//! Why the `unsafe` of this folder holds: [`Units`] are made only after the processor was asked,
//! which is all that the intrinsics need; and every address that is read or written is that of a
//! slice of the length meant, cut on a line before.

#![expect(unsafe_code, reason = "vector intrinsics: units were detected, addresses come from checked slices")]
#![expect(
    clippy::inline_always,
    reason = "below a function compiled for its units all must become part of it"
)]

mod lanes;

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use super::pass::OUTS_PER_PASS;
use crate::erasure::matrix::Row;
use crate::limits::SET_VOLUMES_MAX;
use lanes::{Bits256, Bits512, Multiply, Nibbles256, Nibbles512, Vector};

/// From this many sources on they are fetched ahead. Measured on Zen 5: the processor by itself
/// follows two streams, but loses half its speed on three that come from memory, 40 % on nine.
const SOURCES_TO_FETCH: usize = 3;
/// How many bytes ahead.
const FETCH_AHEAD_BYTES: usize = 1024;
const CACHE_LINE_BYTES: usize = 64;

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
    /// Those of this processor, the fastest last.
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

struct Work<'a> {
    rows: &'a [Row],
    sources: &'a [&'a [u8]],
    columns: Range<usize>,
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

/// As many outs as there are, known while compiling: `FEW` vectors of each at a time where there
/// are one or two outs, `MANY` where there are more, so that sums and factors fit the registers.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
unsafe fn by_outs<M: Multiply, const FEW: usize, const MANY: usize>(work: &Work<'_>, outs: &mut [&mut [u8]]) {
    const { assert!(OUTS_PER_PASS == 4, "an arm for each count") };
    // SAFETY: as this function's.
    unsafe {
        match outs {
            [] => {}
            [a] => by_sources::<M, FEW, 1>(work, [a]),
            [a, b] if work.is_two_and_two() => two_and_two::<M>(work, [a, b]),
            [a, b] => by_sources::<M, FEW, 2>(work, [a, b]),
            [a, b, c] => by_sources::<M, MANY, 3>(work, [a, b, c]),
            [a, b, c, d] => by_sources::<M, MANY, 4>(work, [a, b, c, d]),
            _ => unreachable!("at most OUTS_PER_PASS outs in one pass"),
        }
    }
}

/// Fetches ahead or not.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
unsafe fn by_sources<M: Multiply, const VECTORS: usize, const OUTS: usize>(
    work: &Work<'_>,
    outs: [&mut [u8]; OUTS],
) {
    // SAFETY: as this function's.
    unsafe {
        if work.sources.len() < SOURCES_TO_FETCH {
            dot_products::<M, VECTORS, OUTS, false>(work, outs);
        } else {
            dot_products::<M, VECTORS, OUTS, true>(work, outs);
        }
    }
}

/// Walks the columns, some vectors at a time.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
unsafe fn dot_products<M: Multiply, const VECTORS: usize, const OUTS: usize, const AHEAD: bool>(
    work: &Work<'_>,
    mut outs: [&mut [u8]; OUTS],
) {
    let Work { rows, sources, columns } = work;
    let mut factors = [[M::factor(0); OUTS]; SET_VOLUMES_MAX];
    for (out, row) in rows.iter().enumerate() {
        for (factors, factor) in factors.iter_mut().zip(row.factors(sources.len())) {
            factors[out] = M::factor(*factor);
        }
    }
    let factors = &factors[..sources.len()];
    let mut at = columns.start;
    // SAFETY: as this function's.
    unsafe {
        while columns.end - at >= VECTORS * M::Vector::BYTES {
            some_vectors::<M, VECTORS, OUTS, AHEAD>(factors, sources, &mut outs, at);
            at += VECTORS * M::Vector::BYTES;
        }
        while columns.end - at >= M::Vector::BYTES {
            some_vectors::<M, 1, OUTS, false>(factors, sources, &mut outs, at);
            at += M::Vector::BYTES;
        }
        if at < columns.end {
            part_of_vector::<M, OUTS>(factors, sources, &mut outs, at..columns.end);
        }
    }
}

/// Computes the columns of `VECTORS` whole vectors from `at` on.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
unsafe fn some_vectors<M: Multiply, const VECTORS: usize, const OUTS: usize, const AHEAD: bool>(
    factors: &[[M::Factor; OUTS]],
    sources: &[&[u8]],
    outs: &mut [&mut [u8]; OUTS],
    at: usize,
) {
    let ([first, sources @ ..], [first_factors, factors @ ..]) = (sources, factors) else { return };
    // Where units add three at no more cost than two, sources are taken in pairs.
    let (pairs, single) = if M::PAIRS { sources.as_chunks::<2>() } else { (&[][..], sources) };
    let (pairs_factors, single_factors) = factors.split_at(2 * pairs.len());
    // SAFETY: units as this function's; each slice has `VECTORS` vectors.
    unsafe {
        let mut sums = [[M::Vector::zero(); VECTORS]; OUTS];
        let bytes = columns::<M, VECTORS, AHEAD>(first, at);
        for vector in 0..VECTORS {
            let source = M::prepare(M::Vector::load(bytes.as_ptr().add(vector * M::Vector::BYTES)));
            for (sums, factor) in sums.iter_mut().zip(first_factors) {
                sums[vector] = M::product(*factor, source);
            }
        }
        for ([a, b], factors) in pairs.iter().zip(pairs_factors.as_chunks::<2>().0) {
            let a = columns::<M, VECTORS, AHEAD>(a, at);
            let b = columns::<M, VECTORS, AHEAD>(b, at);
            for vector in 0..VECTORS {
                let a = M::prepare(M::Vector::load(a.as_ptr().add(vector * M::Vector::BYTES)));
                let b = M::prepare(M::Vector::load(b.as_ptr().add(vector * M::Vector::BYTES)));
                for (out, sums) in sums.iter_mut().enumerate() {
                    sums[vector] = M::add_two(sums[vector], (factors[0][out], a), (factors[1][out], b));
                }
            }
        }
        for (source, factors) in single.iter().zip(single_factors) {
            let bytes = columns::<M, VECTORS, AHEAD>(source, at);
            for vector in 0..VECTORS {
                let source = M::prepare(M::Vector::load(bytes.as_ptr().add(vector * M::Vector::BYTES)));
                for (sums, factor) in sums.iter_mut().zip(factors) {
                    sums[vector] = M::add(sums[vector], *factor, source);
                }
            }
        }
        for (out, sums) in outs.iter_mut().zip(sums) {
            let bytes = &mut out[at..at + VECTORS * M::Vector::BYTES];
            for (vector, sum) in sums.into_iter().enumerate() {
                sum.store(bytes.as_mut_ptr().add(vector * M::Vector::BYTES));
            }
        }
    }
}

/// Some vectors' columns of a source.
#[inline(always)]
fn columns<M: Multiply, const VECTORS: usize, const AHEAD: bool>(source: &[u8], at: usize) -> &[u8] {
    let bytes = &source[at..at + VECTORS * M::Vector::BYTES];
    if AHEAD {
        for line in (0..bytes.len()).step_by(CACHE_LINE_BYTES) {
            let line = bytes.as_ptr().wrapping_add(FETCH_AHEAD_BYTES + line);
            // SAFETY: fetching reads nothing, so that the address may lie behind the source.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
    }
    bytes
}

/// Computes the last columns, less than a vector.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
unsafe fn part_of_vector<M: Multiply, const OUTS: usize>(
    factors: &[[M::Factor; OUTS]],
    sources: &[&[u8]],
    outs: &mut [&mut [u8]; OUTS],
    columns: Range<usize>,
) {
    // SAFETY: units as this function's.
    unsafe {
        let mut sums = [M::Vector::zero(); OUTS];
        for (source, factors) in sources.iter().zip(factors) {
            let source = M::prepare(M::Vector::load_part(&source[columns.clone()]));
            for (sum, factor) in sums.iter_mut().zip(factors) {
                *sum = M::add(*sum, *factor, source);
            }
        }
        for (out, sum) in outs.iter_mut().zip(sums) {
            sum.store_part(&mut out[columns.clone()]);
        }
    }
}

impl Work<'_> {
    /// Whether this is the parity of 2+2, or both its data shards from the parity: rows of 3 and 2.
    fn is_two_and_two(&self) -> bool {
        let factors = |row: &Row| <[u8; 2]>::try_from(row.factors(self.sources.len())).ok();
        let [a, b] = self.rows else { return false };
        (factors(a), factors(b)) == (Some([3, 2]), Some([2, 3]))
    }
}

/// 3 a + 2 b and 2 a + 3 b are a and b, each plus twice their sum: one product instead of four.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
unsafe fn two_and_two<M: Multiply>(work: &Work<'_>, outs: [&mut [u8]; 2]) {
    let [a, b] = work.sources else { unreachable!("two factors in a row") };
    let (a, b) = (&a[work.columns.clone()], &b[work.columns.clone()]);
    let [c, d] = outs.map(|out| &mut out[work.columns.clone()]);
    let bytes = a.len().min(b.len()).min(c.len()).min(d.len());
    let whole = bytes - bytes % M::Vector::BYTES;
    // SAFETY: units as this function's; all four have `bytes` bytes, and `whole` is not more.
    unsafe {
        for at in (0..whole).step_by(M::Vector::BYTES) {
            let a = M::Vector::load(a.as_ptr().add(at));
            let b = M::Vector::load(b.as_ptr().add(at));
            let twice = M::doubled(a.xor(b));
            twice.xor(a).store(c.as_mut_ptr().add(at));
            twice.xor(b).store(d.as_mut_ptr().add(at));
        }
        if whole < bytes {
            let (a, b) = (M::Vector::load_part(&a[whole..]), M::Vector::load_part(&b[whole..]));
            let twice = M::doubled(a.xor(b));
            twice.xor(a).store_part(&mut c[whole..]);
            twice.xor(b).store_part(&mut d[whole..]);
        }
    }
}
