//! Whether a volume that was opened still has the state that its votes speak for, as its peers
//! remember it.
//!
//! A disk that was away while its volume was rebuilt elsewhere, a restored snapshot, a device that
//! lied about a sync: the log is whole and too old, and nothing in it says so. The peers do. Called
//! by upkeep, before a volume votes and for every peer that comes later. Guards I-18.

use std::fmt;

use crate::id::{Incarnation, Sequence, VolumeId};

/// How far a volume's log is durable, and in which of its lives. Ordered: a later life is above every
/// sequence of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The life.
    pub incarnation: Incarnation,
    /// Its highest durable sequence in that life.
    pub durable: Sequence,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of life {}", self.durable.0, self.incarnation.0)
    }
}

/// The position that shows that a volume lost state: the highest that a peer remembers of it, where
/// that is above its own.
///
/// A remembered life above one's own was recorded by a voter for a volume that had lost this one's
/// state; whatever this one holds, it has not what it took part in since.
pub fn lost_state(
    volume: VolumeId,
    own: Position,
    remembered: impl IntoIterator<Item = (VolumeId, Position)>,
) -> Option<Position> {
    let of_volume = remembered.into_iter().filter(|(peer, _)| *peer == volume);
    of_volume.map(|(_, position)| position).max().filter(|highest| *highest > own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: VolumeId = VolumeId([1; 16]);
    const OTHER: VolumeId = VolumeId([2; 16]);

    fn at(life: u32, durable: u64) -> Position {
        Position { incarnation: Incarnation(life), durable: Sequence(durable) }
    }

    #[test]
    fn a_later_life_or_a_later_sequence_is_lost_state() {
        let lost =
            |remembered: &[(VolumeId, Position)]| lost_state(OWN, at(2, 10), remembered.iter().copied());
        assert_eq!(lost(&[]), None);
        assert_eq!(lost(&[(OWN, at(2, 10))]), None);
        assert_eq!(lost(&[(OWN, at(1, 99))]), None, "an earlier life was longer");
        assert_eq!(lost(&[(OTHER, at(9, 99))]), None, "of another volume");
        assert_eq!(lost(&[(OWN, at(2, 11))]), Some(at(2, 11)));
        assert_eq!(lost(&[(OWN, at(3, 0)), (OWN, at(2, 99))]), Some(at(3, 0)));
    }
}
