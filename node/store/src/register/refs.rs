//! Data that a register keeps alive: what its value names, and what the manifest pages that it names list.
//! Closing an upload and all of upkeep ask here before data is released.

use futures::TryStreamExt;

use sherd_core::id::{DataId, RegisterKey};
use sherd_core::record::{DataRef, Value, decode_manifest};

use super::limits::MANIFEST_PAGE_BYTES_USUAL;
use super::{Failure, Registers};
use crate::stripe::{self, Stripes};

/// The set of live data is not known, so nothing may be concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefsError {
    #[error("register: {0}")]
    Register(#[from] Failure),
    #[error("manifest page of {size} bytes cannot be read")]
    Page { size: u64 },
}

/// Data ids that a manifest page lists.
pub(crate) async fn listed_on(
    stripes: &Stripes,
    key: &RegisterKey,
    page: DataRef,
) -> Result<Vec<DataRef>, RefsError> {
    let unreadable = RefsError::Page { size: page.size };
    let mut read = stripe::read(stripes, key, page, 0..page.size);
    let mut bytes =
        Vec::with_capacity(usize::try_from(page.size).unwrap_or(0).min(MANIFEST_PAGE_BYTES_USUAL));
    // Piece by piece: each holds its share of the buffers, and the next waits for one.
    while let Some(piece) = read.try_next().await.map_err(|_| unreadable)? {
        bytes.extend_from_slice(&piece);
    }
    let parts = decode_manifest(bytes.into()).map_err(|_| unreadable)?;
    Ok(parts.into_iter().filter_map(|part| part.data).collect())
}

/// Everything that a value keeps alive.
pub(crate) async fn kept_by(
    stripes: &Stripes,
    key: &RegisterKey,
    value: &Value,
) -> Result<Vec<DataRef>, RefsError> {
    let mut kept = value.data_refs();
    for page in value.state.manifest_pages() {
        kept.extend(listed_on(stripes, key, page).await?);
    }
    Ok(kept)
}

/// The reference under which data is kept alive, by its own register or, for a part, by its object's; `None`
/// when neither names it.
///
/// The part's register is read first: a Complete moves the reference from there to the object, so that a read
/// in this order finds it in one of them.
pub(crate) async fn reference(
    registers: &Registers,
    stripes: &Stripes,
    key: &RegisterKey,
    data: DataId,
) -> Result<Option<DataRef>, RefsError> {
    let object = RegisterKey::object(key.bucket, key.key.clone());
    let keys = if key.part.is_some() { vec![key.clone(), object] } else { vec![object] };
    for key in keys {
        let Some(found) = registers.read(&key).await? else { continue };
        if let Some(named) = found.value.data_refs().into_iter().find(|named| named.id == data) {
            return Ok(Some(named));
        }
        for page in found.value.state.manifest_pages() {
            let listed = listed_on(stripes, &key, page).await?;
            if let Some(named) = listed.into_iter().find(|named| named.id == data) {
                return Ok(Some(named));
            }
        }
    }
    Ok(None)
}
