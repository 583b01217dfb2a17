//! Bytes of bodies: cut in stripes, coded, spread over the volumes of a set, and read back.
//!
//! `write` makes data durable before any register names it; `read` gives back verified bytes, from any k
//! shards. Neither depends on objects.

mod limits;
mod ahead;
mod encode;
mod digester;
mod read;
mod sources;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use sherd_core::env::HybridClock;
use sherd_core::erasure::{Code, Geometry};
use sherd_core::id::{DataId, ProposerId};
use sherd_core::limits::{LARGE_STRIPE_UNIT_BYTES, STRIPE_UNIT_BYTES};
use sherd_core::record::{DataRef, Home};
use sherd_volume::buffer::{Buffer, BufferPool};

use crate::cluster::damage::Damage;
use crate::cluster::pins::{PinGuard, Pins};
use crate::cluster::{Cluster, SetView};
use crate::machine::budget::{Budget, BudgetExhausted, CapShares};
use crate::machine::reclaim::Reclaim;
use crate::observe::metrics::ShardMetrics;
use crate::peer::APPENDS_UNDER_WAY_MAX;

use limits::LARGE_UPLOADS_MAX;

pub use digester::{BodyDigester, DigestPool};
pub(crate) use read::{ReadError, read, read_for};
pub(crate) use write::{StagedData, StripeWriter, SyncingBody, WriteError};

/// Where bodies go by their size. Every version records what was chosen, so these may change.
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    /// Objects up to this many bytes, divided by the volumes of the set, stay in their row.
    pub inline_bytes_max: u32,
    /// Shards up to this many bytes are packed in the log.
    pub pack_bytes_max: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            inline_bytes_max: sherd_core::limits::INLINE_BYTES_MAX,
            pack_bytes_max: sherd_core::limits::PACK_BYTES_MAX,
        }
    }
}

/// How long the data path waits.
#[derive(Debug, Clone, Copy)]
pub struct StripeTimeouts {
    /// For one shard append or read that cannot be done without. One that can is waited for until its volume
    /// is late.
    pub shard: Duration,
    /// For the last shards once enough are durable.
    pub straggler: Duration,
    /// For a share of the buffer budget.
    pub budget: Duration,
}

impl Default for StripeTimeouts {
    fn default() -> Self {
        Self {
            shard: Duration::from_secs(10),
            straggler: Duration::from_millis(100),
            budget: Duration::from_secs(15),
        }
    }
}

/// The data path of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stripes {
    inner: Arc<StripesShared>,
}

#[derive(Debug)]
struct StripesShared {
    cluster: Arc<Cluster>,
    births: Arc<HybridClock>,
    proposer: ProposerId,
    pool: BufferPool,
    uploads: Budget,
    downloads: Budget,
    thresholds: Thresholds,
    timeouts: StripeTimeouts,
    damage: Damage,
    pins: Pins,
    digests: DigestPool,
    metrics: ShardMetrics,
    /// Notified when a buffer came back after a caller was refused one.
    released: Arc<Notify>,
}

/// Waits of one caller for buffers to come back.
#[derive(Debug, Default)]
struct ReleaseWait(Option<std::pin::Pin<Box<OwnedNotified>>>);

impl ReleaseWait {
    /// Called after a try that was refused. The first time this only begins to watch, for a buffer may
    /// have come back since; from then on it waits for one that comes back after the call before, for
    /// `at_most`.
    async fn wait(&mut self, stripes: &Stripes, at_most: Duration) {
        if let Some(notified) = self.0.take() {
            // Cancel-safe: a notification that is not taken is one of many.
            drop(tokio::time::timeout(at_most, notified).await);
        }
        let mut notified = Box::pin(Arc::clone(&stripes.inner.released).notified_owned());
        notified.as_mut().enable();
        self.0 = Some(notified);
    }
}

/// Parts that the data path is built from.
#[derive(Debug)]
pub struct StripesConfig {
    /// The topology in force.
    pub cluster: Arc<Cluster>,
    /// The clock that data ids are born by. Not the one of ballots: above a data floor that is far
    /// ahead, ballots would be refused.
    pub births: Arc<HybridClock>,
    /// This process, in the ballots and ids that it makes.
    pub proposer: ProposerId,
    /// Where the bytes of bodies lie.
    pub pool: BufferPool,
    /// Sizes up to which bodies are inline or packed; above them they are striped.
    pub thresholds: Thresholds,
    /// How long volumes may take.
    pub timeouts: StripeTimeouts,
    /// Where damage is reported.
    pub damage: Damage,
    /// Data that reads hold.
    pub pins: Pins,
    /// Threads that hash bodies.
    pub digests: DigestPool,
    /// Counters of shards.
    pub metrics: ShardMetrics,
    /// How downloads that wait ask slow connections for buffers.
    pub reclaim: Reclaim,
}

