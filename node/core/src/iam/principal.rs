//! Users and groups, with the policies of each.
//!
//! ```text
//! user     := version u8, named, tags, policies, groups n u32 x ref, keys n u32 x key
//! group    := version u8, named, policies
//! key      := id text, status u8 (1 active, 2 inactive)
//! named    := id text, name text, path text, created ms u64
//! policies := inline n u32 x (name text, document text), attached n u32 x ref,
//!             in versions 2 and 4 alone: of AWS n u32 x name text
//! ref      := home text (the last part of its register's name), id text
//! tags     := n u32 x (key text, value text)
//! ```
//! A record is of version 2 where a policy of AWS is attached, and of version 1 else. A program that does not
//! have such policies refuses version 2, and with it the user: it must not leave one out that denies. A user
//! that has a key whose id was given, and not drawn here, is of version 4, attached policies of AWS or not.

use bytes::Bytes;

use super::name::{AccessKeyId, EntityId, EntityKind};
use super::policy::{ManagedPolicy, PolicyVendor};
use super::reference::{EntityRef, read_key_id, read_named, write_named};
use super::{
    VERSION, VERSION_OF_AWS, VERSION_OF_GIVEN_KEYS, VERSION_OF_RENAMES, begin_of, read_tags, write_tags,
};
use crate::codec::{DecodeError, Reader, Writer};
use crate::limits::{IAM_ATTACHED_MAX, IAM_GROUPS_MAX, IAM_INLINE_MAX, IAM_USER_KEYS_MAX};
use crate::record::Tag;

/// Bytes of the shortest pair of texts.
const TEXTS_BYTES: usize = 8;
const AWS_FIELD: &str = "policies of AWS";

/// A policy that is part of a user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlinePolicy {
    /// Name of the policy, which no other of its owner has, however it is capitalised.
    pub name: String,
    /// Document, as it was given.
    pub document: String,
}

/// The policies of a user or a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicySet {
    /// Inline policies, by name.
    pub inline: Vec<InlinePolicy>,
    /// The account's managed ones that are attached to it.
    pub attached: Vec<EntityRef>,
    /// The names of AWS's managed ones that are attached to it.
    pub aws: Vec<String>,
}

impl PolicySet {
    /// How many managed policies are attached.
    pub const fn attached_count(&self) -> usize {
        self.attached.len() + self.aws.len()
    }

    /// Whether a managed policy is attached.
    pub fn has(&self, policy: &ManagedPolicy) -> bool {
        match policy.vendor {
            PolicyVendor::Account => self.attached.iter().any(|known| known.id == policy.id),
            PolicyVendor::Aws => self.aws.contains(&policy.name),
        }
    }

    /// The version of a record with these policies.
    const fn version(&self) -> u8 {
        if self.aws.is_empty() { VERSION } else { VERSION_OF_AWS }
    }

    fn write(&self, writer: &mut Writer, version: u8) {
        let Self { inline, attached, aws } = self;
        writer.count(inline.len());
        for InlinePolicy { name, document } in inline {
            writer.blob(name.as_bytes()).blob(document.as_bytes());
        }
        write_refs(writer, attached);
        if version != VERSION {
            writer.count(aws.len());
            for name in aws {
                writer.blob(name.as_bytes());
            }
        }
    }

    fn read(reader: &mut Reader, version: u8) -> Result<Self, DecodeError> {
        let count = reader.count(TEXTS_BYTES, "inline policies")?;
        if count > IAM_INLINE_MAX {
            return Err(DecodeError::Invalid { field: "inline policies" });
        }
        let mut inline = Vec::with_capacity(count);
        for _ in 0..count {
            let (name, document) = (reader.text("policy name")?, reader.text("policy document")?);
            inline.push(InlinePolicy { name, document });
        }
        let attached = read_refs(reader, IAM_ATTACHED_MAX, "attached policies")?;
        let aws = if version == VERSION { Vec::new() } else { read_aws(reader)? };
        if version == VERSION_OF_AWS && aws.is_empty() {
            return Err(DecodeError::Invalid { field: AWS_FIELD });
        }
        Ok(Self { inline, attached, aws })
    }
}

/// Whether a key may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyStatus {
    /// May be used.
    Active = 1,
    /// May not be used until it is made active again.
    Inactive = 2,
}

/// An access key of a user. Its status is a part of the user's record, so that each change of one key of the
/// user is decided by what the others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserKey {
    /// Id of the key.
    pub id: AccessKeyId,
    /// Whether it may be used.
    pub status: KeyStatus,
}

impl UserKey {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let id = read_key_id(reader)?;
        let status = match reader.u8("key status")? {
            1 => KeyStatus::Active,
            2 => KeyStatus::Inactive,
            _ => return Err(DecodeError::Invalid { field: "key status" }),
        };
        Ok(Self { id, status })
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    /// Id of the user.
    pub id: EntityId,
    /// The last part of the name of the register that it lives in, in any case: the name that it was made
    /// with, or a tilde and its id. Its bytes do not have it.
    pub home: String,
    /// Name of the user, as it is capitalised.
    pub name: String,
    /// Path of the user.
    pub path: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Tags of the user.
    pub tags: Vec<Tag>,
    /// Policies of the user.
    pub policies: PolicySet,
    /// The groups that it is in.
    pub groups: Vec<EntityRef>,
    /// Access keys of the user.
    pub keys: Vec<UserKey>,
}

