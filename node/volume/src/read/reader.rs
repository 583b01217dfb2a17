//! Reads, on any thread: rows, bytes, listings, and what the volume says of itself.
//!
//! Calls that depend on the order of the log go through [`crate::Volume::submit`]; a lookup that finds a row
//! of its key in the batch that is being synced answers [`Lookup::Pending`]. Bytes are verified on every
//! read, and results are owned.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, BucketId, Life, RegisterKey, Sequence, ShardId, VolumeId};
use sherd_core::limits::SEALS_PAGE_MAX;
use sherd_core::message::{Answer, SeenShard, Target, ValueLimit, behind};
use sherd_core::register::acceptor::{judge_epoch, judge_prepare, judge_read};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::register::recover::opening::OpeningHistory;
use sherd_core::register::seal::{Seals, StoredSeals};
use sherd_core::register::{Answerer, Prepare, Row, Vote};
use sherd_core::release::ReleaseId;

use crate::error::Error;
use crate::format::Subject;
use crate::identity::failure::FailureFile;
use crate::index::table::{self, Body, Entry, Origin, row_key, shard_key};
use crate::limits::LOOKUP_TRIES;
use crate::log::read::{self, ReadError};
use crate::lookup::{Lookup, Source};
use crate::read::scan::KeyWalk;
use crate::read::view::{StoredRow, VolumeShared, describe};
use crate::shard_file::ShardFiles;
use crate::state::promises::{asked, key_state};

/// A row as it is now, if that is certain.
enum CurrentRow {
    /// Under this version of the view.
    Row(u64, Option<Row>),
    Moved,
    /// Only the disk can tell.
    OnDisk,
}

/// The reading end of a volume.
#[derive(Debug)]
pub struct Reader {
    pub(crate) shared: Arc<VolumeShared>,
    pub(crate) shard_files: ShardFiles,
    pub(crate) sticky: Arc<FailureFile>,
}

impl Reader {
    /// Reads a row for a register read; with [`Source::Cache`] it never waits for the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the row cannot be read: no vote. [`Error::Failed`].
    pub fn row(
        &self,
        target: &Target,
        values: ValueLimit,
        source: Source,
    ) -> Result<Lookup<Answer<Vote>>, Error> {
        let key = target.rows().row();
        for _ in 0..LOOKUP_TRIES {
            if self.shared.promises.lock().is_busy(key) {
                return Ok(Lookup::Pending);
            }
            let (version, row) = match self.current(target, key, values, source)? {
                CurrentRow::Row(version, row) => (version, row),
                CurrentRow::Moved => continue,
                CurrentRow::OnDisk => return Ok(Lookup::Pending),
            };
            let view = self.shared.view.read();
            if view.version != version {
                continue;
            }
            if target.epoch > view.small.epoch_of(target.slot) {
                // A later epoch is recorded before anything is answered under it.
                return Ok(Lookup::Pending);
            }
            let head = row.as_ref().map(|row| row.head);
            let restart_bound = Ballot::ZERO;
            let state = view.small.acceptor(restart_bound);
            let key_state = key_state(&view.small, target, head.as_ref(), Ballot::ZERO);
            let judged = judge_read(&state, &key_state, asked(target, self.shared.clock.as_ref()));
            return Ok(Lookup::Immediate(Answer {
                from: view.small.answerer(view.durable),
                result: judged.map(|()| Vote { row, floor: view.small.floor }),
            }));
        }
        Ok(Lookup::Pending)
    }

    /// Promises a ballot without the queue, where nothing has to become durable for it; with
    /// [`Source::Cache`] it never waits for the disk.
    ///
    /// # Errors
    /// As [`Reader::row`].
    pub fn prepare(
        &self,
        target: &Target,
        prepare: &Prepare,
        values: ValueLimit,
        source: Source,
    ) -> Result<Lookup<Answer<Vote>>, Error> {
        let key = target.rows().row();
        for _ in 0..LOOKUP_TRIES {
            let (version, row) = match self.current(target, key, values, source)? {
                CurrentRow::Row(version, row) => (version, row),
                CurrentRow::Moved => continue,
                CurrentRow::OnDisk => return Ok(Lookup::Pending),
            };
            let mut promises = self.shared.promises.lock();
            if promises.is_busy(key) {
                return Ok(Lookup::Pending);
            }
            let view = self.shared.view.read();
            if view.version != version {
                continue;
            }
            if target.epoch > view.small.epoch_of(target.slot) {
                // A later epoch is recorded before anything is answered under it.
                return Ok(Lookup::Pending);
            }
            let head = row.as_ref().map(|row| row.head);
            let state = view.small.acceptor(promises.restart_bound);
            let key_state = key_state(&view.small, target, head.as_ref(), promises.of(key));
            let asked = asked(target, self.shared.clock.as_ref());
            let result = match judge_prepare(&state, &key_state, asked, prepare.ballot) {
                Ok(promise) if promise.needs_bound.is_some() => return Ok(Lookup::Pending),
                Ok(_) => {
                    promises.note(key, prepare.ballot);
                    promises.is_active = true;
                    Ok(Vote { row, floor: view.small.floor })
                }
                Err(refusal) => Err(refusal),
            };
            return Ok(Lookup::Immediate(Answer { from: view.small.answerer(view.durable), result }));
        }
        Ok(Lookup::Pending)
    }

