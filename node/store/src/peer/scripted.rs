//! A peer for tests, between a node and its volumes: what a script says of a question becomes of it, and
//! everything else goes through.
//!
//! It makes what a network and disks make, at the moment that a test wants: a question that never comes, an
//! answer that is lost although its question came, a volume that is full, busy, or says no.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, BucketId, Life, ShardId, VolumeId};
use sherd_core::message::call::{RegisterCall, ShardCall, UpkeepCall, VolumeAnswer, VolumeCall};
use sherd_core::message::{
    self, Answer, Control, LeaseAnswer, ListPage, LookPage, LookScan, PulledRow, ReaderLeases, RowPage,
    RowScan, ShardFileHeader, ShardPage, ShardRange, Target, ValueLimit,
};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::seal::StoredSeals;
use sherd_core::register::{Accept, Answerer, Vote};
use sherd_core::release::ReleaseId;

use super::{LocalPeer, Peer, Pending, ShardSink};

/// Fate of one call.
#[derive(Debug)]
pub(crate) enum Fate<R> {
    /// The volume gets it, and its answer comes.
    Through,
    /// The volume gets it, and its answer is not there yet when it is first looked for.
    Late,
    /// The volume never gets it, and the caller gets this answer.
    Instead(message::Result<R>),
    /// The volume gets it, and this comes in place of its answer, once that is there: what the volume took
    /// can be found in it from then on.
    Unheard(message::Result<R>),
    /// The volume gets it, and the caller gets no answer while the script is kept.
    Silence,
}

type CallScript<Q, R> = Mutex<Option<Box<dyn FnMut(VolumeId, Q) -> Fate<R> + Send>>>;

/// Volumes as a script shows them. A question that no script is about goes through.
pub(crate) struct ScriptedPeer {
    volumes: LocalPeer,
    /// With the ballot.
    pub(crate) prepares: CallScript<Ballot, Answer<Vote>>,
    pub(crate) accepts: CallScript<Accept, Answer<()>>,
    pub(crate) pulls: CallScript<PulledRow, Answer<()>>,
    /// With which value is wanted.
    pub(crate) reads: CallScript<ValueLimit, Answer<Vote>>,
    pub(crate) inlines: CallScript<Ballot, Bytes>,
    pub(crate) shard_reads: CallScript<ShardRange, Vec<Bytes>>,
    /// Packed shards that are written.
    pub(crate) shard_puts: CallScript<ShardId, Life>,
    /// Removals of shards by their writers.
    pub(crate) shard_deletes: CallScript<ShardId, ()>,
    pub(crate) lists: CallScript<(), Answer<ListPage>>,
    pub(crate) controls: CallScript<Control, Answer<Guarantees>>,
    /// Removals of shards that no register names any more.
    pub(crate) releases: CallScript<ShardId, bool>,
    /// Shards that are verified.
    pub(crate) verifies: CallScript<ShardId, u64>,
    /// Pages of shards.
    pub(crate) shard_pages: CallScript<(), ShardPage>,
    /// Leases of readers.
    pub(crate) leases: CallScript<ReaderLeases, LeaseAnswer>,
    pub(crate) heals: CallScript<HealEntry, ()>,
    /// Of replaced data, with the one that they are behind.
    pub(crate) notes: CallScript<Option<ReleaseId>, Vec<(ReleaseId, Bytes)>>,
    /// With the bucket that they are behind.
    pub(crate) seals: CallScript<Option<BucketId>, Answer<Vec<StoredSeals>>>,
    pub(crate) positions: CallScript<(), Answerer>,
    /// Scans of rows for upkeep.
    pub(crate) rows: CallScript<RowScan, Answer<RowPage>>,
    /// Pages of looks.
    pub(crate) looks: CallScript<LookScan, Answer<LookPage>>,
    /// The hints of commits that were sent, with whether the row is everywhere.
    pub(crate) commits: Mutex<Vec<(VolumeId, Ballot, bool)>>,
    /// Hints of commits do not come.
    pub(crate) drops_commits: AtomicBool,
    pub(crate) full: Mutex<Vec<VolumeId>>,
    /// Volumes that count as late, with any answers.
    pub(crate) late: Arc<Mutex<Vec<VolumeId>>>,
    /// Volumes that count as having an overdue call, with any answers.
    pub(crate) overdue: Arc<Mutex<Vec<VolumeId>>>,
    /// The notes of replaced data that were said to be done.
    pub(crate) released: Mutex<Vec<(VolumeId, ReleaseId)>>,
    hung: Mutex<Vec<Box<dyn std::any::Any + Send>>>,
}

impl std::fmt::Debug for ScriptedPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedPeer").field("volumes", &self.volumes).finish_non_exhaustive()
    }
}

impl ScriptedPeer {
    pub(crate) fn new(volumes: LocalPeer) -> Self {
        Self {
            volumes,
            prepares: Mutex::default(),
            accepts: Mutex::default(),
            pulls: Mutex::default(),
            reads: Mutex::default(),
            inlines: Mutex::default(),
            shard_reads: Mutex::default(),
            shard_puts: Mutex::default(),
            shard_deletes: Mutex::default(),
            lists: Mutex::default(),
            controls: Mutex::default(),
            releases: Mutex::default(),
            verifies: Mutex::default(),
            shard_pages: Mutex::default(),
            leases: Mutex::default(),
            heals: Mutex::default(),
            notes: Mutex::default(),
            seals: Mutex::default(),
            positions: Mutex::default(),
            rows: Mutex::default(),
            looks: Mutex::default(),
            commits: Mutex::default(),
            drops_commits: AtomicBool::new(false),
            full: Mutex::default(),
            late: Arc::default(),
            overdue: Arc::default(),
            released: Mutex::default(),
            hung: Mutex::default(),
        }
    }

