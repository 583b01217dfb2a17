//! The scrubber: a paced walk of everything that a volume holds.
//!
//! ```text
//! rows    equal on all volumes, their bytes right, every shard present; parts of closed uploads
//! packed  every packed shard's bytes, and whether a register names it
//! files   the same for shard files
//! ```
//! Bytes are read from the device, since the page cache may differ from the disk. Damage becomes an MRF
//! entry; unnamed data becomes a suspect for the sweeper, unfinished files among it. The position of the walk
//! is remembered on the volume, so a restart goes on where it was; while suspects wait for judgement the
//! remembered position stays before them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use sherd_core::heal::HealEntry;
use sherd_core::id::{DataId, RegisterKey, Timestamp, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, RowScan, ScannedRow, SeenShard, ShardScan};
use sherd_core::record::{Home, State, Value};
use sherd_core::register::{Row, Vote};

use super::place::{STAGES, ScrubPlace};
use super::suspects::{Suspect, Suspects, is_older_than_orphans};
use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::register::Failure;
use crate::register::refs::{RefsError, reference};
use crate::upkeep::buckets::remains::RemainsCleaner;
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::{is_gone_for_ever, is_sealed_for_ever_on, take_final_seal};
use crate::upkeep::limits::{
    POSTPONED_MAX, ROW_COST_BYTES, SCRUB_AWAY, SCRUB_PACE_MIN, SCRUB_PAGE, SCRUB_PATIENCE,
    SHARD_VERIFY_PATIENCE, UNSETTLED_MS, YOUNG_MS,
};
use crate::upkeep::pages::{ask, read_whole};
use crate::upkeep::progress::{ProgressFiles, ScrubProgress};
use crate::upkeep::queue::HealQueue;
use crate::upkeep::queue::entries::Spare;
use crate::upkeep::rows::rows_of;
use crate::upkeep::shards::check::{RegisterChecker, ShardLook};
use crate::upkeep::shards::parts::PartCloser;
use crate::volumes::LocalVolume;

/// A row that was young when its page was looked at. There may be [`POSTPONED_MAX`] of them on each volume,
/// and a value may have mebibytes: the row is read again when its turn comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostponedRow {
    key: RegisterKey,
    /// Of its ballot: a row that has another one then was written again.
    time: Timestamp,
}

/// The scrubber's figures since the start, for metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubStatus {
    /// Rows looked at since the start.
    pub rows_count: u64,
    /// Shards verified since the start.
    pub shards_count: u64,
    /// Things found wrong since the start.
    pub findings_count: u64,
    /// Bytes of shards verified since the start.
    pub bytes_count: u64,
    /// Full passes of a volume since the start.
    pub passes_count: u64,
    /// When the last of them ended, in milliseconds since the Unix epoch; 0 for never.
    pub ended_ms: u64,
    /// When the pass under way began on each volume, in milliseconds since the Unix epoch.
    pub began_ms: BTreeMap<VolumeId, u64>,
    /// How much of its pass the volume has done that is furthest behind, in thousandths; 0 where none
    /// is under way.
    pub done_permille: u32,
}

#[derive(Debug, Default)]
pub(crate) struct ScrubCounters {
    rows: AtomicU64,
    shards: AtomicU64,
    bytes: AtomicU64,
    passes: AtomicU64,
    ended_ms: AtomicU64,
    /// When each pass under way began, and its stages that are done.
    running: Mutex<BTreeMap<VolumeId, (u64, u32)>>,
}

/// Scrubs volumes, with the checker of registers, and those to which it hands what it finds.
#[derive(Debug)]
pub(crate) struct Scrubber {
    pub(crate) deps: Deps,
    pub(crate) progress: Arc<ProgressFiles>,
    pub(crate) queue: Arc<HealQueue>,
    pub(crate) checker: Arc<RegisterChecker>,
    pub(crate) parts: Arc<PartCloser>,
    pub(crate) remains: Arc<RemainsCleaner>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) counters: ScrubCounters,
}

impl Scrubber {
    pub(crate) fn status(&self) -> ScrubStatus {
        let running = self.counters.running.lock();
        let least = running.values().map(|(_, done)| *done).min().unwrap_or(0);
        ScrubStatus {
            rows_count: self.counters.rows.load(Ordering::Relaxed),
            shards_count: self.counters.shards.load(Ordering::Relaxed),
            findings_count: self.checker.findings_count(),
            bytes_count: self.counters.bytes.load(Ordering::Relaxed),
            passes_count: self.counters.passes.load(Ordering::Relaxed),
            ended_ms: self.counters.ended_ms.load(Ordering::Relaxed),
            began_ms: running.iter().map(|(volume, (began_ms, _))| (*volume, *began_ms)).collect(),
            done_permille: least * 1000 / STAGES,
        }
    }

