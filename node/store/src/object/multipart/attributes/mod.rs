//! What the object of an open upload will carry lies in a register of the upload's own, its part 0: the row
//! of a key with a thousand uploads stays short. It is durable before the row names its upload, and goes when
//! the upload is closed.

use std::sync::Arc;

use sherd_core::id::{ObjectKey, PartKey, UploadId};
use sherd_core::record::{Attributes, State, Upload as OpenUpload, Value};

use super::parts::{UploadRegisters, part_route};
use crate::cluster::KeyRoute;
use crate::object::error::{Error, Result};
use crate::register::{Proposal, Writer};

/// The attributes that an upload's part 0 holds.
fn attributes_in(value: &Value) -> Option<&Attributes> {
    match &value.state {
        State::UploadAttributes(attributes) => Some(attributes),
        State::Tombstone | State::Object(_) | State::Part(_) | State::Bucket(_) => None,
    }
}

/// Stores the attributes of an upload that is about to begin.
pub(super) async fn put(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    upload: UploadId,
    attributes: Attributes,
) -> Result<()> {
    let route = part_route(object, upload, PartKey::ATTRIBUTES);
    let ticket = registers.under.registers.begin_at(&route);
    let decide = move |_: Option<&State>| Ok(Proposal::of(State::UploadAttributes(attributes.clone())));
    registers.under.change(bucket, &route, ticket, Writer::new(decide)).await
}

/// The attributes of an upload that was open a moment ago; `None` where they are gone, as they are once it is
/// closed.
pub(super) async fn of(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    opened: &OpenUpload,
) -> Result<Option<Attributes>> {
    match &opened.attributes {
        Some(attributes) => Ok(Some(attributes.clone())),
        None => stored(registers, bucket, object, opened.id).await,
    }
}

async fn stored(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    upload: UploadId,
) -> Result<Option<Attributes>> {
    let route = part_route(object, upload, PartKey::ATTRIBUTES);
    let found = registers.under.find(bucket, &route).await?;
    Ok(found.as_ref().and_then(|found| attributes_in(&found.value)).cloned())
}

/// Tombstones the attributes of an upload that is closed, or will never be open.
pub(super) async fn tombstone(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    upload: UploadId,
) -> Result<()> {
    if stored(registers, bucket, object, upload).await?.is_none() {
        return Ok(());
    }
    let route = part_route(object, upload, PartKey::ATTRIBUTES);
    registers.tombstone_part(bucket, &route, &Arc::default()).await
}

/// Tombstones the attributes of an upload that its key's row does not name, for the reason given. Where that
/// is not known the upload may be open, now or once another writer settles the row: upkeep looks when they
/// are old.
pub(super) async fn discard(
    registers: &UploadRegisters,
    bucket: &ObjectKey,
    object: &KeyRoute,
    upload: UploadId,
    reason: &Error,
) {
    if matches!(reason, Error::OutcomeUnknown | Error::Internal { .. }) {
        return;
    }
    if let Err(error) = tombstone(registers, bucket, object, upload).await {
        tracing::debug!(%upload, %error, "the attributes of an upload that was not begun are left to upkeep");
    }
}

#[cfg(test)]
mod tests;
