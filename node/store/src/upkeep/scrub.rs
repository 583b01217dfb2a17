//! The scrubber: a paced walk of everything that a volume holds.
//!
//! ```text
//! rows    equal on all volumes, their bytes right, every shard present; parts of closed uploads
//! packed  every packed shard's bytes, and whether a register names it
//! files   the same for shard files
//! ```
//! Bytes are read from the device: what the page cache has says nothing of what is on the platter.
//! What is wrong becomes an MRF entry, what nobody names a suspect for the sweeper, files that were never finished
//! among them. The place of the walk is remembered on the volume, so a restart goes on where it was; while suspects
//! wait to be judged the remembered place stays before them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use sherd_core::codec::{DecodeError, Reader, Writer};
use sherd_core::heal::HealEntry;
use sherd_core::id::{DataId, RegisterKey, ShardId, Timestamp, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, RowScan, ScannedRow, SeenShard, ShardScan};
use sherd_core::record::{Home, State, Value, put_register_key, take_register_key};
use sherd_core::register::{Row, Vote};

use super::heal::HealOutcome;
use super::look::{Look, LookError};
use super::mrf::Spare;
use super::rebuild::Subject;
use super::recover::ScrubProgress;
use super::sweep::Suspect;
use super::{Context, ask, read_whole};
use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::register::Failure;
use crate::register::refs::{RefsError, kept_by, reference};
use crate::volumes::LocalVolume;

/// Rows or shards of one page.
const PAGE: usize = 64;
/// How long a page or a question may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// What a row costs the pace, beside its bytes.
const ROW_COST_BYTES: u64 = 4 << 10;
/// The slowest pace: small volumes are done early and wait for the next pass.
const PACE_MIN: u64 = 256 << 10;
/// How young an unsettled row is left to its writer and to the settle worker.
const UNSETTLED_MS: u64 = 60_000;
/// How young a committed row is: its last shards and rows may still be on their way.
const YOUNG_MS: u64 = 10_000;
/// Young rows that a pass comes back to at its end; more are left to the next pass.
const POSTPONED_MAX: usize = 10_000;
/// How long a volume that is not online is not looked at again.
const AWAY: Duration = Duration::from_secs(30);

/// Stages of a walk: rows, packed shards, and each directory of shard files.
const STAGES: u32 = 2 + 256;

/// A row that was young when its page was looked at. There may be [`POSTPONED_MAX`] of them on each volume, and a value
/// may have mebibytes: the row is read again when its turn comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PostponedRow {
    key: RegisterKey,
    /// Of its ballot: a row that has another one then was written again.
    time: Timestamp,
}

/// Where a walk stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Rows { after: Option<RegisterKey> },
    Packed { after: Option<ShardId> },
    Files { directory: u8, after: Option<ShardId> },
}

impl Place {
    /// The stored form, as hex.
    fn encode(&self) -> String {
        let mut writer = Writer::new();
        match self {
            Self::Rows { after } => {
                writer.u8(1).u8(u8::from(after.is_some()));
                if let Some(key) = after {
                    put_register_key(&mut writer, key);
                }
            }
            Self::Packed { after } => {
                writer.u8(2);
                put_shard(&mut writer, *after);
            }
            Self::Files { directory, after } => {
                writer.u8(3).u8(*directory);
                put_shard(&mut writer, *after);
            }
        }
        hex::encode(writer.finish())
    }

    /// From the stored form; the beginning for anything else.
    fn decode(stored: &str) -> Self {
        let decode = || {
            let mut reader = Reader::new(hex::decode(stored).ok()?.into());
            Some(match reader.u8("place").ok()? {
                1 if reader.u8("place").ok()? == 0 => Self::Rows { after: None },
                1 => Self::Rows { after: Some(take_register_key(&mut reader).ok()?) },
                2 => Self::Packed { after: take_shard(&mut reader).ok()? },
                3 => {
                    Self::Files { directory: reader.u8("place").ok()?, after: take_shard(&mut reader).ok()? }
                }
                _ => return None,
            })
        };
        decode().unwrap_or(Self::Rows { after: None })
    }

