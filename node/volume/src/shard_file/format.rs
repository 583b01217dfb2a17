//! The bytes of a shard file, version 1: what is where, and how it is checked.
//!
//! All numbers are little endian. The header is one page and its last four bytes are its crc32c;
//! bytes that are not named are zeros. The payload is padded with zeros to a whole page.
//!
//! ```text
//!      0  header 4096   | magic 8 | version 1, zeros 7 | cluster id 16 | bucket id 16
//!                       | hash of the key 32 | data id 16
//!                       | shard index 1 | k 1 | m 1 | is part 1 | stripe unit 4 | shard bytes 8
//!                       | upload id 16 | part number 2 | key bytes 2, zeros 4 | key, at most 1024
//!                       | zeros | crc32c of the 4092 bytes before 4
//!   4096  payload       | shard bytes | zeros up to a multiple of 4096
//!         table         | blake3 of each 64 KiB of payload, 32 each, the last block may be short
//!         footer 48     | table bytes 8 | blake3 of the table 32 | magic 8
//! ```

use bytes::Bytes;

use crate::limits::SHARD_BYTES_MAX;
use sherd_core::checksum::Digest;
use sherd_core::codec::{DecodeError, Reader, Writer};
use sherd_core::id::{BucketId, ClusterId, DataId, ObjectKey, PartKey, RegisterKey, ShardId, UploadId};
use sherd_core::limits::{HASH_BLOCK_BYTES, KEY_BYTES_MAX, SET_VOLUMES_MAX};
use sherd_core::message::ShardFileHeader;

/// The first bytes of a shard file.
pub const HEADER_MAGIC: [u8; 8] = *b"SHRDFILE";
/// The last bytes of a finished shard file.
pub const FOOTER_MAGIC: [u8; 8] = *b"SHRDDONE";
/// The version written and the only one read.
pub const VERSION: u8 = 1;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 8 + HASH_BYTES + 8;
/// Bytes of one hash in the table.
pub const HASH_BYTES: usize = 32;
/// Multiple to which the payload is padded.
pub const PAGE_BYTES: u64 = 4096;

const KEY_AT: usize = 136;
const CRC_AT: usize = HEADER_BYTES - 4;

const _: () = {
    assert!(KEY_AT == 8 + 8 + 16 + 16 + 32 + 16 + 4 + 4 + 8 + 16 + 2 + 2 + 4, "the fields before the key");
    assert!(KEY_AT + KEY_BYTES_MAX <= CRC_AT, "the longest key fits the header");
    assert!((HEADER_BYTES as u64).is_multiple_of(PAGE_BYTES), "the payload starts on a page");
    assert!(SHARD_BYTES_MAX > sherd_core::limits::PUT_BYTES_MAX, "every shard of a PUT fits");
    assert!(FOOTER_BYTES == 48, "as drawn");
};

/// A header as it is stored: what the node says of the shard, and whose cluster's it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHeader {
    /// The cluster.
    pub cluster: ClusterId,
    /// The shard.
    pub shard: ShardFileHeader,
}

/// Where the parts of a shard file lie, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLayout {
    /// Blocks of the payload.
    pub blocks: u64,
    /// Bytes of zeros behind the payload.
    pub padding_bytes: u64,
    /// Where the table begins.
    pub table_at: u64,
    /// Where the footer begins.
    pub footer_at: u64,
    /// The length of the file.
    pub file_bytes: u64,
}

impl FileLayout {
    /// The layout for a payload; `None` when it is too long.
    pub const fn of(shard_bytes: u64) -> Option<Self> {
        if shard_bytes > SHARD_BYTES_MAX {
            return None;
        }
        let blocks = shard_bytes.div_ceil(HASH_BLOCK_BYTES as u64);
        let padded_bytes = shard_bytes.next_multiple_of(PAGE_BYTES);
        let table_at = HEADER_BYTES as u64 + padded_bytes;
        let footer_at = table_at + blocks * HASH_BYTES as u64;
        Some(Self {
            blocks,
            padding_bytes: padded_bytes - shard_bytes,
            table_at,
            footer_at,
            file_bytes: footer_at + FOOTER_BYTES as u64,
        })
    }

    /// Bytes of the table.
    pub const fn table_bytes(&self) -> u64 {
        self.footer_at - self.table_at
    }
}

/// Encodes a header, one page.
pub fn encode_header(header: &StoredHeader) -> Bytes {
    let StoredHeader { cluster, shard } = header;
    let ShardFileHeader { shard: ShardId { data, index }, key, data_shards, parity_shards, .. } = shard;
    let ShardFileHeader { stripe_unit, shard_bytes, .. } = shard;
    let RegisterKey { bucket, key, part } = key;
    let PartKey { upload, number } = part.unwrap_or(PartKey { upload: UploadId([0; 16]), number: 0 });
    let mut writer = Writer::new();
    writer.raw(&HEADER_MAGIC).u8(VERSION).raw(&[0; 7]);
    writer.raw(&cluster.0).raw(&bucket.0);
    writer.raw(blake3::hash(key.as_bytes()).as_bytes()).raw(&data.to_bytes());
    writer.u8(*index).u8(*data_shards).u8(*parity_shards).u8(u8::from(part.is_some()));
    writer.u32(*stripe_unit).u64(*shard_bytes).raw(&upload.0).u16(number);
    let key_bytes = u16::try_from(key.as_bytes().len()).expect("a key has at most 1024 bytes");
    writer.u16(key_bytes).u32(0).raw(key.as_bytes());
    writer.raw(&[0; CRC_AT][writer.len()..]);
    let page = writer.finish();
    let mut writer = Writer::new();
    writer.raw(&page).u32(crc32c::crc32c(&page));
    writer.finish()
}

