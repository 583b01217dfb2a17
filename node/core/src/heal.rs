//! An entry of the MRF queue: one thing that a write or a read left to be mended.
//!
//! Entries live in the logs of the volumes that took the write, under an id that the same damage
//! always gives, so a queue holds each damage once however often it is seen.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{DataId, RegisterKey};
use crate::record::DataRef;

/// The version of an entry whose data is its id.
const WITH_ID: u8 = 2;
/// Entry form 3: a full data reference, or none.
const WITH_DATA: u8 = 3;
/// Hashed behind key and data id of a want: no data id is this long, so that no report has a want's id.
const WANT: &[u8] = b"want";

/// Names one damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HealId(pub [u8; 16]);

/// Data with missing or rotten shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamagedData {
    /// As a register names it.
    Named(DataRef),
    /// By its id alone: a volume that was opened found a rotten shard, and no register was asked.
    Id(DataId),
}

impl DamagedData {
    /// Id of the data.
    pub const fn id(&self) -> DataId {
        match self {
            Self::Named(data) => data.id,
            Self::Id(id) => *id,
        }
    }

    /// How many more losses it can take at least, when one shard of it is damaged.
    pub const fn spare(&self) -> u8 {
        match self {
            Self::Named(data) => data.parity_shards.saturating_sub(1),
            Self::Id(_) => 0,
        }
    }
}

impl From<DataRef> for DamagedData {
    fn from(data: DataRef) -> Self {
        Self::Named(data)
    }
}

/// The entry of one repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealEntry {
    /// The register that names the data, or is itself behind on some volume.
    pub key: RegisterKey,
    /// The data with missing or rotten shards; `None` when only rows are behind.
    pub data: Option<DamagedData>,
    /// Milliseconds since the Unix epoch when it was first seen.
    pub since_ms: u64,
}

impl HealEntry {
    /// The id that this damage always has: from the key, and the data id where data is damaged.
    pub fn id(&self) -> HealId {
        self.hashed(&[])
    }

    /// The id that this damage has as a want: in the log of the volume that lacks the data. Reports of it
    /// have another id ([`Self::id`]), so that no other node ends a want when it ends a report.
    pub fn want_id(&self) -> HealId {
        self.hashed(WANT)
    }

    fn hashed(&self, suffix: &[u8]) -> HealId {
        let mut writer = Writer::new();
        crate::record::put_register_key(&mut writer, &self.key);
        if let Some(data) = &self.data {
            writer.raw(&data.id().to_bytes());
        }
        writer.raw(suffix);
        let hash = blake3::hash(&writer.finish());
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *hash.as_bytes();
        HealId(id)
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let Self { key, data, since_ms } = self;
        let mut writer = Writer::new();
        writer.u8(if matches!(data, Some(DamagedData::Id(_))) { WITH_ID } else { WITH_DATA }).u64(*since_ms);
        crate::record::put_register_key(&mut writer, key);
        writer.u8(u8::from(data.is_some()));
        match data {
            Some(DamagedData::Named(data)) => crate::record::put_data_ref(&mut writer, data),
            Some(DamagedData::Id(id)) => {
                writer.raw(&id.to_bytes());
            }
            None => {}
        }
        writer.finish()
    }

    /// From the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] on any other bytes.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8("heal entry")?;
        if ![WITH_DATA, WITH_ID].contains(&version) {
            return Err(DecodeError::Version { field: "heal entry", version });
        }
        let since_ms = reader.u64("heal entry since")?;
        let key = crate::record::take_register_key(&mut reader)?;
        let data = match reader.u8("heal entry data")? {
            0 if version == WITH_DATA => None,
            1 if version == WITH_ID => {
                Some(DamagedData::Id(DataId::from_bytes(reader.array("heal entry data id")?)))
            }
            1 => Some(DamagedData::Named(crate::record::take_data_ref(&mut reader)?)),
            _ => return Err(DecodeError::Invalid { field: "heal entry data" }),
        };
        reader.finish("heal entry")?;
        Ok(Self { key, data, since_ms })
    }
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::id::{BucketId, ObjectKey, ProposerId, SetId, Timestamp};
    use crate::record::{Home, strategy};

    fn key() -> RegisterKey {
        RegisterKey::object(BucketId([2; 16]), ObjectKey::new("k").expect("a key"))
    }

    fn data() -> DataRef {
        DataRef {
            id: DataId { birth: Timestamp::from_u64(1), proposer: ProposerId(7) },
            set: SetId(0x0102),
            size: 10,
            data_shards: 2,
            parity_shards: 2,
            stripe_unit: 1,
            home: Home::Packed,
        }
    }

    #[test]
    fn version_3_is_these_bytes() {
        let entry = HealEntry { key: key(), data: Some(data().into()), since_ms: 0x55 };
        let mut golden = vec![3, 0x55, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[2; 16]);
        golden.extend_from_slice(&[1, 0, 0, 0, b'k', 0, 1]);
        golden.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        golden.extend_from_slice(&[2, 1, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 1]);
        assert_eq!(entry.encode(), golden);
        assert_eq!(HealEntry::decode(golden.clone().into()), Ok(entry));
        for length in 0..golden.len() {
            assert!(HealEntry::decode(golden[..length].to_vec().into()).is_err());
        }
        for version in [0, 1, 4] {
            let mut unknown = golden.clone();
            unknown[0] = version;
            let refused = DecodeError::Version { field: "heal entry", version };
            assert_eq!(HealEntry::decode(unknown.into()), Err(refused));
        }
    }

    #[test]
    fn version_2_is_these_bytes() {
        let entry = HealEntry { key: key(), data: Some(DamagedData::Id(data().id)), since_ms: 0x55 };
        let mut golden = vec![2, 0x55, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[2; 16]);
        golden.extend_from_slice(&[1, 0, 0, 0, b'k', 0, 1]);
        golden.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(entry.encode(), golden);
        assert_eq!(HealEntry::decode(golden.clone().into()), Ok(entry));
        for length in 0..golden.len() {
            assert!(HealEntry::decode(golden[..length].to_vec().into()).is_err());
        }
        golden.truncate(golden.len() - 16);
        *golden.last_mut().expect("longer") = 0;
        let refused = HealEntry::decode(golden.into());
        assert!(refused.is_err(), "version 3 has an entry without data: {refused:?}");
    }

    #[test]
    fn the_same_damage_has_one_id_whenever_it_is_seen() {
        let seen = |since_ms, data| HealEntry { key: key(), data, since_ms }.id();
        let named = Some(DamagedData::Named(data()));
        assert_eq!(seen(1, named), seen(2, named));
        assert_eq!(seen(1, named), seen(2, Some(DamagedData::Id(data().id))), "however it is written");
        assert_eq!(seen(1, None), seen(2, None));
        assert_ne!(seen(1, None), seen(1, named));
    }

    #[test]
    fn a_want_has_another_id_than_a_report_of_the_same_damage() {
        let wants =
            [None, Some(DamagedData::Named(data()))].map(|data| HealEntry { key: key(), data, since_ms: 1 });
        let ids: Vec<_> = wants.iter().flat_map(|entry| [entry.id(), entry.want_id()]).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
    }

    proptest! {
        #[test]
        fn entries_come_back(
            key in strategy::register_key(),
            data in option::of(strategy::data_ref()),
            by_id: bool,
            since_ms: u64,
        ) {
            let damaged = |data: DataRef| if by_id { DamagedData::Id(data.id) } else { data.into() };
            let data = data.map(damaged);
            let entry = HealEntry { key, data, since_ms };
            prop_assert_eq!(HealEntry::decode(entry.encode()), Ok(entry));
        }
    }
}
