//! When the durable shards of a write are enough: which volumes have them, and which nodes are down.

use tokio::time::Instant;

/// Some of a set's volumes, by their places in it: not by the indices of the shards that they hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VolumeSubset(u32);

impl VolumeSubset {
    /// The first `count` places, at most 32.
    pub(crate) fn first(count: usize) -> Self {
        (0..count).fold(Self::default(), Self::with)
    }

    /// Returns these places and one more.
    #[must_use]
    pub(crate) fn with(self, place: usize) -> Self {
        Self(self.0 | 1 << place)
    }

    #[must_use]
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    #[must_use]
    pub(crate) const fn among(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    #[must_use]
    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) const fn has(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    pub(crate) const fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Volumes that a write gave up because their nodes were down.
#[derive(Debug, Default)]
pub(crate) struct GivenUpVolumes {
    places: VolumeSubset,
    since: Option<Instant>,
}

impl GivenUpVolumes {
    pub(super) fn add(&mut self, places: VolumeSubset) {
        if places.count() > 0 {
            self.since.get_or_insert_with(Instant::now);
        }
        self.places = self.places.and(places);
    }

    pub(crate) const fn places(&self) -> VolumeSubset {
        self.places
    }

    /// Since when, for the first of them; `None` where none is lost.
    pub(crate) const fn since(&self) -> Option<Instant> {
        self.since
    }
}

/// As many shards as survive the loss of a node, wherever they are; or, where a node is down, as many as
/// survive the loss of a volume, on nodes that are up: what is on the one that is down is not counted on to
/// come back, and its absence excuses no shortage of the others. `given_up` are places that the write lost to
/// a node that was down.
pub(super) fn are_enough(
    [all_up, with_node_down]: [usize; 2],
    shards: VolumeSubset,
    down: VolumeSubset,
    given_up: VolumeSubset,
) -> bool {
    let is_excused = down.and(given_up).count() > 0;
    shards.count() >= all_up || (is_excused && shards.without(down).count() >= with_node_down)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three nodes with two volumes each, 3+3: five shards survive the loss of a node, four that of a volume.
    #[test]
    fn a_node_that_is_down_excuses_its_own_shards_and_no_others() {
        let places =
            |places: &[usize]| places.iter().fold(VolumeSubset::default(), |all, place| all.with(*place));
        let (none, first, second, third) = (places(&[]), places(&[0, 1]), places(&[2, 3]), places(&[4, 5]));
        let is_enough = |shards, down, given_up| are_enough([5, 4], shards, down, given_up);
        let five = VolumeSubset::first(5);
        assert!(is_enough(five, none, none) && !is_enough(first.and(second), none, none));
        assert!(is_enough(first.and(second), third, none), "the third is down");
        assert!(
            !is_enough(first.and(third), third, none),
            "the second is not, and two shards may be gone with the third"
        );
        assert!(is_enough(five, third, none), "five are enough wherever they are");
        // The third was down when its shards failed, and is back.
        assert!(is_enough(first.and(second), none, third) && !is_enough(first.with(2), none, third));
        // Meanwhile the second went down.
        assert!(!is_enough(first.and(second), second, third));
    }
}
