//! The queue of most recent failures, and the volumes' logs that make its entries durable. Each worker
//! that finds damage puts it here; heals take it from here.

pub(crate) mod entries;
pub(crate) mod mrf;

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use sherd_core::heal::HealEntry;

use self::entries::Spare;
use self::mrf::Mrf;
use super::deps::Deps;
use super::pages::ask;
use crate::peer::VolumeRoute;
use crate::upkeep::limits::{
    HEAL_PUT_PATIENCE, LOG_PAGE, LOGS_READ_AT_ONCE, OLD_ENOUGH, PAGE_PATIENCE, UNLOGGED_AT_ONCE,
};

/// Damage that is known: in memory, and in the logs.
#[derive(Debug)]
pub(crate) struct HealQueue {
    deps: Deps,
    pub(crate) mrf: Mrf,
}

impl HealQueue {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone(), mrf: Mrf::new() }
    }

    /// Makes damage durable on the volumes of its set, and queues it. `false` where no volume took it: a kill
    /// forgets it, and it counts as a lost report, so that volumes are compared again.
    pub(crate) async fn put(&self, entry: HealEntry, spare: Spare) -> bool {
        let is_logged = self.log(entry, spare, Instant::now()).await;
        if !is_logged {
            self.deps.report_counts.lost_one();
        }
        is_logged
    }

    /// As [`Self::put`], for a report that was made at this time, and is counted already.
    ///
    /// As many logs as a write needs are enough: one that is slow gets it as well, and is not waited for.
    /// Where others refuse, one is: it outlives a kill.
    pub(crate) async fn log(&self, mut entry: HealEntry, spare: Spare, found: Instant) -> bool {
        let found = if entry.since_ms == 0 { found } else { found.min(self.found_since(entry.since_ms)) };
        if self.mrf.found_again(&entry, spare, found) {
            return true;
        }
        if entry.since_ms == 0 {
            entry.since_ms = self.deps.wall_ms();
        }
        let set = self.deps.cluster.set_of(&entry.key);
        let puts =
            set.routes.iter().map(|route| ask(route.peer.heal_put(route.volume, &entry), HEAL_PUT_PATIENCE));
        let mut puts: FuturesUnordered<_> = puts.collect();
        let mut taken = 0;
        while taken < set.quorums().accept()
            && let Some(answer) = puts.next().await
        {
            taken += usize::from(answer.is_ok());
        }
        if taken == 0 {
            // The scrubber is the second net.
            self.mrf.add_unlogged(entry, spare, found);
        } else {
            self.mrf.add(entry, spare, found);
        }
        taken > 0
    }

    /// When damage was found that is known since then by a node's wall clock. One that is wrong makes damage
    /// look old until it is healed, or as young as it is here.
    fn found_since(&self, since_ms: u64) -> Instant {
        let known_for = Duration::from_millis(self.deps.wall_ms().saturating_sub(since_ms)).min(OLD_ENOUGH);
        let now = Instant::now();
        now.checked_sub(known_for).unwrap_or(now)
    }

    /// Tries once more to make durable what no log took; not to its end while they still refuse.
    pub(crate) async fn log_unlogged(&self) {
        loop {
            let unlogged = self.mrf.unlogged(UNLOGGED_AT_ONCE);
            let puts = unlogged.into_iter().map(|(entry, spare)| self.log(entry, spare, Instant::now()));
            let taken = futures::future::join_all(puts).await;
            if !taken.contains(&true) {
                return;
            }
        }
    }

    /// Loads what the logs of all volumes hold. One that does not answer is asked when it comes back, and
    /// does not hold up the others.
    pub(crate) async fn load(&self) {
        let routes = self.deps.cluster.sets().iter().flat_map(|set| &set.routes);
        let loads: Vec<_> = routes.map(|route| self.load_of(route)).collect();
        self.mrf.begin_load();
        futures::stream::iter(loads).buffer_unordered(LOGS_READ_AT_ONCE).for_each(|_| async {}).await;
        self.mrf.end_load();
    }

    /// Loads what a volume's log holds; `false` when it could not be read to its end.
    pub(crate) async fn load_of(&self, route: &VolumeRoute) -> bool {
        let mut after = None;
        loop {
            let page = route.peer.heals(route.volume, after, LOG_PAGE);
            let Ok(page) = ask(page, PAGE_PATIENCE).await else { return false };
            let full = page.len() >= LOG_PAGE;
            after = page.last().map(|(id, _)| *id);
            for (id, stored) in page {
                match HealEntry::decode(stored) {
                    Ok(entry) => {
                        let spare = entry.data.map_or(1, |data| data.spare());
                        let found = self.found_since(entry.since_ms);
                        self.mrf.load(entry, Spare(spare), found, self.deps.now_ms());
                    }
                    Err(error) => {
                        tracing::warn!(?error, "a heal entry does not decode and is dropped");
                        route.peer.heal_done(route.volume, id);
                    }
                }
            }
            if !full {
                return true;
            }
        }
    }
}
