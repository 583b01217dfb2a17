//! Shards: their names, the calls for them, and the pages of those that a volume holds.

use bytes::Bytes;

use sherd_core::checksum::ShardDigest;
use sherd_core::id::{DataId, Life, ProposerId, RegisterKey, ShardId};
use sherd_core::limits::{LEASES_IN_CALL_MAX, SET_VOLUMES_MAX, STRIPE_UNIT_BYTES_MAX};
use sherd_core::message::call::{AnswerKind, ShardCall, VolumeAnswer};
use sherd_core::message::{
    LeaseAnswer, ReadPurpose, ReaderLeases, SeenShard, ShardFileHeader, ShardPage, ShardRange, ShardScan,
};
use sherd_core::record::Home;

use super::answer::{AnswerIn, ReplyMessage, answer_in, reply_message};
use super::call::call_answers_in;
use super::{
    ConvertError, FieldFault, Wire, at_most, limit_from_wire, limit_to_wire, list_from_wire, list_to_wire,
    required,
};
use crate::limits::{PAGE_ROWS_MAX, SHARD_BYTES_MAX};
use crate::v1;
use crate::v1::shard_call::{self, Call, page};
use crate::v1::write_shard;

impl Wire for ShardId {
    type Message = v1::ShardId;

    fn to_wire(&self) -> v1::ShardId {
        let Self { data, index } = self;
        v1::ShardId { data: data.to_wire(), index: u32::from(*index) }
    }

    fn from_wire(message: v1::ShardId) -> Result<Self, ConvertError> {
        let v1::ShardId { data, index } = message;
        let known = u8::try_from(index).ok().filter(|index| usize::from(*index) < SET_VOLUMES_MAX);
        let index = known.ok_or_else(|| ConvertError::range("shard index", index))?;
        Ok(Self { data: DataId::from_wire(data)?, index })
    }
}

fn shard_of(shard: Option<v1::ShardId>) -> Result<ShardId, ConvertError> {
    ShardId::from_wire(required(shard, "shard")?)
}

impl Wire for Home {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        match self {
            Self::Packed => 1,
            Self::File => 2,
        }
    }

    fn from_wire(message: u32) -> Result<Self, ConvertError> {
        match message {
            1 => Ok(Self::Packed),
            2 => Ok(Self::File),
            other => Err(ConvertError::range("home of a shard", other)),
        }
    }
}

impl Wire for (ShardId, Home) {
    type Message = v1::ShardName;

    fn to_wire(&self) -> v1::ShardName {
        let (shard, home) = self;
        v1::ShardName { shard: Some(shard.to_wire()), home: home.to_wire() }
    }

    fn from_wire(message: v1::ShardName) -> Result<Self, ConvertError> {
        let v1::ShardName { shard, home } = message;
        Ok((shard_of(shard)?, Home::from_wire(home)?))
    }
}

impl Wire for ShardRange {
    type Message = v1::ShardRange;

    fn to_wire(&self) -> v1::ShardRange {
        let Self { shard, home, offset, length, wanted } = self;
        v1::ShardRange {
            shard: Some((*shard, *home).to_wire()),
            offset: *offset,
            length: *length,
            aside: match wanted {
                ReadPurpose::ByClient => false,
                ReadPurpose::ByUpkeep => true,
            },
        }
    }

    fn from_wire(message: v1::ShardRange) -> Result<Self, ConvertError> {
        let v1::ShardRange { shard, offset, length, aside } = message;
        let (shard, home) = <(ShardId, Home)>::from_wire(required(shard, "shard")?)?;
        if offset.checked_add(length).is_none_or(|end| end > SHARD_BYTES_MAX) {
            return Err(ConvertError::range("end of a shard's range", offset.saturating_add(length)));
        }
        let wanted = if aside { ReadPurpose::ByUpkeep } else { ReadPurpose::ByClient };
        Ok(Self { shard, home, offset, length, wanted })
    }
}

impl Wire for ShardFileHeader {
    type Message = v1::ShardFile;

    fn to_wire(&self) -> v1::ShardFile {
        let Self { shard, key, data_shards, parity_shards, stripe_unit, shard_bytes } = self;
        v1::ShardFile {
            shard: Some(shard.to_wire()),
            key: key.to_wire(),
            data_shards: u32::from(*data_shards),
            parity_shards: u32::from(*parity_shards),
            stripe_unit: *stripe_unit,
            shard_bytes: *shard_bytes,
        }
    }

