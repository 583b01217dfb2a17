//! A note of replaced data: what a committed value no longer names, and since when.
//!
//! Notes live in the logs of two volumes of the set from the commit until the data is deleted, so that a
//! restart finds the data that waits for its grace. A note is not a proof: the register is read before
//! anything is deleted (`register::release`). Its id begins with its time, so the oldest come first.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::RegisterKey;
use crate::limits::RELEASE_DATA_MAX;
use crate::record::DataRef;

/// The version in which notes are stored.
const VERSION: u8 = 2;

/// Names one note: when it was made, in milliseconds since the Unix epoch and big endian, and 8 bytes of
/// a hash over what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseId(pub [u8; 16]);

/// Data that was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedData {
    /// The data.
    pub data: DataRef,
    /// Whether it is a manifest page: then what it lists goes with it.
    pub is_page: bool,
}

/// Data to be released once its grace is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseEntry {
    /// The register that named it.
    pub key: RegisterKey,
    /// The data that the value named, at most [`RELEASE_DATA_MAX`].
    pub data: Vec<ReplacedData>,
    /// Milliseconds since the Unix epoch when it was replaced.
    pub since_ms: u64,
}

impl ReleaseEntry {
    /// Entries for all of `data`, as many as it takes.
    pub fn of(key: &RegisterKey, data: &[ReplacedData], since_ms: u64) -> Vec<Self> {
        let entry = |data: &[ReplacedData]| Self { key: key.clone(), data: data.to_vec(), since_ms };
        data.chunks(RELEASE_DATA_MAX).map(entry).collect()
    }

    /// The id that this note always has.
    pub fn id(&self) -> ReleaseId {
        let mut writer = Writer::new();
        crate::record::put_register_key(&mut writer, &self.key);
        for replaced in &self.data {
            writer.raw(&replaced.data.id.to_bytes());
        }
        let hash = blake3::hash(&writer.finish());
        let mut id = [0; 16];
        let (since, rest) = id.split_at_mut(8);
        since.copy_from_slice(&self.since_ms.to_be_bytes());
        let (hash, _) = hash.as_bytes().split_at(rest.len());
        rest.copy_from_slice(hash);
        ReleaseId(id)
    }

    /// The stored form.
    ///
    /// Programmer error: more data than one entry holds.
    pub fn encode(&self) -> Bytes {
        let Self { key, data, since_ms } = self;
        assert!(data.len() <= RELEASE_DATA_MAX, "an entry holds a bounded number");
        let mut writer = Writer::new();
        writer.u8(VERSION).u64(*since_ms);
        crate::record::put_register_key(&mut writer, key);
        writer.u8(u8::try_from(data.len()).expect("the bound fits a byte"));
        for ReplacedData { data, is_page } in data {
            crate::record::put_data_ref(&mut writer, data);
            writer.u8(u8::from(*is_page));
        }
        writer.finish()
    }

    /// From the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] on any other bytes.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let field = "release entry";
        let mut reader = Reader::new(bytes);
        match reader.u8(field)? {
            VERSION => {}
            version => return Err(DecodeError::Version { field, version }),
        }
        let since_ms = reader.u64(field)?;
        let key = crate::record::take_register_key(&mut reader)?;
        let count = usize::from(reader.u8(field)?);
        if count > RELEASE_DATA_MAX {
            return Err(DecodeError::Invalid { field });
        }
        let mut data = Vec::with_capacity(count);
        for _ in 0..count {
            let named = crate::record::take_data_ref(&mut reader)?;
            let is_page = match reader.u8(field)? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::Invalid { field }),
            };
            data.push(ReplacedData { data: named, is_page });
        }
        reader.finish(field)?;
        Ok(Self { key, data, since_ms })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::id::{BucketId, DataId, ObjectKey, ProposerId, SetId, Timestamp};
    use crate::record::{Home, strategy};

    fn entry(since_ms: u64) -> ReleaseEntry {
        let data = DataRef {
            id: DataId { birth: Timestamp::from_u64(1), proposer: ProposerId(7) },
            set: SetId(0x0102),
            size: 10,
            data_shards: 2,
            parity_shards: 2,
            stripe_unit: 1,
            home: Home::Packed,
        };
        let key = RegisterKey::object(BucketId([2; 16]), ObjectKey::new("k").expect("a key"));
        ReleaseEntry { key, data: vec![ReplacedData { data, is_page: true }], since_ms }
    }

    #[test]
    fn version_2_is_these_bytes() {
        let mut golden = vec![2, 0x55, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[2; 16]);
        golden.extend_from_slice(&[1, 0, 0, 0, b'k', 0, 1]);
        golden.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        golden.extend_from_slice(&[2, 1, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 1, 1]);
        assert_eq!(entry(0x55).encode(), golden);
        assert_eq!(ReleaseEntry::decode(golden.clone().into()), Ok(entry(0x55)));
        for length in 0..golden.len() {
            assert!(ReleaseEntry::decode(golden[..length].to_vec().into()).is_err());
        }
        for version in [0, 1, 3] {
            let mut unknown = golden.clone();
            unknown[0] = version;
            let refused = DecodeError::Version { field: "release entry", version };
            assert_eq!(ReleaseEntry::decode(unknown.into()), Err(refused));
        }
    }

    #[test]
    fn ids_sort_by_time() {
        let ids = [255, 256, 70_000].map(|since_ms| entry(since_ms).id());
        assert!(ids.is_sorted());
        assert_eq!(ids[1], entry(256).id());
    }

    #[test]
    fn more_data_than_an_entry_holds_takes_several() {
        let ReleaseEntry { key, data, since_ms } = entry(1);
        let many = vec![data[0]; RELEASE_DATA_MAX + 1];
        let lengths = ReleaseEntry::of(&key, &many, since_ms).into_iter().map(|entry| entry.data.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [RELEASE_DATA_MAX, 1]);
        assert_eq!(ReleaseEntry::of(&key, &[], since_ms), []);
    }

    proptest! {
        #[test]
        fn entries_come_back(
            key in strategy::register_key(),
            data in vec((strategy::data_ref(), any::<bool>()), 0..RELEASE_DATA_MAX),
            since_ms: u64,
        ) {
            let data = data.into_iter().map(|(data, is_page)| ReplacedData { data, is_page }).collect();
            let entry = ReleaseEntry { key, data, since_ms };
            prop_assert_eq!(ReleaseEntry::decode(entry.encode()), Ok(entry));
        }
    }
}
