//! Dot products by tables, a byte at a time: for processors without the wanted units, and what the
//! other kernels are compared with.

use std::ops::Range;

use crate::erasure::field::PRODUCTS;
use crate::erasure::matrix::Row;

/// Sets `columns` of each out to the sum of each source times the out's factor for it.
pub(super) fn multiply(rows: &[Row], sources: &[&[u8]], outs: &mut [&mut [u8]], columns: Range<usize>) {
    for (row, out) in rows.iter().zip(outs) {
        let out = &mut out[columns.clone()];
        out.fill(0);
        for (factor, source) in row.factors(sources.len()).iter().zip(sources) {
            let products = &PRODUCTS[usize::from(*factor)];
            for (sum, byte) in out.iter_mut().zip(&source[columns.clone()]) {
                *sum ^= products[usize::from(*byte)];
            }
        }
    }
}
