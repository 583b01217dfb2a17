//! The registers of an upload: the row of its key, which has it open, and its parts, which are found by
//! ordered scans.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use sherd_core::id::{DataId, ObjectKey, PartKey, UploadId};
use sherd_core::limits;
use sherd_core::message;
use sherd_core::message::{Answer, PartsScan, ScannedRow, Target};
use sherd_core::record::{DataRef, Object, Part, State, Upload, Value};

use crate::cluster::KeyRoute;
use crate::object::bucket::look_up::BucketRegisters;
use crate::object::error::{Error, MissingResource, Result, UnavailableReason};
use crate::object::limits::{SCAN_BUSY_PAUSE, SCAN_HEDGE, SCAN_PATIENCE};
use crate::object::request::PartInfo;
use crate::peer::HedgedGather;
use crate::register::refs::kept_by;
use crate::register::{Proposal, QuorumRow, Writer};
use crate::stripe::Stripes;

/// Part registers that are read, or changed, at one time: a page of a thousand takes some sixty rounds
/// instead of a thousand, and one request asks no volume for more than a batch of rows at once.
pub(super) const CONCURRENT_PARTS: usize = 16;

/// A part as S3 shows it.
pub(super) fn info(part: Part) -> PartInfo {
    PartInfo {
        number: part.part.number,
        size: part.part.size(),
        etag: part.part.etag(),
        modified_ms: part.modified_ms,
        checksum: part.part.checksum,
    }
}

/// The part that a register holds.
pub(super) fn part_in(value: &Value) -> Option<&Part> {
    match &value.state {
        State::Part(part) => Some(part),
        State::Tombstone | State::Object(_) | State::Bucket(_) | State::UploadAttributes(_) => None,
    }
}

/// The upload of that id, while it is open.
pub(super) fn open_upload(object: Option<&Object>, id: UploadId) -> Result<&Upload> {
    let uploads = object.map(|object| object.uploads.as_slice()).unwrap_or_default();
    uploads.iter().find(|upload| upload.id == id).ok_or(Error::Missing(MissingResource::Upload))
}

/// The registers of uploads. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::object) struct UploadRegisters {
    pub(in crate::object) under: BucketRegisters,
    pub(super) stripes: Stripes,
}

impl UploadRegisters {
    /// Up to `max` parts of an upload behind number `after`, in order.
    ///
    /// The scans of P volumes name every part that was ever acknowledged; which of the named are
    /// parts still is read from their registers.
    pub(super) async fn parts_behind(
        &self,
        bucket: &ObjectKey,
        object: &KeyRoute,
        upload: UploadId,
        after: Option<u16>,
        max: usize,
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        // S3's numbers begin at 1.
        let mut after = after.unwrap_or(PartKey::ATTRIBUTES);
        while parts.len() < max {
            let numbers = self.part_numbers(object, upload, Some(after)).await?;
            let Some(last) = numbers.last().copied() else { break };
            let reads = numbers.into_iter().map(|number| async move {
                let found = self.under.find(bucket, &part_route(object, upload, number)).await?;
                Ok::<_, Error>(found.as_ref().and_then(|found| part_in(&found.value)).cloned())
            });
            let mut found = stream::iter(reads).buffered(CONCURRENT_PARTS);
            while let Some(part) = found.try_next().await? {
                parts.extend(part);
                if parts.len() == max {
                    return Ok(parts);
                }
            }
            after = last;
        }
        Ok(parts)
    }

    /// Part numbers behind `after` that P volumes name, in order, up to where all of them were
    /// scanned; empty at the end.
    async fn part_numbers(
        &self,
        object: &KeyRoute,
        upload: UploadId,
        after: Option<u16>,
    ) -> Result<Vec<u16>> {
        const SCAN_ROWS: usize = 1000;
        let KeyRoute { set, target: Target { key, slot, epoch, .. } } = object;
        let (bucket, slot, epoch) = (key.bucket, *slot, *epoch);
        let scan = PartsScan { bucket, upload, slot, epoch, after, limit: SCAN_ROWS };
        let (mut scans, mut is_busy) = (Vec::new(), false);
        let voters = set.quorums().prepare();
        let mut asked = HedgedGather::new(set.prompt_first(0), SCAN_HEDGE, Instant::now() + SCAN_PATIENCE);
        let parts = |place: usize| {
            let route = &set.routes[place];
            route.peer.parts(route.volume, &scan)
        };
        while let Some((place, answer)) = asked.next(voters - scans.len(), parts).await {
            let route = &set.routes[place];
            if matches!(answer, Err(message::Error::Busy)) {
                // A busy volume is up: it is asked again, behind the others and after a moment.
                is_busy = true;
                tokio::time::sleep(SCAN_BUSY_PAUSE).await;
                asked.ask_again(place);
                continue;
            }
            let Ok(Answer { from, result: Ok(rows) }) = answer else { continue };
            self.under.registers.learn(route.volume, &from);
            scans.push((route.volume, from, rows));
            // A later answer may say that an earlier one is of a life that is over.
            let lives = self.under.registers.known_lives();
            scans.retain(|(volume, from, _)| lives.counts(*volume, from));
            if scans.len() == voters {
                return Ok(numbers_in(scans.iter().map(|(_, _, rows)| rows.as_slice()), SCAN_ROWS));
            }
        }
        Err(if is_busy { UnavailableReason::ListsBusy } else { UnavailableReason::Quorum }.into())
    }

    /// The data that an object keeps of the parts of its closed uploads: what it does not name by now, it
    /// never gets from a part.
    pub(super) async fn kept_data(
        &self,
        object: &KeyRoute,
        found: Option<&QuorumRow>,
    ) -> Result<Arc<HashSet<DataId>>> {
        let kept: Vec<DataRef> = match found {
            Some(found) => kept_by(&self.stripes, object.key(), &found.value)
                .await
                .map_err(|error| Error::Internal { what: format!("what an object keeps: {error}") })?,
            None => Vec::new(),
        };
        Ok(Arc::new(kept.into_iter().map(|data| data.id).collect()))
    }

    pub(super) async fn tombstone_part(
        &self,
        bucket: &ObjectKey,
        part: &KeyRoute,
        kept: &Arc<HashSet<DataId>>,
    ) -> Result<()> {
        let ticket = self.under.registers.begin_at(part);
        let kept = Arc::clone(kept);
        let decide = move |state: Option<&State>| {
            let held = state.map(State::data_refs).unwrap_or_default();
            let handed_over = held.iter().map(|data| data.id).filter(|id| kept.contains(id)).collect();
            Ok(Proposal { handed_over, ..Proposal::of(State::Tombstone) })
        };
        self.under.change(bucket, part, ticket, Writer::new(decide)).await
    }
}

/// The part numbers of several scans in order, up to where the shortest full page ends.
fn numbers_in<'a>(scans: impl Iterator<Item = &'a [ScannedRow]>, page: usize) -> Vec<u16> {
    let mut horizon = limits::PARTS_MAX;
    let mut numbers = BTreeSet::new();
    for rows in scans {
        let named = rows.iter().filter_map(|row| Some(row.key.part?.number));
        if let (true, Some(last)) = (rows.len() >= page, named.clone().last()) {
            horizon = horizon.min(last);
        }
        numbers.extend(named);
    }
    numbers.into_iter().take_while(|number| *number <= horizon).collect()
}

/// Where the register of one part lies.
pub(super) fn part_route(object: &KeyRoute, upload: UploadId, number: u16) -> KeyRoute {
    object.part(PartKey { upload, number })
}

#[cfg(test)]
mod tests;
