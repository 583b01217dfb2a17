//! How records name themselves and each other.

use super::name::{AccessKeyId, EntityId, EntityKind, InvalidEntity, check_path};
use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{ObjectKey, RegisterKey};

/// The first letter of the last part of a home that is named by an id. No name has it.
const HOME_BY_ID: char = '~';

/// Names another entity: it is that one only where its id is this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityRef {
    /// The last part of the name of the register that it lives in, in any case: the name that it was made
    /// with, or a tilde and its id. A managed policy keeps its name.
    pub home: String,
    /// Id of the entity.
    pub id: EntityId,
}

impl EntityRef {
    /// Names an entity whose home is named by its id.
    pub fn by_id(id: EntityId) -> Self {
        Self { home: format!("{HOME_BY_ID}{id}"), id }
    }

    /// Whether the entity's home is named by its id.
    pub fn is_by_id(&self) -> bool {
        self.home.starts_with(HOME_BY_ID)
    }

    /// The register that an entity of this kind lives in.
    ///
    /// # Errors
    /// [`InvalidEntity`] where no entity lives in such a one.
    ///
    /// # Panics
    /// Never: the name of a register is a key.
    pub fn register(&self, kind: EntityKind) -> Result<RegisterKey, InvalidEntity> {
        match self.home.strip_prefix(HOME_BY_ID) {
            Some(id) if id.eq_ignore_ascii_case(self.id.as_str()) => {
                let name = format!("{}{}", kind.registers(), self.home.to_ascii_lowercase());
                Ok(RegisterKey::bucket(ObjectKey::new(name).expect("some 35 letters")))
            }
            Some(_) => Err(InvalidEntity::Id),
            None => kind.register(&self.home),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.blob(self.home.as_bytes()).blob(self.id.as_str().as_bytes());
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { home: reader.text("home")?, id: read_id(reader)? })
    }
}

pub(super) fn read_id(reader: &mut Reader) -> Result<EntityId, DecodeError> {
    EntityId::parse(reader.text("id")?).map_err(|_| DecodeError::Invalid { field: "id" })
}

pub(super) fn read_key_id(reader: &mut Reader) -> Result<AccessKeyId, DecodeError> {
    let text = reader.text("access key id")?;
    AccessKeyId::parse(&text).ok_or(DecodeError::Invalid { field: "access key id" })
}

/// Id, name, path and creation of a record, its `named`.
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