    fn from_wire(message: v1::ShardFile) -> Result<Self, ConvertError> {
        let v1::ShardFile { shard, key, data_shards, parity_shards, stripe_unit, shard_bytes } = message;
        let shard = shard_of(shard)?;
        let (k, m) = (shards_of_code(data_shards)?, shards_of_code(parity_shards)?);
        let volumes = usize::from(k) + usize::from(m);
        if k == 0 || volumes > SET_VOLUMES_MAX {
            return Err(ConvertError::range("data shards", data_shards));
        }
        if usize::from(shard.index) >= volumes {
            return Err(ConvertError::range("shard index", shard.index));
        }
        if stripe_unit == 0 || stripe_unit > STRIPE_UNIT_BYTES_MAX {
            return Err(ConvertError::range("stripe unit", stripe_unit));
        }
        if shard_bytes == 0 || shard_bytes > SHARD_BYTES_MAX {
            return Err(ConvertError::range("shard bytes", shard_bytes));
        }
        let key = RegisterKey::from_wire(key)?;
        Ok(Self { shard, key, data_shards: k, parity_shards: m, stripe_unit, shard_bytes })
    }
}

/// Writes the digest of a whole shard.
pub fn digest_to_wire(digest: ShardDigest) -> write_shard::Finish {
    write_shard::Finish { digest: Bytes::copy_from_slice(&digest.0) }
}

/// Reads the digest of a whole shard; none where its writer has none.
///
/// # Errors
/// It has another length than 32 bytes.
pub fn digest_from_wire(finish: &write_shard::Finish) -> Result<Option<ShardDigest>, ConvertError> {
    if finish.digest.is_empty() {
        return Ok(None);
    }
    let digest = finish.digest.as_ref().try_into();
    let digest = digest.map_err(|_| ConvertError::range("bytes of a digest", finish.digest.len() as u64))?;
    Ok(Some(ShardDigest(digest)))
}

fn shards_of_code(count: u32) -> Result<u8, ConvertError> {
    u8::try_from(count).map_err(|_| ConvertError::range("shards of a code", count))
}

impl Wire for ShardScan {
    type Message = shard_call::Page;

    fn to_wire(&self) -> shard_call::Page {
        let (of, after, limit) = match self {
            Self::Packed { after, limit } => (page::Of::Packed(v1::Empty {}), after, limit),
            Self::Files { directory, after, limit } => {
                (page::Of::Directory(u32::from(*directory)), after, limit)
            }
        };
        let after = after.as_ref().map(Wire::to_wire);
        shard_call::Page { of: Some(of), after, limit: limit_to_wire(*limit) }
    }

    fn from_wire(message: shard_call::Page) -> Result<Self, ConvertError> {
        let shard_call::Page { of, after, limit } = message;
        let after = after.map(ShardId::from_wire).transpose()?;
        let limit = limit_from_wire(limit);
        match required(of, "home of a page of shards")? {
            page::Of::Packed(v1::Empty {}) => Ok(Self::Packed { after, limit }),
            page::Of::Directory(directory) => {
                let known = u8::try_from(directory);
                let directory = known.map_err(|_| ConvertError::range("directory of shards", directory))?;
                Ok(Self::Files { directory, after, limit })
            }
        }
    }
}

impl Wire for SeenShard {
    type Message = v1::SeenShard;

    fn to_wire(&self) -> v1::SeenShard {
        let Self { shard, key, is_whole } = self;
        v1::SeenShard { shard: Some(shard.to_wire()), key: key.to_wire(), is_whole: *is_whole }
    }

    fn from_wire(message: v1::SeenShard) -> Result<Self, ConvertError> {
        let v1::SeenShard { shard, key, is_whole } = message;
        Ok(Self { shard: shard_of(shard)?, key: RegisterKey::from_wire(key)?, is_whole })
    }
}

impl Wire for ShardPage {
    type Message = v1::ShardPage;

