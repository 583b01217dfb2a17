//! Kind 3: which public access is refused, although a policy allows it (AWS, "Blocking public access to your
//! Amazon S3 storage"). The account has one too, in the same bytes.
//!
//! ```text
//! block := version u8 = 1, settings u8: bit 0 BlockPublicAcls, 1 IgnorePublicAcls, 2 BlockPublicPolicy,
//!          3 RestrictPublicBuckets; all others 0
//! ```
//! A block with no setting on is not the same as no block: it is shown with four settings that are off.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer};

/// The version of the stored form.
const VERSION: u8 = 1;

/// One setting, by its bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PublicAccessSetting {
    /// Access control lists that give access to everyone are refused. Sherd has no such lists.
    BlockPublicAcls = 1,
    /// Access control lists that give access to everyone count for nothing. Sherd has no such lists.
    IgnorePublicAcls = 2,
    /// A bucket policy that is public is refused when it is put.
    BlockPublicPolicy = 4,
    /// A bucket policy that is public gives rights to users of the account alone.
    RestrictPublicBuckets = 8,
}

impl PublicAccessSetting {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::BlockPublicAcls,
        Self::IgnorePublicAcls,
        Self::BlockPublicPolicy,
        Self::RestrictPublicBuckets,
    ];
}

/// The settings that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublicAccessBlock {
    settings: u8,
}

impl PublicAccessBlock {
    /// All settings off.
    pub const NONE: Self = Self { settings: 0 };
    /// All settings on, as a new bucket has them.
    pub const ALL: Self = Self { settings: 15 };

    /// Whether a setting is on.
    pub const fn has(self, setting: PublicAccessSetting) -> bool {
        self.settings & setting as u8 != 0
    }

    /// The same with one setting on.
    #[must_use]
    pub const fn with(self, setting: PublicAccessSetting) -> Self {
        Self { settings: self.settings | setting as u8 }
    }

    /// The settings that are on here or there: what is in force for a bucket with this block in an account
    /// with that one.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self { settings: self.settings | other.settings }
    }

    /// Bytes that it keeps beside itself.
    #[expect(clippy::unused_self, reason = "each kind of configuration is asked")]
    pub(super) const fn heap_bytes(self) -> usize {
        0
    }

    /// The stored bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(self.settings);
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
            version => return Err(DecodeError::Version { field: "public access block", version }),
        }
        let settings = reader.u8("settings")?;
        reader.finish("public access block")?;
        if settings & !Self::ALL.settings == 0 {
            Ok(Self { settings })
        } else {
            Err(DecodeError::Invalid { field: "settings" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_these_bytes() {
        for (block, golden) in [
            (PublicAccessBlock::default(), "0100"),
            (PublicAccessBlock::default().with(PublicAccessSetting::BlockPublicAcls), "0101"),
            (PublicAccessBlock::default().with(PublicAccessSetting::IgnorePublicAcls), "0102"),
            (PublicAccessBlock::default().with(PublicAccessSetting::BlockPublicPolicy), "0104"),
            (PublicAccessBlock::default().with(PublicAccessSetting::RestrictPublicBuckets), "0108"),
            (PublicAccessBlock::ALL, "010f"),
        ] {
            assert_eq!(hex::encode(block.encode()), golden);
            assert_eq!(PublicAccessBlock::decode(block.encode()), Ok(block));
        }
        for bytes in ["", "01", "0110", "010f00", "020f", "00"] {
            let bytes = Bytes::from(hex::decode(bytes).expect("hex"));
            assert!(PublicAccessBlock::decode(bytes).is_err());
        }
    }

    #[test]
    fn settings_of_bucket_and_account_add_up() {
        let of = |setting| PublicAccessBlock::default().with(setting);
        let (policy, restrict) =
            (PublicAccessSetting::BlockPublicPolicy, PublicAccessSetting::RestrictPublicBuckets);
        let both = of(policy).union(of(restrict));
        for &setting in PublicAccessSetting::ALL {
            assert_eq!(both.has(setting), setting == policy || setting == restrict, "{setting:?}");
            assert!(PublicAccessBlock::ALL.has(setting));
        }
    }
}
