//! How fast healing goes: as fast as it can while clients are not harmed by it.
//!
//! ```text
//! each second: times of calls, bytes healed, pace of the devices -> Governor -> lanes of the volumes
//! ```
//! A client is harmed where more than one in a hundred of the calls that requests wait for, at the volumes of
//! this node, takes twice as long as 99 of 100 of them do without healing. [`control`] decides; here are its
//! clock, its inputs and what waits for it.

mod control;

use futures::future::join_all;
use tokio::time::Instant;

use sherd_core::id::VolumeId;

use super::deps::Deps;
use super::limits::PACE_EVERY;
use crate::machine::call_times::CallTimes;
use crate::volumes::{HEAL_TURN_MAX, HealLanes, HealPace, PaceReason};
use control::{Governor, SecondFigures};

/// The pace as it is shown beside a fixed `bound` (0 for none) of all `volumes` of the node together: where
/// the bound is the lower one, it is what is in force.
pub(crate) fn shown(governed: HealPace, bound: u64, volumes: usize) -> HealPace {
    let of_all = governed.bytes_per_second.map(|rate| rate.saturating_mul(volumes as u64));
    if bound > 0 && of_all.is_none_or(|of_all| bound <= of_all) {
        return HealPace { bytes_per_second: Some(bound), reason: PaceReason::Fixed, ..governed };
    }
    governed
}

/// Waits until a heal may move `bytes` on each of these volumes, as far as they are of this node: on those of
/// others it waits there.
pub(crate) async fn admit(deps: &Deps, volumes: &[VolumeId], bytes: u64) {
    deps.throttle.take(bytes.saturating_mul(volumes.len() as u64)).await;
    let lanes = deps.volumes.heal_lanes();
    join_all(volumes.iter().map(|volume| lanes.take(*volume, bytes, HEAL_TURN_MAX))).await;
}

/// The node's own volumes, as the governor sees and paces them.
pub(crate) struct GovernedVolumes<'a, P, W> {
    pub(crate) times: &'a CallTimes,
    pub(crate) lanes: &'a HealLanes,
    /// Gives the bytes per second of the slowest device, where they are known.
    pub(crate) device_pace: P,
    /// Gives the seconds of the wall clock.
    pub(crate) wall_s: W,
}

/// Sets the pace of healing each second, until it is stopped.
pub(crate) async fn govern<P, W>(volumes: GovernedVolumes<'_, P, W>)
where
    P: Fn() -> Option<u64>,
    W: Fn() -> u64,
{
    let GovernedVolumes { times, lanes, device_pace, wall_s } = volumes;
    let (mut governor, mut before) = (Governor::default(), times.counts());
    let (mut begun, mut under_way) = (Instant::now(), times.under_way());
    loop {
        tokio::time::sleep(PACE_EVERY).await;
        let (counts, charged, took) = (times.counts(), lanes.charged_most(), begun.elapsed());
        begun = Instant::now();
        // A busy machine wakes this late.
        let in_second = u128::from(charged) * PACE_EVERY.as_millis() / took.as_millis().max(1);
        let mut calls = counts.since(&before);
        // Calls that were under way at the last look and did not end since take a second or longer.
        let late_count = under_way.saturating_sub(calls.total());
        calls.add_calls(late_count, PACE_EVERY);
        let figures = SecondFigures {
            calls,
            are_late: late_count > 0,
            healed_bytes: u64::try_from(in_second).unwrap_or(u64::MAX),
            device_pace: device_pace(),
            wall_s: wall_s(),
        };
        (before, under_way) = (counts, times.under_way());
        lanes.set(governor.next_pace(&figures));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    const VOLUME: VolumeId = VolumeId([1; 16]);
    const MIB: u64 = 1 << 20;
    /// A tenth of it is the floor.
    const DEVICE: u64 = 100 * MIB;

    async fn heal(lanes: &HealLanes, healed_mib: &Cell<u64>) {
        loop {
            lanes.take(VOLUME, MIB, HEAL_TURN_MAX).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            healed_mib.set(healed_mib.get() + 1);
        }
    }

    async fn govern_device(times: &CallTimes, lanes: &HealLanes) {
        let begun = Instant::now();
        let wall_s = || begun.elapsed().as_secs();
        govern(GovernedVolumes { times, lanes, device_pace: || Some(DEVICE), wall_s }).await;
    }

    /// Calls take ten times as long while heals move more than 30 MiB/s.
    #[tokio::test(start_paused = true)]
    async fn heals_slow_down_beside_clients_and_take_the_whole_device_without_them() {
        let (times, lanes) = (CallTimes::default(), HealLanes::new([VOLUME].into_iter()));
        let healed_mib = Cell::new(0_u64);
        let clients = async {
            for _ in 0..600 {
                let before = healed_mib.get();
                tokio::time::sleep(Duration::from_millis(200)).await;
                let took_ms = if healed_mib.get() - before > 6 { 50 } else { 5 };
                (0..20).for_each(|_| times.count(Duration::from_millis(took_ms)));
            }
            let beside_clients = healed_mib.replace(0);
            let reason = lanes.pace().reason;
            tokio::time::sleep(Duration::from_mins(1)).await;
            (beside_clients, reason, healed_mib.get())
        };
        // Cancel-safe: the test ends with its clients.
        let (beside_clients, reason, alone) = tokio::select! {
            biased;
            healed = clients => healed,
            _ = async {
                tokio::join!(govern_device(&times, &lanes), heal(&lanes, &healed_mib))
            } => unreachable!("they go on"),
        };
        assert!((120 * 12..120 * 35).contains(&beside_clients), "{beside_clients} MiB in two minutes");
        assert_eq!(reason, PaceReason::Clients);
        assert!(alone > 50 * 100, "{alone} MiB in a minute");
        assert_eq!(lanes.pace(), HealPace::default());
    }

    /// Calls that do not end are those of clients, and are harmed.
    #[tokio::test(start_paused = true)]
    async fn heals_that_hold_up_all_calls_do_not_make_the_volumes_idle() {
        let (times, lanes) = (Arc::new(CallTimes::default()), HealLanes::new([VOLUME].into_iter()));
        let healed_mib = Cell::new(0);
        let _stuck: Vec<_> = (0..10).map(|_| times.begin()).collect();
        let work = async { tokio::join!(govern_device(&times, &lanes), heal(&lanes, &healed_mib)) };
        assert!(tokio::time::timeout(Duration::from_mins(1), work).await.is_err(), "they go on");
        let HealPace { bytes_per_second, reason, .. } = lanes.pace();
        assert_eq!((bytes_per_second, reason), (Some(DEVICE / 10), PaceReason::Floor));
    }

    #[test]
    fn a_fixed_bound_is_shown_where_it_is_the_lower_one() {
        let pace = |bytes_per_second, reason| HealPace { bytes_per_second, reason, rests: false };
        let (idle, clients) = (HealPace::default(), pace(Some(40 * MIB), PaceReason::Clients));
        let fixed = |bound| pace(Some(bound), PaceReason::Fixed);
        let cases = [
            (clients, 0, clients),
            (clients, 81 * MIB, clients),
            (clients, 80 * MIB, fixed(80 * MIB)),
            (idle, MIB, fixed(MIB)),
        ];
        for (governed, bound, expected) in cases {
            assert_eq!(shown(governed, bound, 2), expected, "beside {bound}");
        }
    }
}
