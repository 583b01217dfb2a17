//! The versions of a value's stored form, and in what they differ.
//!
//! A value is written in version 6 where it keeps conditional changes, else in version 5 where one of its
//! records has an entry, else in version 4: a program without these refuses the value and never loses them,
//! and all other values keep their bytes. Each is read as it is written; versions 1 to 3 are refused. The
//! codecs of objects and buckets ask the version of the bytes around them which fields are absent.

use crate::codec::{DecodeError, Reader};
use crate::record::check::require;
use crate::record::{OverLimit, State, Value, VersionKind};

/// The versions of a value's stored form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum ValueVersion {
    /// Without entries and conditional changes.
    Plain = 4,
    /// At least one record has entries; without conditional changes.
    WithEntries = 5,
    /// With at least one conditional change.
    Conditional = 6,
}

impl ValueVersion {
    /// The version that a stored value begins with.
    pub(super) fn take(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8("value")? {
            4 => Ok(Self::Plain),
            5 => Ok(Self::WithEntries),
            6 => Ok(Self::Conditional),
            version => Err(DecodeError::Version { field: "value", version }),
        }
    }

    /// The version in which a value is stored.
    pub(super) fn of(value: &Value) -> Self {
        let Value { changes, state } = value;
        if !changes.conditional.is_empty() {
            Self::Conditional
        } else if has_entries(state) {
            Self::WithEntries
        } else {
            Self::Plain
        }
    }

    /// Requires that a value which was read in this version has what the version is for.
    pub(super) fn judge(self, value: &Value) -> Result<(), OverLimit> {
        match self {
            Self::Plain => Ok(()),
            Self::WithEntries => require(has_entries(&value.state), "entries"),
            Self::Conditional => require(!value.changes.conditional.is_empty(), "conditional changes"),
        }
    }
}

fn has_entries(state: &State) -> bool {
    match state {
        State::Bucket(bucket) => !bucket.entries.is_empty(),
        State::Object(object) => object.versions.iter().any(|version| match &version.kind {
            VersionKind::Content(content) => !content.entries.is_empty(),
            VersionKind::DeleteMarker => false,
        }),
        State::Tombstone | State::Part(_) | State::UploadAttributes(_) => false,
    }
}