    pub(crate) async fn scrub_volumes(&self) {
        let scrubbing = self.deps.volumes.all().iter().map(|volume| self.scrub_for_ever(volume));
        futures::future::join_all(scrubbing).await;
    }

    async fn scrub_for_ever(&self, volume: &Arc<LocalVolume>) {
        loop {
            let passed = match self.scrub_pass(volume).await {
                Ok(began_ms) => self.end_pass(volume, began_ms).await.map(|()| began_ms),
                Err(away) => Err(away),
            };
            match passed {
                Ok(began_ms) => self.wait_for_next_pass(began_ms).await,
                Err(_away) => tokio::time::sleep(SCRUB_AWAY).await,
            }
        }
    }

    /// Waits until the pass after the one that began then is due, by the period that is in force meanwhile.
    pub(crate) async fn wait_for_next_pass(&self, began_ms: u64) {
        let mut changes = self.deps.tuning.changes();
        loop {
            let pause = self.until_next_pass(began_ms).max(SCRUB_AWAY);
            // Cancel-safe: a change that comes meanwhile is seen by the next wait.
            if tokio::time::timeout(pause, changes.changed()).await.is_err() {
                return;
            }
        }
    }

    /// How long after a pass began the next one does.
    pub(crate) fn until_next_pass(&self, began_ms: u64) -> Duration {
        let passed = Duration::from_millis(self.deps.wall_ms().saturating_sub(began_ms));
        self.deps.tuning.scrub_pass().saturating_sub(passed)
    }

    /// Forgets the position of a pass that ended, once its suspects are judged; a suspect that cannot be
    /// judged until the next pass is due is found again by it.
    async fn end_pass(&self, volume: &LocalVolume, began_ms: u64) -> Result<(), String> {
        let set = self.deps.set_with(volume.id()).ok_or("the volume is in no set")?;
        while self.would_forget(&set) && self.until_next_pass(began_ms) > Duration::ZERO {
            tokio::time::sleep(SCRUB_AWAY).await;
        }
        self.progress.change(volume.id(), |progress| progress.scrub = None).await
    }

    /// One pass, or the rest of it. Gives when it began.
    pub(crate) async fn scrub_pass(&self, volume: &LocalVolume) -> Result<u64, String> {
        let id = volume.id();
        if !volume.state().votes() {
            return Err("the volume is not online".to_owned());
        }
        let remembered = self.progress.read(id).await?.scrub;
        let began_ms = remembered.as_ref().map_or_else(|| self.deps.wall_ms(), |scrub| scrub.began_ms);
        let stored = remembered.and_then(|scrub| scrub.place);
        let mut place = stored.map_or(ScrubPlace::Rows { after: None }, |stored| ScrubPlace::decode(&stored));
        let set = self.deps.set_with(id).ok_or("the volume is in no set")?;
        let own = set.routes.iter().find(|route| route.volume == id).ok_or("the volume is in no set")?;
        let note_every_ms = u64::try_from(self.deps.settings.note_every.as_millis()).unwrap_or(u64::MAX);
        let mut noted_ms = self.deps.now_ms();
        let mut postponed = Vec::new();
        loop {
            self.counters.running.lock().insert(id, (began_ms, place.stage()));
            let (next, cost) = self.scrub_page(own, &place, &mut postponed).await?;
            self.pace(volume, cost).await;
            match next.or_else(|| place.next_stage()) {
                Some(next) => place = next,
                None => break,
            }
            let is_time = self.deps.now_ms().saturating_sub(noted_ms) >= note_every_ms;
            if is_time && !self.would_forget(&set) {
                noted_ms = self.deps.now_ms();
                let scrub = ScrubProgress { began_ms, place: Some(place.encode()) };
                self.progress.change(id, |progress| progress.scrub = Some(scrub)).await?;
            }
        }
        self.scrub_postponed(own, &postponed).await;
        self.counters.passes.fetch_add(1, Ordering::Relaxed);
        self.counters.ended_ms.store(self.deps.wall_ms(), Ordering::Relaxed);
        self.counters.running.lock().remove(&id);
        if !self.would_forget(&set) {
            self.progress.change(id, |progress| progress.scrub = None).await?;
        }
        Ok(began_ms)
    }

    /// Whether a restart would forget what was found up to here: suspects that are not judged yet, and damage
    /// that no log took. A place behind it would pass it over until the next pass.
    fn would_forget(&self, set: &SetView) -> bool {
        self.suspects.has_any_of(set) || !self.queue.mrf.are_all_logged()
    }

