//! How records name themselves and each other.

use super::name::{AccessKeyId, EntityId, EntityKind, InvalidEntity, check_path};
use crate::codec::{DecodeError, Reader, Writer};

/// Names another entity: it is that one only where its id is this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityRef {
    /// Its name, as it is capitalised.
    pub name: String,
    /// Its id.
    pub id: EntityId,
}

impl EntityRef {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.blob(self.name.as_bytes()).blob(self.id.as_str().as_bytes());
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { name: reader.text("name")?, id: read_id(reader)? })
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