/// Where a body of known size goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    Inline,
    Coded(Home),
}

impl Stripes {
    /// Builds the data path. Uploads and downloads have shares of the pool's cap, so neither can starve the
    /// other.
    pub fn new(config: StripesConfig) -> Self {
        let StripesConfig { cluster, births, proposer, pool, thresholds, .. } = config;
        let StripesConfig { timeouts, damage, pins, digests, metrics, reclaim, .. } = config;
        let shares = CapShares::of(pool.usage().cap_bytes);
        // An upload that waits gets none from slow readers, but from other uploads.
        let uploads = Budget::new(shares.uploads, timeouts.budget, Reclaim::default());
        let downloads = Budget::new(shares.downloads, timeouts.budget, reclaim);
        let released = Arc::new(Notify::new());
        let notified = Arc::clone(&released);
        pool.set_release_hook(move || notified.notify_waiters());
        let inner = StripesShared {
            cluster,
            births,
            proposer,
            pool,
            uploads,
            downloads,
            thresholds,
            timeouts,
            damage,
            pins,
            digests,
            metrics,
            released,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Decides where a body of `size` bytes goes whose key belongs to `set`.
    pub(crate) fn placement(&self, set: &SetView, size: u64) -> Placement {
        let volumes = set.routes.len() as u64;
        if size <= u64::from(self.inner.thresholds.inline_bytes_max) / volumes {
            return Placement::Inline;
        }
        let shard = size.div_ceil(set.geometry.data_shards() as u64);
        let packed = shard <= u64::from(self.inner.thresholds.pack_bytes_max);
        Placement::Coded(if packed { Home::Packed } else { Home::File })
    }

    /// Keeps data that a reader is going to read from being released under it.
    pub(crate) fn pin<'a>(&self, data: impl IntoIterator<Item = &'a DataRef>) -> PinGuard {
        self.inner.pins.hold(data.into_iter().map(|data| (data.set, data.id)))
    }

    /// Room for `bytes` bytes outside the budgets of requests; `None` if none is left.
    pub(crate) fn buffer(&self, bytes: usize) -> Option<Buffer> {
        let pool = &self.inner.pool;
        (bytes <= pool.largest()).then(|| pool.try_take(bytes)).flatten()
    }

    /// Names new data of `size` bytes whose shards go to the volumes of `set`.
    fn new_data(&self, set: &SetView, size: u64, home: Home) -> DataRef {
        let geometry = set.geometry;
        DataRef {
            id: DataId { birth: self.inner.births.tick(), proposer: self.inner.proposer },
            set: set.id,
            size,
            data_shards: shards(geometry.data_shards()),
            parity_shards: shards(geometry.parity_shards()),
            stripe_unit: stripe_unit(size, geometry, &self.inner.uploads),
            home,
        }
    }
}

/// The stripe unit of a body of `size` bytes. Large ones save most of the calls to a device. A body with them
/// has the stripes of which some are written while the next is gathered, and room for those.
fn stripe_unit(size: u64, geometry: Geometry, uploads: &Budget) -> u32 {
    let stripes = |shards: usize| APPENDS_UNDER_WAY_MAX * shards * LARGE_STRIPE_UNIT_BYTES as usize;
    let is_long = size >= stripes(geometry.data_shards()) as u64;
    let has_room =
        uploads.fair_bytes() >= stripes(geometry.volumes()) && uploads.takers() <= LARGE_UPLOADS_MAX;
    if is_long && has_room { LARGE_STRIPE_UNIT_BYTES } else { STRIPE_UNIT_BYTES }
}

fn shards(count: usize) -> u8 {
    u8::try_from(count).expect("a set has at most 32 volumes")
}

/// The code that `data` was written with.
fn code_of(data: &DataRef) -> Option<Arc<Code>> {
    Geometry::new(data.data_shards, data.parity_shards).ok().map(Code::of)
}
