//! The shards of a recovered volume, newest first.
//!
//! ```text
//! pass: walk the volume's rows; of the shards that should be here and are not, keep the newest
//!       -> rebuild them, newest first -> another pass over what is older -> until nothing is missing
//! ```
//! The missing shards are seen on the volume, so a restart goes on where it was. A shard that cannot be
//! rebuilt is wanted in the volume's own log, and holds up no other. The volume counts as rebuilt when a
//! later walk finds that nothing is missing: until then no other volume of its set is filled from it by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use futures::StreamExt;

use sherd_core::heal::HealEntry;
use sherd_core::id::{DataId, RegisterKey, ShardId, VolumeId};
use sherd_core::message;
use sherd_core::message::{RowScan, ScannedRow};
use sherd_core::placement;
use sherd_core::record::{DataRef, Home, Value};

use super::status::Recoveries;
use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::register::refs::kept_by;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{PAGE_PATIENCE, SHARD_VERIFY_PATIENCE};
use crate::upkeep::pages::ask;
use crate::upkeep::progress::ProgressFiles;
use crate::upkeep::queue::HealQueue;
use crate::upkeep::recover::limits::{BUSY_PAUSES, SHARDS_AT_ONCE, SHARDS_IN_PASS_MAX, SHARDS_PAGE};
use crate::upkeep::shards::subject::HealSubject;

#[derive(Debug, Clone, PartialEq, Eq)]
struct MissingShard {
    id: DataId,
    key: RegisterKey,
    data: DataRef,
    index: u8,
}

impl Ord for MissingShard {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(&other.id)
    }
}

impl PartialOrd for MissingShard {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The newest missing shards of one pass.
#[derive(Debug, Default)]
struct ShardPass {
    newest: BinaryHeap<Reverse<MissingShard>>,
    bytes: u64,
    is_cut: bool,
    /// Of shards that could not be looked at.
    outcome: RebuildOutcome,
}

/// The result of a rebuild; of several, the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum RebuildOutcome {
    /// Nothing is missing.
    #[default]
    Complete,
    /// Shards are missing; the volume's log has them as wants.
    Wanted,
    /// The volume's log did not take what is missing.
    Unlogged,
}

impl ShardPass {
    fn add(&mut self, missing: MissingShard, shard_bytes: u64) {
        self.bytes = self.bytes.saturating_add(shard_bytes);
        self.newest.push(Reverse(missing));
        if self.newest.len() > SHARDS_IN_PASS_MAX {
            self.newest.pop();
            self.is_cut = true;
        }
    }
}

#[derive(Debug)]
pub(crate) struct ShardRestorer {
    deps: Deps,
    progress: Arc<ProgressFiles>,
    queue: Arc<HealQueue>,
    recoveries: Arc<Recoveries>,
}

impl ShardRestorer {
    pub(crate) fn new(
        deps: &Deps,
        progress: &Arc<ProgressFiles>,
        queue: &Arc<HealQueue>,
        recoveries: &Arc<Recoveries>,
    ) -> Self {
        Self {
            deps: deps.clone(),
            progress: Arc::clone(progress),
            queue: Arc::clone(queue),
            recoveries: Arc::clone(recoveries),
        }
    }

