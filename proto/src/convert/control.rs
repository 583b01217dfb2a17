//! A volume's guarantees, and the changes of them.

use sherd_core::id::{Ballot, BucketId, ChangeId, Epoch, Life, Slot, Timestamp, VolumeId};
use sherd_core::message::Control;
use sherd_core::register::position::Position;
use sherd_core::register::recover::Guarantees;

use super::{ConvertError, Wire, list_from_wire, list_to_wire, required};
use crate::limits::{PAGE_ROWS_MAX, PEERS_MAX, REMEMBERED_MAX, REPORTED_SEALS_MAX, SEAL_DELETIONS_MAX};
use crate::v1;
use crate::v1::control::{Change, FinishRecovery, RecordEpoch, SealBucket, TakeGuarantees};

impl Wire for Control {
    type Message = v1::Control;

    fn to_wire(&self) -> v1::Control {
        let change = match self {
            Self::RecordLife { volume, life } => Change::RecordLife((*volume, *life).to_wire()),
            Self::RaiseFloor { floor } => Change::RaiseFloor(floor.to_wire()),
            Self::RaiseDataFloor { floor } => Change::RaiseDataFloor(floor.as_u64()),
            Self::RecordEpoch { slot, epoch } => {
                Change::RecordEpoch(RecordEpoch { slot: slot.to_wire(), epoch: epoch.0 })
            }
            Self::Seal { bucket, deletion, epoch } => {
                let (bucket, deletion) = (bucket.to_wire(), deletion.to_wire());
                Change::Seal(SealBucket { bucket, deletion, epoch: epoch.0 })
            }
            Self::Unseal { bucket, deletion } => {
                let (bucket, deletion) = (bucket.to_wire(), deletion.to_wire());
                Change::Unseal(SealBucket { bucket, deletion, epoch: 0 })
            }
            Self::SealForEver { bucket } => Change::SealForEver(bucket.to_wire()),
            Self::TakeGuarantees { guarantees, seals } => Change::TakeGuarantees(TakeGuarantees {
                guarantees: Some(guarantees.to_wire()),
                seals: list_to_wire(seals),
            }),
            Self::FinishRecovery { remembered } => {
                Change::FinishRecovery(FinishRecovery { remembered: list_to_wire(remembered) })
            }
            Self::ForceRecovery => Change::ForceRecovery(v1::Empty {}),
        };
        v1::Control { change: Some(change) }
    }

    fn from_wire(message: v1::Control) -> Result<Self, ConvertError> {
        Ok(match required(message.change, "change of a guarantee")? {
            Change::RecordLife(life) => {
                let (volume, life) = <(VolumeId, Life)>::from_wire(life)?;
                Self::RecordLife { volume, life }
            }
            Change::RaiseFloor(floor) => Self::RaiseFloor { floor: Ballot::from_wire(floor)? },
            Change::RaiseDataFloor(floor) => Self::RaiseDataFloor { floor: Timestamp::from_u64(floor) },
            Change::RecordEpoch(RecordEpoch { slot, epoch }) => {
                Self::RecordEpoch { slot: Slot::from_wire(slot)?, epoch: Epoch(epoch) }
            }
            Change::Seal(SealBucket { bucket, deletion, epoch }) => Self::Seal {
                bucket: BucketId::from_wire(bucket)?,
                deletion: ChangeId::from_wire(deletion)?,
                epoch: Epoch(epoch),
            },
            Change::Unseal(SealBucket { bucket, deletion, epoch: 0 }) => Self::Unseal {
                bucket: BucketId::from_wire(bucket)?,
                deletion: ChangeId::from_wire(deletion)?,
            },
            Change::Unseal(SealBucket { epoch, .. }) => {
                return Err(ConvertError::range("epoch of an unseal", epoch));
            }
            Change::SealForEver(bucket) => Self::SealForEver { bucket: BucketId::from_wire(bucket)? },
            Change::TakeGuarantees(TakeGuarantees { guarantees, seals }) => Self::TakeGuarantees {
                guarantees: Guarantees::from_wire(required(guarantees, "guarantees")?)?,
                seals: list_from_wire(seals, REPORTED_SEALS_MAX, "seals")?,
            },
            Change::FinishRecovery(FinishRecovery { remembered }) => {
                let remembered: Vec<(VolumeId, Position)> =
                    list_from_wire(remembered, REMEMBERED_MAX, "remembered positions")?;
                Self::FinishRecovery { remembered: remembered.into() }
            }
            Change::ForceRecovery(v1::Empty {}) => Self::ForceRecovery,
        })
    }
}

impl Wire for (BucketId, Vec<ChangeId>) {
    type Message = v1::Seal;

    fn to_wire(&self) -> v1::Seal {
        let (bucket, deletions) = self;
        v1::Seal { bucket: bucket.to_wire(), deletions: list_to_wire(deletions) }
    }

    fn from_wire(message: v1::Seal) -> Result<Self, ConvertError> {
        let v1::Seal { bucket, deletions } = message;
        let deletions = list_from_wire(deletions, SEAL_DELETIONS_MAX, "deletions of a seal")?;
        Ok((BucketId::from_wire(bucket)?, deletions))
    }
}

impl Wire for Vec<(BucketId, Vec<ChangeId>)> {
    type Message = v1::Seals;

    fn to_wire(&self) -> v1::Seals {
        v1::Seals { seals: list_to_wire(self) }
    }

    fn from_wire(message: v1::Seals) -> Result<Self, ConvertError> {
        list_from_wire(message.seals, PAGE_ROWS_MAX, "seals of a page")
    }
}

impl Wire for Guarantees {
    type Message = v1::Guarantees;

    fn to_wire(&self) -> v1::Guarantees {
        let Self { bound, floor, highest, data_floor, lives } = self;
        v1::Guarantees {
            bound: bound.to_wire(),
            floor: floor.to_wire(),
            highest: highest.to_wire(),
            data_floor: data_floor.as_u64(),
            lives: list_to_wire(lives),
        }
    }

    fn from_wire(message: v1::Guarantees) -> Result<Self, ConvertError> {
        let v1::Guarantees { bound, floor, highest, data_floor, lives } = message;
        Ok(Self {
            bound: Ballot::from_wire(bound)?,
            floor: Ballot::from_wire(floor)?,
            highest: Ballot::from_wire(highest)?,
            data_floor: Timestamp::from_u64(data_floor),
            lives: list_from_wire(lives, PEERS_MAX, "lives of peers")?,
        })
    }
}
