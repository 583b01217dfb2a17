//! Wants of this node's volumes, worked off: what a volume logged that it lacks is brought to it, and the
//! want ends by what lies on that volume alone.
//!
//! ```text
//! pass over the wants of one volume
//!   data:  shard here and verified, or own rows known committed without it --> ends
//!          else rebuilt from any k others, read back --> ends
//!   row:   own row known committed: each shard that it names is here, or is rebuilt --> ends
//! ```
//! The volume's own node alone works on them and ends them: another volume's row, and an end that another
//! node sends, prove nothing. A pass that ends nothing is followed by a pause that grows, until a volume
//! comes back. Guards I-23.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::heal::{DamagedData, HealEntry};
use sherd_core::id::{DataId, RegisterKey, ShardId, VolumeId};
use sherd_core::message;
use sherd_core::placement;
use sherd_core::record::{DataRef, Value};
use sherd_core::register::heal::want::{OwnRow, row_want_ends, want_ends};
use sherd_volume::read::wants::LoggedWant;
use sherd_volume::request::Op;

use super::subject::HealSubject;
use crate::peer::VolumeRoute;
use crate::register::refs::kept_by;
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_sealed_for_ever_on;
use crate::upkeep::limits::{
    ROW_COST_BYTES, ROW_PATIENCE, SHARD_LOOK_PATIENCE, SHARD_VERIFY_PATIENCE, WANT_PAUSE_MS,
    WANT_PAUSE_MS_MAX, WANTS_LOOK_EVERY, WANTS_PAGE,
};
use crate::upkeep::pages::{ask, read_whole};
use crate::upkeep::queue::HealQueue;
use crate::volumes::ServingVolume;

/// Works off the wants of this node's volumes.
#[derive(Debug)]
pub(crate) struct WantWorker {
    deps: Deps,
    queue: Arc<HealQueue>,
    /// How often the pauses were ended, for a volume came back.
    woken_count: AtomicU64,
}

/// When the next pass over one volume's wants is due.
#[derive(Debug, Default)]
pub(crate) struct WantPasses {
    /// The opening that the passes are of, and how often pauses were ended before.
    seen: (u32, u64),
    /// Wants logged when the last pass began; `None` before the first of this opening.
    logged: Option<u64>,
    /// Wants that it found: the next pass sees whether their ends are in the log.
    found_count: u64,
    due_ms: u64,
    pause_ms: u64,
}

impl WantPasses {
    /// Whether a pass is due: wants were logged since the last one began, or it found some, and its pause is
    /// over. So passes end with one that finds the log empty of wants.
    fn are_due(&self, logged: u64, now_ms: u64) -> bool {
        (self.logged != Some(logged) || self.found_count > 0) && now_ms >= self.due_ms
    }

    /// Ends a pass that began at `began_ms` with `logged` wants logged. The pause is at least as long as the
    /// pass: other background work has its share of the throttle.
    fn passed(&mut self, logged: u64, pass: PassOutcome, (began_ms, now_ms): (u64, u64)) {
        let PassOutcome { ended, left } = pass;
        let is_first = self.pause_ms == 0 || ended > 0;
        self.pause_ms = if is_first { WANT_PAUSE_MS } else { (2 * self.pause_ms).min(WANT_PAUSE_MS_MAX) };
        (self.logged, self.found_count) = (Some(logged), ended + left);
        self.due_ms = now_ms + self.pause_ms.max(now_ms.saturating_sub(began_ms));
    }
}

/// Wants that a pass ended, and that it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PassOutcome {
    pub(crate) ended: u64,
    pub(crate) left: u64,
}

/// A volume of this node with the route to it.
struct OwnVolume {
    route: VolumeRoute,
    serving: Arc<ServingVolume>,
}

/// The volume's own shard of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnShard {
    Here,
    /// Not there, rotten, or of another length.
    Missing,
    /// The volume is busy, or does not say.
    Unknown,
}

impl OwnShard {
    fn of(answer: &message::Result<u64>, shard_bytes: u64) -> Self {
        match answer {
            Ok(bytes) if *bytes == shard_bytes => Self::Here,
            Ok(_) | Err(message::Error::NotFound | message::Error::Corrupt { .. }) => Self::Missing,
            Err(
                message::Error::Full
                | message::Error::Busy
                | message::Error::Refused(_)
                | message::Error::Unreachable { .. },
            ) => Self::Unknown,
        }
    }
}

/// An own row, as far as it could be read.
enum HeldRow {
    Absent,
    Unreadable,
    Read { committed: bool, value: Value },
}

