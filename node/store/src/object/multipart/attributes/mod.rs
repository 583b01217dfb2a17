//! Attributes of the object of an open upload: a register of the upload's own, its part 0, so that the row of
//! a key with a thousand uploads stays short. It is durable before the row names its upload, and goes when
//! the upload is closed. The tags of the object are among its attributes until then.

use std::sync::Arc;

use sherd_core::id::{ObjectKey, PartKey, UploadId};
use sherd_core::record::{Attributes, ObjectTags, OverLimit, State, Tag, Upload as OpenUpload, Value};

use super::parts::{UploadRegisters, part_route};
use crate::cluster::KeyRoute;
use crate::object::error::{Error, Invalid, Result};
use crate::register::{Proposal, Writer};

/// The name of an attribute that is a tag, before the tag's key.
const TAG: &str = "x-amz-tagging:";

/// The attributes of an upload whose object will have tags.
///
/// # Errors
/// InvalidArgument for tags that no parser made.
pub(super) fn with_tags(attributes: Attributes, tags: &ObjectTags) -> Result<Attributes> {
    let Attributes { mut pairs } = attributes;
    let tags = tags.decode().map_err(|_| Invalid::Argument { name: "x-amz-tagging" })?;
    pairs.extend(tags.into_iter().map(|Tag { key, value }| (format!("{TAG}{key}"), value)));
    Ok(Attributes { pairs })
}

/// The attributes and the tags of the object of an upload.
///
/// # Errors
/// [`OverLimit`] where tags are stored that an object cannot have.
pub(super) fn without_tags(
    attributes: Attributes,
) -> std::result::Result<(Attributes, ObjectTags), OverLimit> {
    let (tags, pairs): (Vec<_>, Vec<_>) =
        attributes.pairs.into_iter().partition(|(name, _)| name.starts_with(TAG));
    let tags = tags.into_iter().map(|(name, value)| Tag { key: name.replacen(TAG, "", 1), value });
    Ok((Attributes { pairs }, ObjectTags::encode(&tags.collect::<Vec<_>>())?))
}

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

/// The attributes of an upload that was open when it was read; `None` where the upload is closed by now, and
/// they are gone.
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
