//! What a volume is asked, and how the answer comes back.
//!
//! Everything that changes a volume's log goes through [`Op`]: one queue, one thread, one order.
//! Reads that need no order (rows already durable, shard bytes, listings) go through
//! [`crate::Reader`] on the caller's own thread.

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, ChangeId, DataId, Epoch, Incarnation, RegisterKey, Sequence, ShardId, Slot, Timestamp,
    VolumeId,
};
pub use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Accept, Answerer, EncodedValue, Positions, Prepare, Refusal, RowHead, Vote};
use sherd_core::release::ReleaseId;

use crate::error::Error;
use crate::index::table::RowKeys;

/// Where an answer goes; called exactly once, after what it says is durable.
///
/// Dropped uncalled only when the volume goes away with the operation still queued.
pub struct Completion<R>(Box<dyn FnOnce(Result<R, Error>) + Send>);

impl<R> Completion<R> {
    /// Wraps what shall be called.
    pub fn new(call: impl FnOnce(Result<R, Error>) + Send + 'static) -> Self {
        Self(Box::new(call))
    }

    /// Answers.
    pub fn complete(self, result: Result<R, Error>) {
        (self.0)(result);
    }
}

impl<R> std::fmt::Debug for Completion<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completion")
    }
}

/// An acceptor's answer: who says it, and a vote or a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<R> {
    /// Which life of the volume speaks, and how far its log is durable.
    pub from: Answerer,
    /// The vote.
    pub result: Result<R, Refusal>,
}

/// Which register, and by which topology the caller found this volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The register.
    pub key: RegisterKey,
    /// The slot of its key.
    pub slot: Slot,
    /// The topology's epoch for that slot.
    pub epoch: Epoch,
    rows: RowKeys,
}

impl Target {
    /// Names a register for all volumes of its set.
    pub fn new(key: RegisterKey, slot: Slot, epoch: Epoch) -> Self {
        let rows = RowKeys::of(&key);
        Self { key, slot, epoch, rows }
    }

    /// The keys of its row.
    pub const fn rows(&self) -> &RowKeys {
        &self.rows
    }
}

/// An operation on the log, in the order in which the volume applies them.
#[derive(Debug)]
pub enum Op {
    /// Promise a ballot.
    Prepare {
        /// The register.
        target: Target,
        /// The ballot.
        prepare: Prepare,
        /// Whether the answer carries the row's value.
        want_value: bool,
        /// Takes the vote.
        done: Completion<Answer<Vote>>,
    },
    /// Accept a value, durably.
    Accept {
        /// The register.
        target: Target,
        /// Ballot, value, and the data ids it introduces.
        accept: Accept,
        /// An MRF entry to make durable together with the value.
        heal: Option<(HealId, Bytes)>,
        /// Takes the vote, after the sync.
        done: Completion<Answer<()>>,
    },
    /// Note that a value is committed. Rides with the next frame, syncs nothing, answers nobody.
    Commit {
        /// The register.
        target: Target,
        /// The ballot at which it committed; ignored when the row has another.
        ballot: Ballot,
        /// How far the volumes' logs were, as the answers to the accept said.
        positions: Positions,
    },
    /// Read a row in the log's order, where [`crate::Reader::row`] said that one is pending.
    Read {
        /// The register.
        target: Target,
        /// Whether the answer carries the row's value.
        want_value: bool,
        /// Takes the vote.
        done: Completion<Answer<Vote>>,
    },
    /// Write a packed shard.
    PutShard {
        /// Which shard.
        shard: ShardId,
        /// The register that will name it.
        target: Target,
        /// Its bytes, as they came.
        payload: Vec<Bytes>,
        /// Called when it is durable.
        done: Completion<()>,
    },
    /// Forget a packed shard; succeeds when it is not there.
    DeleteShard {
        /// Which shard.
        shard: ShardId,
        /// Called when the delete is durable.
        done: Completion<()>,
    },
    /// Put an MRF entry, or replace the one under its id.
    HealPut {
        /// Its id.
        id: HealId,
        /// Its stored form.
        entry: Bytes,
        /// Called when it is durable.
        done: Completion<()>,
    },
    /// Remove an MRF entry. Rides with the next frame.
    HealDone {
        /// Its id.
        id: HealId,
    },
    /// Put a note of replaced data. Rides with the next frame; what a crash loses of the last moment is
    /// left to the sweep, as the data of writes is that it cut short.
    ReleasePut {
        /// Its id.
        id: ReleaseId,
        /// Its stored form.
        entry: Bytes,
    },
    /// Remove a note of replaced data. Rides with the next frame.
    ReleaseDone {
        /// Its id.
        id: ReleaseId,
    },
    /// Note a peer's life and how far its log was durable when it answered. Rides with the next
    /// frame; older news is ignored.
    PeerSeen {
        /// The peer.
        volume: VolumeId,
        /// Its life.
        incarnation: Incarnation,
        /// Its highest durable sequence.
        durable: Sequence,
    },
    /// Change what the volume promises about floors, seals and its own life.
    Control {
        /// What.
        control: Control,
        /// Takes what the volume guarantees now, after the sync.
        done: Completion<Answer<Guarantees>>,
    },
    /// Adopt rows found on voting peers while this volume is recovering.
    Adopt {
        /// The rows.
        rows: Vec<AdoptedRow>,
        /// Called when they are durable.
        done: Completion<Answer<()>>,
    },
    /// Drop a committed tombstone, or any row under a final seal, if the row is still that one.
    Drop {
        /// The register.
        target: Target,
        /// The row's ballot; for a tombstone under no final seal the floor must already be at or above it.
        ballot: Ballot,
        /// Called when it is durable.
        done: Completion<Answer<()>>,
    },
}

