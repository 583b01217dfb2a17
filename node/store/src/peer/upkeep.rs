//! The seam to what a node's volumes keep for upkeep.

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{BucketId, VolumeId};
use sherd_core::message::Answer;
use sherd_core::register::Answerer;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::seal::StoredSeals;
use sherd_core::release::{ReleaseEntry, ReleaseId};

use super::Pending;

/// The queues in the logs of one node's volumes, and what the volumes know of themselves and each other.
pub trait UpkeepPeer: Send + Sync + std::fmt::Debug {
    /// One page of the MRF entries in the volume's log. Ends.
    fn heals(&self, volume: VolumeId, after: Option<HealId>, limit: usize) -> Pending<Vec<(HealId, Bytes)>>;

    /// Queues a heal on the volume's log. Runs on: logs that are slow get it as well.
    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()>;

    /// Notes that a heal is done. Lazy.
    fn heal_done(&self, volume: VolumeId, id: HealId);

    /// One page of the notes of replaced data in the volume's log, oldest first. Ends.
    fn releases(
        &self,
        volume: VolumeId,
        after: Option<ReleaseId>,
        limit: usize,
    ) -> Pending<Vec<(ReleaseId, Bytes)>>;

    /// Notes replaced data on the volume's log. Lazy.
    fn release_put(&self, volume: VolumeId, entry: &ReleaseEntry);

    /// Notes that replaced data is gone. Lazy.
    fn release_done(&self, volume: VolumeId, id: ReleaseId);

    /// Which life of the volume speaks, whether it votes, and how far its log is durable. Ends.
    fn position(&self, volume: VolumeId) -> Pending<Answerer>;

    /// What the volume guarantees durably, but for its seals. Ends.
    fn guarantees(&self, volume: VolumeId) -> Pending<Answer<Guarantees>>;

    /// One page of the volume's seals, of the buckets behind `after`, by bucket. A page may be shorter than `limit`;
    /// an empty one is the end. Ends.
    fn seals(
        &self,
        volume: VolumeId,
        after: Option<BucketId>,
        limit: usize,
    ) -> Pending<Answer<Vec<StoredSeals>>>;

    /// How far the volume saw its peers' logs become durable, in which of their lives and openings. Answered as
    /// soon as it is open, whether it votes or not. One of those peers that asks says its own openings: what they
    /// cover is dropped after the answer, which runs on.
    fn remembers(&self, volume: VolumeId, asker: Option<&Asker>) -> Pending<Answer<Memory>>;
}