    /// Looks at one page. Gives where its stage goes on, and what it cost.
    pub(crate) async fn scrub_page(
        &self,
        own: &VolumeRoute,
        place: &ScrubPlace,
        postponed: &mut Vec<PostponedRow>,
    ) -> Result<(Option<ScrubPlace>, u64), String> {
        match place {
            ScrubPlace::Rows { after } => {
                let request = RowScan::all(self.deps.cluster.epoch(), after.clone(), SCRUB_PAGE);
                let answer = ask(own.peer.rows(own.volume, &request), SCRUB_PATIENCE).await;
                let page = answer.map_err(text)?.result.map_err(text)?;
                let cost = ROW_COST_BYTES.saturating_mul(page.rows.len() as u64);
                for row in &page.rows {
                    self.scrub_row(own, row, postponed).await;
                }
                self.deps.throttle.take(cost).await;
                Ok((page.next.map(|after| ScrubPlace::Rows { after: Some(after) }), cost))
            }
            ScrubPlace::Packed { after } => {
                let request = ShardScan::Packed { after: *after, limit: SCRUB_PAGE };
                let page = ask(own.peer.shards(own.volume, request), SCRUB_PATIENCE).await.map_err(text)?;
                let cost = self.scrub_shards(own, Home::Packed, &page.shards).await;
                Ok((page.next.map(|after| ScrubPlace::Packed { after: Some(after) }), cost))
            }
            ScrubPlace::Files { directory, after } => {
                let request = ShardScan::Files { directory: *directory, after: *after, limit: SCRUB_PAGE };
                let page = ask(own.peer.shards(own.volume, request), SCRUB_PATIENCE).await.map_err(text)?;
                let cost = self.scrub_shards(own, Home::File, &page.shards).await;
                let next =
                    page.next.map(|after| ScrubPlace::Files { directory: *directory, after: Some(after) });
                Ok((next, cost))
            }
        }
    }

    /// Waits as long as the bytes looked at take at the pace of the pass.
    pub(crate) async fn pace(&self, volume: &LocalVolume, cost: u64) {
        let used = volume.status().open.map_or(0, |open| open.total_bytes.saturating_sub(open.free_bytes));
        let scrub_pass = self.deps.tuning.scrub_pass();
        let pace = (used / scrub_pass.as_secs().max(1)).max(SCRUB_PACE_MIN);
        if scrub_pass > Duration::ZERO {
            tokio::time::sleep(Duration::from_micros(cost.saturating_mul(1_000_000) / pace)).await;
        }
    }

    /// Looks at one row; while it is young it is `postponed`.
    pub(crate) async fn scrub_row(
        &self,
        own: &VolumeRoute,
        scanned: &ScannedRow,
        postponed: &mut Vec<PostponedRow>,
    ) {
        self.counters.rows.fetch_add(1, Ordering::Relaxed);
        let ScannedRow { key, row, tombstone: _, is_missed: _ } = scanned;
        if self.is_young(row) && !is_sealed_for_ever_on(&self.deps, own.volume, key.bucket) {
            if row.head.committed && postponed.len() < POSTPONED_MAX {
                postponed.push(PostponedRow { key: key.clone(), time: row.head.ballot.time });
            }
            return;
        }
        self.judge_row(own, key, row).await;
    }

    /// Whether a row's last shards and copies may still be on their way.
    fn is_young(&self, row: &Row) -> bool {
        let age_ms = self.deps.wall_ms().saturating_sub(row.head.ballot.time.as_ms());
        age_ms < if row.head.committed { YOUNG_MS } else { UNSETTLED_MS }
    }

    /// Looks whether a row of the volume can be read, is equal on all volumes, and has its shards.
    async fn judge_row(&self, own: &VolumeRoute, key: &RegisterKey, row: &Row) {
        if is_sealed_for_ever_on(&self.deps, own.volume, key.bucket) {
            // No request reads it any more: it goes, and nothing is wrong with it.
            return self.remains.look_again(own.volume, key.bucket);
        }
        let Some(value) = row.value.clone().and_then(|head| Value::decode(head).ok()) else {
            return self.checker.found_row(key).await;
        };
        if let Err(message::Error::Corrupt { .. }) =
            ask(own.peer.verify_row(own.volume, key), SCRUB_PATIENCE).await
        {
            return self.checker.found_row(key).await;
        }
        // Every volume walks its own rows; what several hold is looked at by the first of them.
        let rows = rows_of(&self.deps, key).await;
        if !rows.sealed.is_empty() && !rows.sealed.contains(&own.volume) {
            take_final_seal(&self.deps, own.volume, key.bucket).await;
            if is_sealed_for_ever_on(&self.deps, own.volume, key.bucket) {
                return;
            }
        }
        let set = self.deps.cluster.set_of(key);
        let holds = |volume| rows.held.iter().any(|(held, _, _)| *held == volume);
        let first = set.routes.iter().find(|route| holds(route.volume));
        if first.is_none_or(|first| first.volume == own.volume) {
            // A row that cannot be looked at now is in the next pass.
            let _ = self.checker.check_register(key, ShardLook::Everywhere).await;
            if key.part.is_some() && value.state != State::Tombstone {
                self.parts.close_old_part(key).await;
            }
        }
    }

