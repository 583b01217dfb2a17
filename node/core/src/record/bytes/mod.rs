//! The stored form of a [`Value`], versions 4 to 6, and of a manifest page, version 2.
//!
//! ```text
//! value    := version u8 = 4 or, where there are entries, 5 or, where there are conditional changes, 6,
//!             changes, state u8, (0 nothing | 1 object | 2 part | 3 bucket | 4 attributes of an upload)
//! changes  := count u64, n u8 (at most 16), n x (change id 16, try u16), (conditional | 0 u8)
//!             0 in versions 4 and 5, see `calls.rs`
//! bucket   := id 16, created u64, location text, phase u8, (0 active | 1 deletion 16 | 2 deleted),
//!             n u8 (at most 50), n x (key text, value text), (entries)
//! key      := bucket 16, key blob, part u8, (0 nothing | 1 upload 16, number u16)
//! ```
//!
//! `object` and `attributes` are drawn in `object.rs`, `part` and `manifest` in `part.rs`, `data ref` in
//! `data_ref.rs`, `entries`, in versions 5 and 6, in `entries.rs`, `conditional`, in version 6, in
//! `calls.rs`. All numbers are little endian; ids are as [`crate::id`] stores them; lists, blobs and texts
//! (UTF-8) carry a `u32` count in front; times are milliseconds since the Unix epoch. A value has one stored
//! form in each version, so bytes that are passed on unchanged keep their digest: version 5 has at least one
//! entry, version 6 at least one conditional change. All other versions are refused. The rules of a value
//! stand once, in `check.rs`, and are checked both when writing and when reading.

#![deny(clippy::indexing_slicing)]

mod data_ref;
mod limits;
mod version;
mod calls;
mod entries;
mod object;
mod part;

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that indexes past an end has failed")]
mod tests;

pub use data_ref::{put_data_ref, take_data_ref};
pub use part::{decode_manifest, encode_manifest};

use bytes::Bytes;

use crate::checksum::Digest;
use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{BucketId, ChangeId, ObjectKey, PartKey, RegisterKey, UploadId};
use crate::limits::{BUCKET_TAGS_MAX, CHANGE_IDS, PARTS_MAX, VALUE_BYTES_MAX};
use crate::record::{Bucket, BucketPhase, ChangeTry, Changes, OverLimit, State, Tag, Value};
use calls::{conditional_bytes, put_conditional, take_conditional};
use data_ref::take_optional;
use entries::{put_entries, take_entries};
use version::ValueVersion;

/// Bytes that most values fit in, so that their encoding allocates once.
const USUAL_BYTES: usize = 512;

impl Value {
    /// The stored form.
    ///
    /// # Panics
    /// If the value breaks a limit: code that builds values from a client's wishes calls
    /// [`Value::try_encode`].
    pub fn encode(&self) -> Bytes {
        self.try_encode().expect("the maker of the value kept its limits")
    }

    /// The stored form, unless the value has grown past a limit. Its result always decodes.
    ///
    /// # Errors
    /// [`OverLimit`] names the field.
    pub fn try_encode(&self) -> Result<Bytes, OverLimit> {
        self.check()?;
        let Self { changes, state } = self;
        let mut writer = Writer::with_capacity(USUAL_BYTES + conditional_bytes(&changes.conditional));
        let version = ValueVersion::of(self);
        writer.u8(version as u8);
        put_changes(&mut writer, changes, version);
        match state {
            State::Tombstone => {
                writer.u8(0);
            }
            State::Object(held) => object::put_object(writer.u8(1), held, version)?,
            State::Part(held) => part::put_part(writer.u8(2), held),
            State::Bucket(held) => put_bucket(writer.u8(3), held, version),
            State::UploadAttributes(held) => object::put_attributes(writer.u8(4), held),
        }
        if writer.len() > VALUE_BYTES_MAX {
            return Err(OverLimit { field: "value" });
        }
        Ok(writer.finish())
    }

    /// From the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] on any bytes that [`Value::encode`] does not give.
    pub fn decode(head: Bytes) -> Result<Self, DecodeError> {
        if head.len() > VALUE_BYTES_MAX {
            return Err(DecodeError::Invalid { field: "value" });
        }
        let mut reader = Reader::new(head);
        let version = ValueVersion::take(&mut reader)?;
        let changes = take_changes(&mut reader, version)?;
        let state = match reader.u8("state")? {
            0 => State::Tombstone,
            1 => State::Object(object::take_object(&mut reader, version)?),
            2 => State::Part(part::take_part(&mut reader)?),
            3 => State::Bucket(take_bucket(&mut reader, version)?),
            4 => State::UploadAttributes(object::take_attributes(&mut reader)?),
            _ => return Err(DecodeError::Invalid { field: "state" }),
        };
        reader.finish("value")?;
        let value = Self { changes, state };
        version.judge(&value)?;
        value.check()?;
        Ok(value)
    }

