//! The seam to a node that owns volumes.
//!
//! A call starts the work at once and gives back a [`Pending`]; waiting for it, and giving up on
//! it, is the caller's business. Dropping a `Pending` forgets the answer, not the work. Every call
//! may be repeated: registers by their ballots, shards by their ids.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{Ballot, Epoch, RegisterKey, Sequence, ShardId, VolumeId};
use sherd_core::message::{Error, Result};
use sherd_core::record::Home;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::register::{Accept, Positions, Prepare, Vote};
use sherd_core::release::{ReleaseEntry, ReleaseId};
use sherd_volume::read::list::{ListPage, ListScan, PartsScan, RowPage, ScannedRow};
use sherd_volume::request::{AdoptedRow, Answer, Control, Guarantees, SeenShard, ShardFileHeader, Target};

mod fanout;
mod local;
#[cfg(test)]
pub(crate) mod scripted;

pub use fanout::Gather;
pub use local::LocalPeer;

/// An answer under way.
#[derive(Debug)]
pub struct Pending<R>(State<R>);

#[derive(Debug)]
enum State<R> {
    Ready(Option<Result<R>>),
    Waiting(oneshot::Receiver<Result<R>>),
}

/// Where an answer is delivered.
#[derive(Debug)]
pub struct AnswerSender<R>(oneshot::Sender<Result<R>>);

impl<R> AnswerSender<R> {
    /// Delivers. Nobody may be waiting any more; then the answer is dropped.
    pub fn answer(self, result: Result<R>) {
        drop(self.0.send(result));
    }
}

impl<R> Pending<R> {
    /// An answer that is there already.
    pub const fn ready(result: Result<R>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// An answer to come.
    pub fn waiting() -> (AnswerSender<R>, Self) {
        let (sender, receiver) = oneshot::channel();
        (AnswerSender(sender), Self(State::Waiting(receiver)))
    }
}

impl<R> Pending<R> {
    /// Whether the answer is known to be there, without a look.
    const fn is_ready(&self) -> bool {
        matches!(self.0, State::Ready(_))
    }

    /// Whether the answer is there; if not, the context's task is woken when it is.
    fn is_there(&mut self, context: &mut Context<'_>) -> bool {
        let State::Waiting(receiver) = &mut self.0 else { return true };
        // Outside the task's budget: to make a task yield the runtime wakes it and shows it nothing, which
        // who counts wakes would take for the answer.
        let mut receiver = tokio::task::unconstrained(receiver);
        let Poll::Ready(answer) = Pin::new(&mut receiver).poll(context) else { return false };
        let gone = |_| Err(Error::Unreachable { reason: "the volume went away".to_owned() });
        self.0 = State::Ready(Some(answer.unwrap_or_else(gone)));
        true
    }
}

impl<R: Unpin> Future for Pending<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_there(context) {
            return Poll::Pending;
        }
        let State::Ready(result) = &mut self.0 else { return Poll::Pending };
        Poll::Ready(result.take().expect("polled once after it is ready"))
    }
}

/// Who wants bytes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPurpose {
    /// A client: they may be asked for again.
    ByClient,
    /// Upkeep, once: they take no place in the page cache.
    ByUpkeep,
}

/// Which bytes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRange {
    /// Which shard.
    pub shard: ShardId,
    /// Where it lives.
    pub home: Home,
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Who wants them.
    pub wanted: ReadPurpose,
}

/// Which rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowScan {
    /// By which topology the volume was found: of every slot that it has rows of.
    pub epoch: Epoch,
    /// Only rows behind this key, in the order of the scan.
    pub after: Option<RegisterKey>,
    /// Only rows whose record has a later sequence in that volume's log.
    pub since: Sequence,
    /// Only rows whose record has this sequence there or an earlier one.
    pub until: Sequence,
    /// At most so many.
    pub limit: usize,
    /// Whether the rows carry their values.
    pub want_value: bool,
}

impl RowScan {
    /// A page of all rows behind a key, with their values.
    pub const fn all(epoch: Epoch, after: Option<RegisterKey>, limit: usize) -> Self {
        Self { epoch, after, since: Sequence(0), until: Sequence::MAX, limit, want_value: true }
    }
}

/// Which shards of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardScan {
    /// Packed ones, above this one.
    Packed {
        /// Only shards above this one.
        after: Option<ShardId>,
        /// At most so many.
        limit: usize,
    },
    /// Those with a file in one of the volume's 256 directories.
    Files {
        /// Which directory.
        directory: u8,
        /// Only shards above this one.
        after: Option<ShardId>,
        /// At most so many.
        limit: usize,
    },
}

