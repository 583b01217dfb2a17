//! The outcome of the loss of a zone for the erasure sets, where the scheduler must spread the nodes over
//! zones: arithmetic over the spread constraint, without a look at hosts.
//!
//! ```text
//!   spread constraint  -> most nodes in one zone, for a number of zones   (ZoneSpread::nodes_max)
//!   most nodes         -> most volumes of a set in it                     (PoolSets::largest_share)
//!   most volumes       -> reads and writes of the set without them        (Geometry::standing)
//! ```
//!
//! Any nodes may share a zone, so the worst ones are taken.

use sherd_core::erasure::Availability;

use super::placement::PoolSets;

/// A required spread of a pool's pods over zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneSpread {
    /// Pods that a zone may hold more than the emptiest zone.
    pub skew_max: usize,
    /// Zones below which the emptiest zone counts as empty; 1 where the constraint does not say.
    pub zones_min: usize,
}

/// The outcome of the loss of one zone, for a range of numbers of zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLoss {
    /// The fewest zones that this holds for.
    pub zones_from: usize,
    /// The most; absent: any number.
    pub zones_to: Option<usize>,
    /// Volumes of a set that one zone may hold, with the fewest zones.
    pub volumes: usize,
    /// Reads and writes of a set without them.
    pub availability: Availability,
}

impl ZoneSpread {
    /// The most of `nodes` pods that one of `zones` zones may hold once all are placed.
    pub fn nodes_max(self, nodes: usize, zones: usize) -> usize {
        let skew = self.skew_max.clamp(1, nodes.max(1));
        if zones < self.zones_min {
            return skew.min(nodes);
        }
        // One zone holds `skew` more than each other, and all of them together hold `nodes`.
        let zones = zones.max(1);
        nodes.min((nodes + (zones - 1) * skew) / zones)
    }

    /// The outcome of the loss of a zone, by number of zones from the fewest that are possible:
    /// `zones_min`, and at least 2. More zones never make it worse.
    pub fn losses(self, sets: &PoolSets) -> Vec<ZoneLoss> {
        let nodes = sets.nodes();
        let fewest = self.zones_min.max(2);
        let mut losses: Vec<ZoneLoss> = Vec::new();
        // From as many zones as nodes on, no zone holds more than the skew.
        for zones in fewest..=fewest.max(nodes) {
            let volumes = sets.largest_share(self.nodes_max(nodes, zones));
            let availability = sets.geometry().standing(volumes);
            if let Some(last) = losses.last_mut() {
                if last.availability == availability {
                    continue;
                }
                last.zones_to = Some(zones - 1);
            }
            losses.push(ZoneLoss { zones_from: zones, zones_to: None, volumes, availability });
        }
        losses
    }
}

impl PoolSets {
    /// The most volumes of one set that `nodes` nodes may hold together.
    pub fn largest_share(&self, nodes: usize) -> usize {
        let share = |set: usize| {
            let mut shares: Vec<usize> = (0..self.nodes()).map(|node| self.share(node, set)).collect();
            shares.sort_unstable_by(|one, other| other.cmp(one));
            shares.iter().take(nodes).sum::<usize>()
        };
        (0..self.count()).map(share).max().unwrap_or(0)
    }

    /// Volumes of a set that a read of a committed key needs.
    pub const fn needed_for_reads(&self) -> usize {
        let geometry = self.geometry();
        let (shards, half) = (geometry.data_shards(), geometry.volumes().div_ceil(2));
        if shards > half { shards } else { half }
    }
}
