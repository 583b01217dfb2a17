//! The things that all background work uses: the layers below it, the budget that it shares, and where
//! volumes and sets lie.
//!
//! A worker holds a clone of it beside its own state. It has no methods but those that look something up.

use std::sync::Arc;

use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{RegisterKey, Timestamp, VolumeId};

use super::settings::Settings;
use super::tasks::Panics;
use super::tuning::LiveTuning;
use crate::cluster::damage::ReportCounts;
use crate::cluster::deletions::Deletions;
use crate::cluster::pins::Pins;
use crate::cluster::{Cluster, SetView};
use crate::machine::throttle::Throttle;
use crate::peer::VolumeRoute;
use crate::register::Registers;
use crate::stripe::Stripes;
use crate::upkeep::limits::TURNS_MAX;
use crate::volumes::Volumes;

/// The parts that upkeep is built from.
#[derive(Debug)]
pub struct UpkeepConfig {
    /// The topology in force.
    pub cluster: Arc<Cluster>,
    /// This node's volumes.
    pub volumes: Volumes,
    /// The registers of all keys.
    pub registers: Registers,
    /// The data path.
    pub stripes: Stripes,
    /// The clock of ballots.
    pub clock: Arc<HybridClock>,
    /// Where ids and pauses are drawn.
    pub rng: Arc<dyn Rng>,
    /// Data that reads hold.
    pub pins: Pins,
    /// Known deletions of buckets.
    pub deletions: Deletions,
    /// Of the reports of damage that are on their way here.
    pub report_counts: Arc<ReportCounts>,
    /// How often and how fast upkeep works.
    pub settings: Settings,
}

/// The things that all background work uses.
#[derive(Debug, Clone)]
pub(crate) struct Deps {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) volumes: Volumes,
    pub(crate) registers: Registers,
    pub(crate) stripes: Stripes,
    pub(crate) clock: Arc<HybridClock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) pins: Pins,
    pub(crate) deletions: Deletions,
    pub(crate) report_counts: Arc<ReportCounts>,
    pub(crate) settings: Settings,
    /// The part of the settings that may change, as it is in force.
    pub(crate) tuning: Arc<LiveTuning>,
    /// The bound of all background work together, and its pause. How much healing loads each volume, the
    /// lanes of the volumes say besides.
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) panics: Arc<Panics>,
}

impl Deps {
    pub(crate) fn new(config: UpkeepConfig) -> Self {
        let UpkeepConfig {
            cluster,
            volumes,
            registers,
            stripes,
            clock,
            rng,
            pins,
            deletions,
            report_counts,
            settings,
        } = config;
        Self {
            cluster,
            volumes,
            registers,
            stripes,
            clock,
            rng,
            pins,
            deletions,
            report_counts,
            settings,
            tuning: Arc::new(LiveTuning::new(settings.into())),
            throttle: Arc::new(Throttle::new(settings.heal_bytes_per_second)),
            panics: Arc::default(),
        }
    }

    /// Monotonic milliseconds, for pauses.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall().monotonic_us() / 1000
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.clock.wall().wall_ms()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.wall_ms())
    }

    pub(crate) fn set_with(&self, volume: VolumeId) -> Option<Arc<SetView>> {
        self.sets_with(volume).next()
    }

    pub(crate) fn sets_with(&self, volume: VolumeId) -> impl Iterator<Item = Arc<SetView>> {
        self.cluster.sets().iter().filter(move |set| set.place_of(volume).is_some()).map(Arc::clone)
    }

    pub(crate) fn route_to(&self, volume: VolumeId) -> Option<VolumeRoute> {
        let mut routes = self.cluster.sets().iter().flat_map(|set| set.routes.iter());
        routes.find(|route| route.volume == volume).cloned()
    }

    /// For how many looks this node leaves a row to the nodes whose turn is before its own: one of the nodes
    /// that hold it is enough, and the next one takes it where that one does not.
    pub(crate) fn turns_before(&self, key: &RegisterKey) -> u32 {
        u32::try_from(self.cluster.turn_of(key)).unwrap_or(TURNS_MAX).min(TURNS_MAX)
    }
}
