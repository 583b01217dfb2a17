//! The parts of an upload: found by ordered scans, tombstoned when the upload is closed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use sherd_core::id::{DataId, ObjectKey, PartKey, RegisterKey, UploadId};
use sherd_core::limits;
use sherd_core::message;
use sherd_core::message::{Answer, PartsScan, ScannedRow, Target};
use sherd_core::record::{DataRef, Part, State, Value};

use super::open_upload;
use crate::object::{Error, Objects, PartInfo, Result, SCAN_HEDGE, SCAN_PATIENCE, UnavailableReason};
use crate::peer::HedgedGather;
use crate::register::refs::kept_by;
use crate::register::{Proposal, QuorumRow, Writer};

/// Parts that are looked at before they are tombstoned.
const PAGE: usize = 100;
/// Before a volume is asked again whose line of scans is full: a page takes a few milliseconds.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Part registers that are read, or changed, at one time: a page of a thousand takes some sixty rounds instead of a
/// thousand, and one request asks no volume for more than a batch of rows at once.
const CONCURRENT_PARTS: usize = 16;

/// What S3 shows of a part.
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

impl Objects {
    /// Up to `max` parts of an upload behind number `after`, in order.
    ///
    /// The scans of P volumes name every part that was ever acknowledged; which of the named are
    /// parts still is read from their registers.
    pub(super) async fn parts_behind(
        &self,
        bucket: &ObjectKey,
        object: &RegisterKey,
        upload: UploadId,
        after: Option<u16>,
        max: usize,
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        // Number 0 is none of S3's.
        let mut after = after.unwrap_or(PartKey::ATTRIBUTES);
        while parts.len() < max {
            let numbers = self.part_numbers(object, upload, Some(after)).await?;
            let Some(last) = numbers.last().copied() else { break };
            let reads = numbers.into_iter().map(|number| async move {
                let found = self.find(bucket, &part_key(object, upload, number)).await?;
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
        object: &RegisterKey,
        upload: UploadId,
        after: Option<u16>,
    ) -> Result<Vec<u16>> {
        const SCAN_ROWS: usize = 1000;
        let set = self.inner.cluster.set_of(object);
        let Target { slot, epoch, .. } = self.inner.cluster.target(object.clone());
        let scan = PartsScan { bucket: object.bucket, upload, slot, epoch, after, limit: SCAN_ROWS };
        let (mut scans, mut is_busy) = (Vec::new(), false);
        let voters = set.quorums().prepare();
        let mut asked = HedgedGather::new(set.prompt_first(0), SCAN_HEDGE, Instant::now() + SCAN_PATIENCE);
        let parts = |place: usize| {
            let route = &set.routes[place];
            route.registers.parts(route.volume, &scan)
        };
        while let Some((place, answer)) = asked.next(voters - scans.len(), parts).await {
            let route = &set.routes[place];
            if matches!(answer, Err(message::Error::Busy)) {
                // It is up: it is asked again, behind the others and after a moment.
                is_busy = true;
                tokio::time::sleep(BUSY_PAUSE).await;
                asked.ask_again(place);
                continue;
            }
            let Ok(Answer { from, result: Ok(rows) }) = answer else { continue };
            self.inner.registers.learn(route.volume, &from);
            scans.push((route.volume, from, rows));
            // A later answer may say that an earlier one is of a life that is over.
            let lives = self.inner.registers.known_lives();
            scans.retain(|(volume, from, _)| lives.counts(*volume, from));
            if scans.len() == voters {
                return Ok(numbers_in(scans.iter().map(|(_, _, rows)| rows.as_slice()), SCAN_ROWS));
            }
        }
        Err(if is_busy { UnavailableReason::ListsBusy } else { UnavailableReason::Quorum }.into())
    }

    /// Tombstones the attributes and the parts of a closed upload, in the background; data that the object does not
    /// name is released. What a crash leaves of this, the scrubber finds.
    pub(super) fn close_upload(&self, bucket: ObjectKey, object: RegisterKey, upload: UploadId) {
        let objects = self.clone();
        self.inner.registers.tasks().spawn(async move {
            if let Err(error) = objects.tombstone_parts(&bucket, &object, upload).await {
                tracing::warn!(%upload, %error, "the parts of a closed upload are left to the scrubber");
            }
        });
    }

    async fn tombstone_parts(
        &self,
        bucket: &ObjectKey,
        object: &RegisterKey,
        upload: UploadId,
    ) -> Result<()> {
        // First of all: a Complete that comes too late is told so by their absence, before it looks for parts.
        self.tombstone_attributes(bucket, object, upload).await?;
        let mut parts = self.parts_behind(bucket, object, upload, None, PAGE).await?;
        if parts.is_empty() {
            return Ok(());
        }
        let found = self.find(bucket, object).await?;
        let kept = self.kept_data(object, found.as_ref()).await?;
        drop(found);
        while let Some(last) = parts.last().map(|part| part.part.number) {
            let kept = &kept;
            let changes = parts.into_iter().map(|part| async move {
                self.tombstone_part(bucket, &part_key(object, upload, part.part.number), kept).await
            });
            // Each change that began is brought to its end, whether another failed or not.
            let results: Vec<Result<()>> =
                stream::iter(changes).buffer_unordered(CONCURRENT_PARTS).collect().await;
            results.into_iter().collect::<Result<()>>()?;
            parts = self.parts_behind(bucket, object, upload, Some(last), PAGE).await?;
        }
        Ok(())
    }

    /// The data that an object keeps of the parts of its closed uploads: what it does not name by now, it never gets
    /// from a part.
    async fn kept_data(
        &self,
        object: &RegisterKey,
        found: Option<&QuorumRow>,
    ) -> Result<Arc<HashSet<DataId>>> {
        let kept: Vec<DataRef> = match found {
            Some(found) => kept_by(&self.inner.stripes, object, &found.value)
                .await
                .map_err(|error| Error::Internal { what: format!("what an object keeps: {error}") })?,
            None => Vec::new(),
        };
        Ok(Arc::new(kept.into_iter().map(|data| data.id).collect()))
    }

    pub(super) async fn tombstone_part(
        &self,
        bucket: &ObjectKey,
        part: &RegisterKey,
        kept: &Arc<HashSet<DataId>>,
    ) -> Result<()> {
        let ticket = self.inner.registers.begin(part);
        let kept = Arc::clone(kept);
        let decide = move |state: Option<&State>| {
            let held = state.map(State::data_refs).unwrap_or_default();
            let handed_over = held.iter().map(|data| data.id).filter(|id| kept.contains(id)).collect();
            Ok(Proposal { handed_over, ..Proposal::of(State::Tombstone) })
        };
        self.change(bucket, part, ticket, Writer::new(decide)).await.map(drop)
    }

    /// Tombstones a part whose upload was closed while it was put: those who closed it did not see it, and nobody else
    /// looks before the scrubber. No reason to refuse the part: it was put while the upload was open, and whoever
    /// closed it may have seen it, in an object that is replaced by now.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub(super) async fn close_late_part(
        &self,
        bucket: &ObjectKey,
        object: &RegisterKey,
        part: PartKey,
    ) -> Result<()> {
        let found = self.find(bucket, object).await?;
        let holder = found.as_ref().and_then(QuorumRow::object);
        if open_upload(holder, part.upload).is_ok() {
            return Ok(());
        }
        let kept = self.kept_data(object, found.as_ref()).await?;
        drop(found);
        self.tombstone_part(bucket, &part_key(object, part.upload, part.number), &kept).await
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

/// The register of one part.
pub(super) fn part_key(object: &RegisterKey, upload: UploadId, number: u16) -> RegisterKey {
    RegisterKey::part(object.bucket, object.key.clone(), PartKey { upload, number })
}

#[cfg(test)]
mod tests;
