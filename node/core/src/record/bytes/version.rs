//! Which versions of a value's stored form there are, and in what they differ.
//!
//! A value is read in any of them and written in the last one, see the head of `mod.rs`. The codecs of objects and
//! buckets ask the version of the bytes around them for what those lack.

use super::data_ref::DataRefForm;
use crate::codec::{DecodeError, Reader};

/// The versions of a value's stored form: all are read, the last one is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum ValueVersion {
    /// Changes have no numbered tries, which is try 0, and there are at most four.
    Unnumbered = 1,
    /// Data references name no set.
    WithoutSets = 2,
    /// There are no conditional changes and no tags of buckets, and each upload has its attributes.
    Unconditional = 3,
    /// With all of it.
    Conditional = 4,
}

impl ValueVersion {
    /// The version that a stored value begins with.
    pub(super) fn take(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8("value")? {
            1 => Ok(Self::Unnumbered),
            2 => Ok(Self::WithoutSets),
            3 => Ok(Self::Unconditional),
            4 => Ok(Self::Conditional),
            version => Err(DecodeError::Version { field: "value", version }),
        }
    }

    /// The form of its data references.
    pub(super) fn data_refs(self) -> DataRefForm {
        if self >= Self::Unconditional { DataRefForm::WithSet } else { DataRefForm::WithoutSet }
    }
}
