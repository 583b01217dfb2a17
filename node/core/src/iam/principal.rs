//! Users and groups, with the policies of each.
//!
//! ```text
//! user     := version u8 = 1, named, tags, policies, groups n u32 x ref, keys n u32 x key
//! group    := version u8 = 1, named, policies
//! key      := id text, status u8 (1 active, 2 inactive)
//! named    := id text, name text, path text, created ms u64
//! policies := inline n u32 x (name text, document text), attached n u32 x ref
//! ref      := name text, id text
//! tags     := n u32 x (key text, value text)
//! ```

use bytes::Bytes;

use super::name::{AccessKeyId, EntityId, EntityKind, InvalidEntity, check_path};
use super::reference::{EntityRef, read_id, read_key_id};
use super::{VERSION, begin, read_tags, write_tags};
use crate::codec::{DecodeError, Reader, Writer};
use crate::limits::{IAM_ATTACHED_MAX, IAM_GROUPS_MAX, IAM_INLINE_MAX, IAM_USER_KEYS_MAX};
use crate::record::Tag;

/// Bytes of the shortest pair of texts.
const TEXTS_BYTES: usize = 8;

/// A policy that is part of a user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlinePolicy {
    /// Its name, which no other of its owner has, however it is capitalised.
    pub name: String,
    /// Its document, as it was given.
    pub document: String,
}

/// The policies of a user or a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicySet {
    /// Those that are part of it, by name.
    pub inline: Vec<InlinePolicy>,
    /// The managed ones that are attached to it.
    pub attached: Vec<EntityRef>,
}

impl PolicySet {
    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.inline.is_empty() && self.attached.is_empty()
    }

    fn write(&self, writer: &mut Writer) {
        writer.count(self.inline.len());
        for InlinePolicy { name, document } in &self.inline {
            writer.blob(name.as_bytes()).blob(document.as_bytes());
        }
        write_refs(writer, &self.attached);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let count = reader.count(TEXTS_BYTES, "inline policies")?;
        if count > IAM_INLINE_MAX {
            return Err(DecodeError::Invalid { field: "inline policies" });
        }
        let mut inline = Vec::with_capacity(count);
        for _ in 0..count {
            let (name, document) = (reader.text("policy name")?, reader.text("policy document")?);
            inline.push(InlinePolicy { name, document });
        }
        Ok(Self { inline, attached: read_refs(reader, IAM_ATTACHED_MAX, "attached policies")? })
    }
}

/// Whether a key may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyStatus {
    /// It may.
    Active = 1,
    /// It may not, until it is made active again.
    Inactive = 2,
}

/// An access key of a user. Its status is a part of the user's record, so that each change of one key of the
/// user is decided by what the others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserKey {
    /// Its id.
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
    /// Its id.
    pub id: EntityId,
    /// Its name, as it is capitalised.
    pub name: String,
    /// Its path.
    pub path: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Its tags.
    pub tags: Vec<Tag>,
    /// Its policies.
    pub policies: PolicySet,
    /// The groups that it is in.
    pub groups: Vec<EntityRef>,
    /// Its access keys.
    pub keys: Vec<UserKey>,
}

impl UserRecord {
    /// Its ARN.
    pub fn arn(&self) -> String {
        EntityKind::User.arn(&self.path, &self.name)
    }

    /// One of its access keys.
    pub fn key(&self, id: AccessKeyId) -> Option<UserKey> {
        self.keys.iter().copied().find(|key| key.id == id)
    }

    /// Whether a key is one of its own, and active.
    pub fn has_active(&self, id: AccessKeyId) -> bool {
        self.key(id).is_some_and(|key| key.status == KeyStatus::Active)
    }

    /// Names it for other records.
    pub fn reference(&self) -> EntityRef {
        EntityRef { name: self.name.clone(), id: self.id.clone() }
    }

