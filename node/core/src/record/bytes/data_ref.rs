//! What several forms have in them: references to data, and what may be absent.
//!
//! ```text
//! data ref := id 16, size u64, k u8, m u8, stripe unit u32, home u8
//! ```

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::DataId;
use crate::record::{DataRef, Home};

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

/// Appends a data reference: id 16, size u64, k u8, m u8, stripe unit u32, home u8.
pub fn put_data_ref(writer: &mut Writer, data: &DataRef) {
    let DataRef { id, size, data_shards, parity_shards, stripe_unit, home } = data;
    writer.raw(&id.to_bytes()).u64(*size).u8(*data_shards).u8(*parity_shards);
    writer.u32(*stripe_unit).u8(*home as u8);
}

/// Takes a data reference and checks its size and geometry.
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
    data.check()?;
    Ok(data)
}
