//! Where the scrubber's walk of a volume stands, and the stored form of that: its bytes are pinned by a test.

use sherd_core::codec::{DecodeError, Reader, Writer};
use sherd_core::id::{DataId, RegisterKey, ShardId};
use sherd_core::record::{put_register_key, take_register_key};

/// Stages of a walk: rows, packed shards, and each directory of shard files.
pub(super) const STAGES: u32 = 2 + 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScrubPlace {
    Rows { after: Option<RegisterKey> },
    Packed { after: Option<ShardId> },
    Files { directory: u8, after: Option<ShardId> },
}

impl ScrubPlace {
    /// The stored form, as hex.
    pub(super) fn encode(&self) -> String {
        let mut writer = Writer::new();
        match self {
            Self::Rows { after } => {
                writer.u8(1).u8(u8::from(after.is_some()));
                if let Some(key) = after {
                    put_register_key(&mut writer, key);
                }
            }
            Self::Packed { after } => {
                writer.u8(2);
                put_shard(&mut writer, *after);
            }
            Self::Files { directory, after } => {
                writer.u8(3).u8(*directory);
                put_shard(&mut writer, *after);
            }
        }
        hex::encode(writer.finish())
    }

    /// From the stored form; the beginning for anything else.
    pub(super) fn decode(stored: &str) -> Self {
        let decode = || {
            let mut reader = Reader::new(hex::decode(stored).ok()?.into());
            Some(match reader.u8("place").ok()? {
                1 if reader.u8("place").ok()? == 0 => Self::Rows { after: None },
                1 => Self::Rows { after: Some(take_register_key(&mut reader).ok()?) },
                2 => Self::Packed { after: take_shard(&mut reader).ok()? },
                3 => {
                    Self::Files { directory: reader.u8("place").ok()?, after: take_shard(&mut reader).ok()? }
                }
                _ => return None,
            })
        };
        decode().unwrap_or(Self::Rows { after: None })
    }

    pub(super) fn stage(&self) -> u32 {
        match self {
            Self::Rows { .. } => 0,
            Self::Packed { .. } => 1,
            Self::Files { directory, .. } => 2 + u32::from(*directory),
        }
    }

    /// The stage behind one that is done; `None` at the end of the walk.
    pub(super) fn next_stage(&self) -> Option<Self> {
        match self {
            Self::Rows { .. } => Some(Self::Packed { after: None }),
            Self::Packed { .. } => Some(Self::Files { directory: 0, after: None }),
            Self::Files { directory, .. } => {
                directory.checked_add(1).map(|directory| Self::Files { directory, after: None })
            }
        }
    }
}

fn put_shard(writer: &mut Writer, shard: Option<ShardId>) {
    writer.u8(u8::from(shard.is_some()));
    if let Some(ShardId { data, index }) = shard {
        writer.raw(&data.to_bytes()).u8(index);
    }
}

fn take_shard(reader: &mut Reader) -> Result<Option<ShardId>, DecodeError> {
    if reader.u8("shard")? == 0 {
        return Ok(None);
    }
    let data = DataId::from_bytes(reader.array("data id")?);
    Ok(Some(ShardId { data, index: reader.u8("index")? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{BucketId, ObjectKey, ProposerId, Timestamp};

    #[test]
    fn the_place_of_a_walk_is_these_bytes() {
        let shard =
            ShardId { data: DataId { birth: Timestamp::from_u64(5), proposer: ProposerId(6) }, index: 7 };
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"));
        let shard_bytes = "01 0000000000000005 0000000000000006 07";
        for (place, golden) in [
            (ScrubPlace::Rows { after: None }, "0100".to_owned()),
            (ScrubPlace::Rows { after: Some(key) }, format!("0101 {} 01000000 6b 00", "01".repeat(16))),
            (ScrubPlace::Packed { after: None }, "0200".to_owned()),
            (ScrubPlace::Packed { after: Some(shard) }, format!("02 {shard_bytes}")),
            (ScrubPlace::Files { directory: 255, after: Some(shard) }, format!("03 ff {shard_bytes}")),
        ] {
            assert_eq!(place.encode(), golden.split_whitespace().collect::<String>());
            assert_eq!(ScrubPlace::decode(&place.encode()), place);
        }
        assert_eq!(ScrubPlace::decode("nonsense"), ScrubPlace::Rows { after: None });
        assert_eq!(ScrubPlace::decode("0301"), ScrubPlace::Rows { after: None });
    }

    #[test]
    fn a_walk_goes_through_every_directory_and_ends() {
        let mut place = ScrubPlace::Rows { after: None };
        let mut stages = 1;
        while let Some(next) = place.next_stage() {
            assert_eq!((place.stage(), next.stage()), (stages - 1, stages));
            place = next;
            stages += 1;
        }
        assert_eq!(stages, STAGES);
        assert_eq!(place, ScrubPlace::Files { directory: 255, after: None });
    }
}
