//! The order of rows: one byte string per register.
//!
//! ```text
//! object row   1  bucket 16  key                     unsettled   4  the key of a row
//! part row     2  bucket 16  upload 16  part u16 BE  key
//! ```
//!
//! Scans go through rows in the order of these bytes and go on behind one of them, on whichever volume is
//! asked; a volume's index stores its rows under them.

use bytes::Bytes;

use crate::codec::{Reader, Writer};
use crate::id::{BucketId, ObjectKey, PartKey, RegisterKey, UploadId};

/// Object rows.
pub const OBJECT: u8 = 1;
/// Part rows.
pub const PART: u8 = 2;
/// Rows not known committed.
pub const UNSETTLED: u8 = 4;

/// The keys of a row, cut from one buffer: made once for all that is done to the row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowKeys {
    row: Bytes,
    unsettled: Bytes,
}

impl RowKeys {
    /// The keys of a register's row.
    pub fn of(key: &RegisterKey) -> Self {
        let mut writer = Writer::with_capacity(1 + row_key_bytes(key));
        put_row_key(writer.u8(UNSETTLED), key);
        let unsettled = writer.finish();
        Self { row: unsettled.slice(1..), unsettled }
    }

    /// The key of the row.
    pub const fn row(&self) -> &Bytes {
        &self.row
    }

    /// The key under which the row waits to be settled.
    pub const fn unsettled(&self) -> &Bytes {
        &self.unsettled
    }
}

/// The key of a row.
pub fn row_key(key: &RegisterKey) -> Bytes {
    let mut writer = Writer::with_capacity(row_key_bytes(key));
    put_row_key(&mut writer, key);
    writer.finish()
}

fn row_key_bytes(key: &RegisterKey) -> usize {
    let part_bytes = key.part.map_or(0, |PartKey { upload, number: _ }| upload.0.len() + size_of::<u16>());
    1 + key.bucket.0.len() + part_bytes + key.key.as_bytes().len()
}

fn put_row_key(writer: &mut Writer, key: &RegisterKey) {
    let RegisterKey { bucket, key, part } = key;
    match part {
        None => writer.u8(OBJECT).raw(&bucket.0),
        Some(PartKey { upload, number }) => {
            writer.u8(PART).raw(&bucket.0).raw(&upload.0).raw(&number.to_be_bytes())
        }
    };
    writer.raw(key.as_bytes());
}

/// The register whose row has this key.
pub fn parse_row_key(bytes: &Bytes) -> Option<RegisterKey> {
    let mut reader = Reader::new(bytes.clone());
    let table = reader.u8("table").ok()?;
    let bucket = BucketId(reader.array("bucket").ok()?);
    let part = match table {
        OBJECT => None,
        PART => Some(PartKey {
            upload: UploadId(reader.array("upload").ok()?),
            number: u16::from_be_bytes(reader.array("part").ok()?),
        }),
        _ => return None,
    };
    let length = reader.remaining();
    let key = ObjectKey::new(reader.bytes(length, "key").ok()?).ok()?;
    Some(RegisterKey { bucket, key, part })
}

/// The key under which a row waits to be settled.
pub fn unsettled_key(row_key: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(row_key.len() + 1);
    key.push(UNSETTLED);
    key.extend_from_slice(row_key);
    key.into()
}
