//! The parts of an upload: found by ordered scans, tombstoned when the upload is closed.

use std::collections::HashSet;

use sherd_core::id::{DataId, ObjectKey, PartKey, RegisterKey, UploadId};
use sherd_core::limits;
use sherd_core::record::{DataRef, Part, State, Value};

use crate::object::{Error, Objects, PartInfo, Result, Unavailable};
use crate::peer::PartsScan;
use crate::register::{Found, Inline, Proposal};
use crate::upkeep::kept_by;

/// Parts that are looked at, and then tombstoned, at one time.
const PAGE: usize = 100;

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
        State::Tombstone | State::Object(_) | State::Bucket(_) => None,
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
        let mut after = after;
        while parts.len() < max {
            let numbers = self.part_numbers(object, upload, after).await?;
            let Some(last) = numbers.last().copied() else { break };
            for number in numbers {
                let key = part_key(object, upload, number);
                let found = self.find(bucket, &key).await?;
                parts.extend(found.as_ref().and_then(|found| part_in(&found.value)).cloned());
                if parts.len() == max {
                    return Ok(parts);
                }
            }
            after = Some(last);
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
        const PAGE: usize = 1000;
        let set = self.inner.cluster.set_of(object);
        let mut answered = 0;
        let mut horizon = limits::PARTS_MAX;
        let mut numbers = std::collections::BTreeSet::new();
        for reach in &set.reach {
            let scan = PartsScan { bucket: object.bucket, upload, after, limit: PAGE };
            let answer = reach.peer.parts(reach.volume, &scan).await;
            let Ok(answer) = answer else { continue };
            let Ok(rows) = answer.result else { continue };
            if !answer.from.votes {
                continue;
            }
            let named: Vec<u16> = rows.iter().filter_map(|row| Some(row.key.part?.number)).collect();
            if let (true, Some(last)) = (rows.len() >= PAGE, named.last()) {
                horizon = horizon.min(*last);
            }
            numbers.extend(named);
            answered += 1;
            if answered == set.quorums().prepare() {
                return Ok(numbers.into_iter().take_while(|number| *number <= horizon).collect());
            }
        }
        Err(Unavailable::Quorum.into())
    }

    /// Tombstones the parts of a closed upload, in the background; data that the object does not
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
        let mut parts = self.parts_behind(bucket, object, upload, None, PAGE).await?;
        if parts.is_empty() {
            return Ok(());
        }
        // The upload is closed: what the object does not name by now, it never gets from a part.
        let kept: Vec<DataRef> = match self.find(bucket, object).await? {
            Some(found) => kept_by(&self.inner.stripes, object, &found.value)
                .await
                .map_err(|error| Error::Internal { what: format!("what an object keeps: {error}") })?,
            None => Vec::new(),
        };
        let kept: HashSet<DataId> = kept.into_iter().map(|data| data.id).collect();
        while let Some(last) = parts.last().map(|part| part.part.number) {
            for part in parts {
                let key = part_key(object, upload, part.part.number);
                let begun = self.inner.registers.begin(&key);
                let gone = self.change(bucket, &key, begun, None, |_: Option<&Found>| {
                    Ok(Proposal {
                        state: State::Tombstone,
                        inline: Inline::Nothing,
                        carried: Vec::new(),
                        heal: None,
                    })
                });
                let replaced = gone.await?.replaced;
                let mut data = replaced.map(|found| found.value.data_refs()).unwrap_or_default();
                data.retain(|data| !kept.contains(&data.id));
                if !data.is_empty() {
                    self.inner.damage.superseded(&key, data, Vec::new());
                }
            }
            parts = self.parts_behind(bucket, object, upload, Some(last), PAGE).await?;
        }
        Ok(())
    }
}

/// The register of one part.
pub(super) fn part_key(object: &RegisterKey, upload: UploadId, number: u16) -> RegisterKey {
    RegisterKey::part(object.bucket, object.key.clone(), PartKey { upload, number })
}
