//! The seam to the shards of a node's volumes.

use bytes::Bytes;

use sherd_core::id::{Incarnation, ShardId, VolumeId};
use sherd_core::message::{
    LeaseAnswer, ReaderLeases, ShardFileHeader, ShardPage, ShardRange, ShardScan, Target,
};
use sherd_core::record::Home;

use super::Pending;

/// A shard file being written: appends in order, then one finish. Dropped unfinished, or in the middle of an append,
/// the file is removed; so it is when the way to the volume breaks.
pub trait ShardSink: Send + std::fmt::Debug {
    /// Writes the next bytes. The caller waits for one append before it begins the next, and writes no more
    /// once it gave one up: that ends.
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()>;

    /// Makes the file durable under its name. Gives the life of the volume in which it is: in a later one it is
    /// gone. Runs on.
    fn finish(self: Box<Self>) -> Pending<Incarnation>;
}

/// The shards of one node's volumes: bytes without an order, named once.
pub trait ShardPeer: Send + Sync + std::fmt::Debug {
    /// Writes a packed shard, durably. Gives the life of the volume in which it is: in a later one it is gone.
    /// Runs on: stragglers of a body are not waited for.
    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Incarnation>;

    /// Begins a shard file of a register's; `replace` for a heal, which puts it over a bad one when it is
    /// finished.
    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink>;

    /// Reads verified bytes of a shard. Ends.
    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>>;

    /// Removes a shard that no register ever named; succeeds when it is not there. Runs on.
    fn delete_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<()>;

    /// Removes a shard that no register names any more; succeeds when it is not there. `false` where it stays, for
    /// the volume holds a reader's lease on it. Runs on.
    fn release_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<bool>;

    /// Makes, renews or ends the leases of a gateway's readers on data of which the volume has shards. Runs on.
    fn lease(&self, volume: VolumeId, leases: &ReaderLeases) -> Pending<LeaseAnswer>;

    /// The bytes of a shard, by its header, which is read and verified; its bytes are not. Ends.
    fn shard_bytes(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64>;

    /// Verifies a whole shard as the device has it, and gives its bytes. Nothing but the answer travels. Ends.
    fn verify_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64>;

    /// One page of the shards that the volume holds. Files that are being written, and those without a whole header, are
    /// left out. Ends.
    fn shards(&self, volume: VolumeId, request: ShardScan) -> Pending<ShardPage>;
}