/// Decodes a header.
///
/// # Errors
/// [`DecodeError`] on anything but a header of this version that a writer can have written.
pub fn decode_header(page: &Bytes) -> Result<StoredHeader, DecodeError> {
    const FIELD: &str = "shard file header";
    if page.len() != HEADER_BYTES {
        return Err(DecodeError::Short { field: FIELD });
    }
    let mut reader = Reader::new(page.slice(..CRC_AT));
    if reader.array(FIELD)? != HEADER_MAGIC {
        return Err(DecodeError::Invalid { field: "shard file magic" });
    }
    let version = reader.u8(FIELD)?;
    if version != VERSION {
        return Err(DecodeError::Version { field: FIELD, version });
    }
    let crc = Reader::new(page.slice(CRC_AT..)).u32(FIELD)?;
    if crc != crc32c::crc32c(&page.slice(..CRC_AT)) {
        return Err(DecodeError::Invalid { field: "shard file header crc" });
    }
    reader.bytes(7, FIELD)?;
    let cluster = ClusterId(reader.array(FIELD)?);
    let bucket = BucketId(reader.array(FIELD)?);
    let key_hash: Digest = reader.array(FIELD)?;
    let data = DataId::from_bytes(reader.array(FIELD)?);
    let [index, data_shards, parity_shards, is_part] = reader.array(FIELD)?;
    let stripe_unit = reader.u32(FIELD)?;
    let shard_bytes = reader.u64(FIELD)?;
    let part = PartKey { upload: UploadId(reader.array(FIELD)?), number: reader.u16(FIELD)? };
    let key_bytes = usize::from(reader.u16(FIELD)?);
    reader.u32(FIELD)?;
    let key = reader.bytes(key_bytes, FIELD)?;
    let key = ObjectKey::new(key).map_err(|_| DecodeError::Invalid { field: "shard file key" })?;
    let is_valid = data_shards > 0
        && usize::from(data_shards) + usize::from(parity_shards) <= SET_VOLUMES_MAX
        && usize::from(index) < usize::from(data_shards) + usize::from(parity_shards)
        && stripe_unit > 0
        && is_part <= 1
        && shard_bytes <= SHARD_BYTES_MAX
        && blake3::hash(key.as_bytes()) == key_hash;
    if !is_valid {
        return Err(DecodeError::Invalid { field: "shard file geometry" });
    }
    let part = (is_part == 1).then_some(part);
    let shard = ShardFileHeader {
        shard: ShardId { data, index },
        key: RegisterKey { bucket, key, part },
        data_shards,
        parity_shards,
        stripe_unit,
        shard_bytes,
    };
    let stored = StoredHeader { cluster, shard };
    // One header has one form: what is not named is zeros.
    if encode_header(&stored) != page {
        return Err(DecodeError::Invalid { field: "shard file header zeros" });
    }
    Ok(stored)
}

/// Encodes the table and the footer behind it.
pub fn encode_table(hashes: &[Digest]) -> Bytes {
    let mut writer = Writer::new();
    for hash in hashes {
        writer.raw(hash);
    }
    let table_bytes = writer.len();
    let table = writer.finish();
    let mut writer = Writer::new();
    writer.raw(&table).u64(table_bytes as u64);
    writer.raw(blake3::hash(&table).as_bytes()).raw(&FOOTER_MAGIC);
    writer.finish()
}

/// Decodes the table and the footer behind it. Returns the table: a hash of 32 bytes per block.
///
/// # Errors
/// [`DecodeError`] when it is not the table of a payload with `blocks` blocks.
pub fn decode_table(bytes: &Bytes, blocks: u64) -> Result<Bytes, DecodeError> {
    const FIELD: &str = "shard file table";
    let table_bytes = bytes.len().checked_sub(FOOTER_BYTES).ok_or(DecodeError::Short { field: FIELD })?;
    if blocks.checked_mul(HASH_BYTES as u64) != Some(table_bytes as u64) {
        return Err(DecodeError::Invalid { field: "shard file table length" });
    }
    let table = bytes.slice(..table_bytes);
    let mut reader = Reader::new(bytes.slice(table_bytes..));
    let stored_bytes = reader.u64(FIELD)?;
    let stored_hash: Digest = reader.array(FIELD)?;
    if reader.array(FIELD)? != FOOTER_MAGIC {
        return Err(DecodeError::Invalid { field: "shard file footer" });
    }
    if stored_bytes != table_bytes as u64 || blake3::hash(&table) != stored_hash {
        return Err(DecodeError::Invalid { field: "shard file table hash" });
    }
    Ok(table)
}
