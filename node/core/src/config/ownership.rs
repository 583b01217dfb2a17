//! Kind 4: the ownership controls that were put, or that they were deleted. A bucket without the kind has
//! those of a new bucket.
//!
//! ```text
//! controls := version u8 = 1, u8: 0 deleted, 1 BucketOwnerEnforced
//! ```
//! They decide no access: Sherd has no access control lists, with either.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer};

/// The version of the stored form.
const VERSION: u8 = 1;

/// The ownership controls of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum OwnershipControls {
    /// Deleted by a request.
    Deleted = 0,
    /// `BucketOwnerEnforced`: the owner of the bucket owns its objects, and no list counts.
    #[default]
    BucketOwnerEnforced = 1,
}

impl OwnershipControls {
    /// Bytes that it keeps beside itself.
    #[expect(clippy::unused_self, reason = "each kind of configuration is asked")]
    pub(super) const fn heap_bytes(self) -> usize {
        0
    }

    /// The stored bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(*self as u8);
        writer.finish()
    }

    /// From the stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] on any bytes that [`Self::encode`] does not give.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8("version")? {
            VERSION => {}
            version => return Err(DecodeError::Version { field: "ownership controls", version }),
        }
        let number = reader.u8("ownership")?;
        reader.finish("ownership controls")?;
        match number {
            0 => Ok(Self::Deleted),
            1 => Ok(Self::BucketOwnerEnforced),
            _ => Err(DecodeError::Invalid { field: "ownership" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_these_bytes() {
        for (controls, golden) in
            [(OwnershipControls::Deleted, "0100"), (OwnershipControls::BucketOwnerEnforced, "0101")]
        {
            assert_eq!(hex::encode(controls.encode()), golden);
            assert_eq!(OwnershipControls::decode(controls.encode()), Ok(controls));
        }
        for bytes in ["", "01", "0102", "010100", "0201"] {
            let bytes = Bytes::from(hex::decode(bytes).expect("hex"));
            assert!(OwnershipControls::decode(bytes).is_err());
        }
    }
}