    /// Rebuilds what a recovered volume lacks, or logs that it wants it. The volume is listed as recovering
    /// until nothing is missing.
    pub(crate) async fn rebuild_shards(&self, volume: VolumeId) -> Result<(), String> {
        if !self.progress.read(volume).await?.wants_shards {
            self.recoveries.end(volume);
            return Ok(());
        }
        let set = self.deps.set_with(volume).ok_or("the volume is in no set")?;
        let place = set.place_of(volume).ok_or("the volume is in no set")?;
        let (mut below, mut worst) = (None, RebuildOutcome::Complete);
        loop {
            let pass = self.missing_shards(&set, place, below).await?;
            self.recoveries.shards_left(volume, pass.bytes, self.deps.wall_ms());
            let newest_first: Vec<MissingShard> =
                pass.newest.into_sorted_vec().into_iter().map(|Reverse(missing)| missing).collect();
            below = newest_first.last().map(|missing| missing.id);
            let rebuilding = newest_first.into_iter().map(|missing| self.rebuild_missing(volume, missing));
            let rebuilt = futures::stream::iter(rebuilding).buffer_unordered(SHARDS_AT_ONCE);
            worst = worst.max(pass.outcome);
            worst = rebuilt.fold(worst, async |worst, outcome| worst.max(outcome)).await;
            if !pass.is_cut {
                break;
            }
        }
        match worst {
            RebuildOutcome::Complete => {
                self.progress.change(volume, |progress| progress.wants_shards = false).await?;
                self.recoveries.end(volume);
                tracing::info!(%volume, "the volume's shards are rebuilt");
                Ok(())
            }
            RebuildOutcome::Wanted => {
                self.recoveries.shards_queued(volume);
                tracing::info!(%volume, "the volume's shards are rebuilt, or wanted");
                Ok(())
            }
            RebuildOutcome::Unlogged => {
                Err("what it lacks could not be rebuilt, and its log did not take that".to_owned())
            }
        }
    }