    fn to_wire(&self) -> v1::ShardPage {
        let Self { shards, next } = self;
        v1::ShardPage { shards: list_to_wire(shards), next: next.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(message: v1::ShardPage) -> Result<Self, ConvertError> {
        let v1::ShardPage { shards, next } = message;
        let shards = list_from_wire(shards, PAGE_ROWS_MAX, "shards of a page")?;
        Ok(Self { shards, next: next.map(ShardId::from_wire).transpose()? })
    }
}

impl Wire for ReaderLeases {
    type Message = shard_call::ReaderLeases;

    fn to_wire(&self) -> shard_call::ReaderLeases {
        let Self { holder, data, is_end } = self;
        let data: Vec<u8> = data.iter().flat_map(|id| id.to_bytes()).collect();
        shard_call::ReaderLeases { holder: holder.0, data: data.into(), is_end: *is_end }
    }

    fn from_wire(message: shard_call::ReaderLeases) -> Result<Self, ConvertError> {
        let shard_call::ReaderLeases { holder, data, is_end } = message;
        let field = "leased data";
        let (ids, rest) = data.as_chunks::<{ DataId::BYTES }>();
        if !rest.is_empty() {
            let expected = data.len().next_multiple_of(DataId::BYTES);
            return Err(ConvertError { field, fault: FieldFault::Length { bytes: data.len(), expected } });
        }
        at_most(ids.len(), LEASES_IN_CALL_MAX, field)?;
        let data = ids.iter().map(|id| DataId::from_bytes(*id)).collect();
        Ok(Self { holder: ProposerId(holder), data, is_end })
    }
}

impl Wire for LeaseAnswer {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        self.refused_count
    }

    fn from_wire(message: u32) -> Result<Self, ConvertError> {
        at_most(usize::try_from(message).unwrap_or(usize::MAX), LEASES_IN_CALL_MAX, "refused leases")?;
        Ok(Self { refused_count: message })
    }
}

impl Wire for ShardCall {
    type Message = Call;

    fn to_wire(&self) -> Call {
        match self {
            Self::Delete { shard, home } => Call::Delete((*shard, *home).to_wire()),
            Self::Length { shard, home } => Call::Length((*shard, *home).to_wire()),
            Self::Verify { shard, home } => Call::Verify((*shard, *home).to_wire()),
            Self::Page { scan } => Call::Page(scan.to_wire()),
            Self::Release { shard, home } => Call::Release((*shard, *home).to_wire()),
            Self::Leases { leases } => Call::Leases(leases.to_wire()),
        }
    }

    fn from_wire(message: Call) -> Result<Self, ConvertError> {
        let named = <(ShardId, Home)>::from_wire;
        Ok(match message {
            Call::Delete(name) => named(name).map(|(shard, home)| Self::Delete { shard, home })?,
            Call::Length(name) => named(name).map(|(shard, home)| Self::Length { shard, home })?,
            Call::Verify(name) => named(name).map(|(shard, home)| Self::Verify { shard, home })?,
            Call::Page(scan) => Self::Page { scan: ShardScan::from_wire(scan)? },
            Call::Release(name) => named(name).map(|(shard, home)| Self::Release { shard, home })?,
            Call::Leases(leases) => Self::Leases { leases: ReaderLeases::from_wire(leases)? },
        })
    }
}

impl Wire for u64 {
    type Message = Self;

    fn to_wire(&self) -> Self {
        *self
    }

    fn from_wire(message: Self) -> Result<Self, ConvertError> {
        Ok(message)
    }
}

impl Wire for bool {
    type Message = Self;

    fn to_wire(&self) -> Self {
        *self
    }

    fn from_wire(message: Self) -> Result<Self, ConvertError> {
        Ok(message)
    }
}

call_answers_in!(shard_reply:
    Done(()) => Done, Length(u64) => Bytes, Shards(ShardPage) => Page, Released(bool) => Released,
    Leases(LeaseAnswer) => LeasesRefused);
reply_message!(put_reply);
answer_in!(put_reply: Life => Life);
reply_message!(write_reply);
answer_in!(write_reply: () => Taken, Life => Life);

impl ReplyMessage for v1::shard_bytes::Part {
    fn of_failure(failure: v1::Failure) -> Self {
        Self::Failure(failure)
    }

    fn into_failure(self) -> Result<v1::Failure, Self> {
        match self {
            Self::Failure(failure) => Ok(failure),
            bytes @ Self::Bytes(_) => Err(bytes),
        }
    }
}

impl AnswerIn<v1::shard_bytes::Part> for Bytes {
    fn to_reply(&self) -> v1::shard_bytes::Part {
        v1::shard_bytes::Part::Bytes(self.clone())
    }

    fn from_reply(part: v1::shard_bytes::Part) -> Result<Self, ConvertError> {
        match part {
            v1::shard_bytes::Part::Bytes(bytes) => Ok(bytes),
            v1::shard_bytes::Part::Failure(_) => Err(ConvertError::missing("bytes of a shard")),
        }
    }
}
