//! The erasure code: k data shards, m parity shards, any k of them give the object back.
//!
//! A systematic Reed-Solomon code over GF(2^8). Its matrix is the one of `reed-solomon-erasure` (a
//! Vandermonde matrix made systematic) and is part of the format: other parity bytes would not fit stored
//! data. [`Code`] holds the matrix of one geometry, [`Plan`] rebuilds certain shards from certain others;
//! both multiply rows with shards in `kernel`, the one place that does so. The matrices are written and
//! inverted in `matrix`, the field is in `field`.

mod geometry;
mod field;
mod matrix;
mod kernel;

#[cfg(test)]
mod tests;

pub use geometry::{Availability, Geometry, InvalidGeometry};
pub use kernel::Kernel;

use std::sync::{Arc, OnceLock};

use crate::limits;
use matrix::{Matrix, Row};

/// The code of one geometry. Immutable; all users of the geometry share one.
#[derive(Debug)]
pub struct Code {
    geometry: Geometry,
    /// One row per shard: the identity over the data shards, then the parity rows.
    matrix: Matrix,
    kernel: Kernel,
}

/// How certain shards are rebuilt from certain others. Cheap to make; good for every stripe.
#[derive(Debug, Clone)]
pub struct Plan {
    /// From which k shards, in the order in which they are given.
    sources: usize,
    /// A row of k factors for each shard to rebuild, in the order in which they were asked for.
    rows: Vec<Row>,
    kernel: Kernel,
}

/// Why shards cannot be rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ErasureError {
    /// Fewer shards are there than the code needs.
    #[error("{present} shards are there, {needed} are needed")]
    NotEnough {
        /// Shards given.
        present: usize,
        /// Data shards of the code.
        needed: usize,
    },
    /// A shard has an index that the code has not, or is given or asked for twice.
    #[error("shard {index} is none of the code's, or there twice")]
    Index {
        /// The index.
        index: u8,
    },
    /// The shards have different lengths.
    #[error("shards of {bytes} and {other_bytes} bytes")]
    Length {
        /// Bytes of the first shard.
        bytes: usize,
        /// Bytes of another.
        other_bytes: usize,
    },
}

const CACHED: usize = limits::SET_VOLUMES_MAX + 1;
static CODES: [[OnceLock<Arc<Code>>; CACHED]; CACHED] =
    [const { [const { OnceLock::new() }; CACHED] }; CACHED];

impl Code {
    /// The code of a geometry, made at its first use, with the best kernel of this processor.
    pub fn of(geometry: Geometry) -> Arc<Self> {
        let made = CODES
            .get(geometry.data_shards())
            .and_then(|row| row.get(geometry.parity_shards()))
            .expect("a geometry has at most SET_VOLUMES_MAX shards");
        Arc::clone(made.get_or_init(|| Arc::new(Self::with_kernel(geometry, Kernel::best()))))
    }

    /// Makes the code of a geometry with a certain kernel, past the cache: for tests and measurements.
    pub fn with_kernel(geometry: Geometry, kernel: Kernel) -> Self {
        Self { geometry, matrix: Matrix::of(geometry), kernel }
    }

    /// The geometry.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Computes the parity shards of a stripe. The former content of the parity buffers does not matter.
    ///
    /// # Panics
    /// When there are not k data and m parity buffers of one length.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert_eq!(data.len(), self.geometry.data_shards(), "one buffer per data shard");
        assert_eq!(parity.len(), self.geometry.parity_shards(), "one buffer per parity shard");
        self.kernel.multiply(self.matrix.parity_rows(), data, parity);
    }

    /// Plans how the shards `wanted` are rebuilt from the first k of the shards `present`. The plan
    /// serves every stripe of which the same shards are there.
    ///
    /// # Errors
    /// [`ErasureError::NotEnough`] when fewer than k are there, [`ErasureError::Index`] when an index is out
    /// of range or named twice.
    pub fn plan(&self, present: &[u8], wanted: &[u8]) -> Result<Plan, ErasureError> {
        let needed = self.geometry.data_shards();
        self.check_indexes(present, wanted)?;
        let sources =
            present.get(..needed).ok_or(ErasureError::NotEnough { present: present.len(), needed })?;
        let decoder = self.matrix.rows_of(sources).inverted();
        let rows = wanted.iter().map(|index| decoder.combine(self.matrix.row(*index))).collect();
        Ok(Plan { sources: needed, rows, kernel: self.kernel })
    }

    /// Rebuilds the shards `missing` of one stripe, data or parity, from any k of `present`; each
    /// comes with its index.
    ///
    /// # Errors
    /// As [`Code::plan`] and [`Plan::run`].
    pub fn reconstruct(
        &self,
        present: &[(u8, &[u8])],
        missing: &mut [(u8, &mut [u8])],
    ) -> Result<(), ErasureError> {
        let (present, sources): (Vec<u8>, Vec<&[u8]>) = present.iter().copied().unzip();
        let wanted: Vec<u8> = missing.iter().map(|(index, _)| *index).collect();
        let plan = self.plan(&present, &wanted)?;
        let sources = sources.get(..plan.sources).expect("the plan found so many");
        let mut rebuilt: Vec<&mut [u8]> = missing.iter_mut().map(|(_, out)| &mut **out).collect();
        plan.run(sources, &mut rebuilt)
    }

    fn check_indexes(&self, present: &[u8], wanted: &[u8]) -> Result<(), ErasureError> {
        let mut seen = [false; limits::SET_VOLUMES_MAX];
        for index in present.iter().chain(wanted) {
            let known = usize::from(*index) < self.geometry.volumes();
            match seen.get_mut(usize::from(*index)) {
                Some(seen) if known && !*seen => *seen = true,
                _ => return Err(ErasureError::Index { index: *index }),
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Rebuilds the planned shards of one stripe: `sources` are the first k present shards in the
    /// order in which the plan was asked for, `rebuilt` the wanted ones in theirs.
    ///
    /// # Errors
    /// [`ErasureError::Length`] when the buffers differ in length.
    ///
    /// # Panics
    /// When there are not as many buffers as were planned.
    pub fn run(&self, sources: &[&[u8]], rebuilt: &mut [&mut [u8]]) -> Result<(), ErasureError> {
        assert_eq!(sources.len(), self.sources, "k sources");
        assert_eq!(rebuilt.len(), self.rows.len(), "one buffer per wanted shard");
        check_lengths(sources.iter().map(|shard| shard.len()).chain(rebuilt.iter().map(|out| out.len())))?;
        self.kernel.multiply(&self.rows, sources, rebuilt);
        Ok(())
    }
}

fn check_lengths(mut lengths: impl Iterator<Item = usize>) -> Result<(), ErasureError> {
    let Some(bytes) = lengths.next() else { return Ok(()) };
    match lengths.find(|length| *length != bytes) {
        None => Ok(()),
        Some(other_bytes) => Err(ErasureError::Length { bytes, other_bytes }),
    }
}
