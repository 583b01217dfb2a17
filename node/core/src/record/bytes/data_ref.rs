//! Parts of several forms: references to data, and values that may be absent.
//!
//! ```text
//! data ref := id 16, set u32 (all ones: none is named), size u64, k u8, m u8, stripe unit u32, home u8
//! ```
//!
//! References that were written before sets were named have no set ([`DataRefForm::WithoutSet`]): their data
//! is on the set of its key. Such a reference that is carried into a new value still names no set; every new
//! reference names its set.

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{DataId, SetId};
use crate::record::{DataRef, Home};

/// Stored in place of a set where none is named.
const NO_SET: u32 = u32::MAX;
/// Bytes of a data reference that has its set.
pub(super) const DATA_REF_BYTES: usize = 16 + 4 + 8 + 1 + 1 + 4 + 1;

/// Which form the references to data have in the bytes around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataRefForm {
    /// Without a set: read, never written.
    WithoutSet,
    /// With a set, or with what says that none is named.
    WithSet,
}

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
    writer.raw(&id.to_bytes()).u32(set.map_or(NO_SET, |set| set.0));
    writer.u64(*size).u8(*data_shards).u8(*parity_shards);
    writer.u32(*stripe_unit).u8(*home as u8);
}

/// Takes a data reference and checks its set, size and geometry.
///
/// # Errors
/// [`DecodeError`] when the bytes end, no cluster has a set of this number, or the geometry is invalid.
pub fn take_data_ref(reader: &mut Reader, form: DataRefForm) -> Result<DataRef, DecodeError> {
    let data = DataRef {
        id: DataId::from_bytes(reader.array("data id")?),
        set: match form {
            DataRefForm::WithoutSet => None,
            DataRefForm::WithSet => take_set(reader)?,
        },
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

fn take_set(reader: &mut Reader) -> Result<Option<SetId>, DecodeError> {
    let set = reader.u32("data set")?;
    Ok((set != NO_SET).then_some(SetId(set)))
}
