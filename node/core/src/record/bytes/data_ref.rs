//! Parts of several forms: references to data, and values that may be absent.
//!
//! ```text
//! data ref := id 16, set u32, size u64, k u8, m u8, stripe unit u32, home u8
//! ```

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{DataId, SetId};
use crate::record::{DataRef, Home};

/// Bytes of a data reference.
pub(super) const DATA_REF_BYTES: usize = 16 + 4 + 8 + 1 + 1 + 4 + 1;

/// Takes a byte that says whether something follows, and what follows.
pub(super) fn take_optional<T>(
    reader: &mut Reader,
    field: &'static str,
    take: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    match reader.u8(field)? {
        0 => Ok(None),
        1 => take(reader).map(Some),
        _ => Err(DecodeError::Invalid { field }),
    }
}

/// Appends a data reference: id 16, set u32, size u64, k u8, m u8, stripe unit u32, home u8.
pub fn put_data_ref(writer: &mut Writer, data: &DataRef) {
    let DataRef { id, set, size, data_shards, parity_shards, stripe_unit, home } = data;
    writer.raw(&id.to_bytes()).u32(set.0);
    writer.u64(*size).u8(*data_shards).u8(*parity_shards);
    writer.u32(*stripe_unit).u8(*home as u8);
}

/// Takes a data reference and checks its set, size and geometry.
///
/// # Errors
/// [`DecodeError`] when the bytes end, no cluster has a set of this number, or the geometry is invalid.
pub fn take_data_ref(reader: &mut Reader) -> Result<DataRef, DecodeError> {
    let data = DataRef {
        id: DataId::from_bytes(reader.array("data id")?),
        set: SetId(reader.u32("data set")?),
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
    data.check()?;
    Ok(data)
}
