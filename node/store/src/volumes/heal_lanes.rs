//! The pace at which healing may load each volume of this node.
//!
//! ```text
//! a window that this node rebuilds    -> the lane of each volume of this node that it reads or writes
//! bytes of a rebuild of a peer        -> the lane of the volume that they are on
//! a step of a shard that is verified  -> the lane of its volume
//! ```
//! A node answers for its own volumes: bytes on those of others wait there. All lanes have one rate, which
//! upkeep's governor sets: several rebuilds that share a volume load it no more than one alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use sherd_core::id::VolumeId;

use super::limits::HEAL_COST_MIN;
use crate::machine::throttle::Throttle;

/// Why a rate is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PaceReason {
    /// No client uses the volumes: healing takes any number of bytes.
    #[default]
    Idle,
    /// As much as leaves the calls of clients unharmed.
    Clients,
    /// The least rate, beside clients that are slow.
    Floor,
    /// The bound of the settings is lower than what clients leave.
    Fixed,
}

impl PaceReason {
    /// Every reason once.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Clients, Self::Floor, Self::Fixed];

    /// Name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Clients => "clients",
            Self::Floor => "floor",
            Self::Fixed => "fixed",
        }
    }
}

/// The rate of healing in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HealPace {
    /// Bytes per second and volume; `None` for any number.
    pub bytes_per_second: Option<u64>,
    /// Why it is that.
    pub reason: PaceReason,
    /// Whether no byte is to move for now.
    pub rests: bool,
}

/// The lanes of a node.
#[derive(Debug)]
pub struct HealLanes {
    own: BTreeMap<VolumeId, HealLane>,
    pace: Mutex<HealPace>,
}

#[derive(Debug)]
struct HealLane {
    throttle: Throttle,
    /// Bytes that were let through, each heal at its least cost.
    charged: AtomicU64,
}

impl HealLanes {
    pub(crate) fn new(own: impl Iterator<Item = VolumeId>) -> Self {
        let lane = || HealLane { throttle: Throttle::new(0), charged: AtomicU64::new(0) };
        Self { own: own.map(|volume| (volume, lane())).collect(), pace: Mutex::default() }
    }

    /// Waits until a heal may move `bytes` on a volume, for `patience` at most; for one of another node it
    /// does not wait.
    pub(crate) async fn take(&self, volume: VolumeId, bytes: u64, patience: Duration) {
        let Some(lane) = self.own.get(&volume) else { return };
        let cost = bytes.max(HEAL_COST_MIN);
        lane.throttle.take_within(cost, patience).await;
        lane.charged.fetch_add(cost, Ordering::Relaxed);
    }

    /// Puts another pace into force, also for bytes that wait already.
    pub(crate) fn set(&self, pace: HealPace) {
        *self.pace.lock() = pace;
        let rate = pace.bytes_per_second.unwrap_or(0);
        for lane in self.own.values() {
            if lane.throttle.bytes_per_second() != rate {
                lane.throttle.set_bytes_per_second(rate);
            }
            if lane.throttle.is_paused() != pace.rests {
                lane.throttle.pause(pace.rests);
            }
        }
    }

    /// The pace in force.
    pub fn pace(&self) -> HealPace {
        *self.pace.lock()
    }

    /// The bytes of heals since the last call, on the volume that had most.
    pub fn charged_most(&self) -> u64 {
        self.own.values().map(|lane| lane.charged.swap(0, Ordering::Relaxed)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::volumes::limits::HEAL_TURN_MAX;

    const OWN: [VolumeId; 2] = [VolumeId([1; 16]), VolumeId([2; 16])];
    const PEER: VolumeId = VolumeId([9; 16]);
    const MIB: u64 = 1 << 20;
    const HOUR: Duration = Duration::from_hours(1);

    fn lanes() -> HealLanes {
        let lanes = HealLanes::new(OWN.into_iter());
        lanes.set(HealPace { bytes_per_second: Some(MIB), ..HealPace::default() });
        lanes
    }

    async fn seconds(work: impl Future<Output = ()>) -> u64 {
        let begun = Instant::now();
        work.await;
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn each_volume_is_loaded_at_the_rate_and_those_of_others_are_left_to_their_nodes() {
        let lanes = lanes();
        lanes.take(OWN[0], 10 * MIB, HOUR).await;
        lanes.take(OWN[1], 10 * MIB, HOUR).await;
        assert_eq!(seconds(lanes.take(OWN[0], MIB, HOUR)).await, 10, "it waits for the window before");
        assert_eq!(seconds(lanes.take(OWN[1], MIB, HOUR)).await, 0, "that was paid for meanwhile");
        assert_eq!((lanes.charged_most(), lanes.charged_most()), (11 * MIB, 0));
        assert_eq!(seconds(lanes.take(PEER, u64::MAX, HOUR)).await, 0);
        assert_eq!(lanes.charged_most(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_heal_has_a_least_cost() {
        let lanes = lanes();
        let small_ones = async {
            for _ in 0..160 {
                lanes.take(OWN[0], 1, HOUR).await;
            }
        };
        assert_eq!(seconds(small_ones).await, 9);
        assert_eq!(lanes.charged_most(), 160 * HEAL_COST_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_move_unpaid_when_they_waited_for_long_and_hold_up_no_others() {
        let lanes = lanes();
        lanes.take(OWN[0], 20 * MIB, HOUR).await;
        assert_eq!(seconds(lanes.take(OWN[0], 1_000 * MIB, HEAL_TURN_MAX)).await, 5);
        assert_eq!(lanes.charged_most(), 1_020 * MIB, "they were moved");
        assert_eq!(seconds(lanes.take(OWN[0], MIB, HOUR)).await, 15);
    }

    #[tokio::test(start_paused = true)]
    async fn at_rest_nothing_moves_and_without_a_rate_nothing_waits() {
        let lanes = lanes();
        lanes.set(HealPace { rests: true, ..HealPace::default() });
        assert!(tokio::time::timeout(HOUR, lanes.take(OWN[0], 1, 2 * HOUR)).await.is_err());
        lanes.set(HealPace::default());
        assert_eq!(seconds(lanes.take(OWN[0], u64::MAX / 4, HOUR)).await, 0);
        assert_eq!(seconds(lanes.take(OWN[0], 1, HOUR)).await, 0);
    }
}
