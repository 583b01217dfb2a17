//! An entry of the MRF queue: one thing that a write or a read left to be mended.
//!
//! Entries live in the logs of the volumes that took the write, under an id that the same damage
//! always gives, so a queue holds each damage once however often it is seen.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::RegisterKey;
use crate::record::DataRef;

/// Names one damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HealId(pub [u8; 16]);

/// What is to be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealEntry {
    /// The register that names the data, or is itself behind on some volume.
    pub key: RegisterKey,
    /// The data with missing or rotten shards; `None` when only rows are behind.
    pub data: Option<DataRef>,
    /// Milliseconds since the Unix epoch when it was first seen.
    pub since_ms: u64,
}

impl HealEntry {
    /// The id that this damage always has: from the key, and the data id where data is damaged.
    pub fn id(&self) -> HealId {
        let mut writer = Writer::new();
        crate::record::put_register_key(&mut writer, &self.key);
        if let Some(data) = &self.data {
            writer.raw(&data.id.to_bytes());
        }
        let hash = blake3::hash(&writer.finish());
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *hash.as_bytes();
        HealId(id)
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let Self { key, data, since_ms } = self;
        let mut writer = Writer::new();
        writer.u8(1).u64(*since_ms);
        crate::record::put_register_key(&mut writer, key);
        writer.u8(u8::from(data.is_some()));
        if let Some(data) = data {
            crate::record::put_data_ref(&mut writer, data);
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
        if version != 1 {
            return Err(DecodeError::Version { field: "heal entry", version });
        }
        let since_ms = reader.u64("heal entry since")?;
        let key = crate::record::take_register_key(&mut reader)?;
        let data = match reader.u8("heal entry data")? {
            0 => None,
            1 => Some(crate::record::take_data_ref(&mut reader)?),
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
    use crate::id::{BucketId, DataId, ObjectKey, ProposerId, Timestamp};
    use crate::record::{Home, strategy};

    fn key() -> RegisterKey {
        RegisterKey::object(BucketId([2; 16]), ObjectKey::new("k").expect("a key"))
    }

    fn data() -> DataRef {
        DataRef {
            id: DataId { birth: Timestamp::from_u64(1), proposer: ProposerId(7) },
            size: 10,
            data_shards: 2,
            parity_shards: 2,
            stripe_unit: 1,
            home: Home::Packed,
        }
    }

    #[test]
    fn version_1_is_these_bytes() {
        let entry = HealEntry { key: key(), data: Some(data()), since_ms: 0x55 };
        let mut golden = vec![1, 0x55, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[2; 16]);
        golden.extend_from_slice(&[1, 0, 0, 0, b'k', 0, 1]);
        golden.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        golden.extend_from_slice(&[10, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 1]);
        assert_eq!(entry.encode(), golden);
        for length in 0..golden.len() {
            assert!(HealEntry::decode(golden[..length].to_vec().into()).is_err());
        }
        let mut unknown = golden;
        unknown[0] = 2;
        let refused = DecodeError::Version { field: "heal entry", version: 2 };
        assert_eq!(HealEntry::decode(unknown.into()), Err(refused));
    }

    #[test]
    fn the_same_damage_has_one_id_whenever_it_is_seen() {
        let seen = |since_ms, data| HealEntry { key: key(), data, since_ms }.id();
        assert_eq!(seen(1, Some(data())), seen(2, Some(data())));
        assert_eq!(seen(1, None), seen(2, None));
        assert_ne!(seen(1, None), seen(1, Some(data())));
    }

    proptest! {
        #[test]
        fn entries_come_back(
            key in strategy::register_key(),
            data in option::of(strategy::data_ref()),
            since_ms: u64,
        ) {
            let entry = HealEntry { key, data, since_ms };
            prop_assert_eq!(HealEntry::decode(entry.encode()), Ok(entry));
        }
    }
}
