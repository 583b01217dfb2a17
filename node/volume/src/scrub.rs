//! Verifies what a volume holds, a piece at a time: every living record, then every shard file. It
//! reads from the device, reports, and never repairs.
//!
//! The cursor can be stored and taken up again by the next run. What is written or moved meanwhile
//! was verified by being written; what is deleted meanwhile is no finding.

use bytes::Bytes;

use sherd_core::id::{RegisterKey, ShardId};

use crate::apply::decode_entry;
use crate::error::Error;
use crate::format::Subject;
use crate::log::read::{self, Source};
use crate::reader::{Reader, behind};
use crate::scan::Walk;
use crate::shard_file::ShardCheck;
use crate::table::{Body, Entry, OBJECT, PART, SHARD, key_of, parse_row_key, parse_shard_key};

/// What was found damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A row's record.
    Row(RegisterKey),
    /// A packed shard.
    Packed {
        /// Which.
        shard: ShardId,
        /// The register that should name it.
        key: RegisterKey,
    },
    /// A shard in a file of its own.
    File {
        /// Which.
        shard: ShardId,
    },
}

/// Where a scrub is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubCursor {
    /// Where in the index to go on; `None` when the log's records are done.
    at: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Records { from: Bytes },
    Files { directory: u8, after: Option<ShardId> },
    Done,
}

impl Default for Place {
    fn default() -> Self {
        Self::Records { from: Bytes::from_static(&[OBJECT]) }
    }
}

impl ScrubCursor {
    /// Whether everything was looked at.
    pub fn is_done(&self) -> bool {
        self.at == Place::Done
    }
}

/// What one step of a scrub did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubStep {
    /// Bytes verified.
    pub bytes: u64,
    /// Records and files verified.
    pub checked: u64,
    /// What is damaged.
    pub findings: Vec<Finding>,
}

impl Reader {
    /// Verifies records and files of about `budget_bytes` from the cursor on. A file larger than
    /// that is verified in one go.
    ///
    /// # Errors
    /// [`Error::Failed`]; [`Error::Busy`] when the pool has no buffer: step again later.
    pub fn scrub(&self, cursor: &mut ScrubCursor, budget_bytes: u64) -> Result<ScrubStep, Error> {
        self.shared.check()?;
        let mut step = ScrubStep::default();
        while step.bytes < budget_bytes && !cursor.is_done() {
            cursor.at = match std::mem::take(&mut cursor.at) {
                Place::Records { from } => self.scrub_records(&from, budget_bytes, &mut step)?,
                Place::Files { directory, after } => {
                    self.scrub_files(directory, after, budget_bytes, &mut step)?
                }
                Place::Done => Place::Done,
            };
        }
        Ok(step)
    }

    fn scrub_records(&self, from: &[u8], budget: u64, step: &mut ScrubStep) -> Result<Place, Error> {
        let mut walk = Walk::new(&self.shared, from, Some(Bytes::from_static(&[SHARD + 1])));
        while let Some((key, value)) = walk.next()? {
            let entry = decode_entry(&key, value).map_err(|error| self.shared.index_failed(&error))?;
            if !self.is_whole(&key, &entry)? {
                step.findings.extend(finding(&key, &entry));
            }
            step.bytes += u64::from(entry.origin.place.bytes);
            step.checked += 1;
            if step.bytes >= budget {
                return Ok(Place::Records { from: behind(&key) });
            }
        }
        Ok(Place::Files { directory: 0, after: None })
    }

    /// Whether the record of an entry is what was written, or is this entry's no more.
    fn is_whole(&self, key: &Bytes, entry: &Entry) -> Result<bool, Error> {
        let place = entry.origin.place;
        let payload_bytes = match &entry.body {
            Body::Row(row) => row.head_bytes.saturating_add(row.inline_bytes),
            Body::Shard { bytes, .. } => *bytes,
            Body::Heal { .. } | Body::State(_) | Body::Release { .. } => return Ok(true),
        };
        let verified = match self.shared.segments.get(place.segment) {
            None => false,
            Some(segment) => {
                if let Ok(file) = segment.file() {
                    file.evict(u64::from(place.offset), u64::from(place.bytes));
                }
                let opened = read::open(&segment, place, payload_bytes, Source::Disk);
                let read = opened.and_then(|opened| {
                    let range = 0..u64::from(payload_bytes);
                    opened.payload(&segment, range, &self.shared.buffers, Source::Disk)?;
                    Ok(opened)
                });
                match read {
                    Ok(opened) => names(&opened.subject, key),
                    Err(read::ReadError::Busy) => return Err(Error::Busy),
                    Err(_) => false,
                }
            }
        };
        // Moved, replaced or deleted while it was read: whatever is there now was just written.
        Ok(verified || self.shared.entry(key)?.is_none_or(|now| now.origin != entry.origin))
    }

    fn scrub_files(
        &self,
        directory: u8,
        after: Option<ShardId>,
        budget: u64,
        step: &mut ScrubStep,
    ) -> Result<Place, Error> {
        let mut shards = self.shard_files.list(directory)?;
        shards.sort_unstable();
        for shard in shards.into_iter().filter(|shard| after.is_none_or(|after| *shard > after)) {
            match self.shard_files.check(shard).and_then(|check| verify_file(check, step)) {
                Ok(()) | Err(Error::NotFound) => {}
                Err(Error::Corrupt { .. }) => step.findings.push(Finding::File { shard }),
                Err(error) => return Err(error),
            }
            step.checked += 1;
            if step.bytes >= budget {
                return Ok(Place::Files { directory, after: Some(shard) });
            }
        }
        Ok(directory.checked_add(1).map_or(Place::Done, |next| Place::Files { directory: next, after: None }))
    }
}

/// Bytes of a shard file verified at a time.
const FILE_STEP_BYTES: u64 = 1 << 20;

fn verify_file(mut check: ShardCheck, step: &mut ScrubStep) -> Result<(), Error> {
    step.bytes += check.header().shard_bytes;
    while !check.step(FILE_STEP_BYTES)? {}
    Ok(())
}

/// Whether a record is about an index key.
fn names(subject: &Subject, key: &Bytes) -> bool {
    key_of(subject).as_ref() == Some(key)
}

fn finding(key: &Bytes, entry: &Entry) -> Option<Finding> {
    match (&entry.body, key.first()) {
        (Body::Row(_), Some(&(OBJECT | PART))) => parse_row_key(key).map(Finding::Row),
        (Body::Shard { key: register, .. }, Some(&SHARD)) => {
            parse_shard_key(key).map(|shard| Finding::Packed { shard, key: register.clone() })
        }
        _ => None,
    }
}
