//! The state that the services of this node share: its volumes once they hold the topology, its cluster, and
//! the count of the bytes that it holds for peers.
//!
//! Before the node's own volumes hold the topology no call reaches one: each is answered `Unreachable`, since
//! an answer by a volume that belongs to no topology could be counted in a quorum that is not its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use sherd_core::id::{ClusterId, Life, VolumeId};
use sherd_core::message::{Error, Result};
use sherd_proto::convert::Wire;
use sherd_proto::convert::value::VolumeAddress;
use sherd_proto::sender::VersionRule;
use sherd_proto::v1::{Addressed, Sender};

use super::error;
use super::failure::CallFailure;
use super::limits::{
    BYTES_HELD_MAX, BYTES_STALL_MAX, BYTES_UNCOUNTED_MAX, PAGES_HELD_MAX, PEER_PAGES_HELD_MAX,
    RECEIVED_IDLE_BYTES, TRIM_EVERY, VOLUME_BYTES_HELD_MAX,
};
use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;
use sherd_store::observe::trace::SlowRequests;
use sherd_store::peer::{LocalPeer, ScanRoom};
use sherd_volume::buffer::{Buffer, BufferPool, PoolLimits};

/// Holds the volumes of this node, once they can be asked.
#[derive(Debug, Clone, Default)]
pub struct LocalPeerCell(Arc<RwLock<Option<Arc<LocalPeer>>>>);

impl LocalPeerCell {
    /// Lets calls reach the volumes: they hold the topology.
    pub fn fill(&self, peer: LocalPeer) {
        *self.0.write() = Some(Arc::new(peer));
    }

    /// Lets no further call reach them.
    pub fn empty(&self) {
        *self.0.write() = None;
    }

    fn get(&self) -> Result<Arc<LocalPeer>> {
        let forming = || Error::Unreachable { reason: "forming: the node has no topology yet".to_owned() };
        self.0.read().as_ref().map(Arc::clone).ok_or_else(forming)
    }
}

/// Holds what the services of this node share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RpcNode {
    volumes: LocalPeerCell,
    cluster: ClusterId,
    bytes: Arc<HeldBytes>,
    /// For bytes of shards, which are written past the page cache from there.
    received: BufferPool,
    /// For pages of scans: they take none of the bytes that writes need.
    scans: ScanRoom,
    slow: SlowRequests,
    /// For how long bytes of a shard may stand still.
    stall_max: Duration,
}

/// Bytes that are held for peers, in all and for each volume.
#[derive(Debug)]
struct HeldBytes {
    all: Arc<Semaphore>,
    volumes: Mutex<HashMap<VolumeId, Arc<Semaphore>>>,
}

/// Bytes that are counted until this is dropped; none where they are too few to be counted.
#[derive(Debug, Default)]
pub(super) struct HeldShare {
    of_volume: Option<OwnedSemaphorePermit>,
    of_node: Option<OwnedSemaphorePermit>,
}

impl HeldShare {
    /// Takes the count of some of the bytes out of it.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        let part = |share: &mut Option<OwnedSemaphorePermit>| {
            let share = share.as_mut()?;
            share.split(bytes.min(share.num_permits()))
        };
        Self { of_volume: part(&mut self.of_volume), of_node: part(&mut self.of_node) }
    }
}

/// Bytes of a shard that come in several buffers.
#[derive(Debug)]
pub(super) enum ReceivedBytes {
    /// Aligned for writes past the page cache.
    Pooled {
        buffer: Buffer,
        filled: usize,
    },
    Plain(BytesMut),
}

impl ReceivedBytes {
    /// Copies bytes behind those that came before; not more than were announced.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        match self {
            Self::Pooled { buffer, filled } => {
                buffer[*filled..*filled + bytes.len()].copy_from_slice(bytes);
                *filled += bytes.len();
            }
            Self::Plain(joined) => joined.extend_from_slice(bytes),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Pooled { filled, .. } => *filled,
            Self::Plain(joined) => joined.len(),
        }
    }

    pub(super) fn freeze(self) -> Bytes {
        match self {
            Self::Pooled { buffer, filled } => buffer.freeze(filled),
            Self::Plain(joined) => joined.freeze(),
        }
    }
}

