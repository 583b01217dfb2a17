//! The seam to the registers of a node's volumes.

use bytes::Bytes;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message::{
    AdoptedRow, Answer, Control, ListPage, ListScan, PartsScan, RowPage, RowScan, ScannedRow, Target,
    UnsettledKind, UnsettledPage, ValueLimit,
};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Accept, CommitHint, Prepare, Vote};

use super::Pending;

/// The registers of one node's volumes: rounds, scans, and what the volumes guarantee about them.
pub trait RegisterPeer: Send + Sync + std::fmt::Debug {
    /// Asks for a promise. Ends: a promise that was not given binds no volume.
    fn prepare(
        &self,
        volume: VolumeId,
        target: &Target,
        prepare: Prepare,
        values: ValueLimit,
    ) -> Pending<Answer<Vote>>;

    /// Asks to accept a value; an MRF entry becomes durable with it. Runs on: one without an answer is unknown.
    fn accept(
        &self,
        volume: VolumeId,
        target: &Target,
        accept: &Accept,
        heal: Option<&HealEntry>,
    ) -> Pending<Answer<()>>;

    /// Whether the volume was out of room when it was last looked at. Does not wait; a hint, so that
    /// an accept that too few would take is not sent: what some took has an unknown outcome.
    fn is_full(&self, volume: VolumeId) -> bool;

    /// Whether the volume is late: a call to it waits, or waited, for longer than one should, and none was answered
    /// since. Does not wait; a hint whom to ask first, and whom not to wait for where enough others answered. Of
    /// whom it decides no vote.
    fn is_late(&self, volume: VolumeId) -> bool;

    /// Whether a call to the volume waits for longer than one should at this moment. Does not wait. A volume that is late
    /// without one is asked by one caller at a time, who waits until this is so.
    fn has_overdue(&self, volume: VolumeId) -> bool;

    /// Whether the connection to the volume's node was lost a moment ago: it is being made again, or has been. Does not
    /// wait; a hint that who found too few volumes may find more in a moment.
    fn is_returning(&self, volume: VolumeId) -> bool;

    /// Says that a value is committed, whether every volume has it, and how far the logs of the volumes are that
    /// accepted it. Lazy, and lost without harm (the row stays unsettled then), but never before an accept that was
    /// sent before it.
    fn commit(&self, volume: VolumeId, target: &Target, commit: &CommitHint);

    /// Reads a row. Ends.
    fn read(&self, volume: VolumeId, target: &Target, values: ValueLimit) -> Pending<Answer<Vote>>;

    /// Reads the inline bytes of the row accepted at `ballot`, verified. Ends.
    fn inline(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Bytes>;

    /// Verifies a row as the device has it, its inline bytes too. Nothing but the answer travels. Ends.
    fn verify_row(&self, volume: VolumeId, key: &RegisterKey) -> Pending<()>;

    /// One page of a listing, pending rows included. Ends.
    fn list(&self, volume: VolumeId, request: &ListScan) -> Pending<Answer<ListPage>>;

    /// The parts of one upload, in the order of their numbers. Ends.
    fn parts(&self, volume: VolumeId, request: &PartsScan) -> Pending<Answer<Vec<ScannedRow>>>;

    /// One page of all rows, tombstones and parts too: what recovery and upkeep walk. Ends.
    fn rows(&self, volume: VolumeId, request: &RowScan) -> Pending<Answer<RowPage>>;

    /// One page of the rows that the volume does not know to be committed, or not to be everywhere. Ends.
    fn unsettled(
        &self,
        volume: VolumeId,
        kind: UnsettledKind,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Pending<UnsettledPage>;

    /// Changes what the volume guarantees. Runs on.
    fn control(&self, volume: VolumeId, control: Control) -> Pending<Answer<Guarantees>>;

    /// Hands a recovering volume rows that its peers hold. Runs on.
    fn adopt(&self, volume: VolumeId, rows: Vec<AdoptedRow>) -> Pending<Answer<()>>;

    /// Drops a tombstone under the floor, or any row under a final seal, where it is still that row. Runs on.
    fn drop_row(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Answer<()>>;
}
