//! Records of identity and access management: users, groups, access keys, managed policies, the
//! account, and when a key was last used.
//!
//! Each is a register of the system namespace, `iam/<kind>/<name in lower case>`, with its record as the body
//! of an object. A record begins with the version of its form. Records name each other by register and id
//! ([`EntityRef`]): a record that was deleted and made again under its name has another id, so what named the
//! former one names nothing. A user or a group that is renamed stays in its register ([`NameRegister`]).
//! `docs/disk-format.md` draws them. No bucket has a slash in its name.

#![deny(clippy::indexing_slicing)]

mod name;
mod reference;
mod key;
mod principal;
mod register;
mod policy;
mod account;

pub use account::Account;
pub use key::{KeyRecord, KeyUse, WrappedSecret};
pub use name::{AccessKeyId, EntityId, EntityKind, InvalidEntity, check_path, check_policy_name};
pub use policy::{ManagedPolicy, PolicyVendor, PolicyVersion};
pub use principal::{GroupRecord, InlinePolicy, KeyStatus, PolicySet, UserKey, UserRecord};
pub use reference::EntityRef;
pub use register::{NameClaim, NameRegister, NamedRecord};

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{BucketId, ObjectKey, RegisterKey};
use crate::limits::{IAM_RECORD_BYTES_MAX, IAM_TAGS_MAX};
use crate::record::Tag;

/// The number of the one account: 12 digits, as AWS's are.
pub const ACCOUNT: &str = "000000000001";

/// The first part of the names of all registers of IAM.
pub const REGISTERS: &str = "iam/";

/// A key behind all registers of IAM, and before all others that come behind them.
///
/// # Panics
/// Never: the name is a key.
pub fn behind_all() -> RegisterKey {
    RegisterKey::bucket(ObjectKey::new(format!("{REGISTERS}\u{10ffff}")).expect("eight bytes"))
}

/// Whether a key is one of a register of IAM.
pub fn is_register(key: &RegisterKey) -> bool {
    key.bucket == BucketId::SYSTEM && key.part.is_none() && key.key.as_str().starts_with(REGISTERS)
}

/// The version of the stored form of every record.
const VERSION: u8 = 1;
/// The version of a user or a group that a policy of AWS is attached to.
const VERSION_OF_AWS: u8 = 2;
/// The version of an access key whose user's home is named by an id.
const VERSION_OF_HOMES: u8 = 2;
/// The version of an access key whose id was given and not drawn here.
const VERSION_OF_GIVEN_ID: u8 = 3;
/// The version of a user that has a key whose id was given.
const VERSION_OF_GIVEN_KEYS: u8 = 4;
/// The version of a register of a name that has to do with a renamed user or group.
const VERSION_OF_RENAMES: u8 = 3;

/// Begins to read a record: its size and its version.
fn begin(bytes: Bytes, field: &'static str) -> Result<Reader, DecodeError> {
    begin_of(bytes, field, VERSION).map(|(reader, _)| reader)
}

/// Begins to read a record of version 1 to `max`: its size and its version.
fn begin_of(bytes: Bytes, field: &'static str, max: u8) -> Result<(Reader, u8), DecodeError> {
    if bytes.len() > IAM_RECORD_BYTES_MAX {
        return Err(DecodeError::Invalid { field });
    }
    let mut reader = Reader::new(bytes);
    let version = reader.u8(field)?;
    if (VERSION..=max).contains(&version) {
        Ok((reader, version))
    } else {
        Err(DecodeError::Version { field, version })
    }
}

fn write_tags(writer: &mut Writer, tags: &[Tag]) {
    writer.count(tags.len());
    for Tag { key, value } in tags {
        writer.blob(key.as_bytes()).blob(value.as_bytes());
    }
}

fn read_tags(reader: &mut Reader) -> Result<Vec<Tag>, DecodeError> {
    let count = reader.count(8, "tags")?;
    if count > IAM_TAGS_MAX {
        return Err(DecodeError::Invalid { field: "tags" });
    }
    (0..count).map(|_| Ok(Tag { key: reader.text("tag key")?, value: reader.text("tag value")? })).collect()
}

#[cfg(test)]
mod tests;
