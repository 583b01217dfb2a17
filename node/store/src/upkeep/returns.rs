//! Volumes of other nodes that come back, looked for from second to second: heals that failed while one was
//! away are tried again at once, and not after their pauses.
//!
//! A volume of this node does the same when it was opened ([`recover::follow`](super::recover::follow)). One
//! that comes and goes ends the pauses ever less often.

use std::collections::BTreeSet;
use std::time::Duration;

use sherd_core::id::VolumeId;
use tokio::time::Instant;

use super::deps::Deps;
use super::queue::HealQueue;
use super::shards::wants::WantWorker;
use crate::upkeep::limits::{HEAL_PAUSE_MS_MAX, RETURN_LOOK_EVERY, RETURNS_WAKE_EVERY};

/// The volumes of other nodes that vote, and whether the heals are to be woken for one of them.
#[derive(Debug, Default)]
struct ReturnedVolumes {
    /// None before the first look, which finds volumes that never were away.
    voting: Option<BTreeSet<VolumeId>>,
    /// A volume came back since the last wake.
    is_due: bool,
    /// When heals were woken last, and how long they are not woken again from then on.
    woken: Option<(Instant, Duration)>,
}

impl ReturnedVolumes {
    /// Takes the volumes that vote at this moment. Returns whether the heals are to be woken.
    fn take(&mut self, voting: BTreeSet<VolumeId>, now: Instant) -> bool {
        self.is_due |= self.voting.as_ref().is_some_and(|before| !voting.is_subset(before));
        self.voting = Some(voting);
        let wakes = self.is_due && self.woken.is_none_or(|(at, rest)| now - at >= rest);
        if wakes {
            let longest = Duration::from_millis(HEAL_PAUSE_MS_MAX);
            let again = self.woken.filter(|(at, _)| now - *at < 2 * longest);
            let rest = again.map_or(RETURNS_WAKE_EVERY, |(_, rest)| longest.min(2 * rest));
            (self.is_due, self.woken) = (false, Some((now, rest)));
        }
        wakes
    }

    fn look(&mut self, deps: &Deps, queue: &HealQueue, wants: &WantWorker) {
        let voting = deps.cluster.remote().all().into_iter().filter(|volume| volume.report.votes());
        if self.take(voting.map(|volume| volume.id).collect(), Instant::now()) {
            queue.mrf.wake_paused();
            wants.wake_paused();
        }
    }
}

/// Wakes the heals when a volume of another node comes back.
pub(crate) async fn follow_returns(deps: &Deps, queue: &HealQueue, wants: &WantWorker) {
    let mut returned = ReturnedVolumes::default();
    loop {
        returned.look(deps, queue, wants);
        tokio::time::sleep(RETURN_LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::heal::HealEntry;
    use sherd_core::id::{BucketId, NodeId, ObjectKey, RegisterKey};
    use sherd_core::report::{VolumeReport, VolumeStanding};

    use super::*;
    use crate::upkeep::queue::entries::Spare;
    use crate::upkeep::tests::Directories;

    const NODE: NodeId = NodeId([9; 16]);
    const VOLUME: VolumeId = VolumeId([9; 16]);

    #[test]
    fn a_volume_that_comes_and_goes_wakes_heals_ever_less_often() {
        let (mut returned, begun) = (ReturnedVolumes::default(), Instant::now());
        let (none, one) = (BTreeSet::new(), BTreeSet::from([VOLUME]));
        assert!(!returned.take(one.clone(), begun), "it never was away");
        let mut wakes = Vec::new();
        for second in 0..2400 {
            let voting = if second % 2 == 0 { &none } else { &one };
            if returned.take(voting.clone(), begun + RETURN_LOOK_EVERY * second) {
                wakes.push(second);
            }
        }
        assert_eq!(wakes, [1, 31, 91, 211, 451, 931, 1531, 2131]);
        let calm = begun + Duration::from_hours(1);
        assert!(returned.take(one.clone(), calm), "it came back since the last wake");
        assert!(!returned.take(none, calm));
        assert!(!returned.take(one.clone(), calm));
        assert!(returned.take(one, calm + RETURNS_WAKE_EVERY), "it begins anew");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_heal_that_failed_is_tried_again_when_a_volume_comes_back() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let (deps, queue, wants) = (&node.workers.deps, &node.workers.queue, &node.workers.wants);
        let remote = deps.cluster.remote();
        let report = VolumeReport { standing: VolumeStanding::Voting, ..VolumeReport::of(VOLUME) };
        remote.replace(NODE, std::slice::from_ref(&report));
        let mut returned = ReturnedVolumes::default();
        returned.look(deps, queue, wants);

        let key = ObjectKey::new("a".to_owned()).expect("a key");
        let key = RegisterKey::object(BucketId([1; 16]), key);
        let entry = HealEntry { key, data: None, since_ms: 1 };
        queue.mrf.add(entry.clone(), Spare(1), Instant::now());
        assert_eq!(queue.mrf.take(0), Some(entry.clone()));
        queue.mrf.failed(entry.id(), Spare(1), Vec::new(), u64::MAX / 2, 255);
        remote.node_is_down(NODE, "no answer");
        returned.look(deps, queue, wants);
        assert_eq!(queue.mrf.take(0), None, "it pauses");
        remote.replace(NODE, &[report]);
        returned.look(deps, queue, wants);
        assert_eq!(queue.mrf.take(0), Some(entry));
        node.close().await;
    }
}
