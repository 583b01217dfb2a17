//! Leases on what this process reads, on the volumes that have it: no other node releases it then.
//!
//! ```text
//! a read begins --> pinned here --a minute--> leased --each minute--> renewed --the read ends--> ended
//! ```
//! A read that is shorter than that costs no call: what is replaced under it has its grace. A volume that has
//! no place for a lease, or cannot be reached, refuses no read for it: the grace still holds, each read needs
//! k of the shards only, and the worst is that a long one is cut, as it would be without leases. How many
//! found no place is a metric.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use tokio::time::MissedTickBehavior;

use sherd_core::id::ProposerId;
use sherd_core::limits::{LEASED_VOLUMES_AT_ONCE, LEASES_IN_CALL_MAX};
use sherd_core::message::ReaderLeases;

use super::deps::Deps;
use super::pages::ask;
use crate::cluster::pins::DataOfSets;
use crate::peer::VolumeRoute;
use crate::upkeep::limits::LEASE_PATIENCE;

#[derive(Debug)]
pub(crate) struct LeaseKeeper {
    deps: Deps,
    refused_count: AtomicU64,
}

impl LeaseKeeper {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone(), refused_count: AtomicU64::new(0) }
    }

    /// Leases that volumes had no place for since the start, renewals too.
    pub(crate) fn refused_count(&self) -> u64 {
        self.refused_count.load(Ordering::Relaxed)
    }

    /// Renews and ends leases until it is stopped. Each start of it is another holder: what the one before
    /// held expires.
    pub(crate) async fn renew_leases(&self) {
        let holder = ProposerId(self.deps.rng.next_u64());
        let mut renewals = tokio::time::interval(self.deps.settings.lease_every);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Cancel-safe: a tick that is not taken comes at once, and ends stay noted.
            let (data, is_end) = tokio::select! {
                biased;
                _ = renewals.tick() => (self.deps.pins.to_lease(), false),
                () = self.deps.pins.ended() => (self.deps.pins.take_ended(), true),
            };
            self.tell_leases(holder, data, is_end).await;
        }
    }

    /// Sends the volumes their leases, each for itself: one that is late must not hold up the calls of the
    /// others past the end of their leases.
    pub(crate) async fn tell_leases(&self, holder: ProposerId, data: DataOfSets, is_end: bool) {
        let mut reports = Vec::new();
        for (set, data) in data {
            let Some(set) = self.deps.cluster.set(set) else { continue };
            let calls = data.chunks(LEASES_IN_CALL_MAX);
            let calls = calls.map(|data| ReaderLeases { holder, data: data.to_vec(), is_end });
            let calls: Arc<[ReaderLeases]> = calls.collect();
            reports.extend(set.routes.iter().map(|route| self.tell_leases_to(route, Arc::clone(&calls))));
        }
        futures::stream::iter(reports).buffer_unordered(LEASED_VOLUMES_AT_ONCE).for_each(|()| async {}).await;
    }

    /// Sends one volume its leases, until it does not answer: it gets them again with the next renewal, which
    /// waits for this.
    async fn tell_leases_to(&self, route: &VolumeRoute, calls: Arc<[ReaderLeases]>) {
        for leases in calls.iter() {
            let Ok(answer) = ask(route.peer.lease(route.volume, leases), LEASE_PATIENCE).await else {
                return;
            };
            self.refused_count.fetch_add(u64::from(answer.refused_count), Ordering::Relaxed);
        }
    }
}
