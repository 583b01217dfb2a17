//! Which versions of a value's stored form there are, and in what they differ.
//!
//! A value is read in any of them. It is written in version 6 where it keeps conditional changes, else in
//! version 5 where one of its records has an entry, else in version 4: a program without these refuses the
//! value and never loses them, and all other values keep their bytes. The codecs of objects and buckets ask
//! the version of the bytes around them which fields are absent.

use super::data_ref::DataRefForm;
use crate::codec::{DecodeError, Reader};
use crate::record::check::require;
use crate::record::{OverLimit, State, Value, VersionKind};

/// The versions of a value's stored form: all are read, the last three are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum ValueVersion {
    /// Changes have no numbered tries, which is try 0, and there are at most four.
    Unnumbered = 1,
    /// Data references name no set.
    WithoutSets = 2,
    /// Conditional changes and tags of buckets are absent, and each upload has its attributes.
    Unconditional = 3,
    /// No record has entries, and of conditional changes there are at most sixteen, each with an entity tag
    /// and no second.
    Conditional = 4,
    /// At least one record has entries.
    WithEntries = 5,
    /// There is at least one conditional change.
    WithSeconds = 6,
}

impl ValueVersion {
    /// The version that a stored value begins with.
    pub(super) fn take(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8("value")? {
            1 => Ok(Self::Unnumbered),
            2 => Ok(Self::WithoutSets),
            3 => Ok(Self::Unconditional),
            4 => Ok(Self::Conditional),
            5 => Ok(Self::WithEntries),
            6 => Ok(Self::WithSeconds),
            version => Err(DecodeError::Version { field: "value", version }),
        }
    }

    /// The version in which a value is stored.
    pub(super) fn of(value: &Value) -> Self {
        let Value { changes, state } = value;
        if !changes.conditional.is_empty() {
            Self::WithSeconds
        } else if has_entries(state) {
            Self::WithEntries
        } else {
            Self::Conditional
        }
    }

    /// Requires that a value which was read in this version has what the version is for.
    pub(super) fn judge(self, value: &Value) -> Result<(), OverLimit> {
        match self {
            Self::Unnumbered | Self::WithoutSets | Self::Unconditional | Self::Conditional => Ok(()),
            Self::WithEntries => require(has_entries(&value.state), "entries"),
            Self::WithSeconds => require(!value.changes.conditional.is_empty(), "conditional changes"),
        }
    }

    /// The form of its data references.
    pub(super) fn data_refs(self) -> DataRefForm {
        if self >= Self::Unconditional { DataRefForm::WithSet } else { DataRefForm::WithoutSet }
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
