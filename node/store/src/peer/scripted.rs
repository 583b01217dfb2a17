//! A peer for tests, between a node and its volumes: what a script says of a question becomes of it, and everything
//! else goes through.
//!
//! It makes what a network and disks make, at the moment that a test wants: a question that never comes, an
//! answer that is lost although its question came, a volume that is full, busy, or says no.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{Ballot, BucketId, Incarnation, RegisterKey, ShardId, VolumeId};
use sherd_core::message;
use sherd_core::message::{
    AdoptedRow, Answer, Control, LeaseAnswer, ListPage, ListScan, PartsScan, ReaderLeases, RowPage, RowScan,
    ScannedRow, ShardFileHeader, ShardPage, ShardRange, ShardScan, Target, UnsettledKind, UnsettledPage,
    ValueLimit,
};
use sherd_core::record::Home;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::seal::StoredSeals;
use sherd_core::register::{Accept, Answerer, CommitHint, Prepare, Vote};
use sherd_core::release::{ReleaseEntry, ReleaseId};

use super::{LocalPeer, Pending, RegisterPeer, ShardPeer, ShardSink, UpkeepPeer};

/// What becomes of one question.
#[derive(Debug)]
pub(crate) enum Fate<R> {
    /// The volume gets it, and its answer comes.
    Through,
    /// The volume gets it, and its answer is not there yet when it is first looked for.
    Late,
    /// The volume never gets it, and this is what the asker hears.
    Instead(message::Result<R>),
    /// The volume gets it, and this comes in place of its answer, once that is there: what the volume took can
    /// be found in it from then on.
    Unheard(message::Result<R>),
    /// The volume gets it, and the asker hears nothing for as long as the script is kept.
    Silence,
}

type Script<Q, R> = Mutex<Option<Box<dyn FnMut(VolumeId, Q) -> Fate<R> + Send>>>;

/// Volumes as a script shows them. A question that no script is about goes through.
pub(crate) struct ScriptedPeer {
    volumes: LocalPeer,
    /// With the ballot.
    pub(crate) prepares: Script<Ballot, Answer<Vote>>,
    pub(crate) accepts: Script<Accept, Answer<()>>,
    /// With which value is wanted.
    pub(crate) reads: Script<ValueLimit, Answer<Vote>>,
    pub(crate) inlines: Script<Ballot, Bytes>,
    pub(crate) shard_reads: Script<ShardRange, Vec<Bytes>>,
    /// Packed shards that are written.
    pub(crate) shard_puts: Script<ShardId, Incarnation>,
    /// Removals of shards by their writers.
    pub(crate) shard_deletes: Script<ShardId, ()>,
    pub(crate) lists: Script<(), Answer<ListPage>>,
    pub(crate) controls: Script<Control, Answer<Guarantees>>,
    /// Removals of shards that no register names any more.
    pub(crate) releases: Script<ShardId, bool>,
    /// Leases of readers.
    pub(crate) leases: Script<ReaderLeases, LeaseAnswer>,
    pub(crate) heals: Script<HealEntry, ()>,
    /// Of replaced data, with the one that they are behind.
    pub(crate) notes: Script<Option<ReleaseId>, Vec<(ReleaseId, Bytes)>>,
    /// With the bucket that they are behind.
    pub(crate) seals: Script<Option<BucketId>, Answer<Vec<StoredSeals>>>,
    pub(crate) positions: Script<(), Answerer>,
    /// The hints of commits that were sent, with whether the row is everywhere.
    pub(crate) commits: Mutex<Vec<(VolumeId, Ballot, bool)>>,
    /// Hints of commits do not come.
    pub(crate) drops_commits: AtomicBool,
    /// Volumes that say that they are full.
    pub(crate) full: Mutex<Vec<VolumeId>>,
    /// Volumes that are late, whatever they answer.
    pub(crate) late: Arc<Mutex<Vec<VolumeId>>>,
    /// Volumes with an overdue call, whatever they answer.
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
    /// Everything goes through.
    pub(crate) fn new(volumes: LocalPeer) -> Self {
        Self {
            volumes,
            prepares: Mutex::default(),
            accepts: Mutex::default(),
            reads: Mutex::default(),
            inlines: Mutex::default(),
            shard_reads: Mutex::default(),
            shard_puts: Mutex::default(),
            shard_deletes: Mutex::default(),
            lists: Mutex::default(),
            controls: Mutex::default(),
            releases: Mutex::default(),
            leases: Mutex::default(),
            heals: Mutex::default(),
            notes: Mutex::default(),
            seals: Mutex::default(),
            positions: Mutex::default(),
            commits: Mutex::default(),
            drops_commits: AtomicBool::new(false),
            full: Mutex::default(),
            late: Arc::default(),
            overdue: Arc::default(),
            released: Mutex::default(),
            hung: Mutex::default(),
        }
    }

