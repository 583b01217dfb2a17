//! How records name each other.

use super::name::{AccessKeyId, EntityId};
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
