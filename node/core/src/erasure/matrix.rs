//! The code's matrix, and the inverse of any k of its rows.
//!
//! A matrix times the data shards gives shards; k rows inverted, times the k shards they gave, give
//! the data shards back. Every k rows of the code's matrix are independent: that is what makes it
//! a code.

use reed_solomon_erasure::galois_8::{self, ReedSolomon};

use super::Geometry;
use crate::limits;

const WIDTH: usize = limits::SET_VOLUMES_MAX;

/// Factors, one per source; those past the matrix's width are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row([u8; WIDTH]);

/// Rows of `width` factors each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matrix {
    width: usize,
    rows: Vec<Row>,
}

impl Row {
    const ZERO: Self = Self([0; WIDTH]);

    const fn unit(column: usize) -> Self {
        let mut row = [0; WIDTH];
        row[column] = 1;
        Self(row)
    }

    /// A row of these factors.
    #[cfg(test)]
    pub(super) fn of(factors: &[u8]) -> Self {
        let mut row = Self::ZERO;
        row.0[..factors.len()].copy_from_slice(factors);
        row
    }

    /// The first `width` factors.
    pub(super) fn factors(&self, width: usize) -> &[u8] {
        self.0.get(..width).expect("no matrix is wider than a set")
    }

    fn scale(&mut self, factor: u8) {
        for value in &mut self.0 {
            *value = galois_8::mul(*value, factor);
        }
    }

    fn add_scaled(&mut self, other: &Self, factor: u8) {
        for (value, other) in self.0.iter_mut().zip(&other.0) {
            *value ^= galois_8::mul(*other, factor);
        }
    }
}

impl Matrix {
    /// The matrix of a geometry, as `reed-solomon-erasure` has it: read off the parity that it gives
    /// to data shards of which one is 1 and all others are 0.
    pub(super) fn of(geometry: Geometry) -> Self {
        let (width, parity) = (geometry.data_shards(), geometry.parity_shards());
        let mut rows: Vec<Row> = (0..width).map(Row::unit).collect();
        rows.resize(width + parity, Row::ZERO);
        if parity > 0 {
            let reference = ReedSolomon::new(width, parity).expect("a geometry fits the field");
            for column in 0..width {
                let data: Vec<[u8; 1]> = (0..width).map(|shard| [u8::from(shard == column)]).collect();
                let mut factors = vec![[0_u8; 1]; parity];
                reference.encode_sep(&data, &mut factors).expect("one byte for every shard");
                for (row, [factor]) in rows.iter_mut().skip(width).zip(factors) {
                    row.0[column] = factor;
                }
            }
        }
        Self { width, rows }
    }

    /// The rows of the parity shards.
    pub(super) fn parity_rows(&self) -> &[Row] {
        self.rows.get(self.width..).expect("the data shards' rows come first")
    }

    /// The row of one shard.
    pub(super) fn row(&self, index: u8) -> &Row {
        self.rows.get(usize::from(index)).expect("checked: a shard of the code")
    }

    /// The square matrix of the rows of k shards.
    pub(super) fn rows_of(&self, shards: &[u8]) -> Self {
        Self { width: self.width, rows: shards.iter().map(|index| *self.row(*index)).collect() }
    }

    /// The inverse of a square matrix of k rows of a code, by Gauss and Jordan.
    pub(super) fn inverted(mut self) -> Self {
        assert_eq!(self.rows.len(), self.width, "a square matrix");
        let mut inverse: Vec<Row> = (0..self.width).map(Row::unit).collect();
        for column in 0..self.width {
            let pivot = (column..self.width)
                .find(|row| self.rows[*row].0[column] != 0)
                .expect("any k rows of the code are independent");
            self.rows.swap(column, pivot);
            inverse.swap(column, pivot);
            let scale = galois_8::div(1, self.rows[column].0[column]);
            self.rows[column].scale(scale);
            inverse[column].scale(scale);
            let (cleared, clearing) = (self.rows[column], inverse[column]);
            for row in (0..self.width).filter(|row| *row != column) {
                let factor = self.rows[row].0[column];
                if factor != 0 {
                    self.rows[row].add_scaled(&cleared, factor);
                    inverse[row].add_scaled(&clearing, factor);
                }
            }
        }
        Self { width: self.width, rows: inverse }
    }

    /// The row of factors on this matrix's sources that gives what `row` gives on its results.
    pub(super) fn combine(&self, row: &Row) -> Row {
        let mut combined = Row::ZERO;
        for (factor, own) in row.0.iter().zip(&self.rows) {
            combined.add_scaled(own, *factor);
        }
        combined
    }
}