    /// The hash by which two rows are known to hold the same value: blake3 of the encoded head.
    pub fn digest(head: &Bytes) -> Digest {
        *blake3::hash(head).as_bytes()
    }
}

impl From<OverLimit> for DecodeError {
    fn from(OverLimit { field }: OverLimit) -> Self {
        Self::Invalid { field }
    }
}

fn put_changes(writer: &mut Writer, changes: &Changes, version: ValueVersion) {
    let Changes { count, recent, conditional } = changes;
    let length = u8::try_from(recent.len()).expect("checked: at most CHANGE_IDS");
    writer.u64(*count).u8(length);
    for ChangeTry { change, number } in recent {
        writer.raw(&change.to_bytes()).u16(*number);
    }
    put_conditional(writer, conditional, version);
}

fn take_changes(reader: &mut Reader, version: ValueVersion) -> Result<Changes, DecodeError> {
    let count = reader.u64("changes")?;
    let length = usize::from(reader.u8("change ids")?);
    if length > CHANGE_IDS {
        return Err(DecodeError::Invalid { field: "change ids" });
    }
    let mut recent = Vec::with_capacity(length);
    for _ in 0..length {
        let change = ChangeId::from_bytes(reader.array("change id")?);
        recent.push(ChangeTry { change, number: reader.u16("change try")? });
    }
    Ok(Changes { count, recent, conditional: take_conditional(reader, version)? })
}

fn put_bucket(writer: &mut Writer, bucket: &Bucket, version: ValueVersion) {
    let Bucket { id, created_ms, location, phase, tags, entries } = bucket;
    writer.raw(&id.0).u64(*created_ms).blob(location.as_bytes());
    match phase {
        BucketPhase::Active => writer.u8(0),
        BucketPhase::Deleting { deletion } => writer.u8(1).raw(&deletion.to_bytes()),
        BucketPhase::Deleted => writer.u8(2),
    };
    writer.u8(u8::try_from(tags.len()).expect("checked: at most BUCKET_TAGS_MAX"));
    for Tag { key, value } in tags {
        writer.blob(key.as_bytes()).blob(value.as_bytes());
    }
    if version >= ValueVersion::WithEntries {
        put_entries(writer, entries);
    }
}

fn take_bucket(reader: &mut Reader, version: ValueVersion) -> Result<Bucket, DecodeError> {
    Ok(Bucket {
        id: BucketId(reader.array("bucket id")?),
        created_ms: reader.u64("bucket created")?,
        location: reader.text("bucket location")?,
        phase: match reader.u8("bucket phase")? {
            0 => BucketPhase::Active,
            1 => BucketPhase::Deleting { deletion: ChangeId::from_bytes(reader.array("bucket deletion")?) },
            2 => BucketPhase::Deleted,
            _ => return Err(DecodeError::Invalid { field: "bucket phase" }),
        },
        tags: take_tags(reader)?,
        entries: take_entries(reader, version)?,
    })
}

fn take_tags(reader: &mut Reader) -> Result<Vec<Tag>, DecodeError> {
    let length = usize::from(reader.u8("bucket tags")?);
    if length > BUCKET_TAGS_MAX {
        return Err(DecodeError::Invalid { field: "bucket tags" });
    }
    let mut tags = Vec::with_capacity(length);
    for _ in 0..length {
        tags.push(Tag { key: reader.text("tag key")?, value: reader.text("tag value")? });
    }
    Ok(tags)
}

/// Bytes that [`put_register_key`] appends.
pub fn register_key_bytes(key: &RegisterKey) -> usize {
    let RegisterKey { bucket, key, part } = key;
    let part_bytes = part.map_or(0, |PartKey { upload, number: _ }| upload.0.len() + size_of::<u16>());
    bucket.0.len() + size_of::<u32>() + key.as_bytes().len() + 1 + part_bytes
}

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
    let part = take_optional(reader, "part flag", take_part_key)?;
    Ok(RegisterKey { bucket, key, part })
}

fn take_part_key(reader: &mut Reader) -> Result<PartKey, DecodeError> {
    let upload = UploadId(reader.array("upload id")?);
    let number = reader.u16("part number")?;
    if number <= PARTS_MAX {
        Ok(PartKey { upload, number })
    } else {
        Err(DecodeError::Invalid { field: "part number" })
    }
}
