//! The end of an upload: its attributes and its parts are tombstoned, and data that the object does not name
//! is released.

use futures::{StreamExt, stream};

use sherd_core::id::{ObjectKey, PartKey, UploadId};

use super::attributes;
use super::parts::{CONCURRENT_PARTS, UploadRegisters, open_upload, part_route};
use crate::cluster::KeyRoute;
use crate::object::error::Result;
use crate::object::limits::CLOSED_PARTS_PAGE;
use crate::register::QuorumRow;

/// Tombstones the attributes and the parts of a closed upload, in the background; data that the object does
/// not name is released. The scrubber finds what a crash leaves of this.
pub(super) fn close_upload(
    registers: &UploadRegisters,
    bucket: ObjectKey,
    object: KeyRoute,
    upload: UploadId,
) {
    let registers = registers.clone();
    let tasks = registers.under.registers.tasks().clone();
    tasks.spawn(async move {
        if let Err(error) = tombstone_parts(&registers, &bucket, &object, upload).await {
            tracing::warn!(%upload, %error, "the parts of a closed upload are left to the scrubber");
        }
    });
}

async fn tombstone_parts(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    upload: UploadId,
) -> Result<()> {
    // Before the parts: a Complete that comes too late sees by their absence that the upload is closed.
    attributes::tombstone(registers, bucket, object, upload).await?;
    let mut parts = registers.parts_behind(bucket, object, upload, None, CLOSED_PARTS_PAGE).await?;
    if parts.is_empty() {
        return Ok(());
    }
    let found = registers.under.find(bucket, object).await?;
    let kept = registers.kept_data(object, found.as_ref()).await?;
    drop(found);
    while let Some(last) = parts.last().map(|part| part.part.number) {
        let kept = &kept;
        let changes = parts.into_iter().map(|part| async move {
            registers.tombstone_part(bucket, &part_route(object, upload, part.part.number), kept).await
        });
        // Each change that began is brought to its end, whether another failed or not.
        let results: Vec<Result<()>> =
            stream::iter(changes).buffer_unordered(CONCURRENT_PARTS).collect().await;
        results.into_iter().collect::<Result<()>>()?;
        parts = registers.parts_behind(bucket, object, upload, Some(last), CLOSED_PARTS_PAGE).await?;
    }
    Ok(())
}

/// Tombstones a part whose upload was closed while it was put: what closed it did not see the part, and
/// before the scrubber no other looks. No reason to refuse the part: it was put while the upload was open,
/// and what closed it may have seen it, in an object that is replaced by now.
pub(super) async fn close_late_part(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    part: PartKey,
) -> Result<()> {
    let found = registers.under.find(bucket, object).await?;
    let holder = found.as_ref().and_then(QuorumRow::object);
    if open_upload(holder, part.upload).is_ok() {
        return Ok(());
    }
    let kept = registers.kept_data(object, found.as_ref()).await?;
    drop(found);
    registers.tombstone_part(bucket, &object.part(part), &kept).await
}