/// A durable change of what a volume guarantees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Know that a peer is in a new life; replies of its older ones are discarded from here on.
    RecordIncarnation {
        /// The peer.
        volume: VolumeId,
        /// Its life.
        incarnation: Incarnation,
    },
    /// Refuse every ballot at or below this one. Never lowers the floor.
    RaiseFloor {
        /// The new floor.
        floor: Ballot,
    },
    /// Refuse accepts that introduce data born before this. Never lowers the data floor.
    RaiseDataFloor {
        /// The new data floor.
        floor: Timestamp,
    },
    /// Refuse requests of lower epochs for a slot.
    RecordEpoch {
        /// The slot.
        slot: Slot,
        /// The epoch.
        epoch: Epoch,
    },
    /// Answer `sealed` for a bucket from here on.
    Seal {
        /// The bucket.
        bucket: BucketId,
        /// Which deletion asks.
        deletion: ChangeId,
        /// Its topology; refused where any slot is known to be in a later one.
        epoch: Epoch,
    },
    /// Take back the seal of one deletion.
    Unseal {
        /// The bucket.
        bucket: BucketId,
        /// Whose seal.
        deletion: ChangeId,
    },
    /// Make a bucket's seal final: its deletion is committed.
    SealForEver {
        /// The bucket.
        bucket: BucketId,
    },
    /// While recovering: take the maximum of the voters' guarantees; writes may come now.
    TakeGuarantees(Guarantees),
    /// While recovering: every row was adopted; vote from here on. Rows of the life before that
    /// were not adopted are gone.
    FinishRecovery {
        /// How far its voters remember the logs of its peers: durable with this, since its own memory of them
        /// is gone.
        remembered: Positions,
    },
    /// While recovering, where too few voters are left to recover from: vote again with the rows
    /// that are still here. Only an operator may decide so: acknowledged writes may be lost.
    ForceRecovery,
}

/// A row as a recovering volume adopts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoptedRow {
    /// The register.
    pub key: RegisterKey,
    /// Ballot, digest, committed flag.
    pub head: RowHead,
    /// The value with its inline bytes.
    pub value: EncodedValue,
}

/// What is known of a shard file before its first byte; goes into its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFileHeader {
    /// Which shard.
    pub shard: ShardId,
    /// The register that will name it.
    pub key: RegisterKey,
    /// Data shards of its code (k).
    pub data_shards: u8,
    /// Parity shards of its code (m).
    pub parity_shards: u8,
    /// Bytes of a stripe unit.
    pub stripe_unit: u32,
    /// Bytes of the shard.
    pub shard_bytes: u64,
}

/// A data id seen on a volume, for the sweeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenShard {
    /// Which shard.
    pub shard: ShardId,
    /// The register that should name it.
    pub key: RegisterKey,
    /// Whether it was ever finished, as far as that is known without reading it.
    pub is_whole: bool,
}

/// Names data for pins.
pub type Pin = DataId;