    /// How many stages come before this one.
    fn stage(&self) -> u32 {
        match self {
            Self::Rows { .. } => 0,
            Self::Packed { .. } => 1,
            Self::Files { directory, .. } => 2 + u32::from(*directory),
        }
    }

    /// What comes behind a stage that is done; `None` at the end of the walk.
    fn next_stage(&self) -> Option<Self> {
        match self {
            Self::Rows { .. } => Some(Self::Packed { after: None }),
            Self::Packed { .. } => Some(Self::Files { directory: 0, after: None }),
            Self::Files { directory, .. } => {
                directory.checked_add(1).map(|directory| Self::Files { directory, after: None })
            }
        }
    }
}

fn put_shard(writer: &mut Writer, shard: Option<ShardId>) {
    writer.u8(u8::from(shard.is_some()));
    if let Some(ShardId { data, index }) = shard {
        writer.raw(&data.to_bytes()).u8(index);
    }
}

fn take_shard(reader: &mut Reader) -> Result<Option<ShardId>, DecodeError> {
    if reader.u8("shard")? == 0 {
        return Ok(None);
    }
    let data = DataId::from_bytes(reader.array("data id")?);
    Ok(Some(ShardId { data, index: reader.u8("index")? }))
}

/// What the scrubber did, for metrics.
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

/// The scrubber's figures.
#[derive(Debug, Default)]
pub(crate) struct ScrubCounters {
    rows: AtomicU64,
    shards: AtomicU64,
    findings: AtomicU64,
    bytes: AtomicU64,
    passes: AtomicU64,
    ended_ms: AtomicU64,
    /// When each pass under way began, and its stages that are done.
    running: Mutex<BTreeMap<VolumeId, (u64, u32)>>,
}

impl ScrubCounters {
    pub(super) fn status(&self) -> ScrubStatus {
        let running = self.running.lock();
        let least = running.values().map(|(_, done)| *done).min().unwrap_or(0);
        ScrubStatus {
            rows_count: self.rows.load(Ordering::Relaxed),
            shards_count: self.shards.load(Ordering::Relaxed),
            findings_count: self.findings.load(Ordering::Relaxed),
            bytes_count: self.bytes.load(Ordering::Relaxed),
            passes_count: self.passes.load(Ordering::Relaxed),
            ended_ms: self.ended_ms.load(Ordering::Relaxed),
            began_ms: running.iter().map(|(volume, (began_ms, _))| (*volume, *began_ms)).collect(),
            done_permille: least * 1000 / STAGES,
        }
    }
}

impl Context {
    /// Scrubs every volume of this node until it is told to stop.
    pub(super) async fn scrub_volumes(&self) {
        let scrubbing = self.volumes.all().iter().map(|volume| self.scrub_for_ever(volume));
        futures::future::join_all(scrubbing).await;
    }

