//! An access key: its user, and its secret wrapped by the master key; and when it was last used. Whether it
//! may be used is in its user's record.
//!
//! ```text
//! key  := version u8 (1; 2 where its user lives under its id; 3 where its own id was given), id text,
//!         user EntityRef, created ms u64, fingerprint 8, nonce 12,
//!         secret blob (sealed, its tag of 16 bytes behind it)
//! use  := version u8 = 1, used ms u64, service text, region text
//! ```

use std::fmt;

use bytes::Bytes;

use super::name::AccessKeyId;
use super::reference::{EntityRef, read_key_id};
use super::{VERSION, VERSION_OF_GIVEN_ID, VERSION_OF_HOMES, begin, begin_of};
use crate::codec::{DecodeError, Writer};
use crate::limits::{IAM_SECRET_BYTES_MAX, IAM_USE_TEXT_BYTES_MAX};

/// A secret under the master key: AES-256-GCM with the key's id as additional data.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedSecret {
    /// Names the master key.
    pub fingerprint: [u8; 8],
    /// Drawn for this secret alone.
    pub nonce: [u8; 12],
    /// The sealed secret, with its tag.
    pub sealed: Bytes,
}

impl fmt::Debug for WrappedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrappedSecret({})", hex::encode(self.fingerprint))
    }
}

/// An access key. It is good where its user is there with this id, and the user's record lists it as active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Id of the key.
    pub id: AccessKeyId,
    /// User of the key.
    pub user: EntityRef,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Secret of the key.
    pub secret: WrappedSecret,
}

impl KeyRecord {
    /// Stored bytes of the record.
    pub fn encode(&self) -> Bytes {
        let Self { id, user, created_ms, secret } = self;
        let WrappedSecret { fingerprint, nonce, sealed } = secret;
        let mut writer = Writer::new();
        writer.u8(Self::version(*id, user)).blob(id.as_str().as_bytes());
        user.write(&mut writer);
        writer.u64(*created_ms).raw(fingerprint).raw(nonce).blob(sealed);
        writer.finish()
    }

    /// The version of a key of this id and this user.
    fn version(id: AccessKeyId, user: &EntityRef) -> u8 {
        if id.is_given() {
            VERSION_OF_GIVEN_ID
        } else if user.is_by_id() {
            VERSION_OF_HOMES
        } else {
            VERSION
        }
    }

    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let (mut reader, version) = begin_of(bytes, "access key", VERSION_OF_GIVEN_ID)?;
        let id = read_key_id(&mut reader)?;
        let user = EntityRef::read(&mut reader)?;
        let created_ms = reader.u64("creation")?;
        let secret = WrappedSecret {
            fingerprint: reader.array("fingerprint")?,
            nonce: reader.array("nonce")?,
            sealed: reader.blob("secret")?,
        };
        reader.finish("access key")?;
        if version != Self::version(id, &user) {
            return Err(DecodeError::Invalid { field: "user" });
        }
        if secret.sealed.len() > IAM_SECRET_BYTES_MAX {
            return Err(DecodeError::Invalid { field: "secret" });
        }
        Ok(Self { id, user, created_ms, secret })
    }
}

/// When a key was last used, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// In milliseconds since the Unix epoch.
    pub used_ms: u64,
    /// The service, as the signature names it.
    pub service: String,
    /// The region, as the signature names it.
    pub region: String,
}

impl KeyUse {
    /// Stored bytes of the record.
    pub fn encode(&self) -> Bytes {
        let Self { used_ms, service, region } = self;
        let mut writer = Writer::new();
        writer.u8(VERSION).u64(*used_ms).blob(service.as_bytes()).blob(region.as_bytes());
        writer.finish()
    }

    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "key use")?;
        let (used_ms, service) = (reader.u64("time of use")?, reader.text("service")?);
        let region = reader.text("region")?;
        reader.finish("key use")?;
        if service.len().max(region.len()) > IAM_USE_TEXT_BYTES_MAX {
            return Err(DecodeError::Invalid { field: "key use" });
        }
        Ok(Self { used_ms, service, region })
    }
}
