//! An object to another: by the service itself where both are on one, else through memory, part by part.

use std::sync::Arc;

use bytes::BytesMut;

use super::engine::{Engine, run_parts};
use super::fetch::{FetchPart, fetch, verify};
use super::plan::{PartPlan, PlannedPart};
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::client::Client;
use crate::error::Error;
use crate::limits::{HELD_PARTS_MAX, PART_BYTES_MIN, PARTS_MAX, S3_PART_BYTES_MAX};
use crate::payload::{Meter, Payload};
use crate::s3::objects::{CopySource, ObjectAttributes, ObjectInfo, ObjectName, ObjectRange, changed};
use crate::s3::uploads::{StoredPart, Upload};

const ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectSide<'a> {
    pub(crate) client: &'a Client,
    pub(crate) object: &'a ObjectName,
}

impl Engine {
    /// Copies an object with its headers; `attributes` replace those. Returns what was copied.
    pub(crate) async fn copy(
        &self,
        from: ObjectSide<'_>,
        to: ObjectSide<'_>,
        attributes: Option<&ObjectAttributes>,
    ) -> Result<ObjectInfo, Error> {
        let info = {
            let _place = self.place().await;
            from.client.head(from.object).await?
        };
        if !from.client.is_same_service(to.client) {
            self.relay(from, to, attributes, &info).await?;
        } else if info.bytes <= S3_PART_BYTES_MAX {
            let source = CopySource { object: from.object, etag: &info.etag };
            let _place = self.place().await;
            to.client
                .copy(&source, to.object, attributes)
                .await
                .map_err(|error| changed(error, from.object))?;
            self.progress().meter().add(usize::try_from(info.bytes).unwrap_or(usize::MAX));
        } else {
            self.copy_parts(from, to, attributes, &info).await?;
        }
        Ok(info)
    }

    async fn copy_parts(
        &self,
        from: ObjectSide<'_>,
        to: ObjectSide<'_>,
        attributes: Option<&ObjectAttributes>,
        info: &ObjectInfo,
    ) -> Result<(), Error> {
        let plan = self.plan(info.bytes)?;
        let attributes = attributes.unwrap_or(&info.attributes);
        let upload = Arc::new(Upload::begin_copy(to.client, to.object, attributes).await?);
        let copy = |part: PlannedPart| {
            let (engine, upload) = (self.clone(), Arc::clone(&upload));
            let (object, etag) = (from.object.clone(), info.etag.clone());
            async move {
                let _place = engine.place().await;
                let source = CopySource { object: &object, etag: &etag };
                let copied = upload.copy_part(part.number, &source, part.offset, part.bytes).await;
                let copied = copied.map_err(|error| changed(error, &object))?;
                engine.progress().meter().add(usize::try_from(part.bytes).unwrap_or(usize::MAX));
                Ok(copied)
            }
        };
        let mut parts = Vec::new();
        let ran = run_parts(plan.parts(), plan.in_flight, copy, |part| {
            parts.push(part);
            Ok(())
        })
        .await;
        finish(upload, ran, parts, None).await
    }

    /// Carries an object from one service to another.
    async fn relay(
        &self,
        from: ObjectSide<'_>,
        to: ObjectSide<'_>,
        attributes: Option<&ObjectAttributes>,
        info: &ObjectInfo,
    ) -> Result<(), Error> {
        let attributes = attributes.unwrap_or(&info.attributes);
        if info.bytes <= PART_BYTES_MIN {
            let _held = self.held_place().await;
            let mut body = BytesMut::new();
            if info.bytes > 0 {
                // Of the version whose headers go with it.
                let range = ObjectRange { offset: 0, bytes: info.bytes, etag: info.etag.clone() };
                let algorithm = info.checksum.as_ref().map_or(ALGORITHM, |(algorithm, _)| *algorithm);
                let part = FetchPart::Range(range, algorithm);
                let fetched = fetch(self, from.client, from.object, part, &mut body).await?;
                verify(from.object, info, fetched.checksum)?;
            }
            let checksum = Checksum::of(ALGORITHM, &body);
            let payload = Payload::Bytes(body.freeze());
            let meter = Meter::default();
            return to.client.put(to.object, payload, checksum, attributes, &meter).await.map(drop);
        }
        let workers = self.settings().workers.min(HELD_PARTS_MAX);
        let part_bytes = PART_BYTES_MIN.max(info.bytes.div_ceil(PARTS_MAX));
        let plan =
            PartPlan::new(info.bytes, workers, Some(self.settings().part_bytes.unwrap_or(part_bytes)))?;
        let upload = Arc::new(Upload::begin(to.client, to.object, attributes).await?);
        let carry = |part: PlannedPart| {
            let (engine, upload, client) = (self.clone(), Arc::clone(&upload), from.client.clone());
            let (object, etag) = (from.object.clone(), info.etag.clone());
            async move {
                let _held = engine.held_place().await;
                let range = ObjectRange { offset: part.offset, bytes: part.bytes, etag };
                let mut body = BytesMut::new();
                let part_of = FetchPart::Range(range, ALGORITHM);
                let checksum = fetch(&engine, &client, &object, part_of, &mut body).await?.checksum;
                let payload = Payload::Bytes(body.freeze());
                let meter = Meter::default();
                Ok((upload.put_part(part.number, payload, checksum, &meter).await?, checksum))
            }
        };
        let mut parts = Vec::new();
        let ran = run_parts(plan.parts(), plan.in_flight, carry, |part| {
            parts.push(part);
            Ok(())
        })
        .await;
        parts.sort_unstable_by_key(|(part, _): &(StoredPart, Checksum)| part.number);
        let whole = parts.iter().map(|(_, checksum)| *checksum).reduce(Checksum::followed_by);
        let ran = match (ran, whole) {
            (Ok(()), Some(whole)) => verify(from.object, info, whole),
            (ran, _) => ran,
        };
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        finish(upload, ran, parts, whole).await
    }
}

/// Completes or removes an upload whose parts have ended.
async fn finish(
    upload: Arc<Upload>,
    ran: Result<(), Error>,
    mut parts: Vec<StoredPart>,
    whole: Option<Checksum>,
) -> Result<(), Error> {
    let mut upload = Arc::into_inner(upload).expect("the tasks of the parts have ended");
    parts.sort_unstable_by_key(|part| part.number);
    let ended = match ran {
        Ok(()) => upload.complete(&parts, whole).await.map(drop),
        Err(error) => Err(error),
    };
    if ended.is_err() {
        let _left_for_rules_of_the_bucket = upload.abort().await;
    }
    ended
}
