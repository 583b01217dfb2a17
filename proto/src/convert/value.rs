//! Parts of the messages of all services: ids, the target of a call, rows and values, who answers, refusals
//! and failures.
//!
//! A target is checked against the slot that its key has, a row's value against the digest in its head, and
//! inline bytes against the hash and the size that the value names. The other files of this folder build on
//! these.

use std::sync::Arc;

use bytes::Bytes;

use sherd_core::codec::{Reader, Writer};
use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, ChangeId, ClusterId, DataId, Epoch, Life, RegisterKey, Sequence, Slot, Timestamp,
    UploadId, VolumeId,
};
use sherd_core::limits::{INLINE_BYTES_MAX, VALUE_BYTES_MAX};
use sherd_core::message::{self, Target};
use sherd_core::placement;
use sherd_core::record::{InlineFault, Value, put_register_key, register_key_bytes, take_register_key};
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::opening::{Opening, OpeningHistory};
use sherd_core::register::{Answerer, EncodedValue, Positions, Refusal, Row, RowHead};
use sherd_core::release::ReleaseId;

use super::{ConvertError, FieldFault, Wire, array, at_most, list_from_wire, list_to_wire, reason, required};
use crate::limits::{OPENINGS_MAX, PEERS_MAX, POSITIONS_MAX, REGISTER_KEY_BYTES_MAX};
use crate::v1;

/// Declares how an id of 16 bytes travels: random ones as they are, stamped ones in their stored form.
macro_rules! ids_of_16_bytes {
    (random: $($random:ident $random_field:literal),*; stamped: $($stamped:ident $stamped_field:literal),*) => {
        $(impl Wire for $random {
            type Message = Bytes;

            fn to_wire(&self) -> Bytes {
                Bytes::copy_from_slice(&self.0)
            }

            fn from_wire(message: Bytes) -> Result<Self, ConvertError> {
                array(&message, $random_field).map(Self)
            }
        })*
        $(impl Wire for $stamped {
            type Message = Bytes;

            fn to_wire(&self) -> Bytes {
                Bytes::copy_from_slice(&self.to_bytes())
            }

            fn from_wire(message: Bytes) -> Result<Self, ConvertError> {
                array(&message, $stamped_field).map(Self::from_bytes)
            }
        })*
    };
}

ids_of_16_bytes! {
    random: ClusterId "cluster id", VolumeId "volume id", BucketId "bucket id", UploadId "upload id",
        HealId "heal id", ReleaseId "release id";
    stamped: Ballot "ballot", DataId "data id", ChangeId "change id"
}

impl Wire for RegisterKey {
    /// Core's stored form.
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        let mut writer = Writer::with_capacity(register_key_bytes(self));
        put_register_key(&mut writer, self);
        writer.finish()
    }

    fn from_wire(message: Bytes) -> Result<Self, ConvertError> {
        const FIELD: &str = "register key";
        at_most(message.len(), REGISTER_KEY_BYTES_MAX, FIELD)?;
        let mut reader = Reader::new(message);
        let key = take_register_key(&mut reader).map_err(|fault| undecodable(FIELD, fault))?;
        reader.finish(FIELD).map_err(|fault| undecodable(FIELD, fault))?;
        Ok(key)
    }
}

/// The volume that a call is for, and the life in which the caller believes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeAddress {
    /// The volume.
    pub volume: VolumeId,
    /// The life that the caller has seen; `None` before it has seen one.
    pub life: Option<Life>,
    /// The number of the client's request that the call is for; 0 for none. Both ends' logs name it.
    pub request: u64,
}

impl Wire for VolumeAddress {
    type Message = v1::Addressed;

    fn to_wire(&self) -> v1::Addressed {
        let Self { volume, life, request } = self;
        v1::Addressed { volume: volume.to_wire(), life: life.map_or(0, |life| life.0), request: *request }
    }

    fn from_wire(message: v1::Addressed) -> Result<Self, ConvertError> {
        let v1::Addressed { volume, life, request } = message;
        let life = (life > 0).then_some(Life(life));
        Ok(Self { volume: VolumeId::from_wire(volume)?, life, request })
    }
}

impl Wire for Slot {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        u32::from(self.0)
    }

    fn from_wire(message: u32) -> Result<Self, ConvertError> {
        let slot = u16::try_from(message).ok().filter(|slot| *slot < sherd_core::limits::SLOTS);
        slot.map(Self).ok_or_else(|| ConvertError::range("slot", message))
    }
}

impl Wire for Target {
    type Message = v1::Target;

    fn to_wire(&self) -> v1::Target {
        v1::Target { key: self.key.to_wire(), slot: self.slot.to_wire(), epoch: self.epoch.0 }
    }

    fn from_wire(message: v1::Target) -> Result<Self, ConvertError> {
        let v1::Target { key, slot, epoch } = message;
        let (key, slot) = (RegisterKey::from_wire(key)?, Slot::from_wire(slot)?);
        if slot != placement::slot(&key) {
            return Err(ConvertError::range("slot of the target", slot.0));
        }
        Ok(Self::new(key, slot, Epoch(epoch)))
    }
}