    /// The version of the view and the row under it.
    fn current(
        &self,
        target: &Target,
        key: &Bytes,
        values: ValueLimit,
        source: Source,
    ) -> Result<CurrentRow, Error> {
        self.shared.check()?;
        let version = self.shared.view.read().version;
        let stored = match self.shared.stored(key, source)? {
            Lookup::Immediate(Some(stored)) => stored,
            Lookup::Immediate(None) => return Ok(CurrentRow::Row(version, None)),
            Lookup::Pending => return Ok(CurrentRow::OnDisk),
        };
        let head = stored.head();
        let value_bytes = stored.row.head_bytes;
        if !values.takes(value_bytes) {
            return Ok(CurrentRow::Row(version, Some(Row { head, value_bytes, value: None })));
        }
        match self.shared.value(&target.key, &stored, source) {
            Err(Error::NotFound) => Ok(CurrentRow::Moved),
            Err(error) => Err(error),
            Ok(Lookup::Immediate(value)) => {
                Ok(CurrentRow::Row(version, Some(Row { head, value_bytes, value: Some(value) })))
            }
            Ok(Lookup::Pending) => Ok(CurrentRow::OnDisk),
        }
    }

    /// Whether the volume refuses what needs room, as it was last seen.
    pub fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// Refuses what a topology out of force asks.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn judge_epoch(&self, target: &Target) -> Result<(), Error> {
        let seen = self.shared.view.read().small.epoch_of(target.slot);
        judge_epoch(target.epoch, seen).map_err(Error::Refused)
    }

    /// The inline bytes of a row at a ballot, verified; with [`Source::Cache`] it never waits for the
    /// disk.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the row has another ballot by now, [`Error::Corrupt`],
    /// [`Error::Refused`].
    pub fn inline(&self, target: &Target, ballot: Ballot, source: Source) -> Result<Lookup<Bytes>, Error> {
        self.shared.check()?;
        self.judge_epoch(target)?;
        let key = &target.key;
        for _ in 0..LOOKUP_TRIES {
            let stored = match self.shared.stored(target.rows().row(), source)? {
                Lookup::Immediate(stored) => stored,
                Lookup::Pending => return Ok(Lookup::Pending),
            };
            let stored = stored.filter(|stored| stored.row.head.ballot == ballot).ok_or(Error::NotFound)?;
            let start = u64::from(stored.row.head_bytes);
            let range = start..start + u64::from(stored.row.inline_bytes);
            match self.shared.row_payload(key, &stored, range, source) {
                Err(Error::NotFound) => {}
                other => return other,
            }
        }
        Err(self.shared.corrupt(describe(key, ballot)))
    }

    /// A range of a packed shard, verified; with [`Source::Cache`] it never waits for the disk.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Corrupt`] (also for a range behind the end), [`Error::Busy`]
    /// when the pool has no buffer.
    pub fn packed(
        &self,
        shard: ShardId,
        range: Range<u64>,
        source: Source,
    ) -> Result<Lookup<Vec<Bytes>>, Error> {
        self.shared.check()?;
        let corrupt = || self.shared.corrupt(described(shard));
        for _ in 0..LOOKUP_TRIES {
            let (origin, bytes) = match self.shard_entry(shard, source)? {
                Lookup::Immediate(found) => found,
                Lookup::Pending => return Ok(Lookup::Pending),
            };
            let Some(segment) = self.shared.segments.get(origin.place.segment) else { continue };
            let read = read::open(&segment, origin.place, bytes, source).and_then(|opened| {
                match &opened.subject {
                    Subject::Shard { shard: found, .. } if *found == shard => {}
                    _ => return Err(ReadError::Corrupt),
                }
                opened.payload(range.clone(), &self.shared.buffers)
            });
            return match read {
                Ok(bytes) => Ok(Lookup::Immediate(bytes)),
                Err(ReadError::WouldBlock) => Ok(Lookup::Pending),
                Err(ReadError::Busy) => Err(Error::Busy),
                // Compaction was faster: its entry names another segment by now.
                Err(ReadError::Gone) => continue,
                Err(ReadError::Corrupt | ReadError::Io(_)) => Err(corrupt()),
            };
        }
        // The named segment does not exist, and no other entry replaced this one.
        Err(corrupt())
    }

    fn shard_entry(&self, shard: ShardId, source: Source) -> Result<Lookup<(Origin, u32)>, Error> {
        let entry = match self.shared.entry_from(&shard_key(shard), source)? {
            Lookup::Immediate(entry) => entry.ok_or(Error::NotFound)?,
            Lookup::Pending => return Ok(Lookup::Pending),
        };
        match entry.body {
            Body::Shard { bytes, .. } if self.shared.is_in_log(entry.origin.place) => {
                Ok(Lookup::Immediate((entry.origin, bytes)))
            }
            Body::Shard { .. } | Body::Row(_) | Body::Heal { .. } | Body::State(_) | Body::Release { .. } => {
                Err(Error::NotFound)
            }
        }
    }

    /// Bytes of a packed shard. Its record is looked for: an index that is ahead of the rest of its log names
    /// shards that were lost. A missing shard is not a sign of a bad disk, and not counted as one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Corrupt`] where the disk cannot read it, [`Error::Busy`].
    pub fn packed_len(&self, shard: ShardId) -> Result<u64, Error> {
        self.shared.check()?;
        for _ in 0..LOOKUP_TRIES {
            let (origin, bytes) = self.shard_entry(shard, Source::Disk)?.or_busy()?;
            let Some(segment) = self.shared.segments.get(origin.place.segment) else { continue };
            let found = read::open(&segment, origin.place, bytes, Source::Disk).and_then(|opened| {
                let is_it = matches!(&opened.subject, Subject::Shard { shard: found, .. } if *found == shard);
                if is_it { opened.reaches_its_end() } else { Err(ReadError::Corrupt) }
            });
            return match found {
                Ok(()) => Ok(u64::from(bytes)),
                Err(ReadError::Gone) => continue,
                Err(ReadError::Busy | ReadError::WouldBlock) => Err(Error::Busy),
                Err(ReadError::Corrupt) => Err(Error::NotFound),
                Err(ReadError::Io(_)) => Err(self.shared.corrupt(described(shard))),
            };
        }
        Err(Error::NotFound)
    }

    /// Reads a packed shard from the device, whole and verified. Gives its bytes.
    ///
    /// # Errors
    /// As [`Reader::packed`].
    pub fn verify_packed(&self, shard: ShardId) -> Result<u64, Error> {
        self.shared.check()?;
        let (_, bytes) = self.shard_entry(shard, Source::Disk)?.or_busy()?;
        self.packed(shard, 0..u64::from(bytes), Source::Device)?.or_busy()?;
        Ok(u64::from(bytes))
    }

    /// Reads back from the device, whole and verified, the volume's current record of a subject: the record
    /// that was named may have been replaced or deleted since, and then its bytes do not matter.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when what is current is rotten, [`Error::Busy`], [`Error::Failed`].
    pub fn verify(&self, subject: &Subject) -> Result<(), Error> {
        let read = match subject {
            Subject::Row { key, .. } => self.verify_row(key),
            Subject::Shard { shard, .. } => self.verify_packed(*shard).map(drop),
            // Everything else is answered from the index and the state, not from a record's payload.
            _ => Ok(()),
        };
        match read {
            Err(Error::NotFound) => Ok(()),
            other => other,
        }
    }

    /// Reads a row from the device, whole and verified: its value and its inline bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Corrupt`], [`Error::Busy`] when the pool has no buffer.
    pub fn verify_row(&self, key: &RegisterKey) -> Result<(), Error> {
        self.shared.check()?;
        for _ in 0..LOOKUP_TRIES {
            let stored =
                self.shared.stored(&row_key(key), Source::Disk)?.or_busy()?.ok_or(Error::NotFound)?;
            let bytes = u64::from(stored.row.head_bytes) + u64::from(stored.row.inline_bytes);
            match self.shared.row_payload(key, &stored, 0..bytes, Source::Device) {
                Err(Error::NotFound) => {}
                other => return other?.or_busy().map(drop),
            }
        }
        Err(self.shared.corrupt(format!("row of {key:?}")))
    }

    /// The value of the row that the volume holds under a key, without its inline bytes and without regard to
    /// seals and epochs: for an inspection. `None` if it has no row.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Busy`] when the pool has no buffer, [`Error::Failed`].
    pub fn held_value(&self, key: &RegisterKey) -> Result<Option<Bytes>, Error> {
        self.shared.check()?;
        for _ in 0..LOOKUP_TRIES {
            let Some(stored) = self.shared.stored(&row_key(key), Source::Disk)?.or_busy()? else {
                return Ok(None);
            };
            match self.shared.value(key, &stored, Source::Disk) {
                Err(Error::NotFound) => {}
                other => return other?.or_busy().map(Some),
            }
        }
        Err(self.shared.corrupt(format!("row of {key:?}")))
    }

    /// MRF entries but for wants, in the order of their ids, behind `after`.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn heals(&self, after: Option<HealId>, limit: usize) -> Result<Vec<(HealId, Bytes)>, Error> {
        let from =
            after.map_or_else(|| Bytes::from_static(&[table::HEAL]), |id| behind(&table::heal_key(id)));
        self.collect(&from, table::HEAL, limit, |key, entry| match entry.body {
            Body::Heal { entry } => {
                let id = table::parse_heal_key(key)?;
                table::want_in(id, &entry).is_none().then_some((id, entry))
            }
            Body::Row(_) | Body::Shard { .. } | Body::State(_) | Body::Release { .. } => None,
        })
    }

    /// Notes of replaced data in the order of their ids (oldest first), behind `after`.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn releases(&self, after: Option<ReleaseId>, limit: usize) -> Result<Vec<(ReleaseId, Bytes)>, Error> {
        let from =
            after.map_or_else(|| Bytes::from_static(&[table::RELEASE]), |id| behind(&table::release_key(id)));
        self.collect(&from, table::RELEASE, limit, |key, entry| match entry.body {
            Body::Release { entry } => table::parse_release_key(key).map(|id| (id, entry)),
            Body::Row(_) | Body::Shard { .. } | Body::State(_) | Body::Heal { .. } => None,
        })
    }

    /// Packed shards in the order of their ids (oldest birth first), behind `after`.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn shards(&self, after: Option<ShardId>, limit: usize) -> Result<Vec<SeenShard>, Error> {
        let from = after.map_or_else(|| Bytes::from_static(&[table::SHARD]), |id| behind(&shard_key(id)));
        self.collect(&from, table::SHARD, limit, |key, entry| match entry.body {
            Body::Shard { key: register, .. } => {
                table::parse_shard_key(key).map(|shard| SeenShard { shard, key: register, is_whole: true })
            }
            Body::Row(_) | Body::Heal { .. } | Body::State(_) | Body::Release { .. } => None,
        })
    }

    pub(super) fn collect<T>(
        &self,
        from: &[u8],
        table: u8,
        limit: usize,
        take: impl Fn(&Bytes, Entry) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        self.shared.check()?;
        let mut walk = KeyWalk::new(&self.shared, from, Some(Bytes::copy_from_slice(&[table + 1])));
        let mut taken = Vec::new();
        while taken.len() < limit {
            let Some((key, value)) = walk.next()? else { break };
            let entry = crate::state::apply::decode_entry(&key, value)
                .map_err(|error| self.shared.index_failed(&error))?;
            taken.extend(take(&key, entry));
        }
        Ok(taken)
    }

    /// One page of the volume's seals, of the buckets behind `after`. A page may be shorter than `limit`; an
    /// empty one is the end.
    pub fn seals(&self, after: Option<BucketId>, limit: usize) -> Vec<StoredSeals> {
        self.shared.view.read().small.seals_page(after, limit)
    }

    /// How many buckets are sealed for ever. It never falls while the volume is open.
    pub fn final_seals_count(&self) -> usize {
        self.shared.view.read().small.final_seals_count()
    }

    /// All seals, read page by page, so that none waits long for the volume's state.
    pub fn all_seals(&self) -> impl Iterator<Item = StoredSeals> + '_ {
        let page = |after| Some(self.seals(after, SEALS_PAGE_MAX)).filter(|page| !page.is_empty());
        let next = move |before: &Vec<StoredSeals>| page(before.last().map(|(bucket, _)| *bucket));
        std::iter::successors(page(None), next).flatten()
    }

    /// The seals of deletions that are under way, or were left behind: of buckets that are not sealed for
    /// ever.
    pub fn held_seals(&self) -> Vec<StoredSeals> {
        self.shared.view.read().small.held_seals()
    }

    /// The seals of one bucket.
    pub fn seals_of(&self, bucket: BucketId) -> Seals {
        self.shared.view.read().small.seals_of(bucket)
    }

    /// The volume's durable guarantees.
    pub fn guarantees(&self) -> Guarantees {
        let promised = self.shared.promises.lock().highest();
        self.shared.view.read().small.guarantees(promised)
    }

    /// The volume's notes of its peers' logs: their lives, and positions in them.
    pub fn peers(&self) -> Vec<(VolumeId, (Life, Sequence))> {
        let view = self.shared.view.read();
        view.small.peers.iter().map(|(volume, noted)| (*volume, *noted)).collect()
    }

    /// The volume's memory of its peers, for one of them that was opened.
    pub fn memory(&self) -> Memory {
        let view = self.shared.view.read();
        let is_whole = !view.small.standing().has_lost_state();
        Memory { is_whole, positions: view.small.remembers(), openings: view.small.history() }
    }

    /// The openings of this life.
    pub fn openings(&self) -> OpeningHistory {
        self.shared.view.read().small.history()
    }

    /// The same for a question to a peer; `None` where the log does not name the current one yet: what a peer
    /// noted of it would be missed by the next.
    pub fn openings_to_ask_with(&self) -> Option<OpeningHistory> {
        let view = self.shared.view.read();
        view.small.unnamed_opening().is_none().then(|| view.small.history())
    }

    /// The volume as answerer: life, whether it votes, and how far the log is durable.
    pub fn answerer(&self) -> Answerer {
        self.shared.answerer()
    }

    /// Shards in files of their own.
    pub const fn shard_files(&self) -> &ShardFiles {
        &self.shard_files
    }
}