    /// Comes back to the rows that were young when the pass read them. A round later they are old; only the
    /// ballots of a clock that was set back still look young.
    pub(crate) async fn scrub_postponed(&self, own: &VolumeRoute, postponed: &[PostponedRow]) {
        let youngest = postponed.iter().map(|row| row.time.as_ms()).max();
        let Some(youngest) = youngest else { return };
        let wait_ms = youngest.saturating_add(YOUNG_MS).saturating_sub(self.deps.wall_ms()).min(YOUNG_MS);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        for row in postponed {
            self.deps.throttle.take(ROW_COST_BYTES).await;
            self.scrub_again(own, row).await;
        }
    }

    /// Looks at a row that was postponed, as the volume has it by now. One that went meanwhile is not missed,
    /// and one that cannot be looked at now is in the next pass.
    async fn scrub_again(&self, own: &VolumeRoute, postponed: &PostponedRow) {
        let PostponedRow { key, time } = postponed;
        self.counters.rows.fetch_add(1, Ordering::Relaxed);
        let target = self.deps.cluster.target(key.clone());
        match read_whole(own, &target, SCRUB_PATIENCE).await {
            Ok(Answer { from: _, result: Ok(Vote { row: Some(row), floor: _ }) }) => {
                // A row that was written again is left to the next pass while it is young.
                if row.head.ballot.time == *time || !self.is_young(&row) {
                    self.judge_row(own, key, &row).await;
                }
            }
            Err(message::Error::Corrupt { .. }) => self.checker.found_row(key).await,
            Ok(_) | Err(_) if is_sealed_for_ever_on(&self.deps, own.volume, key.bucket) => {
                self.remains.look_again(own.volume, key.bucket);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Verifies shards where they lie, and looks whether a register names them. Gives their bytes.
    async fn scrub_shards(&self, own: &VolumeRoute, home: Home, shards: &[SeenShard]) -> u64 {
        let mut bytes = 0;
        for SeenShard { shard, key, is_whole } in shards {
            self.counters.shards.fetch_add(1, Ordering::Relaxed);
            let verified = if *is_whole {
                ask(own.peer.verify_shard(own.volume, *shard, home), SHARD_VERIFY_PATIENCE).await
            } else {
                // A rest of a write after a crash: no sign of a bad disk, and not counted as one.
                Err(message::Error::Corrupt { what: "it was never finished".to_owned() })
            };
            let is_rotten = matches!(verified, Err(message::Error::Corrupt { .. }));
            self.counters.bytes.fetch_add(*verified.as_ref().unwrap_or(&0), Ordering::Relaxed);
            let cost = verified.unwrap_or(ROW_COST_BYTES);
            // Before the next one: the cost of a whole page at one time would hold up heals behind it.
            self.deps.throttle.take(cost).await;
            bytes += cost;
            let is_old = is_older_than_orphans(&self.deps, shard.data);
            if !is_rotten && (!is_old || self.is_named_here(own, key, shard.data).await) {
                continue;
            }
            match reference(&self.deps.registers, &self.deps.stripes, key, shard.data).await {
                Ok(Some(data)) if is_rotten => {
                    let entry = HealEntry { key: key.clone(), data: Some(data.into()), since_ms: 0 };
                    self.checker.found(entry, Spare(data.parity_shards.saturating_sub(1))).await;
                }
                Ok(None) if is_old => {
                    self.suspects.add(Suspect { key: key.clone(), data: shard.data, home });
                }
                Err(RefsError::Register(Failure::Sealed)) if is_old && is_gone_for_ever(&self.deps, key) => {
                    self.suspects.add(Suspect { key: key.clone(), data: shard.data, home });
                }
                Ok(_) | Err(_) => {}
            }
        }
        bytes
    }

    /// Whether the volume's own row names data: then no other has to be asked.
    async fn is_named_here(&self, own: &VolumeRoute, key: &RegisterKey, data: DataId) -> bool {
        let target = self.deps.cluster.target(key.clone());
        let Ok(answer) = read_whole(own, &target, SCRUB_PATIENCE).await else {
            return false;
        };
        let row = answer.result.ok().and_then(|vote| vote.row);
        let value = row.and_then(|row| row.value).and_then(|head| Value::decode(head).ok());
        value.is_some_and(|value| value.data_refs().iter().any(|named| named.id == data))
    }
}

fn text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}
