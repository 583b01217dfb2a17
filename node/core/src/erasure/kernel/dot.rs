//! Dot products in vector registers: some vectors of a shard at a time.
//!
//! One loop, [`by_outs`], over what [`Multiply`] says some units of a processor do. The function that
//! names the units is compiled for them, and all of this file is inlined into it: that the processor has
//! the units is the condition of every `unsafe fn` here, named only where there is another. Every address
//! that is read or written is that of a slice of the length meant, cut on a line before.

#![expect(unsafe_code, reason = "vector intrinsics: units were detected, addresses come from checked slices")]
#![expect(
    clippy::inline_always,
    reason = "below a function compiled for its units all must become part of it"
)]

use std::ops::Range;

use super::pass::OUTS_PER_PASS;
use crate::erasure::matrix::Row;
use crate::limits::SET_VOLUMES_MAX;

/// From this many sources on they are fetched ahead. Measured on Zen 5: the processor by itself
/// follows two streams, but loses half its speed on three that come from memory, 40 % on nine.
const SOURCES_TO_FETCH: usize = 3;
/// How many bytes ahead.
const FETCH_AHEAD_BYTES: usize = 1024;
const CACHE_LINE_BYTES: usize = 64;

/// Some bytes side by side.
pub(super) trait Vector: Copy {
    /// How many.
    const BYTES: usize;

    unsafe fn zero() -> Self;
    /// # Safety
    /// `from` has [`Self::BYTES`] bytes to read.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// `to` has room for [`Self::BYTES`] bytes.
    unsafe fn store(self, to: *mut u8);
    /// Loads less than a vector, zeros behind.
    unsafe fn load_part(from: &[u8]) -> Self;
    /// Stores as much as `to` takes, which is less than a vector.
    unsafe fn store_part(self, to: &mut [u8]);
    unsafe fn xor(self, other: Self) -> Self;
    /// Brings the bytes at an address nearer, where the processor does not by itself follow several
    /// streams; it reads nothing, so that any address will do.
    fn fetch(at: *const u8);
}

/// A way to multiply the bytes of a vector.
pub(super) trait Multiply {
    type Vector: Vector;
    /// A vector as all factors need it.
    type Source: Copy;
    type Factor: Copy;
    /// Whether adding two products is cheaper than adding one twice.
    const PAIRS: bool;

    fn factor(factor: u8) -> Self::Factor;
    unsafe fn prepare(vector: Self::Vector) -> Self::Source;
    unsafe fn product(factor: Self::Factor, source: Self::Source) -> Self::Vector;
    unsafe fn add(sum: Self::Vector, factor: Self::Factor, source: Self::Source) -> Self::Vector;
    unsafe fn add_two(
        sum: Self::Vector,
        a: (Self::Factor, Self::Source),
        b: (Self::Factor, Self::Source),
    ) -> Self::Vector;
    unsafe fn doubled(vector: Self::Vector) -> Self::Vector;
}

/// The sums to compute: `columns` of all sources, by the rows of factors of the outs.
pub(super) struct Work<'a> {
    pub(super) rows: &'a [Row],
    pub(super) sources: &'a [&'a [u8]],
    pub(super) columns: Range<usize>,
}

/// As many outs as there are, known while compiling: `FEW` vectors of each at a time where there
/// are one or two outs, `MANY` where there are more, so that sums and factors fit the registers.
///
/// # Safety
/// The processor has the units of `M`.
#[inline(always)]
pub(super) unsafe fn by_outs<M: Multiply, const FEW: usize, const MANY: usize>(
    work: &Work<'_>,
    outs: &mut [&mut [u8]],
) {
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
            M::Vector::fetch(bytes.as_ptr().wrapping_add(FETCH_AHEAD_BYTES + line));
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
