//! Records that opening found rotten become MRF entries in the volume's own log, durable before any call is
//! answered. Until then it is evidence, and the index says that the replay which found it has not ended: a
//! record behind the checkpoint is not replayed, and the damage would stay unknown until a read or the
//! scrubber finds it.

use sherd_core::heal::{DamagedData, HealEntry};
use sherd_core::id::Sequence;

use crate::error::Error;
use crate::format::{Flags, Subject};
use crate::limits::{HEAL_ENTRY_BYTES_MAX, SUBJECT_BYTES_MAX};
use crate::log::append::NewRecord;
use crate::log::replay::FoundRecord;
use crate::write::plan::BatchPlan;
use crate::write::volume::Volume;

const ROTTEN_RECORD_BYTES: u64 = 128;

#[derive(Debug)]
pub(crate) struct RottenRecord {
    pub(crate) placed: Sequence,
    pub(crate) subject: Subject,
}

/// Records that a replay found rotten, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct RottenRecords {
    /// The first ones: as many as memory is spent on.
    pub(crate) named: Vec<RottenRecord>,
    named_bytes: u64,
    /// Where those begin that are not named.
    pub(crate) more_from: Option<Sequence>,
}

impl RottenRecords {
    pub(crate) fn add(&mut self, found: &FoundRecord, bytes_max: u64) {
        let placed = found.placed.placed;
        self.named_bytes += found.subject.encoded_bytes() as u64 + ROTTEN_RECORD_BYTES;
        if self.named_bytes <= bytes_max || self.named.is_empty() {
            self.named.push(RottenRecord { placed, subject: found.subject.clone() });
        } else {
            self.more_from.get_or_insert(placed);
        }
    }
}

/// Queues the heal of every row and shard whose payload is not what was written, and ends the replay that
/// found them. A disk without room for that is not a reason to refuse to open: the next opening finds again
/// the records that are not queued. Returns whether all are queued.
pub(crate) fn queue_damage(volume: &mut Volume, rotten: &RottenRecords) -> Result<bool, Error> {
    let since_ms = volume.shared.clock.wall_ms();
    let at_once = volume.log.batch_bytes_max() / (HEAL_ENTRY_BYTES_MAX + SUBJECT_BYTES_MAX);
    let mut left = rotten.named.as_slice();
    while let Some(first) = left.first() {
        let (records, rest) = left.split_at(at_once.clamp(1, left.len()));
        // The commit may fold what it changes, and with it how far the evidence is queued.
        evidence_begins(volume, rest.first().map(|record| record.placed).or(rotten.more_from));
        match queue_some(volume, records, since_ms) {
            Ok(()) => left = rest,
            Err(Error::Full) => {
                evidence_begins(volume, Some(first.placed));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    volume.shared.check()?;
    Ok(left.is_empty() && rotten.more_from.is_none())
}

/// The replay ends behind evidence that is queued, and not behind any that is left.
const fn evidence_begins(volume: &mut Volume, at: Option<Sequence>) {
    match at {
        Some(from) => volume.derived.begin_replay(from),
        None => volume.derived.end_replay(),
    }
}

fn queue_some(volume: &mut Volume, records: &[RottenRecord], since_ms: u64) -> Result<(), Error> {
    let mut plan = BatchPlan::default();
    for entry in records.iter().filter_map(|record| entry_of(&record.subject, since_ms)) {
        let subject = Subject::Heal { id: entry.id() };
        plan.push(NewRecord::new(subject, Flags::default(), [entry.encode()]));
    }
    // A frame has to stand behind the end of the replay, even if nothing has to be queued.
    if plan.is_empty() { volume.write_empty_frame() } else { volume.commit(plan, 0) }
}

fn entry_of(rotten: &Subject, since_ms: u64) -> Option<HealEntry> {
    let (key, data) = match rotten {
        Subject::Row { key, .. } => (key, None),
        Subject::Shard { shard, key } => (key, Some(DamagedData::Id(shard.data))),
        // A commit hint is sent again, an entry of the queue is in the other volumes' logs too, the sweeper
        // finds the data of a lost release note, and the rest has no payload.
        Subject::Hints
        | Subject::Heal { .. }
        | Subject::Release { .. }
        | Subject::Delete { .. }
        | Subject::Bound(_)
        | Subject::Floor(_)
        | Subject::DataFloor(_)
        | Subject::ClockReading(_)
        | Subject::Epoch { .. }
        | Subject::Seal { .. }
        | Subject::Peer { .. }
        | Subject::PeerNotes { .. }
        | Subject::Opening { .. }
        | Subject::Segment { .. }
        | Subject::Phase { .. } => return None,
    };
    Some(HealEntry { key: key.clone(), data, since_ms })
}
