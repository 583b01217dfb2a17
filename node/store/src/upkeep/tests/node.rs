//! The steps of tests on a node: requests of its gateways, contents of its volumes, volumes that leave and
//! come back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::{Either, select};

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{BucketId, ChangeId, Life, RegisterKey, ShardId, VolumeId};
use sherd_core::message::Control;
use sherd_core::placement;
use sherd_core::record::{Attributes, Body, DataRef, ObjectTags, State, VersionKind};
use sherd_volume::buffer::{BufferPool, PoolLimits};

use super::{Ahead, DEADLINE, Node, at_once, build, build_over, key_of, name, upload};
use crate::cluster::KeyRoute;
use crate::cluster::damage::Report;
use crate::object::{
    NewBucket, Objects, PutRequest, ReadConditions, ReadRequest, Span, Upload, WriteConditions,
};
use crate::peer::scripted::ScriptedPeer;
use crate::peer::{LocalPeer, VolumeRoute};
use crate::register::{RegisterTimeouts, Registers};
use crate::stripe::Stripes;
use crate::upkeep::deps::Deps;
use crate::upkeep::recover::catch_up::peer_positions;
use crate::upkeep::rows::bring::HealOutcome;
use crate::upkeep::rows::rows_of;
use crate::upkeep::rows::settle::RowsAhead;
use crate::upkeep::workers::Workers;
use crate::volumes::{LocalVolume, VolumeState, Volumes, WORKERS};

impl Node {
    /// Sets its clock ahead by this much more.
    pub fn pass_ms(&self, ms: u64) {
        self.clock.advance(ms);
    }

    /// Creates the bucket `bucket`.
    pub async fn create_bucket(&self) {
        self.objects
            .create_bucket(key_of("bucket"), NewBucket::default())
            .await
            .expect("a bucket is created");
    }

    /// Stores an object in it.
    pub async fn put(&self, key: &str, bytes: &Bytes) {
        self.try_put(key, bytes).await.expect("the object is stored");
    }

    pub(super) async fn try_put(&self, key: &str, bytes: &Bytes) -> Result<(), String> {
        self.put_upload(key, upload(bytes)).await
    }

    pub(crate) async fn put_upload(&self, key: &str, upload: Upload) -> Result<(), String> {
        let request = PutRequest {
            name: name(key),
            attributes: Attributes::default(),
            tags: ObjectTags::default(),
            conditions: WriteConditions::default(),
            upload,
        };
        self.objects.put(request).await.map(drop).map_err(|error| error.to_string())
    }