fn described(shard: ShardId) -> String {
    format!("shard {} of {}", shard.index, shard.data)
}

impl VolumeShared {
    /// Whether a place is one that a replay comes to. Bytes that a cut left behind the end of their segment
    /// may still be readable, and go when the segment is let go; so may a whole record in a range that was
    /// noted as missing, and it goes when the index is rebuilt. Neither is found while it is there: it would
    /// count until then, and its loss would not be reported.
    ///
    /// Asked for shards. Rows in such a stretch are of a life before: their sequence hides them once the next
    /// one is recovered, and until then they are what can still be saved. Where a forced recovery shows them,
    /// the loss is found again when the index is rebuilt.
    fn is_in_log(&self, place: table::RecordLocation) -> bool {
        if self.noted_losses.iter().any(|range| range.has(place.segment, u64::from(place.offset))) {
            return false;
        }
        let view = self.view.read();
        let sealed = view.small.segments.get(&place.segment);
        sealed.is_none_or(|sealed| u64::from(place.offset) + u64::from(place.bytes) <= sealed.end)
    }

    /// The encoded value of a row: from the entry, or verified from the log. `NotFound` when the
    /// record moved meanwhile.
    pub(crate) fn value(
        &self,
        key: &RegisterKey,
        stored: &StoredRow,
        source: Source,
    ) -> Result<Lookup<Bytes>, Error> {
        match &stored.row.value {
            Some(value) => Ok(Lookup::Immediate(value.clone())),
            None => self.row_payload(key, stored, 0..u64::from(stored.row.head_bytes), source),
        }
    }

    fn row_payload(
        &self,
        key: &RegisterKey,
        stored: &StoredRow,
        range: Range<u64>,
        source: Source,
    ) -> Result<Lookup<Bytes>, Error> {
        let StoredRow { origin, row } = stored;
        let segment = self.segments.get(origin.place.segment).ok_or(Error::NotFound)?;
        let length = row.head_bytes.saturating_add(row.inline_bytes);
        let read = read::open(&segment, origin.place, length, source).and_then(|opened| {
            match &opened.subject {
                Subject::Row { key: found, ballot, .. } if found == key && *ballot == row.head.ballot => {}
                _ => return Err(ReadError::Corrupt),
            }
            opened.payload(range, &self.buffers)
        });
        match read {
            Ok(buffers) => Ok(Lookup::Immediate(read::joined(buffers))),
            Err(ReadError::WouldBlock) => Ok(Lookup::Pending),
            Err(ReadError::Busy) => Err(Error::Busy),
            Err(ReadError::Gone) => Err(Error::NotFound),
            Err(ReadError::Corrupt | ReadError::Io(_)) => Err(self.corrupt(describe(key, row.head.ballot))),
        }
    }
}