    fn play<Q, R: Into<A> + Send + 'static, A: Unpin + Send + 'static>(
        &self,
        script: &CallScript<Q, R>,
        (volume, question): (VolumeId, Q),
        ask: impl FnOnce() -> Pending<A>,
    ) -> Pending<A> {
        let fate = script.lock().as_mut().map_or(Fate::Through, |script| script(volume, question));
        match fate {
            Fate::Through => ask(),
            Fate::Late => {
                let (asked, (answering, pending)) = (ask(), Pending::waiting());
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    answering.answer(asked.await);
                });
                pending
            }
            Fate::Instead(heard) => Pending::ready(heard.map(R::into)),
            Fate::Unheard(heard) => {
                let (asked, (answering, pending)) = (ask(), Pending::waiting());
                tokio::spawn(async move {
                    drop(asked.await);
                    answering.answer(heard.map(R::into));
                });
                pending
            }
            Fate::Silence => {
                drop(ask());
                let (answering, pending) = Pending::waiting();
                self.hung.lock().push(Box::new(answering));
                pending
            }
        }
    }
}

/// Sets what a script says.
pub(crate) fn says<Q, R>(
    script: &CallScript<Q, R>,
    fate: impl FnMut(VolumeId, Q) -> Fate<R> + Send + 'static,
) {
    *script.lock() = Some(Box::new(fate));
}

impl Peer for ScriptedPeer {
    fn ask(&self, volume: VolumeId, call: VolumeCall) -> Pending<VolumeAnswer> {
        use VolumeCall::{Register, Shard, Upkeep};
        match &call {
            Register(RegisterCall::Prepare { prepare, .. }) => {
                self.play(&self.prepares, (volume, prepare.ballot), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::Accept { accept, .. }) => {
                self.play(&self.accepts, (volume, accept.clone()), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::Pull { row, .. }) => {
                self.play(&self.pulls, (volume, row.clone()), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::Read { values, .. }) => {
                self.play(&self.reads, (volume, *values), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::Inline { ballot, .. }) => {
                self.play(&self.inlines, (volume, *ballot), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::List { .. }) => {
                self.play(&self.lists, (volume, ()), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::Control { control }) => {
                self.play(&self.controls, (volume, control.clone()), || self.volumes.ask(volume, call))
            }
            Shard(ShardCall::Delete { shard, .. }) => {
                self.play(&self.shard_deletes, (volume, *shard), || self.volumes.ask(volume, call))
            }
            Shard(ShardCall::Release { shard, .. }) => {
                self.play(&self.releases, (volume, *shard), || self.volumes.ask(volume, call))
            }
            Shard(ShardCall::Verify { shard, .. }) => {
                self.play(&self.verifies, (volume, *shard), || self.volumes.ask(volume, call))
            }
            Shard(ShardCall::Page { .. }) => {
                self.play(&self.shard_pages, (volume, ()), || self.volumes.ask(volume, call))
            }
            Shard(ShardCall::Leases { leases }) => {
                self.play(&self.leases, (volume, leases.clone()), || self.volumes.ask(volume, call))
            }
            Upkeep(UpkeepCall::HealPut { entry }) => {
                self.play(&self.heals, (volume, entry.clone()), || self.volumes.ask(volume, call))
            }
            Upkeep(UpkeepCall::Releases { after, .. }) => {
                self.play(&self.notes, (volume, *after), || self.volumes.ask(volume, call))
            }
            Upkeep(UpkeepCall::Seals { after, .. }) => {
                self.play(&self.seals, (volume, *after), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::Rows { scan, .. }) => {
                self.play(&self.rows, (volume, scan.clone()), || self.volumes.ask(volume, call))
            }
            Register(RegisterCall::RowsBehind { scan }) => {
                self.play(&self.looks, (volume, scan.clone()), || self.volumes.ask(volume, call))
            }
            Upkeep(UpkeepCall::Position {}) => {
                self.play(&self.positions, (volume, ()), || self.volumes.ask(volume, call))
            }
            _ => self.volumes.ask(volume, call),
        }
    }

    fn tell(&self, volume: VolumeId, call: VolumeCall) {
        match &call {
            VolumeCall::Register(RegisterCall::Commit { commit, .. }) => {
                self.commits.lock().push((volume, commit.ballot, commit.is_everywhere));
                if self.drops_commits.load(Ordering::Relaxed) {
                    return;
                }
            }
            VolumeCall::Upkeep(UpkeepCall::ReleaseDone { id }) => self.released.lock().push((volume, *id)),
            _ => {}
        }
        self.volumes.tell(volume, call);
    }

    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Life> {
        let put = || self.volumes.put_shard(volume, shard, target, payload);
        self.play(&self.shard_puts, (volume, shard), put)
    }

    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink> {
        self.volumes.create_shard(volume, target, header, replace)
    }

    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>> {
        self.play(&self.shard_reads, (volume, range), || self.volumes.read_shard(volume, range))
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.full.lock().contains(&volume) || self.volumes.is_full(volume)
    }

    fn is_late(&self, volume: VolumeId) -> bool {
        self.late.lock().contains(&volume) || self.volumes.is_late(volume)
    }

    fn has_overdue(&self, volume: VolumeId) -> bool {
        self.overdue.lock().contains(&volume) || self.volumes.has_overdue(volume)
    }

    fn is_returning(&self, volume: VolumeId) -> bool {
        self.volumes.is_returning(volume)
    }
}