#[derive(Debug)]
pub(super) struct AddressedVolume {
    pub(super) volumes: Arc<LocalPeer>,
    pub(super) volume: VolumeId,
    /// The life that the caller believes it to be in.
    believed: Option<Life>,
    /// The number of the client's request; 0 for none.
    pub(super) request: u64,
}

impl RpcNode {
    /// Makes a node of `cluster` whose volumes are found in `volumes`.
    pub fn new(cluster: ClusterId, volumes: LocalPeerCell) -> Self {
        let slow = SlowRequests::after(Duration::ZERO);
        let scans = ScanRoom::new(PAGES_HELD_MAX);
        let received = BufferPool::new(PoolLimits {
            cap_bytes: BYTES_HELD_MAX,
            stripe_bytes: SHARD_FRAME_BYTES_MAX,
            idle_bytes: RECEIVED_IDLE_BYTES,
        });
        Self {
            volumes,
            cluster,
            bytes: Arc::new(HeldBytes::new()),
            received,
            scans,
            slow,
            stall_max: BYTES_STALL_MAX,
        }
    }

    /// Gives memory for received bytes back to the system, until `stop`. Cancel-safe.
    pub async fn trim_memory(self, stop: CancellationToken) {
        let trim = async {
            loop {
                tokio::time::sleep(TRIM_EVERY).await;
                self.received.trim();
            }
        };
        stop.run_until_cancelled(trim).await;
    }

    /// Memory for `count` bytes of a shard, at most [`SHARD_FRAME_BYTES_MAX`], that a peer announced. The
    /// caller [holds](Self::hold) them first.
    pub(super) fn received(&self, count: usize) -> ReceivedBytes {
        // A few bytes would take more of the pool than is counted for them.
        let fills_buffer = count > BYTES_UNCOUNTED_MAX && 2 * count >= self.received.class_bytes(count);
        match fills_buffer.then(|| self.received.try_take(count)).flatten() {
            Some(buffer) => ReceivedBytes::Pooled { buffer, filled: 0 },
            None => ReceivedBytes::Plain(BytesMut::with_capacity(count)),
        }
    }

    /// The node as one stream of a peer's calls has it: pages of scans take room of that peer's own.
    #[must_use]
    pub(super) fn for_peer(&self) -> Self {
        Self { scans: self.scans.of_peer(PEER_PAGES_HELD_MAX), ..self.clone() }
    }

    pub(super) const fn scans(&self) -> &ScanRoom {
        &self.scans
    }

    /// Logs calls that take longer than the threshold of slow requests.
    #[must_use]
    pub fn with_slow_log(self, slow: SlowRequests) -> Self {
        Self { slow, ..self }
    }

    /// Gives what a peer does with the bytes of a shard, as long as some of them move.
    ///
    /// # Errors
    /// None moved in time.
    pub(super) async fn moved<R>(&self, step: impl Future<Output = R>) -> std::result::Result<R, Status> {
        let stalled = || format!("no byte of the shard moved for {:?}", self.stall_max);
        timeout(self.stall_max, step).await.map_err(|_elapsed| Status::deadline_exceeded(stalled()))
    }

    pub(super) const fn stall_max(&self) -> Duration {
        self.stall_max
    }

    #[cfg(test)]
    pub(super) fn with_stall_max(self, stall_max: Duration) -> Self {
        Self { stall_max, ..self }
    }

