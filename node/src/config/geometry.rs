//! How many volumes make an erasure set on one node, and how many of them are parity.
//!
//! The rule of one node: a node cannot be lost without an outage, so the default code keeps half
//! of a set, and every operation works with one volume down wherever there are three or more.

use sherd_core::limits::SET_VOLUMES_MAX;

/// Data and parity volumes of every set, and how many sets there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Sets of this node.
    pub sets: usize,
    /// Data shards of an object (k).
    pub data: u8,
    /// Parity shards of an object (m).
    pub parity: u8,
}

/// Why a number of volumes, or a parity for it, makes no geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGeometry {
    /// More than seven volumes that no set size from 8 to 16 divides.
    #[error(
        "{volumes} volumes do not divide into sets of 8 to 16: use at most 7, or a multiple of a number from 8 to 16"
    )]
    Indivisible {
        /// How many there are.
        volumes: usize,
    },
    /// Parity that a set of this size cannot have.
    #[error("parity {parity} does not fit sets of {set} volumes: allowed is {min} to {max}")]
    Parity {
        /// As asked.
        parity: u8,
        /// Volumes of one set.
        set: u8,
        /// The least.
        min: u8,
        /// The most.
        max: u8,
    },
}

/// The geometry of `volumes` volumes on one node; `parity` where it is not the default.
///
/// # Errors
/// [`InvalidGeometry`] when there is none.
pub fn of_one_node(volumes: usize, parity: Option<u8>) -> Result<Geometry, InvalidGeometry> {
    let set = set_volumes(volumes).ok_or(InvalidGeometry::Indivisible { volumes })?;
    // One volume has no room for parity; from two on, an object that no volume may lose is a
    // mistake rather than a choice.
    let (min, max) = (u8::from(set > 1), set - 1);
    let parity = parity.unwrap_or(set / 2);
    if parity < min || parity > max {
        return Err(InvalidGeometry::Parity { parity, set, min, max });
    }
    Ok(Geometry { sets: volumes / usize::from(set), data: set - parity, parity })
}

fn set_volumes(volumes: usize) -> Option<u8> {
    const _: () = assert!(SET_VOLUMES_MAX >= 16, "every set size tried below is allowed");
    match volumes {
        0 => None,
        1..=7 => u8::try_from(volumes).ok(),
        _ => (8..=16).find(|&size| volumes.is_multiple_of(usize::from(size))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let table = [
            (1, 1, 1, 0),
            (2, 1, 1, 1),
            (3, 1, 2, 1),
            (4, 1, 2, 2),
            (7, 1, 4, 3),
            (8, 1, 4, 4),
            (16, 2, 4, 4),
            (9, 1, 5, 4),
            (22, 2, 6, 5),
        ];
        for (volumes, sets, data, parity) in table {
            assert_eq!(of_one_node(volumes, None), Ok(Geometry { sets, data, parity }), "{volumes} volumes");
        }
    }

    #[test]
    fn parity_is_bounded_by_the_set() {
        assert_eq!(of_one_node(4, Some(1)), Ok(Geometry { sets: 1, data: 3, parity: 1 }));
        assert_eq!(of_one_node(4, Some(3)), Ok(Geometry { sets: 1, data: 1, parity: 3 }));
        for (volumes, parity) in [(4, 0), (4, 4), (1, 1), (16, 8)] {
            assert!(
                matches!(of_one_node(volumes, Some(parity)), Err(InvalidGeometry::Parity { .. })),
                "{volumes}/{parity}"
            );
        }
    }

    #[test]
    fn volumes_that_make_no_even_sets_are_refused() {
        for volumes in [0, 17, 19, 23] {
            assert_eq!(of_one_node(volumes, None), Err(InvalidGeometry::Indivisible { volumes }));
        }
    }
}