impl UserRecord {
    /// ARN of the user.
    pub fn arn(&self) -> String {
        EntityKind::User.arn(&self.path, &self.name)
    }

    /// Access key of this id.
    pub fn key(&self, id: AccessKeyId) -> Option<UserKey> {
        self.keys.iter().copied().find(|key| key.id == id)
    }

    /// Whether a key is one of its own, and active.
    pub fn has_active(&self, id: AccessKeyId) -> bool {
        self.key(id).is_some_and(|key| key.status == KeyStatus::Active)
    }

    /// The version of its stored bytes.
    fn version(&self) -> u8 {
        if self.keys.iter().any(|key| key.id.is_given()) {
            VERSION_OF_GIVEN_KEYS
        } else {
            self.policies.version()
        }
    }

    /// Stored bytes of the record.
    pub fn encode(&self) -> Bytes {
        let Self { id, home: _, name, path, created_ms, tags, policies, groups, keys } = self;
        let mut writer = Writer::new();
        let version = self.version();
        writer.u8(version);
        write_named(&mut writer, (id, name, path, *created_ms));
        write_tags(&mut writer, tags);
        policies.write(&mut writer, version);
        write_refs(&mut writer, groups);
        writer.count(keys.len());
        for key in keys {
            writer.blob(key.id.as_str().as_bytes()).u8(key.status as u8);
        }
        writer.finish()
    }

    /// From its stored bytes, where it lives under its own name.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let (mut reader, version) = begin_of(bytes, "user", VERSION_OF_GIVEN_KEYS)?;
        if version == VERSION_OF_RENAMES {
            return Err(DecodeError::Version { field: "user", version });
        }
        let (id, name, path, created_ms) = read_named(&mut reader, EntityKind::User)?;
        let tags = read_tags(&mut reader)?;
        let policies = PolicySet::read(&mut reader, version)?;
        let groups = read_refs(&mut reader, IAM_GROUPS_MAX, "groups")?;
        let count = reader.count(5, "access keys")?;
        if count > IAM_USER_KEYS_MAX {
            return Err(DecodeError::Invalid { field: "access keys" });
        }
        let keys = (0..count).map(|_| UserKey::read(&mut reader)).collect::<Result<_, _>>()?;
        reader.finish("user")?;
        let user = Self { id, home: name.clone(), name, path, created_ms, tags, policies, groups, keys };
        if user.version() == version { Ok(user) } else { Err(DecodeError::Invalid { field: "access keys" }) }
    }
}

/// A group of users. The users' records name the groups that they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    /// Id of the group.
    pub id: EntityId,
    /// The last part of the name of the register that it lives in, in any case: the name that it was made
    /// with, or a tilde and its id. Its bytes do not have it.
    pub home: String,
    /// Name of the group, as it is capitalised.
    pub name: String,
    /// Path of the group.
    pub path: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Policies of the group.
    pub policies: PolicySet,
}

impl GroupRecord {
    /// ARN of the group.
    pub fn arn(&self) -> String {
        EntityKind::Group.arn(&self.path, &self.name)
    }

    /// Stored bytes of the record.
    pub fn encode(&self) -> Bytes {
        let Self { id, home: _, name, path, created_ms, policies } = self;
        let mut writer = Writer::new();
        writer.u8(policies.version());
        write_named(&mut writer, (id, name, path, *created_ms));
        policies.write(&mut writer, policies.version());
        writer.finish()
    }

    /// From its stored bytes, where it lives under its own name.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let (mut reader, version) = begin_of(bytes, "group", VERSION_OF_AWS)?;
        let (id, name, path, created_ms) = read_named(&mut reader, EntityKind::Group)?;
        let policies = PolicySet::read(&mut reader, version)?;
        reader.finish("group")?;
        Ok(Self { id, home: name.clone(), name, path, created_ms, policies })
    }
}

fn write_refs(writer: &mut Writer, refs: &[EntityRef]) {
    writer.count(refs.len());
    for reference in refs {
        reference.write(writer);
    }
}

/// Each once.
fn read_aws(reader: &mut Reader) -> Result<Vec<String>, DecodeError> {
    const FIELD: &str = AWS_FIELD;
    let count = reader.count(TEXTS_BYTES / 2, FIELD)?;
    if count > IAM_ATTACHED_MAX {
        return Err(DecodeError::Invalid { field: FIELD });
    }
    let mut names: Vec<String> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.text(FIELD)?;
        if names.contains(&name) || EntityKind::Policy.check_name(&name).is_err() {
            return Err(DecodeError::Invalid { field: FIELD });
        }
        names.push(name);
    }
    Ok(names)
}

fn read_refs(reader: &mut Reader, max: usize, field: &'static str) -> Result<Vec<EntityRef>, DecodeError> {
    let count = reader.count(TEXTS_BYTES, field)?;
    if count > max {
        return Err(DecodeError::Invalid { field });
    }
    (0..count).map(|_| EntityRef::read(reader)).collect()
}
