//! The account as a whole: its public access block.
//!
//! ```text
//! account := version u8 = 1, block blob (the bytes of a bucket's block; empty without one)
//! ```

use bytes::Bytes;

use super::{VERSION, begin};
use crate::codec::{DecodeError, Writer};
use crate::config::public_access::PublicAccessBlock;
use crate::id::{ObjectKey, RegisterKey};

/// The account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Public access block, where it was set.
    pub public_access_block: Option<PublicAccessBlock>,
}

impl Account {
    /// The register of the account.
    ///
    /// # Panics
    /// Never: the name is a key.
    pub fn register() -> RegisterKey {
        RegisterKey::bucket(ObjectKey::new("iam/account").expect("eleven letters"))
    }

    /// Stored bytes of the record.
    pub fn encode(&self) -> Bytes {
        let block = self.public_access_block.as_ref().map(PublicAccessBlock::encode).unwrap_or_default();
        let mut writer = Writer::new();
        writer.u8(VERSION).blob(&block);
        writer.finish()
    }

    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "account")?;
        let block = reader.blob("public access block")?;
        reader.finish("account")?;
        let is_set = !block.is_empty();
        let public_access_block = is_set.then(|| PublicAccessBlock::decode(block)).transpose()?;
        Ok(Self { public_access_block })
    }
}
