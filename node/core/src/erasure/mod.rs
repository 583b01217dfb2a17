//! The erasure code: k data shards, m parity shards, any k of them give the object back.

mod geometry;

pub use geometry::{Geometry, InvalidGeometry, Standing};
