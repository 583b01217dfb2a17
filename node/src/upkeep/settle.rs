//! Unsettled rows: what a volume does not know to be committed, settled soon, so that few keys ever
//! depend on more than P volumes.

use std::time::Duration;

use sherd_core::id::{Ballot, RegisterKey, VolumeId};

use super::heal::Healed;
use super::{Context, ask};
use crate::peer::Peer;
use crate::register::Failure;

/// Rows of one page.
const PAGE: usize = 256;
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Context {
    /// Settles rows until it is told to stop.
    pub(super) async fn settle_rows(&self) {
        loop {
            for volume in self.volumes.all() {
                if volume.state().votes() {
                    self.settle_volume(volume.id()).await;
                }
            }
            tokio::time::sleep(self.settings.settle_every).await;
        }
    }

    /// Settles what one volume of this node does not know to be committed.
    async fn settle_volume(&self, volume: VolumeId) {
        let Some(peer) = self.peer_of(volume) else { return };
        let mut after: Option<RegisterKey> = None;
        loop {
            let page = peer.unsettled(volume, after.as_ref(), PAGE);
            let Ok(page) = ask(page, PATIENCE).await else { return };
            let full = page.len() >= PAGE;
            after = page.last().map(|(key, _)| key.clone());
            for (key, ballot) in page {
                if self.is_ripe(ballot) {
                    self.settle_row(volume, &*peer, &key, ballot).await;
                }
            }
            if !full {
                return;
            }
        }
    }

    /// Whether a row is old enough that its writer has either finished or gone.
    fn is_ripe(&self, ballot: Ballot) -> bool {
        let age_ms = self.wall_ms().saturating_sub(ballot.time.as_ms());
        Duration::from_millis(age_ms) >= self.settings.settle_after
    }

    pub(super) async fn settle_row(
        &self,
        volume: VolumeId,
        peer: &dyn Peer,
        key: &RegisterKey,
        ballot: Ballot,
    ) {
        let rows = self.rows_of(key).await;
        if rows.are_same() && rows.held.len() >= self.cluster.set_of(key).quorums().accept() {
            return self.tell_committed(key, &rows);
        }
        // A volume that did not get the row would wait for the scrubber, with one copy less until then.
        if !(rows.without.is_empty() && rows.rotten.is_empty()) && self.heal_row(key).await == Healed::Whole {
            return;
        }
        // A read finishes what it finds; a row that it does not find is below a later one.
        match self.registers.read(key).await {
            Ok(Some(found)) if found.ballot == ballot => {
                peer.commit(volume, &self.cluster.target(key.clone()), ballot);
            }
            Ok(_) => match self.registers.settle(key).await {
                Ok(_) | Err(Failure::Sealed) => {}
                Err(failure) => tracing::debug!(?key, %failure, "row not settled yet"),
            },
            Err(Failure::Sealed) => {}
            Err(failure) => tracing::debug!(?key, %failure, "row not settled yet"),
        }
    }

    /// How a volume is reached, by its set.
    pub(super) fn peer_of(&self, volume: VolumeId) -> Option<std::sync::Arc<dyn Peer>> {
        let mut reaches = self.cluster.sets().iter().flat_map(|set| set.reach.iter());
        reaches.find(|reach| reach.volume == volume).map(|reach| std::sync::Arc::clone(&reach.peer))
    }
}
