//! The reports of a node and of its volumes, in pings and in the answer of `status`.
//!
//! A report is refused where it does not say which process of which node made it, or where its digest of the
//! topology has another length: without that digest it would be the report of a node that holds none, and
//! formation counts on that. A node of a later version may send more, or other forms: further digests of
//! another length are as if they were not sent, so that they are not compared; volumes with an id of another
//! length, and those beyond the most that a node has, are left out; a condition that is unknown here becomes
//! `None`.

use std::time::Duration;

use bytes::Bytes;

use sherd_core::checksum::Digest;
use sherd_core::id::{Life, ProcessId, VolumeId};
use sherd_core::report::{NodeReport, VolumeCondition, VolumeReport, VolumeStanding};

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
/// [`ConvertError`] when an id has the wrong length, or there are more than a node may have.
pub fn volume_ids_from_wire(volumes: Vec<Bytes>) -> Result<Vec<VolumeId>, ConvertError> {
    list_from_wire(volumes, NODE_VOLUMES_MAX, "volumes of a node")
}

impl From<VolumeCondition> for v1::VolumeState {
    fn from(condition: VolumeCondition) -> Self {
        match condition {
            VolumeCondition::Opening => Self::Opening,
            VolumeCondition::Online => Self::Online,
            VolumeCondition::Suspect => Self::Suspect,
            VolumeCondition::Recovering => Self::Recovering,
            VolumeCondition::Full => Self::Full,
            VolumeCondition::Failed => Self::Failed,
            VolumeCondition::Offline => Self::Offline,
        }
    }
}

/// The condition that a message names; `None` where it is not known here.
pub fn condition(state: i32) -> Option<VolumeCondition> {
    Some(match v1::VolumeState::try_from(state).ok()? {
        v1::VolumeState::Unspecified => return None,
        v1::VolumeState::Opening => VolumeCondition::Opening,
        v1::VolumeState::Online => VolumeCondition::Online,
        v1::VolumeState::Suspect => VolumeCondition::Suspect,
        v1::VolumeState::Recovering => VolumeCondition::Recovering,
        v1::VolumeState::Full => VolumeCondition::Full,
        v1::VolumeState::Failed => VolumeCondition::Failed,
        v1::VolumeState::Offline => VolumeCondition::Offline,
    })
}

impl Wire for VolumeReport {
    type Message = v1::VolumeReport;

    fn to_wire(&self) -> v1::VolumeReport {
        let Self {
            volume,
            node,
            ordinal,
            path,
            condition,
            reason,
            life,
            standing,
            is_open,
            has_room,
            healed_since_ms,
            total_bytes,
            free_bytes,
        } = self;
        v1::VolumeReport {
            volume: volume.to_wire(),
            node: node.clone(),
            ordinal: *ordinal,
            path: path.clone(),
            state: condition.map_or(v1::VolumeState::Unspecified, Into::into).into(),
            reason: reason.clone(),
            life: life.map_or(0, |life| life.0),
            votes: *standing == VolumeStanding::Voting,
            is_open: *is_open,
            has_room: *has_room,
            healed: healed_since_ms.is_some(),
            healed_since_ms: healed_since_ms.unwrap_or_default(),
            total_bytes: *total_bytes,
            free_bytes: *free_bytes,
            unconfirmed: *standing == VolumeStanding::Unconfirmed,
            lost: *standing == VolumeStanding::Lost,
        }
    }

    fn from_wire(message: v1::VolumeReport) -> Result<Self, ConvertError> {
        let v1::VolumeReport {
            volume,
            node,
            ordinal,
            path,
            state,
            reason,
            life,
            votes,
            is_open,
            has_room,
            healed,
            healed_since_ms,
            total_bytes,
            free_bytes,
            unconfirmed,
            lost,
        } = message;
        let standing = match (votes, unconfirmed, lost) {
            (true, _, _) => VolumeStanding::Voting,
            (false, true, _) => VolumeStanding::Unconfirmed,
            (false, false, true) => VolumeStanding::Lost,
            (false, false, false) => VolumeStanding::Away,
        };
        Ok(Self {
            volume: VolumeId::from_wire(volume)?,
            node,
            ordinal,
            path,
            condition: condition(state),
            reason,
            life: (life > 0).then_some(Life(life)),
            standing,
            is_open,
            has_room,
            healed_since_ms: healed.then_some(healed_since_ms),
            total_bytes,
            free_bytes,
        })
    }
}

impl Wire for NodeReport {
    type Message = v1::NodeState;

    fn to_wire(&self) -> v1::NodeState {
        let Self {
            name,
            process,
            version,
            config_digest,
            trusted_cas,
            credentials_proofs,
            topology_digest,
            is_stopping,
            volumes,
            reports_waiting,
            damage_age,
            master_key_digest,
        } = self;
        let digest = |digest: &Digest| Bytes::copy_from_slice(digest);
        let digest_or_none = |of: &Option<Digest>| of.as_ref().map(digest).unwrap_or_default();
        v1::NodeState {
            name: name.clone(),
            process: Bytes::copy_from_slice(&process.0),
            version: version.clone(),
            config_digest: digest_or_none(config_digest),
            trusted_cas: trusted_cas.iter().map(digest).collect(),
            credentials_proof: credentials_proofs.first().map(digest).unwrap_or_default(),
            topology_digest: digest_or_none(topology_digest),
            stopping: *is_stopping,
            volumes: list_to_wire(volumes),
            reports_waiting: *reports_waiting,
            damage_age_ms: damage_age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            master_key_digest: digest_or_none(master_key_digest),
            secondary_credentials_proof: credentials_proofs.get(1).map(digest).unwrap_or_default(),
        }
    }

    fn from_wire(message: v1::NodeState) -> Result<Self, ConvertError> {
        let v1::NodeState {
            name,
            process,
            version,
            config_digest,
            trusted_cas,
            credentials_proof,
            topology_digest,
            stopping,
            volumes,
            reports_waiting,
            master_key_digest,
            secondary_credentials_proof,
            damage_age_ms,
        } = message;
        let volumes = volumes.into_iter().take(NODE_VOLUMES_MAX);
        // All or none: a part of them would be compared as if it were all.
        let trusted_cas: Option<Vec<Digest>> = trusted_cas.iter().map(digest_if_known).collect();
        Ok(Self {
            name,
            process: ProcessId(array(&process, "process id")?),
            version,
            config_digest: digest_if_known(&config_digest),
            trusted_cas: trusted_cas.unwrap_or_default(),
            credentials_proofs: [credentials_proof, secondary_credentials_proof]
                .iter()
                .map_while(digest_if_known)
                .collect(),
            topology_digest: optional_topology(&topology_digest)?,
            is_stopping: stopping,
            volumes: volumes.filter_map(|volume| VolumeReport::from_wire(volume).ok()).collect(),
            reports_waiting,
            damage_age: damage_age_ms.map(Duration::from_millis),
            master_key_digest: digest_if_known(&master_key_digest),
        })
    }
}

/// The digest of a topology; `None` of a node that holds none.
fn optional_topology(bytes: &Bytes) -> Result<Option<Digest>, ConvertError> {
    if bytes.is_empty() { Ok(None) } else { array(bytes, "topology's digest").map(Some) }
}

/// A digest; `None` where the field is empty or of another length.
fn digest_if_known(bytes: &Bytes) -> Option<Digest> {
    bytes[..].try_into().ok()
}
