//! Entries of a bucket's record and of a version's content, as version 5 of a value has them.
//!
//! ```text
//! entries := n u8, n x (kind u16, bytes blob), kinds ascending
//! ```

use bytes::Bytes;

use super::version::ValueVersion;
use crate::codec::{DecodeError, Reader, Writer};
use crate::limits;
use crate::record::{Entries, Entry};

pub(super) fn put_entries(writer: &mut Writer, entries: &Entries) {
    writer.u8(u8::try_from(entries.iter().len()).expect("checked: at most ENTRIES_MAX"));
    for Entry { kind, bytes } in entries.iter() {
        writer.u16(*kind).blob(bytes);
    }
}

/// Takes the entries of a record; a value of version 4 has none.
pub(super) fn take_entries(reader: &mut Reader, stored: ValueVersion) -> Result<Entries, DecodeError> {
    let invalid = DecodeError::Invalid { field: "entries" };
    if stored < ValueVersion::WithEntries {
        return Ok(Entries::default());
    }
    let length = usize::from(reader.u8("entries")?);
    if length > limits::ENTRIES_MAX {
        return Err(invalid);
    }
    let mut entries = Vec::with_capacity(length);
    for _ in 0..length {
        // Copied: a slice would keep all the bytes around the value in memory.
        let (kind, bytes) = (reader.u16("entry kind")?, reader.blob("entry")?);
        entries.push(Entry { kind, bytes: Bytes::copy_from_slice(&bytes) });
    }
    Entries::in_order(entries).ok_or(invalid)
}
