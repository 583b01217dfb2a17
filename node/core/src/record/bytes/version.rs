//! Which versions of a value's stored form there are, and in what they differ.
//!
//! A value is read in any of them. It is written in version 4, or in 5 where one of its records has an entry:
//! a program without entries refuses the value and never loses them. The codecs of objects and buckets ask
//! the version of the bytes around them which fields are absent.

use super::data_ref::DataRefForm;
use crate::codec::{DecodeError, Reader};
use crate::record::{State, VersionKind};

/// The versions of a value's stored form: all are read, the last two are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum ValueVersion {
    /// Changes have no numbered tries, which is try 0, and there are at most four.
    Unnumbered = 1,
    /// Data references name no set.
    WithoutSets = 2,
    /// Conditional changes and tags of buckets are absent, and each upload has its attributes.
    Unconditional = 3,
    /// No record has entries.
    Conditional = 4,
    /// At least one record has entries.
    WithEntries = 5,
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
            version => Err(DecodeError::Version { field: "value", version }),
        }
    }

    /// The version in which a state is stored.
    pub(super) fn of(state: &State) -> Self {
        let has_entries = match state {
            State::Bucket(bucket) => !bucket.entries.is_empty(),
            State::Object(object) => object.versions.iter().any(|version| match &version.kind {
                VersionKind::Content(content) => !content.entries.is_empty(),
                VersionKind::DeleteMarker => false,
            }),
            State::Tombstone | State::Part(_) | State::UploadAttributes(_) => false,
        };
        if has_entries { Self::WithEntries } else { Self::Conditional }
    }

    /// The form of its data references.
    pub(super) fn data_refs(self) -> DataRefForm {
        if self >= Self::Unconditional { DataRefForm::WithSet } else { DataRefForm::WithoutSet }
    }
}