    /// Its stored bytes.
    pub fn encode(&self) -> Bytes {
        let Self { id, name, path, created_ms, tags, policies, groups, keys } = self;
        let mut writer = Writer::new();
        writer.u8(VERSION);
        write_named(&mut writer, (id, name, path, *created_ms));
        write_tags(&mut writer, tags);
        policies.write(&mut writer);
        write_refs(&mut writer, groups);
        writer.count(keys.len());
        for key in keys {
            writer.blob(key.id.as_str().as_bytes()).u8(key.status as u8);
        }
        writer.finish()
    }

    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "user")?;
        let (id, name, path, created_ms) = read_named(&mut reader, EntityKind::User)?;
        let tags = read_tags(&mut reader)?;
        let policies = PolicySet::read(&mut reader)?;
        let groups = read_refs(&mut reader, IAM_GROUPS_MAX, "groups")?;
        let count = reader.count(5, "access keys")?;
        if count > IAM_USER_KEYS_MAX {
            return Err(DecodeError::Invalid { field: "access keys" });
        }
        let keys = (0..count).map(|_| UserKey::read(&mut reader)).collect::<Result<_, _>>()?;
        reader.finish("user")?;
        Ok(Self { id, name, path, created_ms, tags, policies, groups, keys })
    }
}

/// A group of users. The users' records name the groups that they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    /// Its id.
    pub id: EntityId,
    /// Its name, as it is capitalised.
    pub name: String,
    /// Its path.
    pub path: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Its policies.
    pub policies: PolicySet,
}

impl GroupRecord {
    /// Its ARN.
    pub fn arn(&self) -> String {
        EntityKind::Group.arn(&self.path, &self.name)
    }

    /// Names it for other records.
    pub fn reference(&self) -> EntityRef {
        EntityRef { name: self.name.clone(), id: self.id.clone() }
    }

    /// Its stored bytes.
    pub fn encode(&self) -> Bytes {
        let Self { id, name, path, created_ms, policies } = self;
        let mut writer = Writer::new();
        writer.u8(VERSION);
        write_named(&mut writer, (id, name, path, *created_ms));
        policies.write(&mut writer);
        writer.finish()
    }

    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "group")?;
        let (id, name, path, created_ms) = read_named(&mut reader, EntityKind::Group)?;
        let policies = PolicySet::read(&mut reader)?;
        reader.finish("group")?;
        Ok(Self { id, name, path, created_ms, policies })
    }
}

type NamedFields = (EntityId, String, String, u64);

pub(super) fn write_named(writer: &mut Writer, (id, name, path, created_ms): (&EntityId, &str, &str, u64)) {
    writer.blob(id.as_str().as_bytes()).blob(name.as_bytes()).blob(path.as_bytes()).u64(created_ms);
}

pub(super) fn read_named(reader: &mut Reader, kind: EntityKind) -> Result<NamedFields, DecodeError> {
    let invalid = |invalid| match invalid {
        InvalidEntity::Name { .. } => DecodeError::Invalid { field: "name" },
        InvalidEntity::Path => DecodeError::Invalid { field: "path" },
        InvalidEntity::Id => DecodeError::Invalid { field: "id" },
    };
    let (id, name, path) = (read_id(reader)?, reader.text("name")?, reader.text("path")?);
    kind.check_name(&name).and_then(|()| check_path(&path)).map_err(invalid)?;
    Ok((id, name, path, reader.u64("creation")?))
}

fn write_refs(writer: &mut Writer, refs: &[EntityRef]) {
    writer.count(refs.len());
    for reference in refs {
        reference.write(writer);
    }
}

fn read_refs(reader: &mut Reader, max: usize, field: &'static str) -> Result<Vec<EntityRef>, DecodeError> {
    let count = reader.count(TEXTS_BYTES, field)?;
    if count > max {
        return Err(DecodeError::Invalid { field });
    }
    (0..count).map(|_| EntityRef::read(reader)).collect()
}
