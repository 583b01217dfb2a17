//! A volume that was merely away: asks its peers what changed since it left, and heals that.
//!
//! Every volume's log holds how far it saw each peer's log become durable. From there on a peer's
//! younger rows are compared with the volume's own. What a peer cannot tell any more (its log was
//! compacted past that point) the scrubber finds.

use std::time::Duration;

use sherd_core::id::{Incarnation, RegisterKey, Sequence, VolumeId};
use sherd_volume::request::Op;

use super::super::{Context, ask};
use crate::peer::Reach;
use crate::volumes::LocalVolume;

/// Keys of one page.
const PAGE: usize = 500;
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Context {
    /// A volume is online again: what waited for it is healed, and what it missed.
    pub(super) async fn came_back(&self, volume: VolumeId) {
        self.load_heals().await;
        self.mrf.wake_all();
        if let Err(reason) = self.rebuild_shards(volume).await {
            tracing::warn!(%volume, reason, "the volume's shards are not rebuilt yet");
        }
        if let Err(reason) = self.catch_up(volume).await {
            tracing::warn!(%volume, reason, "what the volume missed is not known in full");
        }
        self.recovery.end(volume);
    }

    /// Compares what changed on the peers since the volume left.
    async fn catch_up(&self, volume: VolumeId) -> Result<(), String> {
        let local = self.volumes.get(volume).ok_or("the volume is not on this node")?;
        let known = local.serving().map_err(|error| error.to_string())?.reader.peers();
        let set = self.set_with(volume).ok_or("the volume is in no set")?;
        let mut failure = Ok(());
        for reach in set.reach.iter().filter(|reach| reach.volume != volume) {
            let seen = known.iter().find(|(peer, _, _)| *peer == reach.volume);
            let Some((_, life, durable)) = seen else { continue };
            if let Err(reason) = self.catch_up_with(reach, *life, *durable).await {
                failure = Err(reason);
            }
        }
        failure
    }

    async fn catch_up_with(&self, reach: &Reach, life: Incarnation, durable: Sequence) -> Result<(), String> {
        let mut from = durable;
        loop {
            let answer = ask(reach.peer.changed_since(reach.volume, from, PAGE), PATIENCE).await;
            let answer = answer.map_err(|error| error.to_string())?;
            // The sequence is of another life: it says nothing about this one.
            if answer.from.incarnation != life || !answer.from.votes {
                return Ok(());
            }
            let page = answer.result.map_err(|refusal| refusal.to_string())?;
            for key in &page.keys {
                self.compare(key).await;
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    async fn compare(&self, key: &RegisterKey) {
        self.throttle.take(0).await;
        self.check_register(key).await;
    }

    /// Tells the volume how far its peers' logs are durable, so that it knows from where on it
    /// missed something, and they know when it comes back with less than it had.
    pub(super) async fn note_peers(&self, volume: &LocalVolume) {
        let Some(set) = self.set_with(volume.id()) else { return };
        for reach in set.reach.iter().filter(|reach| reach.volume != volume.id()) {
            let Ok(answer) = ask(reach.peer.guarantees(reach.volume), PATIENCE).await else { continue };
            let Ok(serving) = volume.serving() else { return };
            let seen = Op::PeerSeen {
                volume: reach.volume,
                incarnation: answer.from.incarnation,
                durable: answer.from.durable,
            };
            // Rides with the next frame; what does not fit now is said again.
            drop(serving.submit(seen));
        }
    }
}
