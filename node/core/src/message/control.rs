//! Changes of what a volume guarantees, and rows for one that recovers.

use crate::id::{Ballot, BucketId, ChangeId, Epoch, Life, RegisterKey, Slot, Timestamp, VolumeId};
use crate::register::recover::Guarantees;
use crate::register::seal::StoredSeals;
use crate::register::{EncodedValue, Positions, RowHead};

/// A durable change of what a volume guarantees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Know that a peer is in a new life; replies of its older ones are discarded from here on.
    RecordLife {
        /// The peer.
        volume: VolumeId,
        /// Life of the peer.
        life: Life,
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
        /// Deletion that asks.
        deletion: ChangeId,
        /// Epoch of the deletion's topology; refused where any slot is known to be in a later one.
        epoch: Epoch,
    },
    /// Take back the seal of one deletion.
    Unseal {
        /// The bucket.
        bucket: BucketId,
        /// The deletion that the seal belongs to.
        deletion: ChangeId,
    },
    /// Make a bucket's seal final: its deletion is committed.
    SealForEver {
        /// The bucket.
        bucket: BucketId,
    },
    /// While recovering: take the maximum of the voters' guarantees, and their seals; writes may come now.
    TakeGuarantees {
        /// Joint guarantees of its voters.
        guarantees: Guarantees,
        /// All seals that they hold.
        seals: Vec<StoredSeals>,
    },
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

/// A row of a peer as a volume pulls it: as a late accept, at the row's own ballot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledRow {
    /// Ballot and digest; committed where its source marks it so, or A volumes accepted it.
    pub head: RowHead,
    /// The value with its inline bytes.
    pub value: EncodedValue,
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
    /// Whether one of those that hold it lists it, since another volume may lack it: a volume that adopts it
    /// lists it, too.
    pub is_missed: bool,
}
