//! Fields of the admin messages that are values of core. The messages themselves stay what they are: text and
//! numbers for people and for the operator.

use bytes::Bytes;

use sherd_core::checksum::Digest;
use sherd_core::id::VolumeId;

use super::{ConvertError, Wire, array, list_from_wire, list_to_wire};
use crate::limits::NODE_VOLUMES_MAX;
use crate::v1;

/// The ids of a node's volumes, by ordinal.
pub fn volume_ids_to_wire(volumes: &[VolumeId]) -> Vec<Bytes> {
    list_to_wire(volumes)
}

/// The ids of a node's volumes, by ordinal.
///
/// # Errors
/// [`ConvertError`] when one is no id, or a node has fewer.
pub fn volume_ids_from_wire(volumes: Vec<Bytes>) -> Result<Vec<VolumeId>, ConvertError> {
    list_from_wire(volumes, NODE_VOLUMES_MAX, "volumes of a node")
}

/// The volume that an order is for.
///
/// # Errors
/// [`ConvertError`] when it is no id.
pub fn ordered_volume(order: v1::VolumeOrder) -> Result<VolumeId, ConvertError> {
    VolumeId::from_wire(order.volume)
}

/// A volume's state.
///
/// # Errors
/// [`ConvertError`] when the state is none that is known here.
pub fn volume_state(state: i32) -> Result<v1::VolumeState, ConvertError> {
    match v1::VolumeState::try_from(state) {
        Ok(v1::VolumeState::Unspecified) | Err(_) => Err(ConvertError::missing("state of a volume")),
        Ok(state) => Ok(state),
    }
}

/// A digest that a node reports.
///
/// # Errors
/// [`ConvertError`] when it has another length.
pub fn digest(bytes: &Bytes) -> Result<Digest, ConvertError> {
    array(bytes, "digest")
}

/// A digest that a node reports, which it has none of to begin with.
///
/// # Errors
/// [`ConvertError`] when it has another length.
pub fn optional_digest(bytes: &Bytes) -> Result<Option<Digest>, ConvertError> {
    if bytes.is_empty() { Ok(None) } else { digest(bytes).map(Some) }
}

/// The random number of a node's run.
///
/// # Errors
/// [`ConvertError`] when it has another length.
pub fn process_id(bytes: &Bytes) -> Result<[u8; 16], ConvertError> {
    array(bytes, "process id")
}
