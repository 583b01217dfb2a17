//! The stored form of a [`Value`](super::Value), version 1.
//!
//! ```text
//! value   := version u8 = 1, changes, state u8, (nothing | object | part | bucket)
//! changes := count u64, n u8 (at most 4), n x change id 16
//! ```
//!
//! The other structures follow in this file in the order of `record/mod.rs`. All numbers are
//! little endian; ids are as [`crate::id`] stores them; lists and texts carry a `u32` in front.

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{BucketId, DataId, ObjectKey, PartKey, RegisterKey, UploadId};
use crate::record::{DataRef, Home};

/// Appends a register key: bucket 16, key (`u32` length), part flag u8, (upload 16, number u16).
pub fn put_register_key(writer: &mut Writer, key: &RegisterKey) {
    let RegisterKey { bucket, key, part } = key;
    writer.raw(&bucket.0).blob(key.as_bytes()).u8(u8::from(part.is_some()));
    if let Some(PartKey { upload, number }) = part {
        writer.raw(&upload.0).u16(*number);
    }
}

/// Takes a register key.
///
/// # Errors
/// [`DecodeError`] when the bytes end or hold no valid key.
pub fn take_register_key(reader: &mut Reader) -> Result<RegisterKey, DecodeError> {
    let bucket = BucketId(reader.array("bucket id")?);
    let key = ObjectKey::new(reader.blob("key")?).map_err(|_| DecodeError::Invalid { field: "key" })?;
    let part = match reader.u8("part flag")? {
        0 => None,
        1 => {
            Some(PartKey { upload: UploadId(reader.array("upload id")?), number: reader.u16("part number")? })
        }
        _ => return Err(DecodeError::Invalid { field: "part flag" }),
    };
    Ok(RegisterKey { bucket, key, part })
}

/// Appends a data reference: id 16, size u64, k u8, m u8, stripe unit u32, home u8.
pub fn put_data_ref(writer: &mut Writer, data: &DataRef) {
    let DataRef { id, size, data_shards, parity_shards, stripe_unit, home } = data;
    writer.raw(&id.to_bytes()).u64(*size).u8(*data_shards).u8(*parity_shards);
    writer.u32(*stripe_unit).u8(*home as u8);
}

/// Takes a data reference and checks its geometry.
///
/// # Errors
/// [`DecodeError`] when the bytes end or the geometry is none.
pub fn take_data_ref(reader: &mut Reader) -> Result<DataRef, DecodeError> {
    let data = DataRef {
        id: DataId::from_bytes(reader.array("data id")?),
        size: reader.u64("data size")?,
        data_shards: reader.u8("data shards")?,
        parity_shards: reader.u8("parity shards")?,
        stripe_unit: reader.u32("stripe unit")?,
        home: match reader.u8("home")? {
            1 => Home::Packed,
            2 => Home::File,
            _ => return Err(DecodeError::Invalid { field: "home" }),
        },
    };
    let volumes = usize::from(data.data_shards) + usize::from(data.parity_shards);
    let valid = data.size > 0
        && data.data_shards > 0
        && volumes <= crate::limits::SET_VOLUMES_MAX
        && data.stripe_unit > 0;
    if valid { Ok(data) } else { Err(DecodeError::Invalid { field: "data geometry" }) }
}
