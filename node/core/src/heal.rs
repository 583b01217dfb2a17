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
    /// The id that this damage always has: the data id where data is damaged, else the key's.
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