    /// Another gateway to the same volumes, with a clock of its own.
    pub(crate) fn another_gateway(&self, ahead_ms: u64) -> Self {
        let limits = PoolLimits { cap_bytes: 64 << 20, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
        let (ahead, pool) = (Ahead::new(ahead_ms), BufferPool::new(limits));
        build(self.volumes.clone(), &self.topology, ahead, pool, (Duration::ZERO, None))
    }

    /// Another gateway, between which and the same volumes a script stands.
    pub(crate) fn scripted_gateway(&self, timeouts: RegisterTimeouts) -> (Self, Arc<ScriptedPeer>) {
        let limits = PoolLimits { cap_bytes: 64 << 20, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
        let (ahead, pool) = (Ahead::new(0), BufferPool::new(limits));
        let scripted = Arc::new(ScriptedPeer::new(LocalPeer::new(self.volumes.clone())));
        let route_to = |volume| VolumeRoute::through(volume, &scripted);
        let settings = at_once(Duration::ZERO, None);
        let volumes = self.volumes.clone();
        (build_over(&route_to, volumes, &self.topology, ahead, pool, settings, timeouts), scripted)
    }

    /// Another node, of which these volumes are: the others are this one's.
    pub(super) fn another_node(&self, own: std::ops::Range<usize>) -> Self {
        let mut node = self.another_gateway(0);
        node.change_deps(|deps| deps.volumes = self.volumes.only(own));
        node
    }

    /// Builds its workers again, over what `change` made of what they use. Nothing of them runs yet.
    pub(super) fn change_deps(&mut self, change: impl FnOnce(&mut Deps)) {
        assert_eq!(Arc::strong_count(&self.workers), 1, "nothing runs yet");
        let mut deps = self.workers.deps.clone();
        change(&mut deps);
        self.workers = Arc::new(Workers::new(deps));
    }

    /// Puts an object, of which every volume has the row then: a write waits for A of them only.
    pub async fn put_everywhere(&self, key: &str, bytes: &Bytes) {
        self.put(key, bytes).await;
        self.on_all_volumes(&self.register(key).await).await;
    }

    /// Waits until every volume of its set has a register's row, marked as committed.
    pub(crate) async fn commit_everywhere(&self, register: &RegisterKey) {
        self.registers().finish(register).await.expect("all volumes have it");
        let known = async {
            loop {
                let rows = rows_of(&self.workers.deps, register).await;
                if rows.are_same() && rows.held.iter().all(|(.., is_committed)| *is_committed) {
                    return;
                }
                crate::upkeep::tests::between_looks().await;
            }
        };
        assert!(tokio::time::timeout(DEADLINE, known).await.is_ok(), "a volume never got the hint");
    }

    /// Brings a volume back as its tasks do: its rows are settled, look by look, while it is compared.
    pub(super) async fn comes_back(&self, volume: &LocalVolume) -> bool {
        self.comes_back_after(volume, async {}).await
    }

    /// The same, where nothing is settled before `first` has ended.
    pub(super) async fn comes_back_after(
        &self,
        volume: &LocalVolume,
        first: impl Future<Output = ()>,
    ) -> bool {
        let up_to_date = Box::pin(
            self.workers
                .follower
                .bring_up_to_date(volume.id(), self.workers.follower.comparison_point(volume.opened_count())),
        );
        let settling = Box::pin(async {
            first.await;
            let mut ahead = RowsAhead::default();
            loop {
                self.workers.settler.settle_volume(volume.id(), &mut ahead).await;
                crate::upkeep::tests::between_looks().await;
            }
        });
        match select(up_to_date, settling).await {
            Either::Left((up_to_date, _)) => up_to_date,
            Either::Right((never, _)) => never,
        }
    }

    /// Makes shards that a write did not wait for.
    pub async fn complete(&self, register: &RegisterKey, data: &DataRef) {
        assert_eq!(self.workers.healer.heal_data(register, data.id).await, HealOutcome::Whole);
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Bytes> {
        let request =
            ReadRequest { name: name(key), span: Span::Whole, conditions: ReadConditions::default() };
        let read = self.objects.get(request).await.ok()?;
        let pieces: Vec<Bytes> = read.body.try_collect().await.ok()?;
        Some(pieces.concat().into())
    }

    /// Where a register lies.
    pub(crate) fn route(&self, register: &RegisterKey) -> KeyRoute {
        self.workers.deps.cluster.route(register.clone())
    }

    /// The register of an object.
    pub async fn register(&self, key: &str) -> RegisterKey {
        let bucket = RegisterKey::bucket(key_of("bucket"));
        let found = self.workers.deps.registers.read(&bucket).await.expect("readable").expect("there");
        match found.value.state {
            State::Bucket(bucket) => RegisterKey::object(bucket.id, key_of(key)),
            other => panic!("not a bucket: {other:?}"),
        }
    }

    /// Where the bytes of an object are.
    pub async fn data(&self, key: &str) -> DataRef {
        let register = self.register(key).await;
        let found = self.workers.deps.registers.read(&register).await.expect("readable").expect("there");
        let object = found.object().expect("an object").clone();
        match &object.versions[0].kind {
            VersionKind::Content(content) => match &content.body {
                Body::Data(data) => *data,
                other => panic!("not coded: {other:?}"),
            },
            VersionKind::DeleteMarker => panic!("deleted"),
        }
    }

    /// Heals data of which shards are missing.
    pub(crate) async fn heal_data(&self, register: &RegisterKey, data: &DataRef) {
        let entry = HealEntry { key: register.clone(), data: Some((*data).into()), since_ms: 1 };
        assert_eq!(self.workers.healer.heal(&entry).await, HealOutcome::Whole);
    }

    /// The volume that holds one shard.
    pub(super) fn home(&self, register: &RegisterKey, data: &DataRef, index: u8) -> VolumeId {
        let set = self.workers.deps.cluster.set_of(register);
        set.routes[placement::home(data.id, index, set.routes.len())].volume
    }

    pub(super) fn local(&self, volume: VolumeId) -> &Arc<LocalVolume> {
        self.volumes.get(volume).expect("a volume of this node")
    }

    /// The path of a shard file.
    pub fn file(&self, register: &RegisterKey, data: &DataRef, index: u8) -> PathBuf {
        let shard = ShardId { data: data.id, index };
        let volume = self.local(self.home(register, data, index));
        let wanted = format!("{}.{}", shard.data, shard.index);
        let directories = std::fs::read_dir(volume.path().join("shards")).expect("readable");
        directories
            .map(|entry| entry.expect("readable").path().join(&wanted))
            .find(|path| path.exists())
            .expect("the shard has a file")
    }

    /// The path that a shard file has where it is present.
    pub(super) fn file_on(&self, register: &RegisterKey, data: &DataRef, index: u8) -> PathBuf {
        let volume = self.local(self.home(register, data, index));
        let wanted = format!("{}.{index}", data.id);
        let directories = std::fs::read_dir(volume.path().join("shards")).into_iter().flatten();
        let mut paths = directories.flatten().map(|entry| entry.path().join(&wanted));
        paths.find(|path| path.exists()).unwrap_or_else(|| volume.path().join("no such shard"))
    }

    /// The other volumes learn that this one is in a later life than the one in which it answers: it
    /// is back after it was replaced.
    pub(crate) async fn outlive(&self, volume: VolumeId) {
        let set = self.workers.deps.set_with(volume).expect("it is in a set");
        let life = self.local(volume).serving().expect("it serves").reader.answerer().life;
        let record = Control::RecordLife { volume, life: Life(life.0 + 1) };
        for route in set.routes.iter().filter(|route| route.volume != volume) {
            let recorded = route.peer.control(route.volume, record.clone()).await.expect("it serves");
            assert!(recorded.result.is_ok());
        }
    }

    /// The volumes of this node, in their order.
    pub(crate) fn volume_ids(&self) -> Vec<VolumeId> {
        self.volumes.all().iter().map(|volume| volume.id()).collect()
    }

    /// Heals that were reported and not taken yet.
    pub(crate) fn reported_heals(&mut self) -> Vec<HealId> {
        let heal = |report| match report {
            Report::Heal(entry) => Some(entry.id()),
            Report::Superseded { .. } => None,
        };
        self.reported().into_iter().filter_map(heal).collect()
    }

    /// Heals that its volumes' logs hold.
    pub(crate) async fn logged_heals(&self) -> Vec<HealId> {
        let routes = self.workers.deps.cluster.sets().iter().flat_map(|set| &set.routes);
        let pages = routes.map(|route| route.peer.heals(route.volume, None, 1_000));
        let pages = futures::future::join_all(pages).await;
        pages.into_iter().flatten().flatten().map(|(id, _)| id).collect()
    }

    /// Lets a volume's blocking reads and scans hang until what this gives is dropped.
    pub(crate) fn hang_reads(&self, volume: VolumeId) -> std::sync::mpsc::Sender<()> {
        let serving = self.local(volume).serving().expect("it serves");
        let (hung, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(parking_lot::Mutex::new(wait));
        for workers in [&serving.reads, &serving.scans] {
            for _ in 0..WORKERS {
                let wait = Arc::clone(&wait);
                let job = move || assert!(wait.lock().recv().is_err(), "nothing is ever sent");
                workers.run(job).expect("nothing else waits");
            }
        }
        hung
    }

    /// Moves a volume's directory away.
    pub(crate) async fn take_away(&self, volume: VolumeId) {
        let path = self.local(volume).path();
        std::fs::rename(path, path.with_extension("away")).expect("moved away");
        self.wait_for(volume, |state| matches!(state, VolumeState::Offline { .. })).await;
    }

    /// Waits until a volume is in the state that `is` names.
    pub(super) async fn wait_for(&self, volume: VolumeId, is: impl Fn(&VolumeState) -> bool) {
        let local = self.local(volume);
        let mut changes = self.volumes.changes();
        let reached = async {
            while !is(&local.state()) {
                changes.changed().await.expect("keepers live as long as the test");
            }
        };
        let in_time = tokio::time::timeout(DEADLINE, reached).await;
        assert!(in_time.is_ok(), "{volume} is {:?}", local.state());
    }

    /// Waits until the last of its volumes has the row of a write that was acknowledged, and none has one of
    /// before. A volume that opened later than the others may refuse the first ballot after a start; that is
    /// reported, and upkeep, which does not run here, would bring the row there.
    pub(super) async fn on_all_volumes(&self, register: &RegisterKey) {
        let on_all = async {
            loop {
                let rows = rows_of(&self.workers.deps, register).await;
                if rows.held.len() == self.volumes.all().len() && rows.are_same() {
                    return;
                }
                if self.workers.deps.report_counts.made_heals_count() > 0 {
                    let behind = HealEntry { key: register.clone(), data: None, since_ms: 0 };
                    self.workers.healer.heal(&behind).await;
                }
                crate::upkeep::tests::between_looks().await;
            }
        };
        assert!(tokio::time::timeout(DEADLINE, on_all).await.is_ok(), "a volume never got the row");
    }

    /// Waits until every volume has the same row.
    pub(super) async fn until_same(&self, register: &RegisterKey) {
        let same = async {
            while !rows_of(&self.workers.deps, register).await.are_same() {
                crate::upkeep::tests::between_looks().await;
            }
        };
        assert!(tokio::time::timeout(DEADLINE, same).await.is_ok(), "the rows stay different");
    }

    /// Waits until a volume was opened again, and has its peers confirm it.
    pub(super) async fn back_online(&self, volume: VolumeId) {
        self.wait_for(volume, |state| matches!(state, VolumeState::Unconfirmed { .. })).await;
        self.workers.confirmer.confirm_volumes().await;
        self.wait_for(volume, |state| *state == VolumeState::Online).await;
    }

    /// The seals on its volumes.
    pub(crate) fn seals(&self) -> Vec<(BucketId, Vec<ChangeId>)> {
        let serving = self.volumes.all().iter().filter_map(|volume| volume.serving().ok());
        serving.flat_map(|serving| serving.reader.all_seals().collect::<Vec<_>>()).collect()
    }

    /// Reports to upkeep, which does not run, since the last call.
    pub(crate) fn reported(&mut self) -> Vec<Report> {
        let reports = self.reports.as_mut().expect("not taken before");
        std::iter::from_fn(|| Some(reports.received.try_recv().ok()?.1)).collect()
    }

    /// The verbs.
    pub const fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Lets a volume note how far its peers' logs are.
    pub(crate) async fn note_peers(&self, volume: &LocalVolume, opening: u32) {
        let peers = peer_positions(&self.workers.deps, volume.id()).await;
        crate::upkeep::recover::catch_up::note_peers(volume, opening, &peers);
    }

    /// Waits for the next report of damage, or of what was replaced. No other task takes it.
    pub(crate) async fn next_report(&mut self) -> Report {
        let reports = self.reports.as_mut().expect("not taken");
        reports.received.recv().await.expect("its senders are there").1
    }

    /// Registers of the node.
    pub fn registers(&self) -> &Registers {
        &self.workers.deps.registers
    }

    /// Data path of the node.
    pub(crate) fn stripes(&self) -> &Stripes {
        &self.workers.deps.stripes
    }

    /// Only its volumes.
    pub fn volumes(self) -> Volumes {
        self.volumes
    }

    /// Ends as the process does: what is left of its writes first, which reaches the volumes that were not
    /// waited for.
    pub async fn close(self) {
        let tasks = self.workers.deps.registers.tasks();
        tasks.close();
        tokio::time::timeout(DEADLINE, tasks.wait()).await.expect("its writes end");
        assert_eq!(self.volumes.close(DEADLINE).await, Vec::new());
    }
}