impl Wire for (VolumeId, Position) {
    type Message = v1::Position;

    fn to_wire(&self) -> v1::Position {
        let (volume, Position { life, opening, durable }) = self;
        v1::Position { volume: volume.to_wire(), life: life.0, durable: durable.0, opening: opening.0 }
    }

    fn from_wire(message: v1::Position) -> Result<Self, ConvertError> {
        let v1::Position { volume, life, durable, opening } = message;
        let (opening, durable) = (OpeningId(opening), Sequence(durable));
        let position = Position { life: Life(life), opening, durable };
        Ok((VolumeId::from_wire(volume)?, position))
    }
}

impl Wire for Opening {
    type Message = v1::Opening;

    fn to_wire(&self) -> v1::Opening {
        let Self { id, end } = self;
        v1::Opening { id: id.0, end: end.0 }
    }

    fn from_wire(message: v1::Opening) -> Result<Self, ConvertError> {
        let v1::Opening { id, end } = message;
        Ok(Self { id: OpeningId(id), end: Sequence(end) })
    }
}

impl Wire for OpeningHistory {
    type Message = v1::Openings;

    fn to_wire(&self) -> v1::Openings {
        v1::Openings { life: self.life.0, openings: list_to_wire(self.openings()) }
    }

    fn from_wire(message: v1::Openings) -> Result<Self, ConvertError> {
        let v1::Openings { life, openings } = message;
        Ok(Self::new(Life(life), list_from_wire(openings, OPENINGS_MAX, "openings")?))
    }
}

impl Wire for Positions {
    type Message = Vec<v1::Position>;

    fn to_wire(&self) -> Vec<v1::Position> {
        list_to_wire(self)
    }

    fn from_wire(message: Vec<v1::Position>) -> Result<Self, ConvertError> {
        list_from_wire(message, POSITIONS_MAX, "positions").map(Into::into)
    }
}

impl Wire for (VolumeId, Life) {
    type Message = v1::Life;

    fn to_wire(&self) -> v1::Life {
        let (volume, life) = self;
        v1::Life { volume: volume.to_wire(), life: life.0 }
    }

    fn from_wire(message: v1::Life) -> Result<Self, ConvertError> {
        let v1::Life { volume, life } = message;
        Ok((VolumeId::from_wire(volume)?, Life(life)))
    }
}

impl Wire for Answerer {
    type Message = v1::Answerer;

    fn to_wire(&self) -> v1::Answerer {
        let Self { life, votes, peers, opening, durable } = self;
        v1::Answerer {
            life: life.0,
            votes: *votes,
            peers: list_to_wire(peers),
            durable: durable.0,
            opening: opening.0,
        }
    }

    fn from_wire(message: v1::Answerer) -> Result<Self, ConvertError> {
        let v1::Answerer { life, votes, peers, durable, opening } = message;
        let peers: Arc<[_]> = match peers {
            none if none.is_empty() => Arc::default(),
            peers => list_from_wire(peers, PEERS_MAX, "peers of an answer")?.into(),
        };
        let (opening, durable) = (OpeningId(opening), Sequence(durable));
        Ok(Self { life: Life(life), votes, peers, opening, durable })
    }
}

impl Wire for Refusal {
    type Message = v1::Refusal;

    fn to_wire(&self) -> v1::Refusal {
        use v1::refusal::Why;
        let why = match self {
            Self::Below { bound } => Why::Below(bound.to_wire()),
            Self::TooFarAhead { latest } => Why::TooFarAhead(latest.as_u64()),
            Self::StaleEpoch { epoch } => Why::StaleEpoch(epoch.0),
            Self::Sealed => Why::Sealed(v1::Empty {}),
            Self::DataTooOld { floor } => Why::DataTooOld(floor.as_u64()),
            Self::Recovering => Why::Recovering(v1::Empty {}),
        };
        v1::Refusal { why: Some(why) }
    }

    fn from_wire(message: v1::Refusal) -> Result<Self, ConvertError> {
        use v1::refusal::Why;
        Ok(match required(message.why, "refusal")? {
            Why::Below(bound) => Self::Below { bound: Ballot::from_wire(bound)? },
            Why::TooFarAhead(latest) => Self::TooFarAhead { latest: Timestamp::from_u64(latest) },
            Why::StaleEpoch(epoch) => Self::StaleEpoch { epoch: Epoch(epoch) },
            Why::Sealed(v1::Empty {}) => Self::Sealed,
            Why::DataTooOld(floor) => Self::DataTooOld { floor: Timestamp::from_u64(floor) },
            Why::Recovering(v1::Empty {}) => Self::Recovering,
        })
    }
}

impl Wire for message::Error {
    type Message = v1::Failure;