    /// One pass over the rows of a volume: which of its shards are missing, of data older than `below`.
    async fn missing_shards(
        &self,
        set: &SetView,
        place: usize,
        below: Option<DataId>,
    ) -> Result<ShardPass, String> {
        let own = &set.routes[place];
        let mut pass = ShardPass::default();
        let mut after = None;
        loop {
            let request = RowScan::all(self.deps.cluster.epoch(), after, SHARDS_PAGE);
            let page = ask(own.peer.rows(own.volume, &request), PAGE_PATIENCE).await;
            let page = page.map_err(|error| error.to_string())?.result.map_err(|error| error.to_string())?;
            for scanned in page.rows {
                let kept = self.named_by(own, &scanned, &mut pass).await;
                for data in kept.into_iter().filter(|data| below.is_none_or(|below| data.id < below)) {
                    self.look_for(&scanned.key, data, (set, place), &mut pass).await?;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(pass),
            }
        }
    }

    /// The data that a row keeps alive. Where that is not known now, because the value or a page that it
    /// names cannot be read, all that the row names is wanted.
    async fn named_by(&self, own: &VolumeRoute, scanned: &ScannedRow, pass: &mut ShardPass) -> Vec<DataRef> {
        let value = scanned.row.value.clone().and_then(|head| Value::decode(head).ok());
        if let Some(value) = &value
            && let Ok(kept) = kept_by(&self.deps.stripes, &scanned.key, value).await
        {
            return kept;
        }
        pass.outcome = pass.outcome.max(self.want(own.volume, &scanned.key, None).await);
        value.map(|value| value.data_refs()).unwrap_or_default()
    }

    async fn look_for(
        &self,
        key: &RegisterKey,
        data: DataRef,
        (set, place): (&SetView, usize),
        pass: &mut ShardPass,
    ) -> Result<(), String> {
        let Ok(subject) = HealSubject::new(&self.deps, key, data) else { return Ok(()) };
        if !subject.is_on(set.id) {
            // Not of this set: its shards are on other volumes.
            return Ok(());
        }
        let own = &set.routes[place];
        let volumes = usize::from(data.data_shards) + usize::from(data.parity_shards);
        let index = placement::shard_at(data.id, place, volumes);
        let shard = ShardId { data: data.id, index };
        let mut pauses = BUSY_PAUSES.into_iter();
        let looked = loop {
            let looked = self.look_at(own, shard, &subject, data.home).await;
            match (&looked, pauses.next()) {
                (Err(message::Error::Busy), Some(pause)) => tokio::time::sleep(pause).await,
                _ => break looked,
            }
        };
        match looked {
            Ok(bytes) if bytes == subject.shard_bytes() => {}
            Ok(_) | Err(message::Error::NotFound | message::Error::Corrupt { .. }) => {
                pass.add(MissingShard { id: data.id, key: key.clone(), data, index }, subject.shard_bytes());
            }
            Err(error @ message::Error::Unreachable { .. }) => return Err(error.to_string()),
            // One shard that cannot be looked at holds up no other.
            Err(_) => {
                pass.outcome = pass.outcome.max(self.want(own.volume, key, Some(data)).await);
            }
        }
        Ok(())
    }

    async fn look_at(
        &self,
        own: &VolumeRoute,
        shard: ShardId,
        subject: &HealSubject,
        home: Home,
    ) -> message::Result<u64> {
        let bytes = ask(own.peer.shard_bytes(own.volume, shard, home), PAGE_PATIENCE).await?;
        if home != Home::Packed {
            return Ok(bytes);
        }
        // A loss of the log may begin within a record.
        self.deps.throttle.take(subject.shard_bytes()).await;
        ask(own.peer.verify_shard(own.volume, shard, home), SHARD_VERIFY_PATIENCE).await
    }

    /// Rebuilds a shard, or logs that the volume wants it.
    async fn rebuild_missing(&self, volume: VolumeId, missing: MissingShard) -> RebuildOutcome {
        let MissingShard { key, data, index, .. } = missing;
        let Ok(subject) = HealSubject::new(&self.deps, &key, data) else { return RebuildOutcome::Complete };
        let others: Vec<u8> =
            (0..data.data_shards + data.parity_shards).filter(|other| *other != index).collect();
        let outcome = match subject.rebuild(&self.deps, index, &others).await {
            Ok(bytes) => {
                self.queue.mrf.wrote(bytes);
                RebuildOutcome::Complete
            }
            Err(error) => {
                tracing::debug!(?key, data = %data.id, index, %error, "shard not rebuilt yet");
                self.want(volume, &key, Some(data)).await
            }
        };
        self.recoveries.shard_done(volume, subject.shard_bytes());
        outcome
    }

    /// Logs on the volume that it wants its shard of data, or of all that a row names.
    async fn want(&self, volume: VolumeId, key: &RegisterKey, data: Option<DataRef>) -> RebuildOutcome {
        let want = HealEntry { key: key.clone(), data: data.map(Into::into), since_ms: self.deps.wall_ms() };
        let serving = self.deps.volumes.get(volume).and_then(|local| local.serving().ok());
        let Some(serving) = serving else { return RebuildOutcome::Unlogged };
        match serving.put_want(want).await {
            Ok(()) => RebuildOutcome::Wanted,
            Err(error) => {
                tracing::debug!(%volume, ?key, %error, "a want is not logged");
                RebuildOutcome::Unlogged
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{BucketId, ObjectKey, ProposerId, SetId, Timestamp};

    fn missing(birth_ms: u64) -> MissingShard {
        let id = DataId { birth: Timestamp::from_ms(birth_ms), proposer: ProposerId(1) };
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"));
        let data = DataRef {
            id,
            set: SetId(0),
            size: 1,
            data_shards: 2,
            parity_shards: 2,
            stripe_unit: 1,
            home: Home::Packed,
        };
        MissingShard { id, key, data, index: 0 }
    }

    #[test]
    fn a_pass_keeps_the_newest_and_says_that_older_ones_are_left() {
        let mut pass = ShardPass::default();
        for birth in 0..SHARDS_IN_PASS_MAX as u64 {
            pass.add(missing(birth), 10);
        }
        assert!(!pass.is_cut);
        pass.add(missing(SHARDS_IN_PASS_MAX as u64), 10);
        assert!(pass.is_cut);
        assert_eq!(pass.bytes, 10 * (SHARDS_IN_PASS_MAX as u64 + 1));
        let sorted: Vec<u64> =
            pass.newest.into_sorted_vec().iter().map(|Reverse(missing)| missing.id.birth.as_ms()).collect();
        assert_eq!(sorted.first(), Some(&(SHARDS_IN_PASS_MAX as u64)), "newest first");
        assert_eq!(sorted.last(), Some(&1), "the oldest was left for the next pass");
    }
}