impl WantWorker {
    pub(crate) fn new(deps: &Deps, queue: &Arc<HealQueue>) -> Self {
        Self { deps: deps.clone(), queue: Arc::clone(queue), woken_count: AtomicU64::new(0) }
    }

    /// Ends the pauses after passes that ended nothing: a volume came back.
    pub(crate) fn wake_paused(&self) {
        self.woken_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Works off the wants of all volumes of this node, again and again.
    pub(crate) async fn work_off(&self) {
        let mut passes: HashMap<VolumeId, WantPasses> = HashMap::new();
        loop {
            for volume in self.deps.volumes.all() {
                if volume.state().votes() {
                    self.pass_if_due(volume.id(), passes.entry(volume.id()).or_default()).await;
                }
            }
            tokio::time::sleep(WANTS_LOOK_EVERY).await;
        }
    }

    async fn pass_if_due(&self, volume: VolumeId, passes: &mut WantPasses) {
        let Some(local) = self.deps.volumes.get(volume) else { return };
        let seen = (local.opened_count(), self.woken_count.load(Ordering::Relaxed));
        let Ok(serving) = local.serving() else { return };
        if passes.seen != seen {
            *passes = WantPasses { seen, ..WantPasses::default() };
        }
        let logged = serving.reader.status().wants_logged;
        if passes.are_due(logged, self.deps.now_ms()) {
            let began_ms = self.deps.now_ms();
            let pass = self.pass_over(volume, serving).await;
            passes.passed(logged, pass, (began_ms, self.deps.now_ms()));
        }
    }

    /// One pass over the wants of a volume.
    pub(crate) async fn pass_over(&self, volume: VolumeId, serving: Arc<ServingVolume>) -> PassOutcome {
        let Some(route) = self.deps.route_to(volume) else { return PassOutcome { ended: 0, left: 1 } };
        let own = OwnVolume { route, serving };
        let (mut outcome, mut after) = (PassOutcome::default(), None);
        loop {
            let Ok(page) = own.serving.wants(after, WANTS_PAGE).await else {
                outcome.left += 1;
                return outcome;
            };
            let Some(last) = page.last() else { return outcome };
            after = Some(last.id);
            for LoggedWant { id, sequence, want } in page {
                let work = self.deps.panics.contain("want", self.ends(&own, &want)).await;
                let is_done =
                    work == Some(true) && own.serving.submit_lazily(Op::WantDone { id, sequence }).is_ok();
                if is_done {
                    outcome.ended += 1;
                } else {
                    outcome.left += 1;
                }
            }
        }
    }

    /// Whether a want ends, after what it takes to bring its data here.
    async fn ends(&self, own: &OwnVolume, want: &HealEntry) -> bool {
        self.deps.throttle.take(ROW_COST_BYTES).await;
        if is_sealed_for_ever_on(&self.deps, own.route.volume, want.key.bucket) {
            return true;
        }
        match want.data {
            Some(data) => self.data_ends(own, &want.key, data).await,
            None => self.row_ends(own, &want.key).await,
        }
    }

    async fn data_ends(&self, own: &OwnVolume, key: &RegisterKey, data: DamagedData) -> bool {
        let named = match data {
            DamagedData::Named(named) => Some(named),
            DamagedData::Id(_) => None,
        };
        if let Some(named) = named {
            match self.look_at(own, key, named, true).await {
                OwnShard::Here => return true,
                OwnShard::Unknown => return false,
                OwnShard::Missing => {}
            }
        }
        let object = RegisterKey::object(key.bucket, key.key.clone());
        let keys = if key.part.is_some() { vec![key.clone(), object] } else { vec![object] };
        let (mut rows, mut named) = (Vec::new(), named);
        for key in keys {
            let (row, found) = self.own_row_of(own, &key, data.id()).await;
            rows.push(row);
            named = named.or(found);
        }
        if want_ends(false, &rows) {
            return true;
        }
        match named {
            Some(named) => self.bring(own, key, named).await,
            None => false,
        }
    }

    async fn row_ends(&self, own: &OwnVolume, key: &RegisterKey) -> bool {
        let (committed, value) = match self.held_row(own, key).await {
            HeldRow::Absent => return row_want_ends(OwnRow::Absent, false),
            HeldRow::Unreadable => return row_want_ends(OwnRow::Unreadable, false),
            HeldRow::Read { committed, value } => (committed, value),
        };
        // Data comes before it is known that the row stays: a key that is written all the time is seldom seen
        // committed.
        let row = OwnRow::Read { committed, names: true };
        let Ok(kept) = kept_by(&self.deps.stripes, key, &value).await else { return false };
        let mut all_here = true;
        for data in kept {
            all_here &= match self.look_at(own, key, data, false).await {
                OwnShard::Here => true,
                OwnShard::Missing => self.bring(own, key, data).await,
                OwnShard::Unknown => false,
            };
        }
        row_want_ends(row, all_here)
    }

    /// The own row of a key as far as it names data, and the reference of that if it does.
    async fn own_row_of(
        &self,
        own: &OwnVolume,
        key: &RegisterKey,
        data: DataId,
    ) -> (OwnRow, Option<DataRef>) {
        let (committed, value) = match self.held_row(own, key).await {
            HeldRow::Absent => return (OwnRow::Absent, None),
            HeldRow::Unreadable => return (OwnRow::Unreadable, None),
            HeldRow::Read { committed, value } => (committed, value),
        };
        let find = |named: Vec<DataRef>| named.into_iter().find(|named| named.id == data);
        let mut found = find(value.data_refs());
        // A page is read from other volumes; a row that is not committed proves nothing either way.
        if found.is_none() && committed && !value.state.manifest_pages().is_empty() {
            match kept_by(&self.deps.stripes, key, &value).await {
                Ok(kept) => found = find(kept),
                Err(_) => return (OwnRow::Unreadable, None),
            }
        }
        (OwnRow::Read { committed, names: found.is_some() }, found)
    }

    async fn held_row(&self, own: &OwnVolume, key: &RegisterKey) -> HeldRow {
        let target = self.deps.cluster.target(key.clone());
        let Ok(answer) = read_whole(&own.route, &target, ROW_PATIENCE).await else {
            return HeldRow::Unreadable;
        };
        let Ok(vote) = answer.result else { return HeldRow::Unreadable };
        let Some(row) = vote.row else { return HeldRow::Absent };
        match row.value.and_then(|head| Value::decode(head).ok()) {
            Some(value) => HeldRow::Read { committed: row.head.committed, value },
            None => HeldRow::Unreadable,
        }
    }

    /// Looks at the volume's shard of data; data of another set has none for it. With `verify` its bytes are
    /// read.
    async fn look_at(&self, own: &OwnVolume, key: &RegisterKey, data: DataRef, verify: bool) -> OwnShard {
        let Ok(subject) = HealSubject::new(&self.deps, key, data) else { return OwnShard::Unknown };
        let Some(index) = self.index_on(own, &subject) else { return OwnShard::Here };
        let shard = ShardId { data: data.id, index };
        let VolumeRoute { peer, volume, .. } = &own.route;
        let answer = ask(peer.shard_bytes(*volume, shard, data.home), SHARD_LOOK_PATIENCE).await;
        let looked = OwnShard::of(&answer, subject.shard_bytes());
        if looked != OwnShard::Here || !verify {
            return looked;
        }
        self.deps.throttle.take(subject.shard_bytes()).await;
        let answer = ask(peer.verify_shard(*volume, shard, data.home), SHARD_VERIFY_PATIENCE).await;
        OwnShard::of(&answer, subject.shard_bytes())
    }

    /// Index of the shard of data that belongs on the volume; `None` where the data is of a set without it.
    fn index_on(&self, own: &OwnVolume, subject: &HealSubject) -> Option<u8> {
        let set = self.deps.cluster.set(subject.data.set)?;
        let place = set.place_of(own.route.volume)?;
        Some(placement::shard_at(subject.data.id, place, set.routes.len()))
    }

    /// Makes the volume's shard again from others, and reads it back.
    async fn bring(&self, own: &OwnVolume, key: &RegisterKey, data: DataRef) -> bool {
        let Ok(subject) = HealSubject::new(&self.deps, key, data) else { return false };
        let Some(index) = self.index_on(own, &subject) else { return true };
        if subject.is_full(index) {
            return false;
        }
        let sources = subject.look(false).await.intact;
        let others: Vec<u8> = sources.into_iter().filter(|source| *source != index).collect();
        if others.len() < usize::from(data.data_shards) {
            return false;
        }
        self.deps.throttle.take(subject.shard_bytes().saturating_mul(u64::from(data.data_shards))).await;
        match subject.rebuild(&self.deps, index, &others).await {
            Ok(bytes) => {
                self.queue.mrf.wrote(bytes);
                true
            }
            Err(error) => {
                tracing::debug!(?key, data = %data.id, index, %error, "a wanted shard is not rebuilt yet");
                false
            }
        }
    }
}