    async fn scrub_for_ever(&self, volume: &Arc<LocalVolume>) {
        loop {
            let pause = match self.scrub_pass(volume).await {
                Ok(began_ms) => match self.end_pass(volume, began_ms).await {
                    Ok(()) => self.until_next_pass(began_ms).max(AWAY),
                    Err(_away) => AWAY,
                },
                Err(_away) => AWAY,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// How long after a pass began the next one does.
    fn until_next_pass(&self, began_ms: u64) -> Duration {
        let passed = Duration::from_millis(self.wall_ms().saturating_sub(began_ms));
        self.settings.scrub_pass.saturating_sub(passed)
    }

    /// Forgets the place of a pass that ended, once what it suspected is judged; the next pass finds
    /// again what cannot be judged for so long.
    async fn end_pass(&self, volume: &LocalVolume, began_ms: u64) -> Result<(), String> {
        let set = self.set_with(volume.id()).ok_or("the volume is in no set")?;
        while self.would_forget(&set) && self.until_next_pass(began_ms) > Duration::ZERO {
            tokio::time::sleep(AWAY).await;
        }
        self.remember(volume.id(), |progress| progress.scrub = None).await
    }

    /// One pass, or the rest of it. Gives when it began.
    pub(crate) async fn scrub_pass(&self, volume: &LocalVolume) -> Result<u64, String> {
        let id = volume.id();
        if !volume.state().votes() {
            return Err("the volume is not online".to_owned());
        }
        let remembered = self.progress(id).await?.scrub;
        let began_ms = remembered.as_ref().map_or_else(|| self.wall_ms(), |scrub| scrub.began_ms);
        let stored = remembered.and_then(|scrub| scrub.place);
        let mut place = stored.map_or(Place::Rows { after: None }, |stored| Place::decode(&stored));
        let set = self.set_with(id).ok_or("the volume is in no set")?;
        let own = set.routes.iter().find(|route| route.volume == id).ok_or("the volume is in no set")?;
        let note_every_ms = u64::try_from(self.settings.note_every.as_millis()).unwrap_or(u64::MAX);
        let mut noted_ms = self.now_ms();
        let mut postponed = Vec::new();
        loop {
            self.scrubbed.running.lock().insert(id, (began_ms, place.stage()));
            let (next, cost) = self.scrub_page(own, &place, &mut postponed).await?;
            self.pace(volume, cost).await;
            match next.or_else(|| place.next_stage()) {
                Some(next) => place = next,
                None => break,
            }
            let is_time = self.now_ms().saturating_sub(noted_ms) >= note_every_ms;
            if is_time && !self.would_forget(&set) {
                noted_ms = self.now_ms();
                let scrub = ScrubProgress { began_ms, place: Some(place.encode()) };
                self.remember(id, |progress| progress.scrub = Some(scrub)).await?;
            }
        }
        self.scrub_postponed(own, &postponed).await;
        self.scrubbed.passes.fetch_add(1, Ordering::Relaxed);
        self.scrubbed.ended_ms.store(self.wall_ms(), Ordering::Relaxed);
        self.scrubbed.running.lock().remove(&id);
        if !self.would_forget(&set) {
            self.remember(id, |progress| progress.scrub = None).await?;
        }
        Ok(began_ms)
    }

    /// Whether a restart would forget what was found up to here: suspects that are not judged yet, and damage that no
    /// log took. A place behind it would pass it over until the next pass.
    fn would_forget(&self, set: &SetView) -> bool {
        self.has_suspects(set) || !self.mrf.are_all_logged()
    }

    /// Looks at one page. Gives where its stage goes on, and what it cost.
    async fn scrub_page(
        &self,
        own: &VolumeRoute,
        place: &Place,
        postponed: &mut Vec<PostponedRow>,
    ) -> Result<(Option<Place>, u64), String> {
        match place {
            Place::Rows { after } => {
                let request = RowScan::all(self.cluster.epoch(), after.clone(), PAGE);
                let answer = ask(own.registers.rows(own.volume, &request), PATIENCE).await;
                let page = answer.map_err(text)?.result.map_err(text)?;
                let cost = ROW_COST_BYTES.saturating_mul(page.rows.len() as u64);
                for row in &page.rows {
                    self.scrub_row(own, row, postponed).await;
                }
                Ok((page.next.map(|after| Place::Rows { after: Some(after) }), cost))
            }
            Place::Packed { after } => {
                let request = ShardScan::Packed { after: *after, limit: PAGE };
                let page = ask(own.shards.shards(own.volume, request), PATIENCE).await.map_err(text)?;
                let cost = self.scrub_shards(own, Home::Packed, &page.shards).await;
                Ok((page.next.map(|after| Place::Packed { after: Some(after) }), cost))
            }
            Place::Files { directory, after } => {
                let request = ShardScan::Files { directory: *directory, after: *after, limit: PAGE };
                let page = ask(own.shards.shards(own.volume, request), PATIENCE).await.map_err(text)?;
                let cost = self.scrub_shards(own, Home::File, &page.shards).await;
                let next = page.next.map(|after| Place::Files { directory: *directory, after: Some(after) });
                Ok((next, cost))
            }
        }
    }

    /// Waits as long as the bytes looked at take at the pace of the pass.
    async fn pace(&self, volume: &LocalVolume, cost: u64) {
        self.throttle.take(cost).await;
        let used = volume.status().open.map_or(0, |open| open.total_bytes.saturating_sub(open.free_bytes));
        let pace = (used / self.settings.scrub_pass.as_secs().max(1)).max(PACE_MIN);
        if self.settings.scrub_pass > Duration::ZERO {
            tokio::time::sleep(Duration::from_micros(cost.saturating_mul(1_000_000) / pace)).await;
        }
    }

    /// Looks at one row; while it is young it is `postponed`.
    pub(super) async fn scrub_row(
        &self,
        own: &VolumeRoute,
        scanned: &ScannedRow,
        postponed: &mut Vec<PostponedRow>,
    ) {
        self.scrubbed.rows.fetch_add(1, Ordering::Relaxed);
        let ScannedRow { key, row, tombstone: _, is_missed: _ } = scanned;
        if self.is_young(row) && !self.is_sealed_for_ever_on(own.volume, key.bucket) {
            if row.head.committed && postponed.len() < POSTPONED_MAX {
                postponed.push(PostponedRow { key: key.clone(), time: row.head.ballot.time });
            }
            return;
        }
        self.judge_row(own, key, row).await;
    }

    /// Whether a row's last shards and copies may still be on their way.
    fn is_young(&self, row: &Row) -> bool {
        let age_ms = self.wall_ms().saturating_sub(row.head.ballot.time.as_ms());
        age_ms < if row.head.committed { YOUNG_MS } else { UNSETTLED_MS }
    }

    /// Looks whether a row of the volume can be read, is equal on all volumes, and has its shards.
    async fn judge_row(&self, own: &VolumeRoute, key: &RegisterKey, row: &Row) {
        if self.is_sealed_for_ever_on(own.volume, key.bucket) {
            // Nobody reads it any more: it goes, and nothing is wrong with it.
            return self.remains.look_again(own.volume, key.bucket);
        }
        let Some(value) = row.value.clone().and_then(|head| Value::decode(head).ok()) else {
            return self.found_row(key).await;
        };
        if let Err(message::Error::Corrupt { .. }) =
            ask(own.registers.verify_row(own.volume, key), PATIENCE).await
        {
            return self.found_row(key).await;
        }
        // Every volume walks its own rows; what several hold is looked at by the first of them.
        let rows = self.rows_of(key).await;
        if !rows.sealed.is_empty() && !rows.sealed.contains(&own.volume) {
            self.take_final_seal(own.volume, key.bucket).await;
            if self.is_sealed_for_ever_on(own.volume, key.bucket) {
                return;
            }
        }
        let set = self.cluster.set_of(key);
        let holds = |volume| rows.held.iter().any(|(held, _, _)| *held == volume);
        let first = set.routes.iter().find(|route| holds(route.volume));
        if first.is_none_or(|first| first.volume == own.volume) {
            // What cannot be told now is looked at in the next pass.
            let _ = self.check_register(key, Look::Everywhere).await;
            if key.part.is_some() && value.state != State::Tombstone {
                self.close_old_part(key).await;
            }
        }
    }

    /// Comes back to the rows that were young when the pass met them. They are not any more, whatever
    /// their ballots say: those of a clock that was set back stay ahead.
    pub(super) async fn scrub_postponed(&self, own: &VolumeRoute, postponed: &[PostponedRow]) {
        let youngest = postponed.iter().map(|row| row.time.as_ms()).max();
        let Some(youngest) = youngest else { return };
        let wait_ms = youngest.saturating_add(YOUNG_MS).saturating_sub(self.wall_ms()).min(YOUNG_MS);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        for row in postponed {
            self.throttle.take(ROW_COST_BYTES).await;
            self.scrub_again(own, row).await;
        }
    }

    /// Looks at a row that was postponed, as the volume has it by now. One that went meanwhile is not missed, and what
    /// cannot be told now is looked at in the next pass.
    async fn scrub_again(&self, own: &VolumeRoute, postponed: &PostponedRow) {
        let PostponedRow { key, time } = postponed;
        self.scrubbed.rows.fetch_add(1, Ordering::Relaxed);
        let target = self.cluster.target(key.clone());
        match read_whole(own, &target, PATIENCE).await {
            Ok(Answer { from: _, result: Ok(Vote { row: Some(row), floor: _ }) }) => {
                // One that was written again is left to the next pass while it is young.
                if row.head.ballot.time == *time || !self.is_young(&row) {
                    self.judge_row(own, key, &row).await;
                }
            }
            Err(message::Error::Corrupt { .. }) => self.found_row(key).await,
            Ok(_) | Err(_) if self.is_sealed_for_ever_on(own.volume, key.bucket) => {
                self.remains.look_again(own.volume, key.bucket);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Counts a row as damage, and queues it.
    pub(super) async fn found_row(&self, key: &RegisterKey) {
        self.scrubbed.findings.fetch_add(1, Ordering::Relaxed);
        self.queue_heal(HealEntry { key: key.clone(), data: None, since_ms: 0 }, Spare(1)).await;
    }

    /// Looks whether the rows of a key are equal, and every shard that its value keeps alive is where
    /// it should be; heals the rows, queues the shards. Volumes that are away are no damage: they are compared when
    /// they come back.
    ///
    /// # Errors
    /// As [`Self::look_at_shards`].
    pub(super) async fn check_register(&self, key: &RegisterKey, look: Look) -> Result<(), LookError> {
        if !self.rows_of(key).await.are_equal_but_for_the_absent()
            && matches!(self.heal_row(key).await, HealOutcome::Later { is_damaged: true, .. })
        {
            self.found_row(key).await;
        }
        self.look_at_shards(key, look).await
    }

    /// Looks whether every shard that a key's value keeps alive is where it should be, and queues the others.
    ///
    /// # Errors
    /// [`LookError`] where that cannot be told of all of them. What the value names itself, its manifest pages among
    /// it, was looked at all the same where its pages cannot be read.
    pub(super) async fn look_at_shards(&self, key: &RegisterKey, look: Look) -> Result<(), LookError> {
        let found = match self.registers.read(key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(Failure::Sealed) if self.is_gone_for_ever(key) => return Ok(()),
            Err(failure) => return Err(RefsError::from(failure).into()),
        };
        let (kept, mut told) = match kept_by(&self.stripes, key, &found.value).await {
            Ok(kept) => (kept, Ok(())),
            Err(error) => (found.value.data_refs(), Err(error.into())),
        };
        for data in kept {
            let Ok(subject) = Subject::new(self, key, data) else { continue };
            let verifies = look == Look::WhileAllAnswer && data.home == Home::Packed;
            let bytes = if verifies { subject.shard_bytes() } else { ROW_COST_BYTES };
            self.throttle.take(bytes).await;
            let shards = subject.look(verifies).await;
            if !shards.broken.is_empty() {
                self.scrubbed.findings.fetch_add(1, Ordering::Relaxed);
                let entry = HealEntry { key: key.clone(), data: Some(data.into()), since_ms: 0 };
                self.queue_heal(entry, Spare(shards.spare(&data))).await;
            }
            let is_unknown = match look {
                Look::Everywhere | Look::WhileAllAnswer => !shards.unknown.is_empty(),
                Look::For(volume) => shards.unknown.iter().any(|index| subject.home(*index) == volume),
            };
            if is_unknown {
                told = Err(LookError::Unanswered);
                if look == Look::WhileAllAnswer {
                    break;
                }
            }
        }
        told
    }

    /// Verifies shards where they lie, and looks whether anybody names them. Gives their bytes.
    async fn scrub_shards(&self, own: &VolumeRoute, home: Home, shards: &[SeenShard]) -> u64 {
        let mut bytes = 0;
        for SeenShard { shard, key, is_whole } in shards {
            self.scrubbed.shards.fetch_add(1, Ordering::Relaxed);
            let verified = if *is_whole {
                ask(own.shards.verify_shard(own.volume, *shard, home), PATIENCE).await
            } else {
                // What a crash left of a write: no sign of a bad disk, and not counted as one.
                Err(message::Error::Corrupt { what: "it was never finished".to_owned() })
            };
            let is_rotten = matches!(verified, Err(message::Error::Corrupt { .. }));
            self.scrubbed.bytes.fetch_add(*verified.as_ref().unwrap_or(&0), Ordering::Relaxed);
            bytes += verified.unwrap_or(ROW_COST_BYTES);
            let is_old = self.is_older_than_orphans(shard.data);
            if !is_rotten && (!is_old || self.is_named_here(own, key, shard.data).await) {
                continue;
            }
            match reference(&self.registers, &self.stripes, key, shard.data).await {
                Ok(Some(data)) if is_rotten => {
                    self.scrubbed.findings.fetch_add(1, Ordering::Relaxed);
                    let entry = HealEntry { key: key.clone(), data: Some(data.into()), since_ms: 0 };
                    self.queue_heal(entry, Spare(data.parity_shards.saturating_sub(1))).await;
                }
                Ok(None) if is_old => {
                    self.swept.suspect(Suspect { key: key.clone(), data: shard.data, home });
                }
                Err(RefsError::Register(Failure::Sealed)) if is_old && self.is_gone_for_ever(key) => {
                    self.swept.suspect(Suspect { key: key.clone(), data: shard.data, home });
                }
                Ok(_) | Err(_) => {}
            }
        }
        bytes
    }

    /// Whether the volume's own row names data: then nobody else has to be asked.
    async fn is_named_here(&self, own: &VolumeRoute, key: &RegisterKey, data: DataId) -> bool {
        let target = self.cluster.target(key.clone());
        let Ok(answer) = read_whole(own, &target, PATIENCE).await else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{BucketId, ObjectKey, ProposerId};

    #[test]
    fn the_place_of_a_walk_is_these_bytes() {
        let shard =
            ShardId { data: DataId { birth: Timestamp::from_u64(5), proposer: ProposerId(6) }, index: 7 };
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"));
        let shard_bytes = "01 0000000000000005 0000000000000006 07";
        for (place, golden) in [
            (Place::Rows { after: None }, "0100".to_owned()),
            (Place::Rows { after: Some(key) }, format!("0101 {} 01000000 6b 00", "01".repeat(16))),
            (Place::Packed { after: None }, "0200".to_owned()),
            (Place::Packed { after: Some(shard) }, format!("02 {shard_bytes}")),
            (Place::Files { directory: 255, after: Some(shard) }, format!("03 ff {shard_bytes}")),
        ] {
            assert_eq!(place.encode(), golden.split_whitespace().collect::<String>());
            assert_eq!(Place::decode(&place.encode()), place);
        }
        assert_eq!(Place::decode("nonsense"), Place::Rows { after: None });
        assert_eq!(Place::decode("0301"), Place::Rows { after: None });
    }

    #[test]
    fn a_walk_goes_through_every_directory_and_ends() {
        let mut place = Place::Rows { after: None };
        let mut stages = 1;
        while let Some(next) = place.next_stage() {
            assert_eq!((place.stage(), next.stage()), (stages - 1, stages));
            place = next;
            stages += 1;
        }
        assert_eq!(stages, STAGES);
        assert_eq!(place, Place::Files { directory: 255, after: None });
    }
}