/// One page of a volume's shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPage {
    /// In the order of their ids, with the register that should name them.
    pub shards: Vec<SeenShard>,
    /// Where the next page begins; `None` when this was the last.
    pub next: Option<ShardId>,
}

/// A shard file being written: appends in order, then one finish. Dropped unfinished, the file is
/// removed.
pub trait ShardSink: Send + std::fmt::Debug {
    /// Writes the next bytes. The caller waits for one append before it begins the next.
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()>;

    /// Makes the file durable under its name.
    fn finish(self: Box<Self>) -> Pending<()>;
}

/// The volumes of one node, as another node (or this one) reaches them.
pub trait Peer: Send + Sync + std::fmt::Debug {
    /// Asks for a promise.
    fn prepare(
        &self,
        volume: VolumeId,
        target: &Target,
        prepare: Prepare,
        want_value: bool,
    ) -> Pending<Answer<Vote>>;

    /// Asks to accept a value; an MRF entry becomes durable with it.
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

    /// Says that a value is committed, and how far the logs of the volumes are that accepted it. Lazy, and
    /// lost without harm.
    fn commit(&self, volume: VolumeId, target: &Target, ballot: Ballot, positions: &Positions);

    /// Reads a row.
    fn read(&self, volume: VolumeId, target: &Target, want_value: bool) -> Pending<Answer<Vote>>;

    /// Reads the inline bytes of the row accepted at `ballot`, verified.
    fn inline(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Bytes>;

    /// Writes a packed shard, durably.
    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<()>;

    /// Begins a shard file of a register's; `replace` for a heal, which puts it over a bad one when it is
    /// finished.
    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink>;

    /// Reads verified bytes of a shard.
    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>>;

    /// Removes a shard; succeeds when it is not there.
    fn delete_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<()>;

    /// The bytes of a shard, by its header, which is read and verified; its bytes are not.
    fn shard_bytes(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64>;

    /// Verifies a whole shard as the device has it, and gives its bytes. Nothing but the answer travels.
    fn verify_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64>;

    /// Verifies a row as the device has it, its inline bytes too. Nothing but the answer travels.
    fn verify_row(&self, volume: VolumeId, key: &RegisterKey) -> Pending<()>;

    /// One page of a listing, pending rows included.
    fn list(&self, volume: VolumeId, request: &ListScan) -> Pending<Answer<ListPage>>;

    /// The parts of one upload, in the order of their numbers.
    fn parts(&self, volume: VolumeId, request: &PartsScan) -> Pending<Answer<Vec<ScannedRow>>>;

    /// One page of all rows, tombstones and parts too: what recovery and upkeep walk.
    fn rows(&self, volume: VolumeId, request: &RowScan) -> Pending<Answer<RowPage>>;

    /// One page of the rows that the volume does not know to be committed.
    fn unsettled(
        &self,
        volume: VolumeId,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Pending<Vec<(RegisterKey, Ballot)>>;

    /// One page of the MRF entries in the volume's log.
    fn heals(&self, volume: VolumeId, after: Option<HealId>, limit: usize) -> Pending<Vec<(HealId, Bytes)>>;

    /// One page of the shards that the volume holds. Files that are being written, and those without a whole header, are
    /// left out.
    fn shards(&self, volume: VolumeId, request: ShardScan) -> Pending<ShardPage>;

    /// What the volume guarantees durably.
    fn guarantees(&self, volume: VolumeId) -> Pending<Answer<Guarantees>>;

    /// How far the volume saw its peers' logs become durable, and in which of their lives. Answered as
    /// soon as it is open, whether it votes or not.
    fn remembers(&self, volume: VolumeId) -> Pending<Answer<Memory>>;

    /// Changes what the volume guarantees.
    fn control(&self, volume: VolumeId, control: Control) -> Pending<Answer<Guarantees>>;

    /// Hands a recovering volume rows that its peers hold.
    fn adopt(&self, volume: VolumeId, rows: Vec<AdoptedRow>) -> Pending<Answer<()>>;

    /// Drops a tombstone under the floor, or any row under a final seal, where it is still that row.
    fn drop_row(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Answer<()>>;

    /// Queues a heal on the volume's log.
    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()>;

    /// Notes that a heal is done. Lazy.
    fn heal_done(&self, volume: VolumeId, id: HealId);

    /// One page of the notes of replaced data in the volume's log, oldest first.
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
}

/// A peer and one of its volumes.
#[derive(Debug, Clone)]
pub struct VolumeRoute {
    /// The volume.
    pub volume: VolumeId,
    /// The node that owns it.
    pub peer: Arc<dyn Peer>,
}