    fn play<Q, R: Unpin + Send + 'static>(
        &self,
        script: &Script<Q, R>,
        (volume, question): (VolumeId, Q),
        ask: impl FnOnce() -> Pending<R>,
    ) -> Pending<R> {
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
            Fate::Instead(heard) => Pending::ready(heard),
            Fate::Unheard(heard) => {
                let (asked, (answering, pending)) = (ask(), Pending::waiting());
                tokio::spawn(async move {
                    drop(asked.await);
                    answering.answer(heard);
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
pub(crate) fn says<Q, R>(script: &Script<Q, R>, fate: impl FnMut(VolumeId, Q) -> Fate<R> + Send + 'static) {
    *script.lock() = Some(Box::new(fate));
}

impl ShardPeer for ScriptedPeer {
    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Incarnation> {
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

    fn delete_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<()> {
        self.play(&self.shard_deletes, (volume, shard), || self.volumes.delete_shard(volume, shard, home))
    }

    fn release_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<bool> {
        self.play(&self.releases, (volume, shard), || self.volumes.release_shard(volume, shard, home))
    }

    fn lease(&self, volume: VolumeId, leases: &ReaderLeases) -> Pending<LeaseAnswer> {
        self.play(&self.leases, (volume, leases.clone()), || self.volumes.lease(volume, leases))
    }

    fn shard_bytes(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64> {
        self.volumes.shard_bytes(volume, shard, home)
    }

    fn verify_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64> {
        self.volumes.verify_shard(volume, shard, home)
    }

    fn shards(&self, volume: VolumeId, request: ShardScan) -> Pending<ShardPage> {
        self.volumes.shards(volume, request)
    }
}

impl RegisterPeer for ScriptedPeer {
    fn prepare(
        &self,
        volume: VolumeId,
        target: &Target,
        prepare: Prepare,
        values: ValueLimit,
    ) -> Pending<Answer<Vote>> {
        let ask = || self.volumes.prepare(volume, target, prepare, values);
        self.play(&self.prepares, (volume, prepare.ballot), ask)
    }

    fn accept(
        &self,
        volume: VolumeId,
        target: &Target,
        accept: &Accept,
        heal: Option<&HealEntry>,
    ) -> Pending<Answer<()>> {
        let ask = || self.volumes.accept(volume, target, accept, heal);
        self.play(&self.accepts, (volume, accept.clone()), ask)
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.full.lock().contains(&volume) || self.volumes.is_full(volume)
    }

    fn is_returning(&self, volume: VolumeId) -> bool {
        self.volumes.is_returning(volume)
    }

    fn is_late(&self, volume: VolumeId) -> bool {
        self.late.lock().contains(&volume) || self.volumes.is_late(volume)
    }

    fn has_overdue(&self, volume: VolumeId) -> bool {
        self.overdue.lock().contains(&volume) || self.volumes.has_overdue(volume)
    }

    fn commit(&self, volume: VolumeId, target: &Target, commit: &CommitHint) {
        self.commits.lock().push((volume, commit.ballot, commit.is_everywhere));
        if !self.drops_commits.load(Ordering::Relaxed) {
            self.volumes.commit(volume, target, commit);
        }
    }

    fn read(&self, volume: VolumeId, target: &Target, values: ValueLimit) -> Pending<Answer<Vote>> {
        let ask = || self.volumes.read(volume, target, values);
        self.play(&self.reads, (volume, values), ask)
    }

    fn inline(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Bytes> {
        self.play(&self.inlines, (volume, ballot), || self.volumes.inline(volume, target, ballot))
    }

    fn verify_row(&self, volume: VolumeId, key: &RegisterKey) -> Pending<()> {
        self.volumes.verify_row(volume, key)
    }

    fn list(&self, volume: VolumeId, request: &ListScan) -> Pending<Answer<ListPage>> {
        self.play(&self.lists, (volume, ()), || self.volumes.list(volume, request))
    }

    fn parts(&self, volume: VolumeId, request: &PartsScan) -> Pending<Answer<Vec<ScannedRow>>> {
        self.volumes.parts(volume, request)
    }

    fn rows(&self, volume: VolumeId, request: &RowScan) -> Pending<Answer<RowPage>> {
        self.volumes.rows(volume, request)
    }

    fn unsettled(
        &self,
        volume: VolumeId,
        kind: UnsettledKind,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Pending<UnsettledPage> {
        self.volumes.unsettled(volume, kind, after, limit)
    }

    fn control(&self, volume: VolumeId, control: Control) -> Pending<Answer<Guarantees>> {
        let ask = || self.volumes.control(volume, control.clone());
        self.play(&self.controls, (volume, control.clone()), ask)
    }

    fn adopt(&self, volume: VolumeId, rows: Vec<AdoptedRow>) -> Pending<Answer<()>> {
        self.volumes.adopt(volume, rows)
    }

    fn drop_row(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Answer<()>> {
        self.volumes.drop_row(volume, target, ballot)
    }
}

impl UpkeepPeer for ScriptedPeer {
    fn heals(&self, volume: VolumeId, after: Option<HealId>, limit: usize) -> Pending<Vec<(HealId, Bytes)>> {
        self.volumes.heals(volume, after, limit)
    }

    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()> {
        self.play(&self.heals, (volume, entry.clone()), || self.volumes.heal_put(volume, entry))
    }

    fn heal_done(&self, volume: VolumeId, id: HealId) {
        self.volumes.heal_done(volume, id);
    }

    fn releases(
        &self,
        volume: VolumeId,
        after: Option<ReleaseId>,
        limit: usize,
    ) -> Pending<Vec<(ReleaseId, Bytes)>> {
        self.play(&self.notes, (volume, after), || self.volumes.releases(volume, after, limit))
    }

    fn release_put(&self, volume: VolumeId, entry: &ReleaseEntry) {
        self.volumes.release_put(volume, entry);
    }

    fn release_done(&self, volume: VolumeId, id: ReleaseId) {
        self.released.lock().push((volume, id));
        self.volumes.release_done(volume, id);
    }

    fn position(&self, volume: VolumeId) -> Pending<Answerer> {
        self.play(&self.positions, (volume, ()), || self.volumes.position(volume))
    }

    fn guarantees(&self, volume: VolumeId) -> Pending<Answer<Guarantees>> {
        self.volumes.guarantees(volume)
    }

    fn seals(
        &self,
        volume: VolumeId,
        after: Option<BucketId>,
        limit: usize,
    ) -> Pending<Answer<Vec<StoredSeals>>> {
        self.play(&self.seals, (volume, after), || self.volumes.seals(volume, after, limit))
    }

    fn remembers(&self, volume: VolumeId, asker: Option<&Asker>) -> Pending<Answer<Memory>> {
        self.volumes.remembers(volume, asker)
    }
}
