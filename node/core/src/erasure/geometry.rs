//! How many shards are data and how many parity, and what a set with that many can lose.
//!
//! A set has as many volumes as its geometry has shards, N = k + m. Losing volumes costs votes (writes need a
//! majority, reads of committed keys N minus a majority plus one) and shards (writes need k + 1, reads k):
//! [`Geometry::standing`] combines both. Called by the topology, by the warnings about a geometry, and by
//! code that plans to take volumes down.

use std::fmt;

use crate::limits;

/// Data shards (k, at least 1) and parity shards (m), together at most
/// [`limits::SET_VOLUMES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    data: u8,
    parity: u8,
}

/// No data shard, or too many shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{data_shards}+{parity_shards} is no geometry: 1 to {max} shards, at least one of data", max = limits::SET_VOLUMES_MAX)]
pub struct InvalidGeometry {
    /// Data shards asked for.
    pub data_shards: u8,
    /// Parity shards asked for.
    pub parity_shards: u8,
}

/// Availability of a set with some of its volumes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Availability {
    /// Neither writes nor all reads are served.
    Outage,
    /// Committed keys can be read; nothing can be written.
    CommittedReads,
    /// All requests are served, and new writes survive one more lost volume.
    AllWorks,
}

impl Geometry {
    /// Checks and wraps the two numbers.
    ///
    /// # Errors
    /// [`InvalidGeometry`] without a data shard or with too many shards.
    pub const fn new(data_shards: u8, parity_shards: u8) -> Result<Self, InvalidGeometry> {
        let volumes = data_shards as usize + parity_shards as usize;
        if data_shards == 0 || volumes > limits::SET_VOLUMES_MAX {
            return Err(InvalidGeometry { data_shards, parity_shards });
        }
        Ok(Self { data: data_shards, parity: parity_shards })
    }

    /// Data shards (k).
    pub const fn data_shards(self) -> usize {
        self.data as usize
    }

    /// Parity shards (m).
    pub const fn parity_shards(self) -> usize {
        self.parity as usize
    }

    /// All shards, which is the number of volumes of the set (N = k + m).
    pub const fn volumes(self) -> usize {
        self.data as usize + self.parity as usize
    }

    /// Availability of the set with `down` of its volumes down.
    pub const fn standing(self, down: usize) -> Availability {
        let volumes = self.volumes();
        let Some(up) = volumes.checked_sub(down) else { return Availability::Outage };
        let majority = 2 * up > volumes;
        if majority && up >= self.data_shards() + (if self.parity == 0 { 0 } else { 1 }) {
            Availability::AllWorks
        } else if 2 * down <= volumes && up >= self.data_shards() {
            Availability::CommittedReads
        } else {
            Availability::Outage
        }
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometry_has_data_and_fits_a_set() {
        assert!(Geometry::new(0, 2).is_err());
        assert!(Geometry::new(1, 0).is_ok());
        assert!(Geometry::new(1, 31).is_ok());
        assert!(Geometry::new(20, 13).is_err());
        assert!(Geometry::new(255, 255).is_err());
    }

    #[test]
    fn losing_volumes_costs_what_the_table_says() {
        let standing = |k, m, down| Geometry::new(k, m).expect("a geometry").standing(down);
        for (k, m, all_works_to, reads_to) in [
            (1, 0, 0, 0),
            (1, 1, 0, 1),
            (1, 2, 1, 1),
            (1, 3, 1, 2),
            (2, 2, 1, 2),
            (2, 6, 3, 4),
            (3, 3, 2, 3),
            (5, 3, 2, 3),
            (9, 3, 2, 3),
            (12, 4, 3, 4),
            (4, 0, 0, 0),
        ] {
            for down in 0..=usize::from(k + m + 1) {
                let expected = match down {
                    _ if down <= all_works_to => Availability::AllWorks,
                    _ if down <= reads_to => Availability::CommittedReads,
                    _ => Availability::Outage,
                };
                assert_eq!(standing(k, m, down), expected, "{k}+{m} with {down} down");
            }
        }
    }
}