    /// Bytes that are held for peers.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        BYTES_HELD_MAX - self.bytes.all.available_permits() + self.received.usage().in_use_bytes
    }

    /// Waits for a call of a client's request, and logs it if it was slow.
    pub(super) async fn timed<F: Future>(&self, request: u64, call: F) -> F::Output {
        let begun = Instant::now();
        let ended = call.await;
        self.slow.call_ended(request, || begun.elapsed());
        ended
    }

    pub(super) const fn slow(&self) -> &SlowRequests {
        &self.slow
    }

    /// Checks that a node is of this cluster and has a version of the messages that this one takes.
    ///
    /// # Errors
    /// A status that names what differs.
    pub(super) fn check(&self, sender: Option<Sender>) -> Result<(), Status> {
        error::check_sender(sender, self.cluster, VersionRule::Nodes)
    }

    /// Counts bytes that are held for a peer's call to one of this node's volumes, until the share is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Busy`] when the bytes would exceed a bound: nothing was done.
    pub(super) fn hold(&self, volume: VolumeId, bytes: usize) -> Result<HeldShare> {
        if bytes <= BYTES_UNCOUNTED_MAX {
            return Ok(HeldShare::default());
        }
        let permits = u32::try_from(bytes).map_err(|_| Error::Busy)?;
        // The volume's own bound first: a volume that takes nothing must leave the others their room.
        let own = self.bytes.of(volume).try_acquire_many_owned(permits).map_err(|_| Error::Busy)?;
        let all = Arc::clone(&self.bytes.all).try_acquire_many_owned(permits).map_err(|_| Error::Busy)?;
        Ok(HeldShare { of_volume: Some(own), of_node: Some(all) })
    }

    /// Counts a reply until its peer takes it, in place of what its call held. The volume is done with it.
    ///
    /// # Errors
    /// [`Error::Busy`] when the reply would exceed the bound.
    pub(super) fn hold_reply(&self, call: HeldShare, bytes: usize) -> Result<HeldShare> {
        let HeldShare { of_volume, of_node } = call;
        drop(of_volume);
        if bytes <= BYTES_UNCOUNTED_MAX {
            return Ok(HeldShare::default());
        }
        let held = of_node.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(bytes.saturating_sub(held)).map_err(|_| Error::Busy)?;
        let more = Arc::clone(&self.bytes.all).try_acquire_many_owned(missing).map_err(|_| Error::Busy)?;
        let of_node = match of_node {
            Some(mut held) => {
                drop(held.split(held.num_permits().saturating_sub(bytes)));
                held.merge(more);
                held
            }
            None => more,
        };
        Ok(HeldShare { of_volume: None, of_node: Some(of_node) })
    }

    /// Finds the volume that a call is for.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when this node does not have it, or holds no topology yet.
    pub(super) fn addressed(&self, to: Option<Addressed>) -> Result<AddressedVolume, CallFailure> {
        let to = to.ok_or_else(|| error::refused("to: missing"))?;
        let VolumeAddress { volume, life, request } = VolumeAddress::from_wire(to)?;
        if request != 0 {
            tracing::debug!(request_id = format_args!("{request:016X}"), %volume, "call for a request");
        }
        let volumes = self.volumes.get()?;
        if !volumes.has(volume) {
            return Err(Error::Unreachable { reason: format!("volume {volume} is not on this node") }.into());
        }
        Ok(AddressedVolume { volumes, volume, believed: life, request })
    }
}

impl AddressedVolume {
    /// Checks that the volume is in the life that the caller believes it to be in: a decision about an
    /// earlier life may be wrong about this one.
    ///
    /// # Errors
    /// [`CallFailure::OtherLife`].
    pub(super) fn check_life(&self) -> Result<(), CallFailure> {
        let Some(believed) = self.believed else { return Ok(()) };
        let life = self.volumes.life(self.volume)?;
        if life == believed { Ok(()) } else { Err(CallFailure::OtherLife(life)) }
    }
}

impl HeldBytes {
    fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(BYTES_HELD_MAX)), volumes: Mutex::default() }
    }

    fn of(&self, volume: VolumeId) -> Arc<Semaphore> {
        let mut volumes = self.volumes.lock();
        Arc::clone(volumes.entry(volume).or_insert_with(|| Arc::new(Semaphore::new(VOLUME_BYTES_HELD_MAX))))
    }
}