    fn to_wire(&self) -> v1::Failure {
        use v1::failure::Why;
        let why = match self {
            Self::NotFound => Why::NotFound(v1::Empty {}),
            Self::Corrupt { what } => Why::Corrupt(reason(what)),
            Self::Full => Why::Full(v1::Empty {}),
            Self::Busy => Why::Busy(v1::Empty {}),
            Self::Refused(refusal) => Why::Refused(refusal.to_wire()),
            Self::Unreachable { reason: why } => Why::Unreachable(reason(why)),
        };
        v1::Failure { why: Some(why) }
    }

    fn from_wire(message: v1::Failure) -> Result<Self, ConvertError> {
        use v1::failure::Why;
        Ok(match required(message.why, "failure")? {
            Why::NotFound(v1::Empty {}) => Self::NotFound,
            Why::Corrupt(what) => Self::Corrupt { what: reason(&what) },
            Why::Full(v1::Empty {}) => Self::Full,
            Why::Busy(v1::Empty {}) => Self::Busy,
            Why::Refused(refusal) => Self::Refused(Refusal::from_wire(refusal)?),
            Why::Unreachable(why) => Self::Unreachable { reason: reason(&why) },
            Why::OtherLife(life) => Self::Unreachable { reason: format!("the volume is in life {life}") },
        })
    }
}

/// The failure of a call to a volume that is in another life than the call names. Nothing was done.
pub const fn other_life(life: Life) -> v1::Failure {
    v1::Failure { why: Some(v1::failure::Why::OtherLife(life.0)) }
}

impl Wire for RowHead {
    type Message = v1::RowHead;

    fn to_wire(&self) -> v1::RowHead {
        let Self { ballot, digest, committed } = self;
        v1::RowHead {
            ballot: ballot.to_wire(),
            digest: Bytes::copy_from_slice(digest),
            committed: *committed,
        }
    }

    fn from_wire(message: v1::RowHead) -> Result<Self, ConvertError> {
        let v1::RowHead { ballot, digest, committed } = message;
        Ok(Self { ballot: Ballot::from_wire(ballot)?, digest: array(&digest, "digest")?, committed })
    }
}

impl Wire for Row {
    type Message = v1::Row;

    fn to_wire(&self) -> v1::Row {
        let Self { head, value_bytes, value } = self;
        v1::Row { head: Some(head.to_wire()), value: value.clone(), value_bytes: *value_bytes }
    }

    fn from_wire(message: v1::Row) -> Result<Self, ConvertError> {
        let v1::Row { head, value, value_bytes } = message;
        let head = RowHead::from_wire(required(head, "head of a row")?)?;
        let mut bytes = value_bytes as usize;
        if let Some(value) = &value {
            check_digest(value, &head)?;
            bytes = value.len();
        }
        at_most(bytes, VALUE_BYTES_MAX, "value")?;
        let value_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Ok(Self { head, value_bytes, value })
    }
}

/// Refuses a value that is not the one of a row's head.
pub(crate) fn check_digest(value: &Bytes, head: &RowHead) -> Result<(), ConvertError> {
    at_most(value.len(), VALUE_BYTES_MAX, "value")?;
    if Value::digest(value) == head.digest {
        Ok(())
    } else {
        Err(ConvertError { field: "value", fault: FieldFault::Digest })
    }
}

impl Wire for EncodedValue {
    type Message = v1::Value;

    fn to_wire(&self) -> v1::Value {
        v1::Value { head: self.head.clone(), inline: self.inline.clone() }
    }

    fn from_wire(message: v1::Value) -> Result<Self, ConvertError> {
        let v1::Value { head, inline } = message;
        at_most(inline.len(), inline_bytes_max(), "inline bytes")?;
        let value = Value::decode(head.clone()).map_err(|fault| undecodable("value", fault))?;
        check_inline(&value, &inline)?;
        Ok(Self::decoded(head, &value, inline))
    }
}

fn inline_bytes_max() -> usize {
    usize::try_from(INLINE_BYTES_MAX).expect("the bound fits a usize")
}

/// Refuses inline bytes that are not those of the versions that the value says have them.
fn check_inline(value: &Value, inline: &[u8]) -> Result<(), ConvertError> {
    const FIELD: &str = "inline bytes";
    value.state.check_inline(inline).or_else(|fault| match fault {
        InlineFault::Short { bytes, expected } => {
            Err(ConvertError { field: FIELD, fault: FieldFault::Length { bytes, expected } })
        }
        InlineFault::Digest => Err(ConvertError { field: FIELD, fault: FieldFault::Digest }),
        InlineFault::Behind { bytes } => at_most(bytes, 0, "bytes behind the inline bytes"),
    })
}

/// Names the field whose bytes core does not decode.
pub(crate) const fn undecodable(field: &'static str, fault: sherd_core::codec::DecodeError) -> ConvertError {
    ConvertError { field, fault: FieldFault::Undecodable(fault) }
}
