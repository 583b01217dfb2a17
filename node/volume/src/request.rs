//! The operations on a volume's log, and how their answers come back.
//!
//! Everything that changes a volume's log goes through [`Op`]: one queue, one thread, one order.
//! Reads that need no order (rows already durable, shard bytes, listings) go through
//! [`crate::Reader`] on the caller's own thread.

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{Ballot, Sequence, ShardId, VolumeId};
use sherd_core::message::{AdoptedRow, Answer, Control, PulledRow, Target, ValueLimit};
use sherd_core::register::position::Position;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Asker;
use sherd_core::register::{Accept, Positions, Prepare, Vote};
use sherd_core::release::ReleaseId;

use crate::error::Error;

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
        values: ValueLimit,
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
    /// Note that a value is committed. Goes with the next frame, causes no sync, has no answer.
    Commit {
        /// The register.
        target: Target,
        /// The ballot at which it committed; ignored when the row has another.
        ballot: Ballot,
        /// Whether every volume of the set took it; else the row stays listed.
        is_everywhere: bool,
        /// How far the volumes' logs were, as the answers to the accept said.
        positions: Positions,
    },
    /// Read a row in the log's order, where [`crate::Reader::row`] said that one is pending.
    Read {
        /// The register.
        target: Target,
        /// Whether the answer carries the row's value.
        values: ValueLimit,
        /// Takes the vote.
        done: Completion<Answer<Vote>>,
    },
    /// Write a packed shard.
    PutShard {
        /// Shard id.
        shard: ShardId,
        /// The register that will name it.
        target: Target,
        /// Bytes of the shard, in the pieces in which they came.
        payload: Vec<Bytes>,
        /// Called when it is durable.
        done: Completion<()>,
    },
    /// Forget a packed shard; succeeds when it is not there.
    DeleteShard {
        /// Shard id.
        shard: ShardId,
        /// Called when the delete is durable.
        done: Completion<()>,
    },
    /// Put an MRF entry, or replace the one under its id.
    HealPut {
        /// Id of the entry.
        id: HealId,
        /// Stored form of the entry.
        entry: Bytes,
        /// Called when it is durable.
        done: Completion<()>,
    },
    /// Remove an MRF entry. Rides with the next frame.
    HealDone {
        /// Id of the entry.
        id: HealId,
    },
    /// Log a want that no accept made: of a shard that a walk over the volume's rows did not find.
    WantPut {
        /// The want.
        want: HealEntry,
        /// Called when it is durable.
        done: Completion<()>,
    },
    /// Remove a want, if it is still the one that was looked at. Rides with the next frame.
    WantDone {
        /// Id of the want.
        id: HealId,
        /// Sequence of its record.
        sequence: Sequence,
    },
    /// Put a note of replaced data. Rides with the next frame; what a crash loses of the last moment is
    /// left to the sweep, as the data of writes is that it cut short.
    ReleasePut {
        /// Id of the note.
        id: ReleaseId,
        /// Stored form of the note.
        entry: Bytes,
    },
    /// Remove a note of replaced data. Rides with the next frame.
    ReleaseDone {
        /// Id of the note.
        id: ReleaseId,
    },
    /// Note a peer's life and how far its log was durable when it answered. Rides with the next
    /// frame; older news is ignored.
    PeerSeen {
        /// The peer.
        volume: VolumeId,
        /// How far it was.
        position: Position,
    },
    /// A peer asked for the memory of it, and got it: notes that its openings cover are dropped. Has no
    /// answer.
    Asked(Asker),
    /// Change what the volume promises about floors, seals and its own life.
    Control {
        /// What.
        control: Control,
        /// Takes what the volume guarantees now, after the sync.
        done: Completion<Answer<Guarantees>>,
    },
    /// Adopt rows found on voting peers while this volume is recovering. One that votes refuses: it pulls.
    Adopt {
        /// The rows.
        rows: Vec<AdoptedRow>,
        /// Called when they are durable.
        done: Completion<Answer<()>>,
    },
    /// Take a peer's row as a late accept, or take over that the row at the same ballot is committed.
    Pull {
        /// The register.
        target: Target,
        /// The row.
        row: PulledRow,
        /// Takes the verdict, after the sync.
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
